/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiply-adds in registers and nothing else: what the processor can do at most, for shares of it.
 */
#ifndef STOKE_SRC_NET_KERNELS_PEAK_TABLE_H
#define STOKE_SRC_NET_KERNELS_PEAK_TABLE_H

#include "src/net/kernels/floats.h"

/* Does `rounds` rounds and returns how many operations that were, 2 per multiply-add. */
typedef uint64_t stk_peak_fn(uint64_t rounds);

typedef struct stk_peak_table {
    stk_peak_fn *run[STK_FLOATS]; /* by the type of the factors */
} stk_peak_table;

void stk_peak_fill_c(stk_peak_table *table);
void stk_peak_fill_avx2(stk_peak_table *table);
void stk_peak_fill_avx512(stk_peak_table *table);
void stk_peak_fill_amx(stk_peak_table *table);

#endif
