/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace put in order for writing: a copy of what had been recorded when it was asked for.
 */
#ifndef STOKE_SRC_REPORT_TRACE_H
#define STOKE_SRC_REPORT_TRACE_H

#include <stoke/tools/trace.h>

enum { STK_TRACE_ROWS = 8 }; /* of one lane */

typedef struct stk_trace_lane {
    const char *group, *name; /* the trace's */
    int emulated;
} stk_trace_lane;

typedef struct stk_trace_span {
    const char *what;
    uint64_t start, end; /* ns, start <= end */
    int64_t number;      /* -1: none */
    uint32_t lane;
    uint32_t row; /* of the lane: spans of one row do not overlap */
} stk_trace_span;

typedef struct stk_trace_sheet {
    stk_trace_span *spans; /* by lane, start, and the longer one first */
    size_t count;
    stk_trace_lane *lanes; /* those of one group side by side */
    uint32_t *rows;        /* of each lane, at least 1 */
    uint32_t n_lanes;
    uint64_t start, end; /* of all spans; equal when there are none */
    size_t dropped;
} stk_trace_sheet;

/* Of recording so many spans, as far as there is room, and of such a sheet of them. */
uint64_t stk_trace_bytes(const stoke_trace *trace, uint64_t spans);

int stk_sheet_make(stk_trace_sheet *sheet, const stoke_trace *trace, stoke_error *err);
void stk_sheet_free(stk_trace_sheet *sheet); /* accepts a zeroed one */

#endif
