/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the MLP: depthwise 3x3 convolution with bias (padding 1), then GELU (the exact one, by erf). Fused
 * both ways; all maps are of the run's type, [batch][height][width][channels].
 *
 *   h2 = depthwise(h1) + b,  h3 = gelu(h2)
 */
#ifndef STOKE_SRC_NET_DEPTHWISE_H
#define STOKE_SRC_NET_DEPTHWISE_H

#include "src/net/run.h"

typedef struct stk_depthwise {
    uint32_t channels;          /* a multiple of 8 */
    const float *weight, *bias; /* masters: [channels][9], [channels] */
    float *d_weight, *d_bias;   /* NULL: frozen */
    float *packed;              /* 10 * channels floats: [tap][channel], then the bias; in the arena */
} stk_depthwise;

typedef struct stk_map {
    uint32_t batch, height, width;
} stk_map;

/* Once per step. */
void stk_depthwise_pack(const stk_run *run, const stk_depthwise *const *layers, size_t count);

/* h2 NULL: not kept. */
void stk_depthwise_forward(const stk_run *run, const stk_depthwise *layer, stk_map map, const void *h1,
                           void *h2, void *h3);
/* h3 made row by row from h1 when it is needed (for linear.h), or from h2 when that was kept. */
typedef struct stk_hidden {
    const struct stk_net_table *table;
    const stk_depthwise *layer;
    stk_map map;
    const void *h1, *h2; /* h2 NULL: from h1 */
    stk_float type;
} stk_hidden;
stk_rows stk_hidden_rows(const stk_hidden *source);

/* dh1 from dh3; gradients of weight and bias. h2 NULL: computed again from h1. dh1 may not be dh3. */
void stk_depthwise_backward(const stk_run *run, const stk_depthwise *layer, stk_map map, const void *h1,
                            const void *h2, const void *dh3, void *dh1);
stk_need stk_depthwise_need(const stk_run *run, const stk_depthwise *layer, stk_map map);

#endif
