/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis from end to end: the user's loop is run and every step's moments kept, all idle time gets a
 * cause, the costs that the run does not show (augmenting on the other side, the other way to copy, workers
 * started again) are measured by further short runs, and from them every fix is predicted.
 */
#include "src/tune/diagnose/diagnose.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/loader/memory_plan.h"
#include "src/report/trace.h"
#include "src/tune/decide/decide.h"
#include <stoke/memory.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/upload.h>

/* Left out before steps count: `asked`, or what is made ahead and one more. */
static uint32_t diagnose_warm_up(uint32_t asked, const stoke_setup *setup)
{
    const uint32_t ahead = setup->prefetch + (setup->transfer == STOKE_TRANSFER_STREAM ? setup->depth : 0);
    return asked ? asked : 1 + ahead;
}

/* What a diagnosis will take of memory. Its stretches come one after the other, so the largest of them
 * counts: both sides to augment on, and with verify whatever setup a fix may propose. */

/* Records, causes and forecasts; with the spans of the steps that are kept. */
static uint64_t times_bytes(const stoke_diagnose_params *p, const stoke_setup *setup)
{
    enum {
        RECORDS = 3,       /* of a stretch that was kept, of one that runs, and the upload's */
        STEP = 512,        /* its causes, and its part in a forecast */
        SAMPLE_SPANS = 12, /* stages of a sample, and waiting for a slot */
        STEP_SPANS = 64
    };
    const uint64_t steps = (uint64_t)diagnose_warm_up(p->warm_up, setup) + p->steps;
    const uint64_t spans = steps * ((uint64_t)setup->batch * SAMPLE_SPANS + STEP_SPANS);
    return steps * (RECORDS * sizeof(stoke_step_record) + STEP) +
           (p->trace ? stk_trace_bytes(p->trace, spans) : 0);
}

/* A device of the host's own cores: augmenting there would free none of them, and is not measured. */
static int diagnose_same_cores(stoke_device *device, int placement)
{
    const stoke_device_info *info = stoke_device_describe(device);
    return placement == STOKE_PLACEMENT_DEVICE && info->shares_cores && !info->emulated;
}

static int plan_feed(const stoke_diagnose_params *p, const stoke_setup *setup, const stoke_data_params *data,
                     stoke_memory_plan *host, stoke_error *err)
{
    stoke_upload_memory memory;
    stoke_upload_params params = stoke_upload_defaults();
    params.placement = setup->placement;
    params.transfer = setup->transfer;
    params.depth = setup->depth;
    const int r = stoke_upload_estimate(&memory, p->dataset, data, p->device, &params, err);
    *host = memory.host;
    if (r || diagnose_same_cores(p->device, !setup->placement)) return r;
    params.placement = !setup->placement; /* measured where it can be */
    if (!stoke_upload_estimate(&memory, p->dataset, data, p->device, &params, NULL) &&
        memory.host.total_bytes > host->total_bytes)
        *host = memory.host;
    return r;
}

static int plan_native(const stoke_diagnose_params *p, const stoke_data_params *data, stoke_memory_plan *host,
                       stoke_error *err)
{
    stk_loader_plan plan;
    stoke_memory_share network;
    int r = stk_diagnose_network(&network, p, data, err);
    if (!r) r = stk_loader_plan_of(&plan, p->dataset, data, err);
    if (r) return r;
    plan.shown.beside = network.name;
    plan.shown.beside_bytes = network.bytes;
    r = stk_loader_plan_settle(&plan, err);
    *host = plan.shown;
    return r;
}

/* Of everything, before the first stretch. *room: what memory_limit leaves to the loader of a stretch,
 * without the process; 0 = no limit. */
