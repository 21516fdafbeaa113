/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of two maps, of all types and strides, to the bit.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

static void matches_the_definition(void **state)
{
    enum { PIXELS = 1500, CHANNELS = 259 }; /* more than a block, and several tasks */
    for (int types = 0; types < 27; types++)
        for (uint32_t threads = 1; threads <= 3; threads++) {
            const stk_map a = { running_numbers(PIXELS * 264, types % 3, 2, 1), types % 3, 264 };
            const stk_map b = { running_numbers(PIXELS * CHANNELS, types / 3 % 3, 2, 2), types / 3 % 3,
                                CHANNELS };
            const stk_map y = { running_numbers(PIXELS * 260, types / 9, 2, 3), types / 9, 260 };
            void *wanted = running_numbers(PIXELS * 260, y.type, 2, 3);
            running net;
            for (size_t p = 0; p < PIXELS; p++)
                for (size_t c = 0; c < CHANNELS; c++)
                    stk_put(wanted, p * 260 + c,
                            stk_get(a.data, p * 264 + c, a.type) + stk_get(b.data, p * CHANNELS + c, b.type),
                            y.type);
            running_start(&net, STK_CPU_C, threads, STK_F32);
            stk_sum(&net.run, PIXELS, CHANNELS, &a, &b, &y);
            running_stop(&net);
            assert_memory_equal(y.data, wanted, PIXELS * 260 * stk_float_bytes(y.type));
            stk_free(a.data), stk_free(b.data), stk_free(y.data), stk_free(wanted);
        }
}

static void the_sum_may_be_a_term(void **state)
{
    float a[] = { 1, 2, 3, 4 }, b[] = { 10, 20, 30, 40 };
    const stk_map first = { a, STK_F32, 2 }, second = { b, STK_F32, 2 };
    running net;
    running_start(&net, STK_CPU_C, 2, STK_F32);
    stk_sum(&net.run, 2, 2, &first, &second, &first);
    stk_sum(&net.run, 2, 2, &first, &second, &second);
    running_stop(&net);
    for (int i = 0; i < 4; i++) assert_true(a[i] == 11 * (i + 1) && b[i] == 21 * (i + 1));
}

UNIT_GROUP(sum)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(matches_the_definition),
                                        cmocka_unit_test(the_sum_may_be_a_term) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
