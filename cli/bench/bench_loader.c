/* SPDX-License-Identifier: Apache-2.0
 *
 * Bench subject: our loader. A pass is a whole epoch. The loader reads ahead into the next epoch, which must
 * neither be given to it for free nor take time from the others: a turn starts with an epoch nobody expected,
 * so that what was read ahead is thrown away, and is over, for the others, when the workers have come to
 * rest. What they read ahead within a turn counts against us.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cli/bench/bench.h"

/* ---- the page of --live ---- */

enum { EVERY_NS = 50 * 1000 * 1000 };

int bench_live_open(bench_live *live, const char *path, const char *what, stoke_error *err)
{
    *live = (bench_live){ 0 };
    return path ? stoke_live_create(&live->page, path, what, err) : STOKE_OK;
}

static int due(bench_live *live)
{
    if (!live->page) return 0;
    const uint64_t now = stoke_machine_now_ns();
    if (now - live->written_ns < EVERY_NS) return 0;
    live->written_ns = now;
    return 1;
}

void bench_live_of_feed(bench_live *live, stoke_upload *upload, uint64_t step, uint64_t steps)
{
    if (!due(live) && !(live->page && step == steps)) return;
    stoke_live_data data = stoke_live_defaults();
    stoke_live_take_upload(&data, upload);
    data.phase = STOKE_LIVE_TRAINING;
    data.step = step;
    data.steps = steps;
    stoke_live_write(live->page, &data);
}

/* ---- the subject ---- */

typedef struct loader_state {
    stoke_loader *loader;
    const stoke_data_params *data;
    uint64_t epoch;
    bench_live live;
} loader_state;

/* A forked process maps the pages of program and libraries only as it touches them, so the plan, which begins
 * with what the process holds, would be too low by those (3.3 MB against 6.0 MB in a fresh process). One
 * sample touches them, and tells the size of all. */
static void touch_code(const bench_case *job, bench_answer *answer)
{
    stoke_loader *loader = NULL;
    const stoke_batch *batch = NULL;
    stoke_data_params data = job->data;
    data.workers = 0;
    data.batch = 1;
    if (stoke_loader_create(&loader, job->dataset, &data, NULL, NULL)) return; /* open_loader will say why */
    if (!stoke_loader_next(loader, &batch)) {
        answer->height = batch->height;
        answer->width = batch->width;
        stoke_batch_release(loader, &batch);
    }
    stoke_loader_destroy(&loader);
}

static int open_loader(void **out, const bench_case *job, bench_answer *answer, stoke_error *err)
{
    loader_state *state = *out = cli_alloc(1, sizeof *state);
    state->data = &job->data;
    touch_code(job, answer);
    int r = stoke_loader_create(&state->loader, job->dataset, &job->data, NULL, err);
    if (!r) answer->plan = stoke_loader_memory(state->loader);
    if (!r) r = bench_live_open(&state->live, job->live, "bench data", err);
    return r;
}

/* One epoch. *idle gets the slot wait up to the first batch. */
static int take_epoch(loader_state *state, uint64_t *samples, stoke_stage_time *idle, stoke_error *err)
{
    stoke_loader_stats_data stats;
    int r = stoke_loader_set_epoch(state->loader, state->epoch++);
    for (int first = 1; !r; first = 0) {
        const stoke_batch *batch = NULL;
        if (cli_interrupted()) return cli_error(err, STOKE_E_CANCELLED, "interrupted");
        r = stoke_loader_next(state->loader, &batch);
        if (r) break;
        *samples += batch->count;
        stoke_batch_release(state->loader, &batch);
        if (due(&state->live)) {
            stoke_live_data data = stoke_live_defaults();
            stoke_live_take(&data, state->loader);
            data.phase = STOKE_LIVE_TRAINING;
            data.data_wait_ns = STOKE_LIVE_NA; /* nobody uses the batches: all there is is waiting */
            stoke_live_write(state->live.page, &data);
        }
        if (first && idle) {
            stoke_loader_stats(state->loader, &stats);
            *idle = stats.stage[STOKE_STAGE_SLOT_WAIT];
        }
    }
    return r == STOKE_E_END ? STOKE_OK : cli_pass(err, r, stoke_loader_error(state->loader));
}

/* The ring is full when the process uses no CPU time: less than 0.2 ms in each of two 20 ms, within 5 s. */
static void come_to_rest(void)
{
    for (int quiet = 0, tries = 0; quiet < 2 && tries < 250 && !cli_interrupted(); tries++) {
        uint64_t cpu = stoke_machine_cpu_ns();
        usleep(20000);
        quiet = stoke_machine_cpu_ns() - cpu < 200000 ? quiet + 1 : 0;
    }
}

static int measure_loader(void *opaque, uint64_t passes, bench_answer *answer, stoke_error *err)
{
    loader_state *state = opaque;
    stoke_loader_stats_data before, after;
    stoke_stage_time idle = { 0 };
    int r = STOKE_OK;
    state->epoch += 2; /* not the one after the last */
    stoke_loader_stats(state->loader, &before);
    uint64_t wall = stoke_machine_now_ns(), cpu = stoke_machine_cpu_ns();
    for (uint64_t i = 0; i < passes && !r; i++)
        r = take_epoch(state, &answer->samples, i ? NULL : &idle, err);
    answer->wall_ns = stoke_machine_now_ns() - wall;
    answer->cpu_ns = stoke_machine_cpu_ns() - cpu;
    stoke_loader_stats(state->loader, &after);
    come_to_rest();
    /* While others had their turn the workers waited, and stamp that when they wake: not a wait of this turn.
     */
    before.stage[STOKE_STAGE_SLOT_WAIT] = idle;
    for (int i = 0; i < STOKE_STAGES; i++) {
        answer->stage[i].wall_ns = after.stage[i].wall_ns - before.stage[i].wall_ns;
        answer->stage[i].cpu_ns = after.stage[i].cpu_ns - before.stage[i].cpu_ns;
        answer->stage[i].count = after.stage[i].count - before.stage[i].count;
    }
    answer->bad_samples = after.bad_samples;
    answer->retries = after.retries;
    cli_cache_add(&answer->cache, state->data, state->loader);
    return r;
}

static void close_loader(void **opaque)
{
    loader_state *state = *opaque;
    stoke_live_close(&state->live.page);
    stoke_loader_destroy(&state->loader);
    free(state);
    *opaque = NULL;
}

const bench_subject bench_loader = { open_loader, measure_loader, close_loader };
