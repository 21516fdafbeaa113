/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products of one thread: the section of the function table for linear.h.
 */
#ifndef STOKE_SRC_NET_GEMM_H
#define STOKE_SRC_NET_GEMM_H

#include "src/net/run.h"

typedef struct stk_gemm_table {
    int placeholder;
} stk_gemm_table;

void stk_gemm_fill_c(stk_gemm_table *table);
void stk_gemm_fill_avx2(stk_gemm_table *table);
void stk_gemm_fill_avx512(stk_gemm_table *table);

#endif
