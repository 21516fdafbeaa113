/* SPDX-License-Identifier: Apache-2.0
 *
 * A training step of processes, two ways in turns: as stoke train takes it (lanes, each segment summed and
 * updated by its owner, weights gathered), and as it is usual (MPI_Allreduce of the gradients, everybody
 * updates everything). Same kind of network, same batch, same engine below; made-up pictures.
 *
 *   mpirun -np N bench_allreduce MODEL BATCH SIZE CLASSES ACCUMULATE THREADS STEPS    a line of JSON
 *   bench_allreduce --short                                                           to see that it runs
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/mem.h"
#include "src/comm/comm.h"
#include "src/train/lanes.h"

enum { MOST_STEPS = 1000, WARM = 2 };

typedef struct bench {
    stoke_net *net, *usual; /* one for each way: lanes may still wait for weights when a step is over */
    stoke_net_plan plan;
    stk_comm *comm;
    stk_lanes lanes;
    stoke_net_batch batch;
    uint32_t accumulate;
    double *statistics;
    uint64_t draw;
} bench;

/* The time of a step, and of it what came after the last backward pass. */
typedef struct times {
    double step[MOST_STEPS], rest[MOST_STEPS];
} times;

static void need(int r, const stoke_error *err)
{
    if (!r) return;
    fprintf(stderr, "bench_allreduce: %s\n", err->message);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *room(size_t bytes)
{
    const stoke_error err = { .message = "no memory" };
    void *memory = stk_calloc(bytes + 1, 1);
    need(!memory, &err);
    return memory;
}

static double ms_since(uint64_t start)
{
    return (double)(stk_now_ns() - start) / 1e6;
}

static void make_batch(bench *b, const stoke_net_params *p)
{
    const size_t pixels = (size_t)p->height * p->width;
    float *images = room(3 * pixels * p->batch * sizeof *images);
    uint8_t *masks = room(pixels * p->batch);
    for (size_t i = 0; i < 3 * pixels * p->batch; i++)
        images[i] = (float)(i * 2654435761u % 4096) * (4.0f / 4096) - 2;
    for (size_t i = 0; i < pixels * p->batch; i++) masks[i] = (uint8_t)(i / 7 % p->classes);
    b->batch = (stoke_net_batch){ .count = p->batch,
                                  .images = images,
                                  .layout = STOKE_LAYOUT_CHW,
                                  .image_row_floats = 3 * pixels,
                                  .masks = masks,
                                  .mask_dtype = STOKE_DTYPE_U8,
                                  .mask_row_bytes = pixels };
}

static void open_bench(bench *b, const stoke_net_params *p, stoke_error *err)
{
    const stk_comm_settings settings = { .engine = "mpi", .timeout = 600 };
    need(stk_comm_open(&b->comm, &settings, err), err);
    need(stoke_net_plan_of(p, &b->plan, err), err);
    need(stoke_net_open(&b->net, p, err), err);
    need(stoke_net_open(&b->usual, p, err), err);
    const stk_lanes_shape shape = { .replicas = stk_comm_world(b->comm),
                                    .accumulate = b->accumulate,
                                    .rank = stk_comm_rank(b->comm),
                                    .world = stk_comm_world(b->comm),
                                    .trained = b->plan.trained_floats,
                                    .statistics = b->plan.statistics };
    need(stk_lanes_open(&b->lanes, b->net, b->comm, &shape, err), err);
    b->statistics = room(b->plan.statistics * sizeof(double));
    make_batch(b, p);
}

static void close_bench(bench *b)
{
    stk_lanes_close(&b->lanes);
    stoke_net_close(&b->net);
    stoke_net_close(&b->usual);
    stk_comm_close(&b->comm);
    stk_free((void *)(uintptr_t)b->batch.images);
    stk_free((void *)(uintptr_t)b->batch.masks);
    stk_free(b->statistics);
}

static void by_lanes(bench *b, uint64_t *ready, stoke_error *err)
{
    const stoke_update update = stoke_update_defaults();
    stoke_step_report report;
    double loss = 0;
    for (uint32_t k = 0; k < b->accumulate; k++) {
        need(stk_lanes_look(&b->lanes, k, &b->batch, &loss, err), err);
        stk_lanes_learn(&b->lanes, k, &b->batch);
    }
    *ready = stk_now_ns();
    need(stk_lanes_step(&b->lanes, &update, &report, &loss, err), err);
}

static void by_allreduce(bench *b, uint64_t *ready, stoke_error *err)
{
    const stoke_update update = stoke_update_defaults();
    const stoke_net_arrays arrays = stoke_net_arrays_of(b->usual);
    const uint32_t all = b->accumulate * stk_comm_world(b->comm);
    stoke_step_report report;
    double loss = 0;
    for (uint32_t k = 0; k < b->accumulate; k++) {
        need(stoke_net_leaf_loss(b->usual, &b->batch, all, b->draw++, &loss, b->statistics, err), err);
        stoke_net_leaf_back(b->usual, &b->batch, k > 0);
        stoke_net_track(b->usual, b->statistics);
    }
    *ready = stk_now_ns();
    MPI_Allreduce(MPI_IN_PLACE, arrays.gradients, (int)b->plan.trained_floats, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    need(stoke_net_step(b->usual, &update, &report, err), err);
}

/* Steps of one way that follow each other; the first of them do not count. */
static void take(bench *b, void (*step)(bench *b, uint64_t *ready, stoke_error *err), int steps, times *t,
                 int *done)
{
    stoke_error err = { 0 };
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = -WARM; i < steps; i++) {
        const uint64_t began = stk_now_ns();
        uint64_t ready = 0;
        step(b, &ready, &err);
        if (i < 0) continue;
        t->rest[*done] = ms_since(ready);
        t->step[(*done)++] = ms_since(began);
    }
}

static void print_list(const char *name, const double *ms, int count, const char *end)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < count; i++) printf("%s%.3f", i ? ", " : "", ms[i]);
    printf("]%s", end);
}

