/* SPDX-License-Identifier: Apache-2.0
 *
 * What every fix gives alone, and in which order they are best made. The sequence is greedy, and every
 * candidate is forecast as a whole setup: costs combine by max, so what a fix adds depends on those before
 * it.
 */
#include "src/tune/diagnose/diagnose.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/remarks.h"
#include "src/tune/decide/decide.h"
#include <stoke/tools/diagnose.h>

/* What the search knows. */
typedef struct fixes_ctx {
    const stoke_costs *costs;
    uint32_t usable;
    uint64_t seed;
    const char *const *not_here; /* NULL = all can be made */
} fixes_ctx;

/* A setup without this fault. */
typedef struct fixes_proposal {
    stoke_setup setup;
    char what[160], change[96];
} fixes_proposal;

/* What causes of idle time are called, and what they mean. Batches may be made without workers, by the loop
 * itself: only what has workers names them. */

static const struct {
    const char *name, *meaning;
} idles[STOKE_IDLES] = {
    [STOKE_IDLE_EPOCH_START] = { "epoch start",
                                 "workers were started for the epoch and made its first batch" },
    [STOKE_IDLE_ORDER] = { "order", "a later batch was ready, but a slow sample held up the line" },
    [STOKE_IDLE_CONTENTION] = { "contention", "what makes batches was ready to run and had no core" },
    [STOKE_IDLE_FILES] = { "files", "files were waited for" },
    [STOKE_IDLE_DECODE] = { "decode", "images and masks were decoded" },
    [STOKE_IDLE_FIT] = { "fit", "images were cut and resized" },
    [STOKE_IDLE_AUGMENT] = { "augment", "images were augmented and written into the batch" },
    [STOKE_IDLE_COLLATE] = { "collate", "samples were stacked and passed between processes" },
    [STOKE_IDLE_READ] = { "read", "reading files took CPU time" },
    [STOKE_IDLE_WINDOW] = { "window", "workers had stood still because all slots were full" },
    [STOKE_IDLE_PIN] = { "pin", "the batch was copied into pinned memory" },
    [STOKE_IDLE_HOST] = { "host", "the loop did something else: logging, metrics, checkpoints" },
    [STOKE_IDLE_COPY_QUEUE] = { "copy queue", "the copy was put on its stream late, or waited for a slot" },
    [STOKE_IDLE_COPY] = { "copy", "the batch was being copied to the device" },
    [STOKE_IDLE_LAUNCH] = { "launch", "everything was there, but the first kernel had not begun" },
    [STOKE_IDLE_INSIDE] = { "inside", "the step itself had gaps between its kernels" },
    [STOKE_IDLE_UNKNOWN] = { "unknown", "a moment was not recorded" },
};

/* What causes of a slow step are called, the setting that mends each, and why it cannot be where the
 * processor is the device (NULL: it can). */
#define IS_DEVICE "the processor is the device: "
static const struct {
    const char *name, *setting, *not_on_processor;
} causes[STOKE_CAUSES] = {
    [STOKE_CAUSE_CPU_AUGMENT] = { "augmentation on the CPU", "gpu_augmentation",
                                  IS_DEVICE "there is nowhere else to augment" },
    [STOKE_CAUSE_FEW_WORKERS] = { "too few workers", "num_workers", NULL },
    [STOKE_CAUSE_NO_PINNING] = { "no pinned memory", "pin_memory", IS_DEVICE "nothing is copied" },
    [STOKE_CAUSE_SYNC_COPIES] = { "copies that nothing overlaps", "device_prefetch",
                                  IS_DEVICE "nothing is copied" },
    [STOKE_CAUSE_RESTARTED_WORKERS] = { "workers restarted every epoch", "persistent_workers", NULL },
    [STOKE_CAUSE_SYNC_LOOP] = { "a loop that waits for every step", "log_every",
                                IS_DEVICE "the loop cannot run ahead of it" },
    [STOKE_CAUSE_SHORT_PREFETCH] = { "too few batches made ahead", "prefetch_factor", NULL },
};

const char *stoke_idle_name(int idle)
{
    return idle >= 0 && idle < STOKE_IDLES ? idles[idle].name : "none";
}

const char *stoke_idle_meaning(int idle)
{
    return idle >= 0 && idle < STOKE_IDLES ? idles[idle].meaning : "no such cause";
}

