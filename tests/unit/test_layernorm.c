/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer normalisation against its formula in doubles; gradients against finite differences of that formula.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

typedef struct shape {
    size_t rows;
    uint32_t channels;
} shape;
/* Odd counts around chunks and vectors; the last has more than one chunk, and one that is not full. */
static const shape shapes[] = { { 1, 8 }, { 3, 24 }, { 7, 32 }, { 130, 40 }, { 5, 160 }, { 1100, 32 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct data {
    shape shape;
    size_t count;
    stk_float type;
    float *x, *gamma, *beta, *residual;
    void *dy;
    /* Wanted. */
    double *y, *dx, *d_gamma, *d_beta;
} data;

static void normalise(const data *d, const double *x, const double *gamma, const double *beta, double *y)
{
    double mean = 0, variance = 0;
    for (uint32_t c = 0; c < d->shape.channels; c++) mean += x[c] / d->shape.channels;
    for (uint32_t c = 0; c < d->shape.channels; c++)
        variance += (x[c] - mean) * (x[c] - mean) / d->shape.channels;
    for (uint32_t c = 0; c < d->shape.channels; c++)
        y[c] = (x[c] - mean) / sqrt(variance + 1e-5) * gamma[c] + beta[c];
}

/* The scalar whose gradients are asked for, of one row: sum of y dy. */
static double scalar(const data *d, size_t row, const double *x, const double *gamma, const double *beta)
{
    double y[512], sum = 0;
    normalise(d, x, gamma, beta, y);
    for (uint32_t c = 0; c < d->shape.channels; c++)
        sum += y[c] * stk_get(d->dy, row * d->shape.channels + c, d->type);
    return sum;
}

/* Derivative of the scalar of a row by *value, which is one of the arrays' elements. */
static double difference(const data *d, size_t row, double *value, const double *x, const double *gamma,
                         const double *beta, double step)
{
    const double old = *value;
    *value = old + step;
    const double up = scalar(d, row, x, gamma, beta);
    *value = old - step;
    const double down = scalar(d, row, x, gamma, beta);
    *value = old;
    return (up - down) / (2 * step);
}

static void oracle(data *d, double step)
{
    const uint32_t channels = d->shape.channels;
    double x[512], gamma[512], beta[512];
    for (uint32_t c = 0; c < channels; c++) gamma[c] = d->gamma[c], beta[c] = d->beta[c];
    for (size_t row = 0; row < d->shape.rows; row++) {
        for (uint32_t c = 0; c < channels; c++) x[c] = d->x[row * channels + c];
        normalise(d, x, gamma, beta, d->y + row * channels);
        for (uint32_t c = 0; c < channels; c++) {
            d->dx[row * channels + c] = difference(d, row, x + c, x, gamma, beta, step);
            d->d_gamma[c] += difference(d, row, gamma + c, x, gamma, beta, 1e-3);
            d->d_beta[c] += difference(d, row, beta + c, x, gamma, beta, 1e-3);
        }
    }
}

static data make_data(shape s, stk_float type, double mean, double spread)
{
    const size_t count = s.rows * s.channels;
    data d = { .shape = s, .count = count, .type = type };
    d.x = running_between(count, STK_F32, mean - spread, mean + spread, 1);
    d.gamma = running_between(s.channels, STK_F32, 0.5, 1.5, 2);
    d.beta = running_between(s.channels, STK_F32, -1, 1, 3);
    d.residual = running_between(count, STK_F32, -1, 1, 4);
    d.dy = running_between(count, type, -1, 1, 5);
    d.y = stk_calloc(count, sizeof(double));
    d.dx = stk_calloc(count, sizeof(double));
    d.d_gamma = stk_calloc(s.channels, sizeof(double));
    d.d_beta = stk_calloc(s.channels, sizeof(double));
    oracle(&d, 1e-4 * spread);
    return d;
}

static void free_data(data *d)
{
    stk_free(d->x), stk_free(d->gamma), stk_free(d->beta), stk_free(d->residual), stk_free(d->dy);
    stk_free(d->y), stk_free(d->dx), stk_free(d->d_gamma), stk_free(d->d_beta);
}

typedef struct result {
    float *stats, *dx, *d_gamma, *d_beta;
    void *y;
} result;

static result compute(const data *d, stk_cpu_level level, uint32_t threads)
{
    const size_t rows = d->shape.rows;
    result r = { .stats = running_zeros(2 * rows, STK_F32),
                 .dx = running_zeros(d->count, STK_F32),
                 .d_gamma = running_zeros(d->shape.channels, STK_F32),
                 .d_beta = running_zeros(d->shape.channels, STK_F32),
                 .y = running_zeros(d->count, d->type) };
    const stk_layernorm norm = { d->shape.channels, 1e-5f, d->gamma, d->beta, r.d_gamma, r.d_beta };
    running net;
    running_start(&net, level, threads, d->type);
    running_room(&net, stk_layernorm_need(&net.run, &norm, rows));
    stk_layernorm_forward(&net.run, &norm, rows, d->x, r.stats, r.y, d->type);
    memcpy(r.dx, d->residual, d->count * sizeof(float)); /* in place */
    stk_layernorm_backward(&net.run, &norm, rows, d->x, r.stats, d->dy, d->type, r.dx, r.dx);
    running_stop(&net);
    return r;
}

static void free_result(result *r)
{
    stk_free(r->stats), stk_free(r->dx), stk_free(r->d_gamma), stk_free(r->d_beta), stk_free(r->y);
}

/* Compares everything with the oracle; `limit` is that of f32 results. Sums over a thousand rows that cancel
 * each other are allowed eight times as much. */
static void hold(const data *d, const result *r, double limit)
{
    assert_true(running_error(r->y, d->y, d->count, d->type) <= limit + running_rounding(d->type));
    double *dx = stk_calloc(d->count, sizeof *dx);
    for (size_t i = 0; i < d->count; i++) dx[i] = d->dx[i] + d->residual[i];
    assert_true(running_error(r->dx, dx, d->count, STK_F32) <= limit);
    stk_free(dx);
    assert_true(running_error(r->d_gamma, d->d_gamma, d->shape.channels, STK_F32) <= 8 * limit);
    assert_true(running_error(r->d_beta, d->d_beta, d->shape.channels, STK_F32) <= 8 * limit);
}

static void matches_the_oracle(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (stk_float type = STK_F32; type <= STK_F16; type++) {
            data d = make_data(shapes[i], type, 0.3, 1);
            for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
                result r = compute(&d, level, 2);
                hold(&d, &r, 3e-6);
                free_result(&r);
            }
            free_data(&d);
        }
}

/* Mean 100, deviation 0.1: a mean rounded to f32 is off by up to 4e-6, which the division makes 4e-5. A
 * variance by E[x^2] - mean^2 would be off by its own size. */
static void a_large_mean_keeps_its_digits(void **state)
{
    data d = make_data((shape){ 37, 160 }, STK_F32, 100, 0.1 * sqrt(3));
    for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
        result r = compute(&d, level, 2);
        assert_true(running_error(r.y, d.y, d.count, STK_F32) <= 1e-4);
        for (size_t i = 0; i < d.count; i++) r.dx[i] -= d.residual[i];
        assert_true(running_error(r.dx, d.dx, d.count, STK_F32) <= 1e-4);
        free_result(&r);
    }
    free_data(&d);
}

