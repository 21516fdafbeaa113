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

#include "src/base/half.h"

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

/* -2 ln(1 + f) / f on the interval of log2, error 1.0e-4: noise is its own definition, and what counts is its
 * distribution. A degree more costs 4 % of the time of a row. */
#define STK_RADIUS_0 (-1.999945641e+00f)
#define STK_RADIUS_1 9.987729788e-01f
#define STK_RADIUS_2 (-6.718651652e-01f)
#define STK_RADIUS_3 5.440670848e-01f
#define STK_RADIUS_4 (-3.620584011e-01f)
#define STK_RADIUS_E (-1.386294361e+00f) /* -2 ln 2 */

/* sin(t pi / 2) / t and cos(t pi / 2) in t^2 on [0, 1], errors 1.2e-6 and 6.7e-6, for t given as 2^15 t:
 * powers of two change no rounding and spare a product. */
#define STK_SIN_0 (1.570795178e+00f * 0x1p-15f)
#define STK_SIN_1 (-6.459259391e-01f * 0x1p-45f)
#define STK_SIN_2 (7.950065285e-02f * 0x1p-75f)
#define STK_SIN_3 (-4.371014889e-03f * 0x1p-105f)
#define STK_COS_0 9.999933243e-01f
#define STK_COS_1 (-1.233484507e+00f * 0x1p-30f)
#define STK_COS_2 (2.525802255e-01f * 0x1p-60f)
#define STK_COS_3 (-1.909573562e-02f * 0x1p-90f)

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

