/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside attribution: dividing the time that a step waited for its input.
 */
#ifndef STOKE_SRC_TUNE_DIAGNOSE_ATTRIBUTE_H
#define STOKE_SRC_TUNE_DIAGNOSE_ATTRIBUTE_H

#include <stoke/tools/diagnose.h>

__extension__ typedef unsigned __int128 stk_wide;

/* What the last batches took to make, by cause; of EPOCH_START and ORDER nothing. Wide: nothing that records
 * may claim overflows it. */
typedef struct stk_attribute_sums {
    stk_wide weight[STOKE_IDLE_INPUTS];
} stk_attribute_sums;

void stk_batch_times_add(stk_attribute_sums *sums, const stoke_step_record *record);
void stk_batch_times_take_off(stk_attribute_sums *sums, const stoke_step_record *record);

/* Divides `ns` by the shares, to the nanosecond: added to row. 0 = the sums are empty, and row is as before.
 */
int stk_batch_times_divide(const stk_attribute_sums *sums, uint64_t ns, uint64_t row[STOKE_IDLES]);

#endif
