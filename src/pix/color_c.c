/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of the photometric entries of the function table: kernels/color_math.h along a row.
 */
#include "src/pix/pix_table.h"

#include "kernels/color_math.h"
#include "kernels/half.h"

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
        for (size_t c = 0; c < 3; c++) row[c * pitch + i] = k_level_of_u16(in[i * 3 + c]);
}

/* ---- colour ---- */

void stk_linear_c(float *plane, size_t n, float a, float c)
{
    for (size_t i = 0; i < n; i++) plane[i] = k_linear(plane[i], a, c);
}

void stk_gamma_c(float *plane, size_t n, float a, float gain)
{
    for (size_t i = 0; i < n; i++) plane[i] = k_gamma(plane[i], a, gain);
}

void stk_saturation_c(float *row, size_t pitch, size_t n, float a, float b)
{
    float *red = row, *green = row + pitch, *blue = row + 2 * pitch;
    for (size_t i = 0; i < n; i++) {
        const float gray = b * k_gray(red[i], green[i], blue[i]);
        red[i] = k_linear(red[i], a, gray);
        green[i] = k_linear(green[i], a, gray);
        blue[i] = k_linear(blue[i], a, gray);
    }
}

void stk_hue_c(float *row, size_t pitch, size_t n, const float turn[3])
{
    for (size_t i = 0; i < n; i++) k_hue(row + i, row + pitch + i, row + 2 * pitch + i, turn);
}

uint64_t stk_gray_sum_c(const float *row, size_t pitch, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += k_gray_steps(k_gray(row[i], row[pitch + i], row[2 * pitch + i]));
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
        dst[i] = k_clamp(sum);
    }
}

/* ---- noise ---- */

void stk_noise_c(float *plane, size_t n, const stk_pix_noise *noise)
{
    for (size_t first = 0; first < n; first += K_NOISE_GROUP)
        for (size_t lane = 0; lane < K_NOISE_LANES && first + lane < n; lane++) {
            const size_t x = first + lane, other = x + K_NOISE_LANES;
            const uint32_t word = k_noise_word((uint32_t)(first / 2 + lane), noise->key);
            const float radius = k_normal_radius(word, noise->a);
            plane[x] = k_add_noise(plane[x], k_first_normal(word, radius), noise->b);
            if (other < n) plane[other] = k_add_noise(plane[other], k_second_normal(word, radius), noise->b);
        }
}

/* ---- into the batch ---- */

/* dtype and layout are constants at every call. */
static inline __attribute__((always_inline)) void write_planes(const stk_pix_writer *w, void *dst,
                                                               size_t plane, const float *row, size_t pitch,
                                                               size_t n, stoke_dtype dtype,
                                                               stoke_layout layout)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++) {
            const size_t at = layout == STOKE_LAYOUT_CHW ? c * plane + i : i * 3 + c;
            const float v = row[c * pitch + i];
            if (dtype == STOKE_DTYPE_U8) {
                ((uint8_t *)dst)[at] = (uint8_t)k_round_u8(v);
                continue;
            }
            const float x = (v * w->high[c] + w->high_bias[c]) + (v * w->low[c] + w->low_bias[c]);
            if (dtype == STOKE_DTYPE_F32)
                ((float *)dst)[at] = x;
            else
                ((uint16_t *)dst)[at] = dtype == STOKE_DTYPE_F16 ? k_f16(x) : k_bf16(x);
        }
}

#define DEFINE_PLANES(name, dtype, layout)                                                                   \
    void stk_write_planes_##name##_c(const stk_pix_writer *writer, void *dst, size_t plane,                  \
                                     const float *row, size_t pitch, size_t n)                               \
    {                                                                                                        \
        write_planes(writer, dst, plane, row, pitch, n, STOKE_DTYPE_##dtype, STOKE_LAYOUT_##layout);         \
    }
DEFINE_PLANES(u8_chw, U8, CHW)
DEFINE_PLANES(u8_hwc, U8, HWC)
DEFINE_PLANES(f32_chw, F32, CHW)
DEFINE_PLANES(f32_hwc, F32, HWC)
DEFINE_PLANES(f16_chw, F16, CHW)
DEFINE_PLANES(f16_hwc, F16, HWC)
DEFINE_PLANES(bf16_chw, BF16, CHW)
DEFINE_PLANES(bf16_hwc, BF16, HWC)
#undef DEFINE_PLANES
