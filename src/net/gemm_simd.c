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

/* `rows` of A times `vectors` of B over k; sums start at `from`, from_stride floats from row to row (0: the
 * bias, the same for all). rows, vectors and type are constants wherever this is inlined, so that the sums
 * live in registers. */
STK_INLINE void tile(int rows, int vectors, stk_float type, const void *x, size_t x_stride, size_t k,
                     const float *panel, const float *from, size_t from_stride, const ending *end)
{
    vf sum[NARROW > STRIP ? NARROW : STRIP][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[r][v] = from ? v_load(from + (size_t)r * from_stride + v * STK_LANES) : v_zero();

    for (size_t i = 0; i < k; i++, panel += vectors * STK_LANES) {
        vf b[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) b[v] = v_load(panel + v * STK_LANES);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            const vf a = v_spread(x, (size_t)r * x_stride + i, type);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[r][v] = v_fma(a, b[v], sum[r][v]);
        }
    }

#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
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
                       const float *panel, const float *from, size_t from_stride, ending end)
{
    const int tallest = vectors == 2 ? STRIP : NARROW;
    while (rows) {
        size_t done;
#define STRIP_OF(height)                                                                                     \
    tile(height, vectors, type, x, x_stride, k, panel, from, from_stride, &end), done = height
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
                         size_t rows, const void *x, size_t x_stride, const float *factor,
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
               i ? PANEL : 0, end);
        from = sums;
    }
    if (!straight) store(type, product, rows, columns, sums, factor, residual, y, y_stride);
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
        for (size_t j = product->first; j < product->first + product->columns; j += PANEL) {
            const size_t at = row * y_stride + j;
            void *to = stk_at(y, at, product->type);
            const void *residual =
                product->residual ? stk_at(product->residual, at, product->residual_type) : NULL;
            if (stk_panels_width(product->n, j, PANEL, STK_LANES) == PANEL)
                panel_of(2, type, product, j, block, block_x, x_stride, factor, residual, to, y_stride);
            else
                panel_of(1, type, product, j, block, block_x, x_stride, factor, residual, to, y_stride);
        }
    }
}

static size_t packed_bytes(size_t k, size_t n)
{
    return stk_panels_bytes(k, n, STK_LANES);
}

/* ---- outer products ---- */

enum {
    DEPTH = 256,   /* rows summed in registers: a panel of X takes 16 KB, one of dY 6 */
    OUTER_N = 128, /* outputs whose dY of DEPTH rows lies packed in the second-level cache: 128 KB */
    SLACK = 16     /* a panel of dY is written in whole vectors: the last one may run over */
};

typedef struct outer_room {
    float x[DEPTH * PANEL];
    float dy[DEPTH * OUTER_N + SLACK];
} outer_room;

/* Panels of `height` outputs, row by row, one after the other; sums of their columns if `db`. The vector
 * stored last runs into the next row or panel, which is written after it. */
STK_INLINE void pack_dy(stk_float type, const stk_gemm_outer *o, size_t row, size_t rows, size_t n,
                        size_t height, float *out, float *db, int add)
{
    const size_t count = o->n - n < STK_LANES ? o->n - n : STK_LANES;
    vf sum[2] = { v_zero(), v_zero() };
    for (size_t r = 0; r < rows; r++) {
        const size_t at = (row + r) * o->dy_stride + n;
        const vf dy = count == STK_LANES ? v_get(o->dy, at, type) : v_get_part(o->dy, at, count, type);
        v_store(out + r * height, dy);
        sum[1] = v_add(dy, sum[1]);
        const vf other = sum[0]; /* two sums in turn: one alone waits for itself */
        sum[0] = sum[1];
        sum[1] = other;
    }
    if (!db) return;
    vf all = v_add(sum[0], sum[1]);
    if (add) all = v_add(all, v_load_part(db + n, height));
    v_store_part(db + n, height, all);
}

STK_INLINE void pack_x(stk_float type, const stk_gemm_outer *o, size_t row, size_t rows, size_t k, float *out)
{
    const size_t left = o->k - k;
    const size_t width = left > STK_LANES ? PANEL : STK_LANES;
    for (size_t r = 0; r < rows; r++, out += width) {
        const size_t at = (row + r) * o->x_stride + k;
        if (left >= PANEL) {
            v_store(out, v_get(o->x, at, type));
            v_store(out + STK_LANES, v_get(o->x, at + STK_LANES, type));
        } else {
            v_store(out, v_get_part(o->x, at, left < STK_LANES ? left : STK_LANES, type));
            if (width == PANEL)
                v_store(out + STK_LANES, v_get_part(o->x, at + STK_LANES, left - STK_LANES, type));
        }
    }
}

