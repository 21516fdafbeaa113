/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for a batch, with trials that are scripted: every machine, every way to fail, and going on from
 * a journal after each trial.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>

#include "src/tune/batch/batch.h"
#include <stoke/tools/findbatch.h>

#define MB 1000000.0

/* A made-up machine; everything else is 0. */
typedef struct machine {
    double memory0, memory1, time0, time1; /* bytes, ms */
    double capacity;                       /* bytes beyond which a trial is out of memory */
    uint32_t kink;                         /* from this batch on a sample takes three times the memory */
    uint32_t flat_to;                      /* up to this batch a step takes as long as one of it */
    double noise;                          /* share, both ways */
    double loader_ms;                      /* that the loader takes for a sample; 0 = it is not measured */
    double loader_bytes;
    double cores_had;  /* of 2 that it wanted; 0 = not measured */
    uint32_t fails_at; /* from this batch on, with `outcome`; `times` times, 0 = always */
    int outcome, times, failed;
    int stop_after; /* trials, then the search is stopped; 0 = never */
    int calls;
    uint32_t asked[256];
    int loader_asked[256];
} machine;

static double noisy(machine *m, double value, uint32_t salt)
{
    uint32_t x = salt * 2654435761u + 12345;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return value * (1 + m->noise * ((double)(x & 0xffff) / 32768.0 - 1));
}

static int trial(void *context, uint32_t batch, stoke_trial *t, stoke_error *err)
{
    machine *m = context;
    (void)err;
    if (m->stop_after && m->calls == m->stop_after) return STOKE_E_CANCELLED;
    m->loader_asked[m->calls] = t->with_loader;
    m->asked[m->calls++] = batch;
    assert_true(m->calls < 256);
    assert_int_equal(t->batch, batch);
    if (m->fails_at && batch >= m->fails_at && (!m->times || m->failed++ < m->times)) {
        t->outcome = m->outcome;
        snprintf(t->message, sizeof t->message, "it said \"something\"");
        return STOKE_OK;
    }
    double bytes = m->memory0 + m->memory1 * batch;
    if (m->kink && batch >= m->kink) bytes += 2 * m->memory1 * (batch - m->kink + 1);
    if (t->with_loader) bytes += m->loader_bytes * batch;
    bytes = noisy(m, bytes, batch);
    if (m->capacity > 0 && bytes > m->capacity) {
        t->outcome = STOKE_OUTCOME_OOM;
        return STOKE_OK;
    }
    t->allocated = (uint64_t)(0.9 * bytes);
    t->reserved = (uint64_t)bytes;
    t->step_ms = noisy(m, m->time0 + m->time1 * (batch > m->flat_to ? batch : m->flat_to), batch + 7);
    t->step_low = t->step_high = t->step_ms;
    if (m->cores_had > 0) {
        t->cores_wanted = 2;
        t->cores_had = m->cores_had;
    }
    if (t->with_loader && m->loader_ms > 0) {
        const double making = m->loader_ms * batch;
        t->wait_ms = making > t->step_ms ? making - t->step_ms : 0;
        t->busy = t->step_ms / (t->step_ms + t->wait_ms);
    }
    return STOKE_OK;
}

/* 1000 MB without margins, unless said otherwise. */
static stoke_batch_params limits(void)
{
    stoke_batch_params p = stoke_batch_defaults();
    p.memory = (uint64_t)(1000 * MB);
    p.margin = 0;
    p.margin_bytes = 0;
    return p;
}

static stoke_batch_result find(machine *m, const stoke_batch_params *p)
{
    stoke_batch_result result;
    stoke_error err = { 0 };
    const int r = stoke_batch_search(&result, p, trial, m, NULL, NULL, &err);
    if (r) print_message("# %s\n", err.message);
    assert_int_equal(r, STOKE_OK);
    return result;
}

/* ---- a busy machine ---- */

