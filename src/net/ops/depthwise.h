/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the MLP: depthwise 3x3 convolution with bias (padding 1), then GELU (the exact one, by erf). Fused
 * both ways; all maps are of the run's type, [batch][height][width][channels].
 *
 *   h2 = depthwise(h1) + b,  h3 = gelu(h2)
 *
 * h2 is never in memory: backward computes it again. With two AVX2 cores that is as fast as keeping it,
 * within 3 % of both ways (37.1 against 38.8 ms of processor time for b0 with 4 pictures of 256x256, 88
 * against 91 for 2 of 512x512, 169 against 170 for b2): nine products cost what reading and writing it did. A
 * plain training pass of b0 keeps a fifth less.
 */
#ifndef STOKE_SRC_NET_OPS_DEPTHWISE_H
#define STOKE_SRC_NET_OPS_DEPTHWISE_H

#include "src/net/exec.h"

typedef struct stk_depthwise {
    uint32_t channels;          /* a multiple of 8 */
    const float *weight, *bias; /* masters: [channels][9], [channels] */
    float *d_weight, *d_bias;   /* NULL: frozen */
    float *packed;              /* 10 * channels floats: [tap][channel], then the bias; in the arena */
} stk_depthwise;

typedef struct stk_depthwise_map {
    uint32_t batch, height, width;
} stk_depthwise_map;

/* Once per step. */
void stk_depthwise_pack(const stk_exec *run, const stk_depthwise *const *layers, size_t count);

void stk_depthwise_forward(const stk_exec *run, const stk_depthwise *layer, stk_depthwise_map map,
                           const void *h1, void *h3);
/* h3 made row by row from h1 when it is needed (for linear.h). */
typedef struct stk_depthwise_hidden {
    const struct stk_net_table *table;
    const stk_depthwise *layer;
    stk_depthwise_map map;
    const void *h1;
    stk_float type;
} stk_depthwise_hidden;
stk_exec_rows stk_hidden_rows(const stk_depthwise_hidden *source);

/* dh1 from dh3; gradients of weight and bias. dh1 may not be dh3. */
void stk_depthwise_backward(const stk_exec *run, const stk_depthwise *layer, stk_depthwise_map map,
                            const void *h1, const void *dh3, void *dh1);
stk_exec_need stk_depthwise_need(const stk_exec *run, const stk_depthwise *layer, stk_depthwise_map map);

#endif
