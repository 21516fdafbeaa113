/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures standardised, in both layouts, and the way back, against the formula in doubles.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

enum { BATCH = 3, HEIGHT = 37, WIDTH = 601, PIXELS = HEIGHT * WIDTH, GAP = 5 };

static const double mean[] = { 0.485, 0.456, 0.406 }, deviation[] = { 0.229, 0.224, 0.225 };

/* Of a picture in planes, or with `stride` floats a pixel, pictures GAP floats apart. */
static void hold(int planar, size_t stride, uint32_t threads)
{
    const size_t sample = (planar ? 3 : stride) * PIXELS + GAP;
    float *x = running_numbers(BATCH * sample, STK_F32, 1, 1),
          *y = running_zeros(BATCH * 3 * PIXELS, STK_F32);
    const stk_conv3_source source = {
        .data = x, .type = STK_F32, .stride = stride, .sample_stride = sample, .planar = planar
    };
    running net;
    running_start(&net, STK_CPU_C, threads, STK_F32);
    stk_standardise(&net.run, (stk_conv3_map){ BATCH, HEIGHT, WIDTH }, &source, y);
    running_stop(&net);
    for (size_t s = 0; s < BATCH; s++)
        for (size_t p = 0; p < PIXELS; p++)
            for (size_t c = 0; c < 3; c++) {
                const float given = x[s * sample + (planar ? c * PIXELS + p : p * stride + c)];
                const double wanted = (given - mean[c]) / deviation[c];
                assert_true(fabs(y[(s * PIXELS + p) * 3 + c] - wanted) < 1e-6 * (1 + fabs(wanted)));
            }
    stk_free(x), stk_free(y);
}

static void both_layouts(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        hold(1, 0, threads);
        hold(0, 3, threads);
        hold(0, 8, threads);
    }
}

static void the_gradient_is_added(void **state)
{
    (void)state;
    enum { ALL = BATCH * PIXELS, STRIDE = 8 };
    float *dy = running_numbers(ALL * 3, STK_F32, 1, 1),
          *before = running_numbers(ALL * STRIDE, STK_F32, 1, 2);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        float *dx = running_numbers(ALL * STRIDE, STK_F32, 1, 2);
        running net;
        running_start(&net, STK_CPU_C, threads, STK_F32);
        stk_standardise_backward(&net.run, ALL, dy, dx, STRIDE);
        running_stop(&net);
        for (size_t i = 0; i < ALL * STRIDE; i++) {
            const size_t c = i % STRIDE;
            const double wanted = before[i] + (c < 3 ? dy[i / STRIDE * 3 + c] / deviation[c] : 0);
            assert_true(c < 3 ? fabs(dx[i] - wanted) < 1e-6 * (1 + fabs(wanted)) : dx[i] == before[i]);
        }
        stk_free(dx);
    }
    stk_free(dy), stk_free(before);
}

UNIT_GROUP(standardise)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(both_layouts),
                                        cmocka_unit_test(the_gradient_is_added) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
