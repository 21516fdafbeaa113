/* SPDX-License-Identifier: Apache-2.0
 *
 * One mean over all pixels of a step: whatever way its pictures are spread over batches, lanes and processes,
 * the step is that of one large batch, where masks have very different numbers of pixels that count. The mean
 * of the batches' means is not.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/rng.h"
#include "src/train/lanes.h"
#include "tests/unit/fixture_ranks.h"

enum { SIDE = 16, PIXELS = SIDE * SIDE, ALL = 12, CLASSES = 3, MOST_FLOATS = 20000 };

static const float class_weights[CLASSES] = { 0.2f, 5, 1 };

/* The pictures of the only step. Of picture i all labels count but i/ALL of them, and of the last three few.
 */
typedef struct pictures {
    float images[ALL][3][PIXELS];
    uint8_t masks[ALL][PIXELS], masks_b[ALL][PIXELS];
    float lambda[ALL];
} pictures;

typedef struct trial {
    const char *name;
    int kind;
    uint32_t classes;
    int weighted, mixed;
    double smoothing;
    int precision;
} trial;

typedef struct split {
    uint32_t batch, replicas, accumulate;
} split;

static const split splits[] = {
    { 12, 1, 1 }, { 3, 1, 4 }, { 3, 4, 1 }, { 2, 3, 2 }, { 5, 3, 1 }, { 1, 6, 2 }
};

typedef struct outcome {
    float change[MOST_FLOATS]; /* of the weights */
    size_t count;
    double loss, norm;
} outcome;

static uint8_t label(uint64_t seed, uint32_t i, size_t k, uint32_t classes)
{
    const uint64_t x = stk_mix64(seed + i * 1000 + k / 4);
    const uint32_t counts = i + 3 >= ALL ? 2 : (ALL - i) * 100 / ALL; /* of 100 */
    return stk_mix64(x) % 100 < counts ? (uint8_t)(x % (classes == 1 ? 2 : classes)) : 255;
}

static pictures *make_pictures(const trial *t)
{
    pictures *p = malloc(sizeof *p);
    for (size_t i = 0; i < ALL * 3 * (size_t)PIXELS; i++)
        (&p->images[0][0][0])[i] = (float)((double)(stk_mix64(i) >> 11) * 0x1p-52 - 1);
    for (uint32_t i = 0; i < ALL; i++) {
        p->lambda[i] = (float)(i % 4) / 4;
        for (size_t k = 0; k < PIXELS; k++) {
            p->masks[i][k] = label(7, i, k, t->classes);
            p->masks_b[i][k] = label(8, (i + 5) % ALL, k, t->classes);
        }
    }
    return p;
}

/* Pictures of the batch with that number; the last may be short. */
static stoke_net_batch batch_of(const pictures *p, const trial *t, uint64_t number, uint32_t batch)
{
    const uint64_t first = number * batch;
    const uint32_t at = first < ALL ? (uint32_t)first : 0;
    return (stoke_net_batch){ .count = first >= ALL          ? 0
                                       : ALL - first < batch ? (uint32_t)(ALL - first)
                                                             : batch,
                              .images = p->images[at][0],
                              .layout = STOKE_LAYOUT_CHW,
                              .image_row_floats = 3 * PIXELS,
                              .masks = p->masks[at],
                              .masks_b = t->mixed ? p->masks_b[at] : NULL,
                              .lambda = t->mixed ? p->lambda + at : NULL,
                              .mask_dtype = STOKE_DTYPE_U8,
                              .mask_row_bytes = PIXELS };
}

/* The change of plain SGD is the gradient. */
static stoke_net_params params_of(const trial *t, uint32_t batch)
{
    stoke_net_params params = stoke_net_defaults();
    params.model = "resnet";
    params.base_channels = 8;
    params.num_blocks = 1;
    params.classes = t->classes;
    params.batch = batch;
    params.height = params.width = SIDE;
    params.training = 1;
    params.precision = t->precision;
    params.optimizer = STOKE_OPTIMIZER_SGD;
    params.threads = 1;
    params.seed = 3;
    params.dropout = params.drop_path = 0;
    params.loss.kind = (stoke_loss_kind)t->kind;
    params.loss.label_smoothing = t->smoothing;
    params.loss.class_weights = t->weighted ? class_weights : NULL;
    return params;
}

