/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the lanes of all ranks. Each rank has added its own lanes up to the fewest nodes of the tree; the
 * array is cut into buckets, each bucket into a piece for every rank, its owner, that receives everybody's
 * nodes of it and adds them up. What is sent is what a ring would send, 2 N (W - 1) / W with the gather of
 * the results, in one hop. Buckets go on their way one by one, each when it is complete; neither they nor
 * pieces change a bit of a sum.
 *
 * All ranks start the same buckets in the same order.
 */
#ifndef STOKE_SRC_COMM_REDUCE_H
#define STOKE_SRC_COMM_REDUCE_H

#include "src/comm/comm.h"
#include "src/comm/tree.h"

/* Of an array of `count` floats that is cut at multiples of `chunk`. */
typedef struct stk_reduce_shape {
    uint32_t lanes;
    size_t count, chunk;
    int short_lanes; /* every lane has numbers that are bf16: a node of one lane travels as such */
} stk_reduce_shape;

/* Who has what. */
typedef struct stk_reduce {
    stk_comm *comm; /* NULL: one rank */
    stk_reduce_shape shape;
    uint32_t buckets;
    uint32_t own;  /* nodes of this rank */
    uint32_t most; /* nodes of the rank that has most */
    size_t *at;    /* [buckets * world + 1]: rank q's piece of bucket b is at[b * world + q] up to the next */
    uint32_t *of;  /* [world + 1]: rank q's nodes are node[of[q]] .. node[of[q + 1] - 1] */
    stk_tree_node *node;
    stoke_comm_part *parts;   /* [2 * world] of one exchange */
    stk_comm_ticket **sums;   /* [buckets][most] on their way */
    stk_comm_ticket **pieces; /* [buckets] of a gather, on their way */
    double *packed;           /* a number per chunk, rank after rank */
    float *room;              /* what is received */
    uint16_t *wire;           /* what is sent as bf16: whole arrays, one for each own node of one lane */
} stk_reduce;

/* How many buckets an array is cut into. */
uint32_t stk_reduce_buckets(uint32_t world, size_t count, size_t chunk);
/* Bytes that stk_reduce_open will take. A rank may own nothing: of few chunks or of few lanes. */
size_t stk_reduce_bytes(uint32_t rank, uint32_t world, const stk_reduce_shape *shape);
int stk_reduce_open(stk_reduce *reduce, stk_comm *comm, const stk_reduce_shape *shape, stoke_error *err);
/* Waits for what is on its way, but not after a failure. */
void stk_reduce_close(stk_reduce *reduce);

/* Elements first .. end - 1. */
typedef struct stk_reduce_span {
    size_t first, end;
} stk_reduce_span;
stk_reduce_span stk_reduce_bucket(const stk_reduce *reduce, uint32_t bucket);
/* What this rank owns of it; may be nothing. */
stk_reduce_span stk_reduce_piece(const stk_reduce *reduce, uint32_t bucket);

/* Adds over a part of an array: a[i] += b[i], by whatever threads. */
typedef void stk_reduce_add(void *context, float *a, const float *b, size_t count);
/* A bucket goes on its way. own[k]: this rank's value of its k-th node (stk_tree_cover), whole arrays of
 * `count`, left alone until the bucket is finished. */
int stk_reduce_start(stk_reduce *reduce, uint32_t bucket, float *const *own, stoke_error *err);
/* Waits for what others have sent of it; the sum over all lanes of the own piece goes to `out` (a whole
 * array, which may be one of own[], whose own piece may change). */
int stk_reduce_finish(stk_reduce *reduce, uint32_t bucket, float *const *own, float *out, stk_reduce_add *add,
                      void *context, stoke_error *err);
/* All buckets, one after the other. Nothing is added or sent for one rank of one lane but a copy where out is
 * another array. */
int stk_reduce_sum(stk_reduce *reduce, float *const *own, float *out, stk_reduce_add *add, void *context,
                   stoke_error *err);

/* Of an array of `count` that is right in the owners' pieces, a bucket becomes right everywhere. Between the
 * two calls it is left alone. */
int stk_reduce_gather_start(stk_reduce *reduce, uint32_t bucket, float *array, stoke_error *err);
int stk_reduce_gather_wait(stk_reduce *reduce, uint32_t bucket, stoke_error *err);
int stk_reduce_gather(stk_reduce *reduce, float *array, stoke_error *err);
/* The same of a number per chunk. */
int stk_reduce_gather_chunks(stk_reduce *reduce, double *numbers, stoke_error *err);

#endif
