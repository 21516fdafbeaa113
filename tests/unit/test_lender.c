/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands behind the Python loader (stoke/tools/lease.h), without Python: batches outlive their loader,
 * any thread lets go of them, closing ends a wait, and a child of fork is told. Here, because sanitizers do
 * not see into an interpreter.
 */
#include "tests/unit/fixture_lease.h"

#include <pthread.h>
#include <stoke/tools/loader.h>

static stoke_lender *opened(const stoke_data_params *params)
{
    stoke_lender *engine;
    stoke_error err = { 0 };
    int r = stoke_lender_open(&engine, params, NULL, NULL, &err);
    if (r) fail_msg("%s", err.message);
    return engine;
}

static uint32_t held(stoke_lender *engine)
{
    stoke_lender_stats stats;
    assert_int_equal(stoke_lender_stats_get(engine, &stats, NULL), 0);
    return stats.held;
}

static void leases_outlive_the_engine(void **state)
{
    pairs_write(state, 12, 32, 32);
    const stoke_data_params params = pairs_params(state);
    for (int close_first = 0; close_first < 2; close_first++) {
        stoke_lender *engine = opened(&params);
        stoke_lease *lease[2];
        uint8_t before[2][16], after[16];
        char name[16];
        for (int i = 0; i < 2; i++) {
            assert_int_equal(leasing_next(engine, &lease[i]), 0);
            stoke_batch_digest(&lease[i]->batch, before[i]);
        }
        snprintf(name, sizeof name, "%s", lease[1]->batch.names[2]);
        if (close_first) {
            stoke_error err;
            stoke_lease *more;
            stoke_lender_close(engine);
            stoke_lender_close(engine);
            assert_int_equal(stoke_lender_next(engine, 0, &more, &err), STOKE_E_STATE);
            assert_null(more);
            assert_int_equal(held(engine), 2);
            stoke_hold_drop(&lease[0]->hold); /* between closing and the end */
            assert_int_equal(held(engine), 1);
        }
        stoke_lender_drop(engine);
        for (int i = close_first; i < 2; i++) {
            stoke_batch_digest(&lease[i]->batch, after);
            assert_memory_equal(before[i], after, 16);
            if (i == 1) assert_string_equal(lease[i]->batch.names[2], name);
            stoke_hold_drop(&lease[i]->hold);
        }
    }
}

static void starving_says_how_many(void **state)
{
    pairs_write(state, 24, 32, 32);
    const stoke_data_params params = pairs_params(state);
    stoke_lender *engine = opened(&params);
    stoke_lease *lease[3], *more;
    for (int i = 0; i < 3; i++) assert_int_equal(leasing_next(engine, &lease[i]), 0);
    stoke_error err;
    assert_int_equal(stoke_lender_next(engine, 0, &more, &err), STOKE_E_STARVED);
    assert_non_null(strstr(err.message, "all 3 batches are held"));
    leasing_one_array_holds(engine, lease[1], 3);
    stoke_hold_drop(&lease[0]->hold);
    stoke_hold_drop(&lease[2]->hold);
    stoke_lender_drop(engine);
}

enum { CONSUMERS = 3 };

/* Batches go from the one who takes them to those who let go of them. */
typedef struct belt {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    stoke_lease *lease;
    int over;
} belt;

static void *let_go(void *argument)
{
    belt *b = argument;
    for (;;) {
        pthread_mutex_lock(&b->lock);
        while (!b->lease && !b->over) pthread_cond_wait(&b->changed, &b->lock);
        stoke_lease *lease = b->lease;
        b->lease = NULL;
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
        if (!lease) return NULL;
        stoke_hold_drop(&lease->hold);
    }
}

static void other_threads_let_go(void **state)
{
    pairs_write(state, 24, 32, 32);
    stoke_data_params params = pairs_params(state);
    params.prefetch = 5;
    stoke_lender *engine = opened(&params);
    belt b = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0 };
    pthread_t consumer[CONSUMERS];
    for (int i = 0; i < CONSUMERS; i++) assert_int_equal(pthread_create(&consumer[i], NULL, let_go, &b), 0);
    stoke_lease *lease;
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        stoke_error err;
        assert_int_equal(stoke_lender_set_epoch(engine, epoch, &err), 0);
        while (!leasing_next(engine, &lease)) {
            pthread_mutex_lock(&b.lock);
            while (b.lease) pthread_cond_wait(&b.changed, &b.lock);
            b.lease = lease;
            pthread_cond_broadcast(&b.changed);
            pthread_mutex_unlock(&b.lock);
        }
    }
    stoke_lender_drop(engine); /* maybe before the last of them */
    pthread_mutex_lock(&b.lock);
    b.over = 1;
    pthread_cond_broadcast(&b.changed);
    pthread_mutex_unlock(&b.lock);
    for (int i = 0; i < CONSUMERS; i++) pthread_join(consumer[i], NULL);
}

