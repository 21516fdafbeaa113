/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for head.h.
 */
#ifndef STOKE_SRC_NET_HEAD_TABLE_H
#define STOKE_SRC_NET_HEAD_TABLE_H

#include "src/net/run.h"

typedef struct stk_head_table {
    int placeholder;
} stk_head_table;

void stk_head_fill_c(stk_head_table *table);
void stk_head_fill_avx2(stk_head_table *table);
void stk_head_fill_avx512(stk_head_table *table);

#endif
