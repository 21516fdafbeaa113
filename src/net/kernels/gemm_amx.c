/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm on AMX tiles: the entry of bf16. (f32 and f16 stay AVX-512's.)
 *
 * B is packed into panels of 32 columns: for every 32 k two tiles, columns 0..15 and 16..31. The bias lies
 * before them. A is read where it lies; where 16 rows or 32 k are not to be had, from a padded copy of the
 * tile.
 */
#include <string.h>

#include "src/net/kernels/net_table.h"
#include "src/net/kernels/tiles.h"

enum {
    /* What is packed at a time: 256 rows of up to 256 outputs and 512 inputs, 128 and 256 KB, which stay in a
     * second-level cache of 2 MB. */
    STK_OUTER_ROWS = 256,
    STK_OUTER_N = 256,
    STK_OUTER_K = 512,
    STK_OUTER_SCRATCH = 2 * STK_OUTER_ROWS * (STK_OUTER_N + STK_OUTER_K)
};

/* ---- dW ---- */

/* gemm on AMX tiles: dW = dY^T X and the column sums of dY.
 *
 * Both operands lie along n and k while the sum runs over rows, so both are packed first: X as pairs of rows,
 * the form of B; dY as pairs of rows turned by 16 x 16, the form of A. */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* `columns` of up to STK_OUTER_ROWS rows, as tiles: [16 columns][32 rows]. Rows and columns that are not
 * there are 0. */
STK_INLINE void pack_rows(const uint16_t *from, size_t stride, size_t rows, size_t columns, int turned,
                          uint16_t *tiles)
{
    const size_t steps = (rows + STK_TILE_K - 1) / STK_TILE_K;
    for (size_t column = 0; column < columns; column += 2 * STK_TILE, tiles += 2 * steps * STK_TILE_WORDS) {
        const size_t some = least(columns - column, STK_TILE_K);
        for (size_t step = 0; step < steps; step++) {
            __m512i left[STK_TILE], right[STK_TILE];
            for (size_t pair = 0; pair < STK_TILE; pair++) {
                const size_t row = step * STK_TILE_K + 2 * pair;
                const uint16_t *at = from + row * stride + column;
                const __m512i even = row < rows ? stk_tiles_row(at, some) : _mm512_setzero_si512();
                const __m512i odd =
                    row + 1 < rows ? stk_tiles_row(at + stride, some) : _mm512_setzero_si512();
                stk_tiles_pair(even, odd, &left[pair], &right[pair]);
            }
            if (turned) {
                stk_tiles_turn(left);
                stk_tiles_turn(right);
            }
            uint16_t *to = tiles + step * STK_TILE_WORDS, *beside = to + steps * STK_TILE_WORDS;
            for (size_t i = 0; i < STK_TILE; i++) {
                _mm512_storeu_si512(to + i * STK_TILE_K, left[i]);
                _mm512_storeu_si512(beside + i * STK_TILE_K, right[i]);
            }
        }
    }
}

/* 16 x 16 sums: in dW itself, or in a copy where dW ends before. */
typedef struct corner {
    float *dw, *at;
    size_t dw_stride, at_stride, rows, columns;
} corner;

static corner open_corner(const stk_gemm_outer *o, size_t n, size_t k, int add, float *copy)
{
    corner c = { .dw_stride = o->dw_stride };
    if (n < o->n && k < o->k) {
        c.dw = o->dw + n * o->dw_stride + k;
        c.rows = least(o->n - n, STK_TILE);
        c.columns = least(o->k - k, STK_TILE);
    }
    const int whole = c.rows == STK_TILE && c.columns == STK_TILE;
    c.at = whole ? c.dw : copy;
    c.at_stride = whole ? o->dw_stride : STK_TILE;
    if (whole || !add) return c;
    for (size_t i = 0; i < STK_TILE; i++)
        v_store(copy + i * STK_TILE, i < c.rows ? v_load_part(c.dw + i * c.dw_stride, c.columns) : v_zero());
    stk_tiles_written(copy);
    return c;
}

static void close_corner(const corner *c)
{
    if (c->at == c->dw) return;
    for (size_t i = 0; i < c->rows; i++)
        v_store_part(c->dw + i * c->dw_stride, c->columns, v_load(c->at + i * STK_TILE));
}

#define EACH_CORNER(_) _(0) _(1) _(2) _(3)
#define LOAD(i)        _tile_loadd(i, c[i].at, c[i].at_stride * sizeof(float));
#define STORE(i)       _tile_stored(i, c[i].at, c[i].at_stride * sizeof(float));

/* 32 x 32 elements of dW at (n, k), from packed operands. */
static void multiply_block(const stk_gemm_outer *o, const uint16_t *dy, const uint16_t *x, size_t steps,
                           size_t n, size_t k, int add)
{
    float copy[4][STK_TILE * STK_TILE] __attribute__((aligned(64)));
    corner c[4];
    for (size_t i = 0; i < 4; i++)
        c[i] = open_corner(o, n + i / 2 * STK_TILE, k + i % 2 * STK_TILE, add, copy[i]);
    const stk_tiles t = { .a = { dy, dy + steps * STK_TILE_WORDS },
                          .a_stride = STK_TILE_ROW,
                          .a_step = STK_TILE_BYTES,
                          .b = { x, x + steps * STK_TILE_WORDS },
                          .b_step = STK_TILE_BYTES };
    if (add) {
        EACH_CORNER(LOAD)
    } else {
        stk_tiles_zero();
    }
    const int below = n + STK_TILE < o->n, right = k + STK_TILE < o->k;
    if (below && right)
        stk_tiles_add(&t, steps, 1, 1);
    else
        stk_tiles_add(&t, steps, below, right);
    EACH_CORNER(STORE)
    for (size_t i = 0; i < 4; i++) close_corner(&c[i]);
}

static void add_columns(const stk_gemm_outer *o, const uint16_t *dy, size_t rows, int add)
{
    for (size_t n = 0; n < o->n; n += STK_LANES) {
        const size_t some = least(o->n - n, STK_LANES);
        vf sum = v_zero();
        for (size_t row = 0; row < rows; row++)
            sum = v_add(sum, v_get_part(dy, row * o->dy_stride + n, some, STK_BF16));
        if (add) sum = v_add(sum, v_get_part(o->db, n, some, STK_F32));
        v_put_part(o->db, n, some, sum, STK_F32);
    }
}

static void outer(const stk_gemm_outer *o)
{
    uint16_t *packed_x = o->scratch, *packed_dy = packed_x + STK_OUTER_ROWS * STK_OUTER_K;
    stk_tiles_begin();
    for (size_t row = 0; row < o->rows; row += STK_OUTER_ROWS) {
        const uint16_t *dy = (const uint16_t *)o->dy + row * o->dy_stride;
        const uint16_t *x = (const uint16_t *)o->x + row * o->x_stride;
        const size_t rows = least(o->rows - row, STK_OUTER_ROWS),
                     steps = (rows + STK_TILE_K - 1) / STK_TILE_K;
        const int add = o->add || row > 0;
        if (o->db) add_columns(o, dy, rows, add);
        for (size_t k0 = 0; k0 < o->k; k0 += STK_OUTER_K) {
            const size_t k_end = least(o->k, k0 + STK_OUTER_K);
            pack_rows(x + k0, o->x_stride, rows, k_end - k0, 0, packed_x);
            for (size_t n0 = 0; n0 < o->n; n0 += STK_OUTER_N) {
                const size_t n_end = least(o->n, n0 + STK_OUTER_N);
                pack_rows(dy + n0, o->dy_stride, rows, n_end - n0, 1, packed_dy);
                stk_tiles_written(packed_x);
                for (size_t n = n0; n < n_end; n += 2 * STK_TILE)
                    for (size_t k = k0; k < k_end; k += 2 * STK_TILE)
                        multiply_block(o, packed_dy + (n - n0) * steps * STK_TILE_K,
                                       packed_x + (k - k0) * steps * STK_TILE_K, steps, n, k, add);
            }
        }
    }
    stk_tiles_end();
}

/* ---- products ---- */

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
                                      .outer = outer };
}

/* ---- the processor's peak ---- */

static uint64_t run(uint64_t rounds)
{
    stk_tiles_begin();
    stk_tiles_zero();
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (uint64_t round = 0; round < rounds; round++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    stk_tiles_end();
    return rounds * 4 * STK_TILE * STK_TILE * STK_TILE_K * 2;
}

void STK_TILES(stk_peak_fill)(stk_peak_table *table)
{
    table->run[STK_BF16] = run;
}
