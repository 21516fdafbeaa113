/* SPDX-License-Identifier: Apache-2.0
 *
 * The decode head against the unfolded one in double (fixture_head_oracle.h): logits, running statistics and
 * every gradient, for each column of the table and each type of activations, at regular and odd sizes; the
 * oracle's own gradients against finite differences; equal bits for any number of threads; dropout's bits.
 */
#include "tests/unit/fixture_head_oracle.h"
#include "tests/unit/fixture_run.h"

#include "src/net/segformer/segformer_head.h"

/* The third has several strips and blocks of rows, the fourth maps one pixel wide. */
static const shape shapes[] = {
    { 2, { 8, 4, 2, 1 }, { 8, 4, 2, 1 }, { 8, 16, 24, 32 }, 32, 3 },
    { 1, { 19, 10, 5, 3 }, { 13, 7, 4, 2 }, { 16, 5, 40, 7 }, 64, 19 },
    { 2, { 41, 21, 11, 6 }, { 10, 5, 3, 2 }, { 8, 16, 8, 24 }, 160, 5 },
    { 3, { 5, 3, 2, 1 }, { 1, 1, 1, 1 }, { 4, 4, 8, 8 }, 32, 1 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static double uniform(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*seed >> 11) * 0x1p-53 * 2 - 1;
}

/* ---- the head under test ---- */

typedef struct engine {
    shape s;
    running net;
    stk_segformer_head head;
    float *value[FEATURES], *d[VALUES]; /* f32 parameters; gradients */
    void *features[4];                  /* of the run's type */
    double *batch_mean, *batch_variance;
    float *running_mean, *running_variance, *logits, *d_logits;
    void *y, *d_y;
} engine;

static float *floats(size_t count)
{
    float *p = stk_alloc_aligned((count + 16) * sizeof *p, 64);
    assert_non_null(p);
    for (size_t i = 0; i < count + 16; i++) p[i] = NAN; /* what is not written shows */
    return p;
}

static void engine_head(engine *e)
{
    const shape *s = &e->s;
    stk_segformer_head *h = &e->head;
    *h = (stk_segformer_head){ .batch = s->batch, .size = s->size, .classes = s->classes, .training = 1 };
    for (int i = 0; i < 4; i++) {
        h->height[i] = s->height[i];
        h->width[i] = s->width[i];
        h->channels[i] = s->channels[i];
        h->linear_weight[i] = e->value[LINEAR_WEIGHT + i];
        h->linear_bias[i] = e->value[LINEAR_BIAS + i];
        h->d_linear_weight[i] = e->d[LINEAR_WEIGHT + i];
        h->d_linear_bias[i] = e->d[LINEAR_BIAS + i];
    }
    h->fuse_weight = e->value[FUSE];
    h->d_fuse_weight = e->d[FUSE];
    h->norm_gamma = e->value[GAMMA];
    h->d_norm_gamma = e->d[GAMMA];
    h->norm_beta = e->value[BETA];
    h->d_norm_beta = e->d[BETA];
    h->classifier_weight = e->value[CLASS_WEIGHT];
    h->d_classifier_weight = e->d[CLASS_WEIGHT];
    h->classifier_bias = e->value[CLASS_BIAS];
    h->d_classifier_bias = e->d[CLASS_BIAS];
    h->running_mean = e->running_mean;
    h->running_variance = e->running_variance;
    h->batch_mean = e->batch_mean;
    h->batch_variance = e->batch_variance;
}

static void engine_create(engine *e, const shape *s, stk_cpu_level level, stk_float type, uint32_t threads)
{
    *e = (engine){ .s = *s };
    running_start(&e->net, level, threads, type);
    for (int v = 0; v < VALUES; v++) {
        if (v < FEATURES) e->value[v] = floats(value_count(s, v));
        e->d[v] = floats(value_count(s, v));
    }
    for (int i = 0; i < 4; i++) e->features[i] = floats(value_count(s, FEATURES + i));
    const size_t rows = stage_rows(s, 0), stride = stk_logits_stride(s->classes);
    e->batch_mean = doubles(s->size);
    e->batch_variance = doubles(s->size);
    e->running_mean = floats(s->size);
    e->running_variance = floats(s->size);
    e->logits = floats(rows * stride);
    e->d_logits = floats(rows * stride);
    e->y = floats(rows * s->size);
    e->d_y = floats(rows * s->size);
    engine_head(e);
    const size_t room = stk_segformer_head_room(&e->net.run, &e->head);
    e->head.room = floats(room / sizeof(float));
    stk_segformer_head_bind(&e->net.run, &e->head);
    running_room(&e->net, stk_segformer_head_need(&e->net.run, &e->head));
}

static void engine_free(engine *e)
{
    for (int v = 0; v < VALUES; v++) {
        if (v < FEATURES) stk_free(e->value[v]);
        stk_free(e->d[v]);
    }
    for (int i = 0; i < 4; i++) stk_free(e->features[i]);
    free(e->batch_mean);
    free(e->batch_variance);
    stk_free(e->running_mean);
    stk_free(e->running_variance);
    stk_free(e->logits);
    stk_free(e->d_logits);
    stk_free(e->y);
    stk_free(e->d_y);
    stk_free(e->head.room);
    running_stop(&e->net);
}

/* The same random problem for the head and for the oracle: parameters exact in f32, features in the run's
 * type. Weights are such that every layer keeps its input's size. d_logits come back in double. */
static double *fill_both(engine *e, oracle *o, uint64_t seed)
{
    const shape *s = &e->s;
    for (int v = 0; v < FEATURES; v++) {
        const size_t count = value_count(s, v);
        const double inputs = v < LINEAR_BIAS ? s->channels[v] : v == FUSE ? 4 * s->size : s->size;
        const double size = v < LINEAR_BIAS || v == FUSE || v == CLASS_WEIGHT ? sqrt(3 / inputs) : 0.5;
        for (size_t i = 0; i < count; i++) {
            e->value[v][i] = (float)(uniform(&seed) * size + (v == GAMMA));
            o->value[v][i] = e->value[v][i];
        }
    }
    for (int i = 0; i < 4; i++) {
        for (size_t k = 0; k < value_count(s, FEATURES + i); k++) {
            stk_put(e->features[i], k, (float)uniform(&seed), e->net.run.type);
            o->value[FEATURES + i][k] = stk_get(e->features[i], k, e->net.run.type);
        }
    }
    for (size_t c = 0; c < s->size; c++) {
        o->running_mean[c] = e->running_mean[c] = (float)uniform(&seed);
        o->running_variance[c] = e->running_variance[c] = (float)(1 + 0.5 * uniform(&seed));
    }
    const size_t rows = stage_rows(s, 0), stride = stk_logits_stride(s->classes);
    double *d_logits = doubles(rows * s->classes);
    memset(e->d_logits, 0, rows * stride * sizeof(float));
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < s->classes; k++) {
            e->d_logits[r * stride + k] = (float)uniform(&seed);
            d_logits[r * s->classes + k] = e->d_logits[r * stride + k];
        }
    o->dropout = e->head.dropout = 0.1f;
    o->seed = e->head.seed = seed;
    return d_logits;
}

