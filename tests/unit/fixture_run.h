/* SPDX-License-Identifier: Apache-2.0
 *
 * A stk_exec for tests of single operations: a table of a level, a pool, exactly the room the operation asked
 * for, filled with NaN (nobody may read what nobody wrote) and followed by guards (nobody may write more).
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_RUN_H
#define STOKE_TESTS_UNIT_FIXTURE_RUN_H

#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/net/kernels/net_table.h"
#include "src/net/exec.h"

typedef struct running {
    stk_net_table table;
    stk_exec run;
} running;

enum { RUNNING_GUARD = 64 }; /* bytes */

/* Table, pool and type; then ask the operation for its need and call running_room. */
static inline void running_start(running *r, stk_cpu_level level, uint32_t threads, stk_float type)
{
    stk_net_table_fill(&r->table, level);
    r->run = (stk_exec){ .table = &r->table, .threads = threads, .type = type };
    assert_int_equal(stk_threadpool_create(&r->run.pool, threads, NULL), STOKE_OK);
}

/* Gives the room back; whoever wrote beyond it is found out here. */
static inline void running_leave(running *r)
{
    if (r->run.scratch) {
        const unsigned char *end = r->run.scratch + r->run.scratch_each * r->run.threads;
        const unsigned char *partial = (const unsigned char *)(r->run.partial + r->run.partial_floats);
        for (int i = 0; i < RUNNING_GUARD; i++) assert_true(end[i] == 0xff && partial[i] == 0xff);
    }
    stk_free(r->run.scratch);
    stk_free(r->run.partial);
}

/* May be called again, for another need. */
static inline void running_room(running *r, stk_exec_need need)
{
    running_leave(r);
    r->run.scratch_each = (need.scratch + 63) / 64 * 64;
    r->run.partial_floats = need.partial;
    const size_t scratch = r->run.scratch_each * r->run.threads;
    r->run.scratch = stk_alloc_aligned(scratch + RUNNING_GUARD, 64);
    r->run.partial = stk_alloc_aligned(need.partial * sizeof(float) + RUNNING_GUARD, 64);
    assert_non_null(r->run.scratch);
    assert_non_null(r->run.partial);
    memset(r->run.scratch, 0xff, scratch + RUNNING_GUARD); /* NaN in all three types */
    memset(r->run.partial, 0xff, need.partial * sizeof(float) + RUNNING_GUARD);
}

static inline void running_stop(running *r)
{
    running_leave(r);
    stk_threadpool_destroy(&r->run.pool);
}

/* `count` elements of `type`, 0 or spread evenly over low .. high or -size .. size. */
static inline void *running_zeros(size_t count, stk_float type)
{
    void *zeros = stk_calloc(count, stk_float_bytes(type));
    assert_non_null(zeros);
    return zeros;
}

static inline void *running_between(size_t count, stk_float type, double low, double high, uint64_t seed)
{
    void *numbers = running_zeros(count, type);
    for (size_t i = 0; i < count; i++) {
        const double unit = stk_unit((uint32_t)(stk_mix64(seed << 32 | i) >> 32));
        stk_put(numbers, i, (float)(low + unit * (high - low)), type);
    }
    return numbers;
}

static inline void *running_numbers(size_t count, stk_float type, double size, uint64_t seed)
{
    return running_between(count, type, -size, size, seed);
}

/* Relative rounding error of a stored number: half a unit in the last place. */
static inline double running_rounding(stk_float type)
{
    return type == STK_F32 ? 0x1p-24 : type == STK_BF16 ? 0x1p-8 : 0x1p-11;
}

/* Largest |array - wanted| / (1 + |wanted|). */
static inline double running_error(const void *array, const double *wanted, size_t count, stk_float type)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        const double error = fabs(stk_get(array, i, type) - wanted[i]) / (1 + fabs(wanted[i]));
        if (!(error <= most)) most = error; /* a NaN stays */
    }
    return most;
}

#endif
