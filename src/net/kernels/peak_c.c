/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiply-adds in C: in vectors of four where the compiler makes them, as it does of the reference.
 */
#include "src/net/kernels/net_table.h"

/* Sums that do not wait for each other: 14 vectors of 4, all registers but two. Fewer wait for the latency of
 * the one before: 8 chains gave 8.6 GFLOP/s of a core of an EPYC, 32 gave 33, 48 gave 44, 56 give 47, 64 gave
 * 39 (out of registers). */
enum { CHAINS = 56 };

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
