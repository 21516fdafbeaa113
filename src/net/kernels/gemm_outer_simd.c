/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm in vectors: dW = dY^T X and the column sums of dY.
 *
 * The sum runs over rows, and in a row both operands lie as a tile of dW wants them: some outputs, each
 * spread to all lanes, times two vectors of inputs. So nothing is turned, and short rows of f32 are not
 * packed either: DEPTH of them stay in the second-level cache, and what a tile needs of a row, two lines,
 * arrives while the row before is multiplied. Rows
 * of 16 bits are widened, and those so long that they would fall on few sets of the cache are copied.
 *
 * Packing all of dY tile by tile took a sixth of the time. One core, from memory, with that and without: 4096
 * rows of 64 x 64 at 62 to 65 and 86 GFLOP/s, 16384 of 32 x 32 at 46 to 49 and 73 to 82; but 128 of 1024 x
 * 256 at 83 and 78.
 */
#include "src/net/kernels/gemm_outer.h"

enum {
    PANEL = 2 * STK_LANES,
    STRIP = STK_LANES == 8 ? 6 : 14, /* outputs of a tile; of 16 and 32 registers 12 and 28 are sums */
    DEPTH =
        64, /* rows summed in registers; 128 were 5 % slower where rows stay in place, and no faster else */
    BLOCK_N = 128, /* columns of dY and X that are multiplied with each other before others */
    BLOCK_K = 128,
    LONG = 768,   /* floats from row to row up to which rows stay in place: 192 KB */
    UNEVEN = 512, /* unless they are a multiple of this: then all fall on two sets of the first-level cache */
    LINE = 16,    /* floats */
};

typedef struct outer_room {
    float x[DEPTH * (BLOCK_K + LINE)];
    float dy[DEPTH * (BLOCK_N + LINE)];
} outer_room;

/* ---- tiles ---- */

/* Memory to be fetched while a tile is computed, a step per row: a tile alone leaves it idle. Addresses past
 * the end do no harm. */
typedef struct ahead {
    const void *at;
    size_t step; /* bytes */
} ahead;

typedef struct outer_work {
    size_t rows;
    const float *dy, *x;
    size_t dy_stride, x_stride;
    ahead next;
    float *dw;
    size_t dw_stride, columns;
    int add;
} outer_work;

/* The sums of a tile, `last` lanes of the last vector. */
STK_INLINE void put_tile(int height, int vectors, vf sum[][2], float *dw, size_t dw_stride, size_t last,
                         int add)
{
    STK_UNROLL(14)
    for (int r = 0; r < height; r++, dw += dw_stride) {
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++) {
            const size_t count = v < vectors - 1 ? STK_LANES : last;
            float *to = dw + v * STK_LANES;
            if (count == STK_LANES)
                v_store(to, add ? v_add(sum[r][v], v_load(to)) : sum[r][v]);
            else
                v_store_part(to, count, add ? v_add(sum[r][v], v_load_part(to, count)) : sum[r][v]);
        }
    }
}

/* `height` outputs times `vectors` of inputs, of which w->columns are in use. */
STK_INLINE void outer_tile(int height, int vectors, const outer_work *w)
{
    vf sum[STRIP][2];
    STK_UNROLL(14)
    for (int r = 0; r < height; r++) sum[r][0] = sum[r][1] = v_zero();
    const float *dy = w->dy, *x = w->x;
    const char *next = w->next.at;
    for (size_t i = w->rows; i > 0; i--, dy += w->dy_stride, x += w->x_stride, next += w->next.step) {
        vf b[2];
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++) b[v] = v_load(x + v * STK_LANES);
        __builtin_prefetch(next, 0, 2); /* to the second-level cache */
        STK_UNROLL(14)
        for (int r = 0; r < height; r++) {
            const vf a = v_set(dy[r]);
            STK_UNROLL(2)
            for (int v = 0; v < vectors; v++) sum[r][v] = v_fma(a, b[v], sum[r][v]);
        }
    }
    const size_t last = w->columns - (size_t)(vectors - 1) * STK_LANES;
    if (last < STK_LANES)
        put_tile(height, vectors, sum, w->dw, w->dw_stride, last, w->add);
    else if (w->add)
        put_tile(height, vectors, sum, w->dw, w->dw_stride, STK_LANES, 1);
    else
        put_tile(height, vectors, sum, w->dw, w->dw_stride, STK_LANES, 0);
}

