/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution and GELU against their formulas in doubles. The gradients of those formulas are held
 * to finite differences first.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

typedef struct shape {
    stk_depthwise_map map;
    uint32_t channels;
} shape;
/* Single lines and columns, several strips, blocks of columns that do not fill, more than one group of
 * channels, channels that do not fill a vector of 16. */
static const shape shapes[] = { { { 1, 1, 1 }, 8 },  { { 2, 1, 5 }, 16 },  { { 1, 7, 1 }, 24 },
                                { { 1, 3, 2 }, 32 }, { { 2, 19, 9 }, 40 }, { { 1, 5, 17 }, 136 },
                                { { 1, 33, 8 }, 8 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct data {
    shape shape;
    size_t count;
    stk_float type;
    float *weight, *bias;
    void *h1, *dh3;
    /* Wanted. */
    double *h3, *dh1, *d_weight, *d_bias;
} data;

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static double gelu_slope(double x)
{
    return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
}

/* For every output p and tap: the element of h1 it takes, or SIZE_MAX outside. */
static size_t taken(const shape *s, size_t p, uint32_t tap)
{
    const uint32_t width = s->map.width, height = s->map.height;
    const size_t token = p / s->channels, image = token / width / height;
    const int64_t x = (int64_t)(token % width) + tap % 3 - 1;
    const int64_t y = (int64_t)(token / width % height) + tap / 3 - 1;
    if (x < 0 || y < 0 || x >= width || y >= height) return SIZE_MAX;
    return ((image * height + (size_t)y) * width + (size_t)x) * s->channels + p % s->channels;
}

static double convolve(const data *d, const double *h1, const double *weight, const double *bias, size_t p)
{
    const size_t c = p % d->shape.channels;
    double sum = bias[c];
    for (uint32_t tap = 0; tap < 9; tap++) {
        const size_t i = taken(&d->shape, p, tap);
        if (i != SIZE_MAX) sum += weight[c * 9 + tap] * h1[i];
    }
    return sum;
}

/* h2 rounded to the type, or not (for finite differences). */
static void oracle(data *d, const double *h1, const double *weight, const double *bias, int rounded)
{
    for (size_t p = 0; p < d->count; p++) {
        const double exact = convolve(d, h1, weight, bias, p);
        uint32_t stored;
        stk_put(&stored, 0, (float)exact, d->type);
        const double h2 = rounded && d->type != STK_F32 ? (double)stk_get(&stored, 0, d->type) : exact;
        d->h3[p] = gelu(h2);
        const double t = stk_get(d->dh3, p, d->type) * gelu_slope(h2);
        const size_t c = p % d->shape.channels;
        d->d_bias[c] += t;
        for (uint32_t tap = 0; tap < 9; tap++) {
            const size_t i = taken(&d->shape, p, tap);
            if (i == SIZE_MAX) continue;
            d->dh1[i] += t * weight[c * 9 + tap];
            d->d_weight[c * 9 + tap] += t * h1[i];
        }
    }
}

static double *doubles(const void *array, size_t count, stk_float type)
{
    double *copy = stk_alloc(count * sizeof *copy);
    assert_non_null(copy);
    for (size_t i = 0; i < count; i++) copy[i] = stk_get(array, i, type);
    return copy;
}

static data make_data(shape s, stk_float type, int rounded)
{
    const size_t channels = s.channels;
    const size_t count = (size_t)s.map.batch * s.map.height * s.map.width * channels;
    data d = { .shape = s, .count = count, .type = type };
    d.weight = running_between(9 * channels, STK_F32, -0.5, 0.5, 1);
    d.bias = running_between(channels, STK_F32, -0.5, 0.5, 2);
    d.h1 = running_between(count, type, -2, 2, 3);
    d.dh3 = running_between(count, type, -1, 1, 4);
    d.h3 = stk_calloc(count, sizeof(double));
    d.dh1 = stk_calloc(count, sizeof(double));
    d.d_weight = stk_calloc(9 * channels, sizeof(double));
    d.d_bias = stk_calloc(channels, sizeof(double));
    double *h1 = doubles(d.h1, count, type), *weight = doubles(d.weight, 9 * channels, STK_F32);
    double *bias = doubles(d.bias, channels, STK_F32);
    oracle(&d, h1, weight, bias, rounded);
    stk_free(h1), stk_free(weight), stk_free(bias);
    return d;
}

static void free_data(data *d)
{
    stk_free(d->weight), stk_free(d->bias), stk_free(d->h1), stk_free(d->dh3);
    stk_free(d->h3), stk_free(d->dh1), stk_free(d->d_weight), stk_free(d->d_bias);
}

static double scalar(const data *d, const double *h1, const double *weight, const double *bias)
{
    double sum = 0;
    for (size_t p = 0; p < d->count; p++)
        sum += gelu(convolve(d, h1, weight, bias, p)) * stk_get(d->dh3, p, d->type);
    return sum;
}

static void hold_difference(const data *d, double *value, const double *h1, const double *weight,
                            const double *bias, double wanted)
{
    const double old = *value, step = 1e-4;
    *value = old + step;
    const double up = scalar(d, h1, weight, bias);
    *value = old - step;
    const double down = scalar(d, h1, weight, bias);
    *value = old;
    assert_true(fabs((up - down) / (2 * step) - wanted) <= 1e-7 * (1 + fabs(wanted)));
}

/* What the other tests compare with is itself right. */
static void oracle_agrees_with_differences(void **state)
{
    for (int i = 0; i < 4; i++) {
        data d = make_data(shapes[i], STK_F32, 0);
        const size_t channels = d.shape.channels;
        double *h1 = doubles(d.h1, d.count, STK_F32), *weight = doubles(d.weight, 9 * channels, STK_F32);
        double *bias = doubles(d.bias, channels, STK_F32);
        for (size_t k = 0; k < d.count; k++) hold_difference(&d, h1 + k, h1, weight, bias, d.dh1[k]);
        for (size_t k = 0; k < 9 * channels; k++)
            hold_difference(&d, weight + k, h1, weight, bias, d.d_weight[k]);
        for (size_t k = 0; k < channels; k++) hold_difference(&d, bias + k, h1, weight, bias, d.d_bias[k]);
        stk_free(h1), stk_free(weight), stk_free(bias);
        free_data(&d);
    }
}

typedef struct result {
    void *h3, *dh1;
    float *d_weight, *d_bias;
} result;

/* A layer of `d` ready to run. */
typedef struct scratch {
    running net;
    stk_depthwise layer;
} scratch;

static void open_bench(scratch *b, const data *d, stk_cpu_level level, uint32_t threads)
{
    b->layer = (stk_depthwise){ .channels = d->shape.channels,
                                .weight = d->weight,
                                .bias = d->bias,
                                .packed = running_zeros(10 * d->shape.channels, STK_F32) };
    running_start(&b->net, level, threads, d->type);
    running_room(&b->net, stk_depthwise_need(&b->net.run, &b->layer, d->shape.map));
    stk_depthwise_pack(&b->net.run, (const stk_depthwise *const[]){ &b->layer }, 1);
}

static void close_bench(scratch *b)
{
    running_stop(&b->net);
    stk_free(b->layer.packed);
}

static result compute(const data *d, stk_cpu_level level, uint32_t threads)
{
    const size_t channels = d->shape.channels;
    result r = { .h3 = running_zeros(d->count, d->type),
                 .dh1 = running_zeros(d->count, d->type),
                 .d_weight = running_zeros(9 * channels, STK_F32),
                 .d_bias = running_zeros(channels, STK_F32) };
    scratch b;
    open_bench(&b, d, level, threads);
    b.layer.d_weight = r.d_weight;
    b.layer.d_bias = r.d_bias;
    stk_depthwise_forward(&b.net.run, &b.layer, d->shape.map, d->h1, r.h3);
    stk_depthwise_backward(&b.net.run, &b.layer, d->shape.map, d->h1, d->dh3, r.dh1);
    close_bench(&b);
    return r;
}

static void free_result(result *r)
{
    stk_free(r->h3), stk_free(r->dh1), stk_free(r->d_weight), stk_free(r->d_bias);
}

static void hold_same(const data *d, const result *a, const result *b)
{
    const size_t bytes = d->count * stk_float_bytes(d->type);
    assert_memory_equal(a->h3, b->h3, bytes);
    assert_memory_equal(a->dh1, b->dh1, bytes);
    assert_memory_equal(a->d_weight, b->d_weight, 9 * d->shape.channels * sizeof(float));
    assert_memory_equal(a->d_bias, b->d_bias, d->shape.channels * sizeof(float));
}

/* f32: a few roundings of sums of 9 products and of GELU. 16 bits: the result's rounding, and an h2 that a
 * rounding in f32 moved over a tie, which is another unit in the last place, for gradients through up to 9
 * weights of 0.5 and a curvature of at most 0.8. */
static void hold(const data *d, const result *r)
{
    const double unit = running_rounding(d->type), f32 = 2e-6;
    const double sums = d->type == STK_F32 ? 1e-5 : 4 * unit;
    assert_true(running_error(r->h3, d->h3, d->count, d->type) <= f32 + 4 * unit);
    assert_true(running_error(r->dh1, d->dh1, d->count, d->type) <= f32 + 4 * unit);
    assert_true(running_error(r->d_weight, d->d_weight, 9 * d->shape.channels, STK_F32) <= sums);
    assert_true(running_error(r->d_bias, d->d_bias, d->shape.channels, STK_F32) <= sums);
}

static void matches_the_oracle(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (stk_float type = STK_F32; type <= STK_F16; type++) {
            data d = make_data(shapes[i], type, 1);
            for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
                result r = compute(&d, level, 2);
                hold(&d, &r);
                free_result(&r);
            }
            free_data(&d);
        }
}

static void threads_give_the_same_bits(void **state)
{
    for (stk_float type = STK_F32; type <= STK_F16; type++) {
        data d = make_data((shape){ { 3, 37, 11 }, 144 }, type, 1);
        for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
            result one = compute(&d, level, 1);
            for (uint32_t threads = 2; threads <= 3; threads++) {
                result more = compute(&d, level, threads);
                hold_same(&d, &one, &more);
                free_result(&more);
            }
            free_result(&one);
        }
        free_data(&d);
    }
}

