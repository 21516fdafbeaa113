/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/lanes_sync.h"

#include <math.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/train/lanes.h"

/* ---- memory ---- */

/* Doubles of a record: a count, means and squares of a batch's channels, or two sums of each. */
static size_t record_of(const stk_lanes_shape *shape)
{
    return 1 + shape->joint;
}

static uint32_t most_own(const stk_lanes_shape *shape)
{
    return (shape->replicas + shape->world - 1) / shape->world;
}

static uint32_t own_of(const stk_lanes_shape *shape)
{
    return stk_tree_first(shape->replicas, shape->rank + 1, shape->world) -
           stk_tree_first(shape->replicas, shape->rank, shape->world);
}

/* Several lanes that are on their way in turn each have their gradients; of one lane they stay in the
 * network. */
static uint32_t arrays_apart(const stk_lanes_shape *shape)
{
    return shape->accumulate > 1 && own_of(shape) > 1 ? own_of(shape) : 0;
}

static size_t told_words(const stk_lanes_shape *shape)
{
    return 1 + most_own(shape) * record_of(shape);
}

uint64_t stk_lanes_sync_bytes(const stk_lanes_shape *shape, uint32_t pile)
{
    const uint32_t apart = arrays_apart(shape);
    const uint64_t words =
        (1 + shape->world) * told_words(shape) + (shape->replicas + 1) * (uint64_t)record_of(shape);
    if (!shape->joint) return 0;
    return (apart > pile ? apart - pile : 0) * (uint64_t)shape->trained * sizeof(float) +
           words * sizeof(double);
}

int stk_lanes_sync_open(stk_lanes *lanes, stoke_error *err)
{
    const stk_lanes_shape *shape = &lanes->shape;
    stk_lanes_sync *s = &lanes->sync;
    const size_t record = record_of(shape), own = own_of(shape);
    if (!shape->joint) return STOKE_OK;
    s->mine = stk_calloc(told_words(shape), sizeof(double));
    s->told = stk_calloc(told_words(shape) * shape->world, sizeof(double));
    s->records = stk_calloc(shape->replicas * record, sizeof(double));
    s->statistics = stk_calloc(record, sizeof(double));
    s->apart = stk_calloc(own, sizeof *s->apart);
    s->computed = stk_calloc(own, sizeof *s->computed);
    int failed = !s->mine || !s->told || !s->records || !s->statistics || !s->apart || !s->computed;
    for (uint32_t j = 0; !failed && j < arrays_apart(shape); j++) {
        /* When a lane joins the pile, its array and those of the lanes before are free for it. */
        const int of_pile = j < lanes->arrays;
        s->apart[j] = of_pile ? lanes->sums[j] : stk_alloc_pages(shape->trained * sizeof(float));
        failed = !s->apart[j];
        s->extra += !of_pile && !failed;
    }
    return failed ? stk_fail(err, STOKE_E_NOMEM, "no memory for %u lanes with one batch norm", (unsigned)own)
                  : STOKE_OK;
}

void stk_lanes_sync_close(stk_lanes *lanes)
{
    stk_lanes_sync *s = &lanes->sync;
    while (s->extra)
        stk_free_pages(s->apart[lanes->arrays + --s->extra], lanes->shape.trained * sizeof(float));
    stk_free(s->mine);
    stk_free(s->told);
    stk_free(s->records);
    stk_free(s->statistics);
    stk_free(s->apart);
    stk_free(s->computed);
    *s = (stk_lanes_sync){ 0 };
}

/* ---- what ranks tell each other ---- */

/* Where this rank writes what it tells of its `j`-th lane. */
static double *own_record(const stk_lanes *lanes, uint32_t j, size_t record)
{
    return lanes->sync.mine + 1 + j * record;
}

/* Own records, and whether this rank has failed, to all; all lanes' become `records`. */
static int tell(stk_lanes *lanes, size_t record, int r, stoke_error *err)
{
    stk_lanes_sync *s = &lanes->sync;
    const stk_lanes_shape *shape = &lanes->shape;
    const size_t words = 1 + most_own(shape) * record;
    const double *told = lanes->comm ? s->told : s->mine;
    s->mine[0] = r != STOKE_OK;
    const uint64_t began = stk_now_ns();
    /* What this rank has failed with is what it will say. */
    const int status =
        lanes->comm ? stk_comm_all(lanes->comm, s->mine, words * sizeof(double), s->told, r ? NULL : err)
                    : STOKE_OK;
    s->waited += (double)(stk_now_ns() - began) / 1e9;
    s->halted = status != STOKE_OK;
    for (uint32_t q = 0; !status && q < shape->world; q++, told += words) {
        const uint32_t first = stk_tree_first(shape->replicas, q, shape->world),
                       end = stk_tree_first(shape->replicas, q + 1, shape->world);
        s->halted |= told[0] != 0;
        memcpy(s->records + first * record, told + 1, (end - first) * record * sizeof(double));
    }
    return r ? r : status;
}

