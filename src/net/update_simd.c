/* SPDX-License-Identifier: Apache-2.0
 *
 * update.h in vectors.
 */
#include "src/net/update_table.h"
#include "src/net/simd.h"

void STK_SIMD(stk_update_fill)(stk_update_table *table)
{
    (void)table;
}
