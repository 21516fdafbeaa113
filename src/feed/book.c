/* SPDX-License-Identifier: Apache-2.0 */
#include "src/feed/book.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

int stk_book_create(stk_book *book, int exclusive, stoke_error *err)
{
    *book = (stk_book){ .exclusive = exclusive };
    int missing = 0;
    for (int i = 0; i < STK_WORKS; i++)
        missing |= !(book->work[i] = stk_calloc(STK_BOOK_ROOM, sizeof **book->work));
    book->bytes = stk_calloc(STK_BOOK_ROOM, sizeof *book->bytes);
    book->busy = stk_calloc((size_t)2 * STK_BOOK_ROOM, sizeof *book->busy);
    if (missing || !book->bytes || !book->busy)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the times of a feed");
    return STOKE_OK;
}

void stk_book_destroy(stk_book *book)
{
    for (int i = 0; i < STK_WORKS; i++) stk_free(book->work[i]);
    stk_free(book->bytes);
    stk_free(book->busy);
    *book = (stk_book){ 0 };
}

void stk_book_open(stk_book *book, uint64_t now)
{
    memset(book->count, 0, sizeof book->count);
    book->sums = (stoke_feed_stats){ 0 };
    book->first = book->last = book->until = 0;
    book->since = now;
    book->open = 1;
}

/* Two lists in order of their starts into one without overlaps; returns how many there are. */
static uint32_t unite(const stk_interval *a, uint32_t na, const stk_interval *b, uint32_t nb,
                      stk_interval *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0, j = 0; i < na || j < nb;) {
        const stk_interval next = j == nb || (i < na && a[i].start <= b[j].start) ? a[i++] : b[j++];
        if (n && next.start <= out[n - 1].end) {
            if (next.end > out[n - 1].end) out[n - 1].end = next.end;
        } else {
            out[n++] = next;
        }
    }
    return n;
}

/* Of `one`, how much the list covers. *at: where in the list to begin, moved on with the intervals asked
 * for, which come in order. */
static uint64_t covered(stk_interval one, const stk_interval *list, uint32_t n, uint32_t *at)
{
    uint64_t sum = 0;
    while (*at < n && list[*at].end <= one.start) ++*at;
    for (uint32_t i = *at; i < n && list[i].start < one.end; i++) {
        const uint64_t start = list[i].start > one.start ? list[i].start : one.start;
        const uint64_t end = list[i].end < one.end ? list[i].end : one.end;
        if (end > start) sum += end - start;
    }
    return sum;
}

/* Drops what ended by `limit`. */
static void drop(stk_book *book, stk_work work, uint64_t limit)
{
    uint32_t gone = 0;
    while (gone < book->count[work] && book->work[work][gone].end <= limit) gone++;
    const uint32_t left = book->count[work] - gone;
    memmove(book->work[work], book->work[work] + gone, left * sizeof **book->work);
    if (work == STK_WORK_COPY) memmove(book->bytes, book->bytes + gone, left * sizeof *book->bytes);
    book->count[work] = left;
}

/* Adds up what ended after book->until and by `limit`. */
static void add_up(stk_book *book, uint64_t limit)
{
    stoke_feed_stats *sums = &book->sums;
    const stk_interval *copies = book->work[STK_WORK_COPY], *augments = book->work[STK_WORK_AUGMENT],
                       *steps = book->work[STK_WORK_STEP];
    const uint32_t n_steps = book->count[STK_WORK_STEP];
    const uint32_t n_busy = unite(augments, book->count[STK_WORK_AUGMENT], steps, n_steps, book->busy);
    uint32_t at = 0;
    sums->busy_ns += covered((stk_interval){ book->until, limit }, book->busy, n_busy, &at);
    at = 0;
    for (uint32_t i = 0; i < book->count[STK_WORK_COPY] && copies[i].end <= limit; i++) {
        if (copies[i].end <= book->until) continue;
        sums->batches++;
        sums->bytes += book->bytes[i];
        sums->copy_ns += copies[i].end - copies[i].start;
        sums->copy_hidden_ns += covered(copies[i], book->busy, n_busy, &at);
    }
    at = 0;
    for (uint32_t i = 0; i < book->count[STK_WORK_AUGMENT] && augments[i].end <= limit; i++) {
        if (augments[i].end <= book->until) continue;
        sums->augment_ns += augments[i].end - augments[i].start;
        if (book->exclusive) sums->augment_ns -= covered(augments[i], steps, n_steps, &at);
    }
    for (uint32_t i = 0; i < n_steps && steps[i].end <= limit; i++) {
        if (steps[i].end <= book->until) continue;
        sums->steps++;
        sums->step_ns += steps[i].end - steps[i].start;
    }
    for (int i = 0; i < STK_WORKS; i++) drop(book, i, limit);
    book->until = limit;
}

static void settle(stk_book *book)
{
    uint64_t limit = book->last;
    if (!book->first)
        for (int i = 0; i < STK_WORKS; i++)
            if (book->count[i] && book->work[i][book->count[i] - 1].end > limit)
                limit = book->work[i][book->count[i] - 1].end;
    if (limit > book->until) add_up(book, limit);
}

void stk_book_add(stk_book *book, stk_work work, stk_interval interval, uint64_t bytes)
{
    if (!book->open || interval.end <= book->since) return;
    if (work == STK_WORK_STEP) {
        if (!book->first) book->first = book->until = interval.end;
        book->last = interval.end;
    }
    if (book->count[work] == STK_BOOK_ROOM) settle(book);
    if (book->count[work] == STK_BOOK_ROOM) /* no step has ended for as long: make room anyhow */
        drop(book, work, book->work[work][STK_BOOK_ROOM / 2].end);
    if (work == STK_WORK_COPY) book->bytes[book->count[work]] = bytes;
    book->work[work][book->count[work]++] = interval;
}

void stk_book_sum(stk_book *book, stoke_feed_stats *stats)
{
    settle(book);
    *stats = book->sums;
    stats->elapsed_ns = book->last - book->first;
}
