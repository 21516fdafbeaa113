/* SPDX-License-Identifier: Apache-2.0
 *
 * PSNR and SSIM against their definition in doubles, with a window of 11 x 11 at every pixel.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include <stoke/tools/metrics.h>

#include "src/base/mem.h"
#include "src/base/rng.h"

/* A pair of pictures, and how they lie. */
typedef struct data {
    uint32_t height, width, channels;
    size_t count;
    stoke_restored_picture found, truth;
    void *values[2];
} data;

enum { PADDING = 2 };

/* Layout 0: [h][w][channels]; 1: planes; 2: [h][w][channels + PADDING] with NaN (255) in the padding. */
static stoke_restored_picture lay(const data *d, int layout, stoke_dtype dtype, void *values)
{
    const size_t c = d->channels + (layout == 2 ? PADDING : 0);
    return (stoke_restored_picture){ .data = values,
                                     .dtype = dtype,
                                     .row = layout == 1 ? d->width : d->width * c,
                                     .column = layout == 1 ? 1 : c,
                                     .plane = layout == 1 ? (size_t)d->height * d->width : 1 };
}

static size_t element(const stoke_restored_picture *p, size_t y, size_t x, size_t c)
{
    return y * p->row + x * p->column + c * p->plane;
}

static double value_at(const stoke_restored_picture *p, size_t y, size_t x, size_t c)
{
    const size_t i = element(p, y, x, c);
    return p->dtype == STOKE_DTYPE_F32 ? ((const float *)p->data)[i] : ((const uint8_t *)p->data)[i];
}

/* Waves with noise, and in large pictures a flat corner, where variances are 0. */
static double made(size_t y, size_t x, size_t c, int noisy, int large)
{
    if (large && y < 8 && x < 14) return 0.25;
    const double noise = stk_unit((uint32_t)stk_mix64(y << 40 | x << 20 | c << 2 | (size_t)noisy));
    return 0.5 + 0.35 * sin(0.3 * (double)x + (double)c) * cos(0.2 * (double)y) +
           (noisy ? 0.1 : 0.02) * noise;
}

static data make_data(uint32_t height, uint32_t width, uint32_t channels, int layout, stoke_dtype dtype)
{
    data d = { .height = height, .width = width, .channels = channels };
    d.count = (size_t)height * width * (channels + PADDING);
    for (int i = 0; i < 2; i++) {
        d.values[i] = stk_alloc(d.count * sizeof(float));
        assert_non_null(d.values[i]);
        memset(d.values[i], 0xff, d.count * sizeof(float));
        stoke_restored_picture *p = i ? &d.truth : &d.found;
        *p = lay(&d, layout, dtype, d.values[i]);
        for (size_t y = 0; y < height; y++)
            for (size_t x = 0; x < width; x++)
                for (size_t c = 0; c < channels; c++) {
                    const double value = made(y, x, c, i, height > 20);
                    if (dtype == STOKE_DTYPE_F32)
                        ((float *)d.values[i])[element(p, y, x, c)] = (float)value;
                    else
                        ((uint8_t *)d.values[i])[element(p, y, x, c)] = (uint8_t)lrint(255 * value);
                }
    }
    return d;
}

static void free_data(data *d)
{
    stk_free(d->values[0]), stk_free(d->values[1]);
}

static size_t mirror(int64_t at, int64_t size)
{
    return (size_t)(at < 0 ? -at : at >= size ? 2 * size - 2 - at : at);
}

/* SSIM at a pixel, from its window. */
static double similar(const data *d, double range, int64_t y, int64_t x, size_t c)
{
    double weights = 0, a = 0, b = 0, aa = 0, bb = 0, ab = 0;
    for (int dy = -5; dy <= 5; dy++)
        for (int dx = -5; dx <= 5; dx++) {
            const double weight = exp(-(dx * dx + dy * dy) / (2 * 1.5 * 1.5));
            const size_t line = mirror(y + dy, d->height), column = mirror(x + dx, d->width);
            const double p = value_at(&d->found, line, column, c), t = value_at(&d->truth, line, column, c);
            weights += weight;
            a += weight * p, b += weight * t;
            aa += weight * p * p, bb += weight * t * t, ab += weight * p * t;
        }
    a /= weights, b /= weights;
    const double c1 = pow(0.01 * range, 2), c2 = pow(0.03 * range, 2);
    return (2 * a * b + c1) * (2 * (ab / weights - a * b) + c2) /
           ((a * a + b * b + c1) * (aa / weights - a * a + bb / weights - b * b + c2));
}

