/* SPDX-License-Identifier: Apache-2.0 */
#include "src/comm/reduce.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* ---- who owns what ---- */

/* 8 MB take 70 ms on a wire of 1 Gbit, far more than the start of an exchange; of a small network, six
 * buckets are enough for five of them to be on their way while the rest is computed. */
enum { BUCKET_BYTES = 8 << 20, BUCKETS_LEAST = 6 };

/* How an array is cut, and for how many. */
typedef struct cut {
    size_t count, chunk, chunks;
    uint32_t world, buckets;
} cut;

/* Buckets have a chunk for every rank, but for the only one. */
static cut cut_of(uint32_t world, size_t count, size_t chunk)
{
    const size_t chunks = count / chunk + (count % chunk != 0);
    const size_t full = (count * sizeof(float) + BUCKET_BYTES - 1) / BUCKET_BYTES;
    const size_t buckets = stk_least(stk_most(full, BUCKETS_LEAST), chunks / world);
    return (cut){ count, chunk, chunks, world, (uint32_t)stk_most(buckets, 1) };
}

uint32_t stk_reduce_buckets(uint32_t world, size_t count, size_t chunk)
{
    return cut_of(world, count, chunk).buckets;
}

static size_t chunks_before(const cut *c, uint32_t bucket)
{
    return c->chunks / c->buckets * bucket + c->chunks % c->buckets * bucket / c->buckets;
}

/* The first chunk of rank q's piece. What cannot be divided goes to the ranks in turn, over all buckets, so
 * that no rank owns a chunk more than another and one. */
static size_t first_chunk(const cut *c, uint32_t bucket, uint32_t q)
{
    const size_t first = chunks_before(c, bucket), size = chunks_before(c, bucket + 1) - first;
    const size_t turn = first % c->world, end = turn + size % c->world;
    const size_t wrapped = end > c->world ? stk_least(q, end - c->world) : 0;
    const size_t more = q > turn ? stk_least(q, stk_least(end, c->world)) - turn : 0;
    return first + size / c->world * q + wrapped + more;
}

/* Where it begins. */
static size_t first_element(const cut *c, uint32_t bucket, uint32_t q)
{
    return stk_least(first_chunk(c, bucket, q) * c->chunk, c->count);
}

static size_t owned(const cut *c, uint32_t rank)
{
    size_t sum = 0;
    for (uint32_t b = 0; b < c->buckets; b++)
        sum += first_element(c, b, rank + 1) - first_element(c, b, rank);
    return sum;
}

stk_reduce_span stk_reduce_bucket(const stk_reduce *reduce, uint32_t bucket)
{
    const size_t world = stk_comm_world(reduce->comm);
    return (stk_reduce_span){ reduce->at[bucket * world], reduce->at[(bucket + 1) * world] };
}

static stk_reduce_span piece_of(const stk_reduce *reduce, uint32_t bucket, uint32_t q)
{
    const size_t *at = reduce->at + (size_t)bucket * stk_comm_world(reduce->comm) + q;
    return (stk_reduce_span){ at[0], at[1] };
}

stk_reduce_span stk_reduce_piece(const stk_reduce *reduce, uint32_t bucket)
{
    return piece_of(reduce, bucket, stk_comm_rank(reduce->comm));
}

static size_t length(stk_reduce_span span)
{
    return span.end - span.first;
}

/* ---- memory ---- */

static uint32_t nodes_of(uint32_t q, uint32_t world, uint32_t lanes, stk_tree_node *nodes)
{
    return stk_tree_cover(lanes, stk_tree_first(lanes, q, world), stk_tree_first(lanes, q + 1, world), nodes);
}

/* What has to be taken, in elements of each array. */
typedef struct sizes {
    size_t at, of, node, parts, sums, pieces, packed, room, wire;
} sizes;

static int is_one_lane(stk_tree_node node)
{
    return node.hi - node.lo == 1;
}

/* Room is for everybody else's nodes of what this rank owns. */
static sizes sizes_of(const cut *c, uint32_t rank, const stk_reduce_shape *shape)
{
    stk_tree_node nodes[STK_TREE_COVER];
    const uint32_t lanes = shape->lanes;
    size_t all = 0, most = 0, alone = 0;
    for (uint32_t q = 0; q < c->world; q++) {
        const uint32_t n = nodes_of(q, c->world, lanes, nodes);
        all += n;
        most = stk_most(most, n);
    }
    const uint32_t own = nodes_of(rank, c->world, lanes, nodes);
    const size_t others = all - own;
    for (uint32_t k = 0; k < own; k++) alone += (size_t)is_one_lane(nodes[k]);
    return (sizes){ .at = (size_t)c->buckets * c->world + 1,
                    .of = c->world + (size_t)1,
                    .node = all,
                    .parts = 2 * (size_t)c->world,
                    .sums = c->buckets * most,
                    .pieces = c->buckets,
                    .packed = c->chunks,
                    .room = others * owned(c, rank),
                    .wire = shape->short_lanes && c->world > 1 ? alone * c->count : 0 };
}

