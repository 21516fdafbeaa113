/* SPDX-License-Identifier: Apache-2.0
 *
 * A stretch of steps as a training loop takes them: a batch, a step on the device, back for the next one.
 * Loader, upload and copies are those of a real run; the step is a time. Workers that do not persist are
 * really ended and started again at every epoch, and what that takes is measured.
 */
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/tune/decide/decide.h"
#include "src/tune/diagnose/diagnose.h"
#include "src/tune/monitor/monitor.h"
#include <stoke/tools/machine.h>

/* How many cores workers can have is measured while they run: what the loop, the device's driver and other
 * programs take meanwhile is not theirs, and a core held by somebody else halves a machine of two. */

/* However busy the machine was, workers get something. */
static const double least = 0.02;

/* Of this process and of children that have ended: some benches measure in separate processes. */
static uint64_t family_cpu_ns(void)
{
    struct rusage children;
    uint64_t ns = stoke_machine_cpu_ns();
    if (getrusage(RUSAGE_CHILDREN, &children)) return ns;
    const struct timeval *parts[] = { &children.ru_utime, &children.ru_stime };
    for (int i = 0; i < 2; i++)
        ns += (uint64_t)parts[i]->tv_sec * 1000000000 + (uint64_t)parts[i]->tv_usec * 1000;
    return ns;
}

stoke_quiet stoke_quiet_begin(void)
{
    stk_monitor_load_count count;
    stk_load_count_read(&count, "");
    return (stoke_quiet){ .began_ns = stk_now_ns(),
                          .process_ns = family_cpu_ns(),
                          .thread_ns = stk_thread_cpu_ns(),
                          .busy = count.cpu_busy,
                          .all = count.has_cpu ? count.cpu_all : 0 };
}

stk_diagnose_load_seen stk_load_end(const stoke_quiet *watch)
{
    stk_monitor_load_count count;
    stk_diagnose_load_seen seen = { .elapsed_ns = (double)(stk_now_ns() - watch->began_ns),
                                    .process_ns = (double)(family_cpu_ns() - watch->process_ns),
                                    .thread_ns = (double)(stk_thread_cpu_ns() - watch->thread_ns) };
    stk_load_count_read(&count, "");
    if (seen.elapsed_ns < 1) seen.elapsed_ns = 1;
    if (!watch->all || !count.has_cpu || count.cpu_all <= watch->all || count.cpu_busy < watch->busy)
        return seen;
    const double share = (double)(count.cpu_busy - watch->busy) / (double)(count.cpu_all - watch->all);
    const double others = share * stoke_machine_cores().online - seen.process_ns / seen.elapsed_ns;
    seen.others = fmax(0, others);
    return seen;
}

/* Others that give way leave more than what they do not take, so what workers really got counts too: of the
 * time they wanted a core, the share in which they had one. */
double stk_load_cores(const stk_diagnose_load_seen *seen, uint32_t workers, double worker_ns,
                      double queued_ns)
{
    const stoke_cores cores = stoke_machine_cores();
    const double loop = fmax(0, seen->process_ns - worker_ns) / seen->elapsed_ns;
    const double left = fmin(cores.usable, cores.online - seen->others) - loop;
    const double wanted = worker_ns + queued_ns;
    const double got = wanted > 0 ? fmax(1, workers) * worker_ns / wanted : 0;
    return fmin(fmax(fmax(left, got), least), cores.usable);
}

int stoke_quiet_end(const stoke_quiet *since, double *had, double *usable)
{
    const stk_diagnose_load_seen seen = stk_load_end(since);
    const stoke_cores cores = stoke_machine_cores();
    *usable = cores.usable;
    *had = fmax(0, fmin(cores.usable, cores.online - seen.others));
    return stk_decide_busy(*had, *usable);
}

/* A step where only the way of a batch is of interest. */
static const double next_to_nothing_ms = 0.01;

typedef struct run {
    stk_diagnose_loop loop;
    const stk_diagnose_loop_way *way;
    double restart_ns;     /* sum */
    double open_ns;        /* of it, until workers were there */
    double restart_cpu_ns; /* of the loop, since warm-up ended */
} run;

/* ---- epochs ---- */

