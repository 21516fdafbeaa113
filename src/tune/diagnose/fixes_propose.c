/* SPDX-License-Identifier: Apache-2.0
 *
 * What each fix makes of a setup. How many workers, and how far ahead, is answered by the forecast: the
 * smallest number that is nearly as good as the best.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "src/base/error.h"
#include "src/tune/decide/decide.h"
#include "src/tune/diagnose/fixes.h"

enum {
    TRIES = 48,
    SEARCH_RESAMPLES = 9 /* the median of these finds a number; the fix itself is judged by all */
};
static const double workers_alike = 1.02, prefetch_alike = 1.005;

STOKE_PRINTF(2, 3) static int no(stk_fixes_proposal *proposal, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(proposal->what, sizeof proposal->what, format, arguments);
    va_end(arguments);
    return 0;
}

/* By its change, so that text and setup cannot differ. */
static int yes(stk_fixes_proposal *proposal, stoke_error *err)
{
    const int r = stoke_setup_change(&proposal->setup, proposal->change, err);
    return r ? r : 1;
}

STOKE_PRINTF(2, 3) static void change_by(stk_fixes_proposal *proposal, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(proposal->change, sizeof proposal->change, format, arguments);
    va_end(arguments);
}

/* ---- a number by forecast ---- */

typedef struct search {
    stoke_setup setup[TRIES]; /* smallest first */
    size_t n;
    double alike;
} search;

static int find_smallest(const stk_fixes_ctx *fixing, const search *tried, size_t *found, stoke_error *err)
{
    double ms[TRIES], best = INFINITY;
    for (size_t i = 0; i < tried->n; i++) {
        stoke_forecast forecast;
        const int r = stk_foresee(fixing->costs, &tried->setup[i], fixing->seed, SEARCH_RESAMPLES, &forecast,
                                  NULL, err);
        if (r) return r;
        ms[i] = forecast.step_ms;
        best = fmin(best, ms[i]);
    }
    *found = 0;
    while (ms[*found] > best * tried->alike) ++*found;
    return STOKE_OK;
}

/* ---- workers ---- */

/* Workers that mostly wait for files leave cores to others: more of them than cores help. */
static int files_dominate(const stoke_side *side)
{
    double on_core = 0, elsewhere = 0;
    for (size_t i = 0; i < side->n; i++)
        for (int k = 0; k < STOKE_WORK_KINDS; k++) {
            const stoke_work_time *time = &side->records[i].making[k];
            const double io = (double)time->wall_ns - (double)time->cpu_ns - (double)time->queued_ns;
            on_core += (double)time->cpu_ns;
            if (io > 0) elsewhere += io;
        }
    return elsewhere > on_core;
}

/* PyTorch counts what is made ahead by worker; 2 each when it is not said. */
static stoke_setup with_workers(const stoke_setup *from, uint32_t workers)
{
    stoke_setup to = *from;
    to.workers = workers;
    if (from->by_batch) {
        const uint32_t each =
            from->workers ? from->prefetch / from->workers + (from->prefetch % from->workers != 0) : 2;
        to.prefetch = workers * (each ? each : 1);
    }
    return to;
}

static uint32_t usable_cores(uint32_t usable)
{
    return usable < 256 ? usable ? usable : 1 : 256;
}

static int more_workers(const stk_fixes_ctx *fixing, const stoke_setup *from, stk_fixes_proposal *proposal,
                        stoke_error *err)
{
    const int by_files = files_dominate(&fixing->costs->side[from->placement]);
    const uint32_t cores = usable_cores(fixing->usable);
    const uint32_t most = stk_decide_workers_most(cores, 1, by_files);
    search tried = { .alike = workers_alike };
    /* One by one up to 16, then by eighths: 1024 is the 49th. */
    for (uint32_t w = 1; w < most && tried.n < TRIES - 1; w += 1 + w / 16 * 2)
        tried.setup[tried.n++] = with_workers(from, w);
    tried.setup[tried.n++] = with_workers(from, most);
    size_t found;
    const int r = find_smallest(fixing, &tried, &found, err);
    if (r) return r;
    const stoke_setup *to = &tried.setup[found];
    if (to->workers <= from->workers) {
        if (from->workers < most) return no(proposal, "more than %u would not help", from->workers);
        return no(proposal, "more than %u would not help on %u core%s", from->workers, cores,
                  cores == 1 ? "" : "s");
    }
    snprintf(proposal->what, sizeof proposal->what, "workers %u -> %u", from->workers, to->workers);
    if (to->prefetch == from->prefetch)
        change_by(proposal, "workers=%u", to->workers);
    else
        change_by(proposal, "workers=%u prefetch=%u", to->workers, to->prefetch);
    return yes(proposal, err);
}

/* ---- prefetch ---- */

/* What is made ahead is a multiple of it: PyTorch counts by worker. */
static uint32_t prefetch_unit(const stoke_setup *setup)
{
    return setup->by_batch ? setup->workers : 1;
}

