/* SPDX-License-Identifier: Apache-2.0
 *
 * The sweep with a network and a loader: afterwards both go on as if nothing had happened, bit for bit,
 * however it ended. (What is read from the curve: test_lr_judge.c.)
 */
#include "tests/unit/fixture_pairs.h"

#include <math.h>

#include "src/train/evaluate.h"
#include <stoke/tools/findlr.h>
#include <stoke/tools/net.h>

enum { SIDE = 32, BATCH = 2, SAMPLES = 7, STEPS = 100 };

/* One run: a network with an average, a loader somewhere within an epoch. */
typedef struct world {
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_net *net;
    stoke_train_params train;
} world;

static stoke_train_params adamw(void)
{
    return (stoke_train_params){ .struct_size = sizeof(stoke_train_params),
                                 .accumulate = 1,
                                 .optimizer = STOKE_OPTIMIZER_ADAMW,
                                 .head_lr = 1,
                                 .beta1 = 0.9,
                                 .beta2 = 0.999,
                                 .eps = 1e-8,
                                 .momentum = 0.9,
                                 .weight_decay = 0.01,
                                 .average = 0.99 };
}

static world begin(void **state)
{
    world w = { .train = adamw() };
    stoke_error err = { 0 };
    stoke_data_params data = pairs_params(state);
    data.size[0] = data.size[1] = SIDE;
    data.batch = BATCH;
    data.normalize = STOKE_NORMALIZE_IMAGENET;
    data.augment = "hflip(p=0.5)";
    stoke_net_params p = stoke_net_defaults();
    p.model = "b0";
    p.classes = PAIRS_CLASSES;
    p.batch = BATCH;
    p.height = p.width = SIDE;
    p.precision = STOKE_PRECISION_FP32;
    p.threads = 1;
    p.seed = 5;
    p.average = 1;
    if (stoke_dataset_open(&w.dataset, &data, &err) ||
        stoke_loader_create(&w.loader, w.dataset, &data, NULL, &err) || stoke_net_open(&w.net, &p, &err))
        fail_msg("%s", err.message);
    return w;
}

static void end(world *w)
{
    stoke_net_close(&w->net);
    stoke_loader_destroy(&w->loader);
    stoke_dataset_close(&w->dataset);
}

/* Steps with batches from wherever the loader is; into the next epoch when this one ends. */
static void train(world *w, int steps)
{
    const stoke_update update = stoke_update_defaults();
    for (int i = 0; i < steps; i++) {
        const stoke_batch *batch;
        if (stoke_loader_next(w->loader, &batch) == STOKE_E_END) {
            assert_int_equal(stoke_loader_set_epoch(w->loader, 1), STOKE_OK);
            assert_int_equal(stoke_loader_next(w->loader, &batch), STOKE_OK);
        }
        const stoke_net_batch rows = stoke_net_batch_of(batch);
        assert_int_equal(stoke_net_backward(w->net, &rows, 1, NULL, NULL), STOKE_OK);
        stoke_batch_release(w->loader, &batch);
        assert_int_equal(stoke_net_step(w->net, &update, NULL, NULL), STOKE_OK);
    }
}

static void same_floats(const stoke_net_tensor *t, const float *a, const float *b)
{
    if (memcmp(a, b, t->count * sizeof *a)) fail_msg("%s is not as it was", t->name);
}

static void expect_same(const world *a, const world *b)
{
    stoke_net_tensor x, y;
    for (size_t i = 0; !stoke_net_tensor_at(a->net, i, &x); i++) {
        assert_int_equal(stoke_net_tensor_at(b->net, i, &y), 0);
        same_floats(&x, x.values, y.values);
        same_floats(&x, x.average, y.average);
        for (int m = 0; m < 2 && x.moments[m]; m++) same_floats(&x, x.moments[m], y.moments[m]);
    }
    stoke_net_state s, t;
    stoke_net_state_get(a->net, &s);
    stoke_net_state_get(b->net, &t);
    assert_true(s.step == t.step && s.draws == t.draws && s.batches_tracked == t.batches_tracked);
    assert_true(s.loss_scale == t.loss_scale && s.good_steps == t.good_steps);
    char here[512], there[512];
    assert_true(stoke_loader_state(a->loader, here, sizeof here) < (int)sizeof here);
    stoke_loader_state(b->loader, there, sizeof there);
    assert_string_equal(here, there);
}

typedef struct heard {
    uint64_t steps, stop_at;
    double lr;
    int ordered;
} heard;

static int hear(void *context, const stoke_train_event *event)
{
    heard *h = context;
    assert_int_equal(event->kind, STOKE_TRAIN_STEP);
    h->ordered = (!h->steps || event->lr > h->lr) && event->step == h->steps + 1 && event->steps == STEPS;
    h->steps = event->step;
    h->lr = event->lr;
    return h->steps == h->stop_at;
}

