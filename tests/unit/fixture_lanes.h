/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of a few steps that ranks share, each a thread: pictures that are made of their numbers, and what came
 * of it.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_LANES_H
#define STOKE_TESTS_UNIT_FIXTURE_LANES_H

#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/train/lanes.h"
#include "tests/unit/fixture_ranks.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE, BATCH = 2, CLASSES = 3, STEPS = 2, WORLDS = 3 };

typedef struct run {
    const char *model;
    uint32_t replicas, accumulate, threads;
    int empty; /* the number of a batch of which nothing is left; -1: none */
    int64_t audit_every;
    int compress;
    int sync; /* one batch norm */
    /* what came of it, by rank */
    uint64_t digest[MOST_RANKS];
    double loss[MOST_RANKS];
} run;

static inline stoke_net_params net_params_of(const run *r)
{
    stoke_net_params params = stoke_net_defaults();
    params.model = r->model;
    params.classes = CLASSES;
    params.batch = BATCH;
    params.height = params.width = SIDE;
    params.training = params.average = 1;
    params.threads = r->threads;
    params.seed = 5;
    return params;
}

static inline stoke_net *open_params(const stoke_net_params *params)
{
    stoke_error err = { 0 };
    stoke_net *net = NULL;
    if (stoke_net_open(&net, params, &err)) fprintf(stderr, "%s\n", err.message);
    return net;
}

static inline stoke_update settings_of(uint64_t step)
{
    stoke_update u = stoke_update_defaults();
    u.lr = 1e-3 / (double)(step + 1);
    u.clip_norm = 1;
    return u;
}

typedef struct pictures {
    float images[BATCH][3][PIXELS];
    uint8_t masks[BATCH][PIXELS];
} pictures;

/* The batch with that number; nobody has to hold them all. */
static inline stoke_net_batch batch_of(pictures *room, uint64_t number, int empty)
{
    float *value = &room->images[0][0][0];
    for (size_t i = 0; i < BATCH * 3 * (size_t)PIXELS; i++)
        value[i] = (float)((double)(stk_mix64(number * 1000003 + i) >> 11) * 0x1p-52 - 1);
    for (size_t i = 0; i < BATCH * (size_t)PIXELS; i++)
        (&room->masks[0][0])[i] = (uint8_t)(stk_mix64(~number * 7919 + i / 16) % CLASSES);
    return (stoke_net_batch){ .count = (int64_t)number == empty ? 0 : BATCH,
                              .images = room->images[0][0],
                              .layout = STOKE_LAYOUT_CHW,
                              .image_row_floats = 3 * PIXELS,
                              .masks = room->masks,
                              .mask_dtype = STOKE_DTYPE_U8,
                              .mask_row_bytes = PIXELS };
}

static inline uint64_t mixed(uint64_t digest, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        digest = stk_mix64(digest ^ bits);
    }
    return digest;
}

/* Weights, running statistics, moments, average. */
static inline uint64_t digest_of(const stoke_net *net)
{
    const stoke_net_arrays a = stoke_net_arrays_of(net);
    uint64_t digest = mixed(1, a.values, a.floats);
    digest = mixed(digest, a.first, a.trained);
    digest = mixed(digest, a.second, a.trained);
    return mixed(digest, a.average, a.trained);
}

/* What a rank has while it trains. */
typedef struct part {
    run *r;
    stk_lanes_shape shape;
    stoke_net *net;
    stk_lanes lanes;
    stk_loader_route route;
    pictures *room[MOST_LANES]; /* one, or one of each lane */
    uint64_t taken;
} part;

static inline void open_part(part *p, run *r, stk_comm *comm, const stoke_net_params *params)
{
    stoke_error err = { 0 };
    stk_setup setup = { .params = { .replicas = r->replicas,
                                    .accumulate = r->accumulate,
                                    .audit_every = r->audit_every,
                                    .compress = r->compress },
                        .rank = stk_comm_rank(comm),
                        .world = stk_comm_world(comm),
                        .net = *params };
    if (r->sync)
        setup.net.joint = stk_tree_first(r->replicas, setup.rank + 1, setup.world) -
                          stk_tree_first(r->replicas, setup.rank, setup.world);
    *p = (part){ .r = r, .net = open_params(&setup.net) };
    p->shape = stk_lanes_shape_of(&setup, stoke_net_plan_used(p->net));
    RANK_CHECK(!stk_lanes_open(&p->lanes, p->net, setup.world > 1 ? comm : NULL, &p->shape, &err));
    p->route = stk_lanes_route(&p->lanes, 0);
    for (uint32_t j = 0; j < MOST_LANES; j++) p->room[j] = malloc(sizeof *p->room[j]);
}

