/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs made up for tests of the forecast and the fixes.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_COST_H
#define STOKE_TESTS_UNIT_FIXTURE_COST_H

#include <math.h>
#include <stoke/tools/diagnose.h>

#include "unit.h"

enum { COSTING_MOST = 256 };

typedef struct costing {
    stoke_step_record side[2][COSTING_MOST];
    double step[COSTING_MOST];
    stoke_costs costs;
} costing;

/* xorshift: the tests' own numbers, whatever the library draws. */
static inline double costing_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static inline void costing_make(stoke_step_record *record, double cpu_ms, double io_ms, double kernels_ms)
{
    memset(record, 0, sizeof *record);
    record->making[STOKE_WORK_DECODE].cpu_ns = (uint64_t)(cpu_ms * 1e6 + 0.5);
    record->making[STOKE_WORK_DECODE].wall_ns = (uint64_t)((cpu_ms + io_ms) * 1e6 + 0.5);
    if (kernels_ms > 0) {
        record->augment_start = 1000000;
        record->augment_end = 1000000 + (uint64_t)(kernels_ms * 1e6 + 0.5);
    }
}

/* The same for every batch: cpu and io to make it on the host, copies of both kinds, the step; 2 cores. The
 * other side is not known. */
static inline void costing_constant(costing *c, double cpu_ms, double io_ms, double copy_ms, double step_ms)
{
    c->costs = stoke_costs_defaults();
    costing_make(&c->side[0][0], cpu_ms, io_ms, 0);
    c->step[0] = step_ms;
    c->costs.side[0] = (stoke_side){ c->side[0], 1, copy_ms, copy_ms, { NAN, NAN }, { NAN, NAN } };
    c->costs.step_ms = c->step;
    c->costs.n_steps = 1;
    c->costs.cores = 2;
}

/* Augmenting on the device too. */
static inline void costing_device(costing *c, double cpu_ms, double io_ms, double kernels_ms, double copy_ms)
{
    costing_make(&c->side[1][0], cpu_ms, io_ms, kernels_ms);
    c->costs.side[1] = (stoke_side){ c->side[1], 1, copy_ms, copy_ms, { NAN, NAN }, { NAN, NAN } };
}

/* Batches that vary, by half of what they cost each way, on both sides alike. */
static inline void costing_vary(costing *c, size_t n, double cpu_ms, double io_ms, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        const double x = 0.5 + costing_random(&seed), y = 0.5 + costing_random(&seed);
        costing_make(&c->side[0][i], cpu_ms * x, io_ms * y, 0);
    }
    c->costs.side[0].n = n;
}

static inline stoke_forecast costing_forecast(const costing *c, const stoke_setup *setup)
{
    stoke_forecast forecast;
    stoke_error err = { 0 };
    if (stoke_forecast_make(&c->costs, setup, 1, &forecast, &err)) fail_msg("%s", err.message);
    return forecast;
}

#define costing_near(a, b, by)                                                                               \
    do {                                                                                                     \
        const double near_a = (a), near_b = (b);                                                             \
        if (!(near_a >= near_b - (by) && near_a <= near_b + (by)))                                           \
            fail_msg("%s is %.9g, not %.9g", #a, near_a, near_b);                                            \
    } while (0)

#endif
