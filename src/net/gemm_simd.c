/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.h in vectors.
 */
#include "src/net/gemm.h"
#include "src/net/simd.h"

void STK_SIMD(stk_gemm_fill)(stk_gemm_table *table)
{
    (void)table;
}