static inline void close_part(part *p)
{
    for (uint32_t j = 0; j < MOST_LANES; j++) free(p->room[j]);
    stk_lanes_close(&p->lanes);
    stoke_net_close(&p->net);
}

static inline stoke_net_batch next_of(part *p, pictures *room)
{
    return batch_of(room, p->route.at(p->route.context, p->taken++), p->r->empty);
}

/* Forward and backward passes of a step. */
static inline void take_batches(part *p, uint64_t step)
{
    const uint32_t joint = stk_lanes_joint(&p->lanes);
    stoke_net_batch rows[MOST_LANES];
    double losses[MOST_LANES];
    stoke_error err = { 0 };
    stk_lanes_begin(&p->lanes, step);
    for (uint32_t k = 0; !joint && k < stk_lanes_own(&p->lanes); k++) {
        rows[0] = next_of(p, p->room[0]);
        RANK_CHECK(!stk_lanes_look(&p->lanes, k, rows, losses, &err));
        stk_lanes_learn(&p->lanes, k, rows);
    }
    for (uint32_t a = 0; joint && a < p->r->accumulate; a++) {
        for (uint32_t j = 0; j < joint; j++) rows[j] = next_of(p, p->room[j]);
        RANK_CHECK(!stk_lanes_look_together(&p->lanes, a, rows, STOKE_OK, losses, &err));
        RANK_CHECK(!stk_lanes_learn_together(&p->lanes, a, rows, STOKE_OK, &err));
    }
    RANK_CHECK(!p->lanes.audit.on || !stk_lanes_compare(&p->lanes, &err));
    if (*err.message) fprintf(stderr, "%s\n", err.message);
}

/* One rank's part of the whole run. */
static inline void train(stk_comm *comm, void *context)
{
    run *r = context;
    const uint32_t rank = stk_comm_rank(comm);
    const stoke_net_params params = net_params_of(r);
    stoke_error err = { 0 };
    part p;
    open_part(&p, r, comm, &params);
    for (uint64_t step = 0; step < STEPS; step++) {
        take_batches(&p, step);
        const stoke_update update = settings_of(step);
        stoke_step_report report;
        RANK_CHECK(!stk_lanes_step(&p.lanes, &update, &report, &r->loss[rank], &err));
        RANK_CHECK(report.step == step + 1 && !report.skipped);
        /* else weights are still on their way when the next step begins */
        RANK_CHECK(!r->audit_every || !stk_lanes_compare_weights(&p.lanes, step + 1, &err));
    }
    RANK_CHECK(!stk_lanes_gather(&p.lanes, &err));
    if (*err.message) fprintf(stderr, "%s\n", err.message);
    r->digest[rank] = digest_of(p.net);
    close_part(&p);
}

static inline void assert_all_ranks(run *r, uint32_t world, uint64_t digest, double loss)
{
    assert_int_equal(run_ranks(world, 60, train, r), 0);
    for (uint32_t q = 0; q < world; q++) {
        if (r->digest[q] != digest)
            fail_msg("%s, %u lanes x %u, %u threads, %s: rank %u of %u has other weights", r->model,
                     r->replicas, r->accumulate, r->threads, r->sync ? "sync" : "local", q, world);
        assert_true(r->loss[q] == loss);
    }
}

/* In one process, and in as many as `worlds` says, whether they audit each other or not. */
static inline void assert_same_bits(const run *of, const uint32_t worlds[WORLDS])
{
    run r = *of;
    assert_int_equal(run_ranks(1, 60, train, &r), 0);
    const uint64_t digest = r.digest[0];
    const double loss = r.loss[0];
    for (int i = 0; i < WORLDS && worlds[i]; i++) {
        r.audit_every = r.sync ? 0 : worlds[i] % 3; /* with one batch norm there are none */
        assert_all_ranks(&r, worlds[i], digest, loss);
    }
}

#endif