size_t stk_reduce_bytes(uint32_t rank, uint32_t world, const stk_reduce_shape *shape)
{
    const cut c = cut_of(world, shape->count, shape->chunk);
    const sizes n = sizes_of(&c, rank, shape);
    return n.at * sizeof(size_t) + n.of * sizeof(uint32_t) + n.node * sizeof(stk_tree_node) +
           n.parts * sizeof(stoke_comm_part) + (n.sums + n.pieces) * sizeof(stk_comm_ticket *) +
           n.packed * sizeof(double) + n.room * sizeof(float) + n.wire * sizeof(uint16_t);
}

static int take(stk_reduce *reduce, const sizes *n)
{
    reduce->at = stk_alloc(n->at * sizeof *reduce->at);
    reduce->of = stk_alloc(n->of * sizeof *reduce->of);
    reduce->node = stk_alloc(n->node * sizeof *reduce->node);
    reduce->parts = stk_alloc(n->parts * sizeof *reduce->parts);
    reduce->sums = stk_calloc(n->sums, sizeof *reduce->sums);
    reduce->pieces = stk_calloc(n->pieces, sizeof *reduce->pieces);
    reduce->packed = stk_calloc(n->packed + 1, sizeof *reduce->packed);
    reduce->room = stk_alloc_aligned(n->room * sizeof *reduce->room, 64);
    reduce->wire = stk_alloc_aligned(n->wire * sizeof *reduce->wire, 64);
    return reduce->at && reduce->of && reduce->node && reduce->parts && reduce->sums && reduce->pieces &&
           reduce->packed && reduce->room && reduce->wire;
}

int stk_reduce_open(stk_reduce *reduce, stk_comm *comm, const stk_reduce_shape *shape, stoke_error *err)
{
    const uint32_t rank = stk_comm_rank(comm), world = stk_comm_world(comm), lanes = shape->lanes;
    *reduce = (stk_reduce){ .comm = comm, .shape = *shape };
    if (!lanes || lanes > STK_TREE_LANES || !shape->chunk)
        return stk_fail(err, STOKE_E_INVALID, "%u lanes: 1 to %d are possible", lanes, STK_TREE_LANES);
    const cut c = cut_of(world, shape->count, shape->chunk);
    const sizes n = sizes_of(&c, rank, shape);
    if (!take(reduce, &n)) {
        stk_reduce_close(reduce);
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the gradients of other processes (%.1f MiB)",
                        STK_MIB(n.room * sizeof(float) + n.wire * sizeof(uint16_t)));
    }
    reduce->buckets = c.buckets;
    for (size_t i = 0; i + 1 < n.at; i++)
        reduce->at[i] = first_element(&c, (uint32_t)(i / world), (uint32_t)(i % world));
    reduce->at[n.at - 1] = shape->count;
    uint32_t nodes = 0;
    for (uint32_t q = 0; q <= world; q++) {
        stk_tree_node theirs[STK_TREE_COVER];
        const uint32_t k = q < world ? nodes_of(q, world, lanes, theirs) : 0;
        memcpy(reduce->node + nodes, theirs, k * sizeof *theirs);
        reduce->of[q] = nodes;
        reduce->most = (uint32_t)stk_most(reduce->most, k);
        if (q == rank) reduce->own = k;
        nodes += k;
    }
    return STOKE_OK;
}

void stk_reduce_close(stk_reduce *reduce)
{
    const size_t sums = reduce->sums ? (size_t)reduce->buckets * reduce->most : 0;
    for (size_t i = 0; i < sums && !stk_comm_failed(reduce->comm); i++)
        stk_comm_wait(reduce->comm, &reduce->sums[i], NULL);
    for (uint32_t b = 0; b < reduce->buckets && !stk_comm_failed(reduce->comm); b++)
        stk_reduce_gather_wait(reduce, b, NULL);
    stk_free(reduce->at);
    stk_free(reduce->of);
    stk_free(reduce->node);
    stk_free(reduce->parts);
    stk_free(reduce->sums);
    stk_free(reduce->pieces);
    stk_free(reduce->packed);
    stk_free(reduce->room);
    stk_free(reduce->wire);
    memset(reduce, 0, sizeof *reduce);
}

/* ---- sums ---- */

/* Where a bucket is received: the nodes of one rank behind those of another. */
static float *room_of(const stk_reduce *reduce, uint32_t bucket)
{
    const size_t others = reduce->of[stk_comm_world(reduce->comm)] - reduce->own;
    size_t before = 0;
    for (uint32_t b = 0; b < bucket; b++) before += length(stk_reduce_piece(reduce, b));
    return reduce->room + others * before;
}

