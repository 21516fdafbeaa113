/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the forecast: costs of a setup in ms, the closed form, and the replay.
 */
#ifndef STOKE_SRC_TUNE_DIAGNOSE_FORECAST_H
#define STOKE_SRC_TUNE_DIAGNOSE_FORECAST_H

#include <stoke/tools/diagnose.h>

enum {
    STK_RESAMPLES = 64,      /* of the bootstrap: 5 % points are then between its 4th and 5th value */
    STK_REPLAYED = 200,      /* batches, at least */
    STK_REPLAYED_MOST = 1000 /* of what was measured */
};

/* What a batch costs. */
typedef struct stk_forecast_batch_cost {
    double cpu, io; /* to make it: on a core, and waiting for files */
    double kernels; /* augmenting it on the device */
} stk_forecast_batch_cost;

/* What a setup is replayed with; ms. */
typedef struct stk_forecast_model {
    stoke_setup setup;
    double copy, cores, launch, host;
    double start, epoch; /* to start workers, without their first batch; steps of an epoch, 0 = never ends */
    stk_forecast_batch_cost first;  /* of such a batch */
    stk_forecast_batch_cost *batch; /* in order, as measured */
    size_t n_batches;
    const double *step;
    size_t n_steps;
    stk_forecast_batch_cost mean;
    double mean_step;
    double part[STOKE_IDLES]; /* mean making by its parts, FILES and the stages */
} stk_forecast_model;

/* Batches and steps that are drawn: indices into those of a model, repeated when they end. */
typedef struct stk_forecast_draw {
    uint32_t *batch, *step;
    size_t n_batches, n_steps;
} stk_forecast_draw;

/* Moments of a batch of a replay. */
typedef struct stk_forecast_moments {
    double done;      /* its worker has made it */
    double ready;     /* so have those of all batches before it */
    double taken;     /* by the loop, or by the thread that copies */
    double returned;  /* its host slot is free again */
    double copied;    /* to the device */
    double augmented; /* there */
    double launched;  /* its step, by the loop */
    double ended;
} stk_forecast_moments;

/* Of those many batches the first are left out. */
typedef struct stk_forecast_replay_size {
    size_t warm_up, counted;
} stk_forecast_replay_size;

/* Mean interval between ends of steps. `moments`: of all batches of that size. *busy = the device's share of
 * it. */
double stk_replay(const stk_forecast_model *model, const stk_forecast_draw *draw,
                  stk_forecast_replay_size size, stk_forecast_moments *moments, double *busy);

/* stoke_forecast_make with steps of every resample (step_ms may be NULL), so that two setups can be compared
 * draw by draw. resamples <= STK_RESAMPLES: fewer where only step_ms is wanted. */
int stk_forecast_make(const stoke_costs *costs, const stoke_setup *setup, uint64_t seed, uint32_t resamples,
                      stoke_forecast *out, double step_ms[STK_RESAMPLES], stoke_error *err);

/* Sorts, and gives the value below which the share lies. */
double stk_quantile(double *values, size_t n, double share);

#endif