static void engine_forward(engine *e)
{
    const void *const features[4] = { e->features[0], e->features[1], e->features[2], e->features[3] };
    stk_segformer_head_pack(&e->net.run, &e->head);
    stk_segformer_head_forward(&e->net.run, &e->head, features, e->y, e->logits);
    for (size_t c = 0; e->head.training && c < e->s.size; c++) { /* as stoke_net_track */
        e->running_mean[c] += (float)(0.1 * (e->batch_mean[c] - e->running_mean[c]));
        e->running_variance[c] += (float)(0.1 * (e->batch_variance[c] - e->running_variance[c]));
    }
}

static void engine_backward(engine *e)
{
    const void *const features[4] = { e->features[0], e->features[1], e->features[2], e->features[3] };
    float *const d_features[4] = { e->d[FEATURES], e->d[FEATURES + 1], e->d[FEATURES + 2],
                                   e->d[FEATURES + 3] };
    stk_segformer_head_backward(&e->net.run, &e->head, features, e->y, e->d_logits, e->d_y, d_features);
}

/* ---- comparison ---- */

/* |a - b| / |b|, over rows of `width` whose f32 side is `stride` apart. */
static double distance(const float *a, size_t stride, const double *b, size_t width, size_t rows)
{
    double apart = 0, size = 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < width; i++) {
            apart += pow(a[r * stride + i] - b[r * width + i], 2);
            size += pow(b[r * width + i], 2);
        }
    return size > 0 ? sqrt(apart / size) : sqrt(apart);
}

