/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.h in vectors.
 */
#include "src/net/attention_table.h"
#include "src/net/simd.h"

void STK_SIMD(stk_attention_fill)(stk_attention_table *table)
{
    (void)table;
}
