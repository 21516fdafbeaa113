/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm on AMX tiles: dW = dY^T X and the column sums of dY.
 *
 * Both operands lie along n and k while the sum runs over rows, so both are packed first: X as pairs of rows,
 * the form of B; dY as pairs of rows turned by 16 x 16, the form of A.
 */
#include "src/net/kernels/gemm_amx.h"

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

void STK_TILES(stk_outer)(const stk_gemm_outer *o)
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
