/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm: the reference in C.
 */
#include "src/net/kernels/net_table.h"

#include <math.h>

/* Two passes: the variance is taken around a first mean, and what that mean is off by (a sum of 160 values
 * near 100 is off by 1e-3) is found on the way and put right. */
static void row_stats(const stk_layernorm *norm, const float *x, float *stats)
{
    const uint32_t channels = norm->channels;
    float sum = 0, rest = 0, squares = 0;
    for (uint32_t c = 0; c < channels; c++) sum += x[c];
    const float mean = sum / (float)channels;
    for (uint32_t c = 0; c < channels; c++) {
        rest += x[c] - mean;
        squares += (x[c] - mean) * (x[c] - mean);
    }
    rest /= (float)channels;
    stats[0] = mean + rest;
    stats[1] = 1 / sqrtf(squares / (float)channels - rest * rest + norm->eps);
}

static void stats_c(const stk_layernorm *norm, size_t rows, const float *x, float *stats)
{
    for (size_t r = 0; r < rows; r++) row_stats(norm, x + r * norm->channels, stats + 2 * r);
}

static void apply(const stk_layernorm *norm, size_t rows, const float *x, const float *stats, void *y,
                  stk_float type)
{
    for (size_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < norm->channels; c++) {
            const size_t i = r * norm->channels + c;
            const float normal = (x[i] - stats[2 * r]) * stats[2 * r + 1];
            stk_put(y, i, normal * norm->gamma[c] + norm->beta[c], type);
        }
}

/* With n the normalised x and g = dy gamma:  dx = (g - mean(g) - n mean(g n)) / deviation. */
static void backward(const stk_layernorm *norm, size_t rows, const float *x, const float *stats,
                     const void *dy, const float *residual, float *dx, float *sums, stk_float type)
{
    const uint32_t channels = norm->channels;
    for (size_t r = 0; r < rows; r++) {
        const float mean = stats[2 * r], scale = stats[2 * r + 1];
        float sum = 0, product = 0;
        for (uint32_t c = 0; c < channels; c++) {
            const size_t i = r * channels + c;
            const float d = stk_get(dy, i, type), normal = (x[i] - mean) * scale;
            sum += d * norm->gamma[c];
            product += d * norm->gamma[c] * normal;
            if (!sums) continue;
            sums[c] += d * normal;
            sums[channels + c] += d;
        }
        sum /= (float)channels;
        product /= (float)channels;
        for (uint32_t c = 0; c < channels; c++) {
            const size_t i = r * channels + c;
            const float d = stk_get(dy, i, type), normal = (x[i] - mean) * scale;
            const float slope = scale * (d * norm->gamma[c] - sum - normal * product);
            dx[i] = residual ? residual[i] + slope : slope;
        }
    }
}

static void forward(const stk_layernorm *norm, size_t rows, const float *x, float *stats, void *y,
                    stk_float type)
{
    stats_c(norm, rows, x, stats);
    apply(norm, rows, x, stats, y, type);
}

STK_TYPED(apply, (const stk_layernorm *norm, size_t rows, const float *x, const float *stats, void *y), norm,
          rows, x, stats, y)
STK_TYPED(forward, (const stk_layernorm *norm, size_t rows, const float *x, float *stats, void *y), norm,
          rows, x, stats, y)
STK_TYPED(backward,
          (const stk_layernorm *norm, size_t rows, const float *x, const float *stats, const void *dy,
           const float *residual, float *dx, float *sums),
          norm, rows, x, stats, dy, residual, dx, sums)

void stk_layernorm_fill_c(stk_layernorm_table *table)
{
    *table = (stk_layernorm_table){
        .stats = stats_c,
        .forward = STK_OF_TYPES(forward),
        .apply = STK_OF_TYPES(apply),
        .backward = STK_OF_TYPES(backward),
    };
}