/* Whether a node goes as bf16. */
static int is_short(const stk_reduce *reduce, stk_tree_node node)
{
    return reduce->shape.short_lanes && is_one_lane(node);
}

/* What is bf16 already, in its upper half, in half the bytes. */
static void shorten(const float *values, size_t count, uint16_t *to)
{
    const uint32_t *bits = (const uint32_t *)(const void *)values;
    for (size_t i = 0; i < count; i++) to[i] = (uint16_t)(bits[i] >> 16);
}

/* In place: it came into the second half of the room. Block by block from the front, what is written never
 * reaches what is still to be read. */
static void widen(float *room, size_t count)
{
    enum { BLOCK = 1024 };
    const uint16_t *from = (const uint16_t *)(const void *)room + count;
    for (size_t at = 0; at < count; at += BLOCK) {
        const size_t n = stk_least(BLOCK, count - at);
        uint16_t read[BLOCK];
        uint32_t wide[BLOCK];
        memcpy(read, from + at, n * sizeof *read);
        for (size_t i = 0; i < n; i++) wide[i] = (uint32_t)read[i] << 16;
        memcpy(room + at, wide, n * sizeof *wide);
    }
}

/* The k-th node of this rank as it is sent; NULL: it has none. *size: bytes of a number. */
static const uint8_t *sent_as(const stk_reduce *reduce, uint32_t bucket, uint32_t k, float *const *own,
                              size_t *size)
{
    const stk_tree_node *nodes = reduce->node + reduce->of[stk_comm_rank(reduce->comm)];
    const stk_reduce_span span = stk_reduce_bucket(reduce, bucket);
    *size = sizeof(float);
    if (k >= reduce->own) return NULL;
    if (!is_short(reduce, nodes[k])) return (const uint8_t *)own[k];
    uint16_t *wire = reduce->wire;
    for (uint32_t i = 0; i < k; i++) wire += is_short(reduce, nodes[i]) ? reduce->shape.count : 0;
    shorten(own[k] + span.first, length(span), wire + span.first);
    *size = sizeof *wire;
    return (const uint8_t *)wire;
}

/* Sends the k-th node of this rank to the owners and receives that of every other rank. */
static int start_node(stk_reduce *reduce, uint32_t bucket, uint32_t k, float *const *own, stoke_error *err)
{
    const uint32_t rank = stk_comm_rank(reduce->comm), world = stk_comm_world(reduce->comm);
    const size_t mine = length(stk_reduce_piece(reduce, bucket));
    stoke_comm_part *send = reduce->parts, *recv = send + world;
    float *room = room_of(reduce, bucket);
    size_t size;
    const uint8_t *sent = sent_as(reduce, bucket, k, own, &size);
    for (uint32_t q = 0; q < world; q++) {
        const uint32_t theirs = q == rank ? 0 : reduce->of[q + 1] - reduce->of[q];
        const stk_reduce_span piece = piece_of(reduce, bucket, q);
        send[q] = recv[q] = (stoke_comm_part){ NULL, 0 };
        if (sent && q != rank)
            send[q] =
                (stoke_comm_part){ (uint8_t *)(uintptr_t)sent + piece.first * size, length(piece) * size };
        if (k < theirs) {
            float *to = room + k * mine;
            const int halved = is_short(reduce, reduce->node[reduce->of[q] + k]);
            recv[q] = halved ? (stoke_comm_part){ (uint16_t *)(void *)to + mine, mine * sizeof(uint16_t) }
                             : (stoke_comm_part){ to, mine * sizeof *to };
        }
        room += theirs * mine;
    }
    return stk_comm_start(reduce->comm, send, recv, &reduce->sums[bucket * reduce->most + k], err);
}

int stk_reduce_start(stk_reduce *reduce, uint32_t bucket, float *const *own, stoke_error *err)
{
    int r = STOKE_OK;
    if (stk_comm_world(reduce->comm) == 1) return r;
    for (uint32_t k = 0; k < reduce->most && !r; k++) r = start_node(reduce, bucket, k, own, err);
    return r;
}

/* Values of nodes that wait for their other half, left to right. */
typedef struct stack {
    stk_tree_node node[2 * STK_TREE_COVER];
    float *value[2 * STK_TREE_COVER];
    uint32_t depth;
    size_t count;
} stack;

static void push(stack *s, const stk_reduce *reduce, stk_tree_node node, float *value, stk_reduce_add *add,
                 void *context)
{
    s->node[s->depth] = node;
    s->value[s->depth++] = value;
    while (s->depth > 1 &&
           stk_tree_are_halves(reduce->shape.lanes, s->node[s->depth - 2], s->node[s->depth - 1])) {
        s->depth--;
        add(context, s->value[s->depth - 1], s->value[s->depth], s->count);
        s->node[s->depth - 1].hi = s->node[s->depth].hi;
    }
}

