/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of steps, for those who ask.
 */
#include "src/base/error.h"

#include <stdio.h>
#include <stoke/tools/live.h>
#include <stoke/tools/upload.h>

#include "src/base/clock.h"
#include "src/base/mem.h"
#include "src/loader/loader.h"
#include "src/upload/upload_internal.h"
#include <stoke/tools/loader.h>

int stoke_upload_record(stoke_upload *upload, size_t steps, stoke_error *err)
{
    stoke_step_record *records = NULL, *before = NULL;
    if (steps) {
        records = stk_calloc(steps, sizeof *records);
        if (!records) return stk_fail(err, STOKE_E_NOMEM, "no memory for records of %zu steps", steps);
    }
    stk_loader_record(upload->loader, steps > 0);
    pthread_mutex_lock(&upload->lock);
    if (steps)
        before = stk_step_log_begin(&upload->step_log, records, steps);
    else
        stk_step_log_end(&upload->step_log);
    pthread_mutex_unlock(&upload->lock);
    stk_free(before);
    return STOKE_OK;
}

size_t stoke_upload_records(stoke_upload *upload, const stoke_step_record **records)
{
    pthread_mutex_lock(&upload->lock);
    /* Of a device that is lost, what was read before it was is still true. */
    if (!stk_transfers_read(upload, NULL)) stk_steps_read(upload, NULL);
    *records = upload->step_log.records;
    const size_t count = upload->step_log.count;
    pthread_mutex_unlock(&upload->lock);
    return count;
}

/* What an upload does now, for those who watch the job. */

void stoke_live_take_upload(stoke_live_data *data, stoke_upload *upload)
{
    stoke_upload_stats stats = { 0 };
    stoke_live_take(data, upload->loader);
    pthread_mutex_lock(&upload->lock);
    data->ready += upload->ring.queued;
    data->slots += upload->ring.count;
    pthread_mutex_unlock(&upload->lock);
    /* A thread that sends batches ahead waits for the loader, not the loop; and the loop waits for slots that
     * the device still computes on. What counts is whether the device is busy. */
    data->data_wait_ns = STOKE_LIVE_NA;
    if (!stoke_upload_measure(upload, &stats, NULL) && stats.elapsed_ns)
        data->device_busy = (double)stats.busy_ns / (double)stats.elapsed_ns;
}

/* An upload as spans: a lane for every worker of the loader, for the copy engine, for the compute engine and
 * for the caller.
 */

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

/* Times of an upload, for those who ask. */

void stoke_upload_mark(stoke_upload *upload)
{
    stoke_loader_stats(upload->loader, &upload->at_mark);
    upload->host_wait_ns = 0;
    pthread_mutex_lock(&upload->lock);
    stk_busy_time_open(&upload->busy, stk_now_ns());
    pthread_mutex_unlock(&upload->lock);
}

static uint64_t cpu_of_workers(const stoke_loader_stats_data *stats)
{
    uint64_t sum = 0;
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) sum += stats->stage[i].cpu_ns;
    return sum;
}

int stoke_upload_measure(stoke_upload *upload, stoke_upload_stats *stats, stoke_error *err)
{
    stoke_loader_stats_data now;
    stoke_loader_stats(upload->loader, &now);
    pthread_mutex_lock(&upload->lock);
    int r = stk_transfers_read(upload, err);
    if (!r) r = stk_steps_read(upload, err);
    stk_busy_time_sum(&upload->busy, stats);
    pthread_mutex_unlock(&upload->lock);
    stats->host_wait_ns = upload->host_wait_ns;
    stats->loader_cpu_ns = cpu_of_workers(&now) - cpu_of_workers(&upload->at_mark);
    return r;
}