/* The same with a height known only now. */
STK_INLINE void outer_tile_of(size_t height, int vectors, const outer_work *w)
{
#define CASE(h)                                                                                              \
    case h:                                                                                                  \
        if (h <= STRIP) outer_tile(h, vectors, w);                                                           \
        break;
    STK_WITH_HEIGHT(height, CASE)
#undef CASE
}

static void outer_wide(size_t height, const outer_work *w)
{
    outer_tile_of(height, 2, w);
}

static void outer_narrow(size_t height, const outer_work *w)
{
    outer_tile_of(height, 1, w);
}

/* ---- rows ---- */

/* Outputs are shared out evenly: 32 make 6 + 6 + 5 + 5 + 5 + 5, not 5 times 6 and a 2 that costs like 4. */
typedef struct shares {
    size_t number, each, larger; /* the first `larger` ones have one more */
} shares;

static inline shares shares_of(size_t n, size_t at_most)
{
    const size_t number = (n + at_most - 1) / at_most;
    return (shares){ number, n / number, n % number };
}

static inline size_t share(const shares *s, size_t i)
{
    return s->each + (i < s->larger);
}

/* Some columns of some rows as f32. */
typedef struct view {
    const float *at;
    size_t stride;
} view;

/* Where they lie, or copied to `room`, followed by zeros up to a whole vector; there rows are an odd number
 * of lines apart, which spreads them over all sets of a cache. */
STK_INLINE view view_of(stk_float type, const void *from, size_t stride, size_t rows, size_t columns,
                        int in_place, float *room)
{
    if (type == STK_F32 && in_place && stride <= LONG && stride % UNEVEN) return (view){ from, stride };
    const size_t to = ((columns + LINE - 1) / LINE | 1) * LINE;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < columns; j += STK_LANES)
            v_store(room + r * to + j, v_get_part(from, r * stride + j, columns - j, type));
    return (view){ room, to };
}

/* db of `vectors` of outputs, of which `n` are in use. */
STK_INLINE void column_sums(int vectors, view dy, size_t rows, size_t n, float *db, int add)
{
    vf sum[8];
    STK_UNROLL(8)
    for (int v = 0; v < vectors; v++) sum[v] = v_zero();
    const float *at = dy.at;
    for (size_t r = 0; r < rows; r++, at += dy.stride) {
        STK_UNROLL(8)
        for (int v = 0; v < vectors; v++)
            sum[v] = v_add(sum[v], n < STK_LANES ? v_load_part(at, n) : v_load(at + v * STK_LANES));
    }
    STK_UNROLL(8)
    for (int v = 0; v < vectors; v++) {
        const size_t count = n < STK_LANES ? n : STK_LANES;
        float *to = db + v * STK_LANES;
        v_store_part(to, count, add ? v_add(sum[v], v_load_part(to, count)) : sum[v]);
    }
}

/* As many outputs at a time as sums do not wait for themselves. */
static void all_column_sums(view dy, size_t rows, size_t n, float *db, int add)
{
    while (n) {
        size_t done;
#define SUMS_OF(vectors) column_sums(vectors, dy, rows, n, db, add), done = (vectors)*STK_LANES
        if (n >= 8 * STK_LANES)
            SUMS_OF(8);
        else if (n >= 4 * STK_LANES)
            SUMS_OF(4);
        else
            SUMS_OF(1);
#undef SUMS_OF
        done = done < n ? done : n;
        n -= done;
        db += done;
        dy.at += done;
    }
}

/* ---- the product ---- */

/* Some rows of dY or X, to be fetched. */
typedef struct range {
    const void *at;
    size_t rows, bytes, stride; /* bytes of a row, and from row to row */
} range;

/* What to fetch during tile `i` of `tiles`: rows that follow one another little by little, of others a line
 * of each in some of the tiles. */
static inline ahead ahead_of(const range *next, size_t i, size_t tiles)
{
    if (next->bytes == next->stride) {
        const size_t all = next->rows * next->bytes, each = (all + tiles - 1) / tiles;
        return (ahead){ (const char *)next->at + each * i, (each + next->rows - 1) / next->rows };
    }
    const size_t lines = (next->bytes + 63) / 64, line = i * lines / tiles;
    return (ahead){ (const char *)next->at + line * 64, line < (i + 1) * lines / tiles ? next->stride : 0 };
}

/* All of what is to be fetched during the tiles of a block. */
typedef struct fetching {
    range dy, x;
    size_t tile, dy_tiles, tiles; /* done; those for dy; all */
} fetching;