static int stk_diagnose_memory(stoke_memory_sum *sum, uint64_t *room, const stoke_diagnose_params *p,
                               const stoke_setup *now, stoke_error *err)
{
    /* Forecasts, pictures, and what workers that have ended leave in the C library's heaps: 0.7-2.4 MB. */
    enum { LEFT_BEHIND = 3 << 20 };
    const uint64_t limit = p->data.memory_limit, times = times_bytes(p, now), own = times + LEFT_BEHIND;
    const stoke_setup setup = p->pairs ? stk_fixes_largest(now, stoke_machine_cores().usable) : *now;
    stoke_data_params data = stk_diagnose_data(p, &setup);
    stoke_memory_plan host = { 0 };
    data.memory_limit = !limit ? 0 : limit > own ? limit - own : 1;
    /* STOKE_E_LIMIT: the plan is the least that would do. */
    const int r = p->device ? plan_feed(p, &setup, &data, &host, err) : plan_native(p, &data, &host, err);
    if (r && !(r == STOKE_E_LIMIT && host.fixed_bytes)) return r;
    *sum = (stoke_memory_sum){ .limit_bytes = limit };
    stoke_memory_add_loader(sum, &host);
    stoke_memory_add(sum, "times of steps", 1, times);
    stoke_memory_add(sum, "process", 1, host.fixed_bytes + LEFT_BEHIND);
    if (r) return stk_memory_refuse(sum, "the diagnosis needs", "lower steps, batch, size or workers", err);
    /* Its maker takes a little before it is made: streams, decoders, tables. */
    *room = limit ? limit - own - host.fixed_bytes + STK_CODE_BYTES : 0;
    return STOKE_OK;
}

/* A fix is believed when it has been seen: blocks of steps with and without it take turns (ABAB..), the same
 * batches in each, so that whatever drifts (clocks, the page cache, other programs) meets both. The gain is
 * the median of the differences of neighbours; its interval comes from drawing pairs again. */

enum { DRAWS = 1000, PAIRS = 64 };

typedef struct verifier {
    const stoke_diagnose_params *params;
    const stoke_setup *now;
    stk_diagnose_progress *progress;
} verifier;

typedef struct block {
    double step_ms, busy;
} block;

/* ---- setups measured in turns: blocks ---- */

static uint32_t pairs_of(const stoke_diagnose_params *params)
{
    return params->pairs < PAIRS ? params->pairs : PAIRS;
}

static int run_block(const verifier *v, const stoke_setup *setup, block *out, stoke_error *err)
{
    const stk_diagnose_run_job job = { .params = v->params,
                                       .setup = *setup,
                                       .steps = v->params->steps,
                                       .warm_up = diagnose_warm_up(v->params->warm_up, setup),
                                       .progress = v->progress };
    stk_diagnose_run s;
    stoke_attribution a;
    int r = stk_diagnose_run_run(&s, &job, err);
    if (r) return r;
    r = stoke_attribute(s.records, s.n, s.from, setup, &a, NULL, err);
    stk_diagnose_run_free(&s);
    if (r) return r;
    *out = (block){ (double)a.elapsed_ns / (double)a.steps / 1e6,
                    a.elapsed_ns ? (double)a.busy_ns / (double)a.elapsed_ns : 0 };
    return STOKE_OK;
}

/* ---- what pairs say ---- */

static stoke_fix_measured judge(const double *gain, double *busy, uint32_t n, double predicted, uint64_t seed)
{
    double medians[DRAWS], drawn[PAIRS];
    for (uint32_t i = 0; i < DRAWS; i++) {
        for (uint32_t k = 0; k < n; k++)
            drawn[k] = gain[stk_below(stk_mix64(seed + (uint64_t)i * PAIRS + k + 1), n)];
        medians[i] = stk_median(drawn, n);
    }
    stk_median(medians, DRAWS); /* sorts */
    memcpy(drawn, gain, n * sizeof *drawn);
    stoke_fix_measured v = { .pairs = n,
                             .low = medians[DRAWS / 20],
                             .high = medians[DRAWS - 1 - DRAWS / 20] };
    v.gain_ms = stk_median(drawn, n);
    v.busy = stk_median(busy, n);
    v.confirmed = predicted < 0 ? v.high < 0 : v.low > 0;
    return v;
}

static int compare(const verifier *v, const stoke_setup *with, double predicted, stoke_fix_measured *out,
                   stoke_error *err)
{
    double gain[PAIRS], busy[PAIRS];
    const uint32_t n = pairs_of(v->params);
    for (uint32_t i = 0; i < n; i++) {
        block a, b;
        int r = run_block(v, v->now, &a, err);
        if (!r) r = run_block(v, with, &b, err);
        if (r) return r;
        gain[i] = a.step_ms - b.step_ms;
        busy[i] = b.busy;
    }
    *out = judge(gain, busy, n, predicted, v->params->seed);
    return STOKE_OK;
}

