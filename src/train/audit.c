/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/audit.h"

#include <stdio.h>
#include <xxhash.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/comm/tree.h"

enum { NAME = 160 };

int stk_audit_open(stk_audit *a, stk_comm *comm, uint64_t every, uint32_t lanes, stoke_error *err)
{
    const uint32_t world = stk_comm_world(comm);
    *a = (stk_audit){ .comm = comm, .every = every, .lanes = lanes };
    if (!comm) return STOKE_OK;
    a->words = stk_calloc(world, sizeof *a->words);
    return a->words ? STOKE_OK
                    : stk_fail(err, STOKE_E_NOMEM, "no memory for the hashes of %u ranks", (unsigned)world);
}

void stk_audit_close(stk_audit *a)
{
    stk_free(a->words);
    *a = (stk_audit){ 0 };
}

uint32_t stk_audit_lane(uint64_t every, uint64_t step, uint32_t lanes, uint32_t rank, uint32_t world)
{
    const uint32_t next = (rank + 1) % world, first = stk_tree_first(lanes, next, world),
                   end = stk_tree_first(lanes, next + 1, world);
    return first + (uint32_t)(step / every % (end - first));
}

static uint32_t lane_of(const stk_audit *a, uint32_t rank)
{
    return stk_audit_lane(a->every, a->step, a->lanes, rank, stk_comm_world(a->comm));
}

static uint32_t before(uint32_t rank, uint32_t world)
{
    return (rank + world - 1) % world;
}

void stk_audit_begin(stk_audit *a, uint64_t step)
{
    const uint32_t rank = stk_comm_rank(a->comm);
    a->step = step;
    a->on = stk_audit_due(a->every, step);
    a->mine = (stk_audit_word){ 0 };
    if (!a->on) return;
    a->lane = lane_of(a, rank);
    a->watched = lane_of(a, before(rank, stk_comm_world(a->comm)));
}

uint64_t stk_audit_hash(const float *values, size_t count)
{
    return XXH3_64bits(values, count * sizeof *values);
}

/* Whether rank q found something else than the next one, which owns the lane. */
static int differs(const stk_audit *a, uint32_t q)
{
    return a->words[q].found != a->words[(q + 1) % stk_comm_world(a->comm)].own;
}

/* Of three ranks or more, one that differs from both of its neighbours. */
static uint32_t who_is_alone(const stk_audit *a, uint32_t world)
{
    uint32_t q = 0;
    while (q < world && !(differs(a, q) && differs(a, before(q, world)))) q++;
    return world > 2 ? q : world;
}

#define WHAT_TO_DO                                                                                           \
    "This step is not taken, and nothing of it is saved: test the memory of %s, see that all read the same " \
    "files, and go on from the last checkpoint without a machine that is at fault (`continue`)"

int stk_audit_compare(stk_audit *a, stoke_error *err)
{
    const uint32_t world = stk_comm_world(a->comm);
    const unsigned long long number = a->step + 1;
    char one[NAME], other[NAME], third[NAME];
    uint32_t q = 0;
    const int r = stk_comm_all(a->comm, &a->mine, sizeof a->mine, a->words, err);
    if (r) return r;
    while (q < world && !differs(a, q)) q++;
    if (q == world) return STOKE_OK;
    const uint32_t alone = who_is_alone(a, world);
    if (alone < world)
        return stk_fail(
            err, STOKE_E_STATE,
            "step %llu: %s has other gradients than %s in lane %u and than %s in lane %u, of the same "
            "pictures: it computes or reads wrong. " WHAT_TO_DO,
            number, stk_comm_name_of(a->comm, alone, one, sizeof one),
            stk_comm_name_of(a->comm, before(alone, world), other, sizeof other),
            (unsigned)lane_of(a, before(alone, world)),
            stk_comm_name_of(a->comm, (alone + 1) % world, third, sizeof third), (unsigned)lane_of(a, alone),
            "its machine");
    return stk_fail(
        err, STOKE_E_STATE,
        "step %llu: %s and %s have other gradients of the same pictures, in lane %u: one of the two "
        "computes or reads wrong. " WHAT_TO_DO,
        number, stk_comm_name_of(a->comm, q, one, sizeof one),
        stk_comm_name_of(a->comm, (q + 1) % world, other, sizeof other), (unsigned)lane_of(a, q),
        "both machines");
}

/* ---- weights ---- */

/* How many have what rank q has. */
static uint32_t like(const stk_audit *a, uint32_t q)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < stk_comm_world(a->comm); i++) n += a->words[i].own == a->words[q].own;
    return n;
}

int stk_audit_weights(stk_audit *a, uint64_t step, const float *values, size_t count, stoke_error *err)
{
    if (!a->comm) return STOKE_OK;
    const uint32_t world = stk_comm_world(a->comm);
    const stk_audit_word mine = { .own = stk_audit_hash(values, count) };
    char one[NAME], other[NAME];
    uint32_t q = 0, most = 0;
    const int r = stk_comm_all(a->comm, &mine, sizeof mine, a->words, err);
    if (r || like(a, 0) == world) return r;
    for (uint32_t i = 1; i < world; i++)
        if (like(a, i) > like(a, most)) most = i;
    while (a->words[q].own == a->words[most].own) q++;
    if (2 * like(a, most) > world)
        return stk_fail(
            err, STOKE_E_STATE,
            "step %llu: %s has other weights than the other ranks, though all took the same steps: "
            "test the memory of its machine, and go on from the last checkpoint without it "
            "(`continue`)",
            (unsigned long long)step, stk_comm_name_of(a->comm, q, one, sizeof one));
    return stk_fail(
        err, STOKE_E_STATE,
        "step %llu: %s and %s have other weights, though both took the same steps: test the memory of "
        "both machines, and go on from the last checkpoint without the one at fault (`continue`)",
        (unsigned long long)step, stk_comm_name_of(a->comm, most, one, sizeof one),
        stk_comm_name_of(a->comm, q, other, sizeof other));
}
