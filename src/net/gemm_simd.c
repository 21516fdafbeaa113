/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.h in vectors: B in panels of two vectors (gemm_panels.h), strips of A as tall as the registers allow.
 *
 * A strip of 6 rows (AVX2) times a panel of 2 vectors keeps 12 sums in registers and needs 8 loads for 12
 * multiplications: both arithmetic units are busy as long as the panel comes from the first-level cache. So k
 * is cut into slices whose part of a panel takes half of it, and all strips of a block pass by before the
 * next slice comes. 16-bit rows are widened as they are read.
 */
#include "src/net/gemm_panels.h"
#include "src/net/simd.h"

#include <string.h>

enum {
    PANEL = 2 * STK_LANES,
    STRIP = STK_LANES == 8 ? 6 : 14,    /* of 16 and 32 registers: 12 and 28 sums, 2 of B, 1 of A */
    NARROW = 12,                        /* rows per strip when the panel is one vector wide */
    SLICE = STK_LANES == 8 ? 256 : 192, /* k: 16 and 24 KB of a panel */
    BLOCK = 16 * STRIP,                 /* rows that pass by a slice; their sums take 6 and 28 KB */
};

/* Where a tile goes: y = sum * factor + residual, all f32. */
typedef struct ending {
    float *y;
    size_t y_stride;
    const float *residual; /* NULL, or strides like y */
    const float *factor;   /* NULL, or one per row */
} ending;

/* Lines of memory to be fetched while a tile is computed, one per k or row: a tile alone leaves the memory
 * idle most of the time and waits for it the rest. Addresses past the end do no harm. */
typedef struct ahead {
    const void *at;
    size_t step; /* bytes */
} ahead;

STK_INLINE void fetch(const ahead *next, size_t i)
{
    __builtin_prefetch((const char *)next->at + i * next->step, 0, 2); /* to the second-level cache */
}

/* `rows` of A times `vectors` of B over k; sums start at `from`, from_stride floats from row to row (0: the
 * bias, the same for all). rows, vectors and type are constants wherever this is inlined, so that the sums
 * live in registers. */
STK_INLINE void tile(int rows, int vectors, stk_float type, const void *x, size_t x_stride, size_t k,
                     const float *panel, const float *from, size_t from_stride, ahead next, const ending *end)
{
    vf sum[NARROW > STRIP ? NARROW : STRIP][2];
    STK_UNROLL(14)
    for (int r = 0; r < rows; r++) {
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = from ? v_load(from + (size_t)r * from_stride + v * STK_LANES) : v_zero();
    }

    for (size_t i = 0; i < k; i++, panel += vectors * STK_LANES) {
        vf b[2];
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++) b[v] = v_load(panel + v * STK_LANES);
        fetch(&next, i);
        STK_UNROLL(14)
        for (int r = 0; r < rows; r++) {
            const vf a = v_spread(x, (size_t)r * x_stride + i, type);
            STK_UNROLL(2)
            for (int v = 0; v < vectors; v++) sum[r][v] = v_fma(a, b[v], sum[r][v]);
        }
    }

    STK_UNROLL(14)
    for (int r = 0; r < rows; r++) {
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++) {
            const size_t at = (size_t)r * end->y_stride + (size_t)v * STK_LANES;
            vf value = sum[r][v];
            if (end->factor) value = v_mul(value, v_set(end->factor[r]));
            if (end->residual) value = v_add(value, v_load(end->residual + at));
            v_store(end->y + at, value);
        }
    }
}

/* All rows of a block, strip by strip: the tallest that fits each time. An element's sum is the same in each
 * of them. */
STK_INLINE void strips(int vectors, stk_float type, size_t rows, const void *x, size_t x_stride, size_t k,
                       const float *panel, const float *from, size_t from_stride, ahead next, ending end)
{
    const int tallest = vectors == 2 ? STRIP : NARROW;
    while (rows) {
        size_t done;
#define STRIP_OF(height)                                                                                     \
    tile(height, vectors, type, x, x_stride, k, panel, from, from_stride, next, &end), done = height
        if (rows >= (size_t)tallest)
            STRIP_OF(tallest);
        else if (tallest > 8 && rows >= 8)
            STRIP_OF(8);
        else if (rows >= 4)
            STRIP_OF(4);
        else if (rows >= 2)
            STRIP_OF(2);
        else
            STRIP_OF(1);
#undef STRIP_OF
        rows -= done;
        x = stk_at(x, done * x_stride, type);
        next.at = (const char *)next.at + k * next.step;
        if (from) from += done * from_stride;
        end.y += done * end.y_stride;
        if (end.residual) end.residual += done * end.y_stride;
        if (end.factor) end.factor += done;
    }
}

