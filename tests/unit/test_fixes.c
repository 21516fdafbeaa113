/* SPDX-License-Identifier: Apache-2.0
 *
 * Setups as text, and what each fix of a setup gives: alone, in order, together.
 */
#include <math.h>
#include <stoke/tools/diagnose.h>

#include "src/base/mem.h"
#include "src/tune/diagnose/diagnose.h"
#include "fixture_cost.h"

/* ---- setups ---- */

static void expect_text(const char *change, const char *text)
{
    stoke_setup setup = stoke_setup_defaults();
    char got[200];
    assert_int_equal(stoke_setup_change(&setup, change, NULL), STOKE_OK);
    assert_int_equal(stoke_setup_text(&setup, got, sizeof got), (int)strlen(text));
    assert_string_equal(got, text);
}

static void test_setups_are_sentences(void **state)
{
    stoke_setup setup = stoke_setup_defaults();
    char small[8];
    (void)state;
    expect_text("workers=2 prefetch=4 transfer=pageable sync=yes",
                "2 workers, 4 ahead, augmenting on the host, pageable copies, waits for every step");
    expect_text(
        "workers=1, placement=device, persistent=no",
        "1 worker started again every epoch, 2 ahead, augmenting on the device, copies on a stream of "
        "their own");
    expect_text(" workers=0\ttransfer=pinned\n", "no workers, augmenting on the host, pinned copies");
    assert_true(stoke_setup_text(&setup, small, sizeof small) > 8);
    assert_int_equal(strlen(small), 7);
    setup.transfer = 99; /* somebody else's */
    assert_true(stoke_setup_text(&setup, NULL, 0) > 0);
}

static void test_changes_all_it_names(void **state)
{
    stoke_setup setup = stoke_setup_defaults();
    (void)state;
    assert_int_equal(stoke_setup_change(&setup,
                                        "batch=32 workers=3 prefetch=6 depth=4 placement=device "
                                        "transfer=pageable persistent=no sync=yes by_batch=yes",
                                        NULL),
                     STOKE_OK);
    const stoke_setup expected = { sizeof expected, 32, 3, 6, 4, 1, 2, 0, 1, 1 };
    assert_memory_equal(&setup, &expected, sizeof setup);
    assert_int_equal(stoke_setup_change(&setup, "", NULL), STOKE_OK);
    assert_memory_equal(&setup, &expected, sizeof setup);
}

