/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of net_table.h for each type, from functions that take the type as their last argument. For
 * the end of head_c.c and head_simd.c, which define those under the same names.
 */
#ifndef STOKE_SRC_NET_KERNELS_HEAD_INSTANCES_H
#define STOKE_SRC_NET_KERNELS_HEAD_INSTANCES_H

#include "src/net/kernels/net_table.h"

#define STK_HEAD_INSTANCES(suffix, type)                                                                     \
    static void mix_##suffix(size_t count, const void *a, float a_weight, const void *b, float b_weight,     \
                             float *out)                                                                     \
    {                                                                                                        \
        mix(count, a, a_weight, b, b_weight, out, type);                                                     \
    }                                                                                                        \
    static void line_##suffix(const stk_head_line *line, int first, float *moments, void *y)                 \
    {                                                                                                        \
        line_moments(line, first, moments, y, type);                                                         \
    }                                                                                                        \
    static void line_relu_##suffix(const stk_head_line *line, void *y)                                       \
    {                                                                                                        \
        line_relu(line, y, type);                                                                            \
    }                                                                                                        \
    static void activate_##suffix(const stk_head_norm *norm, size_t row, size_t rows, const void *y,         \
                                  void *r)                                                                   \
    {                                                                                                        \
        activate(norm, row, rows, y, r, type);                                                               \
    }                                                                                                        \
    static void activate_back_##suffix(const stk_head_norm *norm, size_t row, size_t rows, const void *y,    \
                                       const float *dr, void *r, void *g, float *sums)                       \
    {                                                                                                        \
        activate_back(norm, row, rows, y, dr, r, g, sums, type);                                             \
    }                                                                                                        \
    static void norm_back_##suffix(const stk_head_norm_back *back, size_t rows, const void *y,               \
                                   const void *g, void *dy)                                                  \
    {                                                                                                        \
        norm_back(back, rows, y, g, dy, type);                                                               \
    }                                                                                                        \
    static void spread_##suffix(const stk_head_upsample *across, uint32_t size, const void *dy, float a_weight,    \
                                float *a, float b_weight, float *b)                                          \
    {                                                                                                        \
        spread(across, size, dy, a_weight, a, b_weight, b, type);                                            \
    }                                                                                                        \
    static void join_##suffix(size_t count, const float *a, const float *b, void *out)                       \
    {                                                                                                        \
        join(count, a, b, out, type);                                                                        \
    }
STK_HEAD_INSTANCES(f32, STK_F32)
STK_HEAD_INSTANCES(bf16, STK_BF16)
STK_HEAD_INSTANCES(f16, STK_F16)

#define STK_HEAD_TYPED(name)                                                                                 \
    {                                                                                                        \
        name##_f32, name##_bf16, name##_f16                                                                  \
    }

static void fill(stk_head_table *table)
{
    *table = (stk_head_table){
        .mix = STK_HEAD_TYPED(mix),
        .line = STK_HEAD_TYPED(line),
        .line_relu = STK_HEAD_TYPED(line_relu),
        .activate = STK_HEAD_TYPED(activate),
        .activate_back = STK_HEAD_TYPED(activate_back),
        .norm_back = STK_HEAD_TYPED(norm_back),
        .spread = STK_HEAD_TYPED(spread),
        .join = STK_HEAD_TYPED(join),
    };
}

#endif