/* Sums of a block to where y is of another type or not a whole number of vectors wide. */
STK_INLINE void store_as(stk_float type, stk_float residual_type, size_t rows, size_t columns,
                         const float *sums, const float *factor, const void *residual, void *y,
                         size_t y_stride)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < columns; j += STK_LANES) {
            const size_t count = columns - j < STK_LANES ? columns - j : STK_LANES;
            vf value = v_load(sums + r * PANEL + j);
            if (factor) value = v_mul(value, v_set(factor[r]));
            if (residual) value = v_add(value, v_get_part(residual, r * y_stride + j, count, residual_type));
            v_put_part(y, r * y_stride + j, count, value, type);
        }
    }
}

STK_INLINE void store(stk_float type, const stk_gemm_product *product, size_t rows, size_t columns,
                      const float *sums, const float *factor, const void *residual, void *y, size_t y_stride)
{
    if (product->type == STK_F32)
        store_as(STK_F32, STK_F32, rows, columns, sums, factor, residual, y, y_stride);
    else if (product->residual_type == STK_F32)
        store_as(type, STK_F32, rows, columns, sums, factor, residual, y, y_stride);
    else
        store_as(type, type, rows, columns, sums, factor, residual, y, y_stride);
}

/* One panel times a block of rows; y and residual at the panel's first column. */
STK_INLINE void panel_of(int vectors, stk_float type, const stk_gemm_product *product, size_t first,
                         size_t rows, const void *x, size_t x_stride, ahead next, const float *factor,
                         const void *residual, void *y, size_t y_stride)
{
    float sums[BLOCK * PANEL] __attribute__((aligned(64)));
    const size_t width = (size_t)vectors * STK_LANES, k = product->k;
    const size_t left = product->first + product->columns - first, columns = left < width ? left : width;
    const size_t slices = (k + SLICE - 1) / SLICE, slice = (k + slices - 1) / slices;
    const int straight =
        product->type == STK_F32 && columns == width && (!residual || product->residual_type == STK_F32);
    const float *panel = stk_panels_at(product->packed, k, product->n, first);
    const float *from = product->bias ? (const float *)product->packed + first : NULL;
    for (size_t i = 0; i < k; i += slice) {
        const size_t count = k - i < slice ? k - i : slice;
        const ending end = i + count == k && straight ? (ending){ y, y_stride, residual, factor }
                                                      : (ending){ sums, PANEL, NULL, NULL };
        strips(vectors, type, rows, stk_at(x, i, type), x_stride, count, panel + i * width, from,
               i ? PANEL : 0, next, end);
        next.at = (const char *)next.at + count * (rows / STRIP) * next.step;
        from = sums;
    }
    if (!straight) store(type, product, rows, columns, sums, factor, residual, y, y_stride);
}

/* What to fetch while panel `p` of `panels` meets a block: its share of the next block of rows, or, for the
 * first of all, which nobody has fetched, the strips that come next. Without this 16384 rows of 128 times 32
 * columns ran at 48 GFLOP/s, waiting for memory; with it at 88. */
STK_INLINE ahead ahead_of(stk_float type, const void *x, size_t x_stride, size_t row, size_t p, size_t panels)
{
    const size_t element = stk_float_bytes(type);
    if (row == 0 && p == 0) return (ahead){ stk_at(x, 4 * STRIP * x_stride, type), STRIP * element };
    return (ahead){ stk_at(x, BLOCK * x_stride + BLOCK * x_stride * p / panels, type),
                    (STRIP * element + panels - 1) / panels };
}

