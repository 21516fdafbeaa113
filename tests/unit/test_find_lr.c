/* SPDX-License-Identifier: Apache-2.0
 *
 * The sweep from settings. (What is read from the curve: test_lr_judge.c.)
 */
#include "tests/unit/fixture_pairs.h"

#include <math.h>
#include <stoke/tools/findlr.h>
#include <stoke/train.h>

enum { SIDE = 32, BATCH = 2, SAMPLES = 7, STEPS = 100 };

static stoke_data_params small_data(void **state)
{
    stoke_data_params data = pairs_params(state);
    pairs_write(state, SAMPLES, 40, 36);
    data.size[0] = data.size[1] = SIDE;
    data.batch = BATCH;
    data.normalize = STOKE_NORMALIZE_IMAGENET;
    data.augment = "hflip(p=0.5)";
    return data;
}

static stoke_train_params small_run(void)
{
    stoke_train_params p = stoke_train_defaults();
    p.model = "b0";
    p.precision = STOKE_PRECISION_FP32;
    p.threads = 1;
    return p;
}

static stoke_find_lr_params sweep(double low, double high)
{
    stoke_find_lr_params p = stoke_find_lr_defaults();
    p.low = low;
    p.high = high;
    p.steps = STEPS;
    return p;
}

typedef struct heard {
    uint64_t steps, stop_at;
    double lr;
    int ordered;
} heard;

static int hear(void *context, const stoke_train_event *event)
{
    heard *h = context;
    if (event->kind != STOKE_TRAIN_STEP) return 0;
    h->ordered &= (!h->steps || event->lr > h->lr) && event->step == h->steps + 1 && event->steps == STEPS;
    h->steps = event->step;
    h->lr = event->lr;
    return h->steps == h->stop_at;
}

static void a_sweep_tells_its_curve(void **state)
{
    const stoke_data_params data = small_data(state);
    const stoke_train_params train = small_run();
    stoke_error err = { 0 };
    stoke_lr_report r;
    heard h = { .ordered = 1 };
    const stoke_find_lr_params p = sweep(1e-6, 1);
    if (stoke_find_lr(&data, &train, &p, hear, &h, &r, &err)) fail_msg("%s", err.message);
    assert_true(h.ordered);
    assert_int_equal(h.steps, r.count);
    assert_true(r.count > 50 && r.count <= STEPS);
    assert_true(fabs(r.points[0].lr - 1e-6) < 1e-12);
    assert_true(fabs(r.points[1].lr / r.points[0].lr - pow(1e6, 1.0 / 99)) < 1e-9);
    assert_true(r.points[0].smooth > 0);
    assert_true(r.points[0].loss > 1 && r.points[0].loss < 3); /* 5 classes by chance: 1.6 */
    assert_true(r.drop > 0);
    assert_true(isfinite(r.suggested));
    assert_true((r.confidence == STOKE_LR_LOW) == (r.why[0] != 0));
    assert_true(stoke_memory_total(&r.memory) > 0);
    stoke_lr_report_free(&r);
}

/* Losses of the first steps, until somebody stops it. */
typedef struct losses {
    double value[12];
    size_t count;
} losses;

static int note_loss(void *context, const stoke_train_event *event)
{
    losses *l = context;
    if (event->kind != STOKE_TRAIN_STEP) return 0;
    l->value[l->count++] = event->last_loss;
    return l->count == sizeof l->value / sizeof *l->value;
}

/* The same settings give the same curve; other settings another. */
static void a_sweep_repeats(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params train = small_run();
    losses of[3] = { 0 };
    stoke_lr_report r;
    const stoke_find_lr_params p = sweep(1e-4, 0.1);
    train.accumulate = 2; /* 7 samples in batches of 2: steps reach into the next epoch */
    for (int i = 0; i < 3; i++) {
        train.clip_norm = i == 2 ? 1e-3 : 0;
        assert_int_equal(stoke_find_lr(&data, &train, &p, note_loss, &of[i], &r, NULL), STOKE_E_CANCELLED);
    }
    assert_memory_equal(&of[0], &of[1], sizeof of[0]);
    assert_true(of[0].value[0] == of[2].value[0]); /* before the first update */
    assert_memory_not_equal(&of[0], &of[2], sizeof of[0]);
}

static void whoever_stops_it_gets_no_curve(void **state)
{
    const stoke_data_params data = small_data(state);
    const stoke_train_params train = small_run();
    stoke_error err = { 0 };
    stoke_lr_report r;
    heard h = { .stop_at = 6 };
    stoke_find_lr_params p = sweep(1e-4, 1);
    assert_int_equal(stoke_find_lr(&data, &train, &p, hear, &h, &r, &err), STOKE_E_CANCELLED);
    assert_true(h.steps == 6 && !r.points && !r.count);
    p.steps = 99;
    assert_int_equal(stoke_find_lr(&data, &train, &p, hear, &h, &r, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "100 to 10000"));
    p = sweep(1e-4, 5e-4);
    assert_int_equal(stoke_find_lr(&data, &train, &p, hear, &h, &r, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "ten times"));
    p.struct_size = 4;
    assert_int_equal(stoke_find_lr(&data, &train, &p, hear, &h, &r, &err), STOKE_E_INVALID);
    assert_int_equal(h.steps, 6); /* nothing was begun */
}

/* With rates far too high the loss explodes: told so, and hardly anything suggested. */
static void an_explosion_is_told(void **state)
{
    const stoke_data_params data = small_data(state);
    const stoke_train_params train = small_run();
    stoke_lr_report r;
    const stoke_find_lr_params p = sweep(50, 1000);
    assert_int_equal(stoke_find_lr(&data, &train, &p, NULL, NULL, &r, NULL), STOKE_OK);
    assert_true(r.end != STOKE_LR_END_WHOLE);
    assert_true(r.count < STEPS);
    assert_true(r.suggested > 0 && r.confidence == STOKE_LR_LOW);
    assert_true(r.why[0] != 0);
    stoke_lr_report_free(&r);
}

UNIT_GROUP(find_lr)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(a_sweep_tells_its_curve),
        unit_test_with_folder(a_sweep_repeats),
        unit_test_with_folder(whoever_stops_it_gets_no_curve),
        unit_test_with_folder(an_explosion_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
