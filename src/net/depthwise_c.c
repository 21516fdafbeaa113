/* SPDX-License-Identifier: Apache-2.0
 *
 * depthwise.h: the reference in C.
 */
#include "src/net/depthwise_table.h"

void stk_depthwise_fill_c(stk_depthwise_table *table)
{
    (void)table;
}
