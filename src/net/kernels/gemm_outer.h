/* SPDX-License-Identifier: Apache-2.0
 *
 * dW in vectors, in its own file: gemm_outer_simd.c.
 */
#ifndef STOKE_SRC_NET_KERNELS_GEMM_OUTER_H
#define STOKE_SRC_NET_KERNELS_GEMM_OUTER_H

#include "src/net/kernels/net_table.h"
#include "src/net/kernels/simd.h"

/* sums[n][k] += x^T y for rows of x[rows][n] and y[rows][k], all f32; k is whole vectors. Fetches as much
 * memory again as the sums take, which follows them. */
void STK_SIMD(stk_gemm_outer_add)(size_t rows, const float *x, size_t x_stride, size_t n, const float *y,
                                  size_t k, float *sums);

/* `outer` and its scratch, of all types. */
void STK_SIMD(stk_gemm_outer_fill)(stk_gemm_table *table);

#endif
