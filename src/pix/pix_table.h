/* SPDX-License-Identifier: Apache-2.0
 *
 * The function table of pixel work. pix_table.c fills every entry with the C reference, then x86/ overwrites
 * what it does faster; STOKE_CPU=c|avx2|avx512|amx caps it. A check (tests/check) compares every entry of
 * every table the processor has with the reference, byte for byte.
 *
 * All entries work on rows: they know nothing of placement, strides between output rows or errors. Sizes may
 * be anything from 1; pointers need only the alignment of their element type.
 */
#ifndef STOKE_SRC_PIX_PIX_TABLE_H
#define STOKE_SRC_PIX_PIX_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/reflect.h"
#include "kernels/warp.h"
#include "src/base/cpu.h"
#include "src/base/mem.h"
#include "src/pix/pix.h"

/* One axis of a resize: output i is the sum over k < count[i] of weight[i * taps + k] * input[start[i] + k].
 * start never falls. weight[count[i] .. taps) is zero, so a kernel may work in groups, as long as it does not
 * read pixels past `in`. */
typedef struct stk_pix_resize_axis {
    uint32_t in, out;
    uint32_t taps;         /* row length of the weights: the largest count, rounded up to a multiple of 4 */
    uint32_t most;         /* the largest count */
    uint32_t precision;    /* fraction bits of the int16 weights, 1..22 */
    const uint32_t *start; /* out entries */
    const uint32_t *count; /* out entries, each 1..most */
    const int16_t *weight; /* out * taps, for u8 pixels; else NULL */
    const float *weight_f; /* out * taps, for u16 pixels; else NULL */
} stk_pix_resize_axis;

/* Horizontal pass over `rows` rows (four at a time are cheaper than one): axis->in to axis->out pixels. */
typedef void stk_resize_h_fn(void *dst, size_t dst_stride, const void *src, size_t src_stride, uint32_t rows,
                             const stk_pix_resize_axis *axis);
/* Vertical pass: output row `y` of `samples` samples from the count[y] rows it depends on. */
typedef void stk_resize_v_fn(void *dst, const void *const *rows, size_t samples,
                             const stk_pix_resize_axis *axis, uint32_t y);

/* `n` pixels of three interleaved channels into the batch. Elements of a pixel are `plane` elements apart
 * (CHW) or neighbours (HWC, plane unused). */
typedef void stk_write_fn(const stk_pix_writer *writer, void *dst, size_t plane, const void *src, size_t n);

/* `n` class ids to another width. */
typedef void stk_widen_fn(void *dst, const void *src, size_t n);

/* `n` pixels, last one first. dst and src do not overlap. */
typedef void stk_reverse_fn(void *dst, const void *src, size_t n);

/* own = lambda * own + (1 - lambda) * other for `n` elements, in float: the products and the sum are rounded
 * one by one, then the result to the element (u8: to nearest, halves up). Elements are finite. */
typedef void stk_mix_fn(void *own, const void *other, size_t n, float lambda);
/* One row of a warp: the 32.32 coordinates of its first pixel and what is added per pixel, modulo 2^64; for
 * an elastic row also the displacement of every pixel in 1/65536 px (both or none). */
typedef struct stk_pix_warp_line {
    uint64_t x, y, dx, dy;
    const int32_t *shift_x, *shift_y;
} stk_pix_warp_line;

/* `n` pixels of a row (warp.h has the arithmetic) from the picture at `src`, which is less than 2 GiB large.
 * The caller has cut the row so that all taps of every pixel lie inside the picture; of an image one more
 * column follows the right tap, and an entry may read that far. */
typedef void stk_warp_fn(void *dst, const void *src, size_t stride, const stk_pix_warp_line *line, size_t n);

/* A cell of an elastic row: shift[i] = a[0] + a[1] t + a[2] t^2 + a[3] t^3 by Horner's rule in single
 * precision, cut towards zero, not beyond +-limit. */
