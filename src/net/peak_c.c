/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiply-adds one at a time.
 */
#include "src/net/peak_table.h"

enum { CHAINS = 8 };

static uint64_t run(uint64_t rounds)
{
    float sum[CHAINS] = { 0 };
    volatile float given = 0.999f; /* volatile: not to be computed at compile time, nor thrown away */
    const float factor = given;
    for (uint64_t round = 0; round < rounds; round++)
        for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * factor + factor;
    for (int i = 0; i < CHAINS; i++) given = sum[i];
    return rounds * CHAINS * 2;
}

void stk_peak_fill_c(stk_peak_table *table)
{
    for (int type = 0; type < STK_FLOATS; type++) table->run[type] = run;
}
