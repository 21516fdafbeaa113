/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step takes in steady state, by mean costs: the longest of the chains that have to end before the
 * next one of their kind, and what binds is the largest part of that chain. The letters are those of the
 * formulas:
 *
 *     t  to make a batch, CPU and files     h  to copy it      k  kernels that augment it
 *     g  the step on the device             l  its launch      m  the loop's own work
 *     P  input interval: t over the workers, or its CPU time over the cores, whichever is more
 *
 *     no workers, waits for every step      t + h + k + l + g + m
 *     no workers, pageable                  max(t + m, k + g) + h + l
 *     no workers, pinned                    max(t + m, h + k + l + g), and t + h in ours: it waits for the
 * copy before it makes the next batch pageable                              max(P, h + l + max(k + g, m))
 *     pinned                                max(P, h + k + l + g, m)
 *     either, waits for every step          max(P, h + k + l + g + m)
 *     stream                                max(P, k + l + g, k + h, m); P is t + h without workers, since
 * then the thread that copies makes the batches stream, waits for every step          max(P, l + g + max(k,
 * m), k + h)
 *
 * k + h: copies and kernels of the upload share a stream.
 */
#include <math.h>

#include "src/tune/diagnose/forecast.h"

enum { MADE = 1, COPY = 2, KERNELS = 4, LAUNCH = 8, STEP = 16, LOOP = 32 };

typedef struct chains {
    const stk_forecast_model *model;
    double t;
    double longest;
    unsigned parts; /* of the longest */
} chains;

double stk_model_hands(const stk_forecast_model *model)
{
    const stoke_setup *s = &model->setup;
    const uint32_t places = s->prefetch ? s->prefetch : 1;
    return s->by_batch && places < s->workers ? places : s->workers;
}

double stk_input_interval(const stk_forecast_model *model, stk_forecast_batch_cost cost)
{
    return fmax((cost.cpu + cost.io) / stk_model_hands(model), cost.cpu / model->cores);
}

double stk_input_alone(const stk_forecast_model *model, stk_forecast_batch_cost cost)
{
    return cost.io + cost.cpu / fmin(1, model->cores);
}

/* One makes it, or all its rows are shared. */
double stk_model_first(const stk_forecast_model *model)
{
    const stk_forecast_batch_cost *cost = &model->first;
    const int shared = model->setup.workers && !model->setup.by_batch;
    return shared ? stk_input_interval(model, *cost) : stk_input_alone(model, *cost);
}

/* The first step of an epoch comes when workers are there, have made its batch, and that has crossed: one
 * after the other, in place of an interval. */
double stk_model_restart(const stk_forecast_model *model, double interval)
{
    if (!(model->epoch > 0)) return 0;
    const double first = model->start + stk_model_first(model) + model->copy + model->mean.kernels +
                         model->launch + model->host + model->mean_step;
    return fmax(0, first - interval) / model->epoch;
}

/* A chain of those parts, of which `t` is what making takes in it. */
static void follow(chains *c, unsigned parts)
{
    const stk_forecast_model *model = c->model;
    double ms = 0;
    if (parts & MADE) ms += c->t;
    if (parts & COPY) ms += model->copy;
    if (parts & KERNELS) ms += model->mean.kernels;
    if (parts & LAUNCH) ms += model->launch;
    if (parts & STEP) ms += model->mean_step;
    if (parts & LOOP) ms += model->host;
    if (ms > c->longest) {
        c->longest = ms;
        c->parts = parts;
    }
}

static void by_loop(chains *c)
{
    const stoke_setup *s = &c->model->setup;
    const unsigned device = COPY | KERNELS | LAUNCH | STEP;
    const unsigned made = s->workers ? 0 : MADE; /* in the loop */
    if (s->workers) follow(c, MADE);
    if (s->sync) {
        follow(c, made | device | LOOP);
        return;
    }
    follow(c, device);
    if (s->transfer == STOKE_TRANSFER_PAGEABLE) {
        follow(c, made | COPY | LAUNCH | LOOP);
        return;
    }
    follow(c, made | LOOP);
    if (!s->workers && !s->by_batch) follow(c, made | COPY);
}

static void by_stream(chains *c)
{
    const stoke_setup *s = &c->model->setup;
    const unsigned before = s->depth ? KERNELS : COPY | KERNELS; /* without a slot ahead nothing overlaps */
    follow(c, s->workers ? MADE : MADE | COPY);
    follow(c, before | LAUNCH | STEP);
    follow(c, KERNELS | COPY);
    follow(c, s->sync ? LOOP | LAUNCH | STEP : LOOP);
}

/* The largest part of what binds. */
static int largest_part(const chains *c, int cores_bind)
{
    const stk_forecast_model *model = c->model;
    double most = stk_model_restart(model, c->longest);
    int limit = STOKE_IDLE_EPOCH_START;
    const struct {
        unsigned part;
        int idle;
        double ms;
    } others[] = {
        { STEP, -1, model->mean_step + (c->parts & KERNELS ? model->mean.kernels : 0) },
        { COPY, STOKE_IDLE_COPY, model->copy },
        { LAUNCH, STOKE_IDLE_LAUNCH, model->launch },
        { LOOP, STOKE_IDLE_HOST, model->host },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if ((c->parts & others[i].part) && others[i].ms > most) {
            most = others[i].ms;
            limit = others[i].idle;
        }
    const double whole = model->mean.cpu + model->mean.io;
    for (int i = 0; (c->parts & MADE) && i < STOKE_IDLE_INPUTS; i++) {
        const double ms = cores_bind && i == STOKE_IDLE_FILES ? 0 : model->part[i] / whole * c->t;
        if (ms > most) {
            most = ms;
            limit = i;
        }
    }
    return limit;
}

double stk_closed_form(const stk_forecast_model *model, int *limit)
{
    const stk_forecast_batch_cost *mean = &model->mean;
    chains c = { .model = model };
    c.t = model->setup.workers ? stk_input_interval(model, *mean) : stk_input_alone(model, *mean);
    const int cores_bind = model->setup.workers && mean->cpu / model->cores >= c.t;
    if (model->setup.transfer == STOKE_TRANSFER_STREAM)
        by_stream(&c);
    else
        by_loop(&c);
    *limit = largest_part(&c, cores_bind);
    return c.longest + stk_model_restart(model, c.longest);
}
