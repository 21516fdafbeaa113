/* SPDX-License-Identifier: Apache-2.0
 *
 * The forecast of a step: the closed form once, and the replay with batches and steps drawn again and again
 * from those that were measured. They are drawn in blocks, since slow batches come together (large images of
 * one folder, a disk that was busy), and as many as there were, so that the interval knows how few they are.
 * The draws depend on the seed alone: two setups are replayed with the same ones.
 */
#include "src/tune/diagnose/forecast.h"

#include <math.h>
#include <stdlib.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/rng.h"

/* Longer than what is usually made ahead, but an eighth of what there is: else every draw would be the same.
 */
static size_t block_of(size_t n)
{
    return n < 8 ? 1 : n < 64 ? n / 8 : 8;
}

stoke_costs stoke_costs_defaults(void)
{
    stoke_costs costs = { .struct_size = sizeof costs, .measured = stoke_setup_defaults(), .cores = 1 };
    for (int i = 0; i < 2; i++)
        costs.side[i] = (stoke_side){
            .pageable_ms = NAN, .pinned_ms = NAN, .pageable_start = { NAN, NAN }, .pinned_start = { NAN, NAN }
        };
    return costs;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double stk_quantile(double *values, size_t n, double share)
{
    qsort(values, n, sizeof *values, by_value);
    const double at = share * (double)(n - 1);
    const size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;
    return values[low] + (at - (double)low) * (values[high] - values[low]);
}

/* ---- drawing ---- */

static void draw_blocks(uint32_t *index, size_t n, size_t of, uint64_t seed, uint32_t resample, int steps)
{
    const size_t block = block_of(of);
    for (size_t i = 0, at = 0; i < n; i++, at = at + 1 < of ? at + 1 : 0) {
        if (i % block == 0) {
            const stk_rng x = stk_philox(seed, i / block, resample, STK_STREAM_BOOTSTRAP, 0);
            const uint32_t *word = &x.word[steps ? 2 : 0];
            at = (size_t)stk_below(stk_pair(word[0], word[1]), of);
        }
        index[i] = (uint32_t)at;
    }
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* ---- room ---- */

typedef struct room {
    stk_forecast_moments moments;
    stk_forecast_draw draw;
    double *all;
    uint32_t *indices;
} room;

static int make_room(room *space, const stk_forecast_model *model, size_t batches, stoke_error *err)
{
    *space = (room){ 0 };
    space->draw.n_batches = at_most(model->n_batches, STK_REPLAYED_MOST);
    space->draw.n_steps = at_most(model->n_steps, STK_REPLAYED_MOST);
    space->all = stk_calloc(batches, STK_MOMENTS * sizeof *space->all);
    space->indices = stk_calloc(space->draw.n_batches + space->draw.n_steps, sizeof *space->indices);
    if (!space->all || !space->indices)
        return stk_fail(err, STOKE_E_NOMEM, "no memory to replay %zu steps", batches);
    stk_forecast_moments *m = &space->moments;
    double **moment[STK_MOMENTS] = { &m->done,   &m->ready,     &m->taken,    &m->returned,
                                     &m->copied, &m->augmented, &m->launched, &m->ended };
    for (int i = 0; i < STK_MOMENTS; i++) *moment[i] = space->all + (size_t)i * batches;
    space->draw.batch = space->indices;
    space->draw.step = space->indices + space->draw.n_batches;
    return STOKE_OK;
}

static void free_room(room *space)
{
    stk_free(space->all);
    stk_free(space->indices);
}

/* ---- the forecast ---- */

static void summarise(stoke_forecast *out, const double *step_ms, double *busy, size_t n)
{
    double sorted[STK_RESAMPLES];
    for (size_t i = 0; i < n; i++) sorted[i] = step_ms[i];
    out->step_ms = stk_quantile(sorted, n, 0.5);
    out->low_ms = stk_quantile(sorted, n, 0.05);
    out->high_ms = stk_quantile(sorted, n, 0.95);
    out->busy = stk_quantile(busy, n, 0.5);
    out->busy_low = stk_quantile(busy, n, 0.05);
    out->busy_high = stk_quantile(busy, n, 0.95);
}

int stk_foresee(const stoke_costs *costs, const stoke_setup *setup, uint64_t seed, uint32_t resamples,
                stoke_forecast *out, double step_ms[STK_RESAMPLES], stoke_error *err)
{
    stk_forecast_model model;
    room space = { 0 };
    double own[STK_RESAMPLES], busy[STK_RESAMPLES], *steps = step_ms ? step_ms : own;
    *out = (stoke_forecast){ .limit = -1 };
    int r = stk_model_make(&model, costs, setup, err);
    if (r) return r;
    const stk_forecast_replay_size size = stk_replay_measure(&model);
    r = make_room(&space, &model, size.warm_up + size.counted, err);
    for (uint32_t i = 0; i < resamples && !r; i++) {
        draw_blocks(space.draw.batch, space.draw.n_batches, model.n_batches, seed, i, 0);
        draw_blocks(space.draw.step, space.draw.n_steps, model.n_steps, seed, i, 1);
        steps[i] = stk_replay(&model, &space.draw, size, &space.moments, &busy[i]);
    }
    if (!r) {
        out->closed_ms = stk_closed_form(&model, &out->limit);
        summarise(out, steps, busy, resamples);
    }
    free_room(&space);
    stk_model_free(&model);
    return r;
}

int stoke_foresee(const stoke_costs *costs, const stoke_setup *setup, uint64_t seed, stoke_forecast *out,
                  stoke_error *err)
{
    return stk_foresee(costs, setup, seed, STK_RESAMPLES, out, NULL, err);
}
