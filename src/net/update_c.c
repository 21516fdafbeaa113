/* SPDX-License-Identifier: Apache-2.0
 *
 * update.h: the reference in C.
 */
#include "src/net/update_table.h"

void stk_update_fill_c(stk_update_table *table)
{
    (void)table;
}
