/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm on AMX tiles: the entry of bf16. (dW: gemm_amx_outer.c. f32 and f16 stay AVX-512's.)
 *
 * B is packed into panels of 32 columns: for every 32 k two tiles, columns 0..15 and 16..31. The bias lies
 * before them. A is read where it lies; where 16 rows or 32 k are not to be had, from a padded copy of the
 * tile.
 */
#include "src/net/kernels/gemm_amx.h"

#include <string.h>

enum { PANEL = 32, STRIP = 32, BLOCK_WORDS = 64 * 1024 /* of A, 128 KB: met by all panels while in cache */ };

static size_t steps_of(size_t k)
{
    return (k + STK_TILE_K - 1) / STK_TILE_K;
}

static size_t bias_floats(size_t n)
{
    return (n + PANEL - 1) / PANEL * PANEL;
}

static size_t packed_bytes(size_t k, size_t n)
{
    return bias_floats(n) * (sizeof(float) + steps_of(k) * STK_TILE_K * sizeof(uint16_t));
}

static uint16_t *panel_at(const void *packed, size_t k, size_t n, size_t first)
{
    uint16_t *panels = (uint16_t *)((float *)(uintptr_t)packed + bias_floats(n));
    return panels + first * steps_of(k) * STK_TILE_K;
}

/* ---- packing ---- */

/* Weights of 32 inputs of an output, those from `count` on 0, in bf16. */
static __m512i weights(const stk_gemm_source *source, size_t output, size_t input, size_t count)
{
    float row[STK_TILE_K] = { 0 };
    const float *from = stk_gemm_output(source, output);
    if (source->taps == 1) {
        for (size_t i = 0; i < 2; i++) {
            const size_t some = count > i * STK_LANES ? count - i * STK_LANES : 0;
            v_store(row + i * STK_LANES, v_get_part(from, input + i * STK_LANES, some, STK_F32));
        }
    } else {
        for (size_t i = 0; i < count; i++) row[i] = from[stk_gemm_input(source, input + i)];
    }
    return (__m512i)_mm512_cvtne2ps_pbh(v_load(row + STK_LANES), v_load(row));
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Columns are outputs: their weights lie along k and are turned. */
static void pack_outputs(const stk_gemm_source *source, size_t first, size_t columns, uint16_t *panel)
{
    for (size_t input = 0; input < source->in; input += STK_TILE_K)
        for (size_t half = 0; half < PANEL; half += STK_TILE, panel += STK_TILE_WORDS) {
            __m512i r[STK_TILE];
            for (size_t j = 0; j < STK_TILE; j++) {
                const int there = half + j < columns;
                r[j] = there ? weights(source, first + half + j, input, least(source->in - input, STK_TILE_K))
                             : _mm512_setzero_si512();
            }
            stk_tiles_turn(r);
            for (size_t j = 0; j < STK_TILE; j++) _mm512_storeu_si512(panel + j * STK_TILE_K, r[j]);
        }
}

/* Columns are inputs: the weights of two outputs side by side. */
static void pack_inputs(const stk_gemm_source *source, size_t first, size_t columns, uint16_t *panel)
{
    for (size_t output = 0; output < source->out; output += STK_TILE_K, panel += 2 * STK_TILE_WORDS)
        for (size_t pair = 0; pair < STK_TILE; pair++) {
            __m512i row[2], left, right;
            for (size_t i = 0; i < 2; i++) {
                const size_t k = output + 2 * pair + i;
                row[i] = k < source->out ? weights(source, k, first, columns) : _mm512_setzero_si512();
            }
            stk_tiles_pair(row[0], row[1], &left, &right);
            _mm512_storeu_si512(panel + pair * STK_TILE_K, left);
            _mm512_storeu_si512(panel + STK_TILE_WORDS + pair * STK_TILE_K, right);
        }
}

static void pack(const stk_gemm_source *source, size_t first, size_t columns, void *packed)
{
    const size_t k = stk_gemm_source_k(source), n = stk_gemm_source_n(source), end = first + columns;
    float *bias = packed;
    for (size_t j = first; j < (end == n ? bias_floats(n) : end); j++)
        bias[j] = source->transposed || j >= n ? 0.0f : stk_gemm_bias(source, j);
    for (; first < end; first += PANEL)
        (source->transposed ? pack_inputs : pack_outputs)(source, first, least(end - first, PANEL),
                                                          panel_at(packed, k, n, first));
}

/* ---- what becomes of the sums ---- */

typedef struct finish {
    const stk_gemm_product *product;
    size_t first, columns; /* up to PANEL */
    size_t row, rows;      /* up to STRIP, counted from the call's first */
    void *y;
    size_t y_stride;
} finish;

enum { NO_RESIDUAL = STK_FLOATS };

STK_INLINE void finish_rows(const finish *f, const float *sums, stk_float type, int residual)
{
    const stk_gemm_product *p = f->product;
    const float *bias = (const float *)p->packed + f->first;
    const vf none = v_zero(), bias0 = p->bias ? v_load(bias) : none;
    const vf bias1 = p->bias ? v_load(bias + STK_LANES) : none;
    const size_t left = least(f->columns, STK_LANES), right = f->columns - left;
    for (size_t i = 0; i < f->rows; i++, sums += PANEL) {
        const size_t at = (f->row + i) * f->y_stride + f->first;
        vf a = v_add(v_load(sums), bias0), b = v_add(v_load(sums + STK_LANES), bias1);
        if (p->scale) {
            const vf scale = v_set(p->scale[(p->row + f->row + i) / p->sample_rows]);
            a = v_mul(a, scale);
            b = v_mul(b, scale);
        }
        if (residual != NO_RESIDUAL) {
            a = v_add(a, v_get_part(p->residual, at, left, (stk_float)residual));
            b = v_add(b, v_get_part(p->residual, at + STK_LANES, right, (stk_float)residual));
        }
        if (type == STK_BF16 && right == STK_LANES) {
            _mm512_storeu_si512((uint16_t *)f->y + at, (__m512i)_mm512_cvtne2ps_pbh(b, a));
        } else {
            v_put_part(f->y, at, left, a, type);
            v_put_part(f->y, at + STK_LANES, right, b, type);
        }
    }
}

static void finish_strip(const finish *f, const float *sums)
{
    const int residual = f->product->residual ? (int)f->product->residual_type : NO_RESIDUAL;
    if (f->product->type == STK_F32) {
        if (residual == NO_RESIDUAL)
            finish_rows(f, sums, STK_F32, NO_RESIDUAL);
        else
            finish_rows(f, sums, STK_F32, STK_F32);
    } else {
        if (residual == NO_RESIDUAL)
            finish_rows(f, sums, STK_BF16, NO_RESIDUAL);
        else if (residual == STK_F32)
            finish_rows(f, sums, STK_BF16, STK_F32);
        else
            finish_rows(f, sums, STK_BF16, STK_BF16);
    }
}

/* ---- products ---- */

/* A tile of A of fewer than 16 rows or 32 k, the rest 0. */
static void pad_tile(const uint16_t *x, size_t x_stride, size_t rows, size_t k, uint16_t *tile)
{
    for (size_t i = 0; i < STK_TILE; i++)
        _mm512_storeu_si512(tile + i * STK_TILE_K,
                            i < rows ? stk_tiles_row(x + i * x_stride, k) : _mm512_setzero_si512());
}

/* Up to 32 rows times a panel: sums[row][PANEL]. */
STK_INLINE void multiply_strip(const uint16_t *x, size_t x_stride, size_t rows, size_t k,
                               const uint16_t *panel, float *sums, int below, int right)
{
    const size_t whole = rows % STK_TILE ? 0 : k / STK_TILE_K;
    const stk_tiles direct = { .a = { x, x + (below ? STK_TILE : 0) * x_stride },
                               .a_stride = x_stride * sizeof *x,
                               .a_step = STK_TILE_ROW,
                               .b = { panel, panel + STK_TILE_WORDS },
                               .b_step = 2 * STK_TILE_BYTES };
    stk_tiles_zero();
    stk_tiles_add(&direct, whole, below, right);
    for (size_t step = whole; step < steps_of(k); step++) {
        uint16_t padded[2][STK_TILE_WORDS] __attribute__((aligned(64)));
        const size_t at = step * STK_TILE_K, some = least(k - at, STK_TILE_K);
        pad_tile(x + at, x_stride, least(rows, STK_TILE), some, padded[0]);
        if (below) pad_tile(x + STK_TILE * x_stride + at, x_stride, rows - STK_TILE, some, padded[1]);
        stk_tiles_written(padded);
        const uint16_t *b = panel + step * 2 * STK_TILE_WORDS;
        const stk_tiles copies = { .a = { padded[0], padded[1] },
                                   .a_stride = STK_TILE_ROW,
                                   .b = { b, b + STK_TILE_WORDS } };
        stk_tiles_add(&copies, 1, below, right);
    }
    const size_t stride = PANEL * sizeof *sums;
    _tile_stored(0, sums, stride);
    if (right) _tile_stored(1, sums + STK_TILE, stride);
    if (below) _tile_stored(2, sums + STK_TILE * PANEL, stride);
    if (below && right) _tile_stored(3, sums + STK_TILE * PANEL + STK_TILE, stride);
}

static void multiply_panel(const finish *start, size_t end, const uint16_t *x, size_t x_stride)
{
    const stk_gemm_product *p = start->product;
    const uint16_t *panel = panel_at(p->packed, p->k, p->n, start->first);
    /* Two, so that the next product need not wait until the last one's sums are read. */
    float sums[2][STRIP * PANEL] __attribute__((aligned(64)));
    finish f = *start;
    for (int which = 0; f.row < end; f.row += STRIP, which ^= 1) {
        const uint16_t *rows = x + f.row * x_stride;
        f.rows = least(end - f.row, STRIP);
        const int below = f.rows > STK_TILE;
        if (f.columns > STK_TILE && below)
            multiply_strip(rows, x_stride, f.rows, p->k, panel, sums[which], 1, 1);
        else if (f.columns > STK_TILE)
            multiply_strip(rows, x_stride, f.rows, p->k, panel, sums[which], 0, 1);
        else
            multiply_strip(rows, x_stride, f.rows, p->k, panel, sums[which], below, 0);
        finish_strip(&f, sums[which]);
    }
}

static void multiply(const stk_gemm_product *product, size_t rows, const void *x, size_t x_stride, void *y,
                     size_t y_stride)
{
    const size_t fit = BLOCK_WORDS / product->k / STRIP * STRIP, block = fit > STRIP ? fit : STRIP;
    const size_t end = product->first + product->columns;
    stk_tiles_begin();
    for (size_t row = 0; row < rows; row += block)
        for (size_t first = product->first; first < end; first += PANEL) {
            const finish f = { .product = product,
                               .first = first,
                               .columns = least(end - first, PANEL),
                               .row = row,
                               .y = y,
                               .y_stride = y_stride };
            multiply_panel(&f, least(rows, row + block), x, x_stride);
        }
    stk_tiles_end();
}

void STK_TILES(stk_gemm_fill)(stk_gemm_table *table)
{
    table->of[STK_BF16] = (stk_gemm){ .panel = PANEL,
                                      .strip = STRIP,
                                      .packed_bytes = packed_bytes,
                                      .pack = pack,
                                      .multiply = multiply,
                                      .outer_scratch = STK_OUTER_SCRATCH,
                                      .outer = STK_TILES(stk_outer) };
}
