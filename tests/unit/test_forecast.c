/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts: the formulas by hand, the replay against them, what must never make a step longer, intervals.
 */
#include <math.h>
#include <stoke/tools/diagnose.h>

#include "src/base/mem.h"
#include "src/tune/diagnose/diagnose.h"
#include "fixture_cost.h"

static stoke_setup setup_by(const char *text)
{
    stoke_setup setup = stoke_setup_defaults();
    stoke_error err = { 0 };
    if (stoke_setup_change(&setup, text, &err)) fail_msg("%s", err.message);
    return setup;
}

/* ---- figures that are known ---- */

/* Runs on two cores with steps of 20 ms: what was measured once with workers that burn time. */
static void test_matches_runs_on_two_cores(void **state)
{
    static const struct {
        unsigned workers;
        double cpu, io, copy;
        int transfer;
        double predicted, measured;
    } runs[] = {
        { 1, 40, 0, 0, STOKE_TRANSFER_STREAM, 0.500, 0.503 },
        { 2, 40, 0, 0, STOKE_TRANSFER_STREAM, 1.000, 0.975 },
        { 4, 40, 0, 0, STOKE_TRANSFER_STREAM, 1.000, 0.980 },
        { 2, 60, 0, 0, STOKE_TRANSFER_STREAM, 0.667, 0.665 },
        { 8, 60, 0, 0, STOKE_TRANSFER_STREAM, 0.667, 0.677 },
        { 2, 20, 60, 0, STOKE_TRANSFER_STREAM, 0.500, 0.500 },
        { 4, 20, 60, 0, STOKE_TRANSFER_STREAM, 1.000, 0.969 },
        { 2, 20, 0, 4, STOKE_TRANSFER_PAGEABLE, 0.833, 0.828 },
        { 2, 20, 0, 4, STOKE_TRANSFER_STREAM, 1.000, 1.000 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int by_batch = 0; by_batch < 2; by_batch++) {
            costing c;
            costing_constant(&c, runs[i].cpu, runs[i].io, runs[i].copy, 20);
            stoke_setup setup = stoke_setup_defaults();
            setup.workers = runs[i].workers;
            setup.prefetch = 2 * runs[i].workers;
            setup.transfer = runs[i].transfer;
            setup.by_batch = by_batch;
            const stoke_forecast f = costing_forecast(&c, &setup);
            costing_near(20 / f.closed_ms, runs[i].predicted, 0.001);
            costing_near(f.busy, runs[i].predicted, 0.01);
            costing_near(f.busy, runs[i].measured, 0.05);
        }
}

/* 32 images of 5 to 10 ms each and a step of 100 ms: that adds up to 220 to 440 ms of idle time. */
static void test_answers_the_documents(void **state)
{
    static const struct {
        const char *setup;
        double low, high; /* with 10 ms an image, with 5 */
    } cases[] = {
        { "workers=0 sync=yes transfer=pageable by_batch=yes", 0.238, 0.385 },
        { "workers=1 by_batch=yes", 0.3125, 0.625 },
        { "workers=2 prefetch=4 by_batch=yes", 0.625, 1 },
        { "workers=4 prefetch=8 by_batch=yes", 1, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int fast = 0; fast < 2; fast++) {
            const stoke_setup setup = setup_by(cases[i].setup);
            costing c;
            costing_constant(&c, fast ? 160 : 320, 0, 0, 100);
            c.costs.cores = 8;
            const stoke_forecast f = costing_forecast(&c, &setup);
            costing_near(f.busy, fast ? cases[i].high : cases[i].low, 0.001);
            costing_near(100 / f.closed_ms, fast ? cases[i].high : cases[i].low, 0.001);
        }
}

/* t = 20 + 10, h = 3, g = 20, l = 0.5, m = 4; k = 2 and t = 9 + 3 where the device augments. 4 cores. */
static void formula_costs(costing *c)
{
    costing_constant(c, 20, 10, 3, 20);
    costing_device(c, 9, 3, 2, 3);
    c->costs.side[0].pageable_ms = 6;
    c->costs.cores = 4;
    c->costs.launch_ms = 0.5;
    c->costs.host_ms = 4;
    c->costs.restart_ms = 500;
    c->costs.steps_per_epoch = 100;
}

static void test_formulas_by_hand(void **state)
{
    static const struct {
        const char *setup;
        double ms;
        int limit;
    } cases[] = {
        { "workers=0 sync=yes transfer=pageable", 30 + 6 + 20 + 0.5 + 4, -1 },
        { "workers=0 sync=yes transfer=pinned", 30 + 3 + 20 + 0.5 + 4, -1 },
        { "workers=0 transfer=pageable", 30 + 4 + 6 + 0.5, STOKE_IDLE_DECODE },
        { "workers=0 transfer=pageable placement=device", 20 + 2 + 3 + 0.5, -1 },
        { "workers=0 transfer=pinned by_batch=yes", 30 + 4, STOKE_IDLE_DECODE },
        { "workers=0 transfer=pinned", 30 + 4, STOKE_IDLE_DECODE },
        { "workers=0 transfer=stream", 30 + 3, STOKE_IDLE_DECODE },
        { "workers=1 transfer=pageable", 30, STOKE_IDLE_DECODE },
        { "workers=2 transfer=pageable", 20 + 6 + 0.5, -1 },
        { "workers=2 transfer=pageable sync=yes", 20 + 6 + 0.5 + 4, -1 },
        { "workers=2 transfer=pinned", 20 + 3 + 0.5, -1 },
        { "workers=2 transfer=pinned sync=yes", 20 + 3 + 0.5 + 4, -1 },
        { "workers=2 transfer=stream", 20 + 0.5, -1 },
        { "workers=2 transfer=stream sync=yes", 20 + 0.5 + 4, -1 },
        { "workers=1 transfer=stream placement=device", 20 + 0.5 + 2, -1 },
        { "workers=1 transfer=stream placement=device sync=yes", 20 + 0.5 + 4, -1 },
        { "workers=1 transfer=pinned placement=device sync=yes", 20 + 3 + 2 + 0.5 + 4, -1 },
        /* Workers are there in 500 less the 30 in which one made the batch; then 15 with two, and all the
           way. */
        { "workers=2 persistent=no", 20.5 + (470 + 15 + 3 + 0.5 + 4 + 20 - 20.5) / 100, -1 },
        { "workers=0 transfer=pinned persistent=no", 30 + 4, STOKE_IDLE_DECODE },
        { "workers=8 prefetch=2 by_batch=yes batch=16", 30, STOKE_IDLE_DECODE }, /* two places: two workers */
        { "workers=8 prefetch=8 by_batch=yes batch=16", 20.5, -1 },
    };
    costing c;
    (void)state;
    formula_costs(&c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stoke_setup setup = setup_by(cases[i].setup);
        const stoke_forecast f = costing_forecast(&c, &setup);
        if (fabs(f.closed_ms - cases[i].ms) > 1e-9 || fabs(f.step_ms - cases[i].ms) > 1e-9 ||
            f.limit != cases[i].limit)
            fail_msg("%s: closed %.9g, replay %.9g, limit %s; %.9g, %s by hand", cases[i].setup, f.closed_ms,
                     f.step_ms, stoke_idle_name(f.limit), cases[i].ms, stoke_idle_name(cases[i].limit));
        costing_near(f.busy, (20 + (setup.placement ? 2 : 0)) / cases[i].ms, 1e-9);
    }
}

static void test_less_than_a_core_shows_without_workers_too(void **state)
{
    const stoke_setup setup = setup_by("workers=0 sync=yes transfer=pageable");
    costing c;
    (void)state;
    costing_constant(&c, 20, 10, 3, 20);
    c.costs.cores = 0.5;
    const stoke_forecast f = costing_forecast(&c, &setup);
    costing_near(f.step_ms, 40 + 10 + 3 + 20, 1e-9);
    costing_near(f.closed_ms, 40 + 10 + 3 + 20, 1e-9);
}

static void test_names_what_binds(void **state)
{
    static const struct {
        double cpu, io, copy, step, launch, host, restart;
        const char *setup;
        int limit;
    } cases[] = {
        { 10, 90, 0, 20, 0, 0, 0, "workers=1", STOKE_IDLE_FILES },
        { 90, 10, 0, 20, 0, 0, 0, "workers=1", STOKE_IDLE_DECODE },
        { 45, 55, 0, 20, 0, 0, 0, "workers=8", STOKE_IDLE_DECODE }, /* cores: files wait beside them */
        { 1, 0, 30, 20, 0, 0, 0, "workers=1", STOKE_IDLE_COPY },
        { 1, 0, 30, 20, 0, 0, 0, "workers=1 transfer=pageable", STOKE_IDLE_COPY },
        { 1, 0, 3, 20, 0, 40, 0, "workers=1", STOKE_IDLE_HOST },
        { 1, 0, 3, 2, 5, 0, 0, "workers=1", STOKE_IDLE_LAUNCH },
        { 1, 0, 3, 20, 0, 0, 1000, "workers=1 persistent=no", STOKE_IDLE_EPOCH_START },
        { 1, 0, 3, 20, 0, 0, 1000, "workers=1", -1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        costing c;
        costing_constant(&c, cases[i].cpu, cases[i].io, cases[i].copy, cases[i].step);
        c.costs.launch_ms = cases[i].launch;
        c.costs.host_ms = cases[i].host;
        c.costs.restart_ms = cases[i].restart;
        c.costs.steps_per_epoch = 10;
        const stoke_setup setup = setup_by(cases[i].setup);
        const stoke_forecast f = costing_forecast(&c, &setup);
        if (f.limit != cases[i].limit) fail_msg("case %zu: %s binds", i, stoke_idle_name(f.limit));
    }
}

/* ---- the replay ---- */

static stoke_setup random_setup(uint64_t *seed)
{
    stoke_setup setup = stoke_setup_defaults();
    setup.workers = (uint32_t)(costing_random(seed) * 7);
    setup.prefetch = 1 + (uint32_t)(costing_random(seed) * 8);
    setup.depth = (uint32_t)(costing_random(seed) * 4);
    setup.placement = costing_random(seed) < 0.5;
    setup.transfer = (int)(costing_random(seed) * 3);
    setup.sync = costing_random(seed) < 0.5;
    setup.by_batch = costing_random(seed) < 0.5;
    setup.persistent = costing_random(seed) < 0.5;
    return setup;
}

static void random_costs(costing *c, uint64_t *seed)
{
    double x[9];
    for (int i = 0; i < 9; i++) x[i] = costing_random(seed);
    costing_constant(c, 60 * x[0], 40 * x[1], 15 * x[2], 1 + 20 * x[3]);
    costing_device(c, 30 * x[0] + 0.1, 40 * x[1], 10 * x[4] + 0.1, 20 * x[2]);
    c->costs.cores = 0.5 + 6 * x[5];
    c->costs.launch_ms = x[6] * x[6];
    c->costs.host_ms = 10 * x[7] * x[7];
    c->costs.restart_ms = 200 * x[8];
    c->costs.steps_per_epoch = 20;
}

static void test_replay_of_constants_is_the_closed_form(void **state)
{
    (void)state;
    for (uint64_t k = 1; k <= (UNIT_SANITIZED ? 150 : 800); k++) {
        uint64_t seed = k * 0x9E3779B97F4A7C15u;
        costing c;
        random_costs(&c, &seed);
        const stoke_setup setup = random_setup(&seed);
        if (k % 2) c.costs.steps_per_epoch = 1000; /* too long to be replayed */
        const stoke_forecast f = costing_forecast(&c, &setup);
        const int starts = setup.workers && !setup.persistent && c.costs.steps_per_epoch == 20;
        /* Short epochs are replayed: nothing is ahead at their start, which the closed form does not know.
         * Workers who share cores need not come round in the same order: the end of the replay shows a
         * little. */
        const double alike = starts                                            ? (setup.by_batch ? 0.3 : 0.15)
                             : setup.by_batch && setup.workers > c.costs.cores ? 0.02
                                                                               : 1e-6;
        if (fabs(f.step_ms - f.closed_ms) > alike * f.closed_ms) {
            char text[200];
            stoke_setup_text(&setup, text, sizeof text);
            fail_msg("seed %llu, %s, depth %u, %s: replay %.9g, closed form %.9g", (unsigned long long)k,
                     text, setup.depth, setup.by_batch ? "by batch" : "by rows", f.step_ms, f.closed_ms);
        }
        assert_true(f.low_ms <= f.step_ms && f.step_ms <= f.high_ms);
        assert_true(f.busy > 0 && f.busy <= 1 + 1e-9);
    }
}

static void test_cores_may_be_parts(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 6; workers++)
        for (int tenths = 3; tenths <= 45; tenths += 7)
            for (int by_batch = 0; by_batch < 2; by_batch++) {
                costing c;
                costing_constant(&c, 60, 20, 0, 5);
                c.costs.cores = tenths / 10.0;
                stoke_setup setup = setup_by("prefetch=8");
                setup.workers = (uint32_t)workers;
                setup.by_batch = by_batch;
                const stoke_forecast f = costing_forecast(&c, &setup);
                costing_near(f.step_ms, f.closed_ms, 0.01 * f.closed_ms);
            }
}

/* Batches that take 2 and 18 ms in turn, a copy of 1, a step of 10, one made ahead: by hand, every other step
 * ends 29 ms after the last but one, since the loop sees only after its step that a copy has ended, and the
 * worker needs that slot for the long one: 31 + 18 + 1 + 10 = 60, and then 89. */
static void test_slots_come_back_when_the_loop_comes_back(void **state)
{
    enum { BATCHES = 64 };
    static stk_forecast_moments moments[BATCHES];
    stk_forecast_batch_cost batch[2] = { { 2, 0, 0 }, { 18, 0, 0 } };
    uint32_t in_turn[2] = { 0, 1 };
    const double step = 10;
    const stk_forecast_model model = { .setup = setup_by("workers=1 prefetch=1 transfer=pinned sync=yes"),
                                       .copy = 1,
                                       .cores = 1,
                                       .batch = batch,
                                       .n_batches = 2,
                                       .step = &step,
                                       .n_steps = 1,
                                       .mean = { 10, 0, 0 },
                                       .mean_step = 10 };
    const stk_forecast_draw draw = { in_turn, in_turn, 2, 1 };
    double busy;
    (void)state;
    costing_near(stk_replay(&model, &draw, (stk_forecast_replay_size){ 10, 40 }, moments, &busy), 14.5, 1e-9);
    costing_near(moments[3].ended, 60, 1e-9);
    costing_near(moments[5].ended, 89, 1e-9);
    costing_near(busy, 10 / 14.5, 1e-9);
}

static void test_what_varies_costs_more_than_its_mean(void **state)
{
    costing c;
    (void)state;
    costing_constant(&c, 20, 0, 0, 20);
    costing_vary(&c, 100, 20, 0, 7);
    const stoke_setup near = setup_by("workers=1 prefetch=1 depth=1"),
                      far = setup_by("workers=1 prefetch=16 depth=1");
    const stoke_forecast a = costing_forecast(&c, &near), b = costing_forecast(&c, &far);
    assert_true(a.step_ms > a.closed_ms * 1.005); /* what is late is not made up for by what is early */
    assert_true(b.step_ms < a.step_ms);           /* unless more is made ahead */
    assert_true(b.step_ms >= b.closed_ms * 0.97);
}

static void test_nothing_gets_slower_by_getting_better(void **state)
{
    (void)state;
    for (uint64_t k = 1; k <= (UNIT_SANITIZED ? 8 : 40); k++) {
        uint64_t seed = k * 0x9E3779B97F4A7C15u;
        costing c;
        random_costs(&c, &seed);
        costing_vary(&c, 40, 30, 20, k);
        stoke_setup setup = random_setup(&seed);
        setup.placement = STOKE_PLACEMENT_HOST;
        /* A replay has an end: what is still made ahead then moves its mean by up to 0.1 %. */
        const double now = costing_forecast(&c, &setup).step_ms * 1.003;
        costing better = c;
        better.costs.side[0].records = better.side[0];
        better.costs.step_ms = better.step;
        better.costs.cores *= 1.5;
        assert_true(costing_forecast(&better, &setup).step_ms <= now);
        better.costs.side[0].pageable_ms /= 2;
        better.costs.side[0].pinned_ms /= 2;
        assert_true(costing_forecast(&better, &setup).step_ms <= now);
        better.step[0] /= 2;
        assert_true(costing_forecast(&better, &setup).step_ms <= now);
        stoke_setup more = setup;
        more.prefetch++;
        more.depth++;
        assert_true(costing_forecast(&c, &more).step_ms <= now);
        more.sync = 0;
        assert_true(costing_forecast(&c, &more).step_ms <= now);
        more.persistent = 1;
        assert_true(costing_forecast(&c, &more).step_ms <= now);
        more = setup;
        if (more.workers && !more.by_batch) more.workers++;
        assert_true(costing_forecast(&c, &more).step_ms <= now);
    }
}

/* ---- the interval ---- */

static void test_draws_are_those_of_the_seed(void **state)
{
    const stoke_setup setup = setup_by("workers=1");
    stoke_forecast a, b, other;
    costing c;
    (void)state;
    costing_constant(&c, 20, 0, 0, 15);
    costing_vary(&c, 100, 20, 0, 7);
    assert_int_equal(stoke_forecast_make(&c.costs, &setup, 5, &a, NULL), 0);
    assert_int_equal(stoke_forecast_make(&c.costs, &setup, 5, &b, NULL), 0);
    assert_int_equal(stoke_forecast_make(&c.costs, &setup, 6, &other, NULL), 0);
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(a.low_ms != other.low_ms || a.high_ms != other.high_ms);
    costing_near(a.step_ms, other.step_ms, 0.5);
}

static void test_interval_knows_how_little_was_measured(void **state)
{
    const stoke_setup setup = setup_by("workers=1");
    costing c;
    (void)state;
    costing_constant(&c, 20, 0, 0, 5);
    stoke_forecast f = costing_forecast(&c, &setup);
    assert_true(f.low_ms == f.high_ms && f.low_ms == f.step_ms); /* nothing varies */
    costing_vary(&c, 240, 20, 0, 7);
    f = costing_forecast(&c, &setup);
    assert_true(f.low_ms < f.step_ms && f.step_ms < f.high_ms);
    /* The mean of 240 uniform values of 10 to 30 ms: 90 % within 1.645 x 5.77 / sqrt(240) = 0.61 ms. */
    costing_near(f.high_ms - f.low_ms, 1.22, 0.6);
    costing_near(f.step_ms, f.closed_ms, 0.3);
    const double wide = f.high_ms - f.low_ms;
    c.costs.side[0].n = 24;
    f = costing_forecast(&c, &setup);
    assert_true(f.high_ms - f.low_ms > 2 * wide);
    assert_true(f.busy_low < f.busy && f.busy < f.busy_high);
}

static void test_steps_may_vary_too(void **state)
{
    const stoke_setup setup = setup_by("workers=1");
    costing c;
    (void)state;
    costing_constant(&c, 5, 0, 0, 0);
    for (int i = 0; i < 3; i++) c.step[i] = 10 + 10 * i;
    c.costs.n_steps = 3;
    const stoke_forecast f = costing_forecast(&c, &setup);
    costing_near(f.closed_ms, 20, 1e-9);
    assert_true(f.low_ms >= 10 && f.high_ms <= 30 && f.low_ms < f.high_ms);
    costing_near(f.busy, 1, 1e-9);
}

static void test_scales_to_another_batch(void **state)
{
    costing c;
    (void)state;
    costing_constant(&c, 30, 10, 3, 2);
    const stoke_setup twice = setup_by("batch=16 workers=1"),
                      copies = setup_by("batch=16 workers=8 prefetch=8");
    costing_near(costing_forecast(&c, &twice).step_ms, 80, 1e-9);
    c.costs.cores = 100;
    costing_near(costing_forecast(&c, &copies).step_ms, 10, 1e-9);
    costing_device(&c, 1, 0, 5, 3);
    const stoke_setup device = setup_by("batch=16 workers=1 placement=device");
    costing_near(costing_forecast(&c, &device).step_ms, 16, 1e-9); /* copy 6 and kernels 10 share a stream */
}

/* ---- what cannot be answered ---- */

static void refused(const stoke_costs *costs, const stoke_setup *setup, int code, const char *word)
{
    stoke_forecast f;
    stoke_error err = { 0 };
    assert_int_equal(stoke_forecast_make(costs, setup, 1, &f, &err), code);
    if (!strstr(err.message, word)) fail_msg("\"%s\" lacks \"%s\"", err.message, word);
}

static void test_refuses_what_is_not_known(void **state)
{
    const stoke_setup setup = setup_by("workers=1"), device = setup_by("placement=device");
    const stoke_setup pageable = setup_by("transfer=pageable"), restarted = setup_by("persistent=no");
    costing c;
    (void)state;
    costing_constant(&c, 20, 0, 3, 20);
    refused(&c.costs, &device, STOKE_E_NOTFOUND, "device was not measured");
    c.costs.side[0].pageable_ms = NAN;
    refused(&c.costs, &pageable, STOKE_E_NOTFOUND, "pageable");
    c.costs.side[0].pinned_ms = -1;
    refused(&c.costs, &setup, STOKE_E_NOTFOUND, "pinned");
    costing_constant(&c, 20, 0, 3, 20);
    c.costs.restart_ms = NAN;
    c.costs.steps_per_epoch = 100;
    costing_near(costing_forecast(&c, &setup).step_ms, 20, 1e-9); /* does not need it */
    refused(&c.costs, &restarted, STOKE_E_NOTFOUND, "starting workers");
    costing_constant(&c, 0, 0, 3, 20);
    refused(&c.costs, &setup, STOKE_E_NOTFOUND, "making");
    costing_device(&c, 20, 0, 0, 3);
    refused(&c.costs, &device, STOKE_E_NOTFOUND, "kernels");
}

static void test_refuses_costs_that_make_no_sense(void **state)
{
    static const double absurd[] = { -1, NAN, INFINITY };
    stoke_setup setup = setup_by("workers=1");
    costing c;
    (void)state;
    for (int i = 0; i < 3; i++) {
        costing_constant(&c, 20, 0, 3, absurd[i]);
        refused(&c.costs, &setup, STOKE_E_INVALID, "step_ms");
        costing_constant(&c, 20, 0, 3, 20);
        c.costs.cores = absurd[i];
        refused(&c.costs, &setup, STOKE_E_INVALID, "cores");
        c.costs.cores = 2;
        c.costs.host_ms = absurd[i];
        refused(&c.costs, &setup, STOKE_E_INVALID, "host_ms");
    }
    costing_constant(&c, 20, 0, 3, 0);
    refused(&c.costs, &setup, STOKE_E_INVALID, "step_ms");
    c.costs.struct_size = 1;
    refused(&c.costs, &setup, STOKE_E_INVALID, "stoke_costs_defaults");
    costing_constant(&c, 20, 0, 3, 20);
    c.costs.measured.batch = 0;
    refused(&c.costs, &setup, STOKE_E_INVALID, "batch");
    c.costs.measured.batch = 8;
    setup.placement = STOKE_PLACEMENT_AUTO;
    refused(&c.costs, &setup, STOKE_E_INVALID, "placement");
    setup.placement = 0;
    setup.struct_size = 0;
    refused(&c.costs, &setup, STOKE_E_INVALID, "stoke_setup_defaults");
}

static void test_takes_any_numbers(void **state)
{
    stoke_setup setup = setup_by("workers=1");
    stoke_forecast f;
    costing c;
    (void)state;
    costing_constant(&c, 20, 0, 3, 20);
    memset(&c.side[0][0].making, 0xff, sizeof c.side[0][0].making);
    setup.workers = setup.prefetch = setup.depth = UINT32_MAX;
    for (int by_batch = 0; by_batch < 2; by_batch++) {
        setup.by_batch = by_batch;
        assert_int_equal(stoke_forecast_make(&c.costs, &setup, UINT64_MAX, &f, NULL), 0);
        assert_true(isfinite(f.step_ms) && isfinite(f.closed_ms) && isfinite(f.busy));
    }
    setup.workers = setup.prefetch = setup.depth = 0;
    assert_int_equal(stoke_forecast_make(&c.costs, &setup, 0, &f, NULL), 0);
    assert_true(isfinite(f.step_ms) && isfinite(f.closed_ms));
}

static void test_survives_want_of_memory(void **state)
{
    const stoke_setup setup = setup_by("workers=1");
    stoke_forecast f;
    costing c;
    int r = STOKE_E_NOMEM;
    (void)state;
    costing_constant(&c, 20, 0, 3, 20);
    for (int64_t i = 0; r; i++) {
        assert_true(i < 10);
        stk_mem_fail_after(i);
        r = stoke_forecast_make(&c.costs, &setup, 1, &f, NULL);
        stk_mem_fail_after(-1);
        assert_true(r == STOKE_OK || r == STOKE_E_NOMEM);
    }
}

UNIT_GROUP(forecast)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches_runs_on_two_cores),
        cmocka_unit_test(test_answers_the_documents),
        cmocka_unit_test(test_formulas_by_hand),
        cmocka_unit_test(test_less_than_a_core_shows_without_workers_too),
        cmocka_unit_test(test_names_what_binds),
        cmocka_unit_test(test_replay_of_constants_is_the_closed_form),
        cmocka_unit_test(test_cores_may_be_parts),
        cmocka_unit_test(test_slots_come_back_when_the_loop_comes_back),
        cmocka_unit_test(test_what_varies_costs_more_than_its_mean),
        cmocka_unit_test(test_nothing_gets_slower_by_getting_better),
        cmocka_unit_test(test_draws_are_those_of_the_seed),
        cmocka_unit_test(test_interval_knows_how_little_was_measured),
        cmocka_unit_test(test_steps_may_vary_too),
        cmocka_unit_test(test_scales_to_another_batch),
        cmocka_unit_test(test_refuses_what_is_not_known),
        cmocka_unit_test(test_refuses_costs_that_make_no_sense),
        cmocka_unit_test(test_takes_any_numbers),
        cmocka_unit_test(test_survives_want_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
