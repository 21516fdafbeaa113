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

#endif
