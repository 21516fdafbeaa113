/* SPDX-License-Identifier: Apache-2.0
 *
 * update against the formulas of torch.optim in double.
 */
#include "tests/unit/fixture_run.h"

#include "src/base/cpu.h"
#include "src/net/ops/ops.h"

enum { COUNT = 40003, STEPS = 5 };

/* Groups that begin and end inside chunks, of one element, of none, frozen, and over several chunks. */
static const stk_update_group groups[] = { { 0, 1, 1, 1 },           { 1, 0, 1, 1 },
                                           { 1, 998, 1, 0 },         { 999, 13, 0, 0 },
                                           { 1012, 17000, 10, 1 },   { 18012, 19, 0, 0 },
                                           { 18031, 21972, 0.5f, 1 } };
enum { GROUPS = sizeof groups / sizeof *groups, CHUNKS = (COUNT + STOKE_NET_CHUNK - 1) / STOKE_NET_CHUNK };

typedef struct scratch {
    running net;
    stk_update update;
    float *arrays[5];
} scratch;

static double noise(uint64_t seed, uint64_t i)
{
    return (double)(stk_mix64(i + (seed << 40)) >> 11) * 0x1p-52 - 1;
}

/* 1e-5 .. 1e-2 */
static float gradient_of(uint64_t step, uint64_t i)
{
    return (float)(noise(step + 10, i) * pow(10, -2 - 3 * fabs(noise(9, i))));
}

/* Gradients of one step; those of frozen groups are rubbish. */
static void set_gradients(float *gradients, uint64_t step)
{
    for (size_t i = 0; i < COUNT; i++) gradients[i] = gradient_of(step, i);
    for (size_t g = 0; g < GROUPS; g++)
        for (size_t i = 0; groups[g].lr_factor == 0 && i < groups[g].count; i++)
            gradients[groups[g].first + i] = NAN;
}

static void bench_open(scratch *b, stk_cpu_level level, uint32_t threads, int moments, int average)
{
    running_start(&b->net, level, threads, STK_F32);
    for (int k = 0; k < 5; k++) b->arrays[k] = stk_calloc(COUNT, sizeof(float));
    for (size_t i = 0; i < COUNT; i++) b->arrays[0][i] = b->arrays[4][i] = (float)noise(1, i);
    b->update = (stk_update){ .values = b->arrays[0],
                              .gradients = b->arrays[1],
                              .first = moments > 0 ? b->arrays[2] : NULL,
                              .second = moments > 1 ? b->arrays[3] : NULL,
                              .average = average ? b->arrays[4] : NULL,
                              .groups = groups,
                              .group_count = GROUPS,
                              .count = COUNT };
}

static void bench_close(scratch *b)
{
    running_stop(&b->net);
    for (int k = 0; k < 5; k++) stk_free(b->arrays[k]);
}

static double norm_of(const scratch *b, double factor)
{
    double squares[CHUNKS];
    stk_gradient_squares(&b->net.run, &b->update, 0, CHUNKS, squares);
    return stk_gradient_norm(squares, CHUNKS, factor);
}

static stoke_update settings_of(int nesterov)
{
    return (stoke_update){ .lr = 3e-3,
                           .beta1 = 0.9,
                           .beta2 = 0.98,
                           .eps = 1e-8,
                           .weight_decay = 0.05,
                           .average_decay = 0.9,
                           .nesterov = nesterov };
}

/* One element through all steps, as torch.optim.AdamW and SGD do it. */
static void oracle(const stk_update_group *group, size_t i, int moments, const stoke_update *s, double factor,
                   double *value, double *average)
{
    double m = 0, v = 0;
    *value = *average = (float)noise(1, i);
    for (uint64_t step = 1; step <= STEPS; step++) {
        const double lr = s->lr * group->lr_factor, decay = s->weight_decay * group->decay_factor;
        double g = factor * gradient_of(step, i);
        if (moments == 2) {
            *value *= 1 - lr * decay;
            m = s->beta1 * m + (1 - s->beta1) * g;
            v = s->beta2 * v + (1 - s->beta2) * g * g;
            const double m_hat = m / (1 - pow(s->beta1, (double)step));
            const double v_hat = v / (1 - pow(s->beta2, (double)step));
            *value -= lr * m_hat / (sqrt(v_hat) + s->eps);
        } else {
            g += decay * *value;
            m = s->beta1 * m + g;
            *value -= lr * (moments == 0 ? g : s->nesterov ? g + s->beta1 * m : m);
        }
        *average = s->average_decay * *average + (1 - s->average_decay) * *value;
    }
}

/* Tolerance: a few roundings of values up to 1 per step. */
static void check(int moments, int nesterov, int with_average)
{
    const stoke_update settings = settings_of(nesterov);
    const double factor = 0.4;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        scratch b;
        bench_open(&b, (stk_cpu_level)level, 2, moments, with_average);
        for (uint64_t step = 1; step <= STEPS; step++) {
            set_gradients(b.update.gradients, step);
            stk_update_run(&b.net.run, &b.update, 0, CHUNKS, &settings, step, factor);
        }
        for (size_t g = 0; g < GROUPS; g++)
            for (size_t i = groups[g].first; i < groups[g].first + groups[g].count; i += i % 16 ? 1 : 5) {
                double value = (float)noise(1, i), average = value;
                const int frozen = groups[g].lr_factor == 0;
                if (!frozen) oracle(&groups[g], i, moments, &settings, factor, &value, &average);
                if (frozen)
                    assert_true(b.update.values[i] == (float)value);
                else
                    assert_true(fabs(b.update.values[i] - value) < 2e-6);
                if (!with_average || frozen) average = (float)noise(1, i);
                assert_true(fabs(b.arrays[4][i] - average) < 2e-6);
            }
        bench_close(&b);
    }
}

