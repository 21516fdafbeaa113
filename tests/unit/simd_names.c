/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of src/net/kernels/simd.h in the width this is compiled for.
 */
#include "tests/unit/simd_names.h"

#include "src/net/kernels/simd.h"

/* All operations on whole numbers at once. */
STK_INLINE vi hash(size_t count)
{
    const vi product = vi_mul(vi_add(vi_lanes(), vi_set((uint32_t)count)), vi_set(0x9e3779b9u));
    return vi_and(vi_right(vi_fold(product, 15), 3), vi_set(0xffff));
}

#define NAME(name, value)                                                                                    \
    static void name##_lanes(const simd_operands *o, float *out)                                             \
    {                                                                                                        \
        const vf a = v_load(o->a), b = v_load(o->b), c = v_load(o->c), d = v_load(o->d);                     \
        vf n = a;                                                                                            \
        (void)n, (void)a, (void)b, (void)c, (void)d;                                                         \
        v_store(out, value);                                                                                 \
    }
SIMD_NAMES(NAME)

static void transpose(float *m)
{
    vf row[STK_LANES];
    for (int i = 0; i < STK_LANES; i++) row[i] = v_load(m + i * STK_LANES);
    v_transpose(row);
    for (int i = 0; i < STK_LANES; i++) v_store(m + i * STK_LANES, row[i]);
}

static void interleave3(float *three)
{
    vf row[3];
    for (int i = 0; i < 3; i++) row[i] = v_load(three + i * STK_LANES);
    v_interleave3(row);
    for (int i = 0; i < 3; i++) v_store(three + i * STK_LANES, row[i]);
}

static void pick(const float *base, const int32_t *labels, float *out)
{
    v_store(out, v_pick(base, labels));
    v_store(out + STK_LANES, v_pick_lane(base, labels));
    v_store(out + 2 * STK_LANES, v_pick_one(labels));
}

static int pick_same(const int32_t *labels)
{
    return v_pick_same(labels);
}

static double squares(const float *a)
{
    vd sum[2] = { vd_zero(), vd_zero() };
    double lanes[STK_LANES], all = 0;
    vd_add_squares(sum, v_load(a));
    for (int i = 0; i < 2; i++) vd_store(lanes + i * STK_LANES / 2, sum[i]);
    for (int i = 0; i < STK_LANES; i++) all += lanes[i];
    return all;
}

#define TYPED(name, type)                                                                                    \
    static void spread_##name(const void *array, size_t i, float *out)                                       \
    {                                                                                                        \
        v_store(out, v_spread(array, i, type));                                                              \
    }                                                                                                        \
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
    SIMD_NAMES(MEMBER).transpose = transpose,
    .interleave3 = interleave3,
    .pick = pick,
    .pick_same = pick_same,
    .squares = squares,
    .spread = { spread_f32, spread_bf16, spread_f16 },
    .get = { get_f32, get_bf16, get_f16 },
    .put = { put_f32, put_bf16, put_f16 },
    .get_part = { get_part_f32, get_part_bf16, get_part_f16 },
    .put_part = { put_part_f32, put_part_bf16, put_part_f16 },
};
