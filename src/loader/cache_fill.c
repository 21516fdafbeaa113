/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a cache ahead of time: every sample once, as far as the fitted sample, by a crew of
 * threads.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <stoke/tools/loader.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/loader/sample.h"
#include "src/loader/memory_plan.h"
#include "src/base/threadpool.h"
#include "src/source/quarantine.h"

typedef struct filling {
    stk_loader_config config;
    stk_loader_plan plan;
    stk_memory_gate gate;
    stk_quarantine *quarantine;
    int stops; /* at a bad sample */
    atomic_int full;
    _Atomic uint64_t found, stored, bad, left_out;
} filling;

static int start(void *context, void *member, stoke_error *err)
{
    const filling *f = context;
    stk_scratch *scratch = member;
    const int r = stk_scratch_create(scratch, err);
    scratch->granted = f->plan.granted;
    return r;
}

static void finish(void *context, void *member)
{
    stk_scratch_destroy(member);
}

static int book_bad(filling *f, uint64_t id, int status, const stoke_error *reason, stoke_error *err)
{
    const stoke_sample sample = stoke_dataset_sample(f->config.dataset, id);
    atomic_fetch_add(&f->bad, 1);
    int r = stk_quarantine_add(f->quarantine, id, id, &sample, reason, NULL, err);
    if (!r && f->stops) r = stk_fail_again(err, status, reason->message);
    return r;
}

/* Both pictures of a pair, of which neither is of use without the other. */
static int bring(filling *f, stk_sample_ctx *ctx, int *whole)
{
    int target_whole;
    int r = stk_cache_lookup_bring(ctx, &f->gate, whole);
    if (r || !f->config.target) return r;
    stk_sample_ctx target = stk_target_begin(ctx, NULL);
    r = stk_target_bring(&target, ctx, &f->gate, &target_whole);
    *whole &= target_whole;
    stk_target_count(&ctx->kept, &target.kept);
    return r;
}

static int find(const filling *f, stk_sample_ctx *ctx)
{
    if (!stk_cache_lookup_find(ctx)) return 0;
    stk_sample_ctx target = stk_target_begin(ctx, NULL);
    return !f->config.target || stk_cache_lookup_find(&target);
}

static int fill_one(void *context, void *member, uint64_t id, stoke_error *err)
{
    filling *f = context;
    stk_scratch *scratch = member;
    stoke_error reason = { 0 };
    stk_sample_ctx ctx = { .scratch = scratch,
                           .config = &f->config,
                           .sample = stoke_dataset_sample(f->config.dataset, id),
                           .last = stk_stamp_now(),
                           .err = &reason };
    if (atomic_load(&f->full)) { /* what is there is there; decoding the rest would be for nothing */
        atomic_fetch_add(find(f, &ctx) ? &f->found : &f->left_out, 1);
        return STOKE_OK;
    }
    int whole;
    const int r = bring(f, &ctx, &whole);
    stk_memory_gate_leave(&f->gate, scratch);
    if (stk_is_want(r)) return stk_fail_again(err, r, reason.message);
    if (r || (!whole && reason.code)) return book_bad(f, id, r ? r : reason.code, &reason, err);
    if (ctx.kept.found) {
        atomic_fetch_add(&f->found, 1);
    } else if (ctx.kept.stored) {
        atomic_fetch_add(&f->stored, 1);
    } else {
        atomic_fetch_add(&f->left_out, 1);
        /* Entries of one size: the first that does not fit speaks for the rest. At the sources' own sizes a
         * smaller one may still. */
        if (!f->config.crops || stk_cache_warning(f->config.cache)) atomic_store(&f->full, 1);
    }
    return STOKE_OK;
}

static void report_on(const filling *f, stoke_cache_report *report)
{
    stk_cache_stats stats;
    stk_cache_stats_get(f->config.cache, &stats);
    report->found = f->found;
    report->stored = f->stored;
    report->bad = f->bad;
    report->left_out = f->left_out;
    report->bytes = stats.disk_bytes;
    const char *warning = stk_cache_warning(f->config.cache);
    if (warning) snprintf(report->warning, sizeof report->warning, "%s", warning);
    if (f->quarantine)
        stk_quarantine_unrecorded(f->quarantine, report->unrecorded, sizeof report->unrecorded);
}

int stoke_cache_fill(const stoke_dataset *dataset, const stoke_data_params *params, unsigned threads,
                     stoke_progress_fn progress, void *context, stoke_cache_report *report, stoke_error *err)
{
    *report = (stoke_cache_report){ 0 };
    if (!params->cache || !*params->cache)
        return stk_fail(err, STOKE_E_INVALID, "no cache to fill: name its folder");
    stoke_data_params own = *params;
    own.cache_ram = 0; /* would be gone with us */
    const uint64_t begin = stk_now_ns();
    stoke_memory_sum sum;
    filling *f = stk_calloc(1, sizeof *f);
    if (!f) return stk_fail(err, STOKE_E_NOMEM, "no memory to fill a cache");
    f->stops = params->policy == STOKE_POLICY_STOP;
    const stk_parallel_job ctx = { .count = stoke_dataset_count(dataset),
                                   .context = f,
                                   .member_bytes = sizeof(stk_scratch),
                                   .start = start,
                                   .work = fill_one,
                                   .finish = finish };
    int r = stk_loader_config_create(&f->config, dataset, &own, err);
    if (!r) r = stk_cache_lookup_open(&f->config, &own, err);
    if (!r) r = stk_quarantine_open(&f->quarantine, params->quarantine, err);
    if (!r) r = stk_scan_memory(&f->plan, &f->config, &own, threads, 0, &sum, err);
    stk_memory_gate_make(&f->gate, f->plan.shown.large_bytes, own.memory_limit);
    if (!r) r = stk_parallel_for(&ctx, f->plan.shown.workers, progress, context, err);
    stk_memory_gate_destroy(&f->gate);
    if (f->config.cache) report_on(f, report);
    stk_quarantine_close(&f->quarantine);
    stk_loader_config_destroy(&f->config);
    stk_free(f);
    report->seconds = (double)(stk_now_ns() - begin) / 1e9;
    return r;
}
