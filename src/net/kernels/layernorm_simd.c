/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm in vectors. Rows are taken four at a time: their sums do not wait for each other, and gamma,
 * beta and the sums for their gradients are loaded once for four.
 */
#include "src/net/kernels/net_table.h"
#include "src/net/kernels/simd.h"

#include <math.h>

enum { GROUP = 4 };

/* Channels of a vector at c; fewer than STK_LANES at the end of a row only. */
STK_INLINE size_t lanes_at(const stk_layernorm *norm, size_t c)
{
    return norm->channels - c < STK_LANES ? norm->channels - c : STK_LANES;
}

/* `rows` <= GROUP rows, a constant where this is inlined, as below. See layernorm_c.c for the two passes. */
STK_INLINE void group_stats(const stk_layernorm *norm, size_t rows, const float *x, float *stats)
{
    const size_t channels = norm->channels;
    vf sum[GROUP], squares[GROUP], mean[GROUP];
    for (size_t r = 0; r < rows; r++) sum[r] = v_zero();
    for (size_t c = 0; c < channels; c += STK_LANES)
        for (size_t r = 0; r < rows; r++)
            sum[r] = v_add(sum[r], v_get_part(x, r * channels + c, lanes_at(norm, c), STK_F32));
    for (size_t r = 0; r < rows; r++) {
        stats[2 * r] = v_sum(sum[r]) / (float)channels;
        mean[r] = v_set(stats[2 * r]);
        sum[r] = squares[r] = v_zero();
    }
    for (size_t c = 0; c < channels; c += STK_LANES) {
        const size_t lanes = lanes_at(norm, c);
        for (size_t r = 0; r < rows; r++) {
            vf rest = v_sub(v_get_part(x, r * channels + c, lanes, STK_F32), mean[r]);
            if (lanes < STK_LANES) rest = v_first(lanes, rest, v_zero());
            sum[r] = v_add(sum[r], rest);
            squares[r] = v_fma(rest, rest, squares[r]);
        }
    }
    for (size_t r = 0; r < rows; r++) {
        const float rest = v_sum(sum[r]) / (float)channels;
        stats[2 * r] += rest;
        stats[2 * r + 1] = 1 / sqrtf(v_sum(squares[r]) / (float)channels - rest * rest + norm->eps);
    }
}

STK_INLINE void group_apply(const stk_layernorm *norm, size_t rows, const float *x, const float *stats,
                            void *y, stk_float type)
{
    const size_t channels = norm->channels;
    for (size_t c = 0; c < channels; c += STK_LANES) {
        const size_t lanes = lanes_at(norm, c);
        const vf gamma = v_get_part(norm->gamma, c, lanes, STK_F32);
        const vf beta = v_get_part(norm->beta, c, lanes, STK_F32);
        for (size_t r = 0; r < rows; r++) {
            const size_t i = r * channels + c;
            const vf rest = v_sub(v_get_part(x, i, lanes, STK_F32), v_set(stats[2 * r]));
            v_put_part(y, i, lanes, v_fma(v_mul(rest, v_set(stats[2 * r + 1])), gamma, beta), type);
        }
    }
}

