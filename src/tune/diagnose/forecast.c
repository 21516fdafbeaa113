/* SPDX-License-Identifier: Apache-2.0
 *
 * The forecast of a step: the closed form once, and the replay with batches and steps drawn again and again
 * from those that were measured. They are drawn in blocks, since slow batches come together (large images of
 * one folder, a disk that was busy), and as many as there were, so that the interval knows how few they are.
 * The draws depend on the seed alone: two setups are replayed with the same ones.
 */
#include "src/tune/diagnose/diagnose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/tune/decide/decide.h"

/* ---- from costs that were measured to those of a setup, in ms ---- */

static int check_setup(const stoke_setup *setup, stoke_error *err)
{
    if (setup->struct_size != sizeof *setup) return stk_fail_struct(err, "stoke_setup_defaults");
    if (!setup->batch || (unsigned)setup->placement > STOKE_PLACEMENT_DEVICE ||
        (unsigned)setup->transfer > STOKE_TRANSFER_PAGEABLE)
        return stk_fail(
            err, STOKE_E_INVALID,
            "batch %u, placement %d, transfer %d: a setup has a batch of at least 1, augments on "
            "the host (0) or the device (1), and copies by a stream (0), pinned (1) or pageable (2)",
            setup->batch, setup->placement, setup->transfer);
    return STOKE_OK;
}

static int is_time(double ms)
{
    return isfinite(ms) && ms >= 0;
}

static int check_costs(const stoke_costs *costs, stoke_error *err)
{
    if (costs->struct_size != sizeof *costs) return stk_fail_struct(err, "stoke_costs_defaults");
    if (!(isfinite(costs->cores) && costs->cores > 0))
        return stk_fail(err, STOKE_E_INVALID, "cores is %g: workers need some part of a core", costs->cores);
    if (!is_time(costs->launch_ms) || !is_time(costs->host_ms) ||
        !(is_time(costs->restart_ms) || isnan(costs->restart_ms)))
        return stk_fail(
            err, STOKE_E_INVALID,
            "launch_ms %g, host_ms %g, restart_ms %g: each is a time, 0 when it is too short to see",
            costs->launch_ms, costs->host_ms, costs->restart_ms);
    double sum = 0;
    for (size_t i = 0; i < costs->n_steps; i++) {
        if (!is_time(costs->step_ms[i]))
            return stk_fail(err, STOKE_E_INVALID, "step_ms[%zu] is %g: not a time", i, costs->step_ms[i]);
        sum += costs->step_ms[i];
    }
    if (!(sum > 0) || !isfinite(sum))
        return stk_fail(err, STOKE_E_INVALID, "step_ms is empty: what does the device compute for a step?");
    return STOKE_OK;
}

/* ---- samples ---- */

stk_forecast_batch_cost stk_batch_cost(const stoke_step_record *record, double part[STOKE_IDLES])
{
    stk_forecast_batch_cost cost = { .kernels = NAN };
    for (int i = 0; i < STOKE_WORK_KINDS; i++) {
        const double cpu = (double)record->making[i].cpu_ns / 1e6;
        const double io =
            ((double)record->making[i].wall_ns - (double)record->making[i].queued_ns) / 1e6 - cpu;
        cost.cpu += cpu;
        cost.io += fmax(0, io);
        if (!part) continue;
        part[stk_idle_of_work[i]] += cpu;
        part[STOKE_IDLE_FILES] += fmax(0, io);
    }
    if (record->augment_start && record->augment_end >= record->augment_start)
        cost.kernels = (double)(record->augment_end - record->augment_start) / 1e6;
    return cost;
}

/* Kernels that were not timed took as long as the others did on average. */
static int settle_kernels(stk_forecast_model *model, stoke_error *err)
{
    double sum = 0, known = 0;
    for (size_t i = 0; i < model->n_batches; i++)
        if (!isnan(model->batch[i].kernels)) {
            sum += model->batch[i].kernels;
            known++;
        }
    if (model->setup.placement == STOKE_PLACEMENT_DEVICE && known == 0)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "the records of augmenting on the device lack its kernels: measure them first");
    for (size_t i = 0; i < model->n_batches; i++) {
        double *kernels = &model->batch[i].kernels;
        if (model->setup.placement == STOKE_PLACEMENT_HOST)
            *kernels = 0;
        else if (isnan(*kernels))
            *kernels = sum / known;
    }
    return STOKE_OK;
}

