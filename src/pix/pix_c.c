/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of every entry of the function table, in plain C. Made to be read: the other tables are made
 * to be fast and have to give the same bytes.
 */
#include "src/pix/pix_table.h"

#include <string.h>

#include "kernels/mix.h"
#include "kernels/spline.h"
#include "kernels/half.h"

/* The reference of the warp's inner rows, in plain C. */

#define DEFINE_BILINEAR(name, type, blend)                                                                   \
    void name(void *dst, const void *src, size_t stride, const stk_pix_warp_line *line, size_t n)            \
    {                                                                                                        \
        type *out = dst;                                                                                     \
        for (size_t i = 0; i < n; i++, out += 3) {                                                           \
            const uint64_t x = stk_warp_x(line, i) + K_WARP_HALF_STEP;                                       \
            const uint64_t y = stk_warp_y(line, i) + K_WARP_HALF_STEP;                                       \
            const uint32_t wx = k_warp_weight(x), wy = k_warp_weight(y);                                     \
            const uint8_t *row = (const uint8_t *)src + (size_t)k_warp_whole(y) * stride;                    \
            const type *t = (const type *)row + (size_t)k_warp_whole(x) * 3;                                 \
            const type *b = (const type *)(row + stride) + (size_t)k_warp_whole(x) * 3;                      \
            for (int c = 0; c < 3; c++) out[c] = blend(t[c], t[c + 3], b[c], b[c + 3], wx, wy);              \
        }                                                                                                    \
    }
DEFINE_BILINEAR(stk_warp_u8c3_c, uint8_t, k_warp_blend_u8)
DEFINE_BILINEAR(stk_warp_u16c3_c, uint16_t, k_warp_blend_u16)
#undef DEFINE_BILINEAR

#define DEFINE_NEAREST(name, type)                                                                           \
    void name(void *dst, const void *src, size_t stride, const stk_pix_warp_line *line, size_t n)            \
    {                                                                                                        \
        type *out = dst;                                                                                     \
        for (size_t i = 0; i < n; i++) {                                                                     \
            const int32_t x = k_warp_whole(stk_warp_x(line, i) + K_WARP_HALF_PIXEL);                         \
            const int32_t y = k_warp_whole(stk_warp_y(line, i) + K_WARP_HALF_PIXEL);                         \
            out[i] = ((const type *)((const uint8_t *)src + (size_t)y * stride))[x];                         \
        }                                                                                                    \
    }
DEFINE_NEAREST(stk_warp_u8c1_c, uint8_t)
DEFINE_NEAREST(stk_warp_u16c1_c, uint16_t)
#undef DEFINE_NEAREST

void stk_cubic_c(int32_t *shift, const float *t, size_t n, const stk_pix_cubic *cubic)
{
    for (size_t i = 0; i < n; i++) shift[i] = k_spline_shift(cubic->a, t[i], cubic->limit);
}

/* Two rows of a batch into one: the reference of stk_pix_table.mix. */

#define DEFINE_MIX(name, type, load, store)                                                                  \
    void stk_mix_##name##_c(void *own, const void *other, size_t n, float lambda)                            \
    {                                                                                                        \
        type *a = own;                                                                                       \
        const type *b = other;                                                                               \
        for (size_t i = 0; i < n; i++) a[i] = store(k_mixed(load(a[i]), load(b[i]), lambda));                \
    }
#define ROUND_U8(v) (uint8_t)(int)((v) + 0.5f) /* to nearest, halves up: values are not negative */
DEFINE_MIX(f32, float, , )
DEFINE_MIX(u8, uint8_t, , ROUND_U8)
DEFINE_MIX(f16, uint16_t, k_from_f16, k_f16)
DEFINE_MIX(bf16, uint16_t, k_from_bf16, k_bf16)
#undef ROUND_U8
#undef DEFINE_MIX

/* ---- resize ---- */

