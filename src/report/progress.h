/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests need of progress.c: a clock they can turn.
 */
#ifndef STOKE_SRC_REPORT_PROGRESS_H
#define STOKE_SRC_REPORT_PROGRESS_H

#include <stoke/tools/report.h>

/* Replaces the clock (nanoseconds, monotonic); call right after create. */
void stk_progress_set_clock(stoke_progress *progress, uint64_t (*now)(void));

#endif