static void test_refuses_changes_with_the_word(void **state)
{
    static const char *const bad[][3] = {
        { "workers", "\"workers\"", "name=value" },
        { "workers=", "\"workers=\"", "name=value" },
        { "=3", "\"=3\"", "name=value" },
        { "workers=2x", "workers=2x", "0 to 1024" },
        { "workers=-1", "workers=-1", "0 to 1024" },
        { "workers=99999999999999999999", "workers=9999", "0 to 1024" },
        { "prefetch=0", "prefetch=0", "1 to 16384" },
        { "depth=65", "depth=65", "1 to 64" },
        { "batch=1.5", "batch=1.5", "whole number" },
        { "sync=maybe", "sync=maybe", "no|yes" },
        { "transfer=pin", "transfer=pin", "stream|pinned|pageable" },
        { "placement=auto", "placement=auto", "host|device" },
        { "worker=2", "\"worker\"", "did you mean workers" },
        { "struct_size=2", "struct_size", "it has batch" },
        { "workers=2 bogus", "\"bogus\"", "name=value" },
        { "sync=\x1b[31myes", "sync=\\x1b[31myes", "no|yes" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stoke_setup setup = stoke_setup_defaults();
        const stoke_setup before = setup;
        stoke_error err = { 0 };
        assert_int_equal(stoke_setup_change(&setup, bad[i][0], &err), STOKE_E_INVALID);
        if (!strstr(err.message, bad[i][1]) || !strstr(err.message, bad[i][2]))
            fail_msg("\"%s\": %s", bad[i][0], err.message);
        assert_memory_equal(&setup, &before, sizeof setup); /* whole or not at all */
    }
}

static void test_hostile_changes_are_bounded(void **state)
{
    stoke_setup setup = stoke_setup_defaults();
    char *text = test_malloc(1 << 16);
    uint64_t seed = 88172645463325252u;
    stoke_error err = { 0 };
    (void)state;
    memset(text, 'w', 1 << 16);
    text[(1 << 16) - 1] = 0;
    assert_int_equal(stoke_setup_change(&setup, text, &err), STOKE_E_INVALID);
    assert_true(strlen(err.message) < 200);
    static const char letters[] = "workersyncdepth=2=0 ,\n\xff\x80-";
    for (int i = 0; i < 2000; i++) {
        const size_t n = (size_t)(costing_random(&seed) * 60);
        for (size_t k = 0; k < n; k++)
            text[k] = letters[(size_t)(costing_random(&seed) * (sizeof letters - 1))];
        text[n] = 0;
        stoke_setup_change(&setup, text, &err);
        assert_true(setup.depth >= 1 && setup.depth <= 64 && setup.workers <= 1024);
    }
    test_free(text);
}

/* ---- fixes ---- */

static stoke_fixes find(costing *c, const char *measured, uint32_t usable)
{
    stoke_fixes fixes;
    stoke_error err = { 0 };
    if (stoke_setup_change(&c->costs.measured, measured, &err)) fail_msg("%s", err.message);
    if (stoke_fixes_find(&fixes, &c->costs, usable, 1, &err)) fail_msg("%s", err.message);
    double sum = 0;
    int order = 0, seen[STOKE_CAUSES + 1] = { 0 };
    for (int i = 0; i < STOKE_CAUSES; i++) {
        const stoke_fix *fix = &fixes.fix[i];
        assert_int_equal(fix->cause, i);
        assert_true(fix->what[0] && fix->setting);
        if (fix->order) {
            assert_true(fix->applies && fix->order <= STOKE_CAUSES && !seen[fix->order]++);
            if (fix->order > order) order = fix->order;
            /* A step back is taken for the sake of another fix only, and says so. */
            if (fix->marginal_ms < -0.05 && !strstr(fix->what, " ms slower by itself, "))
                fail_msg("%s is proposed and costs %.2f ms", fix->what, -fix->marginal_ms);
        } else {
            assert_true(fix->marginal_ms == 0);
        }
        sum += fix->marginal_ms;
        if (!fix->applies) {
            assert_true(fix->gain_ms == 0 && !fix->change[0]);
            continue;
        }
        assert_true(fix->gain_low <= fix->gain_ms && fix->gain_ms <= fix->gain_high);
        costing_near(fix->gain_ms, fixes.now.step_ms - fix->alone.step_ms, 1e-6);
        assert_true(fix->gain_ms == 0 || fabs(fix->gain_ms) >= 1e-6);
        stoke_setup setup = c->costs.measured; /* what is said is what was forecast */
        assert_int_equal(stoke_setup_change(&setup, fix->change, NULL), STOKE_OK);
        assert_memory_equal(&setup, &fix->setup, sizeof setup);
    }
    for (int i = 1; i <= order; i++) assert_true(seen[i]);
    costing_near(sum, fixes.gain_all_ms, 1e-9);
    costing_near(fixes.now.step_ms - fixes.together.step_ms, fixes.gain_all_ms, 1e-9);
    return fixes;
}

/* A usual starved loop: 8 images of 22 ms, augmented on the CPU, no workers, pageable copies, loss.item(). */
static void story(costing *c)
{
    costing_constant(c, 176, 0, 6, 50);
    costing_device(c, 60, 0, 3, 2);
    c->costs.side[0].pinned_ms = 3;
    c->costs.side[1].pageable_ms = 4;
    c->costs.cores = 3.5;
    c->costs.host_ms = 5;
    c->costs.restart_ms = 1000;
    c->costs.steps_per_epoch = 100;
}

static void test_finds_the_way_out_of_the_story(void **state)
{
    costing c;
    (void)state;
    story(&c);
    const stoke_fixes f = find(&c, "workers=0 transfer=pageable sync=yes persistent=no", 4);
    costing_near(f.now.step_ms, 176 + 6 + 50 + 5, 1e-9);
    costing_near(f.now.busy, 50.0 / 237, 1e-9);
    assert_true(f.together.busy > 0.95);
    assert_int_equal(f.all.sync, 0);
    assert_int_equal(f.all.transfer, STOKE_TRANSFER_STREAM);
    assert_true(f.all.workers >= 2);
    /* By hand. Workers: the chain 6 + 50 + 5 is left, and once in 100 steps their start, which is 1000 less
     * the batch that the loop made and its copy, then a batch by three, and the chain; device: 60 + 4 + 3 +
     * 50 + 5. */
    const stoke_fix *workers = &f.fix[STOKE_CAUSE_FEW_WORKERS], *augment = &f.fix[STOKE_CAUSE_CPU_AUGMENT];
    costing_near(workers->gain_ms, 237 - (61 + (1000 - 176 - 6 + 176.0 / 3) / 100), 1e-9);
    assert_string_equal(workers->change, "workers=3"); /* 176 / 3 = 58.7 */
    costing_near(augment->gain_ms, 237 - 122, 1e-9);
    costing_near(f.fix[STOKE_CAUSE_NO_PINNING].gain_ms, 3, 1e-9);
    costing_near(f.fix[STOKE_CAUSE_SYNC_LOOP].gain_ms, 237 - (176 + 5 + 6), 1e-9);
    /* The thread that copies makes the batches then: 176 + 3. */
    costing_near(f.fix[STOKE_CAUSE_SYNC_COPIES].gain_ms, 237 - 179, 1e-9);
    assert_int_equal(workers->order, 1);
    /* There is nothing to restart now, but there is when there are workers. */
    assert_true(f.fix[STOKE_CAUSE_RESTARTED_WORKERS].order > 1);
    costing_near(f.fix[STOKE_CAUSE_RESTARTED_WORKERS].gain_ms, 0, 1e-9);
    costing_near(f.fix[STOKE_CAUSE_RESTARTED_WORKERS].marginal_ms, (818 + 176.0 / 3) / 100, 1e-9);
    /* Causes combine by max: the gains alone are far more than there is. */
    double alone = 0;
    for (int i = 0; i < STOKE_CAUSES; i++) alone += f.fix[i].gain_ms;
    assert_true(alone > 2 * f.gain_all_ms);
}

static void test_workers_matter_after_the_loop_stops_waiting(void **state)
{
    costing c;
    (void)state;
    /* Making takes 25, the loop 20 + 10: workers are not what binds, until it stops waiting. */
    costing_constant(&c, 25, 0, 0, 20);
    c.costs.host_ms = 10;
    const stoke_fixes f = find(&c, "workers=1 sync=yes", 2);
    costing_near(f.fix[STOKE_CAUSE_SYNC_LOOP].gain_ms, 5, 1e-9);
    assert_int_equal(f.fix[STOKE_CAUSE_SYNC_LOOP].order, 1);
    assert_int_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].order, 2);
    costing_near(f.fix[STOKE_CAUSE_FEW_WORKERS].gain_ms, 0, 1e-9);
    costing_near(f.fix[STOKE_CAUSE_FEW_WORKERS].marginal_ms, 5, 1e-9);
    assert_int_equal(f.all.workers, 2);
    costing_near(f.together.busy, 1, 1e-9);
}