/* What the stretches before have left in the process does not count twice. */
static int open_loop(run *r, stoke_error *err)
{
    const uint64_t room = r->loop.job->params->data.memory_limit;
    if (room) r->loop.data.memory_limit = room + stk_machine_rss("/proc") + STK_CODE_BYTES;
    return r->way->open(&r->loop, err);
}

/* New workers, from ending the old ones to their first batch. */
static int start_again(run *r, stoke_error *err)
{
    const uint64_t began = stk_now_ns(), cpu = stk_thread_cpu_ns();
    r->way->close(&r->loop, 0);
    int status = open_loop(r, err);
    const uint64_t opened = stk_now_ns();
    if (!status) status = r->way->next(&r->loop, err);
    if (status) return status;
    r->open_ns += (double)(opened - began);
    r->restart_ns += (double)(stk_now_ns() - began);
    r->restart_cpu_ns += (double)(stk_thread_cpu_ns() - cpu);
    r->loop.out->restarts++;
    return STOKE_OK;
}

static int next_epoch(run *r, stoke_error *err)
{
    stk_diagnose_loop *loop = &r->loop;
    const stk_diagnose_run_job *job = loop->job;
    loop->epoch++;
    if (job->setup.persistent || !job->setup.workers) { /* nobody to start again */
        const int status = r->way->set_epoch(loop, err);
        return status ? status : r->way->next(loop, err);
    }
    int status = r->way->finish(loop, err);
    if (!status) status = start_again(r, err);
    if (!status && job->trace && loop->taken >= job->warm_up) r->way->trace(loop);
    return status;
}

static int take(run *r, stoke_error *err)
{
    int status = r->way->next(&r->loop, err);
    if (status == STOKE_E_END) status = next_epoch(r, err);
    if (status != STOKE_E_END) return status;
    return stk_fail(err, STOKE_E_INVALID,
                    "the set has no whole batch: lower `batch`, or leave `drop_last` out");
}

/* ---- the loop ---- */

/* STOKE_E_CANCELLED when the caller has had enough. */
static int one_step(run *r, stoke_error *err)
{
    stk_diagnose_loop *loop = &r->loop;
    const stoke_diagnose_params *p = loop->job->params;
    stk_diagnose_progress *progress = loop->job->progress;
    const double ms =
        loop->job->idle_steps || !p->n_steps ? next_to_nothing_ms : p->step_ms[loop->taken % p->n_steps];
    int status = take(r, err);
    if (!status) status = r->way->step(loop, ms, err);
    if (status) return status;
    loop->taken++;
    if (!progress) return STOKE_OK;
    progress->done++;
    progress->total = stk_most(progress->total, progress->done);
    if (progress->tell && progress->tell(progress->context, progress->done, progress->total))
        return stk_fail(err, STOKE_E_CANCELLED, "interrupted");
    return STOKE_OK;
}

static void sum_up(run *r, const stk_diagnose_load_seen *seen)
{
    const stoke_setup *setup = &r->loop.job->setup;
    stk_diagnose_run *out = r->loop.out;
    stoke_work_time sum = { 0 }; /* of making the batches that count */
    for (size_t i = out->from; i < out->n; i++)
        for (int k = 0; k < STOKE_WORK_KINDS; k++) {
            sum.cpu_ns += out->records[i].making[k].cpu_ns;
            sum.queued_ns += out->records[i].making[k].queued_ns;
        }
    const double making = (double)sum.cpu_ns;
    const int serial = !setup->workers && setup->transfer != STOKE_TRANSFER_STREAM;
    const double loop = seen->thread_ns - r->restart_cpu_ns - r->loop.step_cpu_ns - (serial ? making : 0);
    out->cores = stk_load_cores(seen, setup->workers, making, (double)sum.queued_ns);
    const stoke_cores cores = stoke_machine_cores();
    out->had = fmax(0, fmin(cores.usable, cores.online - seen->others));
    out->host_ms = fmax(0, loop) / (double)(out->n - out->from) / 1e6;
}

