/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.h: the reference in C.
 */
#include "src/net/loss_table.h"

void stk_loss_fill_c(stk_loss_table *table)
{
    (void)table;
}
