/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for segformer_head.h: lines of pixels and blocks of rows, done by one thread. Rows
 * have `size` elements, a multiple of 32, and follow each other without a gap. Arrays are indexed by the type
 * of the activations.
 */
#ifndef STOKE_SRC_NET_KERNELS_HEAD_TABLE_H
#define STOKE_SRC_NET_KERNELS_HEAD_TABLE_H

#include "src/base/rng.h"
#include "src/net/exec.h"

/* Dropout. Bits are a function of (seed, row, channel), so that backward makes the same mask again instead of
 * keeping it; integers only, so that every column of the table makes the same. One 32-bit word serves two
 * channels 16 apart: 16 words per 32 channels, one vector of AVX-512 or two of AVX2. 16 bits are enough, as
 * what is kept is multiplied for the share they really drop (0.1 becomes 0.100006). Over a million draws that
 * share, and how often two at a distance in channels, rows or seeds drop together, are as chance has them
 * (test_head.c).
 */
static inline uint64_t stk_dropout_key(uint64_t seed, uint64_t row)
{
    return stk_mix64(stk_mix64(seed) + row);
}

/* The two rounds of multiplication and shift are those of Wellons' lowbias32, with the upper half of the key
 * between them: rows that agree in one half by chance still differ. */
#define STK_DROPOUT_STEP   0x9e3779b9u
#define STK_DROPOUT_FIRST  0x7feb352du
#define STK_DROPOUT_SECOND 0x846ca68bu

static inline uint32_t stk_dropout_word(uint64_t key, uint32_t word)
{
    uint32_t x = (uint32_t)key + word * STK_DROPOUT_STEP;
    x = (x ^ x >> 16) * STK_DROPOUT_FIRST;
    x = ((x ^ x >> 15) + (uint32_t)(key >> 32)) * STK_DROPOUT_SECOND;
    return x ^ x >> 16;
}

static inline uint32_t stk_dropout_bits(uint64_t key, uint32_t channel)
{
    const uint32_t word = stk_dropout_word(key, channel / 32 * 16 + channel % 16);
    return channel % 32 < 16 ? word & 0xffff : word >> 16;
}

/* Batch norm, ReLU and dropout: r = max(0, (y - mean) scale + shift) where dropout keeps it, else 0. The
 * factor of what is kept is part of scale and shift. Not y scale + (shift - mean scale): that loses the
 * digits of y - mean when the mean is large. */
typedef struct stk_head_norm {
    uint32_t size;
    const float *mean, *scale, *shift;
    uint64_t seed;
    uint32_t threshold; /* keeps a channel whose 16 bits are not below it; 0: all, without drawing */
    float keep;         /* the factor */
} stk_head_norm;

/* dy = gain (g - g_mean) - slope (y - mean): backward through the batch's statistics. */
typedef struct stk_head_norm_back {
    uint32_t size;
    const float *mean, *gain, *g_mean, *slope;
} stk_head_norm_back;

/* Interpolation along one axis. Sample i of the larger map is a_weight of sample a and b_weight of sample b.
 */
typedef struct stk_head_tap {
    uint32_t a, b;
    float a_weight, b_weight;
} stk_head_tap;

/* Transposed: sample j of the smaller map is in samples first .. first + count of the larger one, with the
 * weights that begin at `at`. */
typedef struct stk_head_spread {
    uint32_t first, count, at;
} stk_head_spread;

typedef struct stk_head_upsample {
    uint32_t small, large; /* samples */
    stk_head_tap *taps;         /* large */
    stk_head_spread *spreads;   /* small */
    float *weights;        /* up to 2 large */
} stk_head_upsample;

enum { STK_SMALLER = 3 }; /* stages that are enlarged */

/* A line of y: base + the smaller maps' lines, stretched. */
typedef struct stk_head_line {
    uint32_t size, width;
    const float *base;             /* width rows */
    const float *low[STK_SMALLER]; /* lines of the smaller maps, mixed for this line's height */
    const stk_head_upsample *across[STK_SMALLER];
} stk_head_line;

typedef struct stk_head_table {
    /* out[i] = a[i] a_weight + b[i] b_weight: a line between two lines. */
    void (*mix[STK_FLOATS])(size_t count, const void *a, float a_weight, const void *b, float b_weight,
                            float *out);
    /* y of a line, and its part in the moments of a strip: `moments` is three rows, a shift, the sum of
     * y - shift and the sum of its squares. `first`: the strip begins, the shift is its first pixel. (Sums
     * about a value of the batch keep the variance's digits when the mean is far larger.) */
    void (*line[STK_FLOATS])(const stk_head_line *line, int first, float *moments, void *y);
    /* max(0, y) of a line. */
    void (*line_relu[STK_FLOATS])(const stk_head_line *line, void *y);
    /* r of rows; `row` is the number of the first, for dropout. */
    void (*activate[STK_FLOATS])(const stk_head_norm *norm, size_t row, size_t rows, const void *y, void *r);
    /* r again, and g = dr where r passed, times keep; adds to two rows of sums: of g and of g (y - mean). */
    void (*activate_back[STK_FLOATS])(const stk_head_norm *norm, size_t row, size_t rows, const void *y,
                                      const float *dr, void *r, void *g, float *sums);
    void (*norm_back[STK_FLOATS])(const stk_head_norm_back *back, size_t rows, const void *y, const void *g,
                                  void *dy);
    /* Adds what a line of dy gives to one smaller map, times a_weight to line a and times b_weight to line b,
     * which may be one. */
    void (*spread[STK_FLOATS])(const stk_head_upsample *across, uint32_t size, const void *dy, float a_weight,
                               float *a, float b_weight, float *b);
    /* out = a + b; b NULL: a. out may be a. */
    void (*join[STK_FLOATS])(size_t count, const float *a, const float *b, void *out);
} stk_head_table;

void stk_head_fill_c(stk_head_table *table);
void stk_head_fill_avx2(stk_head_table *table);
void stk_head_fill_avx512(stk_head_table *table);

#endif