/* Rows made when they are needed are those of forward to the bit, wherever they begin and end. */
static void rows_made_on_demand(void **state)
{
    const size_t channels = 24, rows = 2 * 5 * 19;
    for (stk_float type = STK_F32; type <= STK_F16; type++) {
        data d = make_data((shape){ { 2, 5, 19 }, 24 }, type, 1);
        for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
            result r = compute(&d, level, 1);
            scratch b;
            open_bench(&b, &d, level, 1);
            const stk_depthwise_hidden source = { &b.net.table, &b.layer, d.shape.map, d.h1, type };
            const stk_exec_rows made = stk_hidden_rows(&source);
            assert_int_equal(made.stride, channels);
            for (size_t first = 0; first < rows; first += 7) {
                const size_t count = rows - first < 30 ? rows - first : 30;
                void *out = running_zeros(count * channels, type);
                made.make(made.context, first, count, out);
                assert_memory_equal(out, stk_at(r.h3, first * channels, type),
                                    count * channels * stk_float_bytes(type));
                stk_free(out);
            }
            close_bench(&b);
            free_result(&r);
        }
        free_data(&d);
    }
}

static void gradients_add_up_or_are_left_out(void **state)
{
    data d = make_data((shape){ { 2, 20, 6 }, 16 }, STK_F32, 1);
    for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
        result r = compute(&d, level, 2);
        float d_weight[9 * 16], d_bias[16];
        for (int i = 0; i < 9 * 16; i++) d_weight[i] = 3;
        for (int i = 0; i < 16; i++) d_bias[i] = -2;
        scratch b;
        open_bench(&b, &d, level, 2);
        float *dh1 = running_zeros(d.count, STK_F32);
        stk_depthwise_backward(&b.net.run, &b.layer, d.shape.map, d.h1, d.dh3, dh1); /* frozen */
        assert_memory_equal(dh1, r.dh1, d.count * sizeof(float));
        b.net.run.accumulate = 1;
        b.layer.d_weight = d_weight;
        b.layer.d_bias = d_bias;
        stk_depthwise_backward(&b.net.run, &b.layer, d.shape.map, d.h1, d.dh3, dh1);
        for (int i = 0; i < 9 * 16; i++) assert_true(d_weight[i] == 3 + r.d_weight[i]);
        for (int i = 0; i < 16; i++) assert_true(d_bias[i] == -2 + r.d_bias[i]);
        b.layer.d_weight = NULL; /* the bias alone */
        stk_depthwise_backward(&b.net.run, &b.layer, d.shape.map, d.h1, d.dh3, dh1);
        for (int i = 0; i < 16; i++) assert_true(d_bias[i] == -2 + r.d_bias[i] + r.d_bias[i]);
        stk_free(dh1);
        close_bench(&b);
        free_result(&r);
    }
    free_data(&d);
}

