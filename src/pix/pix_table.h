/* SPDX-License-Identifier: Apache-2.0
 *
 * The function table of pixel work. pix_table.c fills every entry with the C reference, then x86/ overwrites
 * what it does faster; STOKE_CPU=c|avx2|avx512 caps it. A check (tests/check) compares every entry of every
 * table the processor has with the reference, byte for byte.
 *
 * All entries work on rows: they know nothing of placement, strides between output rows or errors. Sizes may
 * be anything from 1; pointers need only the alignment of their element type.
 */
#ifndef STOKE_SRC_PIX_PIX_TABLE_H
#define STOKE_SRC_PIX_PIX_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/cpu.h"
#include "src/pix/pix.h"

/* One axis of a resize: output i is the sum over k < count[i] of weight[i * taps + k] * input[start[i] + k].
 * start never falls. weight[count[i] .. taps) is zero, so a kernel may work in groups, as long as it does not
 * read pixels past `in`. */
typedef struct stk_axis {
    uint32_t in, out;
    uint32_t taps;         /* row length of the weights: the largest count, rounded up to a multiple of 4 */
    uint32_t most;         /* the largest count */
    uint32_t precision;    /* fraction bits of the int16 weights, 1..22 */
    const uint32_t *start; /* out entries */
    const uint32_t *count; /* out entries, each 1..most */
    const int16_t *weight; /* out * taps, for u8 pixels; else NULL */
    const float *weight_f; /* out * taps, for u16 pixels; else NULL */
} stk_axis;

/* Horizontal pass over `rows` rows (four at a time are cheaper than one): axis->in to axis->out pixels. */
typedef void stk_resize_h_fn(void *dst, size_t dst_stride, const void *src, size_t src_stride, uint32_t rows,
                             const stk_axis *axis);
/* Vertical pass: output row `y` of `samples` samples from the count[y] rows it depends on. */
typedef void stk_resize_v_fn(void *dst, const void *const *rows, size_t samples, const stk_axis *axis,
                             uint32_t y);

/* `n` pixels of three interleaved channels into the batch. Elements of a pixel are `plane` elements apart
 * (CHW) or neighbours (HWC, plane unused). */
typedef void stk_write_fn(const stk_writer *writer, void *dst, size_t plane, const void *src, size_t n);

/* `n` class ids to another width. */
typedef void stk_widen_fn(void *dst, const void *src, size_t n);

/* `n` pixels, last one first. dst and src do not overlap. */
typedef void stk_reverse_fn(void *dst, const void *src, size_t n);

/* One row of a warp: the 32.32 coordinates of its first pixel and what is added per pixel, modulo 2^64; for
 * an elastic row also the displacement of every pixel in 1/65536 px (both or none). */
typedef struct stk_warp_line {
    uint64_t x, y, dx, dy;
    const int32_t *shift_x, *shift_y;
} stk_warp_line;

/* `n` pixels of a row (warp.h has the arithmetic) from the picture at `src`, which is less than 2 GiB large.
 * The caller has cut the row so that all taps of every pixel lie inside the picture; of an image one more
 * column follows the right tap, and an entry may read that far. */
typedef void stk_warp_fn(void *dst, const void *src, size_t stride, const stk_warp_line *line, size_t n);

/* A cell of an elastic row: shift[i] = a[0] + a[1] t + a[2] t^2 + a[3] t^3 by Horner's rule in single
 * precision, cut towards zero, not beyond +-limit. */
typedef struct stk_cubic {
    float a[4];
    int32_t limit;
} stk_cubic;
typedef void stk_cubic_fn(int32_t *shift, const float *t, size_t n, const stk_cubic *cubic);

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
    /* Images: bilinear. Masks: nearest. Strides of u16 pictures are even. */
    stk_warp_fn *warp_u8c3, *warp_u16c3;
    stk_warp_fn *warp_u8c1, *warp_u16c1;
    stk_cubic_fn *cubic;
} stk_pix_table;

/* The table for a level, for tests that want each of them. The processor must have that level. */
void stk_pix_table_fill(stk_pix_table *table, stk_cpu_level level);

/* The table of stk_cpu_level_in_use(), filled at the first call. */
const stk_pix_table *stk_pix(void);

/* The C reference. Faster tables call it for what is too short for them. */
extern const stk_pix_table stk_pix_c;
stk_warp_fn stk_warp_u8c3_c, stk_warp_u16c3_c, stk_warp_u8c1_c, stk_warp_u16c1_c; /* warp_c.c */
stk_cubic_fn stk_cubic_c;

/* Overwrite what AVX2 does faster. */
void stk_pix_fill_resize_avx2(stk_pix_table *table);
void stk_pix_fill_write_avx2(stk_pix_table *table);
void stk_pix_fill_warp_avx2(stk_pix_table *table);

#endif
