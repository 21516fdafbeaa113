/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes with one batch norm (`batch_norm` sync): the batches of all lanes with the same number within their
 * lanes are normalised together. So a process has one batch of each of its lanes on its way at once, and
 * takes its batches in that order: of all own lanes the first, then of all the second. What batches say of
 * themselves is told to all ranks and joined in the order of the lanes by each of them: the bits do not
 * depend on how many ranks there are.
 */
#ifndef STOKE_SRC_TRAIN_LANES_SYNC_H
#define STOKE_SRC_TRAIN_LANES_SYNC_H

#include <stdint.h>
#include <stoke/tools/net.h>

struct stk_lanes;
struct stk_lanes_shape;

typedef struct stk_lanes_sync {
    double *mine;       /* what this rank tells: 1 if it has failed, then a record of each own lane */
    double *told;       /* what all ranks have told, one after the other */
    double *records;    /* of all lanes, in their order */
    double *statistics; /* of the batches that were normalised together last */
    float **apart;      /* gradients of own lanes until their last batch; NULL where there is none apart */
    int *computed;      /* of own lanes: some are there */
    uint32_t extra;     /* arrays that were taken for it, besides the pile's */
    uint64_t draws;     /* before the batches that are on their way */
    int halted;         /* a rank has failed: it says so where all agree next */
    double waited;      /* seconds, for the others; whoever reads it sets it to 0 */
} stk_lanes_sync;

uint64_t stk_lanes_sync_bytes(const struct stk_lanes_shape *shape, uint32_t pile);
int stk_lanes_sync_open(struct stk_lanes *lanes, stoke_error *err);
void stk_lanes_sync_close(struct stk_lanes *lanes);

/* Own batches `a` of a step, rows[] and losses[] by own lane: forward passes and losses. r: what became of
 * this rank before; it tells the others, and is returned. They find `halted` then, and so does this one. */
int stk_lanes_look_together(struct stk_lanes *lanes, uint32_t a, const stoke_net_batch *rows, int r,
                            double *losses, stoke_error *err);
/* After that: whether own lane `j` may be why a loss is not finite. What is not a number in one batch makes
 * the norm of all so. */
int stk_lanes_is_to_blame(const struct stk_lanes *lanes, uint32_t j);
/* The same, of their gradients: only the exchange can fail. */
int stk_lanes_learn_together(struct stk_lanes *lanes, uint32_t a, const stoke_net_batch *rows, int r,
                             stoke_error *err);

#endif