static void assert_near(double got, double most, const char *what, const engine *e)
{
    if (got <= most) return; /* NaN is not */
    fail_msg("%s: off by %.3g, allowed %.3g; table %s, type %d, %ux%u, D %u", what, got, most,
             stk_cpu_level_name(e->net.table.level), (int)e->net.run.type, (unsigned)e->s.height[0],
             (unsigned)e->s.width[0], (unsigned)e->s.size);
}

static const char *const names[] = { "linear 1 weight",
                                     "linear 2 weight",
                                     "linear 3 weight",
                                     "linear 4 weight",
                                     "linear 1 bias",
                                     "linear 2 bias",
                                     "linear 3 bias",
                                     "linear 4 bias",
                                     "fuse weight",
                                     "gamma",
                                     "beta",
                                     "classifier weight",
                                     "classifier bias",
                                     "feature 1",
                                     "feature 2",
                                     "feature 3",
                                     "feature 4" };

/* By type, twice what is seen. f32: rounding over these sums. 16-bit: half a unit of the last place is 2e-3
 * (bf16) or 2.4e-4 (f16), and features, y, z, r, g and dz are each rounded once. */
static const double forward_most[] = { 3e-6, 1e-2, 1.2e-3 };
static const double backward_most[] = { 4e-6, 1.3e-2, 1.8e-3 };

static void compare_gradients(const engine *e, const oracle *o, double times)
{
    for (int v = 0; v < VALUES; v++) {
        const size_t count = value_count(&e->s, v);
        /* Zero in exact arithmetic, and exactly zero here. */
        if (v >= LINEAR_BIAS && v < FUSE) {
            for (size_t i = 0; i < count; i++) assert_true(e->d[v][i] == 0);
            continue;
        }
        double *want = doubles(count);
        for (size_t i = 0; i < count; i++) want[i] = o->d[v][i] * (v < FEATURES ? times : 1);
        assert_near(distance(e->d[v], count, want, count, 1), backward_most[e->net.run.type], names[v], e);
        free(want);
    }
}

/* ---- tests ---- */

static double oracle_loss(oracle *o, const double *d_logits)
{
    double sum = 0;
    oracle_forward(o);
    for (size_t i = 0; i < stage_rows(&o->s, 0) * o->s.classes; i++) sum += o->logits[i] * d_logits[i];
    return sum;
}

