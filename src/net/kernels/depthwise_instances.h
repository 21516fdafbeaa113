/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of net_table.h for each type, from functions that take the type as their last argument.
 * For the end of depthwise_c.c and depthwise_simd.c, which define those under the same names.
 */
#ifndef STOKE_SRC_NET_KERNELS_DEPTHWISE_INSTANCES_H
#define STOKE_SRC_NET_KERNELS_DEPTHWISE_INSTANCES_H

#include "src/net/kernels/net_table.h"

#define STK_DEPTHWISE_INSTANCES(name, type)                                                                  \
    static void forward_##name(const stk_depthwise *layer, const stk_depthwise_line_part *part,                        \
                               const stk_depthwise_line_around *h1, void *h3)                                          \
    {                                                                                                        \
        forward(layer, part, h1, h3, type);                                                                  \
    }                                                                                                        \
    static void slope_##name(const stk_depthwise *layer, const stk_depthwise_line_part *part,                          \
                             const stk_depthwise_line_around *h1, const void *dh3, float *t)                           \
    {                                                                                                        \
        slope(layer, part, h1, dh3, t, type);                                                                \
    }                                                                                                        \
    static void backward_##name(const stk_depthwise *layer, const stk_depthwise_line_part *part,                       \
                                const float *const t[3], const void *h1, void *dh1, float *sums)             \
    {                                                                                                        \
        backward(layer, part, t, h1, dh1, sums, type);                                                       \
    }

#define STK_DEPTHWISE_TABLE                                                                                  \
    {                                                                                                        \
        .forward = { forward_f32, forward_bf16, forward_f16 },                                               \
        .slope = { slope_f32, slope_bf16, slope_f16 },                                                       \
        .backward = { backward_f32, backward_bf16, backward_f16 },                                           \
    }

#endif