static void test_looks_two_fixes_ahead(void **state)
{
    costing c;
    (void)state;
    costing_constant(&c, 30, 0, 0, 20); /* both chains take 30: none of the fixes helps alone */
    c.costs.host_ms = 10;
    const stoke_fixes f = find(&c, "workers=1 sync=yes", 2);
    costing_near(f.fix[STOKE_CAUSE_SYNC_LOOP].gain_ms, 0, 1e-9);
    costing_near(f.fix[STOKE_CAUSE_FEW_WORKERS].gain_ms, 0, 1e-9);
    assert_true(f.fix[STOKE_CAUSE_SYNC_LOOP].order && f.fix[STOKE_CAUSE_FEW_WORKERS].order);
    costing_near(f.gain_all_ms, 10, 1e-9);
}

/* Making takes 50, and so do copy and step. On the device the copy is short and making takes 55: worse by 5,
 * until a second worker halves it. */
static void test_a_step_back_says_why(void **state)
{
    static const char *const not_here[STOKE_CAUSES] = { [STOKE_CAUSE_SYNC_COPIES] = "there is one stream" };
    stoke_fixes f;
    costing c;
    (void)state;
    costing_constant(&c, 50, 0, 30, 20);
    c.costs.side[0].pinned_ms = 28;
    costing_device(&c, 55, 0, 5, 2);
    assert_int_equal(stoke_setup_change(&c.costs.measured, "workers=1 transfer=pageable", NULL), STOKE_OK);
    assert_int_equal(stk_fixes_find(&f, &c.costs, 2, 1, not_here, NULL), STOKE_OK);
    const stoke_fix *augment = &f.fix[STOKE_CAUSE_CPU_AUGMENT];
    assert_int_equal(augment->order, 1);
    costing_near(augment->marginal_ms, -5, 1e-9);
    assert_string_equal(augment->what,
                        "augmenting on the host -> on the device; 5.0 ms slower by itself, 22.5 ms faster "
                        "with workers 1 -> 2");
    assert_int_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].order, 2);
    costing_near(f.gain_all_ms, 22.5, 1e-9);
}