static void nothing_is_suggested_from_noise(void **state)
{
    (void)state;
    machine quiet = { .memory0 = 100 * MB, .memory1 = 10 * MB, .time0 = 50, .time1 = 10, .noise = 0.4 };
    const stoke_batch_params p = limits();
    machine m = quiet;
    m.cores_had = 0.9;
    stoke_batch_result r = find(&m, &p);
    assert_true(r.too_busy && !r.batch && r.largest_ok && !r.timed && isnan(r.images_s));
    assert_non_null(strstr(r.why, "too busy to tell (0.9 of 2.0 cores were available)"));
    assert_non_null(strstr(r.why, "Memory: "));
    assert_null(strstr(r.why, "Throughput"));
    assert_int_equal(m.loader_asked[m.calls - 1], 0); /* there is nothing to confirm */
    /* Who asks for one all the same is told what it is worth. */
    stoke_batch_params insisting = p;
    insisting.although_busy = 1;
    m = quiet;
    m.cores_had = 0.9;
    r = find(&m, &insisting);
    assert_true(!r.too_busy && r.doubtful && r.batch && r.batch <= r.largest_ok);
    assert_non_null(strstr(r.why, "Low confidence: the machine was busy, and its times scatter (0.9 of 2.0"));
    assert_non_null(strstr(r.why, "Throughput"));
    /* The same times on a machine that gave what was wanted, or where nobody knows, are the machine's own. */
    const double had[] = { 1.9, 0 };
    for (int i = 0; i < 2; i++) {
        m = quiet;
        m.cores_had = had[i];
        r = find(&m, &p);
        assert_true(!r.too_busy && !r.doubtful && r.batch);
    }
    /* Times on a line are no accident. */
    m = quiet;
    m.noise = 0;
    m.cores_had = 0.9;
    r = find(&m, &p);
    assert_true(!r.too_busy && r.batch && r.timed);
}

/* ---- memory ---- */

static void probes_double_and_the_line_is_extended(void **state)
{
    (void)state;
    machine m = { .memory0 = 100 * MB, .memory1 = 10 * MB, .time0 = 50, .time1 = 1, .capacity = 1000 * MB };
    const stoke_batch_params p = limits();
    const stoke_batch_result r = find(&m, &p);
    const uint32_t wanted[] = { 1, 2, 4, 8, 16, 64 };
    for (size_t i = 0; i < 5; i++) assert_int_equal(m.asked[i], wanted[i]);
    /* 16 take 260 MB, a quarter and more; 4 x 16 is as far as the line is believed, then it is extended
     * again.
     */
    assert_int_equal(m.asked[5], 64);
    assert_int_equal(m.asked[6], 88); /* (1000 - 100) / 10 = 90 */
    assert_int_equal(r.largest_ok, 88);
    assert_int_equal(r.smallest_oom, 0);
    assert_true(r.linear && fabs(r.memory0 - 100 * MB) < 1000 && fabs(r.memory1 - 10 * MB) < 1000);
    assert_true(fabs(r.time0 - 50) < 0.001 && fabs(r.time1 - 1) < 0.001);
    assert_int_equal(r.batch, 80); /* 80 / 130 is more than 0.95 of 88 / 138, 72 / 122 is less */
    assert_int_equal(m.loader_asked[m.calls - 1], 1);
    assert_int_equal(m.asked[m.calls - 1], r.batch);
    assert_true(isnan(r.busy));
}

/* Never beyond 4 times what has been seen to work. */
static void extrapolation_has_a_reach(void **state)
{
    (void)state;
    for (double slope = 0.01; slope < 300; slope *= 1.7) {
        machine m = {
            .memory0 = 50 * MB, .memory1 = slope * MB, .time0 = 5000, .time1 = 1, .capacity = 900 * MB
        };
        const stoke_batch_params p = limits();
        find(&m, &p);
        uint32_t largest = 1;
        for (int i = 0; i < m.calls; i++) {
            assert_true(m.asked[i] <= 4 * largest);
            if (50 + slope * m.asked[i] <= 900 && m.asked[i] > largest) largest = m.asked[i];
        }
    }
}

/* For every limit and several networks: what is chosen is what looking at every batch would choose. */
static void agrees_with_looking_at_all(void **state)
{
    (void)state;
    for (double slope = 3; slope < 400; slope *= 1.31)
        for (double fixed = 0.1; fixed < 4000; fixed *= 3.7) {
            machine m = { .memory0 = 20 * MB, .memory1 = slope * MB, .time0 = fixed, .time1 = 1 };
            const stoke_batch_params p = limits();
            const stoke_batch_result r = find(&m, &p);
            uint32_t most = (uint32_t)(980 / slope), chosen = 0;
            if (most >= 8) most = most / 8 * 8;
            const double best = most / (fixed + most);
            const uint32_t step = most < 8 ? 1 : 8;
            for (uint32_t b = step; b <= most && !chosen; b += step)
                if (b / (fixed + b) >= 0.95 * best - 1e-12) chosen = b;
            /* Where larger ones gain nothing, the far end is not tried: the choice is within 5 % of it. */
            if (r.batch != chosen) {
                assert_true(r.largest_fit > r.largest_ok);
                assert_true(r.batch / (fixed + r.batch) >= 0.94 * best);
            }
            assert_true(r.largest_ok <= most);
            assert_true(m.calls < 20);
        }
}

