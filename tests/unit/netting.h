/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of network operations share: random arrays of any float type, and a run with exactly the room an
 * operation asked for, so that the address sanitizer sees a byte too much and a sum that was never set shows.
 */
#ifndef STOKE_TESTS_UNIT_NETTING_H
#define STOKE_TESTS_UNIT_NETTING_H

#include <math.h>

#include "src/net/net_table.h"
#include "tests/unit/unit.h"

static uint64_t netting_state = 1;

static inline double netting_uniform(double low, double high)
{
    netting_state = netting_state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(netting_state >> 11) * 0x1p-53;
}

static const char *const netting_type_names[STK_FLOATS] = { "f32", "bf16", "f16" };
/* Half a unit in the last place, relative: what storing a result in this type may cost. */
static const double netting_rounding[STK_FLOATS] = { 0x1p-24, 0x1p-8, 0x1p-11 };

static inline void *netting_room(size_t count, stk_float type)
{
    void *array = calloc(count ? count : 1, stk_float_bytes(type));
    assert_non_null(array);
    return array;
}

static inline void *netting_random(size_t count, stk_float type, double low, double high)
{
    void *array = netting_room(count, type);
    for (size_t i = 0; i < count; i++) stk_put(array, i, (float)netting_uniform(low, high), type);
    return array;
}

/* Largest |array - wanted| / (1 + |wanted|). */
static inline double netting_error(const void *array, const double *wanted, size_t count, stk_float type)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        const double error = fabs(stk_get(array, i, type) - wanted[i]) / (1 + fabs(wanted[i]));
        if (!(error <= most)) most = error; /* a NaN stays */
    }
    return most;
}

typedef struct netting {
    stk_net_table table;
    stk_run run;
} netting;

/* The need is known only when there is a run to ask with: open, ask, then make room. */
static inline void netting_open(netting *net, stk_cpu_level level, uint32_t threads, stk_float type)
{
    stk_net_table_fill(&net->table, level);
    net->run = (stk_run){ .table = &net->table, .type = type };
    assert_int_equal(stk_team_create(&net->run.team, threads, NULL), STOKE_OK);
}

static inline void netting_make_room(netting *net, stk_need need)
{
    stk_run *run = &net->run;
    run->scratch_each = (need.scratch + 63) / 64 * 64;
    run->scratch = aligned_alloc(64, run->scratch_each * stk_team_size(run->team) + 64);
    run->partial_floats = need.partial;
    run->partial = malloc(need.partial * sizeof *run->partial + 1);
    assert_non_null(run->scratch);
    assert_non_null(run->partial);
    memset(run->scratch, 0xff, run->scratch_each * stk_team_size(run->team)); /* NaN */
    memset(run->partial, 0xff, need.partial * sizeof *run->partial);
}

static inline void netting_close(netting *net)
{
    stk_team_destroy(&net->run.team);
    free(net->run.scratch);
    free(net->run.partial);
}

#endif
