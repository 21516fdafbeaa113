/* SPDX-License-Identifier: Apache-2.0
 *
 * Against libm. glibc's functions are within 1 ulp (1.1e-16 relative), so what is measured is ours.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/exact_math.h"
#include "src/base/rng.h"

enum { TRIES = 20000, SEED = 20261116 };

static double unit(uint32_t i)
{
    return stk_unit(stk_philox(SEED, i, 0, 9, 0).word[0]);
}

static void near(double got, double wanted, double relative, double x)
{
    if (!(fabs(got - wanted) <= relative * fabs(wanted)))
        fail_msg("seed %d, x = %.17g: %.17g, not %.17g", SEED, x, got, wanted);
}

static void quarter_turns_are_exact(void **state)
{
    static const double sines[4] = { 0, 1, 0, -1 };
    for (int k = -4000; k <= 4000; k++) {
        double s, c;
        stk_sincos_degrees(90.0 * k, &s, &c);
        assert_true(s == sines[k & 3] && c == sines[(k + 1) & 3]);
        assert_false(signbit(s) && s == 0);
        assert_false(signbit(c) && c == 0);
    }
}

/* libm gets the angle reduced in degrees, exactly: degrees * pi/180 of a large angle has lost its bits. */
static void sines_of_degrees(void **state)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        const double degrees = (unit(i) - 0.5) * (i % 2 ? 90 : 7200), rest = remainder(degrees, 90);
        double s, c;
        stk_sincos_degrees(degrees, &s, &c);
        const long double r = rest * 3.14159265358979323846264338327950288L / 180;
        const int quarter = (int)lround((degrees - rest) / 90) & 3;
        const long double sines[4] = { sinl(r), cosl(r), -sinl(r), -cosl(r) };
        near(s, (double)sines[quarter], 1e-15, degrees);
        near(c, (double)sines[(quarter + 1) & 3], 1e-15, degrees);
    }
    double s, c;
    stk_sincos_degrees(1e300, &s, &c);
    assert_true(s == 0 && c == 1);
    stk_sincos_degrees(NAN, &s, &c);
    assert_true(s == 0 && c == 1);
}

static void exponentials(void **state)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        const double x = (unit(i) - 0.5) * (i % 2 ? 2 : 1400);
        near(stk_exp(x), exp(x), 1e-15, x);
    }
    assert_true(stk_exp(0) == 1);
    assert_true(stk_exp(-1e9) == 0);
    near(stk_exp(709), exp(709), 1e-15, 709);
    assert_true(stk_exp(1e9) == stk_exp(709));
}

static void logarithms(void **state)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        const double x = i % 2 ? 0.5 + unit(i) : exp((unit(i) - 0.5) * 1400);
        near(stk_log(x), log(x), 1e-15, x);
    }
    near(stk_log(1 + 1e-10), log(1 + 1e-10), 1e-15, 1e-10);
    near(stk_log(5e-324), log(5e-324), 1e-15, 5e-324);
    assert_true(stk_log(1) == 0);
    assert_true(stk_exp(stk_log(0)) == 0);
    assert_true(stk_log(-1) == stk_log(0));
}

static void powers(void **state)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        const double x = unit(2 * i) + 1e-9, y = unit(2 * i + 1) * 6;
        near(stk_pow(x, y), pow(x, y), 3e-16 * (3 + fabs(y * log(x))), x);
    }
    assert_true(stk_pow(0, 2) == 0);
    assert_true(stk_pow(0, 0) == 1);
    assert_true(stk_pow(3, 0) == 1);
    assert_true(stk_pow(1, 5) == 1);
}

/* Many at once give the bits of each alone, at the ends of the range and at every quarter too. */
static void lanes_are_alike(void **state)
{
    for (uint32_t i = 0; i < TRIES; i += STK_EXACT_LANES) {
        double x[STK_EXACT_LANES], degrees[STK_EXACT_LANES], s[STK_EXACT_LANES], c[STK_EXACT_LANES],
            log[STK_EXACT_LANES];
        for (uint32_t k = 0; k < STK_EXACT_LANES; k++) {
            x[k] = k % 2 ? (unit(i + k) + 1e-9) : exp((unit(i + k) - 0.5) * 1400);
            degrees[k] = k % 3 ? (unit(i + k) - 0.5) * 7200 : 45.0 * (int)(i + k) - 1800;
        }
        x[0] = 1.4142135623730951;
        x[1] = nextafter(x[0], 2);
        degrees[1] = 1e300;
        stk_log_lanes(x, log);
        stk_sincos_degrees_lanes(degrees, s, c);
        for (uint32_t k = 0; k < STK_EXACT_LANES; k++) {
            double sine, cosine;
            const double one = stk_log(x[k]);
            stk_sincos_degrees(degrees[k], &sine, &cosine);
            assert_memory_equal(&log[k], &one, sizeof one);
            assert_memory_equal(&s[k], &sine, sizeof sine);
            assert_memory_equal(&c[k], &cosine, sizeof cosine);
        }
    }
}

UNIT_GROUP(exact_math)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quarter_turns_are_exact),
        cmocka_unit_test(sines_of_degrees),
        cmocka_unit_test(exponentials),
        cmocka_unit_test(logarithms),
        cmocka_unit_test(powers),
        cmocka_unit_test(lanes_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