static stoke_restored_score oracle(const data *d, double range, double *squares)
{
    const double count = (double)d->height * d->width * d->channels;
    double sum = 0;
    *squares = 0;
    for (uint32_t y = 0; y < d->height; y++)
        for (uint32_t x = 0; x < d->width; x++)
            for (uint32_t c = 0; c < d->channels; c++) {
                sum += similar(d, range, y, x, c);
                *squares += pow(value_at(&d->found, y, x, c) - value_at(&d->truth, y, x, c), 2);
            }
    return (stoke_restored_score){ 10 * log10(range * range * count / *squares), sum / count };
}

static stoke_restored *make_restored(double range)
{
    stoke_restored *r;
    assert_int_equal(stoke_restored_create(&r, range, NULL), STOKE_OK);
    return r;
}

static stoke_restored_score add(stoke_restored *r, const data *d)
{
    stoke_restored_score own;
    assert_int_equal(
        stoke_restored_add(r, d->height, d->width, d->channels, &d->found, &d->truth, &own, NULL), STOKE_OK);
    return own;
}

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-10 * (1 + fabs(b));
}

/* The least that has a score; fewer lines than the window, and columns; layouts and types; larger after
 * smaller and the other way round. */
static void matches_the_oracle(void **state)
{
    static const uint32_t sizes[][3] = {
        { 6, 6, 1 }, { 6, 40, 3 }, { 33, 7, 3 }, { 29, 64, 3 }, { 12, 21, 4 }
    };
    for (int type = 0; type < 2; type++) {
        const double range = type ? 255 : 1;
        stoke_restored *r = make_restored(range);
        double psnr = 0, ssim = 0, all = 0, values = 0, pictures = 0;
        for (int i = 0; i < 5; i++)
            for (int layout = 0; layout < 3; layout++) {
                data d = make_data(sizes[i][0], sizes[i][1], sizes[i][2], layout,
                                   type ? STOKE_DTYPE_U8 : STOKE_DTYPE_F32);
                double squares;
                const stoke_restored_score wanted = oracle(&d, range, &squares), own = add(r, &d);
                assert_true(near(own.psnr, wanted.psnr));
                assert_true(near(own.ssim, wanted.ssim));
                psnr += wanted.psnr, ssim += wanted.ssim, all += squares;
                values += (double)d.height * d.width * d.channels;
                pictures++;
                free_data(&d);
            }
        const stoke_scores s = stoke_restored_scores(r);
        assert_true(near(s.psnr, 10 * log10(range * range * values / all)));
        assert_true(near(s.ssim, ssim / pictures));
        assert_true(near(stoke_restored_psnr_mean(r), psnr / pictures));
        assert_true(isnan(s.miou) && isnan(s.pixel_accuracy));
        stoke_restored_destroy(&r);
    }
}

static void equal_pictures(void **state)
{
    data d = make_data(20, 31, 3, 0, STOKE_DTYPE_F32);
    memcpy(d.values[0], d.values[1], d.count * sizeof(float));
    stoke_restored *r = make_restored(1);
    const stoke_restored_score own = add(r, &d);
    assert_true(isinf(own.psnr) && own.psnr > 0);
    assert_true(fabs(own.ssim - 1) <= 1e-12);
    assert_true(isinf(stoke_restored_scores(r).psnr));
    stoke_restored_destroy(&r);
    free_data(&d);
}

static void nan_is_seen(void **state)
{
    for (int which = 0; which < 2; which++) {
        data d = make_data(20, 31, 3, 0, STOKE_DTYPE_F32);
        ((float *)d.values[which])[d.height * d.width * d.channels - 1] = NAN;
        stoke_restored *r = make_restored(1);
        const stoke_restored_score own = add(r, &d);
        assert_true(isnan(own.psnr) && isnan(own.ssim));
        assert_true(isnan(stoke_restored_scores(r).psnr) && isnan(stoke_restored_scores(r).ssim));
        stoke_restored_destroy(&r);
        free_data(&d);
    }
}