static inline uint8_t clamp_u8(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* `channels` is a constant at every call, so the compiler makes one loop per kind. */
static inline __attribute__((always_inline)) void
resize_h_u8(uint8_t *dst, const uint8_t *src, const stk_pix_resize_axis *axis, uint32_t channels)
{
    const int32_t half = 1 << (axis->precision - 1);
    for (uint32_t i = 0; i < axis->out; i++, dst += channels) {
        const uint8_t *in = src + (size_t)axis->start[i] * channels;
        const int16_t *weight = axis->weight + (size_t)i * axis->taps;
        for (uint32_t c = 0; c < channels; c++) {
            int32_t sum = half;
            for (uint32_t k = 0; k < axis->count[i]; k++) sum += weight[k] * in[(size_t)k * channels + c];
            dst[c] = clamp_u8(sum >> axis->precision);
        }
    }
}

#define DEFINE_RESIZE_H(name, work, from, to, channels)                                                      \
    void name(void *dst, size_t dst_stride, const void *src, size_t src_stride, uint32_t rows,               \
              const stk_pix_resize_axis *axis)                                                               \
    {                                                                                                        \
        for (uint32_t y = 0; y < rows; y++)                                                                  \
            work((to *)((char *)dst + y * dst_stride), (const from *)((const char *)src + y * src_stride),   \
                 axis, channels);                                                                            \
    }
DEFINE_RESIZE_H(stk_resize_h_u8c1_c, resize_h_u8, uint8_t, uint8_t, 1)
DEFINE_RESIZE_H(stk_resize_h_u8c3_c, resize_h_u8, uint8_t, uint8_t, 3)

void stk_resize_v_u8_c(void *dst, const void *const *rows, size_t samples, const stk_pix_resize_axis *axis,
                       uint32_t y)
{
    const int16_t *weight = axis->weight + (size_t)y * axis->taps;
    const uint32_t count = axis->count[y];
    uint8_t *out = dst;
    for (size_t i = 0; i < samples; i++) {
        int32_t sum = 1 << (axis->precision - 1);
        for (uint32_t k = 0; k < count; k++) sum += weight[k] * ((const uint8_t *)rows[k])[i];
        out[i] = clamp_u8(sum >> axis->precision);
    }
}

static inline __attribute__((always_inline)) void
resize_h_u16(float *dst, const uint16_t *src, const stk_pix_resize_axis *axis, uint32_t channels)
{
    for (uint32_t i = 0; i < axis->out; i++, dst += channels) {
        const uint16_t *in = src + (size_t)axis->start[i] * channels;
        const float *weight = axis->weight_f + (size_t)i * axis->taps;
        for (uint32_t c = 0; c < channels; c++) {
            float sum = 0;
            for (uint32_t k = 0; k < axis->count[i]; k++)
                sum += weight[k] * (float)in[(size_t)k * channels + c];
            dst[c] = sum;
        }
    }
}

DEFINE_RESIZE_H(stk_resize_h_u16c1_c, resize_h_u16, uint16_t, float, 1)
DEFINE_RESIZE_H(stk_resize_h_u16c3_c, resize_h_u16, uint16_t, float, 3)
#undef DEFINE_RESIZE_H

void stk_resize_v_u16_c(void *dst, const void *const *rows, size_t samples, const stk_pix_resize_axis *axis,
                        uint32_t y)
{
    const float *weight = axis->weight_f + (size_t)y * axis->taps;
    const uint32_t count = axis->count[y];
    uint16_t *out = dst;
    for (size_t i = 0; i < samples; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < count; k++) sum += weight[k] * ((const float *)rows[k])[i];
        sum += 0.5f; /* weights and samples are not negative, so neither is the sum */
        out[i] = sum >= 65535.0f ? 65535 : (uint16_t)sum;
    }
}

/* ---- into the batch ---- */

static inline size_t element_at(stoke_layout layout, size_t plane, size_t pixel, size_t channel)
{
    return layout == STOKE_LAYOUT_CHW ? channel * plane + pixel : pixel * 3 + channel;
}

/* dtype and layout are constants at every call. */
static inline __attribute__((always_inline)) void write_u8(const stk_pix_writer *writer, void *dst,
                                                           size_t plane, const uint8_t *src, size_t n,
                                                           stoke_dtype dtype, stoke_layout layout)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            size_t at = element_at(layout, plane, i, c);
            uint8_t v = src[i * 3 + c];
            if (dtype == STOKE_DTYPE_U8)
                ((uint8_t *)dst)[at] = v;
            else if (dtype == STOKE_DTYPE_F32)
                ((float *)dst)[at] = writer->lut[c][v];
            else
                ((uint16_t *)dst)[at] = writer->lut16[c][v];
        }
}

