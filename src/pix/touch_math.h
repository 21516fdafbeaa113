/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the photometric steps, one sample or pixel at a time: the definition that every table and
 * device has to hit bit for bit. Floats, products and sums rounded one by one in the order written here,
 * square roots (correctly rounded everywhere), no division and nothing from libm: an OpenCL compiler may not
 * round those as we do.
 *
 * Polynomials are weighted least squares made minimax by reweighting, in double, over the interval named;
 * the error given is theirs before rounding to float. test_touch measures what is left of it in pixels.
 */
#ifndef STOKE_SRC_PIX_TOUCH_MATH_H
#define STOKE_SRC_PIX_TOUCH_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "src/pix/half.h"

/* As torchvision: they sum to 0.9999. */
#define STK_GRAY_R 0.2989f
#define STK_GRAY_G 0.587f
#define STK_GRAY_B 0.114f

/* The mean gray is summed in integers, so that any order of summing gives the same: steps of 1/4096 of a
 * level, 20 bits for a pixel. The error of a mean is then below 2^-13 of a level. */
#define STK_GRAY_STEPS 4096.0f

/* 2^23: adding it rounds a float of 0 .. 2^22 to nearest even, and leaves the integer in the low bits. */
#define STK_ROUND_MAGIC 8388608.0f
/* 1.5 * 2^23: the same for either sign. */
#define STK_ROUND_MAGIC_SIGNED 12582912.0f

/* log2(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1], error 3.8e-8. */
#define STK_LOG2_0 1.442695022e+00f
#define STK_LOG2_1 (-7.213472128e-01f)
#define STK_LOG2_2 4.809102714e-01f
#define STK_LOG2_3 (-3.607162535e-01f)
#define STK_LOG2_4 2.879391015e-01f
#define STK_LOG2_5 (-2.386756837e-01f)
#define STK_LOG2_6 2.152122557e-01f
#define STK_LOG2_7 (-2.089338154e-01f)
#define STK_LOG2_8 1.292642951e-01f

/* 2^f on [-1/2, 1/2], relative error 1.9e-9. */
#define STK_EXP2_0 1.0f
#define STK_EXP2_1 6.931471825e-01f
#define STK_EXP2_2 2.402264625e-01f
#define STK_EXP2_3 5.550328642e-02f
#define STK_EXP2_4 9.618489072e-03f
#define STK_EXP2_5 1.339993090e-03f
#define STK_EXP2_6 1.534581243e-04f

/* -2 ln(1 + f) / f on the interval of log2, error 1.5e-5: noise is its own definition, and what counts is its
 * distribution. */
#define STK_RADIUS_0 (-2.000010967e+00f)
#define STK_RADIUS_1 9.998281002e-01f
#define STK_RADIUS_2 (-6.649653912e-01f)
#define STK_RADIUS_3 5.071827769e-01f
#define STK_RADIUS_4 (-4.433755577e-01f)
#define STK_RADIUS_5 2.932508588e-01f
#define STK_RADIUS_E (-1.386294361e+00f) /* -2 ln 2 */

/* sin(t pi / 2) / t and cos(t pi / 2) in t^2 on [0, 1/4], errors 2.2e-6 and 1e-5. */
#define STK_SIN_0 1.570794106e+00f
#define STK_SIN_1 (-6.458018422e-01f)
#define STK_SIN_2 7.795502990e-02f
#define STK_COS_0 9.999900460e-01f
#define STK_COS_1 (-1.232980371e+00f)
#define STK_COS_2 2.459490448e-01f

/* Bits of sqrt(1/2): what a float's bits are counted from so that its mantissa lands in [sqrt(1/2), sqrt(2)).
 */
#define STK_HALF_ROOT_BITS 0x3f3504f3

static inline float stk_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float stk_clamp(float v)
{
    v = v > 0.0f ? v : 0.0f;
    return v < 255.0f ? v : 255.0f;
}

static inline float stk_linear(float v, float a, float c)
{
    return stk_clamp(a * v + c);
}

static inline float stk_gray(float r, float g, float b)
{
    return (STK_GRAY_R * r + STK_GRAY_G * g) + STK_GRAY_B * b;
}

static inline uint32_t stk_gray_steps(float gray)
{
    return stk_float_bits(gray * STK_GRAY_STEPS + STK_ROUND_MAGIC) & 0x3fffff;
}

/* ---- hue ---- */

/* With V the largest and D the spread of a pixel, the hue in sixths of a turn is h = 0, 2 or 4 + x / D, where
 * x is the difference of the other two. The channel n = 5, 3, 1 (R, G, B) of hue h is V - D f(n + h) with the
 * trapezium f(k) = max(0, min(k, 4 - k, 1)) of period 6. Everything is scaled by D here, so nothing is
 * divided. turn[i] = (2 i + 6 a) mod 6 is where the hue of a pixel whose channel i is largest goes when
 * turned by a. K = D (h + 6 a) lies in -D .. 7 D, which lets two absolute values do for the period. */
