/* SPDX-License-Identifier: Apache-2.0 */
#include "src/feed/diary.h"

#include "src/base/error.h"
#include "src/base/mem.h"

_Static_assert((int)STK_MAKING_READ == STOKE_MAKING_READ && (int)STK_MAKING_DECODE == STOKE_MAKING_DECODE &&
                   (int)STK_MAKING_FIT == STOKE_MAKING_FIT &&
                   (int)STK_MAKING_AUGMENT == STOKE_MAKING_AUGMENT &&
                   (int)STK_MAKING_STAGES == STOKE_MAKING_COLLATE,
               "a record counts what the loader counts, and what only others do after that");

const char *stoke_making_name(int making)
{
    static const char *const names[STOKE_MAKINGS] = { "read", "decode", "fit", "augment", "collate" };
    return making >= 0 && making < STOKE_MAKINGS ? names[making] : "unknown";
}

int stk_diary_create(stk_diary *diary, uint32_t batches, stoke_error *err)
{
    *diary = (stk_diary){ .page = stk_calloc(batches, sizeof *diary->page), .pages = batches };
    return diary->page ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for %u records", batches);
}

void stk_diary_destroy(stk_diary *diary)
{
    stk_free(diary->page);
    stk_free(diary->records);
    *diary = (stk_diary){ 0 };
}

stoke_step_record *stk_diary_begin(stk_diary *diary, stoke_step_record *records, size_t room)
{
    stoke_step_record *before = diary->records;
    for (uint32_t i = 0; i < diary->pages; i++)
        if (diary->page[i].state != STK_PAGE_AHEAD) diary->page[i].state = STK_PAGE_FREE;
    diary->records = records;
    diary->room = room;
    diary->numbered = diary->count = 0;
    return before;
}

void stk_diary_end(stk_diary *diary)
{
    diary->room = diary->numbered;
}

/* Seventy pages at most are looked through, four times a batch. NULL: the batch has none. */
static stk_page *page_of(const stk_diary *diary, uint64_t trip)
{
    for (uint32_t i = 0; i < diary->pages; i++)
        if (diary->page[i].state != STK_PAGE_FREE && diary->page[i].trip == trip) return &diary->page[i];
    return NULL;
}

/* ---- a batch ---- */

void stk_record_making(stoke_step_record *record, const stoke_batch *batch, const stk_making *making)
{
    *record = (stoke_step_record){ .epoch = batch->epoch,
                                   .samples = batch->count,
                                   .first_of_epoch = making->first != 0,
                                   .began = making->began,
                                   .ready = making->ready,
                                   .window_ns = making->window_ns };
    for (int m = 0; m < STK_MAKING_STAGES; m++) {
        const stk_making_time *time = &making->time[m];
        record->making[m] = (stoke_making_time){ time->wall_ns, time->cpu_ns, time->queued_ns };
    }
}

void stk_diary_sent(stk_diary *diary, uint64_t trip, const stoke_batch *batch, const stk_making *making,
                    uint64_t sent)
{
    uint32_t i = 0;
    while (i < diary->pages && diary->page[i].state != STK_PAGE_FREE) i++;
    if (i == diary->pages) return;
    stk_page *page = &diary->page[i];
    *page = (stk_page){ .state = STK_PAGE_AHEAD, .trip = trip };
    stk_record_making(&page->record, batch, making);
    page->record.sent = sent;
}

void stk_diary_forget(stk_diary *diary)
{
    for (uint32_t i = 0; i < diary->pages; i++)
        if (diary->page[i].state == STK_PAGE_AHEAD) diary->page[i].state = STK_PAGE_FREE;
}

void stk_diary_taken(stk_diary *diary, uint64_t trip, uint64_t asked, uint64_t got)
{
    for (uint32_t i = 0; i < diary->pages; i++) {
        stk_page *last = &diary->page[i];
        if (last->state != STK_PAGE_TAKEN) continue;
        const int pending = last->launched && diary->count <= last->record.number;
        last->state = pending ? STK_PAGE_LEFT : STK_PAGE_FREE;
    }
    stk_page *page = page_of(diary, trip);
    if (!page) return;
    page->state = diary->numbered < diary->room ? STK_PAGE_TAKEN : STK_PAGE_FREE;
    page->record.asked = asked;
    page->record.got = got;
}

/* ---- its steps ---- */

/* Steps and trips are read in the order they were put on their streams, so records come to be complete in
 * the order of their numbers. */
static void complete(stk_diary *diary, stk_page *page)
{
    if (!page->launched || page->ended < page->launched || !page->copied) return;
    diary->records[page->record.number] = page->record;
    diary->count = page->record.number + 1;
    if (page->state == STK_PAGE_LEFT) page->state = STK_PAGE_FREE;
}

void stk_diary_arrived(stk_diary *diary, uint64_t trip, stk_interval copy, uint64_t bytes,
                       const stk_interval *kernels)
{
    stk_page *page = page_of(diary, trip);
    if (!page) return;
    page->copied = 1;
    page->record.copy_start = copy.start;
    page->record.copy_end = copy.end;
    page->record.copy_bytes = bytes;
    if (kernels) {
        page->record.augment_start = kernels->start;
        page->record.augment_end = kernels->end;
    }
    complete(diary, page);
}

int stk_diary_launched(stk_diary *diary, uint64_t trip, uint64_t launched)
{
    stk_page *page = page_of(diary, trip);
    if (!page) return 0;
    if (!page->launched && diary->numbered == diary->room) { /* ended between next() and step() */
        page->state = STK_PAGE_FREE;
        return 0;
    }
    if (!page->launched++) {
        page->record.number = diary->numbered++;
        page->record.launched = launched;
    } else if (diary->count > page->record.number) {
        diary->count = page->record.number; /* no longer complete; it is the last one */
    }
    return diary->numbered == diary->room;
}

void stk_diary_ended(stk_diary *diary, uint64_t trip, stk_interval step)
{
    stk_page *page = page_of(diary, trip);
    if (!page) return;
    if (!page->ended++) page->record.start = step.start;
    page->record.end = step.end;
    page->record.busy_ns += step.end - step.start;
    complete(diary, page);
}
