/* SPDX-License-Identifier: Apache-2.0
 *
 * dW in vectors, in its own file: gemm_outer_simd.c.
 */
#ifndef STOKE_SRC_NET_KERNELS_GEMM_OUTER_H
#define STOKE_SRC_NET_KERNELS_GEMM_OUTER_H

#include "src/net/kernels/net_table.h"
#include "src/net/kernels/simd.h"

/* `outer` and its scratch, of all types. */
void STK_SIMD(stk_gemm_outer_fill)(stk_gemm_table *table);

#endif
