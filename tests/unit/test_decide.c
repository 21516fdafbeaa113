/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "src/tune/decide/decide.h"

static void test_workers_are_two_thirds_of_the_cores(void **state)
{
    static const uint32_t expected[][2] = { { 0, 1 }, { 1, 1 }, { 2, 1 },  { 3, 2 },   { 4, 3 },
                                            { 6, 4 }, { 8, 5 }, { 12, 8 }, { 16, 11 }, { 24, 16 } };
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(stk_decide_workers(expected[i][0], 1), expected[i][1]);
    assert_int_equal(stk_decide_workers(12, 2), 4);
    assert_int_equal(stk_decide_workers(2, 8), 1);
    assert_true(stk_decide_workers(UINT32_MAX, 1) > 1000);
}

/* What one says is to be taken, the other does not call too many. */
static void test_the_advised_number_is_never_too_many(void **state)
{
    (void)state;
    for (uint32_t cores = 0; cores < 300; cores++)
        for (uint32_t ranks = 0; ranks < 9; ranks++) {
            assert_true(stk_decide_workers(cores, ranks) <= stk_decide_workers_most(cores, ranks, 0));
            assert_int_equal(stk_decide_workers_most(cores, ranks, 1),
                             4 * stk_decide_workers_most(cores, ranks, 0));
        }
}

static void test_memory_fits_with_a_gibibyte_to_spare(void **state)
{
    const double gib = 1 << 30;
    stoke_estimate e = { .low = (uint64_t)4 << 30, .high = (uint64_t)6 << 30 };
    (void)state;
    assert_int_equal(stk_decide_fit(&e, 7 * gib), STK_FITS);
    assert_int_equal(stk_decide_fit(&e, 6.9 * gib), STK_FITS_PERHAPS);
    assert_int_equal(stk_decide_fit(&e, 5 * gib), STK_FITS_PERHAPS);
    assert_int_equal(stk_decide_fit(&e, 4.9 * gib), STK_FITS_NOT);
    char text[64];
    assert_string_equal(stk_decide_range(&e, text, sizeof text), "4.0 to 6.0 GiB");
    e.low = 512 << 20;
    assert_string_equal(stk_decide_range(&e, text, sizeof text), "512.0 MiB to 6.0 GiB");
    e.low = e.high;
    assert_string_equal(stk_decide_range(&e, text, sizeof text), "6.0 GiB");
}

static void test_a_machine_that_gives_half_is_busy(void **state)
{
    (void)state;
    assert_true(stk_decide_busy(0.4, 2));
    assert_false(stk_decide_busy(1.9, 2));
    assert_false(stk_decide_busy(1, 1));
    assert_false(stk_decide_busy(0, 0)); /* nothing was wanted */
}

UNIT_GROUP(decide)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers_are_two_thirds_of_the_cores),
        cmocka_unit_test(test_the_advised_number_is_never_too_many),
        cmocka_unit_test(test_memory_fits_with_a_gibibyte_to_spare),
        cmocka_unit_test(test_a_machine_that_gives_half_is_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
