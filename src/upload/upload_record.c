/* SPDX-License-Identifier: Apache-2.0
 *
 * What an upload tells those who ask: records of steps, times, spans, the figures of now.
 */
#include <stoke/tools/live.h>
#include <stoke/tools/upload.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/loader/loader.h"
#include "src/upload/upload_internal.h"

int stoke_upload_record(stoke_upload *upload, size_t steps, stoke_error *err)
{
    stoke_step_record *records = NULL, *before = NULL;
    if (steps) {
        records = stk_calloc(steps, sizeof *records);
        if (!records) return stk_fail(err, STOKE_E_NOMEM, "no memory for records of %zu steps", steps);
    }
    if (steps) atomic_store(&upload->observer.watched, 1);
    stk_loader_record(upload->loader, steps > 0);
    pthread_mutex_lock(&upload->lock);
    if (steps)
        before = stk_step_log_begin(&upload->observer.step_log, records, steps);
    else
        stk_step_log_end(&upload->observer.step_log);
    pthread_mutex_unlock(&upload->lock);
    stk_free(before);
    return STOKE_OK;
}

size_t stoke_upload_records(stoke_upload *upload, const stoke_step_record **records)
{
    pthread_mutex_lock(&upload->lock);
    /* Of a device that is lost, what was read before it was is still true. */
    if (!stk_transfers_read(upload, NULL)) stk_steps_read(upload, NULL);
    *records = upload->observer.step_log.records;
    const size_t count = upload->observer.step_log.count;
    pthread_mutex_unlock(&upload->lock);
    return count;
}

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

void stoke_upload_trace(stoke_upload *upload, stoke_trace *trace)
{
    const stk_observer_scene scene = {
        .trace = trace,
        .workers = upload->memory.host.workers,
        .augments = upload->placement == STOKE_PLACEMENT_HOST && !upload->config->plain,
        .device = upload->info.name,
        .emulated = upload->info.emulated,
    };
    stk_batch_spans spans;
    if (stk_observer_trace(&upload->observer, &scene, &upload->lock, &spans))
        stk_loader_trace(upload->loader, spans);
}

void stoke_upload_mark(stoke_upload *upload)
{
    stoke_loader_stats(upload->loader, &upload->at_mark);
    upload->host_wait_ns = 0;
    atomic_store(&upload->observer.watched, 1);
    pthread_mutex_lock(&upload->lock);
    stk_busy_time_open(&upload->observer.busy, stk_now_ns());
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
    stk_busy_time_sum(&upload->observer.busy, stats);
    pthread_mutex_unlock(&upload->lock);
    stats->host_wait_ns = upload->host_wait_ns;
    stats->loader_cpu_ns = cpu_of_workers(&now) - cpu_of_workers(&upload->at_mark);
    return r;
}