/* Whatever the batch at which it ends, and however wrong the line is. */
static void memory_may_end_anywhere(void **state)
{
    (void)state;
    for (uint32_t end = 2; end < 300; end++) {
        machine m = { .memory0 = 10, .memory1 = 1, .time0 = 1e6, .time1 = 1, .fails_at = end };
        m.outcome = end % 2 ? STOKE_OUTCOME_OOM : STOKE_OUTCOME_HOST_OOM;
        stoke_batch_params p = limits();
        p.near = 0.999; /* else 152 are as good as 160 */
        const stoke_batch_result r = find(&m, &p);
        const uint32_t wanted = end - 1 < 8 ? end - 1 : (end - 1) / 8 * 8;
        assert_int_equal(r.largest_ok, wanted);
        assert_int_equal(r.batch, wanted);
        assert_int_equal(r.bound, STOKE_BOUND_MEMORY);
        assert_true(r.smallest_oom >= end);
        assert_true(m.calls < 24);
    }
}

static void a_kink_is_found_by_halving(void **state)
{
    (void)state;
    machine m = {
        .memory0 = 100 * MB, .memory1 = 5 * MB, .time0 = 1000, .time1 = 1, .kink = 40, .capacity = 1000 * MB
    };
    const stoke_batch_params p = limits();
    const stoke_batch_result r = find(&m, &p);
    /* 100 + 5 b + 10 (b - 39) = 1000: b = 86 */
    assert_int_equal(r.largest_ok, 80);
    assert_int_equal(r.batch, 80);
    assert_int_equal(r.bound, STOKE_BOUND_MEMORY);
}

/* A curve without a slope is no line: 253731 is not what fits. */
static void a_flat_curve_is_not_believed(void **state)
{
    (void)state;
    machine m = { .memory0 = 400 * MB,
                  .memory1 = 0,
                  .time0 = 1000,
                  .time1 = 1,
                  .fails_at = 100,
                  .outcome = STOKE_OUTCOME_OOM };
    const stoke_batch_params p = limits();
    const stoke_batch_result r = find(&m, &p);
    assert_int_equal(r.linear, 0);
    assert_int_equal(r.batch, 96);
    assert_int_equal(r.smallest_oom, 104);
}

static void nothing_fits(void **state)
{
    (void)state;
    machine m = { .memory0 = 2000 * MB, .memory1 = MB, .time0 = 1, .time1 = 1, .capacity = 1000 * MB };
    const stoke_batch_params p = limits();
    const stoke_batch_result r = find(&m, &p);
    assert_int_equal(r.batch, 0);
    assert_int_equal(m.calls, 1);
    assert_int_equal(r.smallest_oom, 1);
    assert_non_null(strstr(r.why, "Not even one sample"));
    assert_string_equal(r.next, "stoke estimate");
}

/* What works and leaves too little free is no choice either. */
static void the_margin_is_kept(void **state)
{
    (void)state;
    machine m = { .memory0 = 100 * MB, .memory1 = 10 * MB, .time0 = 1e5, .time1 = 1, .capacity = 4000 * MB };
    stoke_batch_params p = limits();
    p.memory = (uint64_t)(4000 * MB);
    p.margin = 0.05;
    p.margin_bytes = UINT64_C(512) << 20;
    p.context = (uint64_t)(300 * MB);
    const stoke_batch_result r = find(&m, &p);
    assert_int_equal(r.budget, 4000000000u - (UINT64_C(512) << 20) - 300000000u);
    assert_int_equal(r.largest_ok, 304); /* (3163 - 100) / 10 = 306 */
    assert_int_equal(r.batch, 296);      /* 0.974 of its throughput */
    assert_int_equal(r.bound, STOKE_BOUND_MEMORY);
    p.margin_bytes = 0;
    machine again = {
        .memory0 = 100 * MB, .memory1 = 10 * MB, .time0 = 1e5, .time1 = 1, .capacity = 4000 * MB
    };
    assert_int_equal(find(&again, &p).budget, 3500000000u);
}