static inline float stk_hue_channel(float spread, float reach)
{
    float drop = 2.0f * spread - reach;
    drop = drop > 0.0f ? drop : 0.0f;
    return drop < spread ? drop : spread;
}

static inline void stk_hue(float *r, float *g, float *b, const float turn[3])
{
    float top = *r > *g ? *r : *g, low = *r < *g ? *r : *g;
    top = top > *b ? top : *b;
    low = low < *b ? low : *b;
    const float spread = top - low, spread3 = 3.0f * spread;
    const float x = top == *r ? *g - *b : top == *g ? *b - *r : *r - *g;
    const float k = (top == *r ? turn[0] : top == *g ? turn[1] : turn[2]) * spread + x;
    *r = top - stk_hue_channel(spread, fabsf(k - spread3));
    *g = top - stk_hue_channel(spread, fabsf(fabsf(k - 2.0f * spread) - spread3));
    *b = top - stk_hue_channel(spread, fabsf(fabsf(k - 4.0f * spread) - spread3));
}

/* ---- gamma ---- */

/* Normal positive x. */
static inline float stk_log2(float x)
{
    const uint32_t bits = stk_float_bits(x);
    const int32_t e = ((int32_t)bits - STK_HALF_ROOT_BITS) >> 23;
    const float f = stk_float_of_bits(bits - ((uint32_t)e << 23)) - 1.0f;
    float p = STK_LOG2_8;
    p = p * f + STK_LOG2_7;
    p = p * f + STK_LOG2_6;
    p = p * f + STK_LOG2_5;
    p = p * f + STK_LOG2_4;
    p = p * f + STK_LOG2_3;
    p = p * f + STK_LOG2_2;
    p = p * f + STK_LOG2_1;
    p = p * f + STK_LOG2_0;
    return p * f + (float)e;
}

/* y <= 0; below -126 counts as -126. */
static inline float stk_exp2(float y)
{
    y = y > -126.0f ? y : -126.0f;
    const float moved = y + STK_ROUND_MAGIC_SIGNED, f = y - (moved - STK_ROUND_MAGIC_SIGNED);
    float p = STK_EXP2_6;
    p = p * f + STK_EXP2_5;
    p = p * f + STK_EXP2_4;
    p = p * f + STK_EXP2_3;
    p = p * f + STK_EXP2_2;
    p = p * f + STK_EXP2_1;
    p = p * f + STK_EXP2_0;
    return p * stk_float_of_bits((stk_float_bits(moved) << 23) + 0x3f800000);
}

#define STK_SMALLEST_NORMAL 1.17549435e-38f

/* clamp(gain * (v / 255)^a), gain = 255 b. 0 stays 0. */
static inline float stk_gamma(float v, float a, float gain)
{
    float x = v * (1.0f / 255.0f);
    x = x > STK_SMALLEST_NORMAL ? x : STK_SMALLEST_NORMAL;
    const float power = stk_exp2(a * stk_log2(x));
    return v > 0.0f ? stk_clamp(gain * power) : 0.0f;
}

/* ---- noise ---- */

/* Where the normal number of column x comes from. Philox with the counter (block, row, channel, 0) gives four
 * words, each of them two normals: eight per block. Columns go to blocks in groups of 64 so that a register
 * of eight neighbouring columns takes the same one of the eight from eight neighbouring blocks. */
enum { STK_NOISE_LANES = 8, STK_NOISE_PER_BLOCK = 8, STK_NOISE_GROUP = 64 };

/* Box and Muller: the high half of the word is the radius, the low half the angle. At most 4.86. */
static inline void stk_two_normals(uint32_t word, float normal[2])
{
    const float u = (float)(int32_t)(word >> 16) * (1.0f / 65536.0f) + (0.5f / 65536.0f);
    const uint32_t bits = stk_float_bits(u);
    const int32_t e = ((int32_t)bits - STK_HALF_ROOT_BITS) >> 23;
    const float f = stk_float_of_bits(bits - ((uint32_t)e << 23)) - 1.0f;
    float p = STK_RADIUS_5;
    p = p * f + STK_RADIUS_4;
    p = p * f + STK_RADIUS_3;
    p = p * f + STK_RADIUS_2;
    p = p * f + STK_RADIUS_1;
    p = p * f + STK_RADIUS_0;
    const float radius = sqrtf(p * f + (float)e * STK_RADIUS_E);

    /* 14 bits of an angle of +-45 degrees, two bits of quadrant. */
    const float t = (float)((int32_t)(word << 18) >> 18) * (1.0f / 16384.0f) + (0.5f / 16384.0f);
    const float t2 = t * t;
    const float sine = ((STK_SIN_2 * t2 + STK_SIN_1) * t2 + STK_SIN_0) * t * radius;
    const float cosine = ((STK_COS_2 * t2 + STK_COS_1) * t2 + STK_COS_0) * radius;
    const uint32_t quadrant = word >> 14 & 3;
    const float first = quadrant & 1 ? sine : cosine, second = quadrant & 1 ? cosine : sine;
    normal[0] = quadrant == 1 || quadrant == 2 ? -first : first;
    normal[1] = quadrant & 2 ? -second : second;
}

#endif