STK_INLINE void multiply(stk_float type, const stk_gemm_product *product, size_t rows, const void *x,
                         size_t x_stride, void *y, size_t y_stride)
{
    for (size_t row = 0; row < rows; row += BLOCK) {
        const size_t block = rows - row < BLOCK ? rows - row : BLOCK;
        float factors[BLOCK];
        for (size_t r = 0; product->scale && r < block; r++)
            factors[r] = product->scale[(product->row + row + r) / product->sample_rows];
        const float *factor = product->scale ? factors : NULL;
        const void *block_x = stk_at(x, row * x_stride, type);
        const size_t panels = (product->columns + PANEL - 1) / PANEL;
        for (size_t p = 0; p < panels; p++) {
            const size_t j = product->first + p * PANEL;
            const ahead next = ahead_of(type, block_x, x_stride, row, p, panels);
            const size_t at = row * y_stride + j;
            void *to = stk_at(y, at, product->type);
            const void *residual =
                product->residual ? stk_at(product->residual, at, product->residual_type) : NULL;
            if (stk_panels_width(product->n, j, PANEL, STK_LANES) == PANEL)
                panel_of(2, type, product, j, block, block_x, x_stride, next, factor, residual, to, y_stride);
            else
                panel_of(1, type, product, j, block, block_x, x_stride, next, factor, residual, to, y_stride);
        }
    }
}

static size_t packed_bytes(size_t k, size_t n)
{
    return stk_panels_bytes(k, n, STK_LANES);
}

/* ---- outer products ---- */

enum {
    DEPTH = 256,   /* rows summed in registers: a panel of X takes 16 KB, one of dY 8 */
    OUTER_N = 128, /* outputs whose dY of DEPTH rows lies packed in the second-level cache: 176 KB */
    OUTER_TILES = (OUTER_N + STRIP - 1) / STRIP,
};

typedef struct outer_room {
    float x[DEPTH * PANEL];
    float dy[DEPTH * STK_LANES * OUTER_TILES];
} outer_room;

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

/* Some rows of a panel of dY, a vector each. Returns the sum of them and of `sum`. */
STK_INLINE vf pack_dy_panel(stk_float type, const void *dy, size_t dy_stride, size_t count, size_t rows,
                            float *out, vf sum)
{
    vf odd = v_zero(); /* one sum alone would wait for itself */
    size_t r = 0;
    for (; r + 2 <= rows; r += 2) {
        const vf first = v_get_part(dy, r * dy_stride, count, type);
        const vf second = v_get_part(dy, (r + 1) * dy_stride, count, type);
        v_store(out + r * STK_LANES, first);
        v_store(out + (r + 1) * STK_LANES, second);
        sum = v_add(sum, first);
        odd = v_add(odd, second);
    }
    if (r < rows) {
        const vf last = v_get_part(dy, r * dy_stride, count, type);
        v_store(out + r * STK_LANES, last);
        sum = v_add(sum, last);
    }
    return v_add(sum, odd);
}

/* Outputs first .. first + n in panels (tiles), and their sums to db. Eight rows at a time go to all panels:
 * a line of dY belongs to three of them and would not stay in the first-level cache for 256 rows. */
STK_INLINE void pack_dy(stk_float type, const stk_gemm_outer *o, size_t row, size_t rows, size_t first,
                        const shares *tiles, float *out, int add)
{
    enum { AT_ONCE = 8 };
    float sums[OUTER_TILES][STK_LANES];
    memset(sums, 0, sizeof sums);
    for (size_t r = 0; r < rows; r += AT_ONCE) {
        const size_t some = rows - r < AT_ONCE ? rows - r : AT_ONCE;
        for (size_t i = 0, n = first; i < tiles->number; n += share(tiles, i++)) {
            const void *dy = stk_at(o->dy, (row + r) * o->dy_stride + n, type);
            float *to = out + (i * rows + r) * STK_LANES;
            const vf sum = v_load(sums[i]);
            if (o->n - n >= STK_LANES && some == AT_ONCE)
                v_store(sums[i], pack_dy_panel(type, dy, o->dy_stride, STK_LANES, AT_ONCE, to, sum));
            else
                v_store(sums[i], pack_dy_panel(type, dy, o->dy_stride, o->n - n, some, to, sum));
        }
    }
    for (size_t i = 0, n = first; o->db && i < tiles->number; n += share(tiles, i++))
        for (size_t j = 0; j < share(tiles, i); j++)
            o->db[n + j] = add ? o->db[n + j] + sums[i][j] : sums[i][j];
}