static inline ahead fetch_next(fetching *f)
{
    const size_t i = f->tile++;
    return i < f->dy_tiles ? ahead_of(&f->dy, i, f->dy_tiles)
                           : ahead_of(&f->x, i - f->dy_tiles, f->tiles - f->dy_tiles);
}

/* n outputs times k inputs over some rows. */
static void outer_block(view dy, view x, size_t rows, size_t n, size_t k, float *dw, size_t dw_stride,
                        int add, fetching *next)
{
    const shares tiles = shares_of(n, STRIP);
    for (size_t i = 0, at = 0; i < tiles.number; at += share(&tiles, i++)) {
        for (size_t j = 0; j < k; j += PANEL) {
            const outer_work w = { .rows = rows,
                                   .dy = dy.at + at,
                                   .x = x.at + j,
                                   .dy_stride = dy.stride,
                                   .x_stride = x.stride,
                                   .next = fetch_next(next),
                                   .dw = dw + at * dw_stride + j,
                                   .dw_stride = dw_stride,
                                   .columns = k - j < PANEL ? k - j : PANEL,
                                   .add = add };
            (w.columns > STK_LANES ? outer_wide : outer_narrow)(share(&tiles, i), &w);
        }
    }
}

void STK_SIMD(stk_gemm_outer_add)(size_t rows, const float *x, size_t x_stride, size_t n, const float *y,
                                  size_t k, float *sums)
{
    const size_t tiles = (n + STRIP - 1) / STRIP * ((k + PANEL - 1) / PANEL),
                 bytes = n * k * sizeof(float) / rows;
    fetching next = { .dy = { sums + n * k, rows, bytes, bytes }, .dy_tiles = tiles, .tiles = tiles };
    outer_block((view){ x, x_stride }, (view){ y, k }, rows, n, k, sums, k, 1, &next);
}

/* The rows after those at hand, from `row` on. */
STK_INLINE fetching fetching_of(stk_float type, const stk_gemm_outer *o, size_t row)
{
    const size_t element = stk_float_bytes(type), left = o->rows > row ? o->rows - row : 1;
    const size_t rows = left < DEPTH ? left : DEPTH;
    fetching f = {
        .dy = { stk_at(o->dy, row * o->dy_stride, type), rows, o->n * element, o->dy_stride * element },
        .x = { stk_at(o->x, row * o->x_stride, type), rows, o->k * element, o->x_stride * element },
        .tiles = (o->n + STRIP - 1) / STRIP * ((o->k + PANEL - 1) / PANEL) + 1,
    };
    f.dy_tiles = f.tiles * o->n / (o->n + o->k);
    if (!f.dy_tiles) f.dy_tiles = 1;
    return f;
}

STK_INLINE void outer_rows(stk_float type, const stk_gemm_outer *o, size_t row, size_t rows, int add)
{
    outer_room *room = o->scratch;
    const shares n_blocks = shares_of(o->n, BLOCK_N);
    fetching next = fetching_of(type, o, row + rows);
    for (size_t j = 0; j < o->k; j += BLOCK_K) {
        const size_t k = o->k - j < BLOCK_K ? o->k - j : BLOCK_K;
        const view x = view_of(type, stk_at(o->x, row * o->x_stride + j, type), o->x_stride, rows, k,
                               k % STK_LANES == 0, room->x);
        for (size_t i = 0, at = 0; i < n_blocks.number; at += share(&n_blocks, i++)) {
            const size_t n = share(&n_blocks, i);
            const view dy = view_of(type, stk_at(o->dy, row * o->dy_stride + at, type), o->dy_stride, rows, n,
                                    1, room->dy);
            if (o->db && j == 0) all_column_sums(dy, rows, n, o->db + at, add);
            outer_block(dy, x, rows, n, k, o->dw + at * o->dw_stride + j, o->dw_stride, add, &next);
        }
    }
}

STK_INLINE void outer(const stk_gemm_outer *o, stk_float type)
{
    for (size_t row = 0; row < o->rows; row += DEPTH)
        outer_rows(type, o, row, o->rows - row < DEPTH ? o->rows - row : DEPTH, o->add || row > 0);
}

STK_TYPED(outer, (const stk_gemm_outer *o), o)

void STK_SIMD(stk_gemm_outer_fill)(stk_gemm_table *table)
{
    for (int type = 0; type < STK_FLOATS; type++) table->of[type].outer_scratch = sizeof(outer_room);
    table->of[STK_F32].outer = outer_f32;
    table->of[STK_BF16].outer = outer_bf16;
    table->of[STK_F16].outer = outer_f16;
}
