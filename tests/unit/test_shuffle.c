/* SPDX-License-Identifier: Apache-2.0
 *
 * The pixel shuffle against PyTorch's definition of it, element by element.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

/* batch, height, width, channels, scale, type, strides; the last ones are several tasks. */
static const stk_shuffle shapes[] = {
    { 1, 1, 1, 1, 2, STK_F32, 4, 1 },    { 2, 3, 5, 3, 2, STK_F32, 12, 3 },
    { 1, 4, 7, 3, 3, STK_F32, 32, 8 },   { 2, 5, 3, 3, 4, STK_F32, 48, 5 },
    { 2, 61, 67, 9, 2, STK_F32, 36, 9 }, { 3, 40, 33, 3, 4, STK_F32, 64, 3 }
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct data {
    stk_shuffle shape;
    size_t narrow, wide; /* elements */
    void *x, *dy;
} data;

static data make_data(stk_shuffle shape, stk_float type)
{
    shape.type = type;
    const size_t pixels = (size_t)shape.batch * shape.height * shape.width;
    data d = { .shape = shape,
               .narrow = pixels * shape.narrow_stride,
               .wide = pixels * shape.scale * shape.scale * shape.wide_stride };
    d.x = running_numbers(d.narrow, type, 2, 1);
    d.dy = running_numbers(d.wide, type, 2, 2);
    return d;
}

static void free_data(data *d)
{
    stk_free(d->x), stk_free(d->dy);
}

/* The element of the narrow map that belongs to one of the wide map; SIZE_MAX: none, it is padding. */
static size_t partner(const stk_shuffle *s, size_t wide)
{
    const size_t r = s->scale, c = wide % s->wide_stride, pixel = wide / s->wide_stride;
    const size_t x = pixel % (s->width * r), y = pixel / (s->width * r) % (s->height * r);
    const size_t image = pixel / (s->width * r) / (s->height * r);
    if (c >= s->channels) return SIZE_MAX;
    return ((image * s->height + y / r) * s->width + x / r) * s->narrow_stride + (c * r + y % r) * r + x % r;
}

typedef struct result {
    void *y, *dx;
} result;

/* Over what lies there before. */
static result compute(const data *d, uint32_t threads)
{
    const stk_float type = d->shape.type;
    result r = { running_numbers(d->wide, type, 1, 3), running_numbers(d->narrow, type, 1, 4) };
    running net;
    running_start(&net, STK_CPU_C, threads, type);
    stk_shuffle_forward(&net.run, &d->shape, d->x, r.y);
    stk_shuffle_backward(&net.run, &d->shape, d->dy, r.dx);
    running_stop(&net);
    return r;
}

static void free_result(result *r)
{
    stk_free(r->y), stk_free(r->dx);
}

static void hold(const data *d, const result *r)
{
    const stk_float type = d->shape.type;
    void *y = running_numbers(d->wide, type, 1, 3), *dx = running_numbers(d->narrow, type, 1, 4);
    for (size_t i = 0; i < d->wide; i++) {
        const size_t k = partner(&d->shape, i);
        if (k == SIZE_MAX) continue;
        stk_put(y, i, stk_get(d->x, k, type), type);
        stk_put(dx, k, stk_get(d->dy, i, type), type);
    }
    assert_memory_equal(r->y, y, d->wide * stk_float_bytes(type));
    assert_memory_equal(r->dx, dx, d->narrow * stk_float_bytes(type));
    stk_free(y), stk_free(dx);
}

/* Every bit of both maps, what is left alone included. */
static void matches_the_definition(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (stk_float type = STK_F32; type <= STK_F16; type++) {
            data d = make_data(shapes[i], type);
            for (uint32_t threads = 1; threads <= 3; threads++) {
                result r = compute(&d, threads);
                hold(&d, &r);
                free_result(&r);
            }
            free_data(&d);
        }
}

/* What nn.PixelShuffle(2) made of arange(8) with one pixel and 8 channels (PyTorch 2.13). */
static void order_of_channels_is_pytorchs(void **state)
{
    static const float wanted[] = { 0, 4, 1, 5, 2, 6, 3, 7 }; /* [2][2][2]: channels are 0 to 3 and 4 to 7 */
    const stk_shuffle shape = { 1, 1, 1, 2, 2, STK_F32, 8, 2 };
    float x[8], y[8];
    running net;
    for (int i = 0; i < 8; i++) x[i] = (float)i;
    running_start(&net, STK_CPU_C, 1, STK_F32);
    stk_shuffle_forward(&net.run, &shape, x, y);
    running_stop(&net);
    assert_memory_equal(y, wanted, sizeof y);
}

UNIT_GROUP(shuffle)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(matches_the_definition),
                                        cmocka_unit_test(order_of_channels_is_pytorchs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
