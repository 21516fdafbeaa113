/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of net_table.h for each type, from functions that take the type as their last argument. For
 * the end of head_c.c and head_simd.c, which define those under the same names.
 */
#ifndef STOKE_SRC_NET_KERNELS_HEAD_INSTANCES_H
#define STOKE_SRC_NET_KERNELS_HEAD_INSTANCES_H

#include "src/net/kernels/net_table.h"

STK_TYPED(mix, (size_t count, const void *a, float a_weight, const void *b, float b_weight, float *out),
          count, a, a_weight, b, b_weight, out)
STK_TYPED(line_moments, (const stk_head_line *line, int first, float *moments, void *y), line, first, moments,
          y)
STK_TYPED(line_relu, (const stk_head_line *line, void *y), line, y)
STK_TYPED(activate, (const stk_head_norm *norm, size_t row, size_t rows, const void *y, void *r), norm, row,
          rows, y, r)
STK_TYPED(activate_back,
          (const stk_head_norm *norm, size_t row, size_t rows, const void *y, const float *dr, void *r,
           void *g, float *sums),
          norm, row, rows, y, dr, r, g, sums)
STK_TYPED(norm_back, (const stk_head_norm_back *back, size_t rows, const void *y, const void *g, void *dy),
          back, rows, y, g, dy)
STK_TYPED(spread,
          (const stk_head_upsample *across, uint32_t size, const void *dy, float a_weight, float *a,
           float b_weight, float *b),
          across, size, dy, a_weight, a, b_weight, b)
STK_TYPED(join, (size_t count, const float *a, const float *b, void *out), count, a, b, out)

static void fill(stk_head_table *table)
{
    *table = (stk_head_table){
        .mix = STK_OF_TYPES(mix),
        .line = STK_OF_TYPES(line_moments),
        .line_relu = STK_OF_TYPES(line_relu),
        .activate = STK_OF_TYPES(activate),
        .activate_back = STK_OF_TYPES(activate_back),
        .norm_back = STK_OF_TYPES(norm_back),
        .spread = STK_OF_TYPES(spread),
        .join = STK_OF_TYPES(join),
    };
}

#endif
