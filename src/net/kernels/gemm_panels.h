/* SPDX-License-Identifier: Apache-2.0
 *
 * B as the f32 kernels want it, in C and in vectors: the bias, then panels of `panel` columns, k by k. The
 * last panel is only as wide as its columns need, in whole vectors of `lanes`: 19 classes take 16 + 8 columns
 * on AVX2, not 32. What pads it is 0.
 */
#ifndef STOKE_SRC_NET_KERNELS_GEMM_PANELS_H
#define STOKE_SRC_NET_KERNELS_GEMM_PANELS_H

#include "src/net/kernels/net_table.h"

static inline size_t stk_panels_round(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

/* Floats of the bias, which panels follow: padded to whole cache lines and vectors. */
static inline size_t stk_panels_bias(size_t n)
{
    return stk_panels_round(n, 16);
}

static inline size_t stk_panels_bytes(size_t k, size_t n, size_t lanes)
{
    return stk_panels_round((stk_panels_bias(n) + stk_panels_round(n, lanes) * k) * sizeof(float), 64);
}

/* The panel that starts at column `first`. */
static inline float *stk_panels_at(const void *packed, size_t k, size_t n, size_t first)
{
    return (float *)(uintptr_t)packed + stk_panels_bias(n) + first * k;
}

/* Its columns, padding included. */
static inline size_t stk_panels_width(size_t n, size_t first, size_t panel, size_t lanes)
{
    return n - first >= panel ? panel : stk_panels_round(n - first, lanes);
}

/* panel[i][j] = output[j][i] for `width` outputs of `k` inputs. */
typedef void stk_panels_turn(const float *const *output, size_t width, size_t k, float *panel);

/* stk_gemm.pack for that form; weights are rounded to `type`. `turn` is what does it in vectors. */
void stk_panels_pack(const stk_gemm_source *source, size_t panel, size_t lanes, stk_float type,
                     stk_panels_turn *turn, size_t first, size_t columns, void *packed);

#endif
