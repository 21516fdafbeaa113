/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials: on this processor under a limit of memory, on a simulated GPU, the allocator behind it, and the
 * line that tells of them.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <sys/resource.h>

#include "src/tune/batch/batch.h"
#include "tests/unit/fixture_pairs.h"
#include <stoke/tools/findbatch.h>

#define KB UINT64_C(1024)
#define MB (1024 * KB)

/* ---- the simulated allocator ---- */

static stk_sim_allocator *paper(uint64_t limit)
{
    static stk_sim_allocator p; /* 130 KB */
    stk_sim_allocator_begin(&p, limit);
    return &p;
}

static void sizes_are_rounded_and_taken_from_segments(void **state)
{
    (void)state;
    stk_sim_allocator *p = paper(1000 * MB);
    assert_true(stk_sim_allocator_take(p, 1) >= 0);
    assert_int_equal(p->allocated, 512);
    assert_int_equal(p->reserved, 2 * MB);
    assert_true(stk_sim_allocator_take(p, MB) >= 0); /* the same segment */
    assert_int_equal(p->reserved, 2 * MB);
    assert_true(stk_sim_allocator_take(p, MB) >= 0); /* 512 bytes are missing */
    assert_int_equal(p->reserved, 4 * MB);
    assert_true(stk_sim_allocator_take(p, MB + 1) >= 0);
    assert_int_equal(p->reserved, 24 * MB);
    assert_true(stk_sim_allocator_take(p, 9 * MB) >= 0); /* out of the 20 */
    assert_int_equal(p->reserved, 24 * MB);
    assert_true(stk_sim_allocator_take(p, 10 * MB) >= 0); /* a separate segment */
    assert_int_equal(p->reserved, 34 * MB);
    assert_true(stk_sim_allocator_take(p, 11 * MB + 1) >= 0);
    assert_int_equal(p->reserved, 46 * MB);
    assert_int_equal(p->peak_reserved, p->reserved);
}

static void what_is_given_back_is_kept_and_used_again(void **state)
{
    (void)state;
    stk_sim_allocator *p = paper(1000 * MB);
    const int32_t a = stk_sim_allocator_take(p, 6 * MB), b = stk_sim_allocator_take(p, 6 * MB),
                  c = stk_sim_allocator_take(p, 6 * MB);
    assert_int_equal(p->reserved, 20 * MB);
    stk_sim_allocator_give(p, a);
    stk_sim_allocator_give(p, c);
    stk_sim_allocator_give(p, b); /* the middle one joins them */
    assert_int_equal(p->allocated, 0);
    assert_int_equal(p->reserved, 20 * MB);
    assert_true(stk_sim_allocator_take(p, 20 * MB) >= 0);
    assert_int_equal(p->reserved, 20 * MB);
    assert_int_equal(p->peak_allocated, 20 * MB);
}

static void a_full_card_gives_back_what_nobody_uses(void **state)
{
    (void)state;
    stk_sim_allocator *p = paper(100 * MB);
    const int32_t a = stk_sim_allocator_take(p, 60 * MB);
    const int32_t b = stk_sim_allocator_take(p, 500); /* 62 are reserved */
    assert_true(a >= 0 && b >= 0);
    assert_int_equal(stk_sim_allocator_take(p, 40 * MB), -1); /* 38 are left */
    stk_sim_allocator_give(p, a);
    assert_int_equal(p->reserved, 62 * MB);
    assert_true(stk_sim_allocator_take(p, 80 * MB) >= 0); /* does not fit into the 60: they go */
    assert_int_equal(p->reserved, 82 * MB);
    assert_int_equal(stk_sim_allocator_take(p, UINT64_MAX), -1);
    stk_sim_allocator_give(p, -1);
}

/* Thousands of pieces taken and given in a mixed order: nothing is lost. */
static void pieces_add_up(void **state)
{
    (void)state;
    stk_sim_allocator *p = paper(UINT64_C(1) << 40);
    int32_t held[200];
    uint32_t x = 1;
    for (int i = 0; i < 200; i++) held[i] = -1;
    for (int i = 0; i < 20000; i++) {
        x = x * 1664525u + 1013904223u;
        const size_t k = (x >> 8) % 200;
        if (held[k] >= 0) {
            stk_sim_allocator_give(p, held[k]);
            held[k] = -1;
        } else {
            held[k] = stk_sim_allocator_take(p, (x >> 4) % (x & 1 ? 30 * MB : 900 * KB));
            assert_true(held[k] >= 0);
        }
        uint64_t sum = 0, used = 0;
        if (i % 500) continue;
        for (int32_t b = 0; b < p->n; b++) {
            sum += p->block[b].there ? p->block[b].bytes : 0;
            used += p->block[b].there && p->block[b].used ? p->block[b].bytes : 0;
        }
        assert_int_equal(sum, p->reserved);
        assert_int_equal(used, p->allocated);
    }
}

