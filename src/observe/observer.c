/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of what an upload tells: sums, records, and spans in a lane for every worker of the loader,
 * for the copy engine, for the compute engine and for the caller.
 */
#include "src/observe/observer.h"

#include <stdio.h>
#include <stoke/tools/loader.h>

#include "src/base/clock.h"
#include "src/base/mem.h"

struct stk_observer_lanes {
    stoke_trace *trace; /* NULL: no more */
    int lane[STK_LANES];
    int *worker; /* of every worker of the loader */
    uint32_t workers;
    int augments;
    struct stk_observer_lanes *before;
};

void stk_observer_destroy(stk_observer *observer)
{
    stk_busy_time_destroy(&observer->busy);
    for (stk_observer_lanes *lanes = observer->lanes, *before; lanes; lanes = before) {
        before = lanes->before;
        stk_free(lanes->worker);
        stk_free(lanes);
    }
    observer->lanes = NULL;
}

static void tell(const stk_observer *observer, stk_observer_lane lane, const char *what,
                 stk_busy_interval when, int64_t number)
{
    const stk_observer_lanes *lanes = observer->lanes;
    if (lanes && lanes->trace && lanes->lane[lane] >= 0)
        stoke_trace_span(lanes->trace, lanes->lane[lane], what, when.start, when.end, number);
}

void stk_observer_arrived(stk_observer *observer, uint64_t transfer, int64_t number, stk_busy_interval copy,
                          uint64_t bytes, const stk_busy_interval *kernels)
{
    stk_busy_time_add(&observer->busy, STK_WORK_COPY, copy, bytes);
    stk_step_log_arrived(&observer->step_log, transfer, copy, bytes, kernels);
    tell(observer, STK_LANE_COPY, "copy", copy, number);
    if (!kernels) return;
    stk_busy_time_add(&observer->busy, STK_WORK_AUGMENT, *kernels, 0);
    tell(observer, STK_LANE_COMPUTE, "augment", *kernels, number);
}

void stk_observer_stepped(stk_observer *observer, uint64_t transfer, int64_t number, stk_busy_interval step)
{
    stk_busy_time_add(&observer->busy, STK_WORK_STEP, step, 0);
    stk_step_log_ended(&observer->step_log, transfer, step);
    tell(observer, STK_LANE_COMPUTE, "step", step, number);
}

void stk_observer_span(const stk_observer *observer, const char *what, uint64_t start_ns, int64_t number)
{
    if (observer->lanes)
        tell(observer, STK_LANE_CONSUMER, what, (stk_busy_interval){ start_ns, stk_now_ns() }, number);
}

static void tell_stage(void *context, uint32_t worker, stoke_stage stage, uint64_t start_ns, uint64_t end_ns,
                       int64_t batch)
{
    const stk_observer_lanes *lanes = context;
    if (worker >= lanes->workers || lanes->worker[worker] < 0) return;
    const char *what = stage == STOKE_STAGE_SLOT_WAIT                  ? "wait for a slot"
                       : stage == STOKE_STAGE_WRITE && lanes->augments ? "augment"
                                                                       : stoke_stage_name(stage);
    stoke_trace_span(lanes->trace, lanes->worker[worker], what, start_ns, end_ns, batch);
}

int stk_observer_trace(stk_observer *observer, const stk_observer_scene *scene, pthread_mutex_t *lock,
                       stk_batch_spans *spans)
{
    stk_observer_lanes *lanes = stk_calloc(1, sizeof *lanes);
    int *worker = lanes ? stk_calloc(scene->workers, sizeof *worker) : NULL;
    if (!worker) { /* no memory for a few pointers: no trace is the least of the caller's troubles */
        stk_free(lanes);
        return 0;
    }
    *lanes = (stk_observer_lanes){ .trace = scene->trace, .worker = worker, .augments = scene->augments };
    if (scene->trace) { /* lanes in the order they are drawn: the way of a batch from top to bottom */
        for (; lanes->workers < scene->workers; lanes->workers++) {
            char name[32];
            snprintf(name, sizeof name, "worker %u", lanes->workers);
            worker[lanes->workers] = stoke_trace_lane(scene->trace, "loader", name, 0);
        }
        lanes->lane[STK_LANE_COPY] =
            stoke_trace_lane(scene->trace, scene->device, "copy engine", scene->emulated);
        lanes->lane[STK_LANE_COMPUTE] =
            stoke_trace_lane(scene->trace, scene->device, "compute engine", scene->emulated);
        lanes->lane[STK_LANE_CONSUMER] = stoke_trace_lane(scene->trace, "consumer", "host thread", 0);
        atomic_store(&observer->watched, 1);
    }
    pthread_mutex_lock(lock);
    lanes->before = observer->lanes;
    observer->lanes = lanes;
    pthread_mutex_unlock(lock);
    *spans = (stk_batch_spans){ scene->trace ? tell_stage : NULL, lanes };
    return 1;
}