/* ---- throughput ---- */

static void a_knee_in_time_is_seen(void **state)
{
    (void)state;
    /* Up to 32 the card is not full: every step takes as long. */
    machine m = {
        .memory0 = 10 * MB, .memory1 = 4 * MB, .time0 = 0, .time1 = 1, .flat_to = 32, .capacity = 1000 * MB
    };
    const stoke_batch_params p = limits();
    const stoke_batch_result r = find(&m, &p);
    assert_int_equal(r.batch, 32);
    assert_int_equal(r.bound, STOKE_BOUND_THROUGHPUT);
}

static void what_gains_nothing_is_not_tried(void **state)
{
    (void)state;
    machine m = { .memory0 = MB, .memory1 = 0.1 * MB, .time0 = 0.01, .time1 = 10, .capacity = 1000 * MB };
    const stoke_batch_params p = limits();
    const stoke_batch_result r = find(&m, &p);
    assert_int_equal(r.batch, 8);
    assert_int_equal(r.bound, STOKE_BOUND_THROUGHPUT);
    assert_int_equal(m.calls, 5); /* 1 2 4 8, and 8 with the loader */
    assert_int_equal(r.largest_ok, 8);
    /* What was tried and what the line says are two figures: (1000 - 1) / 0.1 = 9990. */
    assert_int_equal(r.largest_fit, 9984);
    assert_non_null(strstr(r.why, "Memory: 8 fit in "));
    assert_non_null(strstr(r.why, "no more were tried"));
    assert_non_null(strstr(r.why, "about 9984 would"));
}

static void noise_is_survived(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 40; k++) {
        machine m = {
            .memory0 = (100 + k) * MB, .memory1 = (5 + k) * MB, .time0 = 20 + k, .time1 = 2, .noise = 0.02
        };
        const stoke_batch_params p = limits();
        const stoke_batch_result r = find(&m, &p);
        const double most = floor((1000 / 1.02 - 100 - k) / (5 + k) / 8) * 8,
                     best = most / (20 + k + 2 * most);
        assert_true(r.batch > 0 && r.batch / (20 + k + 2.0 * r.batch) > 0.88 * best);
        assert_true(m.calls < 24);
    }
}

/* ---- the loader ---- */

static void a_slow_loader_binds(void **state)
{
    (void)state;
    machine m = { .memory0 = 100 * MB,
                  .memory1 = 10 * MB,
                  .time0 = 10,
                  .time1 = 1,
                  .capacity = 1000 * MB,
                  .loader_ms = 4 };
    const stoke_batch_params p = limits();
    const stoke_batch_result r = find(&m, &p);
    assert_int_equal(r.bound, STOKE_BOUND_LOADER);
    assert_true(r.busy < 0.5);
    assert_string_equal(r.next, "stoke diagnose");
    assert_non_null(strstr(r.why, "The loader binds"));
    assert_non_null(strstr(r.why, "Memory: up to 88 fit"));
    /* The figure of the choice and that of the trial which confirms it, both: the table has the second. */
    char made[64];
    const stoke_trial *last = &r.trial[r.n_trials - 1], *confirmed = last->batch == r.batch ? last : last - 1;
    snprintf(made, sizeof made, "; the confirming trial made %.0f. ",
             1000 * r.batch / (confirmed->step_ms + confirmed->wait_ms));
    assert_int_equal(confirmed->batch, r.batch);
    assert_non_null(strstr(r.why, made));
    /* The largest was looked at too: it idles as well. */
    assert_int_equal(m.asked[m.calls - 1], 88);
    assert_true(r.batch < 88);
    /* One that keeps up does not. */
    machine fast = m;
    fast.loader_ms = 0.5;
    fast.calls = 0;
    const stoke_batch_result good = find(&fast, &p);
    assert_true(good.busy == 1 && good.bound != STOKE_BOUND_LOADER && !*good.next);
}

/* On the processor both take memory from one place. */
static void the_loader_takes_memory_too(void **state)
{
    (void)state;
    machine m = { .memory0 = 100 * MB,
                  .memory1 = 10 * MB,
                  .time0 = 1e5,
                  .time1 = 1,
                  .capacity = 1000 * MB,
                  .loader_bytes = 4 * MB,
                  .loader_ms = 0.1 };
    const stoke_batch_params p = limits();
    const stoke_batch_result r = find(&m, &p);
    assert_true(r.batch > 0 && 100 + 14 * r.batch <= 1000);
    assert_int_equal(r.largest_fit, r.batch);
    assert_int_equal(r.bound, STOKE_BOUND_MEMORY);
}

