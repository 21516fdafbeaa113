/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.h: the reference in C.
 */
#include "src/net/gemm.h"

void stk_gemm_fill_c(stk_gemm_table *table)
{
    (void)table;
}
