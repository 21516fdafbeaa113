/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the photometric steps, one sample or pixel at a time: the definition that every table
 * (src/pix) and every device has to hit bit for bit. Floats, products and sums rounded one by one in the
 * order written here, square roots (correctly rounded everywhere), nothing that depends on how a division is
 * rounded and nothing from a maths library: an OpenCL compiler may not round those as we do.
 *
 * Polynomials are weighted least squares made minimax by reweighting, in double, over the interval named;
 * the error given is theirs before rounding to float. test_touch measures what is left of it in pixels.
 */
#ifndef STOKE_KERNELS_COLOR_MATH_H
#define STOKE_KERNELS_COLOR_MATH_H

#include "kernels/compat.h"

/* As torchvision: they sum to 0.9999. */
#define K_GRAY_R 0.2989f
#define K_GRAY_G 0.587f
#define K_GRAY_B 0.114f

/* The mean gray is summed in integers, so that any order of summing gives the same: steps of 1/4096 of a
 * level, 20 bits for a pixel. The error of a mean is then below 2^-13 of a level. */
#define K_GRAY_STEPS 4096.0f

/* 2^23: adding it rounds a float of 0 .. 2^22 to nearest even, and leaves the integer in the low bits. */
#define K_ROUND_MAGIC 8388608.0f
/* 1.5 * 2^23: the same for either sign. */
#define K_ROUND_MAGIC_SIGNED 12582912.0f

/* log2(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1], error 3.8e-8. */
#define K_LOG2_0 1.442695022e+00f
#define K_LOG2_1 (-7.213472128e-01f)
#define K_LOG2_2 4.809102714e-01f
#define K_LOG2_3 (-3.607162535e-01f)
#define K_LOG2_4 2.879391015e-01f
#define K_LOG2_5 (-2.386756837e-01f)
#define K_LOG2_6 2.152122557e-01f
#define K_LOG2_7 (-2.089338154e-01f)
#define K_LOG2_8 1.292642951e-01f

/* 2^f on [-1/2, 1/2], relative error 1.9e-9. */
#define K_EXP2_0 1.0f
#define K_EXP2_1 6.931471825e-01f
#define K_EXP2_2 2.402264625e-01f
#define K_EXP2_3 5.550328642e-02f
#define K_EXP2_4 9.618489072e-03f
#define K_EXP2_5 1.339993090e-03f
#define K_EXP2_6 1.534581243e-04f

/* -2 ln(1 + f) / f on the interval of log2, error 1.0e-4: noise is its own definition, and what counts is its
 * distribution. A degree more costs 4 % of the time of a row. */
#define K_RADIUS_0 (-1.999945641e+00f)
#define K_RADIUS_1 9.987729788e-01f
#define K_RADIUS_2 (-6.718651652e-01f)
#define K_RADIUS_3 5.440670848e-01f
#define K_RADIUS_4 (-3.620584011e-01f)
#define K_RADIUS_E (-1.386294361e+00f) /* -2 ln 2 */

/* sin(t pi / 2) / t and cos(t pi / 2) in t^2 on [0, 1], errors 1.2e-6 and 6.7e-6, for t given as 2^15 t:
 * powers of two change no rounding and spare a product. They are 2^-15 to 2^-105 in steps of 15; CUDA C++
 * before 2017 has no hexadecimal floats. */
#define K_SIN_0 (1.570795178e+00f * 3.0517578125e-05f)
#define K_SIN_1 (-6.459259391e-01f * 2.8421709430404007e-14f)
#define K_SIN_2 (7.950065285e-02f * 2.6469779601696886e-23f)
#define K_SIN_3 (-4.371014889e-03f * 2.4651903288156619e-32f)
#define K_COS_0 9.999933243e-01f
#define K_COS_1 (-1.233484507e+00f * 9.3132257461547852e-10f)
#define K_COS_2 (2.525802255e-01f * 8.6736173798840355e-19f)
#define K_COS_3 (-1.909573562e-02f * 8.0779356694631609e-28f)

/* Bits of sqrt(1/2): what a float's bits are counted from so that its mantissa lands in [sqrt(1/2), sqrt(2)).
 */
#define K_HALF_ROOT_BITS 0x3f3504f3

#define K_SMALLEST_NORMAL 1.17549435e-38f

/* ---- levels ---- */

K_FN k_f32 k_clamp(k_f32 v)
{
    v = v > 0.0f ? v : 0.0f;
    return v < 255.0f ? v : 255.0f;
}

/* A level of 0 .. 255 to a sample of one or two bytes, to nearest even. */
K_FN k_u32 k_round_u8(k_f32 v)
{
    return k_bits(v + K_ROUND_MAGIC) & 0xff;
}

K_FN k_u32 k_round_u16(k_f32 v)
{
    return k_bits(v * 257.0f + K_ROUND_MAGIC) & 0xffff;
}

