/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of an upload, one record each (stoke/record.h). A batch has a page from the moment it is sent
 * until the last of its steps has ended: who makes it, who takes it and who reads its events come at times of
 * their own and in any order.
 *
 *      free ──sent──► ahead ──next()──► taken ──the next next()──► left ──steps and copy read──► free
 *
 * Pages are kept whether anybody records or not, so that the first batch of a diary has a past; a page of a
 * batch that nobody records, or that no step was launched for, is free again when the next one is taken. All
 * of it under the upload's lock.
 */
#ifndef STOKE_SRC_UPLOAD_STEP_LOG_H
#define STOKE_SRC_UPLOAD_STEP_LOG_H

#include <stoke/tools/record.h>

#include "src/upload/busy_time.h"
#include "src/loader/batch_times.h"

typedef enum stk_step_page_state {
    STK_PAGE_FREE,
    STK_PAGE_AHEAD,
    STK_PAGE_TAKEN,
    STK_PAGE_LEFT
} stk_step_page_state;

typedef struct stk_step_page {
    stk_step_page_state state;
    uint64_t transfer;        /* that brought the batch: trips are counted from 0 */
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
 * have a step or a trip to be read. */
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
/* The trip has ended; `kernels` NULL: there were none. */
void stk_step_log_arrived(stk_step_log *step_log, uint64_t transfer, stk_busy_interval copy, uint64_t bytes,
                          const stk_busy_interval *kernels);
/* The consumer asked for a batch, and has it. */
void stk_step_log_taken(stk_step_log *step_log, uint64_t transfer, uint64_t asked, uint64_t got);
/* A step of the batch of that trip. Returns 1 when there is no room for another batch after it. */
int stk_step_log_launched(stk_step_log *step_log, uint64_t transfer, uint64_t launched);
/* It has ended, in the order of launching. */
void stk_step_log_ended(stk_step_log *step_log, uint64_t transfer, stk_busy_interval step);

#endif
