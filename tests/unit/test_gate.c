/* SPDX-License-Identifier: Apache-2.0
 *
 * The way back through a ReLU, of all types and strides, to the bit.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

enum { PIXELS = 1500, CHANNELS = 259 }; /* more than a block, and several tasks */

static void matches_the_definition(void **state)
{
    (void)state;
    for (int types = 0; types < 9; types++)
        for (uint32_t threads = 1; threads <= 3; threads++) {
            const stk_map y = { running_numbers(PIXELS * 264, types % 3, 2, 1), types % 3, 264 };
            const stk_map d = { running_numbers(PIXELS * 260, types / 3, 2, 2), types / 3, 260 };
            void *wanted = running_numbers(PIXELS * 260, d.type, 2, 2);
            running net;
            stk_put(y.data, 0, 0, y.type);
            stk_put(y.data, 1, -0.0f, y.type);
            stk_put(y.data, 2, NAN, y.type);
            for (size_t p = 0; p < PIXELS; p++)
                for (size_t c = 0; c < CHANNELS; c++)
                    if (!(stk_get(y.data, p * 264 + c, y.type) > 0)) stk_put(wanted, p * 260 + c, 0, d.type);
            running_start(&net, STK_CPU_C, threads, STK_F32);
            stk_gate(&net.run, PIXELS, CHANNELS, &y, &d);
            running_stop(&net);
            assert_memory_equal(d.data, wanted, PIXELS * 260 * stk_float_bytes(d.type));
            stk_free(y.data), stk_free(d.data), stk_free(wanted);
        }
}

UNIT_GROUP(gate)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(matches_the_definition) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