static void *take_until_closed(void *argument)
{
    stoke_lender *engine = argument;
    stoke_error err = { 0 };
    stoke_lease *lease;
    int r;
    uint64_t epoch = 0;
    for (;;) {
        r = stoke_lender_next(engine, UINT64_C(100000000), &lease, &err);
        if (!r)
            stoke_hold_drop(&lease->hold);
        else if (r == STOKE_E_END)
            r = stoke_lender_set_epoch(engine, ++epoch, &err);
        if (r && r != STOKE_E_TIMEOUT) break;
    }
    return r == STOKE_E_STATE && !strcmp(err.message, "the loader is closed") ? NULL : "another end";
}

static void closing_ends_another_threads_work(void **state)
{
    pairs_write(state, 12, 32, 32);
    const stoke_data_params params = pairs_params(state);
    stoke_lender *engine = opened(&params);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_until_closed, engine), 0);
    stoke_lender_stats stats;
    do assert_int_equal(stoke_lender_stats_get(engine, &stats, NULL), 0);
    while (!stats.loader.batches);
    stoke_lender_close(engine);
    void *otherwise;
    pthread_join(thread, &otherwise);
    assert_null(otherwise);
    assert_int_equal(held(engine), 0);
    stoke_lender_drop(engine);
}

static void bad_files_stay_known(void **state)
{
    pairs_write(state, 8, 32, 32);
    unit_write(unit_path(state, "images/s1.png"), "no picture", 10);
    stoke_data_params params = pairs_params(state);
    params.max_bad = "2";
    stoke_lender *engine = opened(&params);
    stoke_lease *lease;
    while (!leasing_next(engine, &lease)) stoke_hold_drop(&lease->hold);
    const stoke_lender_bad_file *bad;
    size_t n;
    for (int closed = 0; closed < 2; closed++) {
        assert_int_equal(stoke_lender_bad(engine, &bad, &n, NULL), 0);
        assert_int_equal(n, 1);
        assert_non_null(strstr(bad[0].path, "s1.png"));
        stoke_lender_close(engine);
    }
    stoke_lender_drop(engine);
}

/* Runs in the child: 0 when every call is refused with a word on spawn, and letting go neither waits nor
 * harms. */
static int try_in_child(stoke_lender *engine, stoke_lease *lease)
{
    stoke_error err = { 0 };
    stoke_lease *more;
    uint64_t all, left;
    char text[STOKE_LENDER_STATE];
    const uint8_t first = *(const uint8_t *)lease->batch.images;
    if (stoke_lender_next(engine, UINT64_MAX / 2, &more, &err) != STOKE_E_STATE) return 1;
    if (!strstr(err.message, "spawn")) return 2;
    if (stoke_lender_batches(engine, &all, &left, &err) != STOKE_E_STATE) return 3;
    if (stoke_lender_state(engine, text, &err) != STOKE_E_STATE) return 4;
    stoke_lender_close(engine);
    if (*(const uint8_t *)lease->batch.images != first) return 5;
    stoke_hold_drop(&lease->hold);
    stoke_lender_drop(engine);
    return 0;
}

static void a_child_of_fork_is_told(void **state)
{
    pairs_write(state, 12, 32, 32);
    const stoke_data_params params = pairs_params(state);
    stoke_lender *engine = opened(&params);
    leasing_fork(engine, try_in_child);
    stoke_lender_drop(engine);
}

static void opening_that_fails_leaves_nothing(void **state)
{
    pairs_write(state, 4, 32, 32);
    stoke_data_params params = pairs_params(state);
    stoke_lender *engine;
    stoke_error err;
    params.augment = "hflop";
    assert_int_equal(stoke_lender_open(&engine, &params, NULL, NULL, &err),
                     STOKE_E_INVALID); /* not: a file is missing */
    assert_null(engine);
    params.data = unit_path(state, "nothing");
    assert_int_equal(stoke_lender_open(&engine, &params, NULL, NULL, &err), STOKE_E_NOTFOUND);
}

UNIT_GROUP(lender)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(leases_outlive_the_engine),
        unit_test_with_folder(starving_says_how_many),
        unit_test_with_folder(other_threads_let_go),
        unit_test_with_folder(closing_ends_another_threads_work),
        unit_test_with_folder(bad_files_stay_known),
        unit_test_with_folder(a_child_of_fork_is_told),
        unit_test_with_folder(opening_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