/* ---- simulated GPUs ---- */

static stoke_trial_params on(const char *device, uint32_t side)
{
    stoke_trial_params p = stoke_trial_defaults();
    p.device = device;
    p.train.model = "b0";
    p.train.precision = STOKE_PRECISION_FP32;
    p.data.size[0] = p.data.size[1] = side;
    p.classes = 5;
    return p;
}

static void a_simulated_gpu_fills_up(void **state)
{
    (void)state;
    stoke_trial_params p = on("sim:rtx3060", 256);
    stoke_trial before = { 0 }, t;
    for (uint32_t batch = 1; batch <= 64; batch *= 2) {
        assert_int_equal(stoke_trial_run(&t, batch, &p, NULL), STOKE_OK);
        assert_int_equal(t.outcome, STOKE_OUTCOME_OK);
        assert_true(t.reserved >= t.allocated && t.reserved > before.reserved && t.step_ms > before.step_ms);
        assert_true(isnan(t.busy));
        before = t;
    }
    p.memory = before.reserved - 1;
    assert_int_equal(stoke_trial_run(&t, 64, &p, NULL), STOKE_OK);
    assert_int_equal(t.outcome, STOKE_OUTCOME_OOM);
    assert_non_null(strstr(t.message, "out of memory"));
    p.memory = 0;
    p.time0 = 3;
    p.time1 = 2;
    assert_int_equal(stoke_trial_run(&t, 10, &p, NULL), STOKE_OK);
    assert_true(t.step_ms == 23);
    p.train.model = "resnet";
    assert_int_equal(stoke_trial_run(&t, 10, &p, NULL), STOKE_OK);
    p.train.model = "b5";
    p.time0 = p.time1 = 0;
    assert_int_equal(stoke_trial_run(&t, 65536, &p, NULL), STOKE_OK); /* more pixels than anything counts */
    assert_int_equal(t.outcome, STOKE_OUTCOME_OOM);
}

static void trials_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    stoke_trial t;
    stoke_error err = { 0 };
    stoke_trial_params p = on("sim:rtx9999", 64);
    assert_int_equal(stoke_trial_run(&t, 1, &p, &err), STOKE_E_NOTFOUND);
    p.device = "cuda:0";
    assert_int_equal(stoke_trial_run(&t, 1, &p, &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "native"));
    p = on("native", 64);
    assert_int_equal(stoke_trial_run(&t, 0, &p, &err), STOKE_E_INVALID);
    p.steps = 1;
    assert_int_equal(stoke_trial_run(&t, 1, &p, &err), STOKE_E_INVALID);
    p = on("native", 0);
    assert_int_equal(stoke_trial_run(&t, 1, &p, &err), STOKE_E_INVALID);
    p = on("native", 64);
    p.train.model = "b9";
    assert_int_not_equal(stoke_trial_run(&t, 1, &p, &err), STOKE_OK);
}

/* ---- this processor ---- */

static void the_processor_trains(void **state)
{
    stoke_trial_params p = on("native", 32);
    stoke_trial t;
    struct rlimit before, after;
    (void)state;
    p.steps = 3;
    p.train.threads = 1;
    getrlimit(RLIMIT_DATA, &before);
    p.memory = UINT64_C(64) << 30;
    assert_int_equal(stoke_trial_run(&t, 2, &p, NULL), STOKE_OK);
    assert_int_equal(t.outcome, STOKE_OUTCOME_OK);
    assert_true(t.step_ms > 0 && t.step_low <= t.step_ms && t.step_ms <= t.step_high);
    assert_true(t.reserved >= t.allocated && t.allocated > 50 * MB && isnan(t.busy));
    getrlimit(RLIMIT_DATA, &after);
    assert_memory_equal(&before, &after, sizeof before);
}

/* Memory that is refused is out of memory; the process goes on. */
static void a_limit_of_memory_is_real(void **state)
{
    stoke_trial_params p = on("native", 256);
    stoke_trial t;
    (void)state;
    if (UNIT_SANITIZED) unit_skip("a sanitizer ends the process when memory is refused");
    p.memory = UINT64_C(400) << 20;
    assert_int_equal(stoke_trial_run(&t, 64, &p, NULL), STOKE_OK);
    assert_int_equal(t.outcome, STOKE_OUTCOME_OOM);
    assert_true(*t.message != 0);
    p.memory = 1000;
    assert_int_equal(stoke_trial_run(&t, 1, &p, NULL), STOKE_OK);
    assert_int_equal(t.outcome, STOKE_OUTCOME_OOM);
}

