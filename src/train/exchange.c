/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/exchange.h"

#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/ops/ops.h"

/* ---- arithmetic ---- */

enum { PIECE = 16384 }; /* floats that a thread takes in one go */

typedef struct piece_job {
    float *to;
    const float *from;
    size_t count;
} piece_job;

static void add_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const piece_job *job = context;
    const size_t first = (size_t)task * PIECE, end = stk_least(first + PIECE, job->count);
    float *to = job->to;
    const float *from = job->from;
    for (size_t i = first; i < end; i++) to[i] += from[i];
}

void stk_exchange_add(void *net, float *to, const float *from, size_t count)
{
    const piece_job job = { to, from, count };
    stoke_net_run(net, add_task, &job, (uint32_t)((count + PIECE - 1) / PIECE));
}

/* k_bf16 is for finite numbers: it would make some NaN infinite, and some 0. */
static float rounded(float value)
{
    return isnan(value) ? NAN : k_from_bf16(k_bf16(value));
}

static void round_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const piece_job *job = context;
    const size_t first = (size_t)task * PIECE, end = stk_least(first + PIECE, job->count);
    for (size_t i = first; i < end; i++) job->to[i] = rounded(job->to[i]);
}

void stk_exchange_round(const stoke_net *net, float *values, size_t count)
{
    const piece_job job = { values, NULL, count };
    stoke_net_run(net, round_task, &job, (uint32_t)((count + PIECE - 1) / PIECE));
}

/* ---- memory ---- */

static stk_reduce_shape shape_of(stk_exchange_lanes lanes, size_t trained)
{
    return (stk_reduce_shape){
        .lanes = lanes.count, .count = trained, .chunk = STOKE_NET_CHUNK, .short_lanes = lanes.rounded
    };
}

uint64_t stk_exchange_bytes(uint32_t rank, uint32_t world, stk_exchange_lanes lanes, size_t trained)
{
    const stk_reduce_shape shape = shape_of(lanes, trained);
    return stk_reduce_bytes(rank, world, &shape) +
           stk_reduce_buckets(world, trained, STOKE_NET_CHUNK) * 2 * sizeof(stk_exchange_turn);
}

/* In the order of `after`, then of buckets. */
static void take_turns(stk_exchange_turn *turns, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const stk_exchange_turn turn = turns[i];
        uint32_t k = i;
        for (; k && turns[k - 1].after > turn.after; k--) turns[k] = turns[k - 1];
        turns[k] = turn;
    }
}

int stk_exchange_open(stk_exchange *x, stk_comm *comm, stoke_net *net, stk_exchange_lanes lanes,
                      stoke_error *err)
{
    const stk_reduce_shape shape = shape_of(lanes, stoke_net_arrays_of(net).trained);
    *x = (stk_exchange){ .net = net };
    const int r = stk_reduce_open(&x->reduce, comm, &shape, err);
    if (r) return r;
    const uint32_t buckets = x->come = x->reduce.buckets;
    x->gradients = stk_calloc(buckets, sizeof *x->gradients);
    x->weights = stk_calloc(buckets, sizeof *x->weights);
    if (!x->gradients || !x->weights) {
        stk_exchange_close(x);
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the turns of gradients");
    }
    for (uint32_t b = 0; b < buckets; b++) {
        const stk_reduce_span span = stk_reduce_bucket(&x->reduce, b);
        x->gradients[b] = (stk_exchange_turn){ b, stoke_net_final_after(net, span.first, span.end) };
        x->weights[b] = (stk_exchange_turn){ b, stoke_net_read_after(net, span.first, span.end) };
    }
    take_turns(x->gradients, buckets);
    take_turns(x->weights, buckets);
    return STOKE_OK;
}

void stk_exchange_close(stk_exchange *x)
{
    if (x->net) stoke_net_before_forward(x->net, NULL, NULL);
    stk_reduce_close(&x->reduce);
    stk_free(x->gradients);
    stk_free(x->weights);
    *x = (stk_exchange){ 0 };
}

/* ---- gradients ---- */

