/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies in stk_segformer_head.room, for the files of the head: folded weights as linear layers, tables of
 * the interpolation, the batch's statistics, the smaller maps.
 */
#ifndef STOKE_SRC_NET_SEGFORMER_SEGFORMER_HEAD_ROOM_H
#define STOKE_SRC_NET_SEGFORMER_SEGFORMER_HEAD_ROOM_H

#include "src/net/segformer/segformer_head.h"
#include "src/net/kernels/head_table.h"

typedef struct stk_segformer_head_room_map {
    stk_linear stage[STK_STAGES]; /* M_i; stage 1 has m as its bias */
    stk_linear classifier;
    float *folded[STK_STAGES];   /* M_i, [D][C_i] */
    float *d_folded[STK_STAGES]; /* dM_i */
    float *bias;                 /* m */
    float *stacked;              /* [4 D]: the biases b_i in the order of the columns of linear_fuse */
    void *multiply;              /* packing room of stk_multiply */
    void *z[STK_SMALLER];        /* M_i f_i of stages 2 to 4, run's type; in backward their gradients */
    stk_head_upsample across[STK_SMALLER], down[STK_SMALLER];
    float *mean, *rstd, *scale, *shift; /* [D], batch norm of this step */
    float *gain, *g_mean, *slope;       /* [D], its backward */
} stk_segformer_head_room_map;

static inline stk_segformer_head_room_map *stk_segformer_head_map(const stk_segformer_head *head)
{
    return head->room;
}

static inline size_t stk_segformer_head_rows(const stk_segformer_head *head, int stage)
{
    return (size_t)head->batch * head->height[stage] * head->width[stage];
}

/* Rows of y that go through the classifier together, times D elements: 96 KiB to 144 KiB, a part of a second
 * level cache; multiples of 48 suit the gemm kernels of 6 and 16 rows. */
static inline size_t stk_segformer_head_block(const stk_segformer_head *head)
{
    const size_t rows = 32768 / head->size / 48 * 48;
    return rows < 48 ? 48 : rows;
}

/* Strips of whole lines of one picture, so many per picture. */
static inline uint32_t stk_segformer_head_strips(const stk_segformer_head *head, uint32_t lines)
{
    return (head->height[0] + lines - 1) / lines;
}

/* The batch norm, ReLU and dropout of this step, as the functions of the table take them. */
stk_head_norm stk_segformer_head_norm_of(const stk_segformer_head *head);
/* Own parts of stk_segformer_head_need: forward's and backward's. */
stk_exec_need stk_segformer_head_forward_need(const stk_exec *run, const stk_segformer_head *head);
stk_exec_need stk_segformer_head_backward_need(const stk_exec *run, const stk_segformer_head *head);

#endif
