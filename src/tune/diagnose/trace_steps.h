/* SPDX-License-Identifier: Apache-2.0
 *
 * Step times from the text of a trace: what stoke_trace_steps reads, for those who have it in memory.
 */
#ifndef STOKE_SRC_TUNE_DIAGNOSE_TRACE_STEPS_H
#define STOKE_SRC_TUNE_DIAGNOSE_TRACE_STEPS_H

#include <stoke/tools/diagnose.h>

/* `name` stands in messages. */
int stk_trace_steps_of(const char *text, size_t size, const char *name, double **step_ms, size_t *n,
                       char *what, size_t what_size, stoke_error *err);

#endif
