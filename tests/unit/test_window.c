/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/rng.h"
#include "src/pix/pix.h"

static uint32_t histogram[65536];

static stoke_image view(uint16_t *data, uint32_t width, uint32_t height, uint8_t channels)
{
    return (stoke_image){ data, (size_t)width * channels * 2, width, height, channels, 2 };
}

static void windows_are_parsed(void **state)
{
    stoke_error err;
    stk_pix_window w = { .mode = STK_WINDOW_RANGE };
    assert_int_equal(stk_window_parse(NULL, &w, &err), STOKE_OK);
    assert_int_equal(w.mode, STK_WINDOW_NONE);
    assert_int_equal(stk_window_parse("none", &w, &err), STOKE_OK);
    assert_int_equal(w.mode, STK_WINDOW_NONE);
    assert_int_equal(stk_window_parse("100:4000", &w, &err), STOKE_OK);
    assert_true(w.mode == STK_WINDOW_RANGE && w.lo == 100 && w.hi == 4000);
    assert_int_equal(stk_window_parse("p0.5:p99.5", &w, &err), STOKE_OK);
    assert_true(w.mode == STK_WINDOW_PERCENTILE && w.lo == 0.5 && w.hi == 99.5);
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = { "",      "all",   "1",       "1:",      ":2",   "2:1",     "5:5",
                                       "p1:99", "1:p99", "p-1:p99", "p1:p101", "-1:5", "0:65536", "0:inf",
                                       "nan:5", "1:2:3", "p1:p99x", "p:p",     "p",    "p1",      "1 : 2 " };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stoke_error err = { 0 };
        stk_pix_window w;
        if (stk_window_parse(bad[i], &w, &err) != STOKE_E_INVALID) fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(w.mode, STK_WINDOW_NONE);
        assert_non_null(strstr(err.message, "LO:HI"));
    }
    assert_int_equal(stk_window_parse("x", &(stk_pix_window){ 0 }, NULL), STOKE_E_INVALID);
}

static void ranges_stretch_clamp_and_round(void **state)
{
    uint16_t data[6] = { 0, 100, 101, 150, 200, 65535 };
    const stoke_image image = view(data, 6, 1, 1);
    const stk_pix_window w = { STK_WINDOW_RANGE, 100, 200 };
    stk_window_apply(&w, &image, histogram);
    const uint16_t expected[6] = { 0, 0, 655, 32768, 65535, 65535 }; /* 655.35, 32767.5 */
    assert_memory_equal(data, expected, sizeof data);
}

static void none_and_u8_pictures_stay(void **state)
{
    uint16_t data[2] = { 3, 4 };
    stoke_image image = view(data, 2, 1, 1);
    stk_window_apply(&(stk_pix_window){ STK_WINDOW_NONE, 0, 0 }, &image, histogram);
    assert_int_equal(data[0], 3);
    image.depth = 1;
    stk_window_apply(&(stk_pix_window){ STK_WINDOW_RANGE, 3, 4 }, &image, histogram);
    assert_int_equal(data[1], 4);
}

static int ascending(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* numpy.percentile(sorted, p), method "linear". */
static double percentile(const uint16_t *sorted, size_t n, double p)
{
    const double position = p / 100 * (double)(n - 1), part = position - floor(position);
    const size_t i = (size_t)position;
    return i + 1 < n ? sorted[i] + part * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static void percentiles_are_numpys(void **state)
{
    uint64_t random = 5;
    print_message("# seed %llu\n", (unsigned long long)random);
    for (int round = 0; round < 30; round++) {
        const uint32_t width = 1 + (uint32_t)(stk_mix64(++random) % 40),
                       height = 1 + (uint32_t)(stk_mix64(++random) % 9);
        const size_t n = (size_t)width * height * 3;
        uint16_t *data = malloc(n * 2), *sorted = malloc(n * 2), *before = malloc(n * 2);
        for (size_t i = 0; i < n; i++) data[i] = (uint16_t)(stk_mix64(++random) % (round % 2 ? 65536 : 300));
        memcpy(before, data, n * 2);
        memcpy(sorted, data, n * 2);
        qsort(sorted, n, 2, ascending);
        const stk_pix_window w = { STK_WINDOW_PERCENTILE, (double)(stk_mix64(++random) % 40), 61.5 };
        const double lo = percentile(sorted, n, w.lo), hi = percentile(sorted, n, w.hi);
        const stoke_image image = view(data, width, height, 3);
        stk_window_apply(&w, &image, histogram);
        for (size_t i = 0; i < n; i++) {
            const double exact = fmin(fmax((before[i] - lo) / (hi - lo), 0), 1) * 65535;
            assert_true(fabs(data[i] - exact) <= 0.5 + 1e-6);
        }
        free(data);
        free(sorted);
        free(before);
    }
}

/* numpy.percentile([10, 20, 30, 50, 90], [25, 90]) is [20, 74]: worked out by hand. */
static void percentiles_interpolate(void **state)
{
    uint16_t data[5] = { 90, 10, 50, 20, 30 };
    const stoke_image image = view(data, 5, 1, 1);
    stk_window_apply(&(stk_pix_window){ STK_WINDOW_PERCENTILE, 25, 90 }, &image, histogram);
    const uint16_t expected[5] = { 65535, 0, 36408, 0,
                                   12136 }; /* 30/54 and 10/54 of 65535: 36408.3, 12136.1 */
    assert_memory_equal(data, expected, sizeof data);
}

static void even_pictures_become_black(void **state)
{
    uint16_t data[4] = { 7, 7, 7, 7 };
    const stoke_image image = view(data, 2, 2, 1);
    stk_window_apply(&(stk_pix_window){ STK_WINDOW_PERCENTILE, 1, 99 }, &image, histogram);
    for (int i = 0; i < 4; i++) assert_int_equal(data[i], 0);
}

UNIT_GROUP(window)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_parsed),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(ranges_stretch_clamp_and_round),
        cmocka_unit_test(none_and_u8_pictures_stay),
        cmocka_unit_test(percentiles_are_numpys),
        cmocka_unit_test(percentiles_interpolate),
        cmocka_unit_test(even_pictures_become_black),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
