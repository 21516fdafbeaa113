/* SPDX-License-Identifier: Apache-2.0
 *
 * Argument reduction and Taylor series. Speed does not matter here: a sample draws a handful of these.
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

/* Sine for |x| <= pi/4: the first term left out, x^19/19!, is below 1e-19. */
static double sine_series(double x)
{
    const double z = -x * x;
    double sum = 0;
    for (int k = 17; k >= 3; k -= 2) sum = (1 + sum) * z / (k * (k - 1));
    return x + x * sum;
}

/* Cosine for |x| <= pi/4, first term left out x^20/20!. */
static double cosine_series(double x)
{
    const double z = -x * x;
    double sum = 0;
    for (int k = 18; k >= 2; k -= 2) sum = (1 + sum) * z / (k * (k - 1));
    return 1 + sum;
}

void stk_sincos_degrees(double degrees, double *sine, double *cosine)
{
    if (!(fabs(degrees) <= 1099511627776.0)) degrees = 0;
    const double quarter = floor(degrees / 90 + 0.5);
    /* Exact: 90 * quarter has at most 47 bits, and the difference of two near numbers has no rounding. */
    const double x = (degrees - 90 * quarter) * DEGREE;
    const double s = sine_series(x), c = cosine_series(x);
    switch ((int64_t)quarter & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s; break;
    }
    /* No negative zeros: they would print as "-0" and compare unequal as bytes. */
    *sine += 0.0;
    *cosine += 0.0;
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

double stk_log(double x)
{
    if (!(x > 0)) return -1e9;
    int exponent = 0;
    if (x < 2.2250738585072014e-308) { /* subnormal: no exponent to read */
        x *= 18014398509481984.0;      /* 2^54 */
        exponent = -54;
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    exponent += (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(1023) << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    /* log m = 2 artanh s with |s| <= 0.172; s^27/27 is below 1e-22. */
    const double s = (m - 1) / (m + 1), z = s * s;
    double sum = 0;
    for (int k = 25; k >= 3; k -= 2) sum = (sum + 1.0 / k) * z;
    return exponent * LN2_HIGH + (2 * s + (2 * s * sum + exponent * LN2_LOW));
}

double stk_pow(double x, double y)
{
    if (y == 0) return 1;
    if (!(x > 0)) return 0;
    return stk_exp(y * stk_log(x));
}