/* A bucket of this rank's last node is complete once the halves that wait for it are added to the lane. */
static void send(stk_exchange *x, uint32_t bucket)
{
    const stk_reduce_span span = stk_reduce_bucket(&x->reduce, bucket);
    float *gradients = stoke_net_arrays_of(x->net).gradients;
    if (x->rounds) stk_exchange_round(x->net, gradients + span.first, span.end - span.first);
    for (uint32_t i = x->half_count; i--;)
        stk_exchange_add(x->net, gradients + span.first, x->halves[i] + span.first, span.end - span.first);
    if (!x->status) x->status = stk_reduce_start(&x->reduce, bucket, x->own, &x->why);
}

static void send_what_is_complete(void *context, uint32_t done)
{
    stk_exchange *x = context;
    while (x->left < x->reduce.buckets && x->gradients[x->left].after <= done)
        send(x, x->gradients[x->left++].bucket);
}

void stk_exchange_begin(stk_exchange *x, float *const *sums, uint32_t nodes, uint32_t waiting, int rounds)
{
    memcpy(x->own, sums, nodes * sizeof *x->own);
    x->own[nodes] = stoke_net_arrays_of(x->net).gradients;
    x->halves = sums + nodes;
    x->half_count = waiting - nodes;
    x->rounds = rounds;
    x->left = 0;
    stoke_net_after_backward(x->net, send_what_is_complete, x);
}

void stk_exchange_end(stk_exchange *x)
{
    stoke_net_after_backward(x->net, NULL, NULL);
    send_what_is_complete(x, UINT32_MAX);
}

/* ---- weights ---- */

static void wait_for_what_is_read(void *context, uint32_t done)
{
    stk_exchange *x = context;
    for (; x->come < x->reduce.buckets && x->weights[x->come].after <= done; x->come++)
        if (!x->status) x->status = stk_reduce_gather_wait(&x->reduce, x->weights[x->come].bucket, &x->why);
    if (x->come == x->reduce.buckets) stoke_net_before_forward(x->net, NULL, NULL);
}

int stk_exchange_failed(const stk_exchange *x, stoke_error *err)
{
    return x->status ? stk_fail_again(err, x->status, x->why.message) : STOKE_OK;
}

int stk_exchange_settle(stk_exchange *x, stoke_error *err)
{
    wait_for_what_is_read(x, UINT32_MAX);
    return stk_exchange_failed(x, err);
}

/* ---- the step ---- */

/* Chunks first .. end - 1. */
typedef struct chunk_span {
    uint32_t first, end;
} chunk_span;

/* Those of a bucket that this rank owns. */
static chunk_span own_chunks(const stk_exchange *x, uint32_t bucket)
{
    const stk_reduce_span piece = stk_reduce_piece(&x->reduce, bucket);
    return (chunk_span){ stk_update_chunks(piece.first), stk_update_chunks(piece.end) };
}

/* Bucket by bucket as they come. */
static int sum(stk_exchange *x, const stoke_update *update, double *squares, stoke_error *err)
{
    float *gradients = stoke_net_arrays_of(x->net).gradients;
    int r = stk_exchange_settle(x, err); /* of the step before, where no batch was left to pass forward */
    for (uint32_t i = 0; i < x->reduce.buckets && !r; i++) {
        const uint32_t bucket = x->gradients[i].bucket;
        const chunk_span mine = own_chunks(x, bucket);
        r = stk_reduce_finish(&x->reduce, bucket, x->own, gradients, stk_exchange_add, x->net, err);
        if (!r) r = stoke_net_squares(x->net, update, mine.first, mine.end, squares + mine.first, err);
    }
    return r ? r : stk_reduce_gather_chunks(&x->reduce, squares, err);
}

int stk_exchange_step(stk_exchange *x, const stoke_update *update, double *squares, stoke_step_report *report,
                      stoke_error *err)
{
    const int r = sum(x, update, squares, err);
    if (r) return r;
    stoke_net_step_begin(x->net, update, squares, report);
    float *values = stoke_net_arrays_of(x->net).values;
    for (uint32_t i = 0; i < x->reduce.buckets; i++) {
        const uint32_t bucket = x->weights[i].bucket;
        const chunk_span mine = own_chunks(x, bucket);
        stoke_net_step_chunks(x->net, update, mine.first, mine.end);
        if (!x->status) x->status = stk_reduce_gather_start(&x->reduce, bucket, values, &x->why);
    }
    x->come = 0;
    stoke_net_before_forward(x->net, wait_for_what_is_read, x);
    return stk_exchange_failed(x, err);
}
