/* SPDX-License-Identifier: Apache-2.0
 *
 * The innermost product in f32: a few rows of A times one panel of B, its sums in registers. For gemm and for
 * conv3.
 */
#ifndef STOKE_SRC_NET_KERNELS_GEMM_TILE_H
#define STOKE_SRC_NET_KERNELS_GEMM_TILE_H

#include "src/net/kernels/simd.h"

enum {
    STK_TILE_ROWS = STK_LANES == 8 ? 6 : 14, /* of 16 and 32 registers: 12 and 28 sums, 2 of B, 1 of A */
    STK_TILE_NARROW = 12,                    /* rows when the panel is one vector wide */
};

/* Where a tile goes: y = sum * factor + residual, all f32. */
typedef struct stk_tile_ending {
    float *y;
    size_t y_stride;
    const float *residual; /* NULL, or strides like y */
    const float *factor;   /* NULL, or one per row */
} stk_tile_ending;

/* Lines of memory to be fetched while a tile is computed, one per k or row: a tile alone leaves the memory
 * idle most of the time and waits for it the rest. Addresses past the end do no harm. */
typedef struct stk_tile_ahead {
    const void *at;
    size_t step; /* bytes */
} stk_tile_ahead;

STK_INLINE void stk_tile_fetch(const stk_tile_ahead *next, size_t i)
{
    __builtin_prefetch((const char *)next->at + i * next->step, 0, 2); /* to the second-level cache */
}

/* `rows` of A times `vectors` of B over k; sums start at `from`, from_stride floats from row to row (0: the
 * bias, the same for all). rows, vectors and type are constants wherever this is inlined, so that the sums
 * live in registers. */
STK_INLINE void stk_tile(int rows, int vectors, stk_float type, const void *x, size_t x_stride, size_t k,
                         const float *panel, const float *from, size_t from_stride, stk_tile_ahead next,
                         const stk_tile_ending *end)
{
    vf sum[STK_TILE_NARROW > STK_TILE_ROWS ? STK_TILE_NARROW : STK_TILE_ROWS][2];
    STK_UNROLL(14)
    for (int r = 0; r < rows; r++) {
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = from ? v_load(from + (size_t)r * from_stride + v * STK_LANES) : v_zero();
    }

    for (size_t i = 0; i < k; i++, panel += vectors * STK_LANES) {
        vf b[2];
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++) b[v] = v_load(panel + v * STK_LANES);
        stk_tile_fetch(&next, i);
        STK_UNROLL(14)
        for (int r = 0; r < rows; r++) {
            const vf a = v_spread(x, (size_t)r * x_stride + i, type);
            STK_UNROLL(2)
            for (int v = 0; v < vectors; v++) sum[r][v] = v_fma(a, b[v], sum[r][v]);
        }
    }

    STK_UNROLL(14)
    for (int r = 0; r < rows; r++) {
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++) {
            const size_t at = (size_t)r * end->y_stride + (size_t)v * STK_LANES;
            vf value = sum[r][v];
            if (end->factor) value = v_mul(value, v_set(end->factor[r]));
            if (end->residual) value = v_add(value, v_load(end->residual + at));
            v_store(end->y + at, value);
        }
    }
}

#endif