static void measure(bench *b, int steps, times *ours, times *usual)
{
    stoke_error err = { 0 };
    int a = 0, c = 0;
    const int turn = steps < 6 ? steps : steps / 3;
    while (a < steps) {
        const int left = steps - a;
        take(b, by_lanes, left < turn ? left : turn, ours, &a);
        /* Nothing is on its way when this thread calls MPI. */
        need(stk_lanes_gather(&b->lanes, &err), &err);
        take(b, by_allreduce, left < turn ? left : turn, usual, &c);
    }
    if (stk_comm_rank(b->comm)) return;
    printf("{\"processes\": %u, \"bytes\": %llu, ", stk_comm_world(b->comm),
           (unsigned long long)(b->plan.trained_floats * sizeof(float)));
    print_list("lanes_ms", ours->step, a, ", ");
    print_list("lanes_rest_ms", ours->rest, a, ", ");
    print_list("allreduce_ms", usual->step, c, ", ");
    print_list("allreduce_rest_ms", usual->rest, c, "}\n");
}

int main(int argc, char **argv)
{
    static char *brief[] = { "b0", "1", "64", "4", "1", "1", "2" };
    char **words = argc == 2 && !strcmp(argv[1], "--short") ? brief : argv + 1;
    static times ours, usual;
    bench b = { 0 };
    stoke_error err = { 0 };
    int level = 0;
    if (words != brief && argc != 8) {
        fprintf(stderr,
                "usage: bench_allreduce MODEL BATCH SIZE CLASSES ACCUMULATE THREADS STEPS | --short\n");
        return 2;
    }
    stoke_net_params p = stoke_net_defaults();
    p.model = words[0];
    p.batch = (uint32_t)atoi(words[1]);
    p.height = p.width = (uint32_t)atoi(words[2]);
    p.classes = (uint32_t)atoi(words[3]);
    p.threads = (uint32_t)atoi(words[5]);
    p.precision = STOKE_PRECISION_FP32;
    p.training = 1;
    b.accumulate = (uint32_t)atoi(words[4]);
    const int steps = atoi(words[6]);
    /* The engine's thread and this one never call it at the same time. */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    open_bench(&b, &p, &err);
    measure(&b, steps < MOST_STEPS ? steps : MOST_STEPS, &ours, &usual);
    close_bench(&b);
    MPI_Finalize();
    return 0;
}