/* ---- every fix in turn ---- */

/* Steps that it will take. */
static uint64_t diagnose_verify_steps(const stoke_fixes *fixes, const stoke_diagnose_params *params,
                                      const stoke_setup *now)
{
    const uint64_t own = diagnose_warm_up(params->warm_up, now) + params->steps;
    uint64_t steps = 0;
    for (int i = 0; i < STOKE_CAUSES; i++)
        if (fixes->fix[i].applies)
            steps += own + diagnose_warm_up(params->warm_up, &fixes->fix[i].setup) + params->steps;
    if (steps) steps += own + diagnose_warm_up(params->warm_up, &fixes->all) + params->steps;
    return steps * pairs_of(params);
}

/* Every fix that applies, and all together, in turns with the setup as it is. */
static int stk_diagnose_verify(stoke_fixes *fixes, const stoke_diagnose_params *params,
                               const stoke_setup *now, stk_diagnose_progress *progress, stoke_error *err)
{
    const verifier v = { params, now, progress };
    int any = 0;
    for (int i = 0; i < STOKE_CAUSES; i++) {
        stoke_fix *fix = &fixes->fix[i];
        if (!fix->applies) continue;
        any = 1;
        const int r = compare(&v, &fix->setup, fix->gain_ms, &fix->measured, err);
        if (r) return r;
    }
    return any ? compare(&v, &fixes->all, fixes->gain_all_ms, &fixes->measured, err) : STOKE_OK;
}

enum {
    OTHER_STEPS = 12, /* batches made on the other side: their mean is within 10 % of that of many */
    LINK_STEPS = 3,
    RESTARTS = 3, /* one alone is off by a quarter now and then */
    /* Of shorter epochs the start is most of it, as it never is of a set that somebody trains on. */
    EPOCH_LEAST = 5,
};

stoke_diagnose_params stoke_diagnose_defaults(void)
{
    return (stoke_diagnose_params){ .struct_size = sizeof(stoke_diagnose_params),
                                    .data = stoke_data_defaults(),
                                    .setup = stoke_setup_defaults(),
                                    .model = "b0",
                                    .steps = 30 };
}

/* ---- what is asked for ---- */

static int check_setup(const stoke_setup *s, stoke_error *err)
{
    const char *wrong = s->struct_size != sizeof *s                                 ? "struct_size"
                        : s->batch < 1 || s->batch > INT32_MAX                      ? "batch"
                        : s->workers > 1024                                         ? "workers"
                        : s->prefetch < 1 || s->prefetch > 1024                     ? "prefetch"
                        : s->depth < 1 || s->depth > 64                             ? "depth"
                        : s->placement < 0 || s->placement > STOKE_PLACEMENT_DEVICE ? "placement"
                        : s->transfer < 0 || s->transfer > STOKE_TRANSFER_PAGEABLE  ? "transfer"
                                                                                    : NULL;
    return wrong ? stk_fail(err, STOKE_E_INVALID, "the setup cannot be run: see its %s", wrong) : STOKE_OK;
}

static int check(const stoke_diagnose_params *p, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p || !p->dataset)
        return stk_fail(err, STOKE_E_INVALID,
                        "no data set, or parameters that are not those of stoke_diagnose_defaults");
    if (p->steps < 2 || p->steps > 1000000)
        return stk_fail(err, STOKE_E_INVALID, "%" PRIu32 " steps: 2 to 1000000 can be measured", p->steps);
    if (p->device && (!p->step_ms || !p->n_steps))
        return stk_fail(err, STOKE_E_INVALID, "what a step takes on the device is not said");
    for (size_t i = 0; p->device && i < p->n_steps; i++)
        if (!(p->step_ms[i] > 0 && p->step_ms[i] <= 1e6))
            return stk_fail(err, STOKE_E_INVALID, "a step of %g ms cannot be made", p->step_ms[i]);
    return check_setup(&p->setup, err);
}

/* ---- measuring ---- */

/* A short stretch, for what a batch costs on its way: steps take next to nothing, and workers stay. */
static stk_diagnose_run_job short_job(const stk_diagnose_whole *d, const stoke_diagnose_params *p,
                                      uint32_t steps, stk_diagnose_progress *progress)
{
    stk_diagnose_run_job job = { .params = p,
                                 .setup = d->setup,
                                 .steps = steps,
                                 .warm_up = 1,
                                 .restarts = RESTARTS,
                                 .idle_steps = 1,
                                 .progress = progress };
    job.setup.persistent = 1;
    return job;
}