static void test_takes_no_more_workers_than_help(void **state)
{
    costing c;
    (void)state;
    costing_constant(&c, 60, 0, 0, 20);
    stoke_fixes f = find(&c, "workers=1", 2); /* 2 cores: 30 at best, and no more of them help */
    assert_string_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].change, "workers=2");
    costing_near(f.together.step_ms, 30, 1e-9);
    c.costs.cores = 32;
    f = find(&c, "workers=1", 32); /* 3 give 20, and so do 32 */
    assert_string_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].change, "workers=3");
    assert_string_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].what, "workers 1 -> 3");
    costing_constant(&c, 101, 0, 0, 20); /* 5 give 20.2: the sixth would cost a core for 1 % */
    c.costs.cores = 32;
    f = find(&c, "workers=1", 32);
    assert_string_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].change, "workers=5");
    f = find(&c, "workers=6", 32);
    assert_int_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].applies, 0);
    f = find(&c, "workers=64", 32);
    assert_int_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].applies, 0);
    costing_constant(&c, 20, 60, 0, 20); /* they wait for files: more than cores do help */
    f = find(&c, "workers=2", 2);
    assert_string_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].change, "workers=4");
    costing_near(f.together.busy, 1, 1e-9);
}

static void test_keeps_what_a_worker_of_pytorch_makes_ahead(void **state)
{
    costing c;
    (void)state;
    costing_constant(&c, 80, 0, 0, 20);
    c.costs.cores = 8;
    stoke_fixes f = find(&c, "workers=1 prefetch=3 by_batch=yes", 8);
    assert_string_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].change, "workers=4 prefetch=12");
    f = find(&c, "workers=0 prefetch=1 by_batch=yes transfer=pageable", 8);
    assert_string_equal(f.fix[STOKE_CAUSE_FEW_WORKERS].change, "workers=4 prefetch=8");
    f = find(&c, "workers=4 prefetch=2 by_batch=yes transfer=stream", 8); /* two places for four workers */
    assert_string_equal(f.fix[STOKE_CAUSE_SHORT_PREFETCH].change, "prefetch=4");
    costing_near(f.fix[STOKE_CAUSE_SHORT_PREFETCH].gain_ms, 20, 1e-9);
}