/* 257 * k becomes k exactly: test_touch tries all k. */
K_FN k_f32 k_level_of_u16(k_u32 v)
{
    return (k_f32)v * (1.0f / 257.0f);
}

/* ---- tones ---- */

K_FN k_f32 k_linear(k_f32 v, k_f32 a, k_f32 c)
{
    return k_clamp(a * v + c);
}

K_FN k_f32 k_gray(k_f32 r, k_f32 g, k_f32 b)
{
    return (K_GRAY_R * r + K_GRAY_G * g) + K_GRAY_B * b;
}

K_FN k_u32 k_gray_steps(k_f32 gray)
{
    return k_bits(gray * K_GRAY_STEPS + K_ROUND_MAGIC) & 0x3fffff;
}

/* From the sum of k_gray_steps: (sum + pixels / 2) / pixels, a whole number of steps, which a float holds
 * exactly: no double is needed, which a device may not have. Every pixel of a device asks, and dividing 64
 * bits is a long function there: the quotient (20 bits) is guessed in floats, to less than 1, and put right.
 */
K_FN k_f32 k_mean_gray(k_u64 sum, k_u64 pixels)
{
    sum += pixels / 2;
    k_u64 steps = (k_u32)((k_f32)sum / (k_f32)pixels);
    if (steps * pixels > sum)
        steps--;
    else if (sum - steps * pixels >= pixels)
        steps++;
    return (k_f32)(k_u32)steps * (1.0f / K_GRAY_STEPS);
}

/* ---- hue ---- */

/* With V the largest and D the spread of a pixel, the hue in sixths of a turn is h = 0, 2 or 4 + x / D, where
 * x is the difference of the other two. The channel n = 5, 3, 1 (R, G, B) of hue h is V - D f(n + h) with the
 * trapezium f(k) = max(0, min(k, 4 - k, 1)) of period 6: |K - ...| - 2 D above V, cut to the pixel's own
 * smallest and largest. Everything is scaled by D here, so nothing is divided. turn[i] = (2 i + 6 a) mod 6 is
 * where the hue of a pixel whose channel i is largest goes when turned by a. K = D (h + 6 a) lies in -D .. 7
 * D, which lets two absolute values do for the period. */
K_FN k_f32 k_hue_channel(k_f32 base, k_f32 reach, k_f32 low, k_f32 top)
{
    const k_f32 v = base + reach;
    const k_f32 raised = v > low ? v : low;
    return raised < top ? raised : top;
}

K_FN void k_hue(k_f32 *r, k_f32 *g, k_f32 *b, const k_f32 turn[3])
{
    k_f32 top = *r > *g ? *r : *g, low = *r < *g ? *r : *g;
    top = top > *b ? top : *b;
    low = low < *b ? low : *b;
    const k_f32 spread = top - low, spread3 = 3.0f * spread;
    const k_f32 x = top == *r ? *g - *b : top == *g ? *b - *r : *r - *g;
    const k_f32 k = (top == *r ? turn[0] : top == *g ? turn[1] : turn[2]) * spread + x;
    const k_f32 base = top - 2.0f * spread;
    *r = k_hue_channel(base, k_magnitude(k - spread3), low, top);
    *g = k_hue_channel(base, k_magnitude(k_magnitude(k - 2.0f * spread) - spread3), low, top);
    *b = k_hue_channel(base, k_magnitude(k_magnitude(k - 4.0f * spread) - spread3), low, top);
}

/* ---- gamma ---- */

/* Normal positive x. */
K_FN k_f32 k_log2(k_f32 x)
{
    const k_u32 bits = k_bits(x);
    const k_i32 e = ((k_i32)bits - K_HALF_ROOT_BITS) >> 23;
    const k_f32 f = k_float(bits - ((k_u32)e << 23)) - 1.0f;
    /* In pairs, not Horner's way: half as long a chain of operations that wait for each other. */
    const k_f32 f2 = f * f, f4 = f2 * f2;
    const k_f32 p01 = K_LOG2_1 * f + K_LOG2_0, p23 = K_LOG2_3 * f + K_LOG2_2;
    const k_f32 p45 = K_LOG2_5 * f + K_LOG2_4, p67 = K_LOG2_7 * f + K_LOG2_6;
    const k_f32 p03 = p23 * f2 + p01, p47 = p67 * f2 + p45;
    const k_f32 p = (K_LOG2_8 * f4 + p47) * f4 + p03;
    return p * f + (k_f32)e;
}