/* Augmenting on the other side. A device that cannot is no failure: why_not says what it said. */
static int measure_other_side(stk_diagnose_whole *d, const stoke_diagnose_params *p,
                              stk_diagnose_progress *progress, char *why_not, size_t size, stoke_error *err)
{
    stoke_error own = { 0 };
    const stoke_device_info *info = stoke_device_describe(p->device);
    stk_diagnose_run_job job = short_job(d, p, OTHER_STEPS, progress);
    job.setup.placement = !d->setup.placement;
    if (diagnose_same_cores(p->device, job.setup.placement)) {
        snprintf(why_not, size, "%s computes on the host's own cores", info->name);
        return STOKE_OK;
    }
    const int r = stk_diagnose_run_run(&d->other, &job, &own);
    if (r == STOKE_E_NOMEM || r == STOKE_E_UNSUPPORTED || r == STOKE_E_LIMIT) {
        snprintf(why_not, size, "%s cannot: %.110s", info->name, own.message);
        return STOKE_OK;
    }
    return r ? stk_fail_again(err, r, own.message) : STOKE_OK;
}

/* The way to copy that a run does not use. Of the two from pinned memory the one that is worth a change;
 * its thread takes 5 ms to start. */
static int other_way(const stoke_setup *setup)
{
    return setup->transfer == STOKE_TRANSFER_PAGEABLE ? STOKE_TRANSFER_STREAM : STOKE_TRANSFER_PAGEABLE;
}

/* ---- costs ---- */

static stoke_start start_of(const stk_diagnose_run *s, const stoke_setup *setup)
{
    return (stoke_start){ s->restart_ms, stk_diagnose_run_first_ms(s, setup) };
}

/* Both ways to copy, from a stretch of either. */
static void fill_side(stoke_side *side, const stk_diagnose_run *own, const stoke_setup *setup, double link_ms,
                      stoke_start link_start)
{
    const int pageable = setup->transfer == STOKE_TRANSFER_PAGEABLE;
    const double own_ms = stk_diagnose_run_mean(own, STK_RUN_COPY_MS);
    const stoke_start own_start = start_of(own, setup);
    side->records = own->records + own->from;
    side->n = own->n - own->from;
    side->pageable_ms = pageable ? own_ms : link_ms;
    side->pinned_ms = pageable ? link_ms : own_ms;
    side->pageable_start = pageable ? own_start : link_start;
    side->pinned_start = pageable ? link_start : own_start;
}

/* The other side by the way to copy that was not tried there: in proportion to its bytes, which are copied,
 * and touched or not when slots are made. */
static void fill_other_side(stk_diagnose_whole *d, stoke_start link)
{
    const stk_diagnose_run *other = &d->other;
    const double share = stk_diagnose_run_mean(other, STK_RUN_COPY_BYTES) /
                         stk_diagnose_run_mean(&d->link, STK_RUN_COPY_BYTES);
    const stoke_start run = start_of(&d->run, &d->setup), here = start_of(other, &d->setup);
    const stoke_start start = { fmax(0, here.restart_ms + (link.restart_ms - run.restart_ms) * share),
                                fmax(0, here.first_ms + (link.first_ms - run.first_ms) * share) };
    fill_side(&d->out.costs.side[!d->setup.placement], other, &d->setup,
              stk_diagnose_run_mean(&d->link, STK_RUN_COPY_MS) * share, start);
}

