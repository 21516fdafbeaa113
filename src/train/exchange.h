/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks send each other of a step, while they compute: gradients leave bucket by bucket
 * (src/comm/reduce.h) as the last backward pass completes them; weights come bucket by bucket, and the next
 * forward pass waits for each when it first reads it. Buckets take turns, the same on all ranks, since all
 * have recorded the same network.
 */
#ifndef STOKE_SRC_TRAIN_EXCHANGE_H
#define STOKE_SRC_TRAIN_EXCHANGE_H

#include "src/comm/reduce.h"
#include <stoke/tools/net.h>

/* A bucket, and after how many operations of a pass it is its turn. */
typedef struct stk_exchange_turn {
    uint32_t bucket, after;
} stk_exchange_turn;

typedef struct stk_exchange {
    stk_reduce reduce;
    stoke_net *net;
    stk_exchange_turn *gradients;   /* [buckets] in the order in which they leave */
    stk_exchange_turn *weights;     /* [buckets] in the order in which they come */
    uint32_t left, come;            /* buckets that have */
    float *own[STK_TREE_COVER + 1]; /* this rank's nodes, the network's gradients last */
    float *const *halves;           /* [half_count] what these are added up with before, the last first */
    uint32_t half_count;
    int rounds; /* and they are rounded before that */
    int status; /* what failed in a pass, where nobody could be told */
    stoke_error why;
} stk_exchange;

/* Of `count` lanes, whose gradients are rounded to bf16 each. */
typedef struct stk_exchange_lanes {
    uint32_t count;
    int rounded;
} stk_exchange_lanes;
uint64_t stk_exchange_bytes(uint32_t rank, uint32_t world, stk_exchange_lanes lanes, size_t trained);
int stk_exchange_open(stk_exchange *exchange, stk_comm *comm, stoke_net *net, stk_exchange_lanes lanes,
                      stoke_error *err);
void stk_exchange_close(stk_exchange *exchange);

/* Around the last backward pass of a step, or after it. sums[0] .. sums[nodes - 1] are nodes of this rank,
 * sums[nodes] .. sums[waiting - 1] the halves that wait for its last lane; rounds: that lane is to be rounded
 * first. */
void stk_exchange_begin(stk_exchange *exchange, float *const *sums, uint32_t nodes, uint32_t waiting,
                        int rounds);
void stk_exchange_end(stk_exchange *exchange);
/* The sum of all ranks' lanes, and the step, each rank for its own pieces. Then weights are on their way to
 * all. squares: room for a number per chunk. */
int stk_exchange_step(stk_exchange *exchange, const stoke_update *update, double *squares,
                      stoke_step_report *report, stoke_error *err);
/* What failed in a pass. */
int stk_exchange_failed(const stk_exchange *exchange, stoke_error *err);
/* Waits for all weights: before anybody but a forward pass reads or writes them. */
int stk_exchange_settle(stk_exchange *exchange, stoke_error *err);
/* By the threads of `net`: to[i] += from[i]; values rounded to bf16, to nearest even, NaN to NaN. */
void stk_exchange_add(void *net, float *to, const float *from, size_t count);
void stk_exchange_round(const stoke_net *net, float *values, size_t count);

#endif