static void test_making_ahead_helps_what_varies(void **state)
{
    costing c;
    (void)state;
    costing_constant(&c, 20, 0, 0, 20);
    stoke_fixes f = find(&c, "workers=1 prefetch=1 depth=1", 1);
    const stoke_fix *fix = &f.fix[STOKE_CAUSE_SHORT_PREFETCH];
    assert_true(fix->applies && !fix->order); /* nothing varies: it gives nothing, and says so */
    costing_near(fix->gain_ms, 0, 1e-9);
    costing_vary(&c, 100, 19, 0, 3);
    c.costs.measured.transfer = STOKE_TRANSFER_PINNED;
    f = find(&c, "workers=1 prefetch=1", 1);
    assert_true(fix->applies && fix->gain_ms > 0 && fix->setup.prefetch <= 4);
    f = find(&c, "prefetch=9", 1);
    assert_int_equal(fix->applies, 0);
    f = find(&c, "workers=0", 1);
    assert_int_equal(fix->applies, 0);
}

static void test_leaves_out_what_cannot_be_made(void **state)
{
    static const char *const not_here[STOKE_CAUSES] = { [STOKE_CAUSE_SYNC_LOOP] = "it is inherent" };
    stoke_fixes f;
    costing c;
    (void)state;
    story(&c);
    c.costs.side[1].n = 0;
    f = find(&c, "workers=0 transfer=pageable sync=yes", 4);
    assert_int_equal(f.fix[STOKE_CAUSE_CPU_AUGMENT].applies, 0);
    assert_string_equal(f.fix[STOKE_CAUSE_CPU_AUGMENT].what, "augmenting on the device was not measured");
    assert_int_equal(f.all.placement, STOKE_PLACEMENT_HOST);
    assert_int_equal(f.all.sync, 0);
    costing_device(&c, 60, 0, 3, 2);
    c.costs.side[1].pageable_ms = NAN; /* the sequence would come to copies that are known: still left out */
    f = find(&c, "", 4);
    assert_int_equal(f.fix[STOKE_CAUSE_CPU_AUGMENT].applies, 0);
    assert_int_equal(f.all.placement, STOKE_PLACEMENT_HOST);
    c.costs.side[0].pinned_ms = NAN;
    f = find(&c, "", 4);
    assert_int_equal(f.fix[STOKE_CAUSE_NO_PINNING].applies, 0);
    assert_int_equal(f.fix[STOKE_CAUSE_SYNC_COPIES].applies, 0);
    assert_int_equal(f.all.transfer, STOKE_TRANSFER_PAGEABLE);
    assert_int_equal(stk_fixes_find(&f, &c.costs, 4, 1, not_here, NULL), STOKE_OK);
    assert_int_equal(f.fix[STOKE_CAUSE_SYNC_LOOP].applies, 0);
    assert_string_equal(f.fix[STOKE_CAUSE_SYNC_LOOP].what, "it is inherent");
    assert_int_equal(f.all.sync, 1);
}

/* A loop on the processor waits for every step by being it, and copies nothing. */
static void test_a_processor_has_fewer_fixes(void **state)
{
    costing c;
    (void)state;
    story(&c);
    c.costs.processor = 1;
    const stoke_fixes f = find(&c, "workers=1 transfer=pinned sync=yes", 4);
    for (int i = 0; i < STOKE_CAUSES; i++) {
        const int here = i == STOKE_CAUSE_FEW_WORKERS || i == STOKE_CAUSE_RESTARTED_WORKERS ||
                         i == STOKE_CAUSE_SHORT_PREFETCH;
        if (here) continue;
        assert_false(f.fix[i].applies);
        assert_non_null(strstr(f.fix[i].what, "the processor is the device"));
    }
    assert_int_equal(f.all.sync, 1);
    assert_int_equal(f.all.transfer, STOKE_TRANSFER_PINNED);
}