static int fill_costs(stk_diagnose_whole *d, stoke_error *err)
{
    const stk_diagnose_run *run = &d->run;
    stoke_costs *costs = &d->out.costs;
    const size_t n = run->n - run->from;
    *costs = stoke_costs_defaults();
    d->step_ms = stk_alloc(n * sizeof *d->step_ms);
    if (!d->step_ms) return stk_fail(err, STOKE_E_NOMEM, "no memory for the times of %zu steps", n);
    for (size_t i = 0; i < n; i++) {
        const stoke_step_record *r = &run->records[run->from + i];
        d->step_ms[i] = (double)(r->end - r->start) / 1e6;
    }
    costs->measured = d->setup;
    costs->step_ms = d->step_ms;
    costs->n_steps = n;
    costs->cores = run->cores;
    costs->launch_ms = stk_diagnose_run_mean(run, STK_RUN_LAUNCH_MS);
    if (isnan(costs->launch_ms)) costs->launch_ms = 0;
    costs->host_ms = run->host_ms;
    costs->restart_ms = run->restart_ms;
    costs->steps_per_epoch = run->steps_per_epoch;
    stoke_side *own = &costs->side[d->setup.placement];
    stoke_setup link = d->setup;
    link.transfer = other_way(&d->setup);
    const stoke_start link_start = start_of(&d->link, &link);
    fill_side(own, run, &d->setup, stk_diagnose_run_mean(&d->link, STK_RUN_COPY_MS), link_start);
    if (d->other.n) fill_other_side(d, link_start);
    costs->processor = d->native;
    if (d->native) own->pageable_ms = own->pinned_ms = 0;
    return STOKE_OK;
}

/* ---- the whole ---- */

static int diagnose(stk_diagnose_whole *d, const stoke_diagnose_params *p, stoke_error *err)
{
    stk_diagnose_progress progress = {
        .tell = p->progress,
        .context = p->context,
        .total = diagnose_warm_up(p->warm_up, &d->setup) + p->steps +
                 (d->native ? 0 : 2 + OTHER_STEPS + LINK_STEPS),
    };
    const stk_diagnose_run_job job = { .params = p,
                                       .setup = d->setup,
                                       .steps = p->steps,
                                       .warm_up = diagnose_warm_up(p->warm_up, &d->setup),
                                       .restarts = RESTARTS,
                                       .trace = p->trace,
                                       .progress = &progress };
    stk_diagnose_run_job link = short_job(d, p, LINK_STEPS, &progress); /* and workers started again */
    link.setup.transfer = other_way(&d->setup);
    const stk_diagnose_run *run = &d->run;
    const char *not_here[STOKE_CAUSES] = { 0 };
    char why_not[160] = "", short_epoch[128];
    int r = stk_diagnose_run_run(&d->run, &job, err);
    if (r) return r;
    d->out.records = run->records;
    d->out.n_records = run->n;
    d->out.from = run->from;
    d->per_step = stk_calloc(run->n - run->from, sizeof *d->per_step);
    if (!d->per_step) return stk_fail(err, STOKE_E_NOMEM, "no memory for the causes of each step");
    r = stoke_attribute(run->records, run->n, run->from, &d->setup, &d->out.attribution, d->per_step, err);
    if (!r && !d->native) r = measure_other_side(d, p, &progress, why_not, sizeof why_not, err);
    if (!r && !d->native) r = stk_diagnose_run_run(&d->link, &link, err);
    if (!r) r = fill_costs(d, err);
    snprintf(short_epoch, sizeof short_epoch,
             "the set is too small to tell: an epoch has %" PRIu64 " step%s, and its start is left out",
             d->short_epoch, d->short_epoch == 1 ? "" : "s");
    if (*why_not) not_here[STOKE_CAUSE_CPU_AUGMENT] = why_not;
    if (d->short_epoch) not_here[STOKE_CAUSE_RESTARTED_WORKERS] = short_epoch;
    if (!r)
        r = stk_fixes_find(&d->out.fixes, &d->out.costs, stoke_machine_cores().usable, p->seed, not_here,
                           err);
    if (!r && p->pairs) {
        progress.total = progress.done + diagnose_verify_steps(&d->out.fixes, p, &d->setup);
        r = stk_diagnose_verify(&d->out.fixes, p, &d->setup, &progress, err);
    }
    return r;
}