/* ---- small sets ---- */

static void a_set_may_be_tiny(void **state)
{
    (void)state;
    for (uint32_t samples = 1; samples < 40; samples++) {
        machine m = { .memory0 = MB, .memory1 = MB / 100, .time0 = 1e5, .time1 = 1 };
        stoke_batch_params p = limits();
        p.largest = samples;
        p.near = 0.999;
        const stoke_batch_result r = find(&m, &p);
        assert_int_equal(r.batch, samples < 8 ? samples : samples / 8 * 8);
        assert_int_equal(r.bound, STOKE_BOUND_DATA);
        for (int i = 0; i < m.calls; i++) assert_true(m.asked[i] <= samples);
    }
}

/* ---- failures ---- */

static void only_memory_shrinks_a_batch(void **state)
{
    (void)state;
    static const int others[] = { STOKE_OUTCOME_SHM, STOKE_OUTCOME_DEVICE, STOKE_OUTCOME_TIMEOUT,
                                  STOKE_OUTCOME_CRASH, STOKE_OUTCOME_ERROR };
    const stoke_batch_params p = limits();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        machine m = {
            .memory0 = MB, .memory1 = 10 * MB, .time0 = 1e5, .time1 = 1, .fails_at = 16, .outcome = others[i]
        };
        const stoke_batch_result r = find(&m, &p);
        assert_int_equal(r.batch, 8);
        assert_int_equal(r.bound, STOKE_BOUND_FAILURE);
        assert_int_equal(r.smallest_oom, 0);
        assert_int_equal(m.asked[4], 16);
        assert_int_equal(m.asked[5], 16); /* a second chance, and nothing larger */
        assert_int_equal(m.calls, 7);
        assert_non_null(strstr(r.why, stoke_outcome_name(others[i])));
        assert_non_null(strstr(r.why, "it said"));
        /* An accident is forgiven. */
        machine once = { .memory0 = MB,
                         .memory1 = 10 * MB,
                         .time0 = 1e5,
                         .time1 = 1,
                         .capacity = 1000 * MB,
                         .fails_at = 16,
                         .times = 1,
                         .outcome = others[i] };
        assert_int_equal(find(&once, &p).largest_ok >= 16, 1);
    }
}

static void a_failure_at_once_is_an_error(void **state)
{
    (void)state;
    machine m = { .fails_at = 1, .outcome = STOKE_OUTCOME_CRASH };
    const stoke_batch_params p = limits();
    stoke_batch_result r;
    stoke_error err = { 0 };
    assert_int_equal(stoke_batch_search(&r, &p, trial, &m, NULL, NULL, &err), STOKE_E_STATE);
    assert_int_equal(m.calls, 2);
    assert_non_null(strstr(err.message, "crash"));
    assert_non_null(strstr(err.message, "it said"));
}

static void settings_are_checked(void **state)
{
    (void)state;
    machine m = { 0 };
    stoke_batch_result r;
    stoke_error err = { 0 };
    stoke_batch_params p = limits();
    assert_int_equal(stoke_batch_search(&r, NULL, trial, &m, NULL, NULL, &err), STOKE_E_INVALID);
    p.multiple = 0;
    assert_int_equal(stoke_batch_search(&r, &p, trial, &m, NULL, NULL, &err), STOKE_E_INVALID);
    p = limits();
    p.near = NAN;
    assert_int_equal(stoke_batch_search(&r, &p, trial, &m, NULL, NULL, &err), STOKE_E_INVALID);
    assert_int_equal(m.calls, 0);
}

/* ---- the journal ---- */

