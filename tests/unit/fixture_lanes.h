/* SPDX-License-Identifier: Apache-2.0
 *
 * Small runs whose steps are cut into lanes: networks, batches by their number, what has become of a network.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_LANES_H
#define STOKE_TESTS_UNIT_FIXTURE_LANES_H

#include "tests/unit/unit.h"

#include "src/base/rng.h"
#include "src/train/lanes.h"
#include "tests/unit/fixture_ranks.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE, BATCH = 2, CLASSES = 3, STEPS = 2, WIDEST = 4 };

typedef struct run {
    const char *model;
    uint32_t replicas, accumulate, threads;
    int audit_every;
    int empty; /* the number of a batch of which nothing is left; -1: none */
    /* what came of it, by rank */
    uint64_t digest[MOST_RANKS];
    double loss[MOST_RANKS];
} run;

static inline stoke_net *open_net(const run *r)
{
    stoke_error err = { 0 };
    stoke_net *net = NULL;
    stoke_net_params params = stoke_net_defaults();
    params.model = r->model;
    params.classes = CLASSES;
    params.batch = BATCH;
    params.height = params.width = SIDE;
    params.training = params.average = 1;
    params.threads = r->threads;
    params.seed = 5;
    if (stoke_net_open(&net, &params, &err)) fprintf(stderr, "%s\n", err.message);
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

static inline stk_lanes_shape shape_of(const run *r, const stoke_net *net, stk_comm *comm)
{
    const stk_setup setup = {
        .params = { .replicas = r->replicas, .accumulate = r->accumulate, .audit_every = r->audit_every },
        .rank = stk_comm_rank(comm),
        .world = stk_comm_world(comm)
    };
    return stk_lanes_shape_of(&setup, stoke_net_plan_used(net));
}

#endif
