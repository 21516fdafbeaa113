/* SPDX-License-Identifier: Apache-2.0 */
#include "src/observe/observer.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

int stk_step_log_create(stk_step_log *step_log, uint32_t batches, stoke_error *err)
{
    *step_log = (stk_step_log){ .page = stk_calloc(batches, sizeof *step_log->page), .pages = batches };
    return step_log->page ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for %u records", batches);
}

void stk_step_log_destroy(stk_step_log *step_log)
{
    stk_free(step_log->page);
    stk_free(step_log->records);
    *step_log = (stk_step_log){ 0 };
}

stoke_step_record *stk_step_log_begin(stk_step_log *step_log, stoke_step_record *records, size_t room)
{
    stoke_step_record *before = step_log->records;
    for (uint32_t i = 0; i < step_log->pages; i++)
        if (step_log->page[i].state != STK_PAGE_AHEAD) step_log->page[i].state = STK_PAGE_FREE;
    step_log->records = records;
    step_log->room = room;
    step_log->numbered = step_log->count = 0;
    return before;
}

void stk_step_log_end(stk_step_log *step_log)
{
    step_log->room = step_log->numbered;
}

/* Seventy pages at most are looked through, four times a batch. NULL: the batch has none. */
static stk_step_page *page_of(const stk_step_log *step_log, uint64_t transfer)
{
    for (uint32_t i = 0; i < step_log->pages; i++)
        if (step_log->page[i].state != STK_PAGE_FREE && step_log->page[i].transfer == transfer)
            return &step_log->page[i];
    return NULL;
}

/* ---- a batch ---- */

void stk_record_making(stoke_step_record *record, const stoke_batch *batch, const stk_batch_times *made)
{
    *record = (stoke_step_record){ .epoch = batch->epoch,
                                   .samples = batch->count,
                                   .first_of_epoch = made->first != 0,
                                   .began = made->began,
                                   .ready = made->ready,
                                   .window_ns = made->window_ns };
    memcpy(record->making, made->time, sizeof record->making);
}

void stk_step_log_sent(stk_step_log *step_log, uint64_t transfer, const stoke_batch *batch,
                       const stk_batch_times *made, uint64_t sent)
{
    uint32_t i = 0;
    while (i < step_log->pages && step_log->page[i].state != STK_PAGE_FREE) i++;
    if (i == step_log->pages) return;
    stk_step_page *page = &step_log->page[i];
    *page = (stk_step_page){ .state = STK_PAGE_AHEAD, .transfer = transfer };
    stk_record_making(&page->record, batch, made);
    page->record.sent = sent;
}

void stk_step_log_forget(stk_step_log *step_log)
{
    for (uint32_t i = 0; i < step_log->pages; i++)
        if (step_log->page[i].state == STK_PAGE_AHEAD) step_log->page[i].state = STK_PAGE_FREE;
}

void stk_step_log_taken(stk_step_log *step_log, uint64_t transfer, uint64_t asked, uint64_t got)
{
    for (uint32_t i = 0; i < step_log->pages; i++) {
        stk_step_page *last = &step_log->page[i];
        if (last->state != STK_PAGE_TAKEN) continue;
        const int pending = last->launched && step_log->count <= last->record.number;
        last->state = pending ? STK_PAGE_LEFT : STK_PAGE_FREE;
    }
    stk_step_page *page = page_of(step_log, transfer);
    if (!page) return;
    page->state = step_log->numbered < step_log->room ? STK_PAGE_TAKEN : STK_PAGE_FREE;
    page->record.asked = asked;
    page->record.got = got;
}

/* ---- its steps ---- */

/* Steps and transfers are read in the order they were put on their streams, so records come to be complete in
 * the order of their numbers. */
static void complete(stk_step_log *step_log, stk_step_page *page)
{
    if (!page->launched || page->ended < page->launched || !page->copied) return;
    step_log->records[page->record.number] = page->record;
    step_log->count = page->record.number + 1;
    if (page->state == STK_PAGE_LEFT) page->state = STK_PAGE_FREE;
}

void stk_step_log_arrived(stk_step_log *step_log, uint64_t transfer, stk_busy_interval copy, uint64_t bytes,
                          const stk_busy_interval *kernels)
{
    stk_step_page *page = page_of(step_log, transfer);
    if (!page) return;
    page->copied = 1;
    page->record.copy_start = copy.start;
    page->record.copy_end = copy.end;
    page->record.copy_bytes = bytes;
    if (kernels) {
        page->record.augment_start = kernels->start;
        page->record.augment_end = kernels->end;
    }
    complete(step_log, page);
}

int stk_step_log_launched(stk_step_log *step_log, uint64_t transfer, uint64_t launched)
{
    stk_step_page *page = page_of(step_log, transfer);
    if (!page) return 0;
    if (!page->launched && step_log->numbered == step_log->room) { /* ended between next() and step() */
        page->state = STK_PAGE_FREE;
        return 0;
    }
    if (!page->launched++) {
        page->record.number = step_log->numbered++;
        page->record.launched = launched;
    } else if (step_log->count > page->record.number) {
        step_log->count = page->record.number; /* no longer complete; it is the last one */
    }
    return step_log->numbered == step_log->room;
}

void stk_step_log_ended(stk_step_log *step_log, uint64_t transfer, stk_busy_interval step)
{
    stk_step_page *page = page_of(step_log, transfer);
    if (!page) return;
    if (!page->ended++) page->record.start = step.start;
    page->record.end = step.end;
    page->record.busy_ns += step.end - step.start;
    complete(step_log, page);
}
