/* SPDX-License-Identifier: Apache-2.0 */
#include "src/comm/reduce.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* Where rank q's segment begins: at a multiple of `chunk`, and no two segments differ by more than one. */
static size_t segment(uint32_t q, uint32_t world, size_t count, size_t chunk)
{
    const size_t chunks = count / chunk + (count % chunk != 0);
    const size_t before = chunks / world * q + chunks % world * q / world;
    return before == chunks ? count : before * chunk;
}

static uint32_t nodes_of(uint32_t q, uint32_t world, uint32_t lanes, stk_tree_node *nodes)
{
    return stk_tree_cover(lanes, stk_tree_first(lanes, q, world), stk_tree_first(lanes, q + 1, world), nodes);
}

/* Of all ranks together. */
static size_t count_nodes(uint32_t world, uint32_t lanes)
{
    stk_tree_node nodes[STK_TREE_COVER];
    size_t all = 0;
    for (uint32_t q = 0; q < world; q++) all += nodes_of(q, world, lanes, nodes);
    return all;
}

/* Floats that this rank receives: everybody else's nodes of its segment. */
static size_t room_of(uint32_t rank, uint32_t world, uint32_t lanes, size_t count, size_t chunk)
{
    const size_t mine = segment(rank + 1, world, count, chunk) - segment(rank, world, count, chunk);
    stk_tree_node nodes[STK_TREE_COVER];
    return (count_nodes(world, lanes) - nodes_of(rank, world, lanes, nodes)) * mine;
}

size_t stk_reduce_bytes(uint32_t rank, uint32_t world, uint32_t lanes, size_t count, size_t chunk)
{
    return room_of(rank, world, lanes, count, chunk) * sizeof(float) +
           (world + (size_t)1) * (sizeof(size_t) + sizeof(uint32_t)) +
           2 * (size_t)world * sizeof(stoke_comm_part) + count_nodes(world, lanes) * sizeof(stk_tree_node);
}

int stk_reduce_open(stk_reduce *reduce, stk_comm *comm, uint32_t lanes, size_t count, size_t chunk,
                    stoke_error *err)
{
    const uint32_t rank = stk_comm_rank(comm), world = stk_comm_world(comm);
    *reduce = (stk_reduce){ .comm = comm, .lanes = lanes, .count = count, .chunk = chunk };
    if (!lanes || lanes > STK_TREE_LANES || !chunk)
        return stk_fail(err, STOKE_E_INVALID, "%u lanes: 1 to %d are possible", lanes, STK_TREE_LANES);
    const size_t floats = room_of(rank, world, lanes, count, chunk);
    reduce->at = stk_alloc((world + (size_t)1) * sizeof *reduce->at);
    reduce->of = stk_alloc((world + (size_t)1) * sizeof *reduce->of);
    reduce->node = stk_alloc(count_nodes(world, lanes) * sizeof *reduce->node);
    reduce->parts = stk_alloc(2 * (size_t)world * sizeof *reduce->parts);
    reduce->room = stk_alloc_aligned(floats * sizeof(float), 64);
    if (!reduce->at || !reduce->of || !reduce->node || !reduce->parts || !reduce->room) {
        stk_reduce_close(reduce);
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the gradients of other processes (%.1f MiB)",
                        STK_MIB(floats * sizeof(float)));
    }
    uint32_t nodes = 0;
    for (uint32_t q = 0; q <= world; q++) {
        stk_tree_node theirs[STK_TREE_COVER];
        const uint32_t n = q < world ? nodes_of(q, world, lanes, theirs) : 0;
        memcpy(reduce->node + nodes, theirs, n * sizeof *theirs);
        reduce->at[q] = segment(q, world, count, chunk);
        reduce->of[q] = nodes;
        reduce->most = (uint32_t)stk_most(reduce->most, n);
        if (q == rank) reduce->own = n;
        nodes += n;
    }
    return STOKE_OK;
}

