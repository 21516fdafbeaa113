/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss of pictures against its formula in doubles, whose gradient is held to finite differences first.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

/* One pixel; lines that do not fill a block or fill several; strides with padding; several tasks of a sample.
 */
static const stk_pixel_shape shapes[] = { { 1, 1, 1, 1, 1 },    { 2, 3, 5, 3, 3 },      { 1, 7, 300, 3, 8 },
                                          { 3, 33, 17, 3, 32 }, { 2, 120, 513, 3, 16 }, { 1, 2, 9, 5, 6 } };
static const stoke_loss_kind kinds[] = { STOKE_LOSS_L1, STOKE_LOSS_CHARBONNIER, STOKE_LOSS_MSE };
enum { SHAPES = sizeof shapes / sizeof *shapes, KINDS = sizeof kinds / sizeof *kinds };

typedef struct data {
    stk_pixel_shape shape;
    size_t pixels; /* of a sample */
    stk_pixel_target target;
    float *output, *values;
} data;

/* A target of either layout with a gap between its samples, of NaN. */
static data make_data(stk_pixel_shape shape, int planar)
{
    data d = { .shape = shape, .pixels = (size_t)shape.height * shape.width };
    const size_t own = d.pixels * shape.channels, gap = 7;
    d.output = running_between(shape.batch * d.pixels * shape.stride, STK_F32, -0.2, 1.2, 1);
    d.values = running_between(shape.batch * (own + gap), STK_F32, 0, 1, 2);
    for (uint32_t n = 0; n < shape.batch; n++)
        for (size_t i = 0; i < gap; i++) d.values[n * (own + gap) + own + i] = NAN;
    for (size_t p = 0; p < shape.batch * d.pixels; p++) /* nobody reads the padding */
        for (size_t c = shape.channels; c < shape.stride; c++) d.output[p * shape.stride + c] = NAN;
    d.target = (stk_pixel_target){ d.values, own + gap, planar };
    return d;
}

static void free_data(data *d)
{
    stk_free(d->output), stk_free(d->values);
}

static double target_at(const data *d, size_t sample, size_t pixel, size_t channel)
{
    const size_t at = d->target.planar ? channel * d->pixels + pixel : pixel * d->shape.channels + channel;
    return d->target.data[sample * d->target.sample_stride + at];
}

static double term(stoke_loss_kind kind, double d)
{
    return kind == STOKE_LOSS_L1 ? fabs(d) : kind == STOKE_LOSS_MSE ? d * d : sqrt(d * d + 1e-3 * 1e-3);
}

static double slope(stoke_loss_kind kind, double d)
{
    return kind == STOKE_LOSS_L1    ? (d > 0) - (d < 0)
           : kind == STOKE_LOSS_MSE ? 2 * d
                                    : d / sqrt(d * d + 1e-3 * 1e-3);
}

/* The loss; its gradient times `factor` into `gradient`, of the output's shape. */
static double oracle(const data *d, stoke_loss_kind kind, double factor, double *gradient)
{
    const stk_pixel_shape *s = &d->shape;
    const double count = (double)s->batch * d->pixels * s->channels;
    double sum = 0;
    for (size_t n = 0; n < s->batch; n++)
        for (size_t p = 0; p < d->pixels; p++)
            for (size_t c = 0; c < s->stride; c++) {
                const size_t at = (n * d->pixels + p) * s->stride + c;
                gradient[at] = 0;
                if (c >= s->channels) continue;
                const double difference = d->output[at] - target_at(d, n, p, c);
                sum += term(kind, difference);
                gradient[at] = factor * slope(kind, difference) / count;
            }
    return sum / count;
}

static void oracle_agrees_with_differences(void **state)
{
    for (int k = 0; k < KINDS; k++)
        for (double d = -1.05; d < 1.1; d += 0.1) {
            const double step = 1e-6;
            const double found = (term(kinds[k], d + step) - term(kinds[k], d - step)) / (2 * step);
            assert_true(fabs(found - slope(kinds[k], d)) <= 1e-7);
        }
}

