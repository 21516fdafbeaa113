/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device did when, added up: intervals come in as their events are read, sums go out. Intervals of
 * one kind come in order and do not overlap, since they belong to one stream.
 *
 * The window of the sums runs from the end of the first step to the end of the last one: what came before,
 * such as filling the ring, and what follows, such as filling it for a step that never comes, would flatter
 * one figure and spoil another. What ended inside the window counts whole; of the time that the device was
 * busy, the part inside. Without a step everything counts.
 */
#ifndef STOKE_SRC_UPLOAD_BUSY_TIME_H
#define STOKE_SRC_UPLOAD_BUSY_TIME_H

#include <stoke/tools/upload.h>

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

#endif
