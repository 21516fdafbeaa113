/* SPDX-License-Identifier: Apache-2.0
 *
 * A stretch of steps as a training loop takes them: a batch, a step on the device, back for the next one.
 * Loader, feed and copies are those of a real run; the step is a time. Workers that do not persist are
 * really ended and started again at every epoch, and what that takes is measured.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/tune/diagnose.h"

/* A step where only the way of a batch is of interest. */
static const double next_to_nothing_ms = 0.01;

typedef struct run {
    const stk_stretch_job *job;
    stk_stretch *out;
    stoke_feed *feed;
    stoke_data_params data;
    uint64_t epoch;
    size_t taken;          /* steps so far */
    double restart_ns;     /* sum */
    double restart_cpu_ns; /* of the loop, since warm-up ended */
    int restarted;         /* the next record is the first of new workers */
} run;

int stk_diagnose_step_done(stk_diagnose_progress *progress, stoke_error *err)
{
    if (!progress) return STOKE_OK;
    progress->done++;
    if (progress->total < progress->done) progress->total = progress->done;
    if (progress->tell && progress->tell(progress->context, progress->done, progress->total))
        return stk_fail(err, STOKE_E_CANCELLED, "interrupted");
    return STOKE_OK;
}

/* ---- the feed ---- */

static int open_feed(run *r, stoke_error *err)
{
    const stk_stretch_job *job = r->job;
    const stoke_setup *setup = &job->setup;
    stoke_feed_params feed = stoke_feed_defaults();
    feed.placement = setup->placement;
    feed.transfer = setup->transfer;
    feed.depth = setup->depth;
    r->data.epoch = (int64_t)r->epoch;
    int status = stoke_feed_create(&r->feed, job->params->dataset, &r->data, job->params->device, &feed, err);
    if (!status) status = stoke_feed_record(r->feed, job->warm_up + job->steps - r->taken, err);
    if (!status) r->out->steps_per_epoch = stoke_feed_batches(r->feed);
    return status;
}

/* The device has finished what it was given. */
static int collect(run *r, stoke_error *err)
{
    const stoke_step_record *records;
    stk_stretch *out = r->out;
    const size_t n = stoke_feed_records(r->feed, &records);
    if (out->n + n != r->taken)
        return stk_fail(err, STOKE_E_STATE, "%zu steps were taken, and %zu have their times", r->taken,
                        out->n + n);
    memcpy(out->records + out->n, records, n * sizeof *records);
    for (size_t i = 0; i < n; i++) out->records[out->n + i].number = out->n + i;
    if (n && r->restarted) out->records[out->n].first_of_epoch = 1;
    out->n += n;
    return STOKE_OK;
}

static int end_feed(run *r, stoke_error *err)
{
    int status = stoke_feed_finish(r->feed, err);
    if (!status) status = collect(r, err);
    return status;
}

/* ---- epochs ---- */

static int next_of_feed(run *r, const stoke_device_batch **batch, stoke_error *err)
{
    const int status = stoke_feed_next(r->feed, batch);
    return status && status != STOKE_E_END ? stk_fail(err, status, "%s", stoke_feed_error(r->feed)) : status;
}

/* New workers, from ending the old ones to their first batch. */
static int restart(run *r, const stoke_device_batch **batch, stoke_error *err)
{
    int status = end_feed(r, err);
    if (status) return status;
    const uint64_t began = stk_now_ns(), cpu = stk_thread_cpu_ns();
    stoke_feed_destroy(&r->feed);
    status = open_feed(r, err);
    r->restarted = 1;
    if (!status && r->job->trace && r->taken >= r->job->warm_up) stoke_feed_trace(r->feed, r->job->trace);
    if (!status) status = next_of_feed(r, batch, err);
    r->restart_ns += (double)(stk_now_ns() - began);
    r->restart_cpu_ns += (double)(stk_thread_cpu_ns() - cpu);
    r->out->restarts++;
    return status;
}

static int take(run *r, const stoke_device_batch **batch, stoke_error *err)
{
    int status = next_of_feed(r, batch, err);
    if (status != STOKE_E_END) return status;
    r->epoch++;
    if (!r->job->setup.persistent) {
        status = restart(r, batch, err);
    } else {
        status = stoke_feed_set_epoch(r->feed, r->epoch);
        status = status ? stk_fail(err, status, "%s", stoke_feed_error(r->feed)) : next_of_feed(r, batch, err);
    }
    return status != STOKE_E_END
               ? status
               : stk_fail(err, STOKE_E_INVALID, "the set has no whole batch: lower `batch`, or leave "
                                                "`drop_last` out");
}

/* ---- the loop ---- */

static double step_ms(const run *r)
{
    const stoke_diagnose_params *p = r->job->params;
    return r->job->idle_steps || !p->n_steps ? next_to_nothing_ms : p->step_ms[r->taken % p->n_steps];
}

static int one_step(run *r, stoke_error *err)
{
    const stoke_device_batch *batch = NULL;
    int status = take(r, &batch, err);
    if (status) return status;
    status = stoke_feed_step(r->feed, step_ms(r), err);
    r->taken++;
    stoke_feed_release(r->feed, &batch);
    if (!status && r->job->setup.sync) status = stoke_feed_finish(r->feed, err);
    return status ? status : stk_diagnose_step_done(r->job->progress, err);
}

/* CPU time that went into making the batches that count. */
static double making_ns(const stk_stretch *s)
{
    double sum = 0;
    for (size_t i = s->from; i < s->n; i++)
        for (int k = 0; k < STOKE_MAKINGS; k++) sum += (double)s->records[i].making[k].cpu_ns;
    return sum;
}

