/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the lanes of all ranks. Each rank has added its own lanes up to the fewest nodes of the tree; the
 * array is cut into segments, and each has an owner that receives everybody's nodes of it and adds them up.
 * What is sent is what a ring would send, 2 N (W - 1) / W with the gather of the results, in one hop.
 */
#ifndef STOKE_SRC_COMM_REDUCE_H
#define STOKE_SRC_COMM_REDUCE_H

#include "src/comm/comm.h"
#include "src/comm/tree.h"

/* Who has what, for an array of `count` floats cut at multiples of `chunk`. */
typedef struct stk_reduce {
    stk_comm *comm; /* NULL: one rank */
    uint32_t lanes;
    size_t count, chunk;
    uint32_t own;  /* nodes of this rank */
    uint32_t most; /* nodes of the rank that has most */
    size_t *at;    /* [world + 1]: segments */
    uint32_t *of;  /* [world + 1]: rank q's nodes are node[of[q]] .. node[of[q + 1] - 1] */
    stk_tree_node *node;
    stoke_comm_part *parts; /* [2 * world] of one exchange */
    float *room;            /* what is received */
} stk_reduce;

/* Bytes that stk_reduce_open will take. A rank may own nothing: of few chunks or of few lanes. */
size_t stk_reduce_bytes(uint32_t rank, uint32_t world, uint32_t lanes, size_t count, size_t chunk);
int stk_reduce_open(stk_reduce *reduce, stk_comm *comm, uint32_t lanes, size_t count, size_t chunk,
                    stoke_error *err);
void stk_reduce_close(stk_reduce *reduce);

/* Adds over a part of an array: a[i] += b[i], by whatever threads. */
typedef void stk_reduce_add(void *context, float *a, const float *b, size_t count);
/* own[k]: this rank's value of its k-th node (stk_tree_cover), whole arrays of `count`; they may change. The
 * sum over all lanes of the own segment goes to `out` (a whole array, which may be one of own[]). Nothing is
 * added or sent for one rank of one lane but a copy where out is another array. */
int stk_reduce_sum(stk_reduce *reduce, float *const *own, float *out, stk_reduce_add *add, void *context,
                   stoke_error *err);

#endif
