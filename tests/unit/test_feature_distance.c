/* SPDX-License-Identifier: Apache-2.0
 *
 * The distance of feature maps against its formula in doubles.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

static const stoke_loss_kind kinds[] = { STOKE_LOSS_L1, STOKE_LOSS_CHARBONNIER, STOKE_LOSS_MSE };
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct data {
    stk_feature_shape shape;
    stk_map a, b, d_a; /* d_a: as it is before */
} data;

static stk_map make_map(const stk_feature_shape *shape, size_t padding, stk_float type, uint64_t seed)
{
    const size_t stride = shape->channels + padding;
    return (stk_map){ running_numbers(shape->pixels * stride, type, 2, seed), type, stride };
}

static data make_data(size_t pixels, uint32_t channels, stk_float type, stk_float gradient)
{
    data d = { .shape = { pixels, channels } };
    d.a = make_map(&d.shape, 3, type, 1);
    d.b = make_map(&d.shape, 0, type, 2);
    d.d_a = make_map(&d.shape, 5, gradient, 3);
    return d;
}

static void free_data(data *d)
{
    stk_free(d->a.data), stk_free(d->b.data), stk_free(d->d_a.data);
}

typedef struct result {
    double loss;
    void *d_a;
} result;

static size_t gradient_bytes(const data *d)
{
    return d->shape.pixels * d->d_a.stride * stk_float_bytes(d->d_a.type);
}

static result compute(const data *d, stoke_loss_kind kind, uint32_t threads, float factor, int add)
{
    result r = { .d_a = stk_alloc(gradient_bytes(d)) };
    assert_non_null(r.d_a);
    memcpy(r.d_a, d->d_a.data, gradient_bytes(d));
    const stk_map to = { r.d_a, d->d_a.type, d->d_a.stride };
    double again;
    running net;
    running_start(&net, STK_CPU_C, threads, STK_F32);
    running_room(&net, stk_feature_distance_need(&net.run, &d->shape));
    stk_feature_distance(&net.run, kind, &d->shape, &d->a, &d->b, factor, &r.loss, &to, add);
    stk_feature_distance(&net.run, kind, &d->shape, &d->a, &d->b, factor, &again, NULL, 0);
    running_stop(&net);
    assert_true(again == r.loss);
    return r;
}

static double term(stoke_loss_kind kind, double d, double *slope)
{
    const double root = sqrt(d * d + 1e-3 * 1e-3);
    *slope = kind == STOKE_LOSS_L1 ? (d > 0) - (d < 0) : kind == STOKE_LOSS_MSE ? 2 * d : d / root;
    return kind == STOKE_LOSS_L1 ? fabs(d) : kind == STOKE_LOSS_MSE ? d * d : root;
}

static void hold(const data *d, stoke_loss_kind kind, float factor, int add, const result *r)
{
    const double count = (double)d->shape.pixels * d->shape.channels;
    double sum = 0;
    for (size_t p = 0; p < d->shape.pixels; p++)
        for (size_t c = 0; c < d->d_a.stride; c++) {
            const double before = stk_get(d->d_a.data, p * d->d_a.stride + c, d->d_a.type);
            const double found = stk_get(r->d_a, p * d->d_a.stride + c, d->d_a.type);
            double slope, wanted = before;
            if (c < d->shape.channels) {
                sum += term(kind,
                            (double)stk_get(d->a.data, p * d->a.stride + c, d->a.type) -
                                (double)stk_get(d->b.data, p * d->b.stride + c, d->b.type),
                            &slope);
                wanted = factor * slope / count + (add ? before : 0);
            }
            assert_true(fabs(found - wanted) <=
                        (1e-5 + 2 * running_rounding(d->d_a.type)) * (1 + fabs(wanted)));
        }
    assert_true(fabs(r->loss - sum / count) <= 2e-7 * sum / count);
}

static void matches_the_oracle(void **state)
{
    static const stk_feature_shape shapes[] = { { 1, 1 }, { 35, 64 }, { 40, 515 }, { 3000, 64 } };
    for (int i = 0; i < 4; i++)
        for (int types = 0; types < 9; types++)
            for (int k = 0; k < KINDS; k++)
                for (int add = 0; add < 2; add++) {
                    data d = make_data(shapes[i].pixels, shapes[i].channels, types % 3, types / 3);
                    const float factor = (float)(shapes[i].pixels * shapes[i].channels); /* slopes near 1 */
                    result r = compute(&d, kinds[k], 2, factor, add);
                    hold(&d, kinds[k], factor, add, &r);
                    stk_free(r.d_a);
                    free_data(&d);
                }
}

static void threads_give_the_same_bits(void **state)
{
    for (int k = 0; k < KINDS; k++) {
        data d = make_data(9000, 64, STK_BF16, STK_F32);
        result one = compute(&d, kinds[k], 1, 1, 1);
        for (uint32_t threads = 2; threads <= 3; threads++) {
            result more = compute(&d, kinds[k], threads, 1, 1);
            assert_true(one.loss == more.loss);
            assert_memory_equal(one.d_a, more.d_a, gradient_bytes(&d));
            stk_free(more.d_a);
        }
        stk_free(one.d_a);
        free_data(&d);
    }
}

UNIT_GROUP(feature_distance)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(matches_the_oracle),
                                        cmocka_unit_test(threads_give_the_same_bits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