const char *stoke_cause_name(int cause)
{
    return cause >= 0 && cause < STOKE_CAUSES ? causes[cause].name : "none";
}

/* What each fix makes of a setup. How many workers, and how far ahead, is answered by the forecast: the
 * smallest number that is nearly as good as the best. */

enum {
    TRIES = 48,
    SEARCH_RESAMPLES = 9 /* the median of these finds a number; the fix itself is judged by all */
};
static const double workers_alike = 1.02, prefetch_alike = 1.005;

STOKE_PRINTF(2, 3) static int no(fixes_proposal *proposal, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(proposal->what, sizeof proposal->what, format, arguments);
    va_end(arguments);
    return 0;
}

/* By its change, so that text and setup cannot differ. */
static int yes(fixes_proposal *proposal, stoke_error *err)
{
    const int r = stoke_setup_change(&proposal->setup, proposal->change, err);
    return r ? r : 1;
}

/* ---- a number by forecast ---- */

typedef struct search {
    stoke_setup setup[TRIES]; /* smallest first */
    size_t n;
    double alike;
} search;

static int find_smallest(const fixes_ctx *fixing, const search *tried, size_t *found, stoke_error *err)
{
    double ms[TRIES], best = INFINITY;
    for (size_t i = 0; i < tried->n; i++) {
        stoke_forecast forecast;
        const int r = stk_forecast_make(fixing->costs, &tried->setup[i], fixing->seed, SEARCH_RESAMPLES,
                                        &forecast, NULL, err);
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
    for (size_t i = 0; i < side->n; i++) {
        const stk_forecast_batch_cost cost = stk_batch_cost(&side->records[i], NULL);
        on_core += cost.cpu;
        elsewhere += cost.io;
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

static int more_workers(const fixes_ctx *fixing, const stoke_setup *from, fixes_proposal *proposal,
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
        snprintf(proposal->change, sizeof proposal->change, "workers=%u", to->workers);
    else
        snprintf(proposal->change, sizeof proposal->change, "workers=%u prefetch=%u", to->workers,
                 to->prefetch);
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

static int prefetch_more(const fixes_ctx *fixing, const stoke_setup *from, fixes_proposal *proposal,
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
    snprintf(proposal->change, sizeof proposal->change, "prefetch=%u", to);
    return yes(proposal, err);
}

/* ---- all of them ---- */

static int put(fixes_proposal *proposal, const char *what, const char *change, stoke_error *err)
{
    snprintf(proposal->what, sizeof proposal->what, "%s", what);
    snprintf(proposal->change, sizeof proposal->change, "%s", change);
    return yes(proposal, err);
}

/* 1: there is one; 0: there is not, and `what` says why; negative: an error. */
static int fix_propose(const fixes_ctx *fixing, int cause, const stoke_setup *from, fixes_proposal *proposal,
                       stoke_error *err)
{
    *proposal = (fixes_proposal){ .setup = *from };
    if (fixing->not_here && fixing->not_here[cause]) return no(proposal, "%s", fixing->not_here[cause]);
    const char *why_not = fixing->costs->processor ? causes[cause].not_on_processor : NULL;
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

/* A step gained by less than this share of it is not worth a line in somebody's file. */
static const double worth = 0.005;
/* What the replay cannot tell from nothing. */
static const double harmless = 1.001;

/* A setup with its forecast. */
typedef struct outlook {
    fixes_proposal proposal;
    stoke_forecast forecast;
    double steps[STK_RESAMPLES];
    int unmeasured;   /* there is a proposal, but its costs are not known */
    char reason[128]; /* of a step back in the sequence; "" = it is none */
} outlook;

static int look(const fixes_ctx *fixing, outlook *at, stoke_error *err)
{
    return stk_forecast_make(fixing->costs, &at->proposal.setup, fixing->seed, STK_RESAMPLES, &at->forecast,
                             at->steps, err);
}

/* As fix_propose, with the forecast. What was not measured cannot be proposed. */
static int try_fix(const fixes_ctx *fixing, int cause, const stoke_setup *from, outlook *to, stoke_error *err)
{
    stoke_error own = { 0 };
    int r = fix_propose(fixing, cause, from, &to->proposal, err);
    to->unmeasured = 0;
    *to->reason = 0;
    if (r <= 0) return r;
    r = look(fixing, to, &own);
    if (r == STOKE_E_NOTFOUND) {
        to->proposal = (fixes_proposal){ .setup = *from };
        to->unmeasured = 1;
        snprintf(to->proposal.what, sizeof to->proposal.what, "%.*s", (int)sizeof to->proposal.what - 1,
                 own.message);
        return 0;
    }
    return r ? stk_fail_again(err, r, own.message) : 1;
}

/* ---- alone ---- */

/* Less than a nanosecond is rounding, and would be shown as -0.00. */
static double difference(double before, double after)
{
    return fabs(before - after) < 1e-6 ? 0 : before - after;
}

static void book_alone(stoke_fix *fix, const outlook *now, const outlook *to, int applies)
{
    double gain[STK_RESAMPLES];
    fix->applies = applies;
    fix->setup = to->proposal.setup;
    memcpy(fix->what, to->proposal.what, sizeof fix->what);
    memcpy(fix->change, to->proposal.change, sizeof fix->change);
    if (!applies) return;
    fix->alone = to->forecast;
    /* Draw by draw: what both have in common, such as a slow disk, does not blur the difference. */
    for (int i = 0; i < STK_RESAMPLES; i++) gain[i] = difference(now->steps[i], to->steps[i]);
    fix->gain_ms = difference(now->forecast.step_ms, to->forecast.step_ms);
    fix->gain_low = fmin(stk_quantile(gain, STK_RESAMPLES, 0.05), fix->gain_ms);
    fix->gain_high = fmax(stk_quantile(gain, STK_RESAMPLES, 0.95), fix->gain_ms);
}

/* ---- in order ---- */

typedef struct sequence {
    outlook at;
    int left_out[STOKE_CAUSES]; /* what it gives alone could not be said */
    int taken[STOKE_CAUSES];    /* place in it */
    int length;
} sequence;

/* A switch is thrown once; how many workers it takes may be asked again when another fix has been made. */
static int is_through(const sequence *s, int cause)
{
    if (cause == STOKE_CAUSE_FEW_WORKERS || cause == STOKE_CAUSE_SHORT_PREFETCH) return s->left_out[cause];
    return s->left_out[cause] || s->taken[cause];
}

/* Every fix that does no harm, one after the other, and once more, since some matter after others: is there
 * anything to be had? */
static int all_at_once(const fixes_ctx *fixing, const sequence *s, outlook *to, stoke_error *err)
{
    *to = s->at;
    for (int i = 0; i < 2 * STOKE_CAUSES; i++) {
        const int cause = i % STOKE_CAUSES;
        outlook next;
        if (is_through(s, cause)) continue;
        const int r = try_fix(fixing, cause, &to->proposal.setup, &next, err);
        if (r < 0) return r;
        if (r && next.forecast.step_ms <= to->forecast.step_ms * harmless) *to = next;
    }
    return STOKE_OK;
}

/* The one that gives most; -1: there is none. `first`: taken before it, for a look two steps ahead. */
static int best_single(const fixes_ctx *fixing, const sequence *s, const outlook *from, int first,
                       outlook *best, int *which, stoke_error *err)
{
    *which = -1;
    for (int cause = 0; cause < STOKE_CAUSES; cause++) {
        if (is_through(s, cause) || cause == first) continue;
        outlook to;
        const int r = try_fix(fixing, cause, &from->proposal.setup, &to, err);
        if (r < 0) return r;
        if (!r || (*which >= 0 && to.forecast.step_ms >= best->forecast.step_ms)) continue;
        *best = to;
        *which = cause;
    }
    return STOKE_OK;
}

/* Two chains of the same length: none of the fixes helps alone. Takes the first one of the best pair. */
static int best_of_pairs(const fixes_ctx *fixing, const sequence *s, outlook *best, int *which,
                         stoke_error *err)
{
    const double now = s->at.forecast.step_ms;
    double shortest = now * (1 - worth);
    *which = -1;
    for (int cause = 0; cause < STOKE_CAUSES; cause++) {
        if (is_through(s, cause)) continue;
        outlook first, second;
        int then, r = try_fix(fixing, cause, &s->at.proposal.setup, &first, err);
        if (r < 0) return r;
        if (!r) continue;
        r = best_single(fixing, s, &first, cause, &second, &then, err);
        if (r) return r;
        if (then < 0 || second.forecast.step_ms >= shortest) continue;
        shortest = second.forecast.step_ms;
        /* Why one that helps nothing where it stands, or does harm, is in the sequence. */
        const double alone = now - first.forecast.step_ms;
        snprintf(first.reason, sizeof first.reason, "; %.1f ms %s by itself, %.1f ms faster with %.60s",
                 fabs(alone), alone < 0 ? "slower" : "faster", now - shortest, second.proposal.what);
        *best = first;
        *which = cause;
    }
    return STOKE_OK;
}

static int next_in_sequence(const fixes_ctx *fixing, const sequence *s, outlook *to, int *which,
                            stoke_error *err)
{
    const double enough = s->at.forecast.step_ms * (1 - worth);
    outlook all;
    int r = best_single(fixing, s, &s->at, -1, to, which, err);
    if (r || *which < 0 || to->forecast.step_ms <= enough) return r;
    *which = -1;
    r = all_at_once(fixing, s, &all, err);
    if (r || all.forecast.step_ms > enough) return r;
    return best_of_pairs(fixing, s, to, which, err);
}

/* With the others it may take another number than alone. */
static void say_number(stoke_fix *fix, uint32_t alone, uint32_t all)
{
    if (fix->order && alone != all)
        stk_text_add(fix->what, sizeof fix->what, "", "; %u with the other fixes", all);
}

static int order_fixes(stoke_fixes *out, const fixes_ctx *fixing, const outlook *now, sequence *s,
                       stoke_error *err)
{
    s->at = *now;
    for (int turns = 4 * STOKE_CAUSES; turns; turns--) {
        outlook to;
        int which, r = next_in_sequence(fixing, s, &to, &which, err);
        if (r) return r;
        if (which < 0) break;
        stoke_fix *fix = &out->fix[which];
        if (!fix->applies) { /* it matters after others only: what it gives alone is known now */
            outlook alone = to;
            alone.proposal.setup = now->proposal.setup;
            r = stoke_setup_change(&alone.proposal.setup, to.proposal.change, err);
            if (!r) r = look(fixing, &alone, err);
            if (r) return r;
            book_alone(fix, now, &alone, 1);
        }
        if (!fix->order) fix->order = s->taken[which] = ++s->length;
        stk_text_add(fix->what, sizeof fix->what, "", "%s", to.reason);
        fix->marginal_ms += s->at.forecast.step_ms - to.forecast.step_ms;
        s->at = to;
    }
    out->all = s->at.proposal.setup;
    out->together = s->at.forecast;
    out->gain_all_ms = now->forecast.step_ms - s->at.forecast.step_ms;
    stoke_fix *workers = &out->fix[STOKE_CAUSE_FEW_WORKERS], *ahead = &out->fix[STOKE_CAUSE_SHORT_PREFETCH];
    say_number(workers, workers->setup.workers, out->all.workers);
    say_number(ahead, ahead->setup.prefetch, out->all.prefetch);
    return STOKE_OK;
}

int stk_fixes_find(stoke_fixes *out, const stoke_costs *costs, uint32_t usable, uint64_t seed,
                   const char *const not_here[STOKE_CAUSES], stoke_error *err)
{
    const fixes_ctx fixing = { costs, usable, seed, not_here };
    outlook now = { .proposal.setup = costs->measured };
    sequence s = { 0 };
    memset(out, 0, sizeof *out);
    int r = look(&fixing, &now, err);
    if (r) return r;
    out->now = now.forecast;
    for (int cause = 0; cause < STOKE_CAUSES; cause++) {
        stoke_fix *fix = &out->fix[cause];
        outlook alone;
        fix->cause = cause;
        fix->setting = causes[cause].setting;
        r = try_fix(&fixing, cause, &costs->measured, &alone, err);
        if (r < 0) return r;
        book_alone(fix, &now, &alone, r);
        s.left_out[cause] = alone.unmeasured;
    }
    return order_fixes(out, &fixing, &now, &s, err);
}

int stoke_fixes_find(stoke_fixes *out, const stoke_costs *costs, uint32_t usable, uint64_t seed,
                     stoke_error *err)
{
    return stk_fixes_find(out, costs, usable, seed, NULL, err);
}