/* ---- batches ---- */

static stoke_net_joint joint_of(const stk_lanes *lanes, uint32_t j, const stoke_net_batch *rows)
{
    const stk_lanes_shape *shape = &lanes->shape;
    return (stoke_net_joint){ .batch = rows,
                              .at = j,
                              .of = shape->replicas * shape->accumulate,
                              .draw = lanes->sync.draws + lanes->first + j };
}

int stk_lanes_look_together(stk_lanes *lanes, uint32_t a, const stoke_net_batch *rows, int r, double *losses,
                            stoke_error *err)
{
    stk_lanes_sync *s = &lanes->sync;
    const size_t record = record_of(&lanes->shape);
    const uint32_t own = lanes->end - lanes->first;
    stoke_net_state now;
    stoke_net_state_get(lanes->net, &now);
    s->draws = now.draws;
    if (!a) lanes->waiting = 0;
    memset(s->mine, 0, told_words(&lanes->shape) * sizeof(double));
    for (uint32_t j = 0; !r && j < own; j++) {
        const stoke_net_joint joint = joint_of(lanes, j, &rows[j]);
        losses[j] = 0;
        if (rows[j].count) r = stoke_net_joint_moments(lanes->net, &joint, own_record(lanes, j, record), err);
    }
    const int lost = stk_lanes_settle(lanes, r ? NULL : err); /* who has no picture waits for weights here */
    r = tell(lanes, record, r ? r : lost, err);
    if (s->halted) return r;
    stoke_net_joint_normalise(lanes->net, s->records, lanes->shape.replicas, s->statistics);
    for (uint32_t j = 0; !r && j < own; j++) {
        const stoke_net_joint joint = joint_of(lanes, j, &rows[j]);
        if (rows[j].count) r = stoke_net_joint_loss(lanes->net, &joint, &losses[j], err);
        stk_lanes_note(lanes, a * lanes->shape.replicas + lanes->first + j, &rows[j], losses[j]);
    }
    stoke_net_joint_track(lanes->net, s->statistics, lanes->shape.replicas);
    return r;
}

static int is_finite(const stk_lanes *lanes, uint32_t lane)
{
    const size_t record = record_of(&lanes->shape);
    for (size_t i = 0; i < record; i++)
        if (!isfinite(lanes->sync.records[lane * record + i])) return 0;
    return 1;
}

int stk_lanes_is_to_blame(const stk_lanes *lanes, uint32_t j)
{
    if (!is_finite(lanes, lanes->first + j)) return 1;
    for (uint32_t lane = 0; lane < lanes->shape.replicas; lane++)
        if (!is_finite(lanes, lane)) return 0;
    return 1;
}

/* The gradients of the batch of own lane `j`: to those of the lane, which are closed with its last batch. */
static void learn(stk_lanes *lanes, uint32_t a, uint32_t j, const stoke_net_batch *rows)
{
    stk_lanes_sync *s = &lanes->sync;
    const stoke_net_joint joint = joint_of(lanes, j, rows);
    const double *sums = s->records + (lanes->first + j) * lanes->shape.joint;
    const int last = a + 1 == lanes->shape.accumulate;
    float *gradients = s->apart[j];
    if (last && gradients) {
        const stoke_net_arrays arrays = stoke_net_arrays_of(lanes->net);
        if (s->computed[j]) memcpy(arrays.gradients, gradients, arrays.trained * sizeof(float));
        gradients = NULL;
    }
    const int sends = last && lanes->comm && rows->count && lanes->first + j + 1 == lanes->end;
    if (sends) stk_lanes_send_begin(lanes);
    if (rows->count) stoke_net_joint_back(lanes->net, &joint, sums, gradients, s->computed[j]);
    s->computed[j] |= rows->count > 0;
    if (!last) return;
    lanes->computed = s->computed[j];
    s->computed[j] = 0;
    if (sends)
        stk_lanes_send_end(lanes);
    else
        stk_lanes_close_lane(lanes, lanes->first + j);
}

int stk_lanes_learn_together(stk_lanes *lanes, uint32_t a, const stoke_net_batch *rows, int r,
                             stoke_error *err)
{
    stk_lanes_sync *s = &lanes->sync;
    const size_t record = lanes->shape.joint;
    const uint32_t own = lanes->end - lanes->first;
    memset(s->mine, 0, told_words(&lanes->shape) * sizeof(double));
    for (uint32_t j = 0; !r && j < own; j++) {
        const stoke_net_joint joint = joint_of(lanes, j, &rows[j]);
        if (rows[j].count) stoke_net_joint_sums(lanes->net, &joint, own_record(lanes, j, record));
    }
    r = tell(lanes, record, r, err);
    if (s->halted) return r;
    stoke_net_joint_slopes(lanes->net, s->records, lanes->shape.replicas);
    for (uint32_t j = 0; j < own; j++) learn(lanes, a, j, &rows[j]);
    return STOKE_OK;
}