static stoke_find_lr_params sweep(double low, double high)
{
    stoke_find_lr_params p = stoke_find_lr_defaults();
    p.low = low;
    p.high = high;
    p.steps = STEPS;
    return p;
}

/* In the middle of an epoch; then both go on, into the next one. */
static void everything_is_put_back(void **state)
{
    pairs_write(state, SAMPLES, 40, 36);
    world w = begin(state), twin = begin(state);
    train(&w, 3);
    train(&twin, 3);
    stoke_error err = { 0 };
    stoke_lr_report r;
    heard h = { .ordered = 1 };
    const stoke_find_lr_params p = sweep(1e-6, 1);
    if (stoke_find_lr_on(w.net, w.loader, &w.train, &p, hear, &h, &r, &err)) fail_msg("%s", err.message);
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
    stoke_lr_report_free(&r);
    expect_same(&w, &twin);
    train(&w, 3);
    train(&twin, 3);
    expect_same(&w, &twin);
    end(&w);
    end(&twin);
}

/* Losses of the first steps, until somebody stops it. */
typedef struct losses {
    double value[12];
    size_t count;
} losses;

static int note_loss(void *context, const stoke_train_event *event)
{
    losses *l = context;
    l->value[l->count++] = event->last_loss;
    return l->count == sizeof l->value / sizeof *l->value;
}

/* The same settings give the same curve, wherever the loader was; other settings another. */
static void a_sweep_repeats(void **state)
{
    pairs_write(state, SAMPLES, 40, 36);
    world w = begin(state);
    losses of[3] = { 0 };
    stoke_lr_report r;
    stoke_find_lr_params p = sweep(1e-4, 0.1);
    w.train.accumulate = 2; /* 7 samples in batches of 2: steps reach into the next epoch */
    for (int i = 0; i < 3; i++) {
        const stoke_batch *batch;
        if (i == 2) w.train.clip_norm = 1e-3;
        assert_int_equal(stoke_find_lr_on(w.net, w.loader, &w.train, &p, note_loss, &of[i], &r, NULL),
                         STOKE_E_CANCELLED);
        assert_int_equal(stoke_loader_next(w.loader, &batch), STOKE_OK);
        stoke_batch_release(w.loader, &batch);
    }
    assert_memory_equal(&of[0], &of[1], sizeof of[0]);
    assert_true(of[0].value[0] == of[2].value[0]); /* before the first update */
    assert_memory_not_equal(&of[0], &of[2], sizeof of[0]);
    end(&w);
}

static void whoever_stops_it_finds_everything_back(void **state)
{
    pairs_write(state, SAMPLES, 40, 36);
    world w = begin(state), twin = begin(state);
    train(&w, 1);
    train(&twin, 1);
    stoke_error err = { 0 };
    stoke_lr_report r;
    heard h = { .stop_at = 6 };
    stoke_find_lr_params p = sweep(1e-4, 1);
    assert_int_equal(stoke_find_lr_on(w.net, w.loader, &w.train, &p, hear, &h, &r, &err), STOKE_E_CANCELLED);
    assert_true(h.steps == 6 && !r.points && !r.count);
    expect_same(&w, &twin);
    p.steps = 99;
    assert_int_equal(stoke_find_lr_on(w.net, w.loader, &w.train, &p, hear, &h, &r, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "100 to 10000"));
    p = sweep(1e-4, 5e-4);
    assert_int_equal(stoke_find_lr_on(w.net, w.loader, &w.train, &p, hear, &h, &r, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "ten times"));
    p.struct_size = 4;
    assert_int_equal(stoke_find_lr_on(w.net, w.loader, &w.train, &p, hear, &h, &r, &err), STOKE_E_INVALID);
    expect_same(&w, &twin);
    end(&w);
    end(&twin);
}

/* With rates far too high the loss explodes: told so, hardly anything suggested, and the weights are whole
 * again. */
static void an_explosion_leaves_no_trace(void **state)
{
    pairs_write(state, SAMPLES, 40, 36);
    world w = begin(state), twin = begin(state);
    stoke_lr_report r;
    const stoke_find_lr_params p = sweep(50, 1000);
    assert_int_equal(stoke_find_lr_on(w.net, w.loader, &w.train, &p, NULL, NULL, &r, NULL), STOKE_OK);
    assert_true(r.end != STOKE_LR_END_WHOLE);
    assert_true(r.count < STEPS);
    assert_true(r.suggested > 0 && r.confidence == STOKE_LR_LOW);
    assert_true(r.why[0] != 0);
    stoke_lr_report_free(&r);
    expect_same(&w, &twin);
    train(&w, 2);
    train(&twin, 2);
    expect_same(&w, &twin);
    end(&w);
    end(&twin);
}

UNIT_GROUP(find_lr)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(everything_is_put_back),
        unit_test_with_folder(a_sweep_repeats),
        unit_test_with_folder(whoever_stops_it_finds_everything_back),
        unit_test_with_folder(an_explosion_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
