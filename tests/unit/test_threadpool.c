/* SPDX-License-Identifier: Apache-2.0
 *
 * The team of threads: every task once, whatever the numbers of tasks and threads, job after job.
 */
#include "tests/unit/unit.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/base/threadpool.h"

enum { MOST_TASKS = 257, MOST_THREADS = 5 };

typedef struct tally {
    atomic_uint times[MOST_TASKS];    /* that a task was run */
    atomic_uint inside[MOST_THREADS]; /* tasks a thread is in: never two */
    uint32_t threads;
    atomic_bool wrong;
    unsigned plain[MOST_TASKS]; /* written by the task, read by the caller: ThreadSanitizer watches it */
} tally;

static void count_task(const void *context, uint32_t task, uint32_t thread)
{
    tally *t = (tally *)(uintptr_t)context;
    if (thread >= t->threads || atomic_fetch_add(&t->inside[thread], 1) != 0) atomic_store(&t->wrong, 1);
    atomic_fetch_add(&t->times[task], 1);
    t->plain[task] += task + 1;
    atomic_fetch_sub(&t->inside[thread], 1);
}

static void hold_run(stk_threadpool *team, tally *t, uint32_t tasks)
{
    memset(t->plain, 0, sizeof t->plain);
    for (uint32_t i = 0; i < MOST_TASKS; i++) atomic_store(&t->times[i], 0);
    stk_threadpool_run(team, count_task, t, tasks);
    assert_false(atomic_load(&t->wrong));
    for (uint32_t i = 0; i < MOST_TASKS; i++) {
        assert_int_equal(atomic_load(&t->times[i]), i < tasks);
        assert_int_equal(t->plain[i], i < tasks ? i + 1 : 0);
    }
}

static void every_task_is_done_once(void **state)
{
    static const uint32_t tasks[] = { 0, 1, 2, 3, 4, 5, 16, 100, MOST_TASKS };
    for (uint32_t threads = 1; threads <= MOST_THREADS; threads++) {
        stk_threadpool *team = NULL;
        assert_int_equal(stk_threadpool_create(&team, threads, NULL), STOKE_OK);
        assert_int_equal(stk_threadpool_size(team), threads);
        tally t = { .threads = threads };
        for (unsigned round = 0; round < 20; round++)
            for (unsigned i = 0; i < sizeof tasks / sizeof *tasks; i++) hold_run(team, &t, tasks[i]);
        stk_threadpool_destroy(&team);
        assert_null(team);
    }
}

static void add_one(const void *context, uint32_t task, uint32_t thread)
{
    ((unsigned *)(uintptr_t)context)[task]++;
}

/* Jobs so short that workers still leave one while the next begins. A thread that took a task of the old job
 * late, or of the new one with the old context, would leave a count short. */
static void many_small_jobs(void **state)
{
    for (uint32_t threads = 1; threads <= MOST_THREADS; threads++) {
        stk_threadpool *team = NULL;
        assert_int_equal(stk_threadpool_create(&team, threads, NULL), STOKE_OK);
        unsigned counts[2][3] = { { 0 } };
        for (unsigned job = 0; job < 4000; job++) {
            const uint32_t tasks = 2 + job % 2;
            stk_threadpool_run(team, add_one, counts[job % 2], tasks);
            for (uint32_t i = 0; i < tasks; i++) assert_int_equal(counts[job % 2][i], job / 2 + 1);
        }
        stk_threadpool_destroy(&team);
    }
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

static void nap_then_count(const void *context, uint32_t task, uint32_t thread)
{
    if (task == 0) nap();
    count_task(context, task, thread);
}

/* Workers asleep are woken; a caller that ran out of tasks sleeps until the slow one is done. */
static void sleepers_are_woken(void **state)
{
    stk_threadpool *team = NULL;
    assert_int_equal(stk_threadpool_create(&team, 3, NULL), STOKE_OK);
    tally t = { .threads = 3 };
    for (unsigned round = 1; round <= 20; round++) {
        nap();
        stk_threadpool_run(team, nap_then_count, &t, 5);
        for (uint32_t i = 0; i < 5; i++) assert_int_equal(atomic_load(&t.times[i]), round);
    }
    assert_false(atomic_load(&t.wrong));
    nap(); /* destroyed while asleep */
    stk_threadpool_destroy(&team);
}

static void wait_for_the_other(const void *context, uint32_t task, uint32_t thread)
{
    atomic_uint *here = (atomic_uint *)(uintptr_t)context;
    atomic_fetch_add(here, 1);
    for (int i = 0; i < 5000 && atomic_load(here) < 2; i++) nap();
}

/* Two tasks that wait for each other end: sleeping workers do get work. */
static void tasks_run_side_by_side(void **state)
{
    stk_threadpool *team = NULL;
    assert_int_equal(stk_threadpool_create(&team, 2, NULL), STOKE_OK);
    for (unsigned round = 0; round < 5; round++) {
        atomic_uint here = 0;
        nap();
        stk_threadpool_run(team, wait_for_the_other, &here, 2);
        assert_int_equal(atomic_load(&here), 2);
    }
    stk_threadpool_destroy(&team);
}

static void bad_sizes_are_refused(void **state)
{
    stk_threadpool *team = NULL;
    stoke_error err;
    assert_int_equal(stk_threadpool_create(&team, 0, &err), STOKE_E_INVALID);
    assert_null(team);
    assert_int_equal(stk_threadpool_create(&team, 1025, &err), STOKE_E_INVALID);
    assert_null(team);
    stk_threadpool_destroy(&team);
}

/* As when Python forks a worker that inherits a network and lets go of it: the threads are not there. */
static void a_child_closes_what_it_inherited(void **state)
{
    (void)state;
    stk_threadpool *team;
    tally *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->threads = 3;
    assert_int_equal(stk_threadpool_create(&team, 3, NULL), STOKE_OK);
    hold_run(team, t, 100);
    const struct timespec nap = { .tv_nsec = 20000000 };
    nanosleep(&nap, NULL); /* the workers are asleep: nobody holds the lock */
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        alarm(10); /* instead of hanging */
        stk_threadpool_run(team, count_task, t, 50);
        const int done = atomic_load(&t->times[49]) == 2 && atomic_load(&t->times[50]) == 1;
        stk_threadpool_destroy(&team);
        _exit(done ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    hold_run(team, t, 100); /* the parent's is as it was */
    stk_threadpool_destroy(&team);
    free(t);
}

UNIT_GROUP(threadpool)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_is_done_once), cmocka_unit_test(many_small_jobs),
        cmocka_unit_test(sleepers_are_woken),      cmocka_unit_test(tasks_run_side_by_side),
        cmocka_unit_test(bad_sizes_are_refused),   cmocka_unit_test(a_child_closes_what_it_inherited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
