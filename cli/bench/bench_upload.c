/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/bench.h"

#include <stdio.h>
#include <stoke/tools/diagnose.h>

static double quotient(uint64_t sum, uint64_t count)
{
    return count ? (double)sum / (double)count : 0;
}

static bench_feed_figures figures_of(const stoke_upload_stats *s, const bench_feed *job)
{
    const double period_ms = quotient(s->elapsed_ns, s->steps) / 1e6;
    return (bench_feed_figures){ .copy_ms = quotient(s->copy_ns, s->batches) / 1e6,
                                 .augment_ms = quotient(s->augment_ns, s->batches) / 1e6,
                                 .bytes = quotient(s->bytes, s->batches),
                                 .gb_s = quotient(s->bytes, s->copy_ns),
                                 .overlap = quotient(s->copy_hidden_ns, s->copy_ns),
                                 .busy = quotient(s->busy_ns, s->elapsed_ns),
                                 .period_ms = period_ms,
                                 .images_s = period_ms > 0 ? 1000 * job->batch / period_ms : 0,
                                 .wait_ms = quotient(s->host_wait_ns, job->steps) / 1e6,
                                 .cpu_ms = quotient(s->loader_cpu_ns, job->steps) / job->batch / 1e6 };
}

const char *bench_feed_source(stoke_device *device)
{
    return stoke_device_describe(device)->emulated ? "emulated" : "measured";
}

/* ---- the consumer ---- */

/* A batch, of the next epoch when this one has ended. */
static int take(stoke_upload *upload, uint64_t *epoch, const stoke_device_batch **batch, stoke_error *err)
{
    int r = cli_feed_next(upload, batch, err);
    if (r != STOKE_E_END) return r;
    r = stoke_upload_set_epoch(upload, ++*epoch);
    if (!r) r = cli_feed_next(upload, batch, err);
    return r == STOKE_E_END ? cli_error(err, STOKE_E_INVALID,
                                        "the set has no batch: lower --batch, or leave --drop-last out")
                            : r;
}

static int one_step(bench_feed *job, stoke_upload *upload, uint64_t *epoch, stoke_error *err)
{
    const stoke_device_batch *batch = NULL;
    int r = take(upload, epoch, &batch, err);
    if (r) return r;
    job->height = batch->host.height;
    job->width = batch->host.width;
    job->batch = batch->host.capacity;
    job->dtype = batch->host.image_dtype;
    const double ms = job->step_ms + job->image_ms * batch->host.count;
    if (ms > 0) r = stoke_fake_step(upload, ms, err);
    stoke_upload_release(upload, &batch);
    if (!r && job->sync) r = stoke_upload_finish(upload, err);
    return r;
}

static int consume(bench_feed *job, stoke_upload *upload, stoke_error *err)
{
    const uint64_t total = job->warm_up + job->steps;
    uint64_t epoch = (uint64_t)job->data.epoch;
    stoke_progress *progress = job->label ? cli_progress_begin(job->call, job->label, "steps") : NULL;
    int r = STOKE_OK;
    for (uint64_t i = 0; i < total && !r; i++) {
        if (i == job->warm_up) {
            if (job->trace) stoke_upload_trace(upload, job->trace);
            stoke_upload_mark(upload);
            job->begin_ns = stoke_machine_now_ns();
        }
        r = one_step(job, upload, &epoch, err);
        bench_live_of_feed(&job->live, upload, i + 1, total);
        if (!r && cli_progress_update(progress, i + 1, total))
            r = cli_error(err, STOKE_E_CANCELLED, "interrupted");
    }
    if (!r) r = stoke_upload_finish(upload, err);
    job->end_ns = stoke_machine_now_ns();
    stoke_progress_destroy(&progress);
    stoke_upload_stats stats;
    if (!r) r = stoke_upload_measure(upload, &stats, err);
    if (!r) job->figures = figures_of(&stats, job);
    return r;
}

double bench_feed_step_ms(const bench_feed *job)
{
    return job->step_ms + job->image_ms * job->batch;
}

int bench_feed_run(bench_feed *job, stoke_error *err)
{
    stoke_upload *upload = NULL;
    const char *why;
    const uint64_t held = stoke_machine_peak_rss(); /* drawing a set */
    if (job->other_bytes < held) job->other_bytes = held;
    job->params.step_ms = job->step_ms + job->image_ms * (job->data.batch > 0 ? (double)job->data.batch : 1);
    int r = cli_feed_open(job->call, &upload, job->dataset, &job->data, job->device, &job->params,
                          job->other_bytes, err);
    if (r) return r;
    job->memory = *stoke_upload_memory_plan(upload);
    job->placement = stoke_upload_placement(upload, &why);
    snprintf(job->why, sizeof job->why, "%s", why);
    char what[64];
    snprintf(what, sizeof what, "bench device, %.24s (%s)", stoke_device_describe(job->device)->name,
             bench_feed_source(job->device));
    r = bench_live_open(&job->live, job->live_path, what, err);
    if (!r) r = consume(job, upload, err);
    stoke_live_close(&job->live.page);
    stoke_upload_destroy(&upload);
    cli_return_memory();
    return r;
}

/* ---- the set ---- */

int bench_set_open(bench_set *set, const cli_call *call, stoke_data_params *data, uint64_t count,
                   uint32_t side, stoke_error *err)
{
    *set = (bench_set){ 0 };
    const int draws = !cli_set_name(data);
    int r = draws ? cli_temp_folder(set->folder, err) : STOKE_OK;
    if (!r && draws) {
        stoke_synth_params params = stoke_synth_defaults();
        params.count = count;
        params.height = params.width = side;
        stoke_progress *progress = cli_progress_begin(call, "drawing a set", "scenes");
        r = stoke_synth_write(&params, set->folder, 0, cli_progress_update, progress, err);
        stoke_progress_destroy(&progress);
        data->data = set->folder;
    }
    if (!r) r = cli_open_settled(call, data, &set->dataset, err);
    if (r) bench_set_close(set);
    return r;
}

void bench_set_remove(bench_set *set)
{
    cli_end_temp_folder(set->folder);
    *set->folder = 0;
}

void bench_set_close(bench_set *set)
{
    bench_set_remove(set);
    stoke_dataset_close(&set->dataset);
}