typedef struct step_of {
    const trial *t;
    split s;
    int mean; /* stoke_loss_mean */
    double clip;
    const pictures *pictures;
    outcome *of[MOST_RANKS];
} step_of;

static void take_step(stk_comm *comm, void *context)
{
    step_of *w = context;
    outcome *o = w->of[stk_comm_rank(comm)];
    stoke_error err = { 0 };
    stoke_net *net = NULL;
    stk_lanes lanes;
    const stoke_net_params params = params_of(w->t, w->s.batch);
    RANK_CHECK(!stoke_net_open(&net, &params, &err));
    const stk_setup setup = {
        .params = { .replicas = w->s.replicas, .accumulate = w->s.accumulate, .loss_mean = w->mean },
        .net = params,
        .rank = stk_comm_rank(comm),
        .world = stk_comm_world(comm)
    };
    const stk_lanes_shape shape = stk_lanes_shape_of(&setup, stoke_net_plan_used(net));
    RANK_CHECK(!stk_lanes_open(&lanes, net, stk_comm_world(comm) > 1 ? comm : NULL, &shape, &err));
    const stk_loader_route route = stk_lanes_route(&lanes, 0);
    const stoke_net_arrays a = stoke_net_arrays_of(net);
    o->count = a.floats;
    RANK_CHECK(a.floats <= MOST_FLOATS && a.floats == a.trained);
    memcpy(o->change, a.values, a.floats * sizeof(float));
    for (uint32_t k = 0; k < stk_lanes_own(&lanes); k++) {
        const stoke_net_batch batch = batch_of(w->pictures, w->t, route.at(route.context, k), w->s.batch);
        double loss;
        RANK_CHECK(!stk_lanes_look(&lanes, k, &batch, &loss, &err));
        stk_lanes_learn(&lanes, k, &batch);
    }
    const stoke_update update = { .lr = 1, .eps = 1e-8, .head_lr = 1, .clip_norm = w->clip };
    stoke_step_report report;
    RANK_CHECK(!stk_lanes_step(&lanes, &update, &report, &o->loss, &err));
    RANK_CHECK(!stk_lanes_settle(&lanes, &err));
    if (*err.message) fprintf(stderr, "%s\n", err.message);
    o->norm = report.gradient_norm;
    for (size_t i = 0; i < a.floats; i++) o->change[i] -= a.values[i];
    stk_lanes_close(&lanes);
    stoke_net_close(&net);
}

static outcome *step_by(const trial *t, split s, int mean, double clip, uint32_t world)
{
    pictures *p = make_pictures(t);
    step_of w = { .t = t, .s = s, .mean = mean, .clip = clip, .pictures = p };
    outcome *all = malloc(world * sizeof *all);
    for (uint32_t q = 0; q < world; q++) w.of[q] = &all[q];
    assert_int_equal(run_ranks(world, 60, take_step, &w), 0);
    free(p);
    return all;
}

/* |a - b| / |b| */
static double apart(const outcome *a, const outcome *b)
{
    double off = 0, whole = 0;
    for (size_t i = 0; i < b->count; i++) {
        const double d = (double)a->change[i] - b->change[i];
        off += d * d;
        whole += (double)b->change[i] * b->change[i];
    }
    return sqrt(off / whole);
}

static const trial trials[] = {
    { "ce", STOKE_LOSS_CE, CLASSES, 0, 0, 0, STOKE_PRECISION_FP32 },
    { "ce, weighted and smoothed", STOKE_LOSS_CE, CLASSES, 1, 0, 0.1, STOKE_PRECISION_FP32 },
    { "ce, mixed", STOKE_LOSS_CE, CLASSES, 1, 1, 0, STOKE_PRECISION_FP32 },
    { "focal", STOKE_LOSS_FOCAL, CLASSES, 1, 0, 0, STOKE_PRECISION_FP32 },
    { "ce, one class", STOKE_LOSS_CE, 1, 0, 0, 0, STOKE_PRECISION_FP32 },
    { "ce, fp16", STOKE_LOSS_CE, CLASSES, 0, 0, 0, STOKE_PRECISION_FP16 },
};