/* `height` outputs times `vectors` of inputs over `rows` rows. */
STK_INLINE void outer_tile(int height, int vectors, size_t rows, const float *dy, const float *x,
                           size_t columns, float *dw, size_t dw_stride, int add)
{
    vf sum[14][2];
#pragma GCC unroll 14
    for (int r = 0; r < height; r++) sum[r][0] = sum[r][1] = v_zero();
    for (size_t i = 0; i < rows; i++, dy += height, x += vectors * STK_LANES) {
        vf b[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) b[v] = v_load(x + v * STK_LANES);
#pragma GCC unroll 14
        for (int r = 0; r < height; r++) {
            const vf a = v_set(dy[r]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[r][v] = v_fma(a, b[v], sum[r][v]);
        }
    }
    const size_t last = columns - (size_t)(vectors - 1) * STK_LANES; /* lanes of the last vector in use */
#pragma GCC unroll 14
    for (int r = 0; r < height; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            float *to = dw + (size_t)r * dw_stride + v * STK_LANES;
            if (v < vectors - 1 || last == STK_LANES)
                v_store(to, add ? v_add(sum[r][v], v_load(to)) : sum[r][v]);
            else
                v_store_part(to, last, add ? v_add(sum[r][v], v_load_part(to, last)) : sum[r][v]);
        }
    }
}

/* The same with a height known only now. */
STK_INLINE void outer_tile_of(size_t height, int vectors, size_t rows, const float *dy, const float *x,
                              size_t columns, float *dw, size_t dw_stride, int add)
{
#define CASE(h)                                                                                              \
    case h:                                                                                                  \
        if (h <= STRIP) outer_tile(h, vectors, rows, dy, x, columns, dw, dw_stride, add);                    \
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

static void outer_tile_wide(size_t height, size_t rows, const float *dy, const float *x, float *dw,
                            const stk_gemm_outer *o, size_t columns, int add)
{
    outer_tile_of(height, 2, rows, dy, x, columns, dw, o->dw_stride, add);
}

static void outer_tile_narrow(size_t height, size_t rows, const float *dy, const float *x, float *dw,
                              const stk_gemm_outer *o, size_t columns, int add)
{
    outer_tile_of(height, 1, rows, dy, x, columns, dw, o->dw_stride, add);
}

/* Outputs are shared out evenly: 32 make 6 + 6 + 5 + 5 + 5 + 5, not 5 times 6 and a 2 that costs like 4. */
static size_t share(size_t n, size_t shares, size_t i)
{
    return n * (i + 1) / shares - n * i / shares;
}

/* `n` outputs from `first` on, over rows row .. row + rows. */
STK_INLINE void outer_block(stk_float type, const stk_gemm_outer *o, size_t row, size_t rows, size_t first,
                            size_t n, outer_room *room, int add)
{
    const size_t tiles = (n + STRIP - 1) / STRIP;
    for (size_t i = 0, at = 0; i < tiles; at += share(n, tiles, i++))
        pack_dy(type, o, row, rows, first + at, share(n, tiles, i), room->dy + at * rows, o->db, add);
    for (size_t k = 0; k < o->k; k += PANEL) {
        const size_t columns = o->k - k < PANEL ? o->k - k : PANEL;
        pack_x(type, o, row, rows, k, room->x);
        for (size_t i = 0, at = 0; i < tiles; at += share(n, tiles, i++))
            (columns > STK_LANES ? outer_tile_wide : outer_tile_narrow)(
                share(n, tiles, i), rows, room->dy + at * rows, room->x,
                o->dw + (first + at) * o->dw_stride + k, o, columns, add);
    }
}

STK_INLINE void outer(stk_float type, const stk_gemm_outer *o)
{
    const size_t tiles = (o->n + OUTER_N - 1) / OUTER_N;
    for (size_t row = 0; row < o->rows; row += DEPTH) {
        const size_t rows = o->rows - row < DEPTH ? o->rows - row : DEPTH;
        for (size_t i = 0, at = 0; i < tiles; at += share(o->n, tiles, i++))
            outer_block(type, o, row, rows, at, share(o->n, tiles, i), o->scratch, o->add || row > 0);
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
