/* SPDX-License-Identifier: Apache-2.0
 *
 * The lanes of a trace that an upload writes to. Whoever writes a span keeps the pointer for as long as that
 * takes, so lanes that were replaced live as long as the upload.
 */
#ifndef STOKE_SRC_UPLOAD_LANES_H
#define STOKE_SRC_UPLOAD_LANES_H

#include <stoke/tools/trace.h>

typedef enum stk_upload_lane {
    STK_LANE_COPY,
    STK_LANE_COMPUTE,
    STK_LANE_CONSUMER,
    STK_LANES
} stk_upload_lane;

typedef struct stk_upload_lanes {
    stoke_trace *trace; /* NULL: no more */
    int lane[STK_LANES];
    int *worker; /* of every worker of the loader */
    uint32_t workers;
    int augments; /* the workers carry out plans */
    struct stk_upload_lanes *before;
} stk_upload_lanes;

static inline void stk_upload_lanes_tell(const stk_upload_lanes *lanes, stk_upload_lane lane,
                                         const char *what, uint64_t start_ns, uint64_t end_ns, int64_t number)
{
    if (lanes && lanes->trace && lanes->lane[lane] >= 0)
        stoke_trace_span(lanes->trace, lanes->lane[lane], what, start_ns, end_ns, number);
}

void stk_upload_lanes_destroy(stk_upload_lanes *lanes); /* all of them; NULL is fine */

#endif
