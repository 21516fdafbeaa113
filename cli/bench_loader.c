/* SPDX-License-Identifier: Apache-2.0
 *
 * Bench subject: our loader. A pass is a whole epoch, from set_epoch to its end: all work is counted, and
 * between turns the workers have nothing to do, so they take no time from the others.
 */
#include <stdlib.h>

#include "cli/bench.h"

typedef struct loader_state {
    stoke_loader *loader;
    uint64_t epoch;
} loader_state;

static int open_loader(void **out, const bench_case *job, bench_answer *answer, stoke_error *err)
{
    loader_state *state = *out = cli_alloc(1, sizeof *state);
    int r = stoke_loader_create(&state->loader, job->dataset, &job->data, NULL, err);
    if (!r) answer->plan = stoke_loader_memory(state->loader);
    return r;
}

static int take_epoch(loader_state *state, uint64_t *samples, stoke_error *err)
{
    int r = stoke_loader_set_epoch(state->loader, state->epoch++);
    while (!r) {
        const stoke_batch *batch = NULL;
        if (cli_interrupted()) return cli_error(err, STOKE_E_CANCELLED, "interrupted");
        r = stoke_loader_next(state->loader, &batch);
        if (r) break;
        *samples += batch->count;
        stoke_batch_release(state->loader, &batch);
    }
    return r == STOKE_E_END ? STOKE_OK : cli_error(err, r, "%s", stoke_loader_error(state->loader));
}

static int measure_loader(void *opaque, uint64_t passes, bench_answer *answer, stoke_error *err)
{
    loader_state *state = opaque;
    uint64_t wall = stoke_machine_now_ns(), cpu = stoke_machine_cpu_ns();
    int r = STOKE_OK;
    for (uint64_t i = 0; i < passes && !r; i++) r = take_epoch(state, &answer->samples, err);
    answer->wall_ns = stoke_machine_now_ns() - wall;
    answer->cpu_ns = stoke_machine_cpu_ns() - cpu;
    stoke_loader_stats(state->loader, &answer->stats);
    return r;
}

static void close_loader(void **opaque)
{
    loader_state *state = *opaque;
    stoke_loader_destroy(&state->loader);
    free(state);
    *opaque = NULL;
}

const bench_subject bench_loader = { open_loader, measure_loader, close_loader };
