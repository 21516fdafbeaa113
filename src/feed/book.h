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
#ifndef STOKE_SRC_FEED_BOOK_H
#define STOKE_SRC_FEED_BOOK_H

#include <stoke/feed.h>

typedef struct stk_interval {
    uint64_t start, end; /* ns on CLOCK_MONOTONIC */
} stk_interval;

typedef enum stk_work { STK_WORK_COPY, STK_WORK_AUGMENT, STK_WORK_STEP, STK_WORKS } stk_work;

/* Intervals kept of each kind before they are added up: six minutes of steps of 100 ms. */
enum { STK_BOOK_ROOM = 4096 };

typedef struct stk_book {
    stk_interval *work[STK_WORKS];
    uint64_t *bytes; /* of the copies */
    uint32_t count[STK_WORKS];
    stk_interval *busy; /* augmenting and steps, united; scratch */
    int exclusive;  /* the device computes one thing at a time: augmenting took no part of a step's time */
    int open;       /* stk_book_open was called: intervals are kept */
    uint64_t since; /* what ended before does not count */
    uint64_t first, last; /* ends of steps; 0 = none */
    uint64_t until;       /* added up so far */
    stoke_feed_stats sums;
} stk_book;

int stk_book_create(stk_book *book, int exclusive, stoke_error *err);
void stk_book_destroy(stk_book *book);
/* Starts over with what ends after `now`. */
void stk_book_open(stk_book *book, uint64_t now);
void stk_book_add(stk_book *book, stk_work work, stk_interval interval, uint64_t bytes);
/* The sums so far: batches, bytes, copies, kernels, steps, busy, elapsed. */
void stk_book_sum(stk_book *book, stoke_feed_stats *stats);

#endif