static double compute(const data *d, stoke_loss_kind kind, uint32_t threads, float factor, float *gradient)
{
    running net;
    double loss = -1;
    running_start(&net, STK_CPU_C, threads, STK_F32);
    running_room(&net, stk_pixel_loss_need(&net.run, &d->shape));
    stk_pixel_loss(&net.run, kind, &d->shape, d->output, &d->target, factor, &loss, gradient);
    running_stop(&net);
    return loss;
}

static void matches_the_oracle(void **state)
{
    const float factor = 1024;
    for (int i = 0; i < SHAPES; i++)
        for (int k = 0; k < KINDS; k++)
            for (int planar = 0; planar < 2; planar++) {
                data d = make_data(shapes[i], planar);
                const size_t count = d.shape.batch * d.pixels * d.shape.stride;
                const double scale = d.shape.batch * d.pixels * d.shape.channels / (double)factor;
                double *wanted = stk_alloc(count * sizeof *wanted);
                float *gradient = running_numbers(count, STK_F32, 9, 5); /* overwritten */
                assert_non_null(wanted);
                const double want = oracle(&d, kinds[k], factor, wanted);
                const double loss = compute(&d, kinds[k], 2, factor, gradient);
                assert_true(fabs(loss - want) <= 2e-7 * want);
                assert_true(compute(&d, kinds[k], 2, factor, NULL) == loss);
                for (size_t e = 0; e < count; e++) {
                    if (e % d.shape.stride >= d.shape.channels) assert_true(gradient[e] == 0);
                    /* The differences are rounded before sqrt(d^2 + eps^2) has its curve, of 1 / eps. */
                    assert_true(fabs(gradient[e] - wanted[e]) * scale <= 1e-4);
                }
                stk_free(wanted), stk_free(gradient);
                free_data(&d);
            }
}

static void threads_give_the_same_bits(void **state)
{
    for (int k = 0; k < KINDS; k++) {
        data d = make_data((stk_pixel_shape){ 3, 97, 411, 3, 8 }, 1);
        const size_t count = d.shape.batch * d.pixels * d.shape.stride;
        float *one = running_zeros(count, STK_F32), *more = running_zeros(count, STK_F32);
        const double loss = compute(&d, kinds[k], 1, 1, one);
        for (uint32_t threads = 2; threads <= 3; threads++) {
            assert_true(compute(&d, kinds[k], threads, 1, more) == loss);
            assert_memory_equal(one, more, count * sizeof *one);
        }
        stk_free(one), stk_free(more);
        free_data(&d);
    }
}

static void equal_pictures_have_no_slope(void **state)
{
    data d = make_data((stk_pixel_shape){ 1, 4, 6, 3, 3 }, 0);
    float gradient[4 * 6 * 3];
    memcpy(d.output, d.values, sizeof gradient);
    for (int k = 0; k < KINDS; k++) {
        const double loss = compute(&d, kinds[k], 1, 1, gradient);
        assert_true(fabs(loss - (kinds[k] == STOKE_LOSS_CHARBONNIER ? 1e-3 : 0)) <= 1e-9);
        for (int i = 0; i < 4 * 6 * 3; i++) assert_true(gradient[i] == 0);
    }
    free_data(&d);
}

/* In the output or in the target, wherever: the loss is NaN, and so is the slope there and only there. */
static void nan_is_seen(void **state)
{
    static const size_t places[] = { 0, 29, 3 * 31 * 3 - 1 };
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 6; i++) {
            data d = make_data((stk_pixel_shape){ 1, 3, 31, 3, 3 }, 0);
            float gradient[3 * 31 * 3];
            (i % 2 ? d.output : d.values)[places[i / 2]] = NAN;
            assert_true(isnan(compute(&d, kinds[k], 2, 1, gradient)));
            for (size_t e = 0; e < 3 * 31 * 3; e++)
                assert_int_equal(isnan(gradient[e]) != 0, e == places[i / 2]);
            free_data(&d);
        }
}

UNIT_GROUP(pixel_loss)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_agrees_with_differences),
        cmocka_unit_test(matches_the_oracle),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(equal_pictures_have_no_slope),
        cmocka_unit_test(nan_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