/* 257 * k becomes k exactly: test_touch tries all k. */
static inline float stk_level_of_u16(uint16_t v)
{
    return (float)v * (1.0f / 257.0f);
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

/* From the sum of stk_gray_steps. A whole number of steps, which a float holds exactly: no double is needed,
 * which a device may not have. */
static inline float stk_mean_gray(uint64_t sum, uint64_t pixels)
{
    return (float)((sum + pixels / 2) / pixels) * (1.0f / STK_GRAY_STEPS);
}

/* ---- hue ---- */

/* With V the largest and D the spread of a pixel, the hue in sixths of a turn is h = 0, 2 or 4 + x / D, where
 * x is the difference of the other two. The channel n = 5, 3, 1 (R, G, B) of hue h is V - D f(n + h) with the
 * trapezium f(k) = max(0, min(k, 4 - k, 1)) of period 6: |K - ...| - 2 D above V, cut to the pixel's own
 * smallest and largest. Everything is scaled by D here, so nothing is divided. turn[i] = (2 i + 6 a) mod 6 is
 * where the hue of a pixel whose channel i is largest goes when turned by a. K = D (h + 6 a) lies in -D .. 7
 * D, which lets two absolute values do for the period. */
static inline float stk_hue_channel(float base, float reach, float low, float top)
{
    const float v = base + reach;
    const float raised = v > low ? v : low;
    return raised < top ? raised : top;
}

static inline void stk_hue(float *r, float *g, float *b, const float turn[3])
{
    float top = *r > *g ? *r : *g, low = *r < *g ? *r : *g;
    top = top > *b ? top : *b;
    low = low < *b ? low : *b;
    const float spread = top - low, spread3 = 3.0f * spread;
    const float x = top == *r ? *g - *b : top == *g ? *b - *r : *r - *g;
    const float k = (top == *r ? turn[0] : top == *g ? turn[1] : turn[2]) * spread + x;
    const float base = top - 2.0f * spread;
    *r = stk_hue_channel(base, fabsf(k - spread3), low, top);
    *g = stk_hue_channel(base, fabsf(fabsf(k - 2.0f * spread) - spread3), low, top);
    *b = stk_hue_channel(base, fabsf(fabsf(k - 4.0f * spread) - spread3), low, top);
}

/* ---- gamma ---- */

/* Normal positive x. */
static inline float stk_log2(float x)
{
    const uint32_t bits = stk_float_bits(x);
    const int32_t e = ((int32_t)bits - STK_HALF_ROOT_BITS) >> 23;
    const float f = stk_float_of_bits(bits - ((uint32_t)e << 23)) - 1.0f;
    /* In pairs, not Horner's way: half as long a chain of operations that wait for each other. */
    const float f2 = f * f, f4 = f2 * f2;
    const float p01 = STK_LOG2_1 * f + STK_LOG2_0, p23 = STK_LOG2_3 * f + STK_LOG2_2;
    const float p45 = STK_LOG2_5 * f + STK_LOG2_4, p67 = STK_LOG2_7 * f + STK_LOG2_6;
    const float p03 = p23 * f2 + p01, p47 = p67 * f2 + p45;
    const float p = (STK_LOG2_8 * f4 + p47) * f4 + p03;
    return p * f + (float)e;
}

/* y <= 0; below -126 counts as -126. */
static inline float stk_exp2(float y)
{
    y = y > -126.0f ? y : -126.0f;
    const float moved = y + STK_ROUND_MAGIC_SIGNED, f = y - (moved - STK_ROUND_MAGIC_SIGNED);
    const float f2 = f * f, f4 = f2 * f2;
    const float p01 = STK_EXP2_1 * f + STK_EXP2_0, p23 = STK_EXP2_3 * f + STK_EXP2_2;
    const float p46 = STK_EXP2_6 * f2 + (STK_EXP2_5 * f + STK_EXP2_4);
    const float p = p46 * f4 + (p23 * f2 + p01);
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

/* Where the normal number of column x comes from. Philox with the counter (row, channel, 0, 0) gives a row
 * its key; word j of the row is j stirred with it (stk_noise_word) and makes two normals. A group of 16
 * columns takes eight words, the first normals for its first half: that is one register of eight lanes after
 * another.
 *
 * With a block of Philox for every four words instead, ten rounds of two wide products each, a row took a
 * quarter longer (0.87 against 0.70 ns per sample). A row needs less: its words must look independent of each
 * other, which two rounds of shift, xor and multiply do well enough for test_touch_noise. Rows, channels and
 * samples are told apart by all ten rounds. */
enum { STK_NOISE_LANES = 8, STK_NOISE_GROUP = 16 };
#define STK_NOISE_STEP                                                                                       \
    0x9e3779b9u /* from word to word: 2^32 / golden ratio, so that neighbours lie apart                      \
                 */
#define STK_NOISE_STIR0 0x7feb352du
#define STK_NOISE_STIR1 0x846ca68bu

static inline uint32_t stk_noise_word(uint32_t j, const uint32_t key[2])
{
    uint32_t x = j * STK_NOISE_STEP + key[0];
    x = (x ^ x >> 16) * STK_NOISE_STIR0 ^ key[1];
    x = (x ^ x >> 15) * STK_NOISE_STIR1;
    return x ^ x >> 16;
}

/* Box and Muller, times `a`. The upper half of the word, signed, is the radius (at most 4.71) with the half
 * of the circle for its sign, the lower half the place in that half. Both are odd multiples of the least
 * step, so that nothing is 0 and signs are even. */
static inline void stk_two_normals(uint32_t word, float a, float normal[2])
{
    const int32_t upper = (int32_t)((word & 0xffff0000) | 0x8000);
    const float u = (float)(upper < 0 ? -upper : upper); /* times 2^31 */
    const int32_t over = (int32_t)stk_float_bits(u) - (STK_HALF_ROOT_BITS + (31 << 23));
    const float e = (float)(over >> 23);
    const float f = stk_float_of_bits((uint32_t)(over & 0x7fffff) + STK_HALF_ROOT_BITS) - 1.0f, f2 = f * f;
    const float p01 = STK_RADIUS_1 * f + STK_RADIUS_0, p23 = STK_RADIUS_3 * f + STK_RADIUS_2;
    const float p = (STK_RADIUS_4 * f2 + p23) * f2 + p01;
    const float radius = sqrtf(p * f + e * STK_RADIUS_E) * (upper < 0 ? -a : a);

    const float t = (float)(int16_t)(word | 1), t2 = t * t; /* times 2^15 */
    const float sine = ((STK_SIN_3 * t2 + STK_SIN_2) * t2 + STK_SIN_1) * t2 + STK_SIN_0;
    const float cosine = ((STK_COS_3 * t2 + STK_COS_2) * t2 + STK_COS_1) * t2 + STK_COS_0;
    normal[0] = radius * cosine;
    normal[1] = radius * t * sine;
}

#endif
