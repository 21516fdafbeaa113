/* SPDX-License-Identifier: Apache-2.0
 *
 * What every fix gives alone, and in which order they are best made. The sequence is greedy, and every
 * candidate is forecast as a whole setup: costs combine by max, so what a fix adds depends on those before
 * it.
 */
#include "src/tune/diagnose/fixes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/remarks.h"

/* A step gained by less than this share of it is not worth a line in somebody's file. */
static const double worth = 0.005;
/* What the replay cannot tell from nothing. */
static const double harmless = 1.001;

static const char *const settings[STOKE_CAUSES] = {
    [STOKE_CAUSE_CPU_AUGMENT] = "gpu_augmentation",
    [STOKE_CAUSE_FEW_WORKERS] = "num_workers",
    [STOKE_CAUSE_NO_PINNING] = "pin_memory",
    [STOKE_CAUSE_SYNC_COPIES] = "device_prefetch",
    [STOKE_CAUSE_RESTARTED_WORKERS] = "persistent_workers",
    [STOKE_CAUSE_SYNC_LOOP] = "log_every",
    [STOKE_CAUSE_SHORT_PREFETCH] = "prefetch_factor",
};

/* A setup with its forecast. */
typedef struct outlook {
    stk_fixes_proposal proposal;
    stoke_forecast forecast;
    double steps[STK_RESAMPLES];
    int unmeasured;   /* there is a proposal, but its costs are not known */
    char reason[128]; /* of a step back in the sequence; "" = it is none */
} outlook;

static int look(const stk_fixes_ctx *fixing, outlook *at, stoke_error *err)
{
    return stk_foresee(fixing->costs, &at->proposal.setup, fixing->seed, STK_RESAMPLES, &at->forecast,
                       at->steps, err);
}

/* As stk_fix_propose, with the forecast. What was not measured cannot be proposed. */
static int try_fix(const stk_fixes_ctx *fixing, int cause, const stoke_setup *from, outlook *to,
                   stoke_error *err)
{
    stoke_error own = { 0 };
    int r = stk_fix_propose(fixing, cause, from, &to->proposal, err);
    to->unmeasured = 0;
    *to->reason = 0;
    if (r <= 0) return r;
    r = look(fixing, to, &own);
    if (r == STOKE_E_NOTFOUND) {
        to->proposal = (stk_fixes_proposal){ .setup = *from };
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

/* Draw by draw: what both have in common, such as a slow disk, does not blur the difference. */
static void book_gain(stoke_fix *fix, const outlook *now, const outlook *to)
{
    double gain[STK_RESAMPLES];
    for (int i = 0; i < STK_RESAMPLES; i++) gain[i] = difference(now->steps[i], to->steps[i]);
    fix->gain_ms = difference(now->forecast.step_ms, to->forecast.step_ms);
    fix->gain_low = fmin(stk_quantile(gain, STK_RESAMPLES, 0.05), fix->gain_ms);
    fix->gain_high = fmax(stk_quantile(gain, STK_RESAMPLES, 0.95), fix->gain_ms);
}

static void book_alone(stoke_fix *fix, const outlook *now, const outlook *to, int applies)
{
    fix->applies = applies;
    fix->setup = to->proposal.setup;
    memcpy(fix->what, to->proposal.what, sizeof fix->what);
    memcpy(fix->change, to->proposal.change, sizeof fix->change);
    if (!applies) return;
    fix->alone = to->forecast;
    book_gain(fix, now, to);
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
static int all_at_once(const stk_fixes_ctx *fixing, const sequence *s, outlook *to, stoke_error *err)
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
static int best_single(const stk_fixes_ctx *fixing, const sequence *s, const outlook *from, int first,
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

/* Why one that helps nothing where it stands, or does harm, is in the sequence. */
static void say_pair(const sequence *s, const outlook *second, outlook *first)
{
    const double now = s->at.forecast.step_ms, alone = now - first->forecast.step_ms;
    snprintf(first->reason, sizeof first->reason, "; %.1f ms %s by itself, %.1f ms faster with %.60s",
             fabs(alone), alone < 0 ? "slower" : "faster", now - second->forecast.step_ms,
             second->proposal.what);
}

/* Two chains of the same length: none of the fixes helps alone. Takes the first one of the best pair. */
static int best_of_pairs(const stk_fixes_ctx *fixing, const sequence *s, outlook *best, int *which,
                         stoke_error *err)
{
    double shortest = s->at.forecast.step_ms * (1 - worth);
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
        say_pair(s, &second, &first);
        *best = first;
        *which = cause;
    }
    return STOKE_OK;
}

static int next_in_sequence(const stk_fixes_ctx *fixing, const sequence *s, outlook *to, int *which,
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

/* One that matters after others only: what it gives alone is known now. */
static int book_late(const stk_fixes_ctx *fixing, stoke_fix *fix, const outlook *now, const outlook *to,
                     stoke_error *err)
{
    outlook alone = *to;
    alone.proposal.setup = now->proposal.setup;
    int r = stoke_setup_change(&alone.proposal.setup, to->proposal.change, err);
    if (!r) r = look(fixing, &alone, err);
    if (!r) book_alone(fix, now, &alone, 1);
    return r;
}

/* With the others it may take another number than alone. */
static void say_number(stoke_fix *fix, uint32_t alone, uint32_t all)
{
    if (fix->order && alone != all)
        stk_text_add(fix->what, sizeof fix->what, "", "; %u with the other fixes", all);
}

static int order_fixes(stoke_fixes *out, const stk_fixes_ctx *fixing, const outlook *now, sequence *s,
                       stoke_error *err)
{
    s->at = *now;
    for (int turns = 4 * STOKE_CAUSES; turns; turns--) {
        outlook to;
        int which, r = next_in_sequence(fixing, s, &to, &which, err);
        if (r) return r;
        if (which < 0) break;
        stoke_fix *fix = &out->fix[which];
        if (!fix->applies) r = book_late(fixing, fix, now, &to, err);
        if (r) return r;
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
    const stk_fixes_ctx fixing = { costs, usable, seed, not_here };
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
        fix->setting = settings[cause];
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