static inline __attribute__((always_inline)) void write_u16(const stk_pix_writer *writer, void *dst,
                                                            size_t plane, const uint16_t *src, size_t n,
                                                            stoke_dtype dtype, stoke_layout layout)
{
    double scale[3];
    for (size_t c = 0; c < 3; c++) scale[c] = writer->scale[c] / 65535.0;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            size_t at = element_at(layout, plane, i, c);
            uint32_t v = src[i * 3 + c];
            float value = (float)(v * scale[c] + writer->bias[c]);
            if (dtype == STOKE_DTYPE_U8)
                ((uint8_t *)dst)[at] = (uint8_t)((v + 128) / 257);
            else if (dtype == STOKE_DTYPE_F32)
                ((float *)dst)[at] = value;
            else if (dtype == STOKE_DTYPE_F16)
                ((uint16_t *)dst)[at] = k_f16(value);
            else
                ((uint16_t *)dst)[at] = k_bf16(value);
        }
}

#define DEFINE_WRITE(depth, name, dtype, layout)                                                             \
    void stk_write_##depth##_##name##_c(const stk_pix_writer *writer, void *dst, size_t plane,               \
                                        const void *src, size_t n)                                           \
    {                                                                                                        \
        write_##depth(writer, dst, plane, src, n, dtype, layout);                                            \
    }
#define DEFINE_WRITES(depth, name, dtype)                                                                    \
    DEFINE_WRITE(depth, name##_chw, dtype, STOKE_LAYOUT_CHW)                                                 \
    DEFINE_WRITE(depth, name##_hwc, dtype, STOKE_LAYOUT_HWC)
DEFINE_WRITE(u8, u8_chw, STOKE_DTYPE_U8, STOKE_LAYOUT_CHW)
DEFINE_WRITES(u8, f32, STOKE_DTYPE_F32)
DEFINE_WRITES(u8, f16, STOKE_DTYPE_F16)
DEFINE_WRITES(u8, bf16, STOKE_DTYPE_BF16)
DEFINE_WRITES(u16, u8, STOKE_DTYPE_U8)
DEFINE_WRITES(u16, f32, STOKE_DTYPE_F32)
DEFINE_WRITES(u16, f16, STOKE_DTYPE_F16)
DEFINE_WRITES(u16, bf16, STOKE_DTYPE_BF16)
#undef DEFINE_WRITES
#undef DEFINE_WRITE

void stk_write_u8_u8_hwc_c(const stk_pix_writer *writer, void *dst, size_t plane, const void *src, size_t n)
{
    memcpy(dst, src, n * 3);
}

/* ---- class ids ---- */

#define DEFINE_WIDEN(name, from, to)                                                                         \
    void stk_widen_##name##_c(void *dst, const void *src, size_t n)                                          \
    {                                                                                                        \
        const from *in = src;                                                                                \
        to *out = dst;                                                                                       \
        for (size_t i = 0; i < n; i++) out[i] = in[i];                                                       \
    }
DEFINE_WIDEN(u8_u16, uint8_t, uint16_t)
DEFINE_WIDEN(u8_i32, uint8_t, int32_t)
DEFINE_WIDEN(u8_i64, uint8_t, int64_t)
DEFINE_WIDEN(u16_i32, uint16_t, int32_t)
DEFINE_WIDEN(u16_i64, uint16_t, int64_t)
#undef DEFINE_WIDEN

void stk_widen_u16_u8_c(void *dst, const void *src, size_t n)
{
    const uint16_t *in = src;
    uint8_t *out = dst;
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)(in[i] > 255 ? 255 : in[i]);
}

void stk_widen_u8_u8_c(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
}

void stk_widen_u16_u16_c(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n * 2);
}

/* ---- mirror ---- */

#define DEFINE_REVERSE(bytes)                                                                                \
    void stk_reverse_##bytes##_c(void *dst, const void *src, size_t n)                                       \
    {                                                                                                        \
        const uint8_t *in = src;                                                                             \
        uint8_t *out = dst;                                                                                  \
        for (size_t i = 0; i < n; i++) memcpy(out + i * bytes, in + (n - 1 - i) * bytes, bytes);             \
    }
DEFINE_REVERSE(1)
DEFINE_REVERSE(2)
DEFINE_REVERSE(3)
DEFINE_REVERSE(6)
#undef DEFINE_REVERSE

const stk_pix_table stk_pix_c = {
#define PIX(family, type, member, name, channels, depth, dtype, layout) .member = stk_##name##_c,
#include "src/pix/pix_functions.def"
#undef PIX
};
