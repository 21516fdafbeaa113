/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for depthwise.h.
 */
#ifndef STOKE_SRC_NET_DEPTHWISE_TABLE_H
#define STOKE_SRC_NET_DEPTHWISE_TABLE_H

#include "src/net/run.h"

typedef struct stk_depthwise_table {
    int placeholder;
} stk_depthwise_table;

void stk_depthwise_fill_c(stk_depthwise_table *table);
void stk_depthwise_fill_avx2(stk_depthwise_table *table);
void stk_depthwise_fill_avx512(stk_depthwise_table *table);

#endif