/* `columns` <= PANEL of X, widened, with zeros up to whole vectors. */
STK_INLINE void pack_x(stk_float type, const void *x, size_t x_stride, size_t rows, size_t columns,
                       float *out)
{
    if (columns == PANEL) {
        for (size_t r = 0; r < rows; r++, out += PANEL) {
            const vf low = v_get(x, r * x_stride, type), high = v_get(x, r * x_stride + STK_LANES, type);
            v_store(out, low);
            v_store(out + STK_LANES, high);
        }
    } else if (columns > STK_LANES) {
        for (size_t r = 0; r < rows; r++, out += PANEL) {
            v_store(out, v_get(x, r * x_stride, type));
            v_store(out + STK_LANES, v_get_part(x, r * x_stride + STK_LANES, columns - STK_LANES, type));
        }
    } else {
        for (size_t r = 0; r < rows; r++, out += STK_LANES)
            v_store(out, v_get_part(x, r * x_stride, columns, type));
    }
}

/* A tile of dW: some outputs times a panel of inputs over some rows. */
typedef struct outer_work {
    size_t rows;
    const float *dy, *x; /* packed */
    ahead next;
    float *dw;
    size_t dw_stride, columns;
    int add;
    /* Of the first tile of a panel: X as it lies, to be packed at `pack` in passing. Apart from arithmetic
     * that took 15 % of the time for 32 outputs, waiting for the second-level cache. */
    float *pack;
    size_t x_stride;
} outer_work;

STK_INLINE void outer_tile(int height, int vectors, int packing, const outer_work *w)
{
    vf sum[14][2];
    STK_UNROLL(14)
    for (int r = 0; r < height; r++) sum[r][0] = sum[r][1] = v_zero();
    const float *dy = w->dy, *x = w->x;
    const size_t rows = w->rows, x_step = packing ? w->x_stride : (size_t)vectors * STK_LANES;
    const ahead next = w->next;
    float *pack = w->pack;
    for (size_t i = 0; i < rows; i++, dy += STK_LANES, x += x_step) {
        vf b[2];
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++) {
            b[v] = v_load(x + v * STK_LANES);
            if (packing) v_store(pack + (i * (size_t)vectors + (size_t)v) * STK_LANES, b[v]);
        }
        fetch(&next, i);
        STK_UNROLL(14)
        for (int r = 0; r < height; r++) {
            const vf a = v_set(dy[r]);
            STK_UNROLL(2)
            for (int v = 0; v < vectors; v++) sum[r][v] = v_fma(a, b[v], sum[r][v]);
        }
    }
    const size_t last = w->columns - (size_t)(vectors - 1) * STK_LANES; /* lanes of the last vector in use */
    STK_UNROLL(14)
    for (int r = 0; r < height; r++) {
        STK_UNROLL(2)
        for (int v = 0; v < vectors; v++) {
            float *to = w->dw + (size_t)r * w->dw_stride + v * STK_LANES;
            if (v < vectors - 1 || last == STK_LANES)
                v_store(to, w->add ? v_add(sum[r][v], v_load(to)) : sum[r][v]);
            else
                v_store_part(to, last, w->add ? v_add(sum[r][v], v_load_part(to, last)) : sum[r][v]);
        }
    }
}

/* The same with a height known only now. */
STK_INLINE void outer_tile_of(size_t height, int vectors, int packing, const outer_work *w)
{
#define CASE(h)                                                                                              \
    case h:                                                                                                  \
        if (h <= STRIP) outer_tile(h, vectors, packing, w);                                                  \
        break;
    switch (height) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
        CASE(8)
        CASE(9)
        CASE(10)
        CASE(11)
        CASE(12)
        CASE(13)
        CASE(14)
    default: break;
    }
#undef CASE
}

typedef void outer_fn(size_t height, const outer_work *w);

static void outer_packing(size_t height, const outer_work *w)
{
    outer_tile_of(height, 2, 1, w);
}

static void outer_wide(size_t height, const outer_work *w)
{
    outer_tile_of(height, 2, 0, w);
}

static void outer_narrow(size_t height, const outer_work *w)
{
    outer_tile_of(height, 1, 0, w);
}

/* What to fetch during tile `i` of `tiles` of a block, for the block of rows after it: a line of each row,
 * now and then, so that the memory is busy all the time and never too busy. The last block of some rows
 * fetches X as well. */
