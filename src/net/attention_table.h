/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for attention.h.
 */
#ifndef STOKE_SRC_NET_ATTENTION_TABLE_H
#define STOKE_SRC_NET_ATTENTION_TABLE_H

#include "src/net/run.h"

typedef struct stk_attention_table {
    int placeholder;
} stk_attention_table;

void stk_attention_fill_c(stk_attention_table *table);
void stk_attention_fill_avx2(stk_attention_table *table);
void stk_attention_fill_avx512(stk_attention_table *table);

#endif
