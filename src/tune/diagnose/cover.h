/* SPDX-License-Identifier: Apache-2.0
 *
 * The union of intervals, and how much of it lies within another interval: by prefix sums, so that hostile
 * intervals that all overlap cost no more than honest ones.
 */
#ifndef STOKE_SRC_TUNE_DIAGNOSE_COVER_H
#define STOKE_SRC_TUNE_DIAGNOSE_COVER_H

#include "src/upload/observer.h"

typedef struct stk_cover {
    stk_busy_interval *part; /* in order, disjoint, not empty */
    uint64_t *before;        /* length of all parts before this one */
    size_t n, room;
} stk_cover;

/* Room for so many intervals. */
int stk_cover_create(stk_cover *cover, size_t room, stoke_error *err);
void stk_cover_destroy(stk_cover *cover);
/* One that is empty or turned round adds nothing. */
void stk_cover_add(stk_cover *cover, uint64_t start, uint64_t end);
/* After the last one: sorts and unites them. */
void stk_cover_unite(stk_cover *cover);
/* How much of [start, end] is covered. */
uint64_t stk_cover_within(const stk_cover *cover, uint64_t start, uint64_t end);

#endif
