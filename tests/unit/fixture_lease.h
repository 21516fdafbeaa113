/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the Python loader's engine (stoke/tools/lease.h) share.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_LEASE_H
#define STOKE_TESTS_UNIT_FIXTURE_LEASE_H

#include "tests/unit/fixture_pairs.h"

#include <sys/wait.h>

#include <stoke/tools/lease.h>

/* Waits in pieces, as Python does. */
static inline int leasing_next(stoke_lender *engine, stoke_lease **lease)
{
    stoke_error err = { 0 };
    int r;
    do r = stoke_lender_next(engine, 1000, lease, &err);
    while (r == STOKE_E_TIMEOUT);
    return r;
}

/* All batches are held: none comes while an array of this one is left, and the one of that number when it is
 * gone. */
static inline void leasing_one_array_holds(stoke_lender *engine, stoke_lease *lease, uint64_t number)
{
    stoke_error err;
    stoke_lease *more;
    stoke_hold_take(&lease->hold); /* two arrays of it */
    stoke_hold_drop(&lease->hold);
    assert_int_equal(stoke_lender_next(engine, 0, &more, &err), STOKE_E_STARVED);
    stoke_hold_drop(&lease->hold);
    assert_int_equal(leasing_next(engine, &more), 0);
    assert_int_equal(more->batch.index, number);
    stoke_hold_drop(&more->hold);
}

/* What `tries` comes to in a child of fork, where nothing may wait or harm: 0. The parent goes on. */
static inline void leasing_fork(stoke_lender *engine, int (*tries)(stoke_lender *engine, stoke_lease *lease))
{
    stoke_lease *lease;
    assert_int_equal(leasing_next(engine, &lease), 0);
    const pid_t child = fork();
    if (!child) _exit(tries(engine, lease));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    stoke_hold_drop(&lease->hold);
    assert_int_equal(leasing_next(engine, &lease), 0); /* the parent's goes on */
    assert_int_equal(lease->batch.index, 1);
    stoke_hold_drop(&lease->hold);
}

#endif
