/* SPDX-License-Identifier: Apache-2.0
 *
 * Every name of src/net/kernels/simd.h as a function on memory, compiled once per width (simd_names.c).
 */
#ifndef STOKE_TESTS_UNIT_SIMD_NAMES_H
#define STOKE_TESTS_UNIT_SIMD_NAMES_H

#include "src/net/kernels/floats.h"

enum { SIMD_LANES_MAX = 16 };

/* Operands are full vectors; functions to a single number give it in every lane. */
typedef struct simd_operands {
    float a[SIMD_LANES_MAX], b[SIMD_LANES_MAX], c[SIMD_LANES_MAX], d[SIMD_LANES_MAX];
    size_t count;
    uint32_t threshold;
} simd_operands;

#define SIMD_NAMES(_)                                                                                        \
    _(set, v_set(o->a[0]))                                                                                   \
    _(zero, v_zero())                                                                                        \
    _(add, v_add(a, b))                                                                                      \
    _(sub, v_sub(a, b))                                                                                      \
    _(mul, v_mul(a, b))                                                                                      \
    _(div, v_div(a, b))                                                                                      \
    _(fma, v_fma(a, b, c))                                                                                   \
    _(fnma, v_fnma(a, b, c))                                                                                 \
    _(max, v_max(a, b))                                                                                      \
    _(min, v_min(a, b))                                                                                      \
    _(sqrt, v_sqrt(a))                                                                                       \
    _(round, v_round(a))                                                                                     \
    _(abs, v_abs(a))                                                                                         \
    _(greater, v_greater(a, b, c, d))                                                                        \
    _(scale2, v_scale2(a, b))                                                                                \
    _(sum, v_set(v_sum(a)))                                                                                  \
    _(largest, v_set(v_largest(a)))                                                                          \
    _(first, v_first(o->count, a, b))                                                                        \
    _(exp, v_exp(a))                                                                                         \
    _(log, v_log(a))                                                                                         \
    _(raise2, v_raise2(a, v_add(b, v_set(12582912.0f))))                                                     \
    _(split2, v_split2(a, &n))                                                                               \
    _(split2_power, (v_split2(a, &n), n))                                                                    \
    _(where, v_where(hash(o->count), vi_set(o->threshold), a))

typedef struct simd_names {
    int lanes;
#define SIMD_MEMBER(name, value) void (*name)(const simd_operands *o, float *out);
    SIMD_NAMES(SIMD_MEMBER)
#undef SIMD_MEMBER
    void (*transpose)(float *lanes_by_lanes);
    void (*interleave3)(float *three);
    void (*pick)(const float *base, const int32_t *labels, float *out); /* v_pick, v_pick_lane, v_pick_one */
    int (*pick_same)(const int32_t *labels);
    double (*squares)(const float *a);
    void (*spread[STK_FLOATS])(const void *array, size_t i, float *out);
    void (*get[STK_FLOATS])(const void *array, size_t i, float *out);
    void (*put[STK_FLOATS])(void *array, size_t i, const float *in);
    void (*get_part[STK_FLOATS])(const void *array, size_t i, size_t count, float *out);
    void (*put_part[STK_FLOATS])(void *array, size_t i, size_t count, const float *in);
} simd_names;

extern const simd_names simd_names_avx2, simd_names_avx512, simd_names_emulated;

#endif