/* Central differences at some elements of every value. The step is small enough that no ReLU flips. */
static void oracle_agrees_with_differences(void **state)
{
    (void)state;
    engine e;
    oracle o;
    engine_create(&e, &shapes[0], STK_CPU_C, STK_F32, 1);
    oracle_create(&o, &shapes[0]);
    double *d_logits = fill_both(&e, &o, 11);
    oracle_forward(&o);
    oracle_backward(&o, d_logits);
    for (int v = 0; v < VALUES; v++) {
        const size_t count = value_count(&o.s, v);
        for (size_t i = 0; i < count; i += count / 3 + 1) {
            const double at = o.value[v][i], step = 1e-6;
            o.value[v][i] = at + step;
            const double above = oracle_loss(&o, d_logits);
            o.value[v][i] = at - step;
            const double below = oracle_loss(&o, d_logits);
            o.value[v][i] = at;
            assert_near(fabs((above - below) / (2 * step) - o.d[v][i]), 1e-5, names[v], &e);
        }
    }
    free(d_logits);
    oracle_free(&o);
    engine_free(&e);
}

/* A y within rounding of 0 may pass the ReLU on one side only, and one such element weighs more in a gradient
 * than all rounding: the oracle takes over which passed. */
static float *who_passed(const engine *e)
{
    const size_t count = stage_rows(&e->s, 0) * e->s.size;
    const stk_head_norm norm = stk_segformer_head_norm_of(&e->head);
    float *passed = floats(count);
    e->net.table.head.activate[e->net.run.type](&norm, 0, stage_rows(&e->s, 0), e->y, e->d_y);
    for (size_t i = 0; i < count; i++) passed[i] = stk_get(e->d_y, i, e->net.run.type);
    return passed;
}

static void check_training(const shape *s, stk_cpu_level level, stk_float type)
{
    engine e;
    oracle o;
    engine_create(&e, s, level, type, 2);
    oracle_create(&o, s);
    double *d_logits = fill_both(&e, &o, 5 + s->size);
    engine_forward(&e);
    float *passed = who_passed(&e);
    o.passed = passed;
    oracle_forward(&o);
    oracle_backward(&o, d_logits);
    engine_backward(&e);
    assert_near(distance(e.logits, stk_logits_stride(s->classes), o.logits, s->classes, stage_rows(s, 0)),
                forward_most[type], "logits", &e);
    assert_near(distance(e.running_mean, s->size, o.running_mean, s->size, 1), forward_most[type],
                "running mean", &e);
    assert_near(distance(e.running_variance, s->size, o.running_variance, s->size, 1), forward_most[type],
                "running variance", &e);
    compare_gradients(&e, &o, 1);
    e.net.run.accumulate = 1;
    engine_backward(&e);
    compare_gradients(&e, &o, 2);
    free(d_logits);
    stk_free(passed);
    oracle_free(&o);
    engine_free(&e);
}

static void training_is_that_of_the_unfolded_head(void **state)
{
    (void)state;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++)
        for (int type = 0; type < STK_FLOATS; type++)
            for (int i = 0; i < SHAPES; i++)
                check_training(&shapes[i], (stk_cpu_level)level, (stk_float)type);
}

static void inference_is_that_of_the_unfolded_head(void **state)
{
    (void)state;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++)
        for (int type = 0; type < STK_FLOATS; type++)
            for (int i = 0; i < SHAPES; i++) {
                const shape *s = &shapes[i];
                engine e;
                oracle o;
                engine_create(&e, s, (stk_cpu_level)level, (stk_float)type, 2);
                oracle_create(&o, s);
                free(fill_both(&e, &o, 77));
                o.dropout = e.head.dropout = 0;
                o.training = e.head.training = 0;
                stk_free(e.y);
                e.y = NULL; /* inference does not store it */
                oracle_forward(&o);
                engine_forward(&e);
                assert_near(
                    distance(e.logits, stk_logits_stride(s->classes), o.logits, s->classes, stage_rows(s, 0)),
                    forward_most[type], "logits in inference", &e);
                assert_near(distance(e.running_mean, s->size, o.running_mean, s->size, 1), 0,
                            "running mean in inference", &e);
                oracle_free(&o);
                engine_free(&e);
            }
}

/* A mean of 300 standard deviations. Sums of plain squares would lose 300^2 / 2^24 = 0.5 % of the variance;
 * what remains is the rounding of y itself, 300 / 2^25 per element, of either sign. */
