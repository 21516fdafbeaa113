/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of the function table for update.h: one chunk of parameters of one group.
 */
#ifndef STOKE_SRC_NET_KERNELS_UPDATE_TABLE_H
#define STOKE_SRC_NET_KERNELS_UPDATE_TABLE_H

#include "src/net/exec.h"

/* The numbers of a step for one group, each computed in double and rounded once, as torch.optim does. */
typedef struct stk_update_step {
    float factor;          /* of every gradient */
    float lr;              /* SGD */
    float decay;           /* SGD: added to the gradient times the value; AdamW: 1 - lr * weight_decay */
    float beta1, beta2;    /* SGD: momentum = beta1 */
    float rest1, rest2;    /* 1 - beta */
    float rate, root, eps; /* AdamW: lr / (1 - beta1^step), 1 / sqrt(1 - beta2^step) */
    float keep, take;      /* EMA: average_decay, 1 - average_decay */
    int nesterov;
} stk_update_step;

/* Parameters that are updated together. average NULL: none. SGD: second is not looked at, first NULL: no
 * momentum. */
typedef struct stk_update_chunk {
    float *values;
    const float *gradients;
    float *first, *second, *average;
    size_t count;
} stk_update_chunk;

typedef struct stk_update_table {
    double (*squares)(const float *values, size_t count); /* their sum */
    void (*adamw)(const stk_update_step *step, const stk_update_chunk *chunk);
    void (*sgd)(const stk_update_step *step, const stk_update_chunk *chunk);
} stk_update_table;

void stk_update_fill_c(stk_update_table *table);
void stk_update_fill_avx2(stk_update_table *table);
void stk_update_fill_avx512(stk_update_table *table);

#endif