static void sum_up(run *r, const stk_load_seen *seen)
{
    const stoke_setup *setup = &r->job->setup;
    stk_stretch *out = r->out;
    const double making = making_ns(out);
    const int serial = !setup->workers && setup->transfer != STOKE_TRANSFER_STREAM;
    const double loop = seen->thread_ns - r->restart_cpu_ns - (serial ? making : 0);
    out->cores = stk_load_cores(seen, making);
    out->host_ms = fmax(0, loop) / (double)(out->n - out->from) / 1e6;
}

static int drive(run *r, stoke_error *err)
{
    const stk_stretch_job *job = r->job;
    const size_t total = (size_t)job->warm_up + job->steps;
    stk_load_watch watch = { 0 };
    int status = open_feed(r, err);
    while (!status && r->taken < total) {
        if (r->taken == job->warm_up) {
            watch = stk_load_begin();
            r->restart_cpu_ns = 0;
            if (job->trace) stoke_feed_trace(r->feed, job->trace);
        }
        status = one_step(r, err);
    }
    if (!status) status = end_feed(r, err);
    if (status) return status;
    const stk_load_seen seen = stk_load_end(&watch);
    r->out->from = job->warm_up;
    sum_up(r, &seen);
    return STOKE_OK;
}

/* Once more after the last step, where no epoch ended meanwhile. Its batch is not used. */
static int try_restart(run *r, stoke_error *err)
{
    const stoke_device_batch *batch = NULL;
    const uint64_t began = stk_now_ns();
    stoke_feed_destroy(&r->feed);
    r->taken = 0;
    int status = open_feed(r, err);
    if (!status) status = next_of_feed(r, &batch, err);
    if (status) return status == STOKE_E_END ? STOKE_OK : status;
    r->restart_ns += (double)(stk_now_ns() - began);
    r->out->restarts++;
    stoke_feed_release(r->feed, &batch);
    return STOKE_OK;
}

static int run_feed(stk_stretch *out, const stk_stretch_job *job, stoke_error *err)
{
    run r = { .job = job, .out = out, .data = job->params->data };
    r.data.workers = job->setup.workers;
    r.data.prefetch = job->setup.prefetch;
    r.data.batch = job->batch ? job->batch : job->setup.batch;
    if (job->augment) r.data.augment = job->augment;
    r.epoch = (uint64_t)r.data.epoch;
    int status = drive(&r, err);
    if (!status && job->restart && !out->restarts) status = try_restart(&r, err);
    stoke_feed_destroy(&r.feed);
    if (out->restarts) out->restart_ms = r.restart_ns / out->restarts / 1e6;
    return status;
}

int stk_stretch_run(stk_stretch *stretch, const stk_stretch_job *job, stoke_error *err)
{
    const size_t total = (size_t)job->warm_up + job->steps;
    *stretch = (stk_stretch){ .restart_ms = NAN };
    stretch->records = stk_calloc(total, sizeof *stretch->records);
    if (!stretch->records) return stk_fail(err, STOKE_E_NOMEM, "no memory for the times of %zu steps", total);
    const int r = job->params->device ? run_feed(stretch, job, err)
                                      : stk_stretch_run_native(stretch, job, err);
    if (r) stk_stretch_free(stretch);
    return r;
}

void stk_stretch_free(stk_stretch *stretch)
{
    stk_free(stretch->records);
    *stretch = (stk_stretch){ 0 };
}

/* ---- what records come to ---- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double stk_median(double *values, size_t n)
{
    if (!n) return NAN;
    qsort(values, n, sizeof *values, by_size);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* The median of a figure of the records that count; NaN: one of them does not have it. */
static double median_of(const stk_stretch *s, double (*figure)(const stoke_step_record *before,
                                                              const stoke_step_record *record))
{
    const size_t n = s->n - s->from;
    double *values = n ? stk_alloc(n * sizeof *values) : NULL;
    if (!values) return NAN;
    size_t known = 0;
    for (size_t i = s->from; i < s->n; i++) {
        const double value = figure(&s->records[i - 1], &s->records[i]);
        if (!isnan(value)) values[known++] = value;
    }
    const double median = stk_median(values, known);
    stk_free(values);
    return median;
}

static double copy_ms(const stoke_step_record *before, const stoke_step_record *r)
{
    (void)before;
    return r->copy_end > r->copy_start ? (double)(r->copy_end - r->copy_start) / 1e6 : NAN;
}

static double copy_bytes(const stoke_step_record *before, const stoke_step_record *r)
{
    (void)before;
    return r->copy_bytes ? (double)r->copy_bytes : NAN;
}

/* From the last thing it had to wait for to its first kernel. */
static double launch_ms(const stoke_step_record *before, const stoke_step_record *r)
{
    uint64_t last = r->launched;
    if (!last) return NAN;
    if (r->copy_end > last) last = r->copy_end;
    if (r->augment_end > last) last = r->augment_end;
    if (before->end > last) last = before->end;
    return r->start > last ? (double)(r->start - last) / 1e6 : 0;
}

double stk_stretch_copy_ms(const stk_stretch *stretch)
{
    return median_of(stretch, copy_ms);
}

double stk_stretch_copy_bytes(const stk_stretch *stretch)
{
    return median_of(stretch, copy_bytes);
}

double stk_stretch_launch_ms(const stk_stretch *stretch)
{
    return median_of(stretch, launch_ms);
}
