/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for conv.h. Both functions move or add numbers one by one: every column
 * gives the same bits.
 */
#ifndef STOKE_SRC_NET_KERNELS_CONV_TABLE_H
#define STOKE_SRC_NET_KERNELS_CONV_TABLE_H

#include "src/net/exec.h"

typedef struct stk_conv_table {
    /* out[i] (of type `to`; =, or += when add) for `elements` elements: in[0][i] + in[1][i] + ..., `count` >=
     * 0 arrays of type `from`, added in order; what out held comes last. */
    void (*sum)(void *out, stk_float to, const void *const *in, uint32_t count, stk_float from,
                size_t elements, int add);
    /* A patch of a picture in three planes, all of it inside: kernel lines of kernel pixels, three elements
     * of `type` each. Lines are `width` floats apart, planes `plane`. */
    void (*patch_rgb)(void *out, stk_float type, const float *in, size_t plane, size_t width,
                      uint32_t kernel);
} stk_conv_table;

void stk_conv_fill_c(stk_conv_table *table);
void stk_conv_fill_avx2(stk_conv_table *table);
void stk_conv_fill_avx512(stk_conv_table *table);

#endif