static void same_results(const stoke_batch_result *a, const stoke_batch_result *b)
{
    assert_int_equal(a->batch, b->batch);
    assert_int_equal(a->bound, b->bound);
    assert_int_equal(a->largest_ok, b->largest_ok);
    assert_int_equal(a->smallest_oom, b->smallest_oom);
    assert_memory_equal(&a->memory0, &b->memory0, sizeof a->memory0);
    assert_memory_equal(&a->time1, &b->time1, sizeof a->time1);
    assert_memory_equal(&a->images_s, &b->images_s, sizeof a->images_s);
    assert_string_equal(a->why, b->why);
    assert_int_equal(a->n_trials, b->n_trials);
    for (size_t i = 0; i < a->n_trials; i++) {
        assert_int_equal(a->trial[i].batch, b->trial[i].batch);
        assert_int_equal(a->trial[i].with_loader, b->trial[i].with_loader);
        assert_int_equal(a->trial[i].outcome, b->trial[i].outcome);
        assert_int_equal(a->trial[i].reserved, b->trial[i].reserved);
        assert_true(a->trial[i].step_ms == b->trial[i].step_ms);
        assert_true(a->trial[i].busy == b->trial[i].busy || isnan(a->trial[i].busy));
    }
}

static machine stoppable(int kind)
{
    machine m = { .memory0 = 100 * MB,
                  .memory1 = 10 * MB,
                  .time0 = 100,
                  .time1 = 1,
                  .capacity = 1000 * MB,
                  .loader_ms = 2,
                  .noise = 0.01 };
    if (kind == 1) m.kink = 20;
    if (kind == 2) m.loader_ms = 0;
    return m;
}

/* Stopped after each trial in turn, and then let go on: the same end, and no trial twice. */
static void a_stopped_search_goes_on(void **state)
{
    const stoke_batch_params p = limits();
    for (int kind = 0; kind < 3; kind++) {
        machine whole = stoppable(kind);
        const stoke_batch_result one_go = find(&whole, &p);
        for (int k = 0; k < whole.calls; k++) {
            const char *file = unit_path(state, "journal");
            machine m = stoppable(kind);
            stoke_batch_result r;
            stoke_error err = { 0 };
            unlink(file);
            m.stop_after = k;
            if (k)
                assert_int_equal(stoke_batch_search(&r, &p, trial, &m, file, "key", &err), STOKE_E_CANCELLED);
            m.stop_after = 0;
            assert_int_equal(stoke_batch_search(&r, &p, trial, &m, file, "key", &err), STOKE_OK);
            assert_int_equal(m.calls, whole.calls);
            same_results(&r, &one_go);
        }
    }
}

static void another_key_begins_anew(void **state)
{
    const stoke_batch_params p = limits();
    const char *file = unit_path(state, "journal");
    machine m = stoppable(0);
    stoke_batch_result r;
    assert_int_equal(stoke_batch_search(&r, &p, trial, &m, file, "b0 at 128", NULL), STOKE_OK);
    const int calls = m.calls;
    assert_int_equal(stoke_batch_search(&r, &p, trial, &m, file, "b0 at 128", NULL), STOKE_OK);
    assert_int_equal(m.calls, calls);
    assert_int_equal(stoke_batch_search(&r, &p, trial, &m, file, "b0 at 256", NULL), STOKE_OK);
    assert_int_equal(m.calls, 2 * calls);
}

static size_t size_of(const char *file)
{
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    return (size_t)st.st_size;
}

/* Cut at every byte: what is whole is used, what is half is dropped, and the file is whole again after. */
static void half_a_line_is_dropped(void **state)
{
    const stoke_batch_params p = limits();
    const char *file = unit_path(state, "journal");
    machine m = stoppable(0);
    const stoke_batch_result one_go = find(&m, &p);
    const int whole = m.calls;
    stoke_batch_result r;
    m.calls = 0;
    assert_int_equal(stoke_batch_search(&r, &p, trial, &m, file, "key", NULL), STOKE_OK);
    const size_t size = size_of(file);
    char *text = malloc(size);
    FILE *in = fopen(file, "rb");
    assert_int_equal(fread(text, 1, size, in), size);
    fclose(in);
    for (size_t cut = 0; cut <= size; cut += cut + 20 < size ? 173 : 1) {
        unit_write(file, text, cut);
        m.calls = 0;
        assert_int_equal(stoke_batch_search(&r, &p, trial, &m, file, "key", NULL), STOKE_OK);
        assert_true(m.calls <= whole);
        assert_int_equal(m.calls == 0, cut == size);
        same_results(&r, &one_go);
        assert_int_equal(size_of(file), size);
    }
    free(text);
}

