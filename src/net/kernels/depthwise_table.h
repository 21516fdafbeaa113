/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for depthwise.h: what one thread does with one line of a map, or a part
 * of it. Indexed by the type of the maps.
 *
 * h2 is rounded to that type before GELU takes it, as if it had been stored: torch's layers do that.
 */
#ifndef STOKE_SRC_NET_KERNELS_DEPTHWISE_TABLE_H
#define STOKE_SRC_NET_KERNELS_DEPTHWISE_TABLE_H

#include "src/net/ops/depthwise.h"

/* Columns column .. column + columns and channels channel .. channel + channels of a line of `width` columns
 * of all the layer's channels. `channel` is a multiple of 16. */
typedef struct stk_depthwise_line_part {
    uint32_t width, column, columns, channel, channels;
} stk_depthwise_line_part;

/* The lines above, at and below the one to make, NULL where the map has ended. */
typedef struct stk_depthwise_line_around {
    const void *line[3];
} stk_depthwise_line_around;

/* Gradients by h2 are kept in f32 lines of this many floats, in an order the column chooses; it makes them
 * (slope) and reads them (backward). A line of zeros is one of any order. */
static inline size_t stk_slope_floats(uint32_t width, uint32_t channels)
{
    return ((size_t)width + 2) * ((channels + 15) / 16 * 16);
}

typedef struct stk_depthwise_table {
    /* h3 points to where column `column` goes, h1 to column 0. */
    void (*forward[STK_FLOATS])(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                                const stk_depthwise_line_around *h1, void *h3);
    /* t = dh3 gelu'(h2) for whole lines. */
    void (*slope[STK_FLOATS])(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                              const stk_depthwise_line_around *h1, const void *dh3, float *t);
    /* dh1 of a whole line from the three lines of t around it; adds what it says of the 9 weights and the
     * bias to sums[tap][channels], unless that is NULL. */
    void (*backward[STK_FLOATS])(const stk_depthwise *layer, const stk_depthwise_line_part *part,
                                 const float *const t[3], const void *h1, void *dh1, float *sums);
} stk_depthwise_table;

void stk_depthwise_fill_c(stk_depthwise_table *table);
void stk_depthwise_fill_avx2(stk_depthwise_table *table);
void stk_depthwise_fill_avx512(stk_depthwise_table *table);

#endif
