/* SPDX-License-Identifier: Apache-2.0
 *
 * How activations are stored: f32, or one of the two 16-bit floats. All arithmetic is done in f32; these are
 * the scalar loads and stores, round to nearest even, the same bits as the vector ones of simd.h.
 */
#ifndef STOKE_SRC_NET_KERNELS_FLOATS_H
#define STOKE_SRC_NET_KERNELS_FLOATS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/half.h"

typedef enum stk_float { STK_F32 = 0, STK_BF16 = 1, STK_F16 = 2 } stk_float;
enum { STK_FLOATS = 3 };

static inline size_t stk_float_bytes(stk_float type)
{
    return type == STK_F32 ? 4 : 2;
}

/* A function for each type, from one whose last argument is the type, a constant where it is inlined; and the
 * three as an array of a table. */
#define STK_TYPED(function, parameters, ...)                                                                 \
    static void function##_f32 parameters                                                                    \
    {                                                                                                        \
        function(__VA_ARGS__, STK_F32);                                                                      \
    }                                                                                                        \
    static void function##_bf16 parameters                                                                   \
    {                                                                                                        \
        function(__VA_ARGS__, STK_BF16);                                                                     \
    }                                                                                                        \
    static void function##_f16 parameters                                                                    \
    {                                                                                                        \
        function(__VA_ARGS__, STK_F16);                                                                      \
    }
#define STK_OF_TYPES(function)                                                                               \
    {                                                                                                        \
        function##_f32, function##_bf16, function##_f16                                                      \
    }

/* Element `i` of an array of `type`. */
static inline float stk_get(const void *array, size_t i, stk_float type)
{
    if (type == STK_F32) return ((const float *)array)[i];
    const uint16_t bits = ((const uint16_t *)array)[i];
    return type == STK_BF16 ? k_from_bf16(bits) : k_from_f16(bits);
}

static inline void stk_put(void *array, size_t i, float value, stk_float type)
{
    if (type == STK_F32)
        ((float *)array)[i] = value;
    else
        ((uint16_t *)array)[i] = type == STK_BF16 ? k_bf16(value) : k_f16(value);
}

/* Address of element `i`. */
static inline void *stk_at(const void *array, size_t i, stk_float type)
{
    return (unsigned char *)(uintptr_t)array + i * stk_float_bytes(type);
}

#endif
