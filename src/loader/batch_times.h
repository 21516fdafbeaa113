/* SPDX-License-Identifier: Apache-2.0
 *
 * What it took to make a batch, kept in its slot: when it was begun and ready, and what its rows cost. That
 * is always on: sums of 30 ns a row under a lock that is held anyhow, and two readings of the clock a batch
 * (30 ns each). Only the time in line for a core is not: asking the kernel for it took 2 us.
 */
#ifndef STOKE_SRC_LOADER_BATCH_TIMES_H
#define STOKE_SRC_LOADER_BATCH_TIMES_H

#include <pthread.h>
#include <stoke/loader.h>

typedef struct stk_batch_times {
    uint64_t began, ready;                  /* first row begun, last one done and mixed; CLOCK_MONOTONIC */
    stoke_work_time time[STOKE_WORK_KINDS]; /* summed over the rows */
    uint64_t window_ns; /* workers waited for a slot before they began it, since the batch before */
    int first;          /* the loader was started, or started over, with it: nothing had been made ahead */
} stk_batch_times;

/* Adds a row: times[STOKE_STAGE_READ .. STOKE_STAGE_WRITE], and how long its thread stood in line meanwhile,
 * which goes to the stages by how long each of them did not run. */
void stk_batch_times_row(stk_batch_times *made, const stoke_stage_time *times, uint64_t queued_ns);
/* Adds what was done to the batch as a whole. */
void stk_batch_times_whole(stk_batch_times *made, uint64_t wall_ns, uint64_t cpu_ns, uint64_t queued_ns);

/* How long a thread has stood in the run queue: the second field of its schedstat, by a descriptor that
 * stays open. Zeroed is unused. */
typedef struct stk_batch_run_queue {
    int is_open, file; /* file -1: the kernel does not say */
    pthread_t owner;
    int begun;
    uint64_t total_ns; /* when it was last asked */
} stk_batch_run_queue;

/* From now on counts; does nothing when it counts already. */
void stk_run_queue_begin(stk_batch_run_queue *queue);
/* Since the last call, or since it began; 0 where the kernel does not say. */
uint64_t stk_run_queue_since(stk_batch_run_queue *queue);
/* What follows is not to be counted. */
void stk_run_queue_leave(stk_batch_run_queue *queue);
void stk_run_queue_close(stk_batch_run_queue *queue);

/* ---- who did what when ---- */

/* A stage of a row, or SLOT_WAIT (batch -1), on CLOCK_MONOTONIC. Called by the worker itself, for SLOT_WAIT
 * under the loader's lock. */
typedef void stk_span_fn(void *context, uint32_t worker, stoke_stage stage, uint64_t start_ns,
                         uint64_t end_ns, int64_t batch);
typedef struct stk_batch_spans {
    stk_span_fn *tell; /* NULL: nobody wants to know */
    void *context;
} stk_batch_spans;

static inline void stk_spans_tell(const stk_batch_spans *spans, uint32_t worker, stoke_stage stage,
                                  uint64_t start_ns, uint64_t end_ns, int64_t batch)
{
    if (spans->tell) spans->tell(spans->context, worker, stage, start_ns, end_ns, batch);
}

#endif