/* One batch of all pictures has one mean by itself; of mixed ones that of `pixels` is another. */
static void pixels_is_one_large_batch(void **state)
{
    (void)state;
    for (const trial *t = trials; t < trials + sizeof trials / sizeof *trials; t++) {
        const double clip = t - trials == 1 ? 0.01 : 0; /* below the norm */
        const double near = t->precision == STOKE_PRECISION_FP16 ? 2e-2 : 1e-4;
        outcome *large =
            step_by(t, splits[0], t->mixed ? STOKE_LOSS_MEAN_PIXELS : STOKE_LOSS_MEAN_BATCHES, clip, 1);
        assert_true(large->norm > (clip > 0 ? 2 * clip : 1e-3));
        for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
            outcome *o = step_by(t, splits[i], STOKE_LOSS_MEAN_PIXELS, clip, 1);
            if (apart(o, large) > near || fabs(o->loss / large->loss - 1) > near ||
                fabs(o->norm / large->norm - 1) > near)
                fail_msg("%s, %u lanes x %u of %u: gradient off by %g, loss %g for %g, norm %g for %g",
                         t->name, splits[i].replicas, splits[i].accumulate, splits[i].batch, apart(o, large),
                         o->loss, large->loss, o->norm, large->norm);
            free(o);
        }
        free(large);
    }
}

static void batches_is_not(void **state)
{
    (void)state;
    outcome *large = step_by(&trials[0], splits[0], STOKE_LOSS_MEAN_BATCHES, 0, 1);
    for (size_t i = 1; i < sizeof splits / sizeof *splits; i++) {
        outcome *o = step_by(&trials[0], splits[i], STOKE_LOSS_MEAN_BATCHES, 0, 1);
        assert_true(apart(o, large) > 0.05);
        free(o);
    }
    free(large);
}

static void same_bits_for_any_number_of_processes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const split s = { 1, 4, 3 };
        outcome *alone = step_by(&trials[i], s, STOKE_LOSS_MEAN_PIXELS, 0, 1);
        for (uint32_t world = 2; world <= 4; world++) {
            outcome *all = step_by(&trials[i], s, STOKE_LOSS_MEAN_PIXELS, 0, world);
            for (uint32_t q = 0; q < world; q++) {
                assert_memory_equal(all[q].change, alone->change, alone->count * sizeof(float));
                assert_true(all[q].loss == alone->loss && all[q].norm == alone->norm);
            }
            free(all);
        }
        free(alone);
    }
}

/* Mixed with nothing, or replaced by the other mask: the mean over the pixels of that one mask. */
static void shares_say_whose_pixels_count(void **state)
{
    (void)state;
    const trial *mixed = &trials[2];
    trial plain = *mixed;
    plain.mixed = 0;
    for (int other = 0; other < 2; other++) {
        pictures *p = make_pictures(mixed), *q = make_pictures(mixed);
        outcome *o = malloc(sizeof *o), *wanted = malloc(sizeof *wanted);
        if (other) memcpy(q->masks, q->masks_b, sizeof q->masks);
        for (uint32_t i = 0; i < ALL; i++) p->lambda[i] = other ? 0 : 1;
        step_of a = {
            .t = mixed, .s = splits[3], .mean = STOKE_LOSS_MEAN_PIXELS, .pictures = p, .of = { o }
        };
        step_of b = { .t = &plain, .s = splits[0], .pictures = q, .of = { wanted } };
        assert_int_equal(run_ranks(1, 60, take_step, &a), 0);
        assert_int_equal(run_ranks(1, 60, take_step, &b), 0);
        assert_true(apart(o, wanted) < 1e-4 && fabs(o->loss / wanted->loss - 1) < 1e-4);
        free(p);
        free(q);
        free(o);
        free(wanted);
    }
}

/* Nothing counts anywhere: no step, no NaN. */
static void nothing_that_counts(void **state)
{
    (void)state;
    const trial *t = &trials[0];
    pictures *p = make_pictures(t);
    outcome *o = malloc(sizeof *o);
    memset(p->masks, 255, sizeof p->masks);
    step_of w = { .t = t, .s = splits[3], .mean = STOKE_LOSS_MEAN_PIXELS, .pictures = p, .of = { o } };
    assert_int_equal(run_ranks(1, 60, take_step, &w), 0);
    assert_true(o->loss == 0 && o->norm == 0);
    free(o);
    free(p);
}

UNIT_GROUP(loss_mean)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_is_one_large_batch),
        cmocka_unit_test(batches_is_not),
        cmocka_unit_test(same_bits_for_any_number_of_processes),
        cmocka_unit_test(shares_say_whose_pixels_count),
        cmocka_unit_test(nothing_that_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
