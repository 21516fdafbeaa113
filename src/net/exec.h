/* SPDX-License-Identifier: Apache-2.0
 *
 * What every operation of the network works with: functions, threads, room for intermediate results. Made
 * once by the network and handed to each operation; operations allocate nothing.
 *
 * Layout. A feature map is a matrix of tokens: batch * height * width rows of `channels` elements (NHWC). The
 * stream between blocks (x) and its gradient are f32 in every precision; what lies inside a block (normalised
 * rows, queries, hidden layers and their gradients) has the type of the run. Statistics, sums over rows and
 * gradients of parameters are f32.
 */
#ifndef STOKE_SRC_NET_EXEC_H
#define STOKE_SRC_NET_EXEC_H

#include "src/net/kernels/floats.h"
#include "src/base/threadpool.h"

struct stk_net_table;

typedef struct stk_exec {
    const struct stk_net_table *table;
    stk_threadpool *pool;   /* NULL while planning: needs and rooms go by `threads` */
    uint32_t threads;       /* of the team */
    stk_float type;         /* of activations inside blocks and their gradients */
    int accumulate;         /* 1: gradients of parameters are added to what is there; 0: they replace it */
    int forward_only;       /* 1: needs leave the way back out, and it is never called */
    unsigned char *scratch; /* of all threads, 64-byte aligned */
    size_t scratch_each;    /* bytes per thread, a multiple of 64 */
    float *partial;         /* shared by the tasks of one operation: sums to be added up in order */
    size_t partial_floats;
} stk_exec;

/* What an operation needs of scratch_each (bytes) and partial (floats). */
typedef struct stk_exec_need {
    size_t scratch, partial;
} stk_exec_need;

static inline stk_exec_need stk_need_most(stk_exec_need a, stk_exec_need b)
{
    return (stk_exec_need){ a.scratch > b.scratch ? a.scratch : b.scratch,
                            a.partial > b.partial ? a.partial : b.partial };
}

/* The thread's own room; lost between operations. */
static inline void *stk_exec_scratch(const stk_exec *run, uint32_t thread)
{
    return run->scratch + (size_t)thread * run->scratch_each;
}

/* Rows of a matrix of the run's type: an array, or a function that makes them when they are needed (patches
 * of a picture, a normalisation, a depthwise convolution), so that they never lie in memory as a whole. */
typedef struct stk_exec_rows {
    const void *data; /* of row 0; not looked at when `make` is set */
    size_t stride;    /* elements from row to row */
    /* Writes rows first .. first + count, `width` elements each, `stride` elements apart, to `out`, which
     * holds count * stride elements. Called by any thread; the same row may be asked for more than once. */
    void (*make)(const void *context, size_t first, size_t count, void *out);
    const void *context;
} stk_exec_rows;

static inline stk_exec_rows stk_rows_of(const void *data, size_t stride)
{
    return (stk_exec_rows){ .data = data, .stride = stride };
}

#endif
