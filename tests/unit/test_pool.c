/* SPDX-License-Identifier: Apache-2.0
 *
 * The maximum of 2x2 pixels against its definition, every bit of every map.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

/* One window; odd sides; a column alone, which has no window; padding; more channels than a block; several
 * tasks. batch, height, width, channels, type, strides. */
static const stk_pool shapes[] = { { 1, 2, 2, 1, STK_F32, 1, 1 },       { 2, 5, 7, 3, STK_F32, 3, 4 },
                                   { 1, 4, 1, 2, STK_F32, 2, 2 },       { 1, 2, 9, 5, STK_F32, 8, 8 },
                                   { 1, 4, 4, 300, STK_F32, 304, 300 }, { 2, 37, 90, 64, STK_F32, 64, 64 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct data {
    stk_pool shape;
    size_t large, small; /* elements */
    void *x, *dy;
} data;

/* Few different values, so that maxima are often met twice; some NaN. */
static data make_data(stk_pool shape, stk_float type)
{
    shape.type = type;
    const size_t windows = (size_t)shape.batch * (shape.height / 2) * (shape.width / 2);
    data d = { .shape = shape,
               .large = (size_t)shape.batch * shape.height * shape.width * shape.large_stride,
               .small = windows * shape.small_stride };
    d.x = running_numbers(d.large, type, 3, 1);
    d.dy = running_numbers(d.small, type, 2, 2);
    for (size_t i = 0; i < d.large; i++) {
        const float value = stk_get(d.x, i, type);
        stk_put(d.x, i, roundf(value), type);
        if (type == STK_F32 && i % 97 == 11) stk_put(d.x, i, NAN, type);
    }
    return d;
}

static void free_data(data *d)
{
    stk_free(d->x), stk_free(d->dy);
}

typedef struct result {
    void *y, *dx;
} result;

static result before(const data *d)
{
    return (result){ running_numbers(d->small, d->shape.type, 1, 3),
                     running_numbers(d->large, d->shape.type, 1, 4) };
}

static void free_result(result *r)
{
    stk_free(r->y), stk_free(r->dx);
}

static result compute(const data *d, uint32_t threads, int add)
{
    result r = before(d);
    running net;
    running_start(&net, STK_CPU_C, threads, d->shape.type);
    stk_pool_forward(&net.run, &d->shape, d->x, r.y);
    stk_pool_backward(&net.run, &d->shape, d->x, d->dy, r.dx, add);
    running_stop(&net);
    return r;
}

/* Element `c` of pixel (y, x) of an image of the large map. */
static size_t element(const stk_pool *s, size_t image, size_t y, size_t x, size_t c)
{
    return ((image * s->height + y) * s->width + x) * s->large_stride + c;
}

/* One window of one channel into `r`. */
static void oracle_window(const data *d, size_t image, size_t y, size_t x, size_t c, result *r)
{
    const stk_pool *s = &d->shape;
    const stk_float type = s->type;
    const size_t small = ((image * (s->height / 2) + y) * (s->width / 2) + x) * s->small_stride + c;
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < 4; i++) {
        const size_t at = element(s, image, 2 * y + i / 2, 2 * x + i % 2, c);
        const float value = stk_get(d->x, at, type);
        if (first == SIZE_MAX || value > stk_get(d->x, first, type) || isnan(value)) first = at;
    }
    stk_put(r->y, small, stk_get(d->x, first, type), type);
    stk_put(r->dx, first, stk_get(r->dx, first, type) + stk_get(d->dy, small, type), type);
}

static result oracle(const data *d, int add)
{
    const stk_pool *s = &d->shape;
    result r = before(d);
    for (size_t i = 0; i < d->large && !add; i++)
        if (i % s->large_stride < s->channels) stk_put(r.dx, i, 0, s->type);
    for (size_t image = 0; image < s->batch; image++)
        for (size_t y = 0; y < s->height / 2; y++)
            for (size_t x = 0; x < s->width / 2; x++)
                for (size_t c = 0; c < s->channels; c++) oracle_window(d, image, y, x, c, &r);
    return r;
}

static void matches_the_definition(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (stk_float type = STK_F32; type <= STK_F16; type++)
            for (int add = 0; add < 2; add++) {
                data d = make_data(shapes[i], type);
                result wanted = oracle(&d, add);
                for (uint32_t threads = 1; threads <= 3; threads++) {
                    result r = compute(&d, threads, add);
                    assert_memory_equal(r.y, wanted.y, d.small * stk_float_bytes(type));
                    assert_memory_equal(r.dx, wanted.dx, d.large * stk_float_bytes(type));
                    free_result(&r);
                }
                free_result(&wanted);
                free_data(&d);
            }
}

/* The gradient is that of the sum of dy * y: where maxima are alone, differences say so. */
static void gradient_agrees_with_differences(void **state)
{
    data d = make_data((stk_pool){ 1, 5, 6, 3, STK_F32, 3, 3 }, STK_F32);
    float *x = d.x;
    for (size_t i = 0; i < d.large; i++) x[i] = (float)(i * 37 % d.large) / 8; /* all different, by 1/8 */
    result r = compute(&d, 1, 0);
    running net;
    running_start(&net, STK_CPU_C, 1, STK_F32);
    for (size_t i = 0; i < d.large; i++) {
        double sum[2] = { 0, 0 };
        for (int side = 0; side < 2; side++) {
            const float old = x[i];
            x[i] += side ? 0.0625f : -0.0625f;
            stk_pool_forward(&net.run, &d.shape, x, r.y);
            for (size_t k = 0; k < d.small; k++) sum[side] += (double)((float *)r.y)[k] * ((float *)d.dy)[k];
            x[i] = old;
        }
        assert_true(fabs((sum[1] - sum[0]) / 0.125 - ((float *)r.dx)[i]) <= 1e-6);
    }
    running_stop(&net);
    free_result(&r);
    free_data(&d);
}

UNIT_GROUP(pool)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(matches_the_definition),
                                        cmocka_unit_test(gradient_agrees_with_differences) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
