/* SPDX-License-Identifier: Apache-2.0
 *
 * A team of threads that does the tasks of one operation after another.
 *
 * Work is cut into tasks by the shape of the data alone, never by the number of threads, and a sum over tasks
 * is added up in the order of the tasks: so one thread and twenty give the same bits.
 */
#ifndef STOKE_SRC_BASE_THREADPOOL_H
#define STOKE_SRC_BASE_THREADPOOL_H

#include <stoke/common.h>

typedef struct stk_threadpool stk_threadpool;

/* STOKE_E_INVALID: no team has that many threads; 1 to 1024. */
int stk_threadpool_check(uint32_t threads, stoke_error *err);
/* `threads` including the caller's. The others wait, spinning for a moment, then asleep; they block all
 * signals. In a child of fork there are none of them: the caller does all tasks, and destroying waits for
 * nobody. */
int stk_threadpool_create(stk_threadpool **out, uint32_t threads, stoke_error *err);
void stk_threadpool_destroy(stk_threadpool **pool);
uint32_t stk_threadpool_size(const stk_threadpool *pool);

/* thread < stk_threadpool_size: whose scratch may be used. Nothing else may depend on it. */
typedef void stk_task_fn(const void *context, uint32_t task, uint32_t thread);
/* fn for every task below `tasks`, each once, in any order and by any thread; returns when all are done. Not
 * to be called from inside a task. Allocates nothing. */
void stk_threadpool_run(stk_threadpool *pool, stk_task_fn *fn, const void *context, uint32_t tasks);

/* Work on every sample of a set by a few threads, while the calling thread shows the progress. */

/* One item of work. `member` is the thread's own state, made by `start`. A failure stops the crew. */
typedef struct stk_parallel_job {
    uint64_t count;
    void *context;
    size_t member_bytes;
    int (*start)(void *context, void *member, stoke_error *err); /* member is zeroed before */
    int (*work)(void *context, void *member, uint64_t item, stoke_error *err);
    void (*finish)(void *context,
                   void *member); /* also after a failed start; in the calling thread, one by one */
} stk_parallel_job;

/* Threads 0 = the cores this process may use. Items are taken in order, one by one. progress (may be NULL)
 * is called from the calling thread about 20 times a second and once at the end. Returns the first failure,
 * STOKE_E_CANCELLED when progress asked to stop. */
int stk_parallel_for(const stk_parallel_job *job, unsigned threads, stoke_progress_fn progress, void *context,
                     stoke_error *err);

#endif
