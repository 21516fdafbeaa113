/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm in vectors: B in panels of two vectors (gemm_panels.h), strips of A as tall as the registers allow.
 *
 * A strip of 6 rows (AVX2) times a panel of 2 vectors keeps 12 sums in registers and needs 8 loads for 12
 * multiplications: both arithmetic units are busy as long as the panel comes from the first-level cache. So k
 * is cut into slices whose part of a panel takes half of it, and all strips of a block pass by before the
 * next slice comes. 16-bit rows are widened as they are read.
 */
#include "src/net/kernels/gemm_outer.h"
#include "src/net/kernels/gemm_panels.h"
#include "src/net/kernels/gemm_tile.h"

#include <string.h>

enum {
    PANEL = 2 * STK_LANES,
    STRIP = STK_TILE_ROWS,
    SLICE = STK_LANES == 8 ? 256 : 192, /* k: 16 and 24 KB of a panel */
    BLOCK = 16 * STRIP,                 /* rows that pass by a slice; their sums take 6 and 28 KB */
};

/* All rows of a block, strip by strip: the tallest that fits each time. An element's sum is the same in each
 * of them. */
STK_INLINE void strips(int vectors, stk_float type, size_t rows, const void *x, size_t x_stride, size_t k,
                       const float *panel, const float *from, size_t from_stride, stk_tile_ahead next,
                       stk_tile_ending end)
{
    const int tallest = vectors == 2 ? STRIP : STK_TILE_NARROW;
    while (rows) {
        size_t done;
#define STRIP_OF(height)                                                                                     \
    stk_tile(height, vectors, type, x, x_stride, k, panel, from, from_stride, next, &end), done = height
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
                         size_t rows, const void *x, size_t x_stride, stk_tile_ahead next,
                         const float *factor, const void *residual, void *y, size_t y_stride)
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
        const stk_tile_ending end = i + count == k && straight
                                        ? (stk_tile_ending){ y, y_stride, residual, factor }
                                        : (stk_tile_ending){ sums, PANEL, NULL, NULL };
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
STK_INLINE stk_tile_ahead ahead_of(stk_float type, const void *x, size_t x_stride, size_t row, size_t p,
                                   size_t panels)
{
    const size_t element = stk_float_bytes(type);
    if (row == 0 && p == 0) return (stk_tile_ahead){ stk_at(x, 4 * STRIP * x_stride, type), STRIP * element };
    return (stk_tile_ahead){ stk_at(x, BLOCK * x_stride + BLOCK * x_stride * p / panels, type),
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
            const stk_tile_ahead next = ahead_of(type, block_x, x_stride, row, p, panels);
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

/* Squares of a vector each way. */
static void turn(const float *const *output, size_t width, size_t k, float *panel)
{
    for (size_t j = 0; j < width; j += STK_LANES) {
        size_t i = 0;
        for (; i + STK_LANES <= k; i += STK_LANES) {
            vf square[STK_LANES];
            STK_UNROLL(16)
            for (size_t l = 0; l < STK_LANES; l++) square[l] = v_load(output[j + l] + i);
            v_transpose(square);
            STK_UNROLL(16)
            for (size_t l = 0; l < STK_LANES; l++) v_store(panel + (i + l) * width + j, square[l]);
        }
        for (; i < k; i++)
            for (size_t l = j; l < j + STK_LANES; l++) panel[i * width + l] = output[l][i];
    }
}

static size_t packed_bytes(size_t k, size_t n)
{
    return stk_panels_bytes(k, n, STK_LANES);
}

/* One entry: the functions above with their type fixed. */
#define ENTRY(name, type)                                                                                    \
    static void pack_##name(const stk_gemm_source *source, size_t first, size_t columns, void *packed)       \
    {                                                                                                        \
        stk_panels_pack(source, PANEL, STK_LANES, type, turn, first, columns, packed);                       \
    }                                                                                                        \
    static void multiply_##name(const stk_gemm_product *product, size_t rows, const void *x,                 \
                                size_t x_stride, void *y, size_t y_stride)                                   \
    {                                                                                                        \
        multiply(type, product, rows, x, x_stride, y, y_stride);                                             \
    }                                                                                                        \
    static const stk_gemm name = { .panel = PANEL,                                                           \
                                   .strip = STRIP,                                                           \
                                   .packed_bytes = packed_bytes,                                             \
                                   .pack = pack_##name,                                                      \
                                   .multiply = multiply_##name };

ENTRY(f32, STK_F32)
ENTRY(bf16, STK_BF16)
ENTRY(f16, STK_F16)

void STK_SIMD(stk_gemm_fill)(stk_gemm_table *table)
{
    table->of[STK_F32] = f32;
    table->of[STK_BF16] = bf16;
    table->of[STK_F16] = f16;
    STK_SIMD(stk_gemm_outer_fill)(table);
}
