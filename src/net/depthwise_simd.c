/* SPDX-License-Identifier: Apache-2.0
 *
 * depthwise.h in vectors.
 */
#include "src/net/depthwise_table.h"
#include "src/net/simd.h"

void STK_SIMD(stk_depthwise_fill)(stk_depthwise_table *table)
{
    (void)table;
}
