/* SPDX-License-Identifier: Apache-2.0
 *
 * The team: one job at a time, tasks taken from a shared counter.
 */
#include "src/net/team.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "src/base/error.h"
#include "src/base/mem.h"

/* How often a thread looks before it sleeps: about 30 us, more than the gap between two operations of a step,
 * and less than a core would miss when a loader wants it. */
enum { SPINS = 2000 };

typedef struct worker {
    pthread_t thread;
    stk_team *team;
    uint32_t index;
} worker;

struct stk_team {
    uint32_t size;
    worker *workers; /* size - 1 */
    uint32_t started;
    /* The job. Written before `generation` is raised, read after it was seen. */
    stk_task_fn *fn;
    const void *context;
    uint32_t tasks;
    atomic_uint next; /* task to take */
    atomic_uint busy; /* workers that have not finished this job */
    atomic_uint generation;
    atomic_bool quit;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
};

static void relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#endif
}

static void take_tasks(stk_team *team, uint32_t thread)
{
    for (;;) {
        const uint32_t task = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
        if (task >= team->tasks) return;
        team->fn(team->context, task, thread);
    }
}

/* Returns when the generation is no longer `seen`. */
static unsigned wait_for_work(stk_team *team, unsigned seen)
{
    for (int spin = 0; spin < SPINS; spin++) {
        const unsigned now = atomic_load_explicit(&team->generation, memory_order_acquire);
        if (now != seen) return now;
        relax();
    }
    pthread_mutex_lock(&team->lock);
    while (atomic_load_explicit(&team->generation, memory_order_acquire) == seen)
        pthread_cond_wait(&team->work, &team->lock);
    pthread_mutex_unlock(&team->lock);
    return atomic_load_explicit(&team->generation, memory_order_acquire);
}

static void *worker_main(void *argument)
{
    worker *self = argument;
    stk_team *team = self->team;
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_work(team, seen);
        if (atomic_load_explicit(&team->quit, memory_order_relaxed)) return NULL;
        take_tasks(team, self->index);
        if (atomic_fetch_sub_explicit(&team->busy, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&team->lock);
            pthread_cond_signal(&team->done);
            pthread_mutex_unlock(&team->lock);
        }
    }
}

/* Publishes the job, or the end. */
static void raise_generation(stk_team *team)
{
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add_explicit(&team->generation, 1, memory_order_release);
    pthread_cond_broadcast(&team->work);
    pthread_mutex_unlock(&team->lock);
}

void stk_team_run(stk_team *team, stk_task_fn *fn, const void *context, uint32_t tasks)
{
    if (team->size == 1 || tasks <= 1) {
        for (uint32_t task = 0; task < tasks; task++) fn(context, task, 0);
        return;
    }
    team->fn = fn;
    team->context = context;
    team->tasks = tasks;
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    atomic_store_explicit(&team->busy, team->size - 1, memory_order_relaxed);
    raise_generation(team);
    take_tasks(team, 0);
    for (int spin = 0; spin < SPINS; spin++) {
        if (!atomic_load_explicit(&team->busy, memory_order_acquire)) return;
        relax();
    }
    pthread_mutex_lock(&team->lock);
    while (atomic_load_explicit(&team->busy, memory_order_acquire))
        pthread_cond_wait(&team->done, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static int start(stk_team *team, stoke_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* inherited by the workers */
    int failed = 0;
    for (uint32_t i = 0; i + 1 < team->size && !failed; i++) {
        team->workers[i] = (worker){ .team = team, .index = i + 1 };
        failed = pthread_create(&team->workers[i].thread, NULL, worker_main, &team->workers[i]);
        if (!failed) team->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed ? stk_fail_errno(err, STOKE_E_NOMEM, failed, "cannot start a thread") : STOKE_OK;
}

int stk_team_create(stk_team **out, uint32_t threads, stoke_error *err)
{
    *out = NULL;
    if (!threads || threads > 1024)
        return stk_fail(err, STOKE_E_INVALID, "threads is %u: 1 to 1024 will do", (unsigned)threads);
    stk_team *team = stk_calloc(1, sizeof *team);
    if (!team) return stk_fail(err, STOKE_E_NOMEM, "no memory for a team of threads");
    team->size = threads;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->work, NULL);
    pthread_cond_init(&team->done, NULL);
    team->workers = stk_calloc(threads, sizeof *team->workers);
    int status =
        team->workers ? start(team, err) : stk_fail(err, STOKE_E_NOMEM, "no memory for a team of threads");
    if (status)
        stk_team_destroy(&team);
    else
        *out = team;
    return status;
}

void stk_team_destroy(stk_team **team)
{
    stk_team *t = *team;
    *team = NULL;
    if (!t) return;
    atomic_store(&t->quit, 1);
    raise_generation(t);
    for (uint32_t i = 0; i < t->started; i++) pthread_join(t->workers[i].thread, NULL);
    pthread_cond_destroy(&t->done);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    stk_free(t->workers);
    stk_free(t);
}

uint32_t stk_team_size(const stk_team *team)
{
    return team->size;
}