static void adamw_is_torchs(void **state)
{
    (void)state;
    check(2, 0, 0);
}

static void adamw_with_an_average(void **state)
{
    (void)state;
    check(2, 0, 1);
}

static void sgd_is_torchs(void **state)
{
    (void)state;
    check(0, 0, 0);
    check(1, 0, 1);
    check(1, 1, 0);
}

/* As torch: parameters with a gradient of 0 do not move, but for the decay. */
static void no_gradient_no_step(void **state)
{
    (void)state;
    stoke_update settings = settings_of(0);
    settings.weight_decay = 0;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        scratch b;
        bench_open(&b, (stk_cpu_level)level, 1, 2, 0);
        stk_update_run(&b.net.run, &b.update, 0, CHUNKS, &settings, 1, 1);
        for (size_t i = 0; i < COUNT; i++) assert_true(b.update.values[i] == (float)noise(1, i));
        bench_close(&b);
    }
}

static void norm_of_all_that_is_not_frozen(void **state)
{
    (void)state;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        scratch b;
        bench_open(&b, (stk_cpu_level)level, 2, 2, 0);
        set_gradients(b.update.gradients, 1);
        long double sum = 0;
        for (size_t i = 0; i < COUNT; i++)
            if (!isnan(b.update.gradients[i]))
                sum += (long double)b.update.gradients[i] * b.update.gradients[i];
        const double expected = (double)sqrtl(sum) * 0.25;
        assert_true(fabs(norm_of(&b, 0.25) - expected) < 1e-13 * expected);
        /* squares no float can hold; and an overflow is not lost */
        b.update.gradients[5] = 3e30f;
        assert_true(fabs(norm_of(&b, 1) / (double)3e30f - 1) < 1e-12);
        b.update.gradients[5] = INFINITY;
        assert_true(isinf(norm_of(&b, 1)));
        b.update.gradients[5] = NAN;
        assert_true(isnan(norm_of(&b, 1)));
        bench_close(&b);
    }
}

/* As processes share it: each takes some chunks, and the norm is that of all. */
static void parts_make_the_whole(void **state)
{
    (void)state;
    const stoke_update settings = settings_of(0);
    scratch whole, parts;
    bench_open(&whole, stk_cpu_detected(), 2, 2, 1);
    bench_open(&parts, stk_cpu_detected(), 2, 2, 1);
    for (uint64_t step = 1; step <= 3; step++) {
        set_gradients(whole.update.gradients, step);
        set_gradients(parts.update.gradients, step);
        double squares[CHUNKS];
        for (uint32_t first = 0; first < CHUNKS; first++)
            stk_gradient_squares(&parts.net.run, &parts.update, first, first + 1, squares + first);
        const double norm = norm_of(&whole, 1), same = stk_gradient_norm(squares, CHUNKS, 1);
        assert_memory_equal(&norm, &same, sizeof norm);
        stk_update_run(&whole.net.run, &whole.update, 0, CHUNKS, &settings, step, 1 / norm);
        stk_update_run(&parts.net.run, &parts.update, 1, CHUNKS, &settings, step, 1 / norm);
        stk_update_run(&parts.net.run, &parts.update, 0, 1, &settings, step, 1 / norm);
        for (int k = 0; k < 5; k++)
            assert_memory_equal(parts.arrays[k], whole.arrays[k], COUNT * sizeof(float));
    }
    bench_close(&whole);
    bench_close(&parts);
}

static void same_bits_for_any_team(void **state)
{
    (void)state;
    const stoke_update settings = settings_of(1);
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++)
        for (int moments = 1; moments <= 2; moments++) {
            scratch b[3];
            double norm[3] = { 0 };
            for (uint32_t t = 0; t < 3; t++) {
                bench_open(&b[t], (stk_cpu_level)level, t + 1, moments, 1);
                for (uint64_t step = 1; step <= 3; step++) {
                    set_gradients(b[t].update.gradients, step);
                    norm[t] = norm_of(&b[t], 1);
                    stk_update_run(&b[t].net.run, &b[t].update, 0, CHUNKS, &settings, step, 1 / norm[t]);
                }
                assert_memory_equal(&norm[t], &norm[0], sizeof(double));
                for (int k = 0; k < 5; k++)
                    assert_memory_equal(b[t].arrays[k], b[0].arrays[k], COUNT * sizeof(float));
            }
            for (uint32_t t = 0; t < 3; t++) bench_close(&b[t]);
        }
}

UNIT_GROUP(update)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_is_torchs),
        cmocka_unit_test(adamw_with_an_average),
        cmocka_unit_test(sgd_is_torchs),
        cmocka_unit_test(no_gradient_no_step),
        cmocka_unit_test(norm_of_all_that_is_not_frozen),
        cmocka_unit_test(same_bits_for_any_team),
        cmocka_unit_test(parts_make_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
