/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks as threads of one process, each of which runs a function; and the sum over lanes that every way to
 * spread them must give to the bit.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_RANKS_H
#define STOKE_TESTS_UNIT_FIXTURE_RANKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/comm/comm.h"
#include "src/comm/reduce.h"
#include "src/comm/tree.h"

enum { MOST_RANKS = 9, MOST_LANES = 9 };

/* cmocka's assertions belong to the main thread. */
static atomic_int faults;
#define RANK_CHECK(what)                                                                                     \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                               \
            atomic_fetch_add(&faults, 1);                                                                    \
        }                                                                                                    \
    } while (0)

typedef void rank_fn(stk_comm *comm, void *context);

typedef struct rank_thread {
    stk_comm *comm;
    rank_fn *run;
    void *context;
    pthread_t thread;
} rank_thread;

static void *rank_main(void *argument)
{
    rank_thread *t = argument;
    t->run(t->comm, t->context);
    return NULL;
}

/* The handles stay open. */
static inline void run_ranks_of(stk_comm **comms, uint32_t world, rank_fn *run, void *context)
{
    rank_thread threads[MOST_RANKS];
    for (uint32_t q = 0; q < world; q++) {
        threads[q] = (rank_thread){ .comm = comms[q], .run = run, .context = context };
        RANK_CHECK(!pthread_create(&threads[q].thread, NULL, rank_main, &threads[q]));
    }
    for (uint32_t q = 0; q < world; q++) pthread_join(threads[q].thread, NULL);
}

/* The number of faults. */
static inline int run_ranks(uint32_t world, double timeout, rank_fn *run, void *context)
{
    stk_comm *comms[MOST_RANKS];
    stoke_error err = { 0 };
    atomic_store(&faults, 0);
    RANK_CHECK(stk_comm_open_loop(comms, world, timeout, &err) == STOKE_OK);
    if (err.code) fprintf(stderr, "%s\n", err.message);
    if (!err.code) run_ranks_of(comms, world, run, context);
    for (uint32_t q = 0; q < world && !err.code; q++) stk_comm_close(&comms[q]);
    return atomic_load(&faults);
}

/* ---- sums over lanes ---- */

/* What lane l has at i: sizes from 2^-12 to 2^10, so that another order of additions shows. */
static inline float lane_value(uint32_t lane, size_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (lane + 1) * UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 31;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 29;
    const float size = (float)(1 << (x >> 40 & 15)) / 4096.0f * (float)(1 << (x >> 48 & 7));
    return ((float)(x & 0xffffff) / 8388608.0f - 1.0f) * size;
}

/* A node of the tree by its definition. */
static inline float node_value(uint32_t lo, uint32_t hi, size_t i)
{
    if (hi - lo == 1) return lane_value(lo, i);
    uint32_t half = 1;
    while (half * 2 < hi - lo) half *= 2;
    const float left = node_value(lo, lo + half, i);
    return left + node_value(lo + half, hi, i);
}

static inline void add_plain(void *context, float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) a[i] += b[i];
}

/* Sums the lanes over all ranks of `comm` into result[count], on every rank. `apart`: into an array of its
 * own instead of over the first node. */
static inline void sum_lanes(stk_comm *comm, uint32_t lanes, size_t count, size_t chunk, int apart,
                             float *result)
{
    const uint32_t rank = stk_comm_rank(comm), world = stk_comm_world(comm);
    stk_tree_node nodes[STK_TREE_COVER];
    float *own[STK_TREE_COVER] = { 0 };
    stoke_error err = { 0 };
    stk_reduce reduce;
    const stk_reduce_shape shape = { .lanes = lanes, .count = count, .chunk = chunk };
    RANK_CHECK(stk_reduce_open(&reduce, comm, &shape, &err) == STOKE_OK);
    const uint32_t n = stk_tree_cover(lanes, stk_tree_first(lanes, rank, world),
                                      stk_tree_first(lanes, rank + 1, world), nodes);
    RANK_CHECK(n == reduce.own);
    for (uint32_t k = 0; k < n; k++) {
        own[k] = malloc(count * sizeof **own);
        for (size_t i = 0; i < count; i++) own[k][i] = node_value(nodes[k].lo, nodes[k].hi, i);
    }
    float *out = apart || !n ? result : own[0];
    RANK_CHECK(stk_reduce_sum(&reduce, own, out, add_plain, NULL, &err) == STOKE_OK);
    if (err.code) fprintf(stderr, "%s\n", err.message);
    for (uint32_t b = 0; b < reduce.buckets; b++) {
        const stk_reduce_span piece = stk_reduce_piece(&reduce, b);
        if (out != result)
            memcpy(result + piece.first, out + piece.first, (piece.end - piece.first) * sizeof *out);
    }
    RANK_CHECK(stk_reduce_gather(&reduce, result, &err) == STOKE_OK);
    for (uint32_t k = 0; k < n; k++) free(own[k]);
    stk_reduce_close(&reduce);
}

#endif
