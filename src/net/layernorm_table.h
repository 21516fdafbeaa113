/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for layernorm.h.
 */
#ifndef STOKE_SRC_NET_LAYERNORM_TABLE_H
#define STOKE_SRC_NET_LAYERNORM_TABLE_H

#include "src/net/run.h"

typedef struct stk_layernorm_table {
    int placeholder;
} stk_layernorm_table;

void stk_layernorm_fill_c(stk_layernorm_table *table);
void stk_layernorm_fill_avx2(stk_layernorm_table *table);
void stk_layernorm_fill_avx512(stk_layernorm_table *table);

#endif