/* PyTorch: up to 4 each. */
static uint32_t prefetch_most(const stoke_setup *setup)
{
    const uint32_t unit = prefetch_unit(setup);
    return setup->by_batch      ? unit * (unit >= 4 ? 4 : 4 / unit + 3)
           : setup->workers > 2 ? 2 * setup->workers
                                : 4;
}

stoke_setup stk_fixes_largest(const stoke_setup *from, uint32_t usable)
{
    const uint32_t most = stk_decide_workers_most(usable_cores(usable), 1, 1);
    stoke_setup to = from->workers < most ? with_workers(from, most) : *from;
    const uint32_t ahead = prefetch_most(&to);
    if (to.prefetch < from->prefetch) to.prefetch = from->prefetch;
    if (to.prefetch < ahead) to.prefetch = ahead;
    return to;
}

static int prefetch_more(const stk_fixes_ctx *fixing, const stoke_setup *from, stk_fixes_proposal *proposal,
                         stoke_error *err)
{
    if (!from->workers) return no(proposal, "without workers nothing is made ahead");
    const uint32_t unit = prefetch_unit(from), each = prefetch_most(from) / unit;
    search tried = { .alike = prefetch_alike };
    tried.setup[tried.n++] = *from;
    for (uint32_t k = from->prefetch / unit + 1; k <= each && tried.n < TRIES; k++) {
        tried.setup[tried.n] = *from;
        tried.setup[tried.n++].prefetch = k * unit;
    }
    if (tried.n == 1) return no(proposal, "more than %u made ahead would not help", from->prefetch);
    size_t found;
    const int r = find_smallest(fixing, &tried, &found, err);
    if (r) return r;
    if (!found) found = tried.n - 1; /* none is better: say what the most would give */
    const uint32_t to = tried.setup[found].prefetch;
    snprintf(proposal->what, sizeof proposal->what, "batches made ahead %u -> %u", from->prefetch, to);
    change_by(proposal, "prefetch=%u", to);
    return yes(proposal, err);
}

/* ---- all of them ---- */

static int put(stk_fixes_proposal *proposal, const char *what, const char *change, stoke_error *err)
{
    snprintf(proposal->what, sizeof proposal->what, "%s", what);
    change_by(proposal, "%s", change);
    return yes(proposal, err);
}

/* NULL: it can be made, where a device computes. */
static const char *not_on_processor(int cause)
{
    switch (cause) {
    case STOKE_CAUSE_CPU_AUGMENT: return "the processor is the device: there is nowhere else to augment";
    case STOKE_CAUSE_NO_PINNING:
    case STOKE_CAUSE_SYNC_COPIES: return "the processor is the device: nothing is copied";
    case STOKE_CAUSE_SYNC_LOOP: return "the processor is the device: the loop cannot run ahead of it";
    }
    return NULL;
}

int stk_fix_propose(const stk_fixes_ctx *fixing, int cause, const stoke_setup *from,
                    stk_fixes_proposal *proposal, stoke_error *err)
{
    *proposal = (stk_fixes_proposal){ .setup = *from };
    if (fixing->not_here && fixing->not_here[cause]) return no(proposal, "%s", fixing->not_here[cause]);
    const char *why_not = fixing->costs->processor ? not_on_processor(cause) : NULL;
    if (why_not) return no(proposal, "%s", why_not);
    const int pageable = from->transfer == STOKE_TRANSFER_PAGEABLE;
    switch (cause) {
    case STOKE_CAUSE_CPU_AUGMENT:
        if (from->placement == STOKE_PLACEMENT_DEVICE) return no(proposal, "the device augments already");
        return put(proposal, "augmenting on the host -> on the device", "placement=device", err);
    case STOKE_CAUSE_FEW_WORKERS: return more_workers(fixing, from, proposal, err);
    case STOKE_CAUSE_NO_PINNING:
        if (!pageable) return no(proposal, "batches lie in pinned memory already");
        return put(proposal, "copies from pageable memory -> from pinned memory", "transfer=pinned", err);
    case STOKE_CAUSE_SYNC_COPIES:
        if (from->transfer == STOKE_TRANSFER_STREAM)
            return no(proposal, "copies have a stream of their own already");
        return put(proposal,
                   pageable ? "copies on the loop's stream -> on a stream of their own, from pinned memory"
                            : "copies on the loop's stream -> on a stream of their own",
                   from->depth ? "transfer=stream" : "transfer=stream depth=1", err);
    case STOKE_CAUSE_RESTARTED_WORKERS:
        if (from->persistent) return no(proposal, "workers are kept already");
        if (!from->workers) return no(proposal, "there are no workers to restart");
        if (!fixing->costs->steps_per_epoch) return no(proposal, "the epoch never ends");
        return put(proposal, "workers restarted every epoch -> kept", "persistent=yes", err);
    case STOKE_CAUSE_SYNC_LOOP:
        if (!from->sync) return no(proposal, "the loop does not wait for its steps");
        return put(proposal, "waiting for every step -> only where a figure is shown", "sync=no", err);
    case STOKE_CAUSE_SHORT_PREFETCH: return prefetch_more(fixing, from, proposal, err);
    }
    return stk_fail(err, STOKE_E_INVALID, "there is no cause %d", cause);
}
