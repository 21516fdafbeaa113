/* SPDX-License-Identifier: Apache-2.0
 *
 * A fix is believed when it has been seen: blocks of steps with and without it take turns (ABAB..), the same
 * batches in each, so that whatever drifts (clocks, the page cache, other programs) meets both. The gain is
 * the median of the differences of neighbours; its interval comes from drawing pairs again.
 */
#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/tune/diagnose/diagnose.h"

enum { DRAWS = 1000, PAIRS = 64 };

typedef struct verifier {
    const stoke_diagnose_params *params;
    const stoke_setup *now;
    stk_diagnose_progress *progress;
} verifier;

typedef struct block {
    double step_ms, busy;
} block;

/* ---- blocks ---- */

static uint32_t pairs_of(const stoke_diagnose_params *params)
{
    return params->pairs < PAIRS ? params->pairs : PAIRS;
}

static int run_block(const verifier *v, const stoke_setup *setup, block *out, stoke_error *err)
{
    const stk_diagnose_run_job job = { .params = v->params,
                                       .setup = *setup,
                                       .steps = v->params->steps,
                                       .warm_up = stk_diagnose_warm_up(v->params->warm_up, setup),
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

typedef struct verdict {
    double gain_ms, low, high, busy;
    int confirmed;
} verdict;

static verdict judge(const double *gain, double *busy, uint32_t n, double predicted, uint64_t seed)
{
    double medians[DRAWS], drawn[PAIRS];
    for (uint32_t i = 0; i < DRAWS; i++) {
        for (uint32_t k = 0; k < n; k++)
            drawn[k] = gain[stk_below(stk_mix64(seed + (uint64_t)i * PAIRS + k + 1), n)];
        medians[i] = stk_median(drawn, n);
    }
    stk_median(medians, DRAWS); /* sorts */
    memcpy(drawn, gain, n * sizeof *drawn);
    verdict v = { .low = medians[DRAWS / 20], .high = medians[DRAWS - 1 - DRAWS / 20] };
    v.gain_ms = stk_median(drawn, n);
    v.busy = stk_median(busy, n);
    v.confirmed = predicted < 0 ? v.high < 0 : v.low > 0;
    return v;
}

static int compare(const verifier *v, const stoke_setup *with, double predicted, verdict *out,
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

/* ---- the whole ---- */

static int any_applies(const stoke_fixes *fixes)
{
    for (int i = 0; i < STOKE_CAUSES; i++)
        if (fixes->fix[i].applies) return 1;
    return 0;
}

uint64_t stk_diagnose_verify_steps(const stoke_fixes *fixes, const stoke_diagnose_params *params,
                                   const stoke_setup *now)
{
    const uint64_t own = stk_diagnose_warm_up(params->warm_up, now) + params->steps;
    uint64_t steps = 0;
    for (int i = 0; i < STOKE_CAUSES; i++)
        if (fixes->fix[i].applies)
            steps += own + stk_diagnose_warm_up(params->warm_up, &fixes->fix[i].setup) + params->steps;
    if (steps) steps += own + stk_diagnose_warm_up(params->warm_up, &fixes->all) + params->steps;
    return steps * pairs_of(params);
}

int stk_diagnose_verify(stoke_fixes *fixes, const stoke_diagnose_params *params, const stoke_setup *now,
                        stk_diagnose_progress *progress, stoke_error *err)
{
    const verifier v = { params, now, progress };
    verdict seen;
    for (int i = 0; i < STOKE_CAUSES; i++) {
        stoke_fix *fix = &fixes->fix[i];
        if (!fix->applies) continue;
        const int r = compare(&v, &fix->setup, fix->gain_ms, &seen, err);
        if (r) return r;
        fix->pairs = pairs_of(params);
        fix->measured_ms = seen.gain_ms;
        fix->measured_low = seen.low;
        fix->measured_high = seen.high;
        fix->measured_busy = seen.busy;
        fix->confirmed = seen.confirmed;
    }
    if (!any_applies(fixes)) return STOKE_OK;
    const int r = compare(&v, &fixes->all, fixes->gain_all_ms, &seen, err);
    if (r) return r;
    fixes->pairs = pairs_of(params);
    fixes->measured_ms = seen.gain_ms;
    fixes->measured_low = seen.low;
    fixes->measured_high = seen.high;
    fixes->measured_busy = seen.busy;
    fixes->confirmed = seen.confirmed;
    return STOKE_OK;
}
