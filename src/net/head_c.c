/* SPDX-License-Identifier: Apache-2.0
 *
 * head.h: the reference in C.
 */
#include "src/net/head_table.h"

void stk_head_fill_c(stk_head_table *table)
{
    (void)table;
}
