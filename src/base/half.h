/* SPDX-License-Identifier: Apache-2.0
 *
 * float to the two 16-bit floats, round to nearest even, and back: the same bits as F16C and as torch give.
 */
#ifndef STOKE_SRC_BASE_HALF_H
#define STOKE_SRC_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t stk_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Finite values only: batches hold nothing else. */
static inline uint16_t stk_bf16(float value)
{
    uint32_t bits = stk_float_bits(value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline uint16_t stk_f16(float value)
{
    uint32_t bits = stk_float_bits(value), sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and up round to infinity */
    uint32_t drop = 13, mantissa = magnitude;
    if (magnitude < 0x38800000) { /* below 2^-14: subnormal, the hidden bit becomes a stored one */
        uint32_t exponent = magnitude >> 23;
        if (exponent < 102) return (uint16_t)sign; /* below 2^-25: less than half of the smallest */
        drop = 126 - exponent;
        mantissa = (magnitude & 0x7fffff) | 0x800000;
    } else {
        mantissa -= 0x38000000; /* exponent bias 127 to 15 */
    }
    uint32_t half = (1u << (drop - 1)) - 1 + (mantissa >> drop & 1);
    return (uint16_t)(sign | (mantissa + half) >> drop);
}

static inline float stk_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float stk_from_bf16(uint16_t bits)
{
    return stk_float_of((uint32_t)bits << 16);
}

static inline float stk_from_f16(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = (uint32_t)(bits & 0x7fff) << 13;
    if (magnitude >= 0x0f800000) return stk_float_of(sign | magnitude | 0x7f800000); /* infinity */
    /* The exponent's bias goes from 15 to 127 by an exact product, which also makes subnormals normal. */
    return stk_float_of(sign | stk_float_bits(stk_float_of(magnitude) * 0x1p112f));
}

#endif
