/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.h: the reference in C.
 */
#include "src/net/attention_table.h"

void stk_attention_fill_c(stk_attention_table *table)
{
    (void)table;
}
