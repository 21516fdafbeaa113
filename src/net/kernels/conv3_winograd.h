/* SPDX-License-Identifier: Apache-2.0
 *
 * How the vector forms of conv3 compute: Winograd's F(4x4, 3x3).
 *
 * A tile of 4x4 results is A^T [(G w G^T) . (B^T x B)] A for a tile of 6x6 of x: 36 products where the taps
 * need 144. Summed over inputs, the products of one of the 36 points are a matrix product over tiles. The
 * gradient of w is the transposed of that: G^T [sum over tiles of (B^T x B) . (A dy A^T)] G. The three
 * matrices are those of the points 0, +-P, +-Q and infinity:
 *
 *   A: 1, p, p^2, p^3 of each point p; the last row 0, 0, 0, 1
 *   B: the coefficients of the product of (x - q) over the other points; the last: over all
 *   G: 1, p, p^2 over the product of (p - q) over the other points; the last row 0, 0, 1
 *
 * P = 3/4, Q = 3/2: exact in f32, and half of the rounding errors that the usual 1 and 2 leave. Against
 * double, 32 and 96 channels of normal numbers: results 0.7e-6 and 1.0e-6 (with 1 and 2: 1.3e-6 and 2.0e-6),
 * gradients of w 1.9e-6 (4.0e-6), relative to their norm.
 *
 * It is the form of 16-bit runs, too: what is read and the weights are rounded to their type, all else is
 * f32. Products of AVX512-BF16 are twice as fast, but 144 of them instead of 36 would take 2304 cycles for a
 * tile of 32 -> 32 and 20736 for one of 96 -> 96 at that instruction's peak; this form takes 2100 to 2500 and
 * 15500 with all that it reads and writes (Zen 5). Points rounded to bf16 would leave an error of 1.2 % where
 * rounding the result leaves 0.17 %; with F(2x2, 3x3) 0.37 %, and no fewer cycles.
 */
#ifndef STOKE_SRC_NET_KERNELS_CONV3_WINOGRAD_H
#define STOKE_SRC_NET_KERNELS_CONV3_WINOGRAD_H

#include "src/net/kernels/net_table.h"

#define STK_WINOGRAD_P 0.75f
#define STK_WINOGRAD_Q 1.5f
enum { STK_WINOGRAD_TILE = 6, STK_WINOGRAD_POINTS = 36 };

static inline size_t stk_winograd_round(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

/* Packed weights: the bias, padded to whole lines; then panels of two vectors of outputs, the last of as many
 * as it needs: [point][input][output]. Padding is 0. */
static inline size_t stk_winograd_bytes(size_t in, size_t out, size_t lanes)
{
    const size_t weights = STK_WINOGRAD_POINTS * in * stk_winograd_round(out, lanes);
    return stk_winograd_round((stk_winograd_round(out, 16) + weights) * sizeof(float), 64);
}
static inline float *stk_winograd_panel(const void *packed, size_t in, size_t out, size_t first)
{
    return (float *)(uintptr_t)packed + stk_winograd_round(out, 16) + STK_WINOGRAD_POINTS * in * first;
}
static inline size_t stk_winograd_width(size_t out, size_t first, size_t lanes)
{
    return out - first > lanes ? 2 * lanes : lanes;
}

/* Sums of a gradient: [point][input][output], then the bias; outputs padded to whole vectors. */
static inline size_t stk_winograd_sums(size_t in, size_t out, size_t lanes)
{
    return stk_winograd_round((STK_WINOGRAD_POINTS * in + 1) * stk_winograd_round(out, lanes), 16);
}

void stk_winograd_pack(const stk_conv3_masters *masters, uint32_t first, uint32_t count, void *packed,
                       stk_float type, size_t lanes);
void stk_winograd_gradient(const stk_conv3_gradient *gradient, uint32_t first, uint32_t count, size_t lanes);

#endif
