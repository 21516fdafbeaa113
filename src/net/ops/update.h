/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimisers over one flat array of parameters in groups: AdamW and SGD as PyTorch computes them, global-norm
 * clipping, exponential moving average.
 */
#ifndef STOKE_SRC_NET_OPS_UPDATE_H
#define STOKE_SRC_NET_OPS_UPDATE_H

#include <stoke/net.h>

#include "src/net/exec.h"

/* A run of parameters with the same rates. */
typedef struct stk_update_group {
    size_t first, count;
    float lr_factor;    /* times the step's lr: 10 for the head */
    float decay_factor; /* times weight_decay: 0 for norms; 0 and lr_factor 0 for frozen ones */
} stk_update_group;

typedef struct stk_update {
    float *values, *gradients;
    float *first, *second; /* moments (AdamW) or momentum (SGD: first); NULL when not used */
    float *average;        /* EMA; NULL: none */
    const stk_update_group *groups;
    size_t group_count, count; /* groups in order, without gaps, count in all */
} stk_update;

/* Norm of all gradients times `factor` (1 / loss scale), summed in double over fixed chunks. */
double stk_gradient_norm(const stk_exec *run, const stk_update *update, double factor);
/* One step. `factor` multiplies every gradient first (1 / loss scale, and what clipping leaves). `step`
 * counts from 1. */
void stk_update_run(const stk_exec *run, const stk_update *update, const stoke_update *settings,
                    uint64_t step, double factor);
stk_exec_need stk_update_need(const stk_exec *run, const stk_update *update);

#endif