/* ---- with the loader on ---- */

static void the_loader_feeds_both(void **state)
{
    stoke_trial t;
    stoke_error err = { 0 };
    pairs_write(state, 6, 33, 17);
    stoke_trial_params p = on("native", 32);
    p.steps = 3;
    p.train.threads = 1;
    p.train.eval_every = 0;
    p.data.data = unit_folder(state);
    p.data.workers = 1;
    p.with_loader = 1;
    const int r = stoke_trial_run(&t, 2, &p, &err);
    if (r) print_message("# %s\n", err.message);
    assert_int_equal(r, STOKE_OK);
    assert_true(t.outcome == STOKE_OUTCOME_OK && t.with_loader && t.busy > 0 && t.busy <= 1 &&
                t.wait_ms >= 0);
    p.device = "sim:t4";
    p.time0 = 1;
    assert_int_equal(stoke_trial_run(&t, 2, &p, &err), STOKE_OK);
    assert_true(t.outcome == STOKE_OUTCOME_OK && t.busy > 0 && t.busy <= 1);
    p.device = "native";
    assert_int_equal(stoke_trial_run(&t, 8, &p, &err), STOKE_E_NOTFOUND); /* no whole batch of 8 */
}

/* ---- lines ---- */

static void a_line_comes_back_as_it_was(void **state)
{
    (void)state;
    stoke_trial t = { .batch = 24,
                      .with_loader = 1,
                      .outcome = STOKE_OUTCOME_HOST_OOM,
                      .allocated = 1,
                      .reserved = UINT64_C(1) << 60,
                      .step_ms = 1.0 / 3,
                      .step_low = 0.1,
                      .step_high = 12345.678,
                      .busy = 0.875,
                      .wait_ms = 1e-9 };
    stoke_trial back;
    char line[2048];
    for (size_t i = 0; i + 1 < sizeof t.message; i++) t.message[i] = (char)(i % 2 ? '"' : '\\');
    for (int busy = 0; busy < 2; busy++) {
        if (busy) t.busy = NAN;
        const int n = stoke_trial_text(&t, line, sizeof line);
        assert_true(n > 0 && n < (int)sizeof line && !strchr(line, '\n'));
        assert_int_equal(stoke_trial_parse(&back, line, (size_t)n, NULL), STOKE_OK);
        assert_true(back.batch == 24 && back.with_loader == 1 && back.outcome == t.outcome);
        assert_true(back.reserved == t.reserved && back.step_ms == t.step_ms && back.wait_ms == t.wait_ms);
        assert_true(busy ? isnan(back.busy) : back.busy == 0.875);
        assert_string_equal(back.message, t.message);
        for (int cut = 0; cut < n; cut++)
            assert_int_not_equal(stoke_trial_parse(&back, line, (size_t)cut, NULL), STOKE_OK);
    }
}

/* What a terminal might obey does not get through. */
static void control_characters_are_not_shown(void **state)
{
    (void)state;
    static const char line[] =
        "{\"batch\":1,\"with_loader\":false,\"outcome\":\"error\",\"allocated_bytes\":0,\"reserved_bytes\":0,"
        "\"step_ms\":0,"
        "\"step_low_ms\":0,\"step_high_ms\":0,\"busy\":null,\"wait_ms\":0,\"message\":\"\\u001b[2J\"}";
    stoke_trial t;
    assert_int_equal(stoke_trial_parse(&t, line, sizeof line - 1, NULL), STOKE_OK);
    assert_null(strchr(t.message, 27));
}

/* ---- plans ---- */

static void write_text(const char *path, const char *text)
{
    unit_write(path, text, strlen(text));
}