typedef struct stk_pix_cubic {
    float a[4];
    int32_t limit;
} stk_pix_cubic;
typedef void stk_cubic_fn(int32_t *shift, const float *t, size_t n, const stk_pix_cubic *cubic);

/* ---- photometric steps (color.h) ----
 *
 * A row of floats in 0..255 as three planes `pitch` floats apart, or one of its planes. kernels/color_math.h
 * has the arithmetic. */

/* `n` interleaved pixels to planes. */
typedef void stk_unpack_fn(float *row, size_t pitch, const void *src, size_t n);
/* v = clamp(a * v + c): brightness (c = 0) and contrast. One plane. */
typedef void stk_linear_fn(float *plane, size_t n, float a, float c);
/* v = clamp(gain * (v / 255)^a). One plane. */
typedef void stk_gamma_fn(float *plane, size_t n, float a, float gain);
/* v = clamp(a * v + b * gray). */
typedef void stk_saturation_fn(float *row, size_t pitch, size_t n, float a, float b);
/* See k_hue for `turn`. */
typedef void stk_hue_fn(float *row, size_t pitch, size_t n, const float turn[3]);
/* Sum of gray in steps of 1 / K_GRAY_STEPS. */
typedef uint64_t stk_gray_sum_fn(const float *row, size_t pitch, size_t n);
/* The symmetric kernel weight[0] (centre) .. weight[radius]: w0 * v + w1 * (v[-1] + v[1]) + ..., summed in
 * this order. One plane; src can be read from -radius to n + radius. */
typedef void stk_blur_h_fn(float *dst, const float *src, size_t n, const float *weight, uint32_t radius);
/* The same down the 2 * radius + 1 rows, clamped. One plane. */
typedef void stk_blur_v_fn(float *dst, const float *const *rows, size_t n, const float *weight,
                           uint32_t radius);
/* v = clamp(v + (a * normal + b)). One plane from column 0 on: see k_normal. */
typedef struct stk_pix_noise {
    uint32_t key[2]; /* of the row */
    float a, b;
} stk_pix_noise;
typedef void stk_noise_fn(float *plane, size_t n, const stk_pix_noise *noise);
/* CLAHE: level v of column i becomes, by the four tables around it, with q = quad[column[i] + v] and its
 * bytes from low to high those of the upper left, upper right, lower left and lower right tile,
 * k_blend_tiles(q, share[i], down). */
typedef void stk_clahe_fn(uint8_t *luma, size_t n, const uint32_t *quad, const uint32_t *column,
                          const float *share, float down);
/* As stk_write_fn, from floats: (v * high + high_bias) + (v * low + low_bias) with the constants of the
 * writer, which hits its table for every whole v; to U8 rounded to nearest, ties to even, without a writer.
 */
typedef void stk_write_planes_fn(const stk_pix_writer *writer, void *dst, size_t plane, const float *row,
                                 size_t pitch, size_t n);

enum { STK_WRITE_DTYPES = 4, STK_LAYOUTS = 2, STK_DTYPES = 7 };

