/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions as linear layers on patches: patch embeddings (7x7 stride 4, 3x3 stride 2, padded by half) and
 * sequence reductions (kernel = stride, no padding). Patches are gathered into the linear layer's scratch a
 * few rows at a time and never stored.
 */
#ifndef STOKE_SRC_NET_OPS_CONV_H
#define STOKE_SRC_NET_OPS_CONV_H

#include "src/net/ops/linear.h"

typedef struct stk_conv_patches {
    uint32_t batch, height, width, channels; /* of the source */
    uint32_t kernel, stride, padding;
    uint32_t out_height, out_width; /* (size + 2 padding - kernel) / stride + 1, rounded down */
    /* The source: tokens of `type`, or, for the first layer, f32 pictures in either layout. */
    const void *source;
    stk_float type;
    int planar;           /* 1: source is [batch][channels][height][width] f32 */
    size_t sample_stride; /* elements from picture to picture of the source */
    stk_float out;        /* type of the rows: the run's */
} stk_conv_patches;

/* Rows of kernel * kernel * channels elements, tap by tap, one per output token. `patches` must outlive it.
 */
stk_exec_rows stk_patches_rows(const stk_conv_patches *patches);
/* The gradient of the source from that of the patches: every element of dx (f32 or the run's, [batch][height]
 * [width][channels]) is the sum over the patches it is part of, in the order of its taps; = or +=. */
void stk_patches_backward(const stk_exec *run, const stk_conv_patches *patches, const void *d_rows,
                          size_t stride, void *dx, stk_float dx_type, int add);

#endif
