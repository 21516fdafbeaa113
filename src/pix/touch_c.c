/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of the photometric entries of the function table: touch_math.h along a row.
 */
#include "src/pix/pix_table.h"

#include "src/pix/touch_math.h"

/* ---- into planes ---- */

void stk_unpack_u8_c(float *row, size_t pitch, const void *src, size_t n)
{
    const uint8_t *in = src;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) row[c * pitch + i] = in[i * 3 + c];
}

void stk_unpack_u16_c(float *row, size_t pitch, const void *src, size_t n)
{
    const uint16_t *in = src;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) row[c * pitch + i] = stk_level_of_u16(in[i * 3 + c]);
}

/* ---- colour ---- */

void stk_linear_c(float *plane, size_t n, float a, float c)
{
    for (size_t i = 0; i < n; i++) plane[i] = stk_linear(plane[i], a, c);
}

void stk_gamma_c(float *plane, size_t n, float a, float gain)
{
    for (size_t i = 0; i < n; i++) plane[i] = stk_gamma(plane[i], a, gain);
}

void stk_saturation_c(float *row, size_t pitch, size_t n, float a, float b)
{
    float *red = row, *green = row + pitch, *blue = row + 2 * pitch;
    for (size_t i = 0; i < n; i++) {
        const float gray = b * stk_gray(red[i], green[i], blue[i]);
        red[i] = stk_linear(red[i], a, gray);
        green[i] = stk_linear(green[i], a, gray);
        blue[i] = stk_linear(blue[i], a, gray);
    }
}

void stk_hue_c(float *row, size_t pitch, size_t n, const float turn[3])
{
    for (size_t i = 0; i < n; i++) stk_hue(row + i, row + pitch + i, row + 2 * pitch + i, turn);
}

uint64_t stk_gray_sum_c(const float *row, size_t pitch, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += stk_gray_steps(stk_gray(row[i], row[pitch + i], row[2 * pitch + i]));
    return sum;
}

/* ---- blur ---- */

void stk_blur_h_c(float *dst, const float *src, size_t n, const float *weight, uint32_t radius)
{
    for (size_t i = 0; i < n; i++) {
        const float *at = src + i;
        float sum = weight[0] * at[0];
        for (ptrdiff_t k = 1; k <= (ptrdiff_t)radius; k++) sum += weight[k] * (at[-k] + at[k]);
        dst[i] = sum;
    }
}

void stk_blur_v_c(float *dst, const float *const *rows, size_t n, const float *weight, uint32_t radius)
{
    for (size_t i = 0; i < n; i++) {
        float sum = weight[0] * rows[radius][i];
        for (uint32_t k = 1; k <= radius; k++) sum += weight[k] * (rows[radius - k][i] + rows[radius + k][i]);
        dst[i] = stk_clamp(sum);
    }
}

/* ---- noise ---- */

void stk_noise_c(float *plane, size_t n, const stk_noise *noise)
{
    for (size_t first = 0; first < n; first += STK_NOISE_GROUP)
        for (size_t lane = 0; lane < STK_NOISE_LANES; lane++) {
            const uint32_t word = (uint32_t)(first / STK_NOISE_GROUP * STK_NOISE_LANES + lane);
            float normal[2];
            stk_two_normals(stk_noise_word(word, noise->key), noise->a, normal);
            for (size_t k = 0, x = first + lane; k < 2 && x < n; k++, x += STK_NOISE_LANES)
                plane[x] = stk_clamp(plane[x] + (normal[k] + noise->b));
        }
}

/* ---- into the batch ---- */

/* dtype and layout are constants at every call. */
static inline __attribute__((always_inline)) void write_planes(const stk_writer *w, void *dst, size_t plane,
                                                               const float *row, size_t pitch, size_t n,
                                                               stoke_dtype dtype, stoke_layout layout)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++) {
            const size_t at = layout == STOKE_LAYOUT_CHW ? c * plane + i : i * 3 + c;
            const float v = row[c * pitch + i];
            if (dtype == STOKE_DTYPE_U8) {
                ((uint8_t *)dst)[at] = (uint8_t)stk_float_bits(v + STK_ROUND_MAGIC);
                continue;
            }
            const float x = (v * w->high[c] + w->high_bias[c]) + (v * w->low[c] + w->low_bias[c]);
            if (dtype == STOKE_DTYPE_F32)
                ((float *)dst)[at] = x;
            else
                ((uint16_t *)dst)[at] = dtype == STOKE_DTYPE_F16 ? stk_f16(x) : stk_bf16(x);
        }
}

#define DEFINE_PLANES(name, dtype, layout)                                                                   \
    void stk_planes_##name##_c(const stk_writer *writer, void *dst, size_t plane, const float *row,          \
                               size_t pitch, size_t n)                                                       \
    {                                                                                                        \
        write_planes(writer, dst, plane, row, pitch, n, dtype, layout);                                      \
    }
DEFINE_PLANES(u8_chw, STOKE_DTYPE_U8, STOKE_LAYOUT_CHW)
DEFINE_PLANES(u8_hwc, STOKE_DTYPE_U8, STOKE_LAYOUT_HWC)
DEFINE_PLANES(f32_chw, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW)
DEFINE_PLANES(f32_hwc, STOKE_DTYPE_F32, STOKE_LAYOUT_HWC)
DEFINE_PLANES(f16_chw, STOKE_DTYPE_F16, STOKE_LAYOUT_CHW)
DEFINE_PLANES(f16_hwc, STOKE_DTYPE_F16, STOKE_LAYOUT_HWC)
DEFINE_PLANES(bf16_chw, STOKE_DTYPE_BF16, STOKE_LAYOUT_CHW)
DEFINE_PLANES(bf16_hwc, STOKE_DTYPE_BF16, STOKE_LAYOUT_HWC)
#undef DEFINE_PLANES
