/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of src/net/simd.h in the width this is compiled for.
 */
#include "tests/unit/simd_names.h"

#include "src/net/simd.h"

#define NAME(name, value)                                                                                    \
    static void name##_lanes(const simd_operands *o, float *out)                                             \
    {                                                                                                        \
        const vf a = v_load(o->a), b = v_load(o->b), c = v_load(o->c), d = v_load(o->d);                     \
        (void)a, (void)b, (void)c, (void)d;                                                                  \
        v_store(out, value);                                                                                 \
    }
SIMD_NAMES(NAME)

#define TYPED(name, type)                                                                                    \
    static void get_##name(const void *array, size_t i, float *out)                                          \
    {                                                                                                        \
        v_store(out, v_get(array, i, type));                                                                 \
    }                                                                                                        \
    static void put_##name(void *array, size_t i, const float *in)                                           \
    {                                                                                                        \
        v_put(array, i, v_load(in), type);                                                                   \
    }                                                                                                        \
    static void get_part_##name(const void *array, size_t i, size_t count, float *out)                       \
    {                                                                                                        \
        v_store(out, v_get_part(array, i, count, type));                                                     \
    }                                                                                                        \
    static void put_part_##name(void *array, size_t i, size_t count, const float *in)                        \
    {                                                                                                        \
        v_put_part(array, i, count, v_load(in), type);                                                       \
    }
TYPED(f32, STK_F32)
TYPED(bf16, STK_BF16)
TYPED(f16, STK_F16)

#define MEMBER(name, value) .name = name##_lanes,
const simd_names STK_SIMD(simd_names) = {
    .lanes = STK_LANES,
    SIMD_NAMES(MEMBER).get = { get_f32, get_bf16, get_f16 },
    .put = { put_f32, put_bf16, put_f16 },
    .get_part = { get_part_f32, get_part_bf16, get_part_f16 },
    .put_part = { put_part_f32, put_part_bf16, put_part_f16 },
};