static void a_large_mean_keeps_its_digits(void **state)
{
    (void)state;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        engine e;
        oracle o;
        engine_create(&e, &shapes[2], (stk_cpu_level)level, STK_F32, 2);
        oracle_create(&o, &shapes[2]);
        free(fill_both(&e, &o, 3));
        for (size_t c = 0; c < o.s.size; c++) {
            o.value[LINEAR_BIAS][c] = e.value[LINEAR_BIAS][c] = c % 2 ? 700.0f : 500.0f;
            o.running_variance[c] = e.running_variance[c] = 0;
        }
        oracle_forward(&o);
        engine_forward(&e);
        assert_near(distance(e.running_variance, o.s.size, o.running_variance, o.s.size, 1), 3e-5,
                    "variance about a large mean", &e);
        oracle_free(&o);
        engine_free(&e);
    }
}

static void assert_same(const void *a, const void *b, size_t bytes, const char *what)
{
    if (memcmp(a, b, bytes)) fail_msg("%s differs with the number of threads", what);
}

static void threads_give_the_same_bits(void **state)
{
    (void)state;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++)
        for (int type = 0; type < STK_FLOATS; type++) {
            const shape *s = &shapes[2];
            engine e[3];
            for (uint32_t t = 0; t < 3; t++) {
                oracle o;
                engine_create(&e[t], s, (stk_cpu_level)level, (stk_float)type, t + 1);
                oracle_create(&o, s);
                free(fill_both(&e[t], &o, 9));
                oracle_free(&o);
                engine_forward(&e[t]);
                engine_backward(&e[t]);
                const size_t stride = stk_logits_stride(s->classes);
                for (size_t r = 0; r < stage_rows(s, 0); r++)
                    assert_same(e[t].logits + r * stride, e[0].logits + r * stride,
                                s->classes * sizeof(float), "a row of logits");
                assert_same(e[t].running_variance, e[0].running_variance, s->size * sizeof(float),
                            "running variance");
                for (int v = 0; v < VALUES; v++)
                    assert_same(e[t].d[v], e[0].d[v], value_count(s, v) * sizeof(float), names[v]);
            }
            for (int t = 0; t < 3; t++) engine_free(&e[t]);
        }
}

/* Frozen parameters and unwanted feature gradients are left out, and the others do not change. */
static void what_is_frozen_is_left_out(void **state)
{
    (void)state;
    const shape *s = &shapes[1];
    engine all, some;
    oracle o;
    oracle_create(&o, s);
    engine_create(&all, s, STK_CPU_C, STK_F32, 1);
    engine_create(&some, s, STK_CPU_C, STK_F32, 1);
    free(fill_both(&all, &o, 21));
    free(fill_both(&some, &o, 21));
    some.head.d_fuse_weight = some.head.d_linear_weight[1] = some.head.d_linear_bias[2] = NULL;
    some.head.d_norm_gamma = some.head.d_classifier_weight = some.head.d_classifier_bias = NULL;
    stk_segformer_head_bind(&some.net.run, &some.head);
    engine_forward(&all);
    engine_backward(&all);
    engine_forward(&some);
    const void *const features[4] = { some.features[0], some.features[1], some.features[2],
                                      some.features[3] };
    float *const d_features[4] = { NULL, some.d[FEATURES + 1], NULL, some.d[FEATURES + 3] };
    stk_segformer_head_backward(&some.net.run, &some.head, features, some.y, some.d_logits, some.d_y,
                                d_features);
    for (int v = 0; v < VALUES; v++) {
        const int left_out = v == FUSE || v == LINEAR_WEIGHT + 1 || v == LINEAR_BIAS + 2 || v == GAMMA ||
                             v == CLASS_WEIGHT || v == CLASS_BIAS || v == FEATURES || v == FEATURES + 2;
        if (left_out)
            assert_true(isnan(some.d[v][0]));
        else
            assert_memory_equal(some.d[v], all.d[v], value_count(s, v) * sizeof(float));
    }
    oracle_free(&o);
    engine_free(&all);
    engine_free(&some);
}

