/* SPDX-License-Identifier: Apache-2.0
 *
 * head.h in vectors.
 */
#include "src/net/head_table.h"
#include "src/net/simd.h"

void STK_SIMD(stk_head_fill)(stk_head_table *table)
{
    (void)table;
}