static void a_plan_is_read_from_any_dialect(void **state)
{
    const char *file = unit_path(state, "x.yaml");
    stoke_preflight_params ask = stoke_preflight_defaults();
    stoke_trial_plan *plan;
    ask.config = file;
    write_text(file,
               "data:\n  batch_size: 6\n  image_size: 96\nmodel:\n  name: nvidia/mit-b1\n  num_classes: 7\n"
               "training:\n  use_amp: true\n  optimizer: sgd\n  accumulation_steps: 3\n");
    assert_int_equal(stoke_trial_plan_read(&plan, &ask, 1, NULL), STOKE_OK);
    const stoke_trial_params *p = &plan->params;
    assert_int_equal(plan->engine, STOKE_ENGINE_TORCH);
    assert_int_equal(plan->batch, 6);
    assert_int_equal(plan->samples, 0);
    assert_string_equal(p->train.model, "b1");
    assert_true(p->data.size[0] == 96 && p->classes == 7 && p->train.precision == STOKE_PRECISION_FP16);
    assert_true(p->train.optimizer == STOKE_OPTIMIZER_SGD && p->train.accumulate == 3);
    assert_null(stoke_trial_plan_remark(plan, 0));
    stoke_trial_plan_free(&plan);

    write_text(file, "model: b1\nsize: 64\nclasses: 3\nmemory: lean\nbatch: 2\n");
    assert_int_equal(stoke_trial_plan_read(&plan, &ask, 1, NULL), STOKE_OK);
    p = &plan->params;
    assert_int_equal(plan->engine, STOKE_ENGINE_NATIVE);
    assert_true(p->data.size[1] == 64 && p->classes == 3 && p->train.memory == STOKE_MEMORY_LEAN);
    char a[512], b[512];
    stoke_trial_params one = *p;
    one.device = "native";
    assert_true(stoke_trial_key(&one, a, sizeof a) < (int)sizeof a);
    one.train.memory = STOKE_MEMORY_MIN;
    assert_true(stoke_trial_key(&one, b, sizeof b) < (int)sizeof b);
    assert_string_not_equal(a, b);
    one.train.model = "unet"; /* its channels were left out: what was found with 16 stood for 64, too */
    one.base_channels = 16;
    assert_true(stoke_trial_key(&one, a, sizeof a) < (int)sizeof a);
    one.base_channels = 64;
    assert_true(stoke_trial_key(&one, b, sizeof b) < (int)sizeof b);
    assert_string_not_equal(a, b);
    stoke_trial_plan_free(&plan);
}

static void what_nothing_says_is_assumed_and_told(void **state)
{
    stoke_preflight_params ask = stoke_preflight_defaults();
    stoke_trial_plan *plan;
    stoke_error err = { 0 };
    assert_int_equal(stoke_trial_plan_read(&plan, &ask, 1, NULL), STOKE_OK);
    assert_non_null(stoke_trial_plan_remark(plan, 0));
    assert_int_equal(plan->params.data.size[0], 288);
    stoke_trial_plan_free(&plan);
    /* Data tell it. */
    pairs_write(state, 6, 33, 17);
    ask.data = unit_folder(state);
    const int r = stoke_trial_plan_read(&plan, &ask, 1, &err);
    if (r) print_message("# %s\n", err.message);
    assert_int_equal(r, STOKE_OK);
    assert_null(stoke_trial_plan_remark(plan, 0));
    assert_true(plan->samples > 0 && plan->samples <= 6);
    stoke_trial_plan_free(&plan);
    /* A PyTorch file's data may be elsewhere; ours may not. */
    const char *file = unit_path(state, "y.yaml");
    ask.data = NULL;
    ask.config = file;
    write_text(file, "data_root: /nowhere/at/all\nbatch_size: 2\nnum_workers: 1\n");
    assert_int_equal(stoke_trial_plan_read(&plan, &ask, 1, NULL), STOKE_OK);
    assert_non_null(strstr(stoke_trial_plan_remark(plan, 0), "left out"));
    assert_null(plan->params.data.data);
    stoke_trial_plan_free(&plan);
    write_text(file, "data: /nowhere/at/all\nmodel: b0\nbatch: 2\n");
    assert_int_not_equal(stoke_trial_plan_read(&plan, &ask, 1, NULL), STOKE_OK);
    assert_null(plan);
}

UNIT_GROUP(trial)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_rounded_and_taken_from_segments),
        cmocka_unit_test(what_is_given_back_is_kept_and_used_again),
        cmocka_unit_test(a_full_card_gives_back_what_nobody_uses),
        cmocka_unit_test(pieces_add_up),
        cmocka_unit_test(a_simulated_gpu_fills_up),
        cmocka_unit_test(trials_that_make_no_sense_are_refused),
        cmocka_unit_test(the_processor_trains),
        cmocka_unit_test(a_limit_of_memory_is_real),
        unit_test_with_folder(the_loader_feeds_both),
        cmocka_unit_test(a_line_comes_back_as_it_was),
        cmocka_unit_test(control_characters_are_not_shown),
        unit_test_with_folder(a_plan_is_read_from_any_dialect),
        unit_test_with_folder(what_nothing_says_is_assumed_and_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
