/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiply-adds in vectors.
 */
#include "src/net/kernels/net_table.h"
#include "src/net/kernels/simd.h"

/* Two units of four to five cycles want 8 to 10 chains; 12 leave room. */
enum { CHAINS = 12 };

static uint64_t run(uint64_t rounds)
{
    vf sum[CHAINS];
    volatile float given = 0.999f; /* volatile: not to be computed at compile time, nor thrown away */
    const vf factor = v_set(given);
    for (int i = 0; i < CHAINS; i++) sum[i] = v_zero();
    for (uint64_t round = 0; round < rounds; round++) {
        STK_UNROLL(12)
        for (int i = 0; i < CHAINS; i++) sum[i] = v_fma(sum[i], factor, factor);
    }
    for (int i = 0; i < CHAINS; i++) given = v_sum(sum[i]);
    return rounds * CHAINS * STK_LANES * 2;
}

void STK_SIMD(stk_peak_fill)(stk_peak_table *table)
{
    for (int type = 0; type < STK_FLOATS; type++) table->run[type] = run;
}
