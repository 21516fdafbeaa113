/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of net_table.h for each type, from functions that take the type as their last argument. For the
 * end of depthwise_c.c and depthwise_simd.c, which define those under the same names.
 */
#ifndef STOKE_SRC_NET_KERNELS_DEPTHWISE_INSTANCES_H
#define STOKE_SRC_NET_KERNELS_DEPTHWISE_INSTANCES_H

#include "src/net/kernels/net_table.h"

STK_TYPED(forward,
          (const stk_depthwise *layer, const stk_depthwise_line_part *part,
           const stk_depthwise_line_around *h1, void *h3),
          layer, part, h1, h3)
STK_TYPED(slope,
          (const stk_depthwise *layer, const stk_depthwise_line_part *part,
           const stk_depthwise_line_around *h1, const void *dh3, float *t),
          layer, part, h1, dh3, t)
STK_TYPED(backward,
          (const stk_depthwise *layer, const stk_depthwise_line_part *part, const float *const t[3],
           const void *h1, void *dh1, float *sums),
          layer, part, t, h1, dh1, sums)

static const stk_depthwise_table instances = { .forward = STK_OF_TYPES(forward),
                                               .slope = STK_OF_TYPES(slope),
                                               .backward = STK_OF_TYPES(backward) };

#endif