static void test_nothing_to_mend(void **state)
{
    costing c;
    (void)state;
    costing_constant(&c, 10, 0, 2, 20);
    const stoke_fixes f = find(&c, "workers=1 prefetch=8", 2);
    for (int i = 0; i < STOKE_CAUSES; i++) assert_false(f.fix[i].order);
    assert_true(f.gain_all_ms == 0);
    assert_memory_equal(&f.all, &c.costs.measured, sizeof f.all);
}

static void test_a_bad_trade_is_shown_and_not_made(void **state)
{
    costing c;
    (void)state;
    costing_constant(&c, 10, 0, 2, 20);
    costing_device(&c, 5, 0, 8, 2); /* the device is what binds: augmenting there takes 8 more */
    const stoke_fixes f = find(&c, "workers=1", 2);
    assert_true(f.fix[STOKE_CAUSE_CPU_AUGMENT].applies && !f.fix[STOKE_CAUSE_CPU_AUGMENT].order);
    costing_near(f.fix[STOKE_CAUSE_CPU_AUGMENT].gain_ms, -8, 1e-9);
}

/* What both setups share does not blur their difference. */
static void test_gains_are_compared_draw_by_draw(void **state)
{
    costing c;
    (void)state;
    costing_constant(&c, 30, 0, 4, 20);
    costing_vary(&c, 24, 40, 0, 5);
    c.costs.host_ms = 3;
    const stoke_fixes f = find(&c, "workers=0 transfer=pageable sync=yes", 1);
    const stoke_fix *fix = &f.fix[STOKE_CAUSE_SYNC_LOOP];
    assert_true(f.now.high_ms - f.now.low_ms > 3); /* the steps themselves are not well known */
    assert_true(fix->gain_low > 15); /* the gain is: the step of 20, less where making was short */
    assert_true(fix->gain_high - fix->gain_low < 1.5);
}

static void test_survives_want_of_memory(void **state)
{
    stoke_fixes f;
    costing c;
    (void)state;
    story(&c);
    assert_int_equal(stoke_setup_change(&c.costs.measured, "workers=1 sync=yes", NULL), STOKE_OK);
    for (int64_t i = 0; i < 60; i += 1 + i / 4) {
        stk_mem_fail_after(i);
        const int r = stoke_fixes_find(&f, &c.costs, 2, 1, NULL);
        stk_mem_fail_after(-1);
        assert_int_equal(r, STOKE_E_NOMEM);
    }
    c.costs.cores = 0;
    assert_int_equal(stoke_fixes_find(&f, &c.costs, 2, 1, NULL), STOKE_E_INVALID);
}

UNIT_GROUP(fixes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setups_are_sentences),
        cmocka_unit_test(test_changes_all_it_names),
        cmocka_unit_test(test_refuses_changes_with_the_word),
        cmocka_unit_test(test_hostile_changes_are_bounded),
        cmocka_unit_test(test_finds_the_way_out_of_the_story),
        cmocka_unit_test(test_workers_matter_after_the_loop_stops_waiting),
        cmocka_unit_test(test_looks_two_fixes_ahead),
        cmocka_unit_test(test_a_step_back_says_why),
        cmocka_unit_test(test_takes_no_more_workers_than_help),
        cmocka_unit_test(test_keeps_what_a_worker_of_pytorch_makes_ahead),
        cmocka_unit_test(test_making_ahead_helps_what_varies),
        cmocka_unit_test(test_leaves_out_what_cannot_be_made),
        cmocka_unit_test(test_a_processor_has_fewer_fixes),
        cmocka_unit_test(test_nothing_to_mend),
        cmocka_unit_test(test_a_bad_trade_is_shown_and_not_made),
        cmocka_unit_test(test_gains_are_compared_draw_by_draw),
        cmocka_unit_test(test_survives_want_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
