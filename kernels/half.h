/* SPDX-License-Identifier: Apache-2.0
 *
 * float to the two 16-bit floats, round to nearest even, and back: the same bits as F16C and as torch give.
 * Integers where a device might flush subnormal floats to zero.
 */
#ifndef STOKE_KERNELS_HALF_H
#define STOKE_KERNELS_HALF_H

#include "kernels/compat.h"

/* Finite values only: batches hold nothing else. */
K_FN k_u16 k_bf16(k_f32 value)
{
    const k_u32 bits = k_bits(value);
    return (k_u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

K_FN k_f32 k_from_bf16(k_u16 bits)
{
    return k_float((k_u32)bits << 16);
}

K_FN k_u16 k_f16(k_f32 value)
{
    const k_u32 bits = k_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    k_u32 drop = 13, mantissa = magnitude - 0x38000000u;          /* exponent bias 127 to 15 */
    if (magnitude >= 0x477ff000u) return (k_u16)(sign | 0x7c00u); /* 65520 and up round to infinity */
    if (magnitude < 0x38800000u) { /* below 2^-14: subnormal, the hidden bit becomes a stored one */
        const k_u32 exponent = magnitude >> 23;
        if (exponent < 102) return (k_u16)sign; /* below 2^-25: less than half of the smallest */
        drop = 126 - exponent;
        mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    }
    return (k_u16)(sign | (mantissa + (1u << (drop - 1)) - 1 + (mantissa >> drop & 1u)) >> drop);
}

K_FN k_f32 k_from_f16(k_u16 bits)
{
    const k_u32 sign = (k_u32)(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    if (magnitude - 0x400u < 0x7800u) return k_float(sign | ((magnitude << 13) + 0x38000000u)); /* normal */
    if (magnitude >= 0x7c00u) return k_float(sign | magnitude << 13 | 0x7f800000u);             /* infinity */
    return k_float(sign | k_bits((k_f32)magnitude * (1.0f / 16777216.0f))); /* multiples of 2^-24 */
}

#endif
