/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/temporary.h"

#include <pthread.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <stoke/tools/output.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stk_temporary *first;

/* ---- fork ---- */

/* A child has none of the threads that were at work, but what they held at that moment: the lock, for good,
 * and a list through their stacks, which its own threads get. (Python's programs fork with loaders at work.)
 */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    first = NULL;
    pthread_mutex_unlock(&lock);
}

static void expect_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- the list ---- */

void stk_temporary_note(stk_temporary *t, int folder, const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, expect_forks);
    pthread_mutex_lock(&lock);
    *t = (stk_temporary){ .after = first, .folder = folder, .name = name, .owner = getpid() };
    if (first) first->before = t;
    first = t;
    pthread_mutex_unlock(&lock);
}

void stk_temporary_forget(stk_temporary *t)
{
    if (!t->name) return;
    if (t->owner != getpid()) { /* in the parent's list, not in ours */
        *t = (stk_temporary){ 0 };
        return;
    }
    pthread_mutex_lock(&lock);
    if (t->before)
        t->before->after = t->after;
    else
        first = t->after;
    if (t->after) t->after->before = t->before;
    *t = (stk_temporary){ 0 };
    pthread_mutex_unlock(&lock);
}

void stoke_output_abandon(void)
{
    enum { PASSES = 2 };       /* who had noted a file and not made it yet has made it by the second */
    pthread_mutex_lock(&lock); /* for good */
    for (int pass = 0; pass < PASSES; pass++) {
        for (const stk_temporary *t = first; t; t = t->after) unlinkat(t->folder, t->name, 0);
        if (first && pass + 1 < PASSES) nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 * 1000 }, NULL);
    }
}