/* Steps are not scaled to another batch: what a device computes for it has to be measured. */
static int take_samples(stk_forecast_model *model, const stoke_side *side, double scale, stoke_error *err)
{
    model->batch = stk_calloc(side->n, sizeof *model->batch);
    if (!model->batch) return stk_fail(err, STOKE_E_NOMEM, "no memory for the costs of %zu batches", side->n);
    model->n_batches = side->n;
    for (size_t i = 0; i < side->n; i++) model->batch[i] = stk_batch_cost(&side->records[i], model->part);
    const int r = settle_kernels(model, err);
    if (r) return r;
    for (int i = 0; i < STOKE_IDLES; i++) model->part[i] *= scale / (double)side->n;
    for (size_t i = 0; i < side->n; i++) {
        stk_forecast_batch_cost *cost = &model->batch[i];
        *cost = (stk_forecast_batch_cost){ cost->cpu * scale, cost->io * scale, cost->kernels * scale };
        model->mean.cpu += cost->cpu / (double)side->n;
        model->mean.io += cost->io / (double)side->n;
        model->mean.kernels += cost->kernels / (double)side->n;
    }
    for (size_t i = 0; i < model->n_steps; i++) model->mean_step += model->step[i] / (double)model->n_steps;
    if (model->mean.cpu + model->mean.io > 0) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "the records lack what making their batches took: measure it first");
}

static const stoke_start *start_of(const stoke_side *side, const stoke_setup *setup)
{
    return setup->transfer == STOKE_TRANSFER_PAGEABLE ? &side->pageable_start : &side->pinned_start;
}

/* The first batch of workers that were just started. */
static stk_forecast_batch_cost first_of(const stoke_side *side, const stoke_start *start)
{
    stk_forecast_batch_cost first = { 0 };
    if (is_time(start->first_ms)) return (stk_forecast_batch_cost){ .cpu = start->first_ms };
    for (size_t i = 0; i < side->n; i++) {
        const stk_forecast_batch_cost cost = stk_batch_cost(&side->records[i], NULL);
        first.cpu += cost.cpu / (double)side->n;
        first.io += cost.io / (double)side->n;
    }
    return first;
}

/* Workers that really work at once: one that makes whole batches needs a place for each. */
static double model_hands(const stk_forecast_model *model)
{
    const stoke_setup *s = &model->setup;
    const uint32_t places = s->prefetch ? s->prefetch : 1;
    return s->by_batch && places < s->workers ? places : s->workers;
}

/* How often they have a batch: limited by themselves, or by the cores. */
static double input_interval(const stk_forecast_model *model, stk_forecast_batch_cost cost)
{
    return fmax((cost.cpu + cost.io) / model_hands(model), cost.cpu / model->cores);
}

/* What one takes without workers: a machine that has less than a core to spare shows there too. */
static double input_alone(const stk_forecast_model *model, stk_forecast_batch_cost cost)
{
    return cost.io + cost.cpu / fmin(1, model->cores);
}

/* The first batch of workers that were just started: one makes it, or all its rows are shared. */
static double model_first(const stk_forecast_model *model)
{
    const stk_forecast_batch_cost *cost = &model->first;
    const int shared = model->setup.workers && !model->setup.by_batch;
    return shared ? input_interval(model, *cost) : input_alone(model, *cost);
}

/* Without that batch, which other workers make in another time; the loop had it when it had crossed, where it
 * waits for copies. What is not known of the setup is taken from the one that was measured. */
static double start_of_workers(const stoke_costs *costs, const stoke_setup *setup)
{
    stoke_setup like = *setup;
    if (!is_time(start_of(&costs->side[like.placement], &like)->restart_ms)) like = costs->measured;
    const stoke_side *side = &costs->side[like.placement];
    const stoke_start *start = start_of(side, &like);
    const double whole = is_time(start->restart_ms) ? start->restart_ms : costs->restart_ms;
    const stk_forecast_model measured = { .setup = costs->measured,
                                          .cores = costs->cores,
                                          .first = first_of(side, start) };
    const int waits = like.transfer == STOKE_TRANSFER_PAGEABLE && is_time(side->pageable_ms);
    return fmax(0, whole - model_first(&measured) - (waits ? side->pageable_ms : 0));
}

static void model_free(stk_forecast_model *model)
{
    stk_free(model->batch);
    model->batch = NULL;
}

