/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of stoke_device_selftest. Each proves one thing on its own and leaves nothing behind.
 */
#ifndef STOKE_SRC_SELFTEST_SELFTEST_H
#define STOKE_SRC_SELFTEST_SELFTEST_H

#include <stoke/tools/device.h>
#include "src/device/device.h"

/* Fills what was compared; a failure to run at all is the return value, with the reason in err. */
typedef int stk_selftest_fn(stoke_device *device, unsigned which, stoke_selftest_line *line,
                            stoke_error *err);

/* Copies, events, memory: selftest_paths.c. */
enum { STK_SELFTEST_COPIES = 5 };
stk_selftest_fn stk_selftest_copy, stk_selftest_order, stk_selftest_times, stk_selftest_words,
    stk_selftest_limit;
/* Whole batches through an augmenter: selftest_batch.c. STOKE_E_END past the last one. */
stk_selftest_fn stk_selftest_batch, stk_selftest_batch_limit;

/* Counts bytes that differ. */
void stk_selftest_compare(stoke_selftest_line *line, const void *got, const void *wanted, size_t bytes);
/* Bytes without a pattern, the same for the same seed. */
void stk_selftest_fill(void *bytes, size_t size, uint64_t seed);

#endif
