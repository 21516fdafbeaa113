/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop, batch by batch, with costs that vary: every moment is the latest of what it waits for, plus what
 * it takes. No distribution is assumed, and queues are as long as they really are.
 */
#include <math.h>

#include "src/tune/diagnose/forecast.h"

enum {
    CORES = 256,
    EPOCH = 64 /* steps: of longer ones the lead that is lost at their start is soon won back */
};

typedef struct replaying {
    const stk_forecast_model *model;
    const stk_forecast_moments *m;
    double hands;
    size_t places;      /* batches made ahead */
    double asked;       /* the loop comes for the next batch */
    double not_before;  /* workers were started for this epoch */
    double free[CORES]; /* when a core is */
    size_t cores;       /* that workers share; 0: there is one for each */
    double spent;       /* when they have had the time for all batches so far, and a round more */
    double round;       /* what a batch of every worker takes them */
} replaying;

/* A moment of the batch so many before this one; before the first one nothing is waited for. */
static double past(const double *moments, size_t i, size_t back)
{
    return i >= back ? moments[i - back] : 0;
}

/* Workers that make whole batches share cores when there are more of them. */
static void set_out_cores(replaying *r)
{
    const double cores = r->model->cores;
    if (r->hands > cores && cores < CORES) r->cores = (size_t)ceil(cores);
    r->spent = r->round = r->hands * r->model->mean.cpu / cores;
}

/* A batch on the core that is free first. Of a core that is there in part the workers have all of it now and
 * nothing then: what counts is that over a round they do not get more than there is. */
static double run_on_core(replaying *r, double begin, stk_forecast_batch_cost cost)
{
    size_t first = 0;
    if (!r->cores) return begin + cost.io + cost.cpu;
    for (size_t k = 1; k < r->cores; k++)
        if (r->free[k] < r->free[first]) first = k;
    r->spent = fmax(r->spent, begin) + cost.cpu / r->model->cores;
    r->free[first] = fmax(r->free[first], begin + cost.io) + cost.cpu;
    r->free[first] = fmax(r->free[first], r->spent - r->round);
    return r->free[first];
}

/* By workers. Ours share the rows of a batch, and its slot comes back when the copy has been seen to end;
 * PyTorch's make whole ones, and may make another as soon as one is taken. */
static void make(replaying *r, size_t i, stk_forecast_batch_cost cost)
{
    const stk_forecast_moments *m = r->m;
    const stoke_setup *s = &r->model->setup;
    if (!s->by_batch) {
        const double place = past(m->returned, i, r->places + 1);
        const double begin = fmax(fmax(past(m->ready, i, 1), place), r->not_before);
        const double takes = stk_input_interval(r->model, cost);
        m->done[i] = m->ready[i] = begin + takes;
        return;
    }
    const double hand = past(m->done, i, s->workers), place = past(m->taken, i, r->places);
    const double begin = fmax(fmax(hand, place), r->not_before);
    m->done[i] = run_on_core(r, begin, cost);
    m->ready[i] = fmax(m->done[i], past(m->ready, i, 1));
}

/* The loop takes the batch and puts its copy on its own stream, behind the step before. Ours keeps one copy
 * on the way at most, and none while it makes a batch itself (src/upload/transfer.c). */
static void cross_by_loop(replaying *r, size_t i, stk_forecast_batch_cost cost)
{
    const stk_forecast_moments *m = r->m;
    const stk_forecast_model *model = r->model;
    const stoke_setup *s = &model->setup;
    double call = r->asked;
    if (i) m->returned[i - 1] = fmax(m->copied[i - 1], r->asked); /* seen at the next call */
    if (!s->by_batch) call = fmax(call, past(m->copied, i, s->workers ? 2 : 1));
    m->taken[i] = s->workers ? fmax(call, m->ready[i]) : call + stk_input_alone(model, cost);
    m->launched[i] = m->taken[i];
    m->copied[i] = fmax(m->taken[i], past(m->ended, i, 1)) + model->copy;
    m->augmented[i] = m->copied[i] + cost.kernels;
    if (s->transfer == STOKE_TRANSFER_PAGEABLE) m->launched[i] = m->copied[i] + model->launch;
}

/* A thread takes it when a device slot has been given back, and its copy waits until that slot's step has
 * ended. Kernels wait for the step before: one engine computes. */
