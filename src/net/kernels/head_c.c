/* SPDX-License-Identifier: Apache-2.0
 *
 * segformer_head.h: the reference in C.
 */
#include "src/net/kernels/net_table.h"

/* ---- forward ---- */

static void mix(size_t count, const void *a, float a_weight, const void *b, float b_weight, float *out,
                stk_float type)
{
    for (size_t i = 0; i < count; i++)
        out[i] = stk_get(a, i, type) * a_weight + stk_get(b, i, type) * b_weight;
}

static float pixel(const stk_head_line *line, size_t x, size_t c)
{
    float value = line->base[x * line->size + c];
    for (int s = 0; s < STK_SMALLER; s++) {
        const stk_head_tap tap = line->across[s]->taps[x];
        value += line->low[s][(size_t)tap.a * line->size + c] * tap.a_weight;
        value += line->low[s][(size_t)tap.b * line->size + c] * tap.b_weight;
    }
    return value;
}

static void line_moments(const stk_head_line *line, int first, float *moments, void *y, stk_float type)
{
    const size_t size = line->size;
    float *shift = moments, *sum = moments + size, *squares = sum + size;
    for (size_t c = 0; c < size && first; c++) {
        shift[c] = pixel(line, 0, c);
        sum[c] = squares[c] = 0;
    }
    for (size_t x = 0; x < line->width; x++) {
        for (size_t c = 0; c < size; c++) {
            const float value = pixel(line, x, c), off = value - shift[c];
            stk_put(y, x * size + c, value, type);
            sum[c] += off;
            squares[c] += off * off;
        }
    }
}

static void line_relu(const stk_head_line *line, void *y, stk_float type)
{
    for (size_t x = 0; x < line->width; x++) {
        for (size_t c = 0; c < line->size; c++) {
            const float value = pixel(line, x, c);
            stk_put(y, x * line->size + c, value < 0 ? 0 : value, type); /* NaN for NaN */
        }
    }
}

/* (y - mean) scale + shift, or 0 where that is negative or dropout takes it. */
static float activation(const stk_head_norm *norm, uint64_t key, uint32_t c, float y)
{
    const float value = (y - norm->mean[c]) * norm->scale[c] + norm->shift[c];
    const int kept = !norm->threshold || stk_dropout_bits(key, c) >= norm->threshold;
    return value < 0 || !kept ? 0 : value; /* NaN for NaN */
}

static void activate(const stk_head_norm *norm, size_t row, size_t rows, const void *y, void *r,
                     stk_float type)
{
    for (size_t i = 0; i < rows; i++) {
        const uint64_t key = stk_dropout_key(norm->seed, row + i);
        for (uint32_t c = 0; c < norm->size; c++) {
            const size_t at = i * norm->size + c;
            stk_put(r, at, activation(norm, key, c, stk_get(y, at, type)), type);
        }
    }
}

/* ---- backward ---- */

static void activate_back(const stk_head_norm *norm, size_t row, size_t rows, const void *y, const float *dr,
                          void *r, void *g, float *sums, stk_float type)
{
    for (size_t i = 0; i < rows; i++) {
        const uint64_t key = stk_dropout_key(norm->seed, row + i);
        for (uint32_t c = 0; c < norm->size; c++) {
            const size_t at = i * norm->size + c;
            const float value = stk_get(y, at, type), active = activation(norm, key, c, value);
            const float passed = active > 0 ? dr[at] * norm->keep : 0;
            stk_put(r, at, active, type);
            stk_put(g, at, passed, type);
            sums[c] += passed;
            sums[norm->size + c] += passed * (value - norm->mean[c]);
        }
    }
}

static void norm_back(const stk_head_norm_back *back, size_t rows, const void *y, const void *g, void *dy,
                      stk_float type)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t c = 0; c < back->size; c++) {
            const size_t at = i * back->size + c;
            const float off = stk_get(y, at, type) - back->mean[c];
            const float rest = stk_get(g, at, type) - back->g_mean[c];
            stk_put(dy, at, back->gain[c] * rest - back->slope[c] * off, type);
        }
    }
}

static void spread(const stk_head_upsample *across, uint32_t size, const void *dy, float a_weight, float *a,
                   float b_weight, float *b, stk_float type)
{
    for (size_t j = 0; j < across->small; j++) {
        const stk_head_spread from = across->spreads[j];
        for (size_t c = 0; c < size; c++) {
            float sum = 0;
            for (size_t k = 0; k < from.count; k++)
                sum += across->weights[from.at + k] * stk_get(dy, (from.first + k) * size + c, type);
            a[j * size + c] += a_weight * sum;
            b[j * size + c] += b_weight * sum;
        }
    }
}

static void join(size_t count, const float *a, const float *b, void *out, stk_float type)
{
    for (size_t i = 0; i < count; i++) stk_put(out, i, b ? a[i] + b[i] : a[i], type);
}

#include "src/net/kernels/head_instances.h"

void stk_head_fill_c(stk_head_table *table)
{
    fill(table);
}
