/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sample stands at which position of an epoch. A pure function of (seed, epoch, count): no buffer is
 * shuffled, nothing is remembered, position 10^9 costs the same as position 0.
 *
 * The epoch is one global line of positions 0 .. count-1, cut into batches of B. With W ranks, batch k of
 * rank r is global batch k * W + r: the union over ranks is the same for every W, and rank 0 of 1 sees all.
 * Every rank gets the same number of batches (a collective operation would hang otherwise): with
 * drop_last the remainder is left out, without it the line is continued from its start.
 */
#ifndef STOKE_TOOLS_ORDER_H
#define STOKE_TOOLS_ORDER_H

#include <stoke/data.h>

/* Small and copyable. `cumulative` is borrowed (weighted, balanced): count running sums of the weights. */
typedef struct stoke_order {
    uint64_t count;
    uint64_t seed;
    uint64_t epoch;
    stoke_order_kind kind;
    const double *cumulative;
} stoke_order;

/* The sample at a position. Positions >= count wrap (the padding of the last batches). count must be > 0. */
STOKE_API uint64_t stoke_order_at(const stoke_order *order, uint64_t position);

/* Substitute number `attempt` (1, 2, ...) for a bad sample at a position: the "next in a keyed sequence" of
 * policy `replace`. Depends on (seed, epoch, position, attempt) only. */
STOKE_API uint64_t stoke_order_substitute(const stoke_order *order, uint64_t position, uint32_t attempt);

/* How an epoch, or what is left of it from global position `start`, is cut. */
typedef struct stoke_rank {
    uint64_t count; /* positions in the epoch */
    uint64_t start; /* first position still to be delivered (by any rank) */
    uint32_t batch, rank, world;
    int drop_last;
} stoke_rank;

/* Number of batches this rank gets (the same for all ranks). */
STOKE_API uint64_t stoke_rank_batches(const stoke_rank *shard);

/* First global position of this rank's batch k, and in *rows how many rows it has (the last one may be
 * short). */
STOKE_API uint64_t stoke_rank_batch(const stoke_rank *shard, uint64_t k, uint32_t *rows);

#endif