static void cross_by_stream(replaying *r, size_t i, stk_forecast_batch_cost cost)
{
    const stk_forecast_moments *m = r->m;
    const stoke_setup *s = &r->model->setup;
    const size_t slots = (size_t)s->depth + 1;
    const double begin = fmax(past(m->launched, i, slots), past(m->copied, i, s->workers ? 2 : 1));
    m->taken[i] = s->workers ? fmax(begin, m->ready[i]) : begin + stk_input_alone(r->model, cost);
    const double slot_free = past(m->ended, i, slots);
    m->copied[i] = fmax(fmax(m->taken[i], slot_free), past(m->augmented, i, 1)) + r->model->copy;
    m->returned[i] = m->augmented[i] = m->copied[i];
    if (cost.kernels > 0) m->augmented[i] = fmax(m->copied[i], past(m->ended, i, 1)) + cost.kernels;
    m->launched[i] = fmax(r->asked, m->taken[i]);
}

static void compute(replaying *r, size_t i, double step)
{
    const stk_forecast_moments *m = r->m;
    const stk_forecast_model *model = r->model;
    const int by_stream = model->setup.transfer == STOKE_TRANSFER_STREAM;
    const double late = by_stream ? m->launched[i] : 0; /* in the loop the copy itself came after it */
    const double begin = fmax(fmax(m->augmented[i], past(m->ended, i, 1)), late);
    m->ended[i] = begin + model->launch + step;
    r->asked = (model->setup.sync ? m->ended[i] : m->launched[i]) + model->host;
}

/* Steps of an epoch at whose start nothing is ready, if they are replayed; 0 = workers stay, or it is long.
 */
static size_t replayed_epoch(const stk_forecast_model *model)
{
    return model->epoch >= 1 && model->epoch <= EPOCH ? (size_t)model->epoch : 0;
}

/* The epoch before is over, workers are started: nothing is made ahead, and the first batch is dearer. */
static stk_forecast_batch_cost begin_epoch(replaying *r, size_t i)
{
    stk_forecast_batch_cost first = r->model->first;
    first.kernels = r->model->mean.kernels;
    r->not_before = past(r->m->ended, i, 1) + r->model->start;
    r->asked = fmax(r->asked, r->not_before);
    return first;
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* The smallest common multiple, unless it is too long to replay: then `a`. */
static size_t common(size_t a, size_t b)
{
    size_t x = a, y = b;
    while (y) {
        const size_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b <= 2 * STK_REPLAYED_MOST ? a / x * b : a;
}

/* All samples equally often, so that it does not matter which of them fall into warming up; and whole rounds
 * of workers, who started together and so finish together for a while. */
stk_forecast_replay_size stk_replay_measure(const stk_forecast_model *model)
{
    const stoke_setup *s = &model->setup;
    const size_t hands = at_most((size_t)stk_model_hands(model), 1024), ahead = at_most(s->prefetch, 256);
    size_t unit = at_most(model->n_batches, STK_REPLAYED_MOST);
    if (s->by_batch && hands) unit = common(unit, hands);
    unit = common(unit, at_most(model->n_steps, STK_REPLAYED_MOST));
    const size_t epoch = replayed_epoch(model), warm_up = 16 + 2 * (ahead + hands + at_most(s->depth, 64));
    if (epoch) unit = common(epoch, unit); /* whole epochs come before whole rounds of samples */
    return (stk_forecast_replay_size){ epoch ? (warm_up + epoch - 1) / epoch * epoch : warm_up,
                                       (STK_REPLAYED + unit - 1) / unit * unit };
}

double stk_replay(const stk_forecast_model *model, const stk_forecast_draw *draw,
                  stk_forecast_replay_size size, const stk_forecast_moments *moments, double *busy)
{
    replaying r = { .model = model,
                    .m = moments,
                    .hands = stk_model_hands(model),
                    .places = model->setup.prefetch ? model->setup.prefetch : 1 };
    set_out_cores(&r);
    const size_t epoch = replayed_epoch(model);
    double computed = 0;
    for (size_t i = 0; i < size.warm_up + size.counted; i++) {
        stk_forecast_batch_cost cost = model->batch[draw->batch[i % draw->n_batches]];
        if (epoch && i % epoch == 0) cost = begin_epoch(&r, i);
        const double step = model->step[draw->step[i % draw->n_steps]];
        if (model->setup.workers) make(&r, i, cost);
        if (model->setup.transfer == STOKE_TRANSFER_STREAM)
            cross_by_stream(&r, i, cost);
        else
            cross_by_loop(&r, i, cost);
        compute(&r, i, step);
        if (i >= size.warm_up) computed += step + cost.kernels;
    }
    const double elapsed = moments->ended[size.warm_up + size.counted - 1] - moments->ended[size.warm_up - 1];
    /* The device cannot take less; sums of absurd costs lose it in rounding. */
    const double running = fmax(elapsed, computed) / (double)size.counted;
    const double interval = running + (epoch ? 0 : stk_model_restart(model, running));
    *busy = computed / (double)size.counted / interval;
    return interval;
}