static void hostile_lines_are_passed_over(void **state)
{
    static const char *const lines[] = {
        "",
        "{}",
        "null",
        "[1,2,3]",
        "{\"batch\": 1}",
        "\x01\x02\xff\xfe",
        "{\"batch\": 0, \"with_loader\": false, \"outcome\": \"ok\", \"allocated_bytes\": 1, "
        "\"reserved_bytes\": 1, "
        "\"step_ms\": 1, \"step_low_ms\": 1, \"step_high_ms\": 1, \"busy\": null, \"wait_ms\": 0, "
        "\"message\": \"\"}",
        "{\"batch\": 1, \"with_loader\": false, \"outcome\": \"ok\", \"allocated_bytes\": 1, "
        "\"reserved_bytes\": 1, "
        "\"step_ms\": 1e999, \"step_low_ms\": 1, \"step_high_ms\": 1, \"busy\": null, \"wait_ms\": 0, "
        "\"message\": \"\"}",
        "{\"batch\": 1, \"with_loader\": false, \"outcome\": \"ok\", \"allocated_bytes\": 1, "
        "\"reserved_bytes\": 1, "
        "\"step_ms\": -5, \"step_low_ms\": 1, \"step_high_ms\": 1, \"busy\": null, \"wait_ms\": 0, "
        "\"message\": \"\"}",
        "{\"batch\": 1, \"with_loader\": 1, \"outcome\": \"ok\", \"allocated_bytes\": 1, \"reserved_bytes\": "
        "1, "
        "\"step_ms\": 1, \"step_low_ms\": 1, \"step_high_ms\": 1, \"busy\": 7, \"wait_ms\": 0, \"message\": "
        "\"\"}",
        "{\"batch\": 1, \"batch\": 1, \"with_loader\": false, \"outcome\": \"ok\"}",
        "{\"batch\": 99999999999999999999, \"with_loader\": false, \"outcome\": \"fine\"}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    };
    const stoke_batch_params p = limits();
    const char *file = unit_path(state, "journal");
    machine m = stoppable(0);
    const stoke_batch_result one_go = find(&m, &p);
    const int whole = m.calls;
    stoke_batch_result r;
    FILE *out = fopen(file, "w");
    fputs("{\"stoke_trial_log\": 1, \"key\": \"key\"}\n", out);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) fprintf(out, "%s\n", lines[i]);
    for (int i = 0; i < 5000; i++) fputc('x', out); /* longer than any line */
    fputs("\n", out);
    fclose(out);
    m.calls = 0;
    assert_int_equal(stoke_batch_search(&r, &p, trial, &m, file, "key", NULL), STOKE_OK);
    assert_int_equal(m.calls, whole);
    same_results(&r, &one_go);
    assert_int_equal(stoke_batch_search(&r, &p, trial, &m, file, "key", NULL), STOKE_OK);
    assert_int_equal(m.calls, whole); /* and those written behind them count */
}

static void refused(void **state, const char *file, const char *word)
{
    const stoke_batch_params p = limits();
    machine m = stoppable(0);
    stoke_batch_result r;
    stoke_error err = { 0 };
    (void)state;
    assert_int_not_equal(stoke_batch_search(&r, &p, trial, &m, file, "key", &err), STOKE_OK);
    assert_int_equal(m.calls, 0);
    if (!strstr(err.message, word)) print_message("# %s\n", err.message);
    assert_non_null(strstr(err.message, word));
}

