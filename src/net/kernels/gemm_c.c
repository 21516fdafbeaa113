/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm: the reference in C, and the packing the vector forms share with it.
 */
#include "src/net/kernels/gemm_panels.h"

#include <string.h>

enum { PANEL = 8, MOST_COLUMNS = 64 /* of anybody's panel */ };

static void turn(const float *const *output, size_t width, size_t k, float *panel)
{
    for (size_t i = 0; i < k; i++, panel += width)
        for (size_t j = 0; j < width; j++) panel[j] = output[j][i];
}

/* Panel columns are outputs, whose weights lie apart: one pass along k reads up to 32 of them at a time. */
static void pack_outputs(const stk_gemm_source *source, stk_panels_turn *whole, size_t first, size_t columns,
                         size_t width, float *panel)
{
    const float *output[MOST_COLUMNS];
    for (size_t j = 0; j < columns; j++) output[j] = stk_gemm_output(source, first + j);
    if (source->taps == 1 && columns == width) {
        whole(output, width, source->in, panel);
        return;
    }
    const size_t channels = source->in / source->taps;
    for (size_t tap = 0; tap < source->taps; tap++) {
        size_t at = tap;
        for (size_t c = 0; c < channels; c++, at += source->taps, panel += width) {
            for (size_t j = 0; j < columns; j++) panel[j] = output[j][at];
            for (size_t j = columns; j < width; j++) panel[j] = 0.0f;
        }
    }
}

/* Panel columns are inputs: without taps, neighbours. */
static void pack_inputs(const stk_gemm_source *source, size_t first, size_t columns, size_t width,
                        float *panel)
{
    size_t at[MOST_COLUMNS];
    for (size_t j = 0; j < columns; j++) at[j] = stk_gemm_input(source, first + j);
    for (size_t part = 0; part < source->parts; part++) {
        const float *output = source->weight[part];
        for (size_t k = 0; k < source->out / source->parts; k++, panel += width, output += source->stride) {
            if (source->taps == 1)
                memcpy(panel, output + first, columns * sizeof *panel);
            else
                for (size_t j = 0; j < columns; j++) panel[j] = output[at[j]];
            for (size_t j = columns; j < width; j++) panel[j] = 0.0f;
        }
    }
}

static void round_all(float *values, size_t count, stk_float type)
{
    if (type == STK_BF16)
        for (size_t i = 0; i < count; i++) values[i] = k_from_bf16(k_bf16(values[i]));
    else if (type == STK_F16)
        for (size_t i = 0; i < count; i++) values[i] = k_from_f16(k_f16(values[i]));
}

void stk_panels_pack(const stk_gemm_source *source, size_t panel, size_t lanes, stk_float type,
                     stk_panels_turn *whole, size_t first, size_t columns, void *packed)
{
    const size_t k = stk_gemm_source_k(source), n = stk_gemm_source_n(source);
    float *bias = packed;
    for (size_t j = first; j < first + columns; j++)
        bias[j] = source->transposed ? 0.0f : stk_gemm_bias(source, j);
    if (first + columns == n) memset(bias + n, 0, (stk_panels_bias(n) - n) * sizeof *bias);

    const size_t end = first + columns;
    for (; first < end; first += panel) {
        const size_t width = stk_panels_width(n, first, panel, lanes);
        const size_t used = end - first < panel ? end - first : panel;
        float *out = stk_panels_at(packed, k, n, first);
        if (source->transposed)
            pack_inputs(source, first, used, width, out);
        else
            pack_outputs(source, whole, first, used, width, out);
        round_all(out, width * k, type);
    }
}

static size_t packed_bytes(size_t k, size_t n)
{
    return stk_panels_bytes(k, n, PANEL);
}

static void finish_row(const stk_gemm_product *product, size_t row, const float *sum, size_t first,
                       size_t columns, void *y, size_t y_stride)
{
    const float scale = product->scale ? product->scale[(product->row + row) / product->sample_rows] : 1.0f;
    for (size_t j = 0; j < columns; j++) {
        const size_t at = row * y_stride + first + j;
        float value = sum[j] * scale;
        if (product->residual) value += stk_get(product->residual, at, product->residual_type);
        stk_put(y, at, value, product->type);
    }
}

static void multiply(const stk_gemm_product *product, size_t rows, const void *x, size_t x_stride, void *y,
                     size_t y_stride, stk_float type)
{
    const float *bias = product->packed;
    for (size_t row = 0; row < rows; row++) {
        for (size_t j = 0; j < product->columns; j += PANEL) {
            const size_t first = product->first + j;
            const float *panel = stk_panels_at(product->packed, product->k, product->n, first);
            float sum[PANEL] = { 0 };
            if (product->bias) memcpy(sum, bias + first, sizeof sum);
            for (size_t k = 0; k < product->k; k++) {
                const float a = stk_get(x, row * x_stride + k, type);
                for (size_t i = 0; i < PANEL; i++) sum[i] += a * panel[k * PANEL + i];
            }
            const size_t columns = product->columns - j < PANEL ? product->columns - j : PANEL;
            finish_row(product, row, sum, first, columns, y, y_stride);
        }
    }
}

static void outer(const stk_gemm_outer *o, stk_float type)
{
    for (size_t n = 0; n < o->n; n++) {
        float *dw = o->dw + n * o->dw_stride;
        if (!o->add) memset(dw, 0, o->k * sizeof *dw);
        float sum = 0.0f;
        for (size_t row = 0; row < o->rows; row++) {
            const float dy = stk_get(o->dy, row * o->dy_stride + n, type);
            for (size_t k = 0; k < o->k; k++) dw[k] += dy * stk_get(o->x, row * o->x_stride + k, type);
            sum += dy;
        }
        if (o->db) o->db[n] = o->add ? o->db[n] + sum : sum;
    }
}

/* One entry: the functions above with their type fixed. */
#define ENTRY(name, type)                                                                                    \
    static void pack_##name(const stk_gemm_source *source, size_t first, size_t columns, void *packed)       \
    {                                                                                                        \
        stk_panels_pack(source, PANEL, PANEL, type, turn, first, columns, packed);                           \
    }                                                                                                        \
    static void multiply_##name(const stk_gemm_product *product, size_t rows, const void *x,                 \
                                size_t x_stride, void *y, size_t y_stride)                                   \
    {                                                                                                        \
        multiply(product, rows, x, x_stride, y, y_stride, type);                                             \
    }                                                                                                        \
    static void outer_##name(const stk_gemm_outer *o)                                                        \
    {                                                                                                        \
        outer(o, type);                                                                                      \
    }                                                                                                        \
    static const stk_gemm name = { PANEL, 1, packed_bytes, pack_##name, multiply_##name, 0, outer_##name };

ENTRY(f32, STK_F32)
ENTRY(bf16, STK_BF16)
ENTRY(f16, STK_F16)

void stk_gemm_fill_c(stk_gemm_table *table)
{
    table->of[STK_F32] = f32;
    table->of[STK_BF16] = bf16;
    table->of[STK_F16] = f16;
}
