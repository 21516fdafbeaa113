/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for loss.h.
 */
#ifndef STOKE_SRC_NET_LOSS_TABLE_H
#define STOKE_SRC_NET_LOSS_TABLE_H

#include "src/net/run.h"

typedef struct stk_loss_table {
    int placeholder;
} stk_loss_table;

void stk_loss_fill_c(stk_loss_table *table);
void stk_loss_fill_avx2(stk_loss_table *table);
void stk_loss_fill_avx512(stk_loss_table *table);

#endif
