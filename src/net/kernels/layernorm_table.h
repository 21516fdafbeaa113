/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for layernorm.h: what one thread does with `rows` rows, one after the
 * other in memory. Indexed by the type of y and dy.
 */
#ifndef STOKE_SRC_NET_KERNELS_LAYERNORM_TABLE_H
#define STOKE_SRC_NET_KERNELS_LAYERNORM_TABLE_H

#include "src/net/ops/layernorm.h"

typedef struct stk_layernorm_table {
    void (*stats)(const stk_layernorm *norm, size_t rows, const float *x, float *stats);
    void (*forward[STK_FLOATS])(const stk_layernorm *norm, size_t rows, const float *x, float *stats,
                                void *y);
    /* y from statistics that are there: the same bits as `forward`. */
    void (*apply[STK_FLOATS])(const stk_layernorm *norm, size_t rows, const float *x, const float *stats,
                              void *y);
    /* Adds d_gamma, then d_beta to `sums` (2 * channels); NULL: not wanted. */
    void (*backward[STK_FLOATS])(const stk_layernorm *norm, size_t rows, const float *x, const float *stats,
                                 const void *dy, const float *residual, float *dx, float *sums);
} stk_layernorm_table;

void stk_layernorm_fill_c(stk_layernorm_table *table);
void stk_layernorm_fill_avx2(stk_layernorm_table *table);
void stk_layernorm_fill_avx512(stk_layernorm_table *table);

#endif
