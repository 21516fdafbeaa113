/* SPDX-License-Identifier: Apache-2.0
 *
 * depthwise: the reference in C.
 */
#include "src/net/kernels/net_table.h"

#include <math.h>

static float gelu(float x)
{
    return 0.5f * x * (1 + erff(x * 0.70710678f));
}

static float gelu_slope(float x)
{
    return 0.5f * (1 + erff(x * 0.70710678f)) + x * 0.39894228f * expf(-0.5f * x * x);
}

/* h2 at a column and channel, rounded to `type`. */
static float convolve(const stk_depthwise *layer, uint32_t width, const stk_depthwise_line_around *h1,
                      uint32_t column, uint32_t c, stk_float type)
{
    float sum = layer->packed[9 * layer->channels + c];
    for (uint32_t tap = 0; tap < 9; tap++) {
        const void *line = h1->line[tap / 3];
        const int64_t x = (int64_t)column + tap % 3 - 1;
        if (!line || x < 0 || x >= width) continue;
        sum +=
            layer->packed[tap * layer->channels + c] * stk_get(line, (size_t)x * layer->channels + c, type);
    }
    uint32_t rounded;
    stk_put(&rounded, 0, sum, type);
    return stk_get(&rounded, 0, type);
}

static void forward(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                    const stk_depthwise_line_around *h1, void *h3, stk_float type)
{
    for (uint32_t x = 0; x < part->columns; x++)
        for (uint32_t c = part->channel; c < part->channel + part->channels; c++) {
            const float value = convolve(layer, part->width, h1, part->column + x, c, type);
            const size_t i = (size_t)x * layer->channels + c;
            stk_put(h3, i, gelu(value), type);
        }
}

/* t lies column by column, a column of zeros at either end. */
static void slope(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                  const stk_depthwise_line_around *h1, const void *dh3, float *t, stk_float type)
{
    for (uint32_t x = 0; x < part->width; x++)
        for (uint32_t k = 0; k < part->channels; k++) {
            const size_t i = (size_t)x * layer->channels + part->channel + k;
            const float value = convolve(layer, part->width, h1, x, part->channel + k, type);
            t[(size_t)(x + 1) * part->channels + k] = stk_get(dh3, i, type) * gelu_slope(value);
        }
    for (uint32_t k = 0; k < part->channels; k++)
        t[k] = t[(size_t)(part->width + 1) * part->channels + k] = 0;
}

/* h2(p) takes h1(p + offset) times weight(offset), so h1(p) gets t(p - offset) times weight(offset), and
 * weight(offset) gets h1(p) times t(p - offset). */
static void backward(const stk_depthwise *layer, const stk_depthwise_line_part *part, const float *const t[3],
                     const void *h1, void *dh1, float *sums, stk_float type)
{
    for (uint32_t x = 0; x < part->width; x++)
        for (uint32_t k = 0; k < part->channels; k++) {
            const uint32_t c = part->channel + k;
            const size_t i = (size_t)x * layer->channels + c;
            const float input = stk_get(h1, i, type);
            float sum = 0;
            for (uint32_t tap = 0; tap < 9; tap++) {
                const float from = t[2 - tap / 3][(size_t)(x + 2 - tap % 3) * part->channels + k];
                sum += from * layer->packed[tap * layer->channels + c];
                if (sums) sums[tap * layer->channels + c] += from * input;
            }
            if (sums) sums[9 * layer->channels + c] += t[1][(size_t)(x + 1) * part->channels + k];
            stk_put(dh1, i, sum, type);
        }
}

#include "src/net/kernels/depthwise_instances.h"

void stk_depthwise_fill_c(stk_depthwise_table *table)
{
    *table = instances;
}
