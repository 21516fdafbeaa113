/* SPDX-License-Identifier: Apache-2.0
 *
 * Work on every sample of a set by a few threads, while the calling thread shows the progress.
 */
#ifndef STOKE_SRC_BASE_PARALLEL_FOR_H
#define STOKE_SRC_BASE_PARALLEL_FOR_H

#include <stoke/common.h>

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