/* Costs for a setup; STOKE_E_INVALID, STOKE_E_NOTFOUND as stoke_forecast_make. */
static int model_make(stk_forecast_model *model, const stoke_costs *costs, const stoke_setup *setup,
                      stoke_error *err)
{
    *model = (stk_forecast_model){ .setup = *setup };
    int r = check_costs(costs, err);
    if (!r) r = check_setup(setup, err);
    if (!r) r = check_setup(&costs->measured, err);
    if (r) return r;
    static const char *const places[] = { "host", "device" };
    const stoke_side *side = &costs->side[setup->placement];
    const int pageable = setup->transfer == STOKE_TRANSFER_PAGEABLE;
    const double scale = (double)setup->batch / costs->measured.batch;
    if (!side->n)
        return stk_fail(err, STOKE_E_NOTFOUND, "augmenting on the %s was not measured",
                        places[setup->placement]);
    model->copy = (pageable ? side->pageable_ms : side->pinned_ms) * scale;
    if (!is_time(model->copy))
        return stk_fail(err, STOKE_E_NOTFOUND, "copies from %s memory were not measured",
                        pageable ? "pageable" : "pinned");
    model->cores = costs->cores;
    model->launch = costs->launch_ms;
    model->host = costs->host_ms;
    if (setup->workers && !setup->persistent && costs->steps_per_epoch) {
        if (isnan(costs->restart_ms))
            return stk_fail(err, STOKE_E_NOTFOUND, "starting workers was not measured");
        model->epoch = (double)costs->steps_per_epoch;
        model->start = start_of_workers(costs, setup);
        model->first = first_of(side, start_of(side, setup));
        model->first.cpu *= scale;
        model->first.io *= scale;
    }
    model->step = costs->step_ms;
    model->n_steps = costs->n_steps;
    r = take_samples(model, side, scale, err);
    if (r) model_free(model);
    return r;
}

/* What a step takes in steady state, by mean costs: the longest of the chains that have to end before the
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
 * k + h: copies and kernels of the upload share a stream. */

enum { MADE = 1, COPY = 2, KERNELS = 4, LAUNCH = 8, STEP = 16, LOOP = 32 };

typedef struct chains {
    const stk_forecast_model *model;
    double t;
    double longest;
    unsigned parts; /* of the longest */
} chains;

/* What starting workers adds to a step, whose interval is so long without it, in the mean over an epoch. */
/* The first step of an epoch comes when workers are there, have made its batch, and that has crossed: one
 * after the other, in place of an interval. */