STK_INLINE ahead outer_ahead(stk_float type, const stk_gemm_outer *o, size_t row, size_t first, size_t n,
                             size_t i, size_t tiles)
{
    const size_t element = stk_float_bytes(type), each = 64 / element;
    const size_t dy_lines = (n + each - 1) / each, x_lines = first + n == o->n ? (o->k + each - 1) / each : 0;
    const size_t line = i * (dy_lines + x_lines) / tiles;
    if (line == (i + 1) * (dy_lines + x_lines) / tiles) return (ahead){ o->scratch, 0 };
    if (line < dy_lines)
        return (ahead){ stk_at(o->dy, row * o->dy_stride + first + line * each, type),
                        o->dy_stride * element };
    return (ahead){ stk_at(o->x, row * o->x_stride + (line - dy_lines) * each, type), o->x_stride * element };
}

/* `n` outputs from `first` on, over rows row .. row + rows. */
STK_INLINE void outer_block(stk_float type, const stk_gemm_outer *o, size_t row, size_t rows, size_t first,
                            size_t n, outer_room *room, int add)
{
    const shares tiles = shares_of(n, STRIP);
    const size_t panels = (o->k + PANEL - 1) / PANEL;
    pack_dy(type, o, row, rows, first, &tiles, room->dy, add);
    for (size_t k = 0, tile = 0; k < o->k; k += PANEL) {
        const size_t columns = o->k - k < PANEL ? o->k - k : PANEL;
        const void *x = stk_at(o->x, row * o->x_stride + k, type);
        outer_work w = {
            .rows = rows, .x = room->x, .dw_stride = o->dw_stride, .columns = columns, .add = add
        };
        outer_fn *work = columns > STK_LANES ? outer_wide : outer_narrow, *next = work;
        if (type == STK_F32 && columns == PANEL) {
            w.x = x;
            w.x_stride = o->x_stride;
            w.pack = room->x;
            work = outer_packing;
        } else {
            pack_x(type, x, o->x_stride, rows, columns, room->x);
        }
        for (size_t i = 0, at = first; i < tiles.number; at += share(&tiles, i++), tile++) {
            w.dy = room->dy + i * rows * STK_LANES;
            w.next = outer_ahead(type, o, row + rows, first, n, tile, tiles.number * panels);
            w.dw = o->dw + at * o->dw_stride + k;
            work(share(&tiles, i), &w);
            w.x = room->x;
            work = next;
        }
    }
}

STK_INLINE void outer(stk_float type, const stk_gemm_outer *o)
{
    const shares blocks = shares_of(o->n, OUTER_N);
    for (size_t row = 0; row < o->rows; row += DEPTH) {
        const size_t rows = o->rows - row < DEPTH ? o->rows - row : DEPTH;
        for (size_t i = 0, at = 0; i < blocks.number; at += share(&blocks, i++))
            outer_block(type, o, row, rows, at, share(&blocks, i), o->scratch, o->add || row > 0);
    }
}

/* One entry: the functions above with their type fixed. */
#define ENTRY(name, type)                                                                                    \
    static void pack_##name(const stk_gemm_source *source, size_t first, size_t columns, void *packed)       \
    {                                                                                                        \
        stk_panels_pack(source, PANEL, STK_LANES, type, first, columns, packed);                             \
    }                                                                                                        \
    static void multiply_##name(const stk_gemm_product *product, size_t rows, const void *x,                 \
                                size_t x_stride, void *y, size_t y_stride)                                   \
    {                                                                                                        \
        multiply(type, product, rows, x, x_stride, y, y_stride);                                             \
    }                                                                                                        \
    static void outer_##name(const stk_gemm_outer *o)                                                        \
    {                                                                                                        \
        outer(type, o);                                                                                      \
    }                                                                                                        \
    static const stk_gemm name = { PANEL,       STRIP,           packed_bytes,                               \
                                   pack_##name, multiply_##name, sizeof(outer_room),                         \
                                   outer_##name };

ENTRY(f32, STK_F32)
ENTRY(bf16, STK_BF16)
ENTRY(f16, STK_F16)

void STK_SIMD(stk_gemm_fill)(stk_gemm_table *table)
{
    table->of[STK_F32] = f32;
    table->of[STK_BF16] = bf16;
    table->of[STK_F16] = f16;
}
