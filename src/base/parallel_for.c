/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/parallel_for.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <stoke/tools/machine.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"

enum { MAX_THREADS = 256 };

typedef struct parallel {
    const stk_parallel_job *job;
    _Atomic uint64_t next, done;
    _Atomic int stop;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t changed;
    unsigned running;
    int status;
    stoke_error *err;
} parallel;

typedef struct member {
    parallel *parallel;
    void *state;
    pthread_t thread;
} member;

/* The first failure wins; all others stop at their next item. */
static void fail(parallel *c, int status, const stoke_error *error)
{
    pthread_mutex_lock(&c->lock);
    if (c->status == STOKE_OK) {
        c->status = status;
        if (c->err && error) *c->err = *error;
    }
    atomic_store(&c->stop, 1);
    pthread_mutex_unlock(&c->lock);
}

static void *run_member(void *argument)
{
    member *self = argument;
    parallel *c = self->parallel;
    const stk_parallel_job *job = c->job;
    stoke_error error = { 0 };
    int r = job->start(job->context, self->state, &error);
    while (r == STOKE_OK && !atomic_load_explicit(&c->stop, memory_order_relaxed)) {
        uint64_t item = atomic_fetch_add(&c->next, 1);
        if (item >= job->count) break;
        r = job->work(job->context, self->state, item, &error);
        atomic_fetch_add(&c->done, 1);
    }
    if (r != STOKE_OK) fail(c, r, &error);
    pthread_mutex_lock(&c->lock);
    c->running--;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Waits for the members; wakes 20 times a second to report, and reports once at least: who asks to stop is
 * heard, also when the members were done before this thread got its turn. */
static void supervise(parallel *c, stoke_progress_fn progress, void *context)
{
    pthread_mutex_lock(&c->lock);
    do {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 50 * 1000 * 1000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        if (c->running) pthread_cond_timedwait(&c->changed, &c->lock, &until);
        if (!progress || atomic_load(&c->stop)) continue;
        pthread_mutex_unlock(&c->lock);
        if (progress(context, atomic_load(&c->done), c->job->count)) {
            stoke_error error;
            fail(c, stk_fail(&error, STOKE_E_CANCELLED, "stopped on request"), &error);
        }
        pthread_mutex_lock(&c->lock);
    } while (c->running);
    pthread_mutex_unlock(&c->lock);
}

/* Starts the members. One that cannot be started is no failure as long as there is another. */
static unsigned start_members(parallel *c, member *members, unsigned wanted)
{
    unsigned started = 0;
    for (unsigned i = 0; i < wanted; i++) {
        member *m = &members[started];
        m->parallel = c;
        m->state = stk_calloc(1, c->job->member_bytes);
        if (!m->state) break;
        pthread_mutex_lock(&c->lock);
        c->running++;
        pthread_mutex_unlock(&c->lock);
        /* Only the first is waited for: without it there is no work at all. */
        const int number = started ? pthread_create(&m->thread, NULL, run_member, m)
                                   : stk_thread_start(&m->thread, run_member, m);
        if (number) {
            if (!started) c->status = stk_fail_errno(c->err, STOKE_E_NOMEM, number, "cannot start a thread");
            pthread_mutex_lock(&c->lock);
            c->running--;
            pthread_mutex_unlock(&c->lock);
            stk_free(m->state);
            break;
        }
        started++;
    }
    return started;
}

int stk_parallel_for(const stk_parallel_job *job, unsigned threads, stoke_progress_fn progress, void *context,
                     stoke_error *err)
{
    if (threads == 0) threads = stoke_machine_cores().usable;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (threads > job->count) threads = job->count ? (unsigned)job->count : 1;
    member *members = stk_calloc(threads, sizeof *members);
    if (!members) return stk_fail(err, STOKE_E_NOMEM, "no memory for %u threads", threads);
    parallel c = { .job = job, .err = err };
    pthread_mutex_init(&c.lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    unsigned started = start_members(&c, members, threads);
    if (!started && !c.status) c.status = stk_fail(err, STOKE_E_NOMEM, "no memory for a thread");
    supervise(&c, progress, context);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(members[i].thread, NULL);
        job->finish(job->context, members[i].state);
        stk_free(members[i].state);
    }
    if (c.status == STOKE_OK && progress) progress(context, job->count, job->count);
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.lock);
    stk_free(members);
    return c.status;
}
