/* SPDX-License-Identifier: Apache-2.0
 *
 * Who watches an upload. The upload tells one observer what happens; sums by device time, records of steps
 * and spans of a trace are made of it here. While nobody has asked, it costs a few stores a batch.
 */
#ifndef STOKE_SRC_OBSERVE_OBSERVER_H
#define STOKE_SRC_OBSERVE_OBSERVER_H

#include <stoke/tools/record.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stoke/tools/trace.h>

#include "src/loader/batch_times.h"

/* What the device did when, added up: intervals come in as their events are read, sums go out. Intervals of
 * one kind come in order and do not overlap, since they belong to one stream.
 *
 * The window of the sums runs from the end of the first step to the end of the last one: what came before,
 * such as filling the ring, and what follows, such as filling it for a step that never comes, would flatter
 * one figure and spoil another. What ended inside the window counts whole; of the time that the device was
 * busy, the part inside. Without a step everything counts.
 */
typedef struct stk_busy_interval {
    uint64_t start, end; /* ns on CLOCK_MONOTONIC */
} stk_busy_interval;

typedef enum stk_busy_work { STK_WORK_COPY, STK_WORK_AUGMENT, STK_WORK_STEP, STK_WORKS } stk_busy_work;

/* Intervals kept of each kind before they are added up: six minutes of steps of 100 ms. */
enum { STK_BUSY_TIME_ROOM = 4096 };

typedef struct stk_busy_time {
    stk_busy_interval *work[STK_WORKS];
    uint64_t *bytes; /* of the copies */
    uint32_t count[STK_WORKS];
    stk_busy_interval *busy; /* augmenting and steps, united; scratch */
    int exclusive;  /* the device computes one thing at a time: augmenting took no part of a step's time */
    int open;       /* stk_busy_time_open was called: intervals are kept */
    uint64_t since; /* what ended before does not count */
    uint64_t first, last; /* ends of steps; 0 = none */
    uint64_t until;       /* added up so far */
    stoke_upload_stats sums;
} stk_busy_time;

int stk_busy_time_create(stk_busy_time *busy, int exclusive, stoke_error *err);
void stk_busy_time_destroy(stk_busy_time *busy);
/* Starts over with what ends after `now`. */
void stk_busy_time_open(stk_busy_time *busy, uint64_t now);
void stk_busy_time_add(stk_busy_time *busy, stk_busy_work work, stk_busy_interval interval, uint64_t bytes);
/* The sums so far: batches, bytes, copies, kernels, steps, busy, elapsed. */
void stk_busy_time_sum(stk_busy_time *busy, stoke_upload_stats *stats);

/* The steps of an upload, one record each (stoke/record.h). A batch has a page from the moment it is sent
 * until the last of its steps has ended: who makes it, who takes it and who reads its events come at any time
 * and in any order.
 *
 *      free ──sent──► ahead ──next()──► taken ──the next next()──► left ──steps and copy read──► free
 *
 * Pages are kept whether anybody records or not, so that the first batch that is recorded has a past; a page
 * of a batch that nobody records, or that no step was launched for, is free again when the next one is taken.
 * All of it under the upload's lock.
 */

typedef enum stk_step_page_state {
    STK_PAGE_FREE,
    STK_PAGE_AHEAD,
    STK_PAGE_TAKEN,
    STK_PAGE_LEFT
} stk_step_page_state;

typedef struct stk_step_page {
    stk_step_page_state state;
    uint64_t transfer;        /* that brought the batch: transfers are counted from 0 */
    int copied;               /* its times are known */
    uint32_t launched, ended; /* steps */
    stoke_step_record record;
} stk_step_page;

typedef struct stk_step_log {
    stk_step_page *page;
    uint32_t pages;
    stoke_step_record *records;
    size_t room;            /* of records */
    size_t numbered, count; /* records: of batches with a step, complete ones */
} stk_step_log;

/* For so many batches at once: a ring full of them ahead, the one that was taken last, and those that still
 * have a step or a transfer to be read. */
int stk_step_log_create(stk_step_log *step_log, uint32_t batches, stoke_error *err);
void stk_step_log_destroy(stk_step_log *step_log);
/* Begins again, with the next batch that is taken. Takes over `records`, and returns those of before. */
stoke_step_record *stk_step_log_begin(stk_step_log *step_log, stoke_step_record *records, size_t room);
/* No more records; those whose step is launched will still be complete. */
void stk_step_log_end(stk_step_log *step_log);

/* A record as far as making goes; zero for the rest. For whoever takes batches without an upload too. */
void stk_record_making(stoke_step_record *record, const stoke_batch *batch, const stk_batch_times *made);

/* A batch was put on its way at `sent`. */
void stk_step_log_sent(stk_step_log *step_log, uint64_t transfer, const stoke_batch *batch,
                       const stk_batch_times *made, uint64_t sent);
/* What was sent and not taken will not be taken. */
void stk_step_log_forget(stk_step_log *step_log);
/* The transfer has ended; `kernels` NULL: there were none. */
void stk_step_log_arrived(stk_step_log *step_log, uint64_t transfer, stk_busy_interval copy, uint64_t bytes,
                          const stk_busy_interval *kernels);
/* The consumer asked for a batch, and has it. */
void stk_step_log_taken(stk_step_log *step_log, uint64_t transfer, uint64_t asked, uint64_t got);
/* A step of the batch of that transfer. Returns 1 when there is no room for another batch after it. */
int stk_step_log_launched(stk_step_log *step_log, uint64_t transfer, uint64_t launched);
/* It has ended, in the order of launching. */
void stk_step_log_ended(stk_step_log *step_log, uint64_t transfer, stk_busy_interval step);

/* ---- the observer ---- */

/* The lanes of a trace that it writes to. Whoever writes a span keeps the pointer for as long as that takes,
 * so lanes that were replaced live as long as the observer. */
typedef enum stk_observer_lane {
    STK_LANE_COPY,
    STK_LANE_COMPUTE,
    STK_LANE_CONSUMER,
    STK_LANES
} stk_observer_lane;
typedef struct stk_observer_lanes stk_observer_lanes;

typedef struct stk_observer {
    stk_busy_time busy;
    stk_step_log step_log;
    stk_observer_lanes *lanes; /* NULL: nobody asked for a trace yet */
    atomic_int watched;        /* somebody asked for times, records or spans */
} stk_observer;

void stk_observer_destroy(stk_observer *observer);

/* A batch has crossed, and was augmented there (`kernels` NULL: it was not). Lock held. */
void stk_observer_arrived(stk_observer *observer, uint64_t transfer, int64_t number, stk_busy_interval copy,
                          uint64_t bytes, const stk_busy_interval *kernels);
/* A step of the batch of that transfer has ended. Lock held. */
void stk_observer_stepped(stk_observer *observer, uint64_t transfer, int64_t number, stk_busy_interval step);
/* The caller did something from start_ns until now. */
void stk_observer_span(const stk_observer *observer, const char *what, uint64_t start_ns, int64_t number);

/* What the lanes of a trace (NULL: no more of it) are called. */
typedef struct stk_observer_scene {
    stoke_trace *trace;
    uint32_t workers;
    int augments; /* the workers carry out plans */
    const char *device;
    int emulated;
} stk_observer_scene;
/* Spans go to new lanes from now on, under the lock; *spans is what the loader is to tell. 0: no memory. */
int stk_observer_trace(stk_observer *observer, const stk_observer_scene *scene, pthread_mutex_t *lock,
                       stk_batch_spans *spans);

#endif
