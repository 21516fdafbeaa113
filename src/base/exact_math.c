/* SPDX-License-Identifier: Apache-2.0
 *
 * Argument reduction and Taylor series. A sample draws a handful of these, where speed does not matter; the
 * first weights of a network are tens of millions, for which some functions take STK_EXACT_LANES numbers at
 * once. Both are one code, with `lanes` a constant where it is inlined: every number goes the same way, so
 * its bits are the same, but a chain of quotients no longer waits for each of its steps, and compilers put
 * two or more numbers into a vector.
 */
#include "src/base/exact_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double DEGREE = 0.017453292519943295769; /* pi / 180 */
/* ln 2 in two parts; the first has 21 zero bits at its end, so that k * LN2_HIGH is exact for |k| < 2^21. */
static const double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;

static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* For |x| <= pi/4, less its first term: of the sine from k = 17, so that the first term left out, x^19/19!,
 * is below 1e-19, and of the cosine from 18. */
static inline void series(const double *x, double *sum, int k, int lanes)
{
    for (int i = 0; i < lanes; i++) sum[i] = 0;
    for (; k >= 2; k -= 2)
        for (int i = 0; i < lanes; i++) sum[i] = (1 + sum[i]) * (-x[i] * x[i]) / (k * (k - 1));
}

static inline void sincos_degrees(const double *degrees, double *sine, double *cosine, int lanes)
{
    /* By quarter, of the sine; the cosine is a quarter ahead. */
    static const double signs[5] = { 1, 1, -1, -1, 1 };
    double x[STK_EXACT_LANES], value[2][STK_EXACT_LANES];
    int quarters[STK_EXACT_LANES];
    for (int i = 0; i < lanes; i++) {
        const double angle = fabs(degrees[i]) <= 1099511627776.0 ? degrees[i] : 0;
        const double quarter = floor(angle / 90 + 0.5);
        /* Exact: 90 * quarter has at most 47 bits, and the difference of two near numbers has no rounding. */
        x[i] = (angle - 90 * quarter) * DEGREE;
        quarters[i] = (int)((int64_t)quarter & 3);
    }
    series(x, value[0], 17, lanes);
    series(x, value[1], 18, lanes);
    for (int i = 0; i < lanes; i++) {
        value[0][i] = x[i] + x[i] * value[0][i];
        value[1][i] = 1 + value[1][i];
    }
    for (int i = 0; i < lanes; i++) { /* no branch: it would be taken at random */
        const int quarter = quarters[i], odd = quarter & 1;
        /* No negative zeros: they would print as "-0" and compare unequal as bytes. */
        sine[i] = signs[quarter] * value[odd][i] + 0.0;
        cosine[i] = signs[quarter + 1] * value[1 - odd][i] + 0.0;
    }
}

void stk_sincos_degrees(double degrees, double *sine, double *cosine)
{
    sincos_degrees(&degrees, sine, cosine, 1);
}

void stk_sincos_degrees_lanes(const double *degrees, double *sine, double *cosine)
{
    sincos_degrees(degrees, sine, cosine, STK_EXACT_LANES);
}

double stk_exp(double x)
{
    if (!(x >= -708)) return 0;
    if (x > 709) x = 709;
    const double k = floor(x / (LN2_HIGH + LN2_LOW) + 0.5);
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW; /* |r| <= 0.347: r^15/15! is below 1e-19 */
    double sum = 0;
    for (int i = 14; i >= 1; i--) sum = (1 + sum) * r / i;
    /* In two steps: 2^1024 has no double, 2^1023 has. */
    const int half = (int)k / 2;
    return (1 + sum) * power_of_two(half) * power_of_two((int)k - half);
}

/* Of normal numbers, `lift` being added to their exponents. */
static inline void log_normal(const double *x, double *log, int lift, int lanes)
{
    double s[STK_EXACT_LANES], sum[STK_EXACT_LANES] = { 0 };
    int exponents[STK_EXACT_LANES];
    for (int i = 0; i < lanes; i++) {
        uint64_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        const uint64_t digits = bits & UINT64_C(0xfffffffffffff);
        const int halve = digits > UINT64_C(0x6a09e667f3bcd); /* above the root of 2 */
        exponents[i] = lift + (int)(bits >> 52) - 1023 + halve;
        bits = digits | (uint64_t)(1023 - halve) << 52;
        double m;
        memcpy(&m, &bits, sizeof m);
        s[i] = (m - 1) / (m + 1);
    }
    /* log m = 2 artanh s with |s| <= 0.172; s^27/27 is below 1e-22. */
    for (int k = 25; k >= 3; k -= 2)
        for (int i = 0; i < lanes; i++) sum[i] = (sum[i] + 1.0 / k) * (s[i] * s[i]);
    for (int i = 0; i < lanes; i++)
        log[i] = exponents[i] * LN2_HIGH + (2 * s[i] + (2 * s[i] * sum[i] + exponents[i] * LN2_LOW));
}

double stk_log(double x)
{
    if (!(x > 0)) return -1e9;
    int lift = 0;
    if (x < 2.2250738585072014e-308) { /* subnormal: no exponent to read */
        x *= 18014398509481984.0;      /* 2^54 */
        lift = -54;
    }
    double log;
    log_normal(&x, &log, lift, 1);
    return log;
}

void stk_log_lanes(const double *x, double *log)
{
    log_normal(x, log, 0, STK_EXACT_LANES);
}

double stk_pow(double x, double y)
{
    if (y == 0) return 1;
    if (!(x > 0)) return 0;
    return stk_exp(y * stk_log(x));
}
