/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of a simulated GPU: engines that do one thing at a time, queues of work in order, moments that
 * order queues among each other. A timeline knows no clock: whoever calls says what time it is, and all that
 * follows is arithmetic. Nothing here is measured, so a host that wakes up late makes work submitted late,
 * as it does with a real device, but never makes the device look busy.
 *
 * An engine takes what is ready first, whoever asked first: work that waits for something far ahead does not
 * hold up what comes later on other queues. What begins after `now` is therefore not decided yet. Kernels of
 * a queue that follow each other at once go through together: a step of 100 ms is one piece of work here and
 * some hundred kernels on a card, where it could not get between each two of another queue.
 *
 * Not for several threads at once. Times never fall.
 */
#ifndef STOKE_SRC_DEVICE_SIM_TIMELINE_H
#define STOKE_SRC_DEVICE_SIM_TIMELINE_H

#include "src/device/sim.h"

typedef struct stk_sim_moment
    stk_sim_moment; /* the end of what a queue held when it was marked; counted by holders */
typedef struct stk_sim_queue stk_sim_queue;
typedef struct stk_sim_task stk_sim_task;

typedef enum stk_sim_task_kind {
    STK_TASK_WHOLE,  /* a copy, a step */
    STK_TASK_KERNEL, /* goes through together with those right before and after it */
} stk_sim_task_kind;

typedef struct stk_sim_timeline {
    uint64_t free_at[2][STK_ENGINES]; /* by view: what is so, and what is to be expected */
    uint64_t busy[STK_ENGINES];
    uint64_t submitted; /* number of the next task */
    stk_sim_queue *queues;
    stk_sim_task *spare_tasks; /* kept: steady state allocates nothing */
    stk_sim_moment *spare_moments;
} stk_sim_timeline;

void stk_timeline_free(stk_sim_timeline *timeline); /* queues and moments must be gone */

stk_sim_queue *stk_queue_create(stk_sim_timeline *timeline); /* NULL: no memory */
/* What it still holds is dropped; moments it was to reach count as reached. */
void stk_queue_destroy(stk_sim_timeline *timeline, stk_sim_queue *queue, uint64_t now);

/* All three return 0 when there is no memory, and nothing has happened then. */
int stk_queue_work(stk_sim_timeline *timeline, stk_sim_queue *queue, stk_sim_engine engine,
                   stk_sim_task_kind kind, uint64_t duration, uint64_t now);
int stk_queue_wait(stk_sim_timeline *timeline, stk_sim_queue *queue, stk_sim_moment *moment, uint64_t now);
/* *moment is let go of and replaced by a new one, held by the caller; *moment NULL is fine. */
int stk_queue_mark(stk_sim_timeline *timeline, stk_sim_queue *queue, stk_sim_moment **moment, uint64_t now);

stk_sim_moment *stk_moment_hold(stk_sim_moment *moment);                  /* returns it */
void stk_moment_drop(stk_sim_timeline *timeline, stk_sim_moment *moment); /* accepts NULL */
/* Decides everything that begins until `now`. */
void stk_timeline_advance(stk_sim_timeline *timeline, uint64_t now);
/* When the moment comes, should nothing more be submitted; exact once it is not after the last advance. */
uint64_t stk_moment_expected(stk_sim_timeline *timeline, const stk_sim_moment *moment);

#endif