int stoke_diagnose(stoke_diagnosis **out, const stoke_diagnose_params *params, stoke_error *err)
{
    *out = NULL;
    int r = check(params, err);
    if (r) return r;
    stk_diagnose_whole *d = stk_calloc(1, sizeof *d);
    if (!d) return stk_fail(err, STOKE_E_NOMEM, "no memory for a diagnosis");
    d->setup = params->setup;
    d->native = !params->device;
    d->although_busy = params->although_busy;
    const uint64_t steps = (stoke_dataset_count(params->dataset) + d->setup.batch - 1) / d->setup.batch;
    if (!d->setup.persistent && d->setup.workers && steps < EPOCH_LEAST) {
        d->setup.persistent = 1;
        d->short_epoch = steps;
    }
    if (d->native) {
        /* Nothing is copied and nobody runs ahead of the processor. */
        d->setup.placement = STOKE_PLACEMENT_HOST;
        d->setup.transfer = STOKE_TRANSFER_PINNED;
        d->setup.sync = 1;
        snprintf(d->device, sizeof d->device, "native engine");
    } else {
        const stoke_device_info *info = stoke_device_describe(params->device);
        snprintf(d->device, sizeof d->device, "%s", info->name);
        snprintf(d->title, sizeof d->title, "%s", info->title);
        d->emulated = info->emulated;
    }
    stoke_diagnose_params own = *params;
    r = stk_diagnose_memory(&d->out.memory, &own.data.memory_limit, params, &d->setup, err);
    if (!r && params->planned) params->planned(params->planned_context, &d->out.memory);
    if (!r) r = diagnose(d, &own, err);
    *out = &d->out;
    if (r) stoke_diagnosis_free(out);
    return r;
}

void stoke_diagnosis_free(stoke_diagnosis **diagnosis)
{
    stk_diagnose_whole *d = diagnosis ? (stk_diagnose_whole *)*diagnosis : NULL;
    if (!d) return;
    stk_diagnose_run_free(&d->run);
    stk_diagnose_run_free(&d->other);
    stk_diagnose_run_free(&d->link);
    stk_free(d->step_ms);
    stk_free(d->per_step);
    stk_free(d);
    *diagnosis = NULL;
}

/* ---- what others ask ---- */

int stoke_diagnosis_too_busy(const stoke_diagnosis *diagnosis, double *had, double *usable)
{
    const stk_diagnose_whole *d = (const stk_diagnose_whole *)diagnosis;
    *had = d->run.had;
    *usable = stoke_machine_cores().usable;
    return !d->although_busy && stk_decide_busy(*had, *usable);
}

/* "simulated RTX 3090", "RTX 3090", "device". */
static void name_device(const stk_diagnose_whole *d, char name[64])
{
    static const char *const makers[] = { "NVIDIA ", "GeForce " };
    const char *title = d->title;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (!strncmp(title, makers[i], strlen(makers[i]))) title += strlen(makers[i]);
    const char *end = strstr(title, " (");
    const int card = !strncmp(d->device, "cuda", 4) || d->emulated;
    if (d->native)
        snprintf(name, 64, "processor");
    else if (card && *title)
        snprintf(name, 64, "%s%.*s", d->emulated ? "simulated " : "",
                 (int)(end && end - title < 48 ? end - title : 48), title);
    else
        snprintf(name, 64, d->emulated ? "simulated card" : "device");
}

int stoke_diagnosis_verdict(const stoke_diagnosis *diagnosis, char *text, size_t size)
{
    const stk_diagnose_whole *d = (const stk_diagnose_whole *)diagnosis;
    const stoke_attribution *a = &d->out.attribution;
    char who[64];
    double had, usable;
    const double busy = a->elapsed_ns ? 100.0 * (double)a->busy_ns / (double)a->elapsed_ns : 0;
    const double idle_ms = (double)a->idle_ns / (double)a->steps / 1e6;
    int worst = 0;
    for (int k = 1; k < STOKE_IDLES; k++)
        if (a->idle[k] > a->idle[worst]) worst = k;
    name_device(d, who);
    if (stoke_diagnosis_too_busy(diagnosis, &had, &usable))
        return snprintf(
            text, size,
            "This machine is too busy to tell (%.1f of %.0f cores were available): the %s was busy %.0f %% "
            "of the time, and how much of the rest is other programs' doing is not known.",
            had, usable, who, busy);
    if (busy >= 98)
        return snprintf(text, size, "The %s was busy %.1f %% of the time: it hardly waits.", who, busy);
    return snprintf(
        text, size,
        "The %s was busy %.0f %% of the time; it waited %.*f ms a step, mostly while %s (%.*f ms).", who,
        busy, idle_ms < 10 ? 2 : 0, idle_ms, stoke_idle_meaning(worst), idle_ms < 10 ? 2 : 0,
        (double)a->idle[worst] / (double)a->steps / 1e6);
}