static double model_restart(const stk_forecast_model *model, double interval)
{
    if (!(model->epoch > 0)) return 0;
    const double first = model->start + model_first(model) + model->copy + model->mean.kernels +
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
    double most = model_restart(model, c->longest);
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

/* The step by mean costs, with room for everything that is made ahead; *limit as in stoke_forecast. */
static double closed_form(const stk_forecast_model *model, int *limit)
{
    const stk_forecast_batch_cost *mean = &model->mean;
    chains c = { .model = model };
    c.t = model->setup.workers ? input_interval(model, *mean) : input_alone(model, *mean);
    const int cores_bind = model->setup.workers && mean->cpu / model->cores >= c.t;
    if (model->setup.transfer == STOKE_TRANSFER_STREAM)
        by_stream(&c);
    else
        by_loop(&c);
    *limit = largest_part(&c, cores_bind);
    return c.longest + model_restart(model, c.longest);
}

/* The loop, batch by batch, with costs that vary: every moment is the latest of what it waits for, plus what
 * it takes. No distribution is assumed, and queues are as long as they really are. */

enum {
    CORES = 256,
    EPOCH = 64 /* steps: of longer ones the lead that is lost at their start is soon won back */
};

typedef struct replaying {
    const stk_forecast_model *model;
    stk_forecast_moments *m;
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
static const stk_forecast_moments *past(const replaying *r, size_t i, size_t back)
{
    static const stk_forecast_moments before = { 0 };
    return i >= back ? &r->m[i - back] : &before;
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
    stk_forecast_moments *m = &r->m[i];
    const stoke_setup *s = &r->model->setup;
    if (!s->by_batch) {
        const double place = past(r, i, r->places + 1)->returned;
        const double begin = fmax(fmax(past(r, i, 1)->ready, place), r->not_before);
        const double takes = input_interval(r->model, cost);
        m->done = m->ready = begin + takes;
        return;
    }
    const double hand = past(r, i, s->workers)->done, place = past(r, i, r->places)->taken;
    const double begin = fmax(fmax(hand, place), r->not_before);
    m->done = run_on_core(r, begin, cost);
    m->ready = fmax(m->done, past(r, i, 1)->ready);
}

/* The loop takes the batch and puts its copy on its own stream, behind the step before. Ours keeps one copy
 * on the way at most, and none while it makes a batch itself (src/upload/transfer.c). */
static void cross_by_loop(replaying *r, size_t i, stk_forecast_batch_cost cost)
{
    stk_forecast_moments *m = &r->m[i];
    const stk_forecast_model *model = r->model;
    const stoke_setup *s = &model->setup;
    double call = r->asked;
    if (i) m[-1].returned = fmax(m[-1].copied, r->asked); /* seen at the next call */
    if (!s->by_batch) call = fmax(call, past(r, i, s->workers ? 2 : 1)->copied);
    m->taken = s->workers ? fmax(call, m->ready) : call + input_alone(model, cost);
    m->launched = m->taken;
    m->copied = fmax(m->taken, past(r, i, 1)->ended) + model->copy;
    m->augmented = m->copied + cost.kernels;
    if (s->transfer == STOKE_TRANSFER_PAGEABLE) m->launched = m->copied + model->launch;
}

/* A thread takes it when a device slot has been given back, and its copy waits until that slot's step has
 * ended. Kernels wait for the step before: one engine computes. */
static void cross_by_stream(replaying *r, size_t i, stk_forecast_batch_cost cost)
{
    stk_forecast_moments *m = &r->m[i];
    const stoke_setup *s = &r->model->setup;
    const size_t slots = (size_t)s->depth + 1;
    const double begin = fmax(past(r, i, slots)->launched, past(r, i, s->workers ? 2 : 1)->copied);
    m->taken = s->workers ? fmax(begin, m->ready) : begin + input_alone(r->model, cost);
    const double slot_free = past(r, i, slots)->ended;
    m->copied = fmax(fmax(m->taken, slot_free), past(r, i, 1)->augmented) + r->model->copy;
    m->returned = m->augmented = m->copied;
    if (cost.kernels > 0) m->augmented = fmax(m->copied, past(r, i, 1)->ended) + cost.kernels;
    m->launched = fmax(r->asked, m->taken);
}

static void compute(replaying *r, size_t i, double step)
{
    stk_forecast_moments *m = &r->m[i];
    const stk_forecast_model *model = r->model;
    const int by_stream = model->setup.transfer == STOKE_TRANSFER_STREAM;
    const double late = by_stream ? m->launched : 0; /* in the loop the copy itself came after it */
    const double begin = fmax(fmax(m->augmented, past(r, i, 1)->ended), late);
    m->ended = begin + model->launch + step;
    r->asked = (model->setup.sync ? m->ended : m->launched) + model->host;
}

/* Steps of an epoch at whose start nothing is ready, if they are replayed; 0 = workers stay, or it is long.
 */
static size_t replayed_epoch(const stk_forecast_model *model)
{
    return model->epoch >= 1 && model->epoch <= EPOCH ? (size_t)model->epoch : 0;
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
static stk_forecast_replay_size replay_measure(const stk_forecast_model *model)
{
    const stoke_setup *s = &model->setup;
    const size_t hands = stk_least((size_t)model_hands(model), 1024), ahead = stk_least(s->prefetch, 256);
    size_t unit = stk_least(model->n_batches, STK_REPLAYED_MOST);
    if (s->by_batch && hands) unit = common(unit, hands);
    unit = common(unit, stk_least(model->n_steps, STK_REPLAYED_MOST));
    const size_t epoch = replayed_epoch(model), warm_up = 16 + 2 * (ahead + hands + stk_least(s->depth, 64));
    if (epoch) unit = common(epoch, unit); /* whole epochs come before whole rounds of samples */
    return (stk_forecast_replay_size){ epoch ? (warm_up + epoch - 1) / epoch * epoch : warm_up,
                                       (STK_REPLAYED + unit - 1) / unit * unit };
}

double stk_replay(const stk_forecast_model *model, const stk_forecast_draw *draw,
                  stk_forecast_replay_size size, stk_forecast_moments *moments, double *busy)
{
    replaying r = { .model = model,
                    .m = moments,
                    .hands = model_hands(model),
                    .places = model->setup.prefetch ? model->setup.prefetch : 1 };
    /* Workers that make whole batches share cores when there are more of them. */
    if (r.hands > model->cores && model->cores < CORES) r.cores = (size_t)ceil(model->cores);
    r.spent = r.round = r.hands * model->mean.cpu / model->cores;
    const size_t epoch = replayed_epoch(model);
    double computed = 0;
    for (size_t i = 0; i < size.warm_up + size.counted; i++) {
        stk_forecast_batch_cost cost = model->batch[draw->batch[i % draw->n_batches]];
        if (epoch && i % epoch == 0) {
            /* The epoch before is over, workers are started: nothing is made ahead, and this batch is dearer.
             */
            cost = model->first;
            cost.kernels = model->mean.kernels;
            r.not_before = past(&r, i, 1)->ended + model->start;
            r.asked = fmax(r.asked, r.not_before);
        }
        const double step = model->step[draw->step[i % draw->n_steps]];
        if (model->setup.workers) make(&r, i, cost);
        if (model->setup.transfer == STOKE_TRANSFER_STREAM)
            cross_by_stream(&r, i, cost);
        else
            cross_by_loop(&r, i, cost);
        compute(&r, i, step);
        if (i >= size.warm_up) computed += step + cost.kernels;
    }
    const double elapsed = moments[size.warm_up + size.counted - 1].ended - moments[size.warm_up - 1].ended;
    /* The device cannot take less; sums of absurd costs lose it in rounding. */
    const double running = fmax(elapsed, computed) / (double)size.counted;
    const double interval = running + (epoch ? 0 : model_restart(model, running));
    *busy = computed / (double)size.counted / interval;
    return interval;
}

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

double stk_quantile(double *values, size_t n, double share)
{
    stk_sort_reals(values, n);
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

/* ---- the forecast ---- */

int stk_forecast_make(const stoke_costs *costs, const stoke_setup *setup, uint64_t seed, uint32_t resamples,
                      stoke_forecast *out, double step_ms[STK_RESAMPLES], stoke_error *err)
{
    stk_forecast_model model;
    double sorted[STK_RESAMPLES], busy[STK_RESAMPLES];
    *out = (stoke_forecast){ .limit = -1 };
    int r = model_make(&model, costs, setup, err);
    if (r) return r;
    const stk_forecast_replay_size size = replay_measure(&model);
    const size_t batches = size.warm_up + size.counted;
    stk_forecast_draw draw = { .n_batches = stk_least(model.n_batches, STK_REPLAYED_MOST),
                               .n_steps = stk_least(model.n_steps, STK_REPLAYED_MOST) };
    stk_forecast_moments *moments = stk_calloc(batches, sizeof *moments);
    draw.batch = stk_calloc(draw.n_batches + draw.n_steps, sizeof *draw.batch);
    draw.step = draw.batch ? draw.batch + draw.n_batches : NULL;
    if (!moments || !draw.batch) r = stk_fail(err, STOKE_E_NOMEM, "no memory to replay %zu steps", batches);
    for (uint32_t i = 0; i < resamples && !r; i++) {
        draw_blocks(draw.batch, draw.n_batches, model.n_batches, seed, i, 0);
        draw_blocks(draw.step, draw.n_steps, model.n_steps, seed, i, 1);
        sorted[i] = stk_replay(&model, &draw, size, moments, &busy[i]);
    }
    if (!r) {
        out->closed_ms = closed_form(&model, &out->limit);
        if (step_ms) memcpy(step_ms, sorted, resamples * sizeof *step_ms);
        out->step_ms = stk_quantile(sorted, resamples, 0.5);
        out->low_ms = stk_quantile(sorted, resamples, 0.05);
        out->high_ms = stk_quantile(sorted, resamples, 0.95);
        out->busy = stk_quantile(busy, resamples, 0.5);
        out->busy_low = stk_quantile(busy, resamples, 0.05);
        out->busy_high = stk_quantile(busy, resamples, 0.95);
    }
    stk_free(moments);
    stk_free(draw.batch);
    model_free(&model);
    return r;
}

int stoke_forecast_make(const stoke_costs *costs, const stoke_setup *setup, uint64_t seed,
                        stoke_forecast *out, stoke_error *err)
{
    return stk_forecast_make(costs, setup, seed, STK_RESAMPLES, out, NULL, err);
}