static void merged_as_added(void **state)
{
    data a = make_data(20, 31, 3, 0, STOKE_DTYPE_F32), b = make_data(15, 12, 3, 1, STOKE_DTYPE_F32);
    stoke_restored *both = make_restored(1), *first = make_restored(1), *second = make_restored(1);
    add(both, &a), add(both, &b), add(first, &a), add(second, &b);
    assert_int_equal(stoke_restored_merge(first, second, NULL), STOKE_OK);
    const stoke_scores s = stoke_restored_scores(both), t = stoke_restored_scores(first);
    assert_true(s.psnr == t.psnr && s.ssim == t.ssim && s.pixels == t.pixels);
    assert_true(stoke_restored_psnr_mean(both) == stoke_restored_psnr_mean(first));
    assert_int_equal(s.pixels, 20 * 31 + 15 * 12);
    stoke_restored_reset(first);
    assert_true(isnan(stoke_restored_scores(first).psnr) && isnan(stoke_restored_psnr_mean(first)));
    add(first, &a), add(first, &b);
    assert_true(stoke_restored_scores(first).ssim == s.ssim);
    stoke_restored_destroy(&both), stoke_restored_destroy(&first), stoke_restored_destroy(&second);
    free_data(&a), free_data(&b);
}

static void refusals_say_why(void **state)
{
    stoke_error err;
    stoke_restored *r, *bytes = make_restored(255);
    assert_int_equal(stoke_restored_create(&r, 0, &err), STOKE_E_INVALID);
    assert_null(r);
    assert_non_null(strstr(err.message, "range"));
    assert_int_equal(stoke_restored_create(&r, NAN, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_restored_create(&r, INFINITY, &err), STOKE_E_INVALID);
    r = make_restored(1);
    data d = make_data(8, 8, 3, 0, STOKE_DTYPE_F32);
    assert_int_equal(stoke_restored_add(r, 5, 8, 3, &d.found, &d.truth, NULL, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "5x8"));
    assert_int_equal(stoke_restored_add(r, 8, 5, 3, &d.found, &d.truth, NULL, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_restored_add(r, 8, 8, 0, &d.found, &d.truth, NULL, &err), STOKE_E_INVALID);
    d.truth.dtype = STOKE_DTYPE_I32;
    assert_int_equal(stoke_restored_add(r, 8, 8, 3, &d.found, &d.truth, NULL, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_restored_merge(r, bytes, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "255"));
    assert_true(isnan(stoke_restored_scores(r).psnr)); /* nothing was added */
    stoke_restored_destroy(&r), stoke_restored_destroy(&bytes);
    stoke_restored_destroy(&r); /* none */
    free_data(&d);
}

/* Each allocation of it fails once. */
static void lack_of_memory_is_told(void **state)
{
    data d = make_data(8, 8, 3, 0, STOKE_DTYPE_F32);
    stoke_error err;
    stoke_restored *r;
    stk_mem_fail_after(0);
    assert_int_equal(stoke_restored_create(&r, 1, &err), STOKE_E_NOMEM);
    stk_mem_fail_after(-1);
    r = make_restored(1);
    stk_mem_fail_after(0);
    assert_int_equal(stoke_restored_add(r, 8, 8, 3, &d.found, &d.truth, NULL, &err), STOKE_E_NOMEM);
    stk_mem_fail_after(-1);
    assert_true(isnan(stoke_restored_scores(r).psnr));
    add(r, &d);
    stoke_restored_destroy(&r);
    free_data(&d);
}

/* A row of scores.def belongs to one task, the loss to both. */
static void scores_have_a_task(void **state)
{
    assert_true(stoke_metric_fits(STOKE_METRIC_PSNR, STOKE_TASK_RESTORE));
    assert_true(stoke_metric_fits(STOKE_METRIC_SSIM, STOKE_TASK_RESTORE));
    assert_false(stoke_metric_fits(STOKE_METRIC_PSNR, STOKE_TASK_SEGMENT));
    assert_true(stoke_metric_fits(STOKE_METRIC_MIOU, STOKE_TASK_SEGMENT));
    assert_false(stoke_metric_fits(STOKE_METRIC_ACCURACY, STOKE_TASK_RESTORE));
    assert_true(stoke_metric_fits(STOKE_METRIC_LOSS, STOKE_TASK_SEGMENT));
    assert_true(stoke_metric_fits(STOKE_METRIC_LOSS, STOKE_TASK_RESTORE));
}

UNIT_GROUP(restored)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_oracle), cmocka_unit_test(equal_pictures),
        cmocka_unit_test(nan_is_seen),        cmocka_unit_test(merged_as_added),
        cmocka_unit_test(refusals_say_why),   cmocka_unit_test(lack_of_memory_is_told),
        cmocka_unit_test(scores_have_a_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