/* ---- dropout ---- */

enum { ROWS = 4096, SIZE = 256 };

/* Share of pairs of which both are dropped, for a distance in channels, rows or seeds. */
static double both_dropped(uint32_t threshold, uint32_t channels, uint64_t rows, uint64_t seeds)
{
    size_t both = 0, pairs = 0;
    for (uint64_t row = 0; row < ROWS; row++) {
        const uint64_t a = stk_dropout_key(1, row), b = stk_dropout_key(1 + seeds, row + rows);
        for (uint32_t c = 0; c + channels < SIZE; c++, pairs++)
            both += stk_dropout_bits(a, c) < threshold && stk_dropout_bits(b, c + channels) < threshold;
    }
    return (double)both / (double)pairs;
}

/* A million draws: one standard deviation of a share p is sqrt(p (1 - p) / 1e6). Pairs at a distance must be
 * dropped together as often as chance has it; 16 channels apart share a word. */
static void dropout_is_as_chance_has_it(void **state)
{
    (void)state;
    static const double shares[] = { 0.1, 0.5 };
    for (int i = 0; i < 2; i++) {
        const double p = shares[i], deviation = sqrt(p * p * (1 - p * p) / (ROWS * (SIZE - 64.0)));
        const uint32_t threshold = (uint32_t)(p * 65536 + 0.5);
        const double alone = both_dropped(threshold, 0, 0, 0);
        assert_true(fabs(alone - p) < 4.5 * sqrt(p * (1 - p) / (ROWS * (double)SIZE)));
        static const uint32_t apart[] = { 1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 64 };
        for (size_t k = 0; k < sizeof apart / sizeof *apart; k++)
            assert_true(fabs(both_dropped(threshold, apart[k], 0, 0) - p * p) < 4.5 * deviation);
        for (uint64_t k = 1; k <= 64; k *= 2) {
            assert_true(fabs(both_dropped(threshold, 0, k, 0) - p * p) < 4.5 * deviation);
            assert_true(fabs(both_dropped(threshold, 0, 0, k) - p * p) < 4.5 * deviation);
        }
    }
}

/* Every column drops what the bits say, and what it keeps it multiplies so that the mean stays. */
static void tables_drop_the_same(void **state)
{
    (void)state;
    enum { COUNT = 70 };
    float mean[SIZE], scale[SIZE], shift[SIZE];
    static float y[COUNT * SIZE], r[COUNT * SIZE];
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        stk_net_table table;
        stk_net_table_fill(&table, (stk_cpu_level)level);
        for (int c = 0; c < SIZE; c++) {
            mean[c] = 1;
            scale[c] = 0;
            shift[c] = 2;
        }
        for (int i = 0; i < COUNT * SIZE; i++) y[i] = 1;
        const stk_head_norm norm = { SIZE, mean, scale, shift, 42, 20000, 2 };
        table.head.activate[STK_F32](&norm, 7, COUNT, y, r);
        for (size_t i = 0; i < COUNT; i++)
            for (uint32_t c = 0; c < SIZE; c++) {
                const int dropped = stk_dropout_bits(stk_dropout_key(42, 7 + i), c) < 20000;
                assert_true(r[i * SIZE + c] == (dropped ? 0 : 2));
            }
    }
}

UNIT_GROUP(head)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_agrees_with_differences),
        cmocka_unit_test(training_is_that_of_the_unfolded_head),
        cmocka_unit_test(inference_is_that_of_the_unfolded_head),
        cmocka_unit_test(a_large_mean_keeps_its_digits),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(what_is_frozen_is_left_out),
        cmocka_unit_test(dropout_is_as_chance_has_it),
        cmocka_unit_test(tables_drop_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