void stk_reduce_close(stk_reduce *reduce)
{
    stk_free(reduce->at);
    stk_free(reduce->of);
    stk_free(reduce->node);
    stk_free(reduce->parts);
    stk_free(reduce->room);
    memset(reduce, 0, sizeof *reduce);
}

/* Sends the k-th node of this rank to the owners and receives that of every other rank into `room`, which
 * has the nodes of one rank behind those of another. */
static int start_node(const stk_reduce *reduce, uint32_t k, float *own, stk_comm_ticket **ticket,
                      stoke_error *err)
{
    const uint32_t rank = stk_comm_rank(reduce->comm), world = stk_comm_world(reduce->comm);
    const size_t *at = reduce->at, mine = at[rank + 1] - at[rank];
    stoke_comm_part *send = reduce->parts, *recv = send + world;
    float *room = reduce->room;
    for (uint32_t q = 0; q < world; q++) {
        const uint32_t theirs = q == rank ? 0 : reduce->of[q + 1] - reduce->of[q];
        send[q] = recv[q] = (stoke_comm_part){ NULL, 0 };
        if (own && q != rank) send[q] = (stoke_comm_part){ own + at[q], (at[q + 1] - at[q]) * sizeof *own };
        if (k < theirs) recv[q] = (stoke_comm_part){ room + k * mine, mine * sizeof *room };
        room += theirs * mine;
    }
    return stk_comm_start(reduce->comm, send, recv, ticket, err);
}

/* One exchange per node, all on their way together. */
static int exchange(const stk_reduce *reduce, float *const *own, stoke_error *err)
{
    stk_comm_ticket *tickets[STK_TREE_COVER];
    uint32_t started = 0;
    int r = STOKE_OK;
    for (; started < reduce->most && !r; started += !r)
        r = start_node(reduce, started, started < reduce->own ? own[started] : NULL, &tickets[started], err);
    for (uint32_t k = 0; k < started && !r; k++) r = stk_comm_wait(reduce->comm, &tickets[k], err);
    return r;
}

/* Values of nodes that wait for their other half, left to right. */
typedef struct stack {
    stk_tree_node node[2 * STK_TREE_COVER];
    float *value[2 * STK_TREE_COVER];
    uint32_t depth;
} stack;

static void push(stack *s, const stk_reduce *reduce, stk_tree_node node, float *value, stk_reduce_add *add,
                 void *context)
{
    const uint32_t rank = stk_comm_rank(reduce->comm);
    s->node[s->depth] = node;
    s->value[s->depth++] = value;
    while (s->depth > 1 && stk_tree_are_halves(reduce->lanes, s->node[s->depth - 2], s->node[s->depth - 1])) {
        s->depth--;
        add(context, s->value[s->depth - 1], s->value[s->depth], reduce->at[rank + 1] - reduce->at[rank]);
        s->node[s->depth - 1].hi = s->node[s->depth].hi;
    }
}

int stk_reduce_sum(stk_reduce *reduce, float *const *own, float *out, stk_reduce_add *add, void *context,
                   stoke_error *err)
{
    const uint32_t rank = stk_comm_rank(reduce->comm), world = stk_comm_world(reduce->comm);
    const size_t at = reduce->at[rank], mine = reduce->at[rank + 1] - at;
    const int r = world > 1 ? exchange(reduce, own, err) : STOKE_OK;
    if (r || !mine) return r;
    float *room = reduce->room;
    stack s = { .depth = 0 };
    const uint32_t first = reduce->of[rank], end = reduce->of[rank + 1];
    for (uint32_t k = 0; k < reduce->of[world]; k++) {
        const int here = first <= k && k < end;
        push(&s, reduce, reduce->node[k], here ? own[k - first] + at : room, add, context);
        if (!here) room += mine;
    }
    if (s.value[0] != out + at) memcpy(out + at, s.value[0], mine * sizeof *out);
    return STOKE_OK;
}
