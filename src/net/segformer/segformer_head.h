/* SPDX-License-Identifier: Apache-2.0
 *
 * The decode head, folded. Hugging Face computes fuse(cat(up(L_i f_i + b_i))); channel mixing and
 * interpolation commute and interpolation weights sum to 1, so that is
 *
 *   y = sum_i up(M_i f_i) + m,   M_i = W_i L_i (D x C_i),   m = sum_i W_i b_i,
 *
 * with W_i the columns of linear_fuse that belong to stage i (the concatenation is reversed: stage 4 first).
 * Then
 *
 *   r = dropout(relu(batchnorm(y))),   logits = r W_c^T + b_c.
 *
 * Half the arithmetic, and no map of 4 D channels. Only y is kept; r is made again where it is needed.
 */
#ifndef STOKE_SRC_NET_SEGFORMER_SEGFORMER_HEAD_H
#define STOKE_SRC_NET_SEGFORMER_SEGFORMER_HEAD_H

#include "src/net/kernels/net_table.h"
#include "src/net/ops/ops.h"

enum { STK_STAGES = 4 };

typedef struct stk_segformer_head {
    uint32_t batch, height[STK_STAGES], width[STK_STAGES]; /* stage 1 first; no map is larger */
    uint32_t channels[STK_STAGES];                         /* C_i */
    uint32_t size;                                         /* D, a multiple of 32 */
    uint32_t classes;
    /* masters and gradients, PyTorch's layouts; gradients NULL: inference or frozen */
    const float *linear_weight[STK_STAGES], *linear_bias[STK_STAGES]; /* [D][C_i], [D] */
    float *d_linear_weight[STK_STAGES], *d_linear_bias[STK_STAGES];
    const float *fuse_weight; /* [D][4 D] */
    float *d_fuse_weight;
    const float *norm_gamma, *norm_beta;
    float *d_norm_gamma, *d_norm_beta;
    const float *running_mean, *running_variance; /* what inference normalises by */
    double *batch_mean, *batch_variance; /* [D], written in training: what the running ones move towards,
                                            the variance unbiased */
    const float *classifier_weight, *classifier_bias; /* [classes][D], [classes] */
    float *d_classifier_weight, *d_classifier_bias;
    float dropout; /* probability, 0 in inference */
    uint64_t seed; /* of this step's dropout: the mask is a function of (seed, row, channel) */
    int training;  /* 1: batch statistics; 0: running ones, folded into M */
    void *room;    /* stk_segformer_head_room bytes in the arena: folded weights, packed forms, statistics, z
                      maps */
} stk_segformer_head;

size_t stk_segformer_head_room(const stk_exec *run, const stk_segformer_head *head);
/* Lays out `room`. Before the first use, when sizes and masters are set. */
void stk_segformer_head_bind(const stk_exec *run, stk_segformer_head *head);
/* Folds and packs. Once per step, before forward. */
void stk_segformer_head_pack(const stk_exec *run, stk_segformer_head *head);
/* features[i]: run's type, [batch * h_i * w_i][C_i]. y: run's type, [batch * h_1 * w_1][D], kept for
 * backward; NULL in inference. logits: f32 with stride stk_logits_stride; columns beyond `classes` are
 * unspecified. */
void stk_segformer_head_forward(const stk_exec *run, stk_segformer_head *head,
                                const void *const features[STK_STAGES], void *y, float *logits);
/* After a forward in training. From d_logits (f32, columns beyond `classes` zero): gradients of all
 * parameters of the head, and d_features[i], f32, written (NULL: not wanted). d_y: a map like y to work in,
 * not y itself: the gradient of the batch norm needs y next to what arrives at it, after a sum over both, and
 * keeping them apart is cheaper than making the latter twice (150 classes: 3 ms of memory against 15 ms of
 * products). */
void stk_segformer_head_backward(const stk_exec *run, stk_segformer_head *head,
                                 const void *const features[STK_STAGES], void *y, const float *d_logits,
                                 void *d_y, float *const d_features[STK_STAGES]);
stk_exec_need stk_segformer_head_need(const stk_exec *run, const stk_segformer_head *head);

/* The same for several batches that are normalised together: each goes through a part, and what they say is
 * joined before the next one. Forward: y and its moments, stk_segformer_head_moments doubles; normalise,
 * once, by `count` of these one after the other; classify. A batch of nothing has a count of 0. */
size_t stk_segformer_head_moments(const stk_segformer_head *head);
void stk_segformer_head_look(const stk_exec *run, stk_segformer_head *head,
                             const void *const features[STK_STAGES], void *y, double *moments);
void stk_segformer_head_normalise(const stk_exec *run, const stk_segformer_head *head, const double *moments,
                                  uint32_t count);
void stk_segformer_head_classify(const stk_exec *run, stk_segformer_head *head, void *y, float *logits);
/* Backward: d_y becomes the gradient that arrives at the norm, with two sums per channel, 2 D doubles;
 * slopes, once, by `count` of these; spread, with the batch's own sums. classifier: stk_segformer_head_aside
 * floats that hold its gradients from the one call to the other; NULL: they go where they belong at once. */
static inline size_t stk_segformer_head_aside(const stk_segformer_head *head)
{
    return (size_t)head->classes * (head->size + 1);
}
void stk_segformer_head_sum(const stk_exec *run, stk_segformer_head *head, void *y, const float *d_logits,
                            void *d_y, float *classifier, double *sums);
void stk_segformer_head_slopes(const stk_exec *run, const stk_segformer_head *head, const double *sums,
                               uint32_t count);
void stk_segformer_head_spread(const stk_exec *run, stk_segformer_head *head,
                               const void *const features[STK_STAGES], void *y, void *d_y, float *classifier,
                               const double *sums, float *const d_features[STK_STAGES]);

/* A product of the rows of a map, which the head is made of; 0: there is no number `index`. */
typedef struct stk_segformer_head_product {
    const char *name; /* a literal */
    size_t rows;      /* of a sample */
    uint32_t in, out;
    int classifies; /* 1: the last one; the others read features */
} stk_segformer_head_product;
int stk_segformer_head_product_at(const stk_segformer_head *head, uint32_t index,
                                  stk_segformer_head_product *product);

/* ---- inside the head ---- */

/* What lies in stk_segformer_head.room, for the files of the head: folded weights as linear layers, tables of
 * the interpolation, the batch's statistics, the smaller maps. */

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
    double rows;                        /* of y, of all batches that are normalised together */
    double *moments, *sums;             /* of a batch that is normalised alone */
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

/* Of one channel. */
typedef struct stk_head_moments {
    double count, mean, squares; /* squares: of the distances from the mean, summed */
} stk_head_moments;
/* Chan, Golub and LeVeque: those of two sets together. */
static inline stk_head_moments stk_head_moments_join(stk_head_moments a, stk_head_moments b)
{
    const double count = a.count + b.count, apart = b.mean - a.mean;
    return (stk_head_moments){ count, a.mean + apart * b.count / count,
                               a.squares + b.squares + apart * apart * a.count * b.count / count };
}

/* The batch norm, ReLU and dropout of this step, as the functions of the table take them. */
stk_head_norm stk_segformer_head_norm_of(const stk_segformer_head *head);
stk_exec_need stk_segformer_head_backward_need(const stk_exec *run, const stk_segformer_head *head);

#endif