STK_INLINE void group_backward(const stk_layernorm *norm, size_t rows, const float *x, const float *stats,
                               const void *dy, const float *residual, float *dx, float *sums, stk_float type)
{
    const size_t channels = norm->channels;
    vf sum[GROUP], product[GROUP];
    for (size_t r = 0; r < rows; r++) sum[r] = product[r] = v_zero();
    for (size_t c = 0; c < channels; c += STK_LANES) {
        const size_t lanes = lanes_at(norm, c);
        const vf gamma = v_get_part(norm->gamma, c, lanes, STK_F32);
        vf d_gamma = v_zero(), d_beta = v_zero();
        for (size_t r = 0; r < rows; r++) {
            const size_t i = r * channels + c;
            const vf rest = v_sub(v_get_part(x, i, lanes, STK_F32), v_set(stats[2 * r]));
            const vf normal = v_mul(rest, v_set(stats[2 * r + 1]));
            const vf d = v_get_part(dy, i, lanes, type), g = v_mul(d, gamma);
            sum[r] = v_add(sum[r], g);
            product[r] = v_fma(g, normal, product[r]);
            d_gamma = v_fma(d, normal, d_gamma);
            d_beta = v_add(d_beta, d);
        }
        if (!sums) continue;
        v_put_part(sums, c, lanes, v_add(v_get_part(sums, c, lanes, STK_F32), d_gamma), STK_F32);
        v_put_part(sums, channels + c, lanes, v_add(v_get_part(sums, channels + c, lanes, STK_F32), d_beta),
                   STK_F32);
    }
    for (size_t r = 0; r < rows; r++) {
        sum[r] = v_set(v_sum(sum[r]) / (float)channels);
        product[r] = v_set(v_sum(product[r]) / (float)channels);
    }
    for (size_t c = 0; c < channels; c += STK_LANES) {
        const size_t lanes = lanes_at(norm, c);
        const vf gamma = v_get_part(norm->gamma, c, lanes, STK_F32);
        for (size_t r = 0; r < rows; r++) {
            const size_t i = r * channels + c;
            const vf scale = v_set(stats[2 * r + 1]);
            const vf rest = v_sub(v_get_part(x, i, lanes, STK_F32), v_set(stats[2 * r]));
            const vf d = v_sub(v_mul(v_get_part(dy, i, lanes, type), gamma), sum[r]);
            const vf slope = v_fnma(v_mul(rest, scale), product[r], d);
            const vf base = residual ? v_get_part(residual, i, lanes, STK_F32) : v_zero();
            v_put_part(dx, i, lanes, v_fma(scale, slope, base), STK_F32);
        }
    }
}

static void stats_rows(const stk_layernorm *norm, size_t rows, const float *x, float *stats)
{
    size_t r = 0;
    for (; r + GROUP <= rows; r += GROUP) group_stats(norm, GROUP, x + r * norm->channels, stats + 2 * r);
    for (; r < rows; r++) group_stats(norm, 1, x + r * norm->channels, stats + 2 * r);
}

STK_INLINE void apply_rows(const stk_layernorm *norm, size_t rows, const float *x, const float *stats,
                           void *y, stk_float type)
{
    const size_t channels = norm->channels;
    size_t r = 0;
    for (; r + GROUP <= rows; r += GROUP)
        group_apply(norm, GROUP, x + r * channels, stats + 2 * r, stk_at(y, r * channels, type), type);
    for (; r < rows; r++)
        group_apply(norm, 1, x + r * channels, stats + 2 * r, stk_at(y, r * channels, type), type);
}

STK_INLINE void forward_rows(const stk_layernorm *norm, size_t rows, const float *x, float *stats, void *y,
                             stk_float type)
{
    const size_t channels = norm->channels;
    for (size_t r = 0; r < rows; r += GROUP) { /* while they are in L1 */
        const size_t count = rows - r < GROUP ? rows - r : GROUP;
        stats_rows(norm, count, x + r * channels, stats + 2 * r);
        apply_rows(norm, count, x + r * channels, stats + 2 * r, stk_at(y, r * channels, type), type);
    }
}

STK_INLINE void backward_rows(const stk_layernorm *norm, size_t rows, const float *x, const float *stats,
                              const void *dy, const float *residual, float *dx, float *sums, stk_float type)
{
    const size_t channels = norm->channels;
    size_t r = 0;
    for (; r + GROUP <= rows; r += GROUP)
        group_backward(norm, GROUP, x + r * channels, stats + 2 * r, stk_at(dy, r * channels, type),
                       residual ? residual + r * channels : NULL, dx + r * channels, sums, type);
    for (; r < rows; r++)
        group_backward(norm, 1, x + r * channels, stats + 2 * r, stk_at(dy, r * channels, type),
                       residual ? residual + r * channels : NULL, dx + r * channels, sums, type);
}

STK_TYPED(apply_rows, (const stk_layernorm *norm, size_t rows, const float *x, const float *stats, void *y),
          norm, rows, x, stats, y)
STK_TYPED(forward_rows, (const stk_layernorm *norm, size_t rows, const float *x, float *stats, void *y), norm,
          rows, x, stats, y)
STK_TYPED(backward_rows,
          (const stk_layernorm *norm, size_t rows, const float *x, const float *stats, const void *dy,
           const float *residual, float *dx, float *sums),
          norm, rows, x, stats, dy, residual, dx, sums)

void STK_SIMD(stk_layernorm_fill)(stk_layernorm_table *table)
{
    *table = (stk_layernorm_table){
        .stats = stats_rows,
        .forward = STK_OF_TYPES(forward_rows),
        .apply = STK_OF_TYPES(apply_rows),
        .backward = STK_OF_TYPES(backward_rows),
    };
}