static void files_of_others_are_left_alone(void **state)
{
    static const char notes[] = "my notes\nof last year\n";
    const char *file = unit_path(state, "notes.txt");
    unit_write(file, notes, sizeof notes - 1);
    refused(state, file, "no journal");
    unit_write(file, "{\"a\": 1}\n", 9);
    refused(state, file, "no journal");
    unit_write(file, "one line without an end", 23);
    refused(state, file, "no journal");
    assert_int_equal(size_of(file), 23);
    char *large = calloc(1, 300000);
    unit_write(file, large, 300000);
    free(large);
    refused(state, file, "no journal has more");
    refused(state, unit_folder(state), "cannot be opened");
    const char *fifo = unit_path(state, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    refused(state, fifo, "regular");
    refused(state, unit_path(state, "none/there"), "cannot be opened");
}

static void two_searches_do_not_share_one(void **state)
{
    const char *file = unit_path(state, "journal");
    const int other = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(other >= 0 && flock(other, LOCK_EX) == 0);
    refused(state, file, "another search");
    close(other);
}

/* ---- outcomes ---- */

static int exited(int code)
{
    return code << 8; /* as waitpid has it */
}

static void outcomes_by_how_a_process_ended(void **state)
{
    static const struct {
        int code;
        const char *message;
        int outcome;
    } said[] = {
        { 0, "", STOKE_OUTCOME_OK },
        { 0, "a warning: out of memory soon", STOKE_OUTCOME_OK },
        { 1, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
          STOKE_OUTCOME_OOM },
        { 1, "RuntimeError: CUDA error: out of memory", STOKE_OUTCOME_OOM },
        { 1, "Out of Memory", STOKE_OUTCOME_OOM },
        { 1, "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear ...", STOKE_OUTCOME_OOM },
        { 1, "CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate", STOKE_OUTCOME_OOM },
        { 1, "[enforce fail at alloc_cpu.cpp:66] . DefaultCPUAllocator: can't allocate memory",
          STOKE_OUTCOME_OOM },
        { 1, "NVML_SUCCESS == r INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp", STOKE_OUTCOME_OOM },
        { 1, "CUDA error: an illegal memory access was encountered", STOKE_OUTCOME_DEVICE },
        { 1, "CUDA error: device-side assert triggered", STOKE_OUTCOME_DEVICE },
        { 1, "no such file", STOKE_OUTCOME_ERROR },
        { 137, "", STOKE_OUTCOME_ERROR },
    };
    (void)state;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        assert_int_equal(stoke_outcome_of(exited(said[i].code), 0, 0, 0, said[i].message), said[i].outcome);
    assert_int_equal(stoke_outcome_of(exited(1), 0, 0, 0, NULL), STOKE_OUTCOME_ERROR);
    assert_int_equal(stoke_outcome_of(SIGKILL, 3, 4, 0, ""), STOKE_OUTCOME_HOST_OOM);
    assert_int_equal(stoke_outcome_of(SIGKILL, 3, 3, 0, ""), STOKE_OUTCOME_CRASH);
    assert_int_equal(stoke_outcome_of(SIGKILL, 0, 0, 1, ""), STOKE_OUTCOME_TIMEOUT);
    assert_int_equal(stoke_outcome_of(SIGBUS, 0, 0, 0, ""), STOKE_OUTCOME_SHM);
    assert_int_equal(stoke_outcome_of(SIGSEGV, 0, 5, 0, "out of memory"), STOKE_OUTCOME_CRASH);
    assert_int_equal(stoke_outcome_of(SIGABRT, 0, 0, 0, ""), STOKE_OUTCOME_CRASH);
    for (int i = 0; i <= STOKE_OUTCOME_ERROR; i++) assert_string_not_equal(stoke_outcome_name(i), "n/a");
    assert_string_equal(stoke_outcome_name(-1), "n/a");
    assert_string_equal(stoke_outcome_name(99), "n/a");
    assert_string_equal(stoke_bound_name(STOKE_BOUND_FAILURE + 1), "n/a");
    assert_true(stoke_oom_kills() < UINT64_MAX);
}

UNIT_GROUP(batch_search)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_suggested_from_noise),
        cmocka_unit_test(probes_double_and_the_line_is_extended),
        cmocka_unit_test(extrapolation_has_a_reach),
        cmocka_unit_test(agrees_with_looking_at_all),
        cmocka_unit_test(memory_may_end_anywhere),
        cmocka_unit_test(a_kink_is_found_by_halving),
        cmocka_unit_test(a_flat_curve_is_not_believed),
        cmocka_unit_test(nothing_fits),
        cmocka_unit_test(the_margin_is_kept),
        cmocka_unit_test(a_knee_in_time_is_seen),
        cmocka_unit_test(what_gains_nothing_is_not_tried),
        cmocka_unit_test(noise_is_survived),
        cmocka_unit_test(a_slow_loader_binds),
        cmocka_unit_test(the_loader_takes_memory_too),
        cmocka_unit_test(a_set_may_be_tiny),
        cmocka_unit_test(only_memory_shrinks_a_batch),
        cmocka_unit_test(a_failure_at_once_is_an_error),
        cmocka_unit_test(settings_are_checked),
        unit_test_with_folder(a_stopped_search_goes_on),
        unit_test_with_folder(another_key_begins_anew),
        unit_test_with_folder(half_a_line_is_dropped),
        unit_test_with_folder(hostile_lines_are_passed_over),
        unit_test_with_folder(files_of_others_are_left_alone),
        unit_test_with_folder(two_searches_do_not_share_one),
        cmocka_unit_test(outcomes_by_how_a_process_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
