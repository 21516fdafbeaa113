/* SPDX-License-Identifier: Apache-2.0
 *
 * An upload as spans: a lane for every worker of the loader, for the copy engine, for the compute engine and
 * for the caller.
 */
#include <stdio.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/upload.h>

#include "src/base/clock.h"
#include "src/base/mem.h"
#include "src/upload/upload_internal.h"
#include "src/loader/loader.h"

static void tell_stage(void *context, uint32_t worker, stoke_stage stage, uint64_t start_ns, uint64_t end_ns,
                       int64_t batch)
{
    const stk_upload_lanes *lanes = context;
    if (worker >= lanes->workers || lanes->worker[worker] < 0) return;
    const char *what = stage == STOKE_STAGE_SLOT_WAIT                  ? "wait for a slot"
                       : stage == STOKE_STAGE_WRITE && lanes->augments ? "augment"
                                                                       : stoke_stage_name(stage);
    stoke_trace_span(lanes->trace, lanes->worker[worker], what, start_ns, end_ns, batch);
}

/* Lanes are made in the order they are drawn: the way of a batch from top to bottom. */
static stk_upload_lanes *make_lanes(const stoke_upload *upload, stoke_trace *trace)
{
    stk_upload_lanes *lanes = stk_calloc(1, sizeof *lanes);
    if (!lanes) return NULL;
    const uint32_t workers = upload->memory.host.workers;
    lanes->worker = stk_calloc(workers, sizeof *lanes->worker);
    if (!lanes->worker) {
        stk_free(lanes);
        return NULL;
    }
    lanes->trace = trace;
    lanes->augments = upload->placement == STOKE_PLACEMENT_HOST && !upload->config->plain;
    for (; trace && lanes->workers < workers; lanes->workers++) {
        char name[32];
        snprintf(name, sizeof name, "worker %u", lanes->workers);
        lanes->worker[lanes->workers] = stoke_trace_lane(trace, "loader", name, 0);
    }
    if (!trace) return lanes;
    const int emulated = upload->info.emulated;
    lanes->lane[STK_LANE_COPY] = stoke_trace_lane(trace, upload->info.name, "copy engine", emulated);
    lanes->lane[STK_LANE_COMPUTE] = stoke_trace_lane(trace, upload->info.name, "compute engine", emulated);
    lanes->lane[STK_LANE_CONSUMER] = stoke_trace_lane(trace, "consumer", "host thread", 0);
    return lanes;
}

void stoke_upload_trace(stoke_upload *upload, stoke_trace *trace)
{
    stk_upload_lanes *lanes = make_lanes(upload, trace);
    if (!lanes) return; /* no memory for a few pointers: no trace is the least of the caller's troubles */
    pthread_mutex_lock(&upload->lock);
    lanes->before = upload->lanes;
    upload->lanes = lanes;
    pthread_mutex_unlock(&upload->lock);
    stk_loader_trace(upload->loader, (stk_batch_spans){ trace ? tell_stage : NULL, lanes });
}

void stk_upload_lanes_destroy(stk_upload_lanes *lanes)
{
    while (lanes) {
        stk_upload_lanes *before = lanes->before;
        stk_free(lanes->worker);
        stk_free(lanes);
        lanes = before;
    }
}

void stk_upload_span(const stoke_upload *upload, const char *what, uint64_t start_ns, int64_t number)
{
    if (upload->lanes)
        stk_upload_lanes_tell(upload->lanes, STK_LANE_CONSUMER, what, start_ns, stk_now_ns(), number);
}
