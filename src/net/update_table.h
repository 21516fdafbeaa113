/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for update.h.
 */
#ifndef STOKE_SRC_NET_UPDATE_TABLE_H
#define STOKE_SRC_NET_UPDATE_TABLE_H

#include "src/net/run.h"

typedef struct stk_update_table {
    int placeholder;
} stk_update_table;

void stk_update_fill_c(stk_update_table *table);
void stk_update_fill_avx2(stk_update_table *table);
void stk_update_fill_avx512(stk_update_table *table);

#endif