typedef struct stk_pix_table {
    /* u8: int32 accumulators, + half, >> precision, clamped. One and three channels. */
    stk_resize_h_fn *resize_h_u8c1, *resize_h_u8c3;
    stk_resize_v_fn *resize_v_u8;
    /* u16 to float rows and back, samples summed in order of k; rounded to nearest at the end. */
    stk_resize_h_fn *resize_h_u16c1, *resize_h_u16c3;
    stk_resize_v_fn *resize_v_u16;
    /* By stoke_dtype (U8, F32, F16, BF16) and stoke_layout. */
    stk_write_fn *write_u8[STK_WRITE_DTYPES][STK_LAYOUTS];
    stk_write_fn *write_u16[STK_WRITE_DTYPES][STK_LAYOUTS];
    /* By stoke_dtype; NULL where a dtype is no mask type. u16 to U8 saturates: 300 must not become class 44.
     */
    stk_widen_fn *widen_u8[STK_DTYPES];
    stk_widen_fn *widen_u16[STK_DTYPES];
    /* Pixels of 1, 2, 3 and 6 bytes. */
    stk_reverse_fn *reverse_1, *reverse_2, *reverse_3, *reverse_6;
    /* By stoke_dtype (U8, F32, F16, BF16). */
    stk_mix_fn *mix[STK_WRITE_DTYPES];
    /* Images: bilinear. Masks: nearest. Strides of u16 pictures are even. */
    stk_warp_fn *warp_u8c3, *warp_u16c3;
    stk_warp_fn *warp_u8c1, *warp_u16c1;
    stk_cubic_fn *cubic;
    /* Photometric steps. */
    stk_unpack_fn *unpack_u8, *unpack_u16;
    stk_linear_fn *linear;
    stk_gamma_fn *gamma;
    stk_saturation_fn *saturation;
    stk_hue_fn *hue;
    stk_gray_sum_fn *gray_sum;
    stk_blur_h_fn *blur_h;
    stk_blur_v_fn *blur_v;
    stk_noise_fn *noise;
    stk_clahe_fn *clahe_row;
    stk_write_planes_fn *write_planes[STK_WRITE_DTYPES][STK_LAYOUTS];
} stk_pix_table;

/* Bytes of an element. (stoke_dtype_bytes lives in src/source, which this room does not reach into.) */
static inline size_t stk_element_bytes(stoke_dtype dtype)
{
    static const uint8_t bytes[STK_DTYPES] = { 1, 4, 2, 2, 2, 4, 8 };
    return bytes[dtype];
}

/* The table for a level, for tests that want each of them. The processor must have that level. */
void stk_pix_table_fill(stk_pix_table *table, stk_cpu_level level);

/* The table of stk_cpu_level_in_use(), filled at the first call. */
const stk_pix_table *stk_pix(void);

/* The C reference. Faster tables call it for what is too short for them. */
extern const stk_pix_table stk_pix_c;
#define PIX(family, type, member, name, channels, depth, dtype, layout) stk_##type##_fn stk_##name##_c;
#include "src/pix/pix_functions.def"
#undef PIX

/* Overwrite what AVX2 does faster. */
void stk_pix_fill_resize_avx2(stk_pix_table *table);
void stk_pix_fill_write_avx2(stk_pix_table *table);
void stk_pix_fill_warp_avx2(stk_pix_table *table);
void stk_pix_fill_mix_avx2(stk_pix_table *table);
void stk_pix_fill_color_avx2(stk_pix_table *table);
void stk_pix_fill_noise_avx2(stk_pix_table *table);

/* Coefficients of one axis of an antialiased bilinear resize. */

/* An axis and the memory its tables live in; zeroed = empty. Rebuilt only when sizes or depth change. */
typedef struct stk_pix_axis_store {
    stk_pix_resize_axis axis;
    stk_mem_buffer buffer;
    uint8_t depth; /* 1: int16 weights, 2: float weights */
} stk_pix_axis_store;

/* Makes the coefficients of in -> out pixels; both at least 1. Returns 0 when memory is short. */
int stk_axis_build(stk_pix_axis_store *store, uint32_t in, uint32_t out, uint8_t depth);

/* The border of filters, which kernels define for every reader. */

static inline uint32_t stk_reflect(int64_t at, uint32_t size)
{
    return k_reflect(at, size);
}

/* Coordinates along a row of a warp: shared by the tables and the borders (warp.c). The arithmetic of a pixel
 * is the devices' too: kernels/warp.h.
 */

/* Coordinates of pixel i of a line. */
static inline uint64_t stk_warp_x(const stk_pix_warp_line *line, size_t i)
{
    const uint64_t x = line->x + i * line->dx;
    return line->shift_x ? x + k_warp_shift(line->shift_x[i]) : x;
}

static inline uint64_t stk_warp_y(const stk_pix_warp_line *line, size_t i)
{
    const uint64_t y = line->y + i * line->dy;
    return line->shift_y ? y + k_warp_shift(line->shift_y[i]) : y;
}

#endif