static int drive(run *r, stoke_error *err)
{
    stk_diagnose_loop *loop = &r->loop;
    const stk_diagnose_run_job *job = loop->job;
    const size_t total = (size_t)job->warm_up + job->steps;
    stoke_quiet watch = { 0 };
    int status = open_loop(r, err);
    while (!status && loop->taken < total) {
        if (loop->taken == job->warm_up) {
            watch = stoke_quiet_begin();
            r->restart_cpu_ns = loop->step_cpu_ns = 0;
            if (job->trace) r->way->trace(loop);
        }
        status = one_step(r, err);
    }
    if (!status) status = r->way->finish(loop, err);
    if (status) return status;
    const stk_diagnose_load_seen seen = stk_load_end(&watch);
    if (loop->out->n != total)
        return stk_fail(err, STOKE_E_STATE, "%zu steps were taken, and %zu have their times", total,
                        loop->out->n);
    for (size_t i = 0; i < total; i++) loop->out->records[i].number = i;
    loop->out->from = job->warm_up;
    sum_up(r, &seen);
    return STOKE_OK;
}

stoke_data_params stk_diagnose_data(const stoke_diagnose_params *params, const stoke_setup *setup)
{
    stoke_data_params data = params->data;
    data.workers = setup->workers;
    data.prefetch = setup->prefetch;
    data.batch = setup->batch;
    if (!params->device) { /* what the network takes */
        data.normalize = STOKE_NORMALIZE_IMAGENET;
        data.dtype = stoke_data_defaults().dtype;
    }
    return data;
}

int stk_diagnose_run_run(stk_diagnose_run *stretch, const stk_diagnose_run_job *job, stoke_error *err)
{
    const size_t total = (size_t)job->warm_up + job->steps;
    run r = { .loop = { .job = job, .out = stretch, .data = stk_diagnose_data(job->params, &job->setup) },
              .way = job->params->device ? &stk_way_of_device : &stk_way_of_native };
    r.loop.epoch = (uint64_t)r.loop.data.epoch;
    *stretch = (stk_diagnose_run){ .restart_ms = NAN, .open_ms = NAN };
    stretch->records = stk_calloc(total, sizeof *stretch->records);
    if (!stretch->records) return stk_fail(err, STOKE_E_NOMEM, "no memory for the times of %zu steps", total);
    int status = drive(&r, err);
    /* Where no epoch ended meanwhile. The batches are not used. */
    while (!status && stretch->restarts < job->restarts) status = start_again(&r, err);
    r.way->close(&r.loop, 1);
    stk_mem_give_back(); /* the next stretch has the same room */
    if (stretch->restarts) stretch->restart_ms = r.restart_ns / stretch->restarts / 1e6;
    if (stretch->restarts) stretch->open_ms = r.open_ns / stretch->restarts / 1e6;
    if (status) stk_diagnose_run_free(stretch);
    return status;
}

void stk_diagnose_run_free(stk_diagnose_run *stretch)
{
    stk_free(stretch->records);
    *stretch = (stk_diagnose_run){ 0 };
}

/* ---- what records come to ---- */

/* NaN: the record does not have it. */
static double figure_of(const stoke_step_record *r, stk_diagnose_figure figure)
{
    if (figure == STK_RUN_COPY_MS)
        return r->copy_end > r->copy_start ? (double)(r->copy_end - r->copy_start) / 1e6 : NAN;
    if (figure == STK_RUN_COPY_BYTES) return r->copy_bytes ? (double)r->copy_bytes : NAN;
    if (!r->launched) return NAN;
    /* From the last thing it had to wait for to its first kernel. */
    const uint64_t last = stk_most(stk_most(r->launched, r->copy_end), stk_most(r->augment_end, r[-1].end));
    return r->start > last ? (double)(r->start - last) / 1e6 : 0;
}

double stk_diagnose_run_mean(const stk_diagnose_run *stretch, stk_diagnose_figure figure)
{
    double sum = 0;
    size_t known = 0;
    for (size_t i = stretch->from; i < stretch->n; i++) {
        const double value = figure_of(&stretch->records[i], figure);
        if (isnan(value)) continue;
        sum += value;
        known++;
    }
    return known ? sum / (double)known : NAN;
}

/* By the clock: part of what making it takes is touching memory for the first time. The loop had it when it
 * had crossed, where it waits for copies. */
double stk_diagnose_run_first_ms(const stk_diagnose_run *stretch, const stoke_setup *setup)
{
    const double hands = fmax(1, fmin(setup->workers, stretch->cores));
    const double copy =
        setup->transfer == STOKE_TRANSFER_PAGEABLE ? stk_diagnose_run_mean(stretch, STK_RUN_COPY_MS) : 0;
    return fmax(0, stretch->restart_ms - stretch->open_ms - (isnan(copy) ? 0 : copy)) * hands;
}