static void threads_give_the_same_bits(void **state)
{
    for (stk_float type = STK_F32; type <= STK_F16; type++) {
        data d = make_data((shape){ 2500, 32 }, type, 0, 1);
        for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
            result one = compute(&d, level, 1);
            for (uint32_t threads = 2; threads <= 3; threads++) {
                result more = compute(&d, level, threads);
                assert_memory_equal(one.y, more.y, d.count * stk_float_bytes(type));
                assert_memory_equal(one.dx, more.dx, d.count * sizeof(float));
                assert_memory_equal(one.d_gamma, more.d_gamma, 32 * sizeof(float));
                assert_memory_equal(one.d_beta, more.d_beta, 32 * sizeof(float));
                free_result(&more);
            }
            free_result(&one);
        }
        free_data(&d);
    }
}

/* Rows made when they are needed, a few at a time, are those of forward to the bit; so are statistics alone.
 */
static void rows_made_on_demand(void **state)
{
    for (stk_float type = STK_F32; type <= STK_F16; type++) {
        data d = make_data((shape){ 53, 40 }, type, 0.2, 1);
        for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
            result r = compute(&d, level, 1);
            const stk_layernorm norm = { .channels = 40, .eps = 1e-5f, .gamma = d.gamma, .beta = d.beta };
            running net;
            running_start(&net, level, 1, type);
            float *stats = running_zeros(2 * 53, STK_F32);
            stk_layernorm_stats(&net.run, &norm, 53, d.x, stats);
            assert_memory_equal(stats, r.stats, 2 * 53 * sizeof(float));
            const stk_layernorm_normalized source = { &net.table, &norm, d.x, stats, type };
            const stk_exec_rows rows = stk_normalised_rows(&source);
            assert_int_equal(rows.stride, 40);
            void *made = running_zeros(7 * 40, type);
            for (size_t first = 0; first < 53; first += 5) {
                const size_t count = 53 - first < 7 ? 53 - first : 7;
                rows.make(rows.context, first, count, made);
                assert_memory_equal(made, stk_at(r.y, first * 40, type), count * 40 * stk_float_bytes(type));
            }
            stk_free(made), stk_free(stats);
            running_stop(&net);
            free_result(&r);
        }
        free_data(&d);
    }
}

static void gradients_add_up_or_are_left_out(void **state)
{
    data d = make_data((shape){ 600, 32 }, STK_F32, 0, 1);
    for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
        result r = compute(&d, level, 2);
        float d_gamma[32], d_beta[32];
        for (int c = 0; c < 32; c++) d_gamma[c] = 3, d_beta[c] = -2;
        stk_layernorm norm = { 32, 1e-5f, d.gamma, d.beta, d_gamma, d_beta };
        running net;
        running_start(&net, level, 2, STK_F32);
        running_room(&net, stk_layernorm_need(&net.run, &norm, 600));
        net.run.accumulate = 1;
        float *dx = running_zeros(d.count, STK_F32), *frozen = running_zeros(d.count, STK_F32);
        stk_layernorm_backward(&net.run, &norm, 600, d.x, r.stats, d.dy, STK_F32, NULL, dx);
        for (int c = 0; c < 32; c++) {
            assert_true(d_gamma[c] == 3 + r.d_gamma[c]);
            assert_true(d_beta[c] == -2 + r.d_beta[c]);
        }
        assert_true(running_error(dx, d.dx, d.count, STK_F32) <= 3e-6);
        norm.d_gamma = norm.d_beta = NULL;
        stk_layernorm_backward(&net.run, &norm, 600, d.x, r.stats, d.dy, STK_F32, NULL, frozen);
        assert_memory_equal(dx, frozen, d.count * sizeof(float));
        stk_free(dx), stk_free(frozen);
        running_stop(&net);
        free_result(&r);
    }
    free_data(&d);
}

UNIT_GROUP(layernorm)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_oracle),
        cmocka_unit_test(a_large_mean_keeps_its_digits),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(rows_made_on_demand),
        cmocka_unit_test(gradients_add_up_or_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