/* Every 2^-12 from -12 to 12, and 4096 floats to either side of where the vectors' polynomials are farthest
 * off: next to their ends, and a grid misses the place. */
static void gelu_places(float *x, int count)
{
    const float worst[] = { -5.7993889f, -5.4714108f, 5.4714108f, 5.7993889f };
    const int fine = count / 4, each = fine / 4;
    for (int i = 0; i < count - fine; i++) x[i] = (float)(i - (count - fine) / 2) / 4096;
    for (int i = 0; i < fine; i++)
        x[count - fine + i] = worst[i / each] * (1 + (float)(i % each - each / 2) * 0x1p-23f);
}

/* A layer whose only weight is 1 in the middle: h3 = gelu(h1), dh1 = gelu'(h1) when dh3 is 1. And what lies
 * far outside; NaN stays NaN. */
static void gelu_is_exact(void **state)
{
    enum { CHANNELS = 256, COLUMNS = 32 * 4096 / CHANNELS, COUNT = CHANNELS * COLUMNS };
    data d = { .shape = { { 1, 1, COLUMNS }, CHANNELS }, .count = COUNT, .type = STK_F32 };
    float *h1 = running_zeros(COUNT, STK_F32), *dh3 = running_zeros(COUNT, STK_F32);
    d.weight = running_zeros(9 * CHANNELS, STK_F32);
    d.bias = running_zeros(CHANNELS, STK_F32);
    for (int c = 0; c < CHANNELS; c++) d.weight[9 * c + 4] = 1;
    for (int i = 0; i < COUNT; i++) dh3[i] = 1;
    gelu_places(h1, COUNT);
    h1[0] = -1e30f, h1[COUNT - 1] = 1e30f, h1[1] = -40, h1[2] = NAN;
    d.h1 = h1;
    d.dh3 = dh3;
    for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
        result r = compute(&d, level, 2);
        double most = 0, most_slope = 0;
        for (int i = 0; i < COUNT; i++) {
            const double x = h1[i], scale = fabs(x) > 1 ? fabs(x) : 1;
            most = fmax(most, fabs(stk_get(r.h3, i, STK_F32) - gelu(x)) / scale);
            most_slope = fmax(most_slope, fabs(stk_get(r.dh1, i, STK_F32) - gelu_slope(x)));
        }
        print_message("# gelu %s: error %.2e of max(1, |x|), of the slope %.2e\n", stk_cpu_level_name(level),
                      most, most_slope);
        assert_true(isnan(stk_get(r.h3, 2, STK_F32)) && isnan(stk_get(r.dh1, 2, STK_F32)));
        assert_true(most <= 2.5e-7);
        assert_true(most_slope <= 6.1e-7);
        free_result(&r);
    }
    free_data(&d);
}

UNIT_GROUP(depthwise)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_agrees_with_differences),   cmocka_unit_test(matches_the_oracle),
        cmocka_unit_test(threads_give_the_same_bits),       cmocka_unit_test(rows_made_on_demand),
        cmocka_unit_test(gradients_add_up_or_are_left_out), cmocka_unit_test(gelu_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