int stk_reduce_finish(stk_reduce *reduce, uint32_t bucket, float *const *own, float *out, stk_reduce_add *add,
                      void *context, stoke_error *err)
{
    const uint32_t rank = stk_comm_rank(reduce->comm), world = stk_comm_world(reduce->comm);
    const stk_reduce_span piece = stk_reduce_piece(reduce, bucket);
    int r = STOKE_OK;
    for (uint32_t k = 0; k < reduce->most && !r; k++)
        r = stk_comm_wait(reduce->comm, &reduce->sums[bucket * reduce->most + k], err);
    stack s = { .count = length(piece) };
    if (r || !s.count) return r;
    float *room = room_of(reduce, bucket);
    const uint32_t first = reduce->of[rank], end = reduce->of[rank + 1];
    for (uint32_t k = 0; k < reduce->of[world]; k++) {
        const int here = first <= k && k < end;
        if (!here && is_short(reduce, reduce->node[k])) widen(room, s.count);
        push(&s, reduce, reduce->node[k], here ? own[k - first] + piece.first : room, add, context);
        if (!here) room += s.count;
    }
    if (s.value[0] != out + piece.first) memcpy(out + piece.first, s.value[0], s.count * sizeof *out);
    return STOKE_OK;
}

int stk_reduce_sum(stk_reduce *reduce, float *const *own, float *out, stk_reduce_add *add, void *context,
                   stoke_error *err)
{
    int r = STOKE_OK;
    for (uint32_t b = 0; b < reduce->buckets && !r; b++) r = stk_reduce_start(reduce, b, own, err);
    for (uint32_t b = 0; b < reduce->buckets && !r; b++)
        r = stk_reduce_finish(reduce, b, own, out, add, context, err);
    return r;
}

/* ---- gathering ---- */

int stk_reduce_gather_start(stk_reduce *reduce, uint32_t bucket, float *array, stoke_error *err)
{
    const uint32_t rank = stk_comm_rank(reduce->comm), world = stk_comm_world(reduce->comm);
    stoke_comm_part *send = reduce->parts, *recv = send + world;
    if (world == 1) return STOKE_OK;
    for (uint32_t q = 0; q < world; q++) {
        const stk_reduce_span piece = piece_of(reduce, bucket, q);
        recv[q] = (stoke_comm_part){ array + piece.first, length(piece) * sizeof *array };
    }
    for (uint32_t q = 0; q < world; q++) send[q] = recv[rank];
    return stk_comm_start(reduce->comm, send, recv, &reduce->pieces[bucket], err);
}

int stk_reduce_gather_wait(stk_reduce *reduce, uint32_t bucket, stoke_error *err)
{
    return stk_comm_wait(reduce->comm, &reduce->pieces[bucket], err);
}

int stk_reduce_gather(stk_reduce *reduce, float *array, stoke_error *err)
{
    int r = STOKE_OK;
    for (uint32_t b = 0; b < reduce->buckets && !r; b++) r = stk_reduce_gather_start(reduce, b, array, err);
    for (uint32_t b = 0; b < reduce->buckets && !r; b++) r = stk_reduce_gather_wait(reduce, b, err);
    return r;
}

/* To or from `packed`, where rank q's begin; how many they are. */
static size_t carry_chunks(const stk_reduce *reduce, uint32_t q, double *numbers, double *packed, int give)
{
    size_t n = 0;
    for (uint32_t b = 0; b < reduce->buckets; b++) {
        const stk_reduce_span piece = piece_of(reduce, b, q);
        const size_t chunks = (length(piece) + reduce->shape.chunk - 1) / reduce->shape.chunk;
        double *at = numbers + piece.first / reduce->shape.chunk;
        if (chunks) memcpy(give ? packed + n : at, give ? at : packed + n, chunks * sizeof *at);
        n += chunks;
    }
    return n;
}

int stk_reduce_gather_chunks(stk_reduce *reduce, double *numbers, stoke_error *err)
{
    const uint32_t rank = stk_comm_rank(reduce->comm), world = stk_comm_world(reduce->comm);
    stoke_comm_part *send = reduce->parts, *recv = send + world;
    double *packed = reduce->packed;
    for (uint32_t q = 0; q < world; q++) {
        const size_t chunks = carry_chunks(reduce, q, numbers, packed, 1);
        recv[q] = (stoke_comm_part){ packed, chunks * sizeof *packed };
        packed += chunks;
    }
    for (uint32_t q = 0; q < world; q++) send[q] = recv[rank];
    const int r = stk_comm_exchange(reduce->comm, send, recv, err);
    for (uint32_t q = 0; q < world && !r; q++) carry_chunks(reduce, q, numbers, recv[q].data, 0);
    return r;
}