/* y <= 0; below -126 counts as -126. */
K_FN k_f32 k_exp2(k_f32 y)
{
    y = y > -126.0f ? y : -126.0f;
    const k_f32 moved = y + K_ROUND_MAGIC_SIGNED, f = y - (moved - K_ROUND_MAGIC_SIGNED);
    const k_f32 f2 = f * f, f4 = f2 * f2;
    const k_f32 p01 = K_EXP2_1 * f + K_EXP2_0, p23 = K_EXP2_3 * f + K_EXP2_2;
    const k_f32 p46 = K_EXP2_6 * f2 + (K_EXP2_5 * f + K_EXP2_4);
    const k_f32 p = p46 * f4 + (p23 * f2 + p01);
    return p * k_float((k_bits(moved) << 23) + 0x3f800000);
}

/* clamp(gain * (v / 255)^a), gain = 255 b. 0 stays 0. */
K_FN k_f32 k_gamma(k_f32 v, k_f32 a, k_f32 gain)
{
    k_f32 x = v * (1.0f / 255.0f);
    x = x > K_SMALLEST_NORMAL ? x : K_SMALLEST_NORMAL;
    const k_f32 power = k_exp2(a * k_log2(x));
    return v > 0.0f ? k_clamp(gain * power) : 0.0f;
}

/* ---- noise ---- */

/* Where the normal number of column x comes from. Philox with the counter (row, channel, 0, 0) gives a row
 * its key; word j of the row is j stirred with it (k_noise_word) and makes two normals. A group of 16
 * columns takes eight words, the first normals for its first half: that is one register of eight lanes after
 * another.
 *
 * With a block of Philox for every four words instead, ten rounds of two wide products each, a row took a
 * quarter longer (0.87 against 0.70 ns per sample). A row needs less: its words must look independent of each
 * other, which two rounds of shift, xor and multiply do well enough for test_touch_noise. Rows, channels and
 * samples are told apart by all ten rounds. */
enum { K_NOISE_LANES = 8, K_NOISE_GROUP = 16 };
#define K_NOISE_STEP                                                                                         \
    0x9e3779b9u /* from word to word: 2^32 / golden ratio, so that neighbours lie apart                      \
                 */
#define K_NOISE_STIR0 0x7feb352du
#define K_NOISE_STIR1 0x846ca68bu

K_FN k_u32 k_noise_word(k_u32 j, const k_u32 key[2])
{
    k_u32 x = j * K_NOISE_STEP + key[0];
    x = (x ^ x >> 16) * K_NOISE_STIR0 ^ key[1];
    x = (x ^ x >> 15) * K_NOISE_STIR1;
    return x ^ x >> 16;
}

/* Box and Muller, times `a`. The upper half of the word, signed, is the radius (at most 4.71) with the half
 * of the circle for its sign, the lower half the place in that half. Both are odd multiples of the least
 * step, so that nothing is 0 and signs are even. */
K_FN k_f32 k_normal_radius(k_u32 word, k_f32 a)
{
    const k_i32 upper = (k_i32)((word & 0xffff0000u) | 0x8000u);
    const k_f32 u = (k_f32)(upper < 0 ? -upper : upper); /* times 2^31 */
    const k_i32 over = (k_i32)k_bits(u) - (K_HALF_ROOT_BITS + (31 << 23));
    const k_f32 e = (k_f32)(over >> 23);
    const k_f32 f = k_float((k_u32)(over & 0x7fffff) + K_HALF_ROOT_BITS) - 1.0f, f2 = f * f;
    const k_f32 p01 = K_RADIUS_1 * f + K_RADIUS_0, p23 = K_RADIUS_3 * f + K_RADIUS_2;
    const k_f32 p = (K_RADIUS_4 * f2 + p23) * f2 + p01;
    return k_root(p * f + e * K_RADIUS_E) * (upper < 0 ? -a : a);
}

/* The two normals of a word and its radius. */
K_FN k_f32 k_first_normal(k_u32 word, k_f32 radius)
{
    const k_f32 t = (k_f32)(k_i16)(word | 1), t2 = t * t; /* times 2^15 */
    return radius * (((K_COS_3 * t2 + K_COS_2) * t2 + K_COS_1) * t2 + K_COS_0);
}

K_FN k_f32 k_second_normal(k_u32 word, k_f32 radius)
{
    const k_f32 t = (k_f32)(k_i16)(word | 1), t2 = t * t;
    return radius * t * (((K_SIN_3 * t2 + K_SIN_2) * t2 + K_SIN_1) * t2 + K_SIN_0);
}

/* The normal of column x, times `a`. */
K_FN k_f32 k_normal(k_u32 x, const k_u32 key[2], k_f32 a)
{
    const k_u32 word = k_noise_word(x / K_NOISE_GROUP * K_NOISE_LANES + x % K_NOISE_LANES, key);
    const k_f32 radius = k_normal_radius(word, a);
    return x & K_NOISE_LANES ? k_second_normal(word, radius) : k_first_normal(word, radius);
}

/* v with the noise of mean b. */
K_FN k_f32 k_add_noise(k_f32 v, k_f32 normal, k_f32 b)
{
    return k_clamp(v + (normal + b));
}

#endif
