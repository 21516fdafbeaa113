/* SPDX-License-Identifier: Apache-2.0 */
#include "src/observe/observer.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

int stk_busy_time_create(stk_busy_time *busy, int exclusive, stoke_error *err)
{
    *busy = (stk_busy_time){ .exclusive = exclusive };
    int missing = 0;
    for (int i = 0; i < STK_WORKS; i++)
        missing |= !(busy->work[i] = stk_calloc(STK_BUSY_TIME_ROOM, sizeof **busy->work));
    busy->bytes = stk_calloc(STK_BUSY_TIME_ROOM, sizeof *busy->bytes);
    busy->busy = stk_calloc((size_t)2 * STK_BUSY_TIME_ROOM, sizeof *busy->busy);
    if (missing || !busy->bytes || !busy->busy)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the times of an upload");
    return STOKE_OK;
}

void stk_busy_time_destroy(stk_busy_time *busy)
{
    for (int i = 0; i < STK_WORKS; i++) stk_free(busy->work[i]);
    stk_free(busy->bytes);
    stk_free(busy->busy);
    *busy = (stk_busy_time){ 0 };
}

void stk_busy_time_open(stk_busy_time *busy, uint64_t now)
{
    memset(busy->count, 0, sizeof busy->count);
    busy->sums = (stoke_upload_stats){ 0 };
    busy->first = busy->last = busy->until = 0;
    busy->since = now;
    busy->open = 1;
}

/* Two lists in order of their starts into one without overlaps; returns how many there are. */
static uint32_t unite(const stk_busy_interval *a, uint32_t na, const stk_busy_interval *b, uint32_t nb,
                      stk_busy_interval *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0, j = 0; i < na || j < nb;) {
        const stk_busy_interval next = j == nb || (i < na && a[i].start <= b[j].start) ? a[i++] : b[j++];
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
static uint64_t covered(stk_busy_interval one, const stk_busy_interval *list, uint32_t n, uint32_t *at)
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
static void drop(stk_busy_time *busy, stk_busy_work work, uint64_t limit)
{
    uint32_t gone = 0;
    while (gone < busy->count[work] && busy->work[work][gone].end <= limit) gone++;
    const uint32_t left = busy->count[work] - gone;
    memmove(busy->work[work], busy->work[work] + gone, left * sizeof **busy->work);
    if (work == STK_WORK_COPY) memmove(busy->bytes, busy->bytes + gone, left * sizeof *busy->bytes);
    busy->count[work] = left;
}

/* Adds up what ended after busy->until and by `limit`. */
static void add_up(stk_busy_time *busy, uint64_t limit)
{
    stoke_upload_stats *sums = &busy->sums;
    const stk_busy_interval *copies = busy->work[STK_WORK_COPY], *augments = busy->work[STK_WORK_AUGMENT],
                            *steps = busy->work[STK_WORK_STEP];
    const uint32_t n_steps = busy->count[STK_WORK_STEP];
    const uint32_t n_busy = unite(augments, busy->count[STK_WORK_AUGMENT], steps, n_steps, busy->busy);
    uint32_t at = 0;
    sums->busy_ns += covered((stk_busy_interval){ busy->until, limit }, busy->busy, n_busy, &at);
    at = 0;
    for (uint32_t i = 0; i < busy->count[STK_WORK_COPY] && copies[i].end <= limit; i++) {
        if (copies[i].end <= busy->until) continue;
        sums->batches++;
        sums->bytes += busy->bytes[i];
        sums->copy_ns += copies[i].end - copies[i].start;
        sums->copy_hidden_ns += covered(copies[i], busy->busy, n_busy, &at);
    }
    at = 0;
    for (uint32_t i = 0; i < busy->count[STK_WORK_AUGMENT] && augments[i].end <= limit; i++) {
        if (augments[i].end <= busy->until) continue;
        sums->augment_ns += augments[i].end - augments[i].start;
        if (busy->exclusive) sums->augment_ns -= covered(augments[i], steps, n_steps, &at);
    }
    for (uint32_t i = 0; i < n_steps && steps[i].end <= limit; i++) {
        if (steps[i].end <= busy->until) continue;
        sums->steps++;
        sums->step_ns += steps[i].end - steps[i].start;
    }
    for (int i = 0; i < STK_WORKS; i++) drop(busy, i, limit);
    busy->until = limit;
}

static void settle(stk_busy_time *busy)
{
    uint64_t limit = busy->last;
    if (!busy->first)
        for (int i = 0; i < STK_WORKS; i++)
            if (busy->count[i] && busy->work[i][busy->count[i] - 1].end > limit)
                limit = busy->work[i][busy->count[i] - 1].end;
    if (limit > busy->until) add_up(busy, limit);
}

void stk_busy_time_add(stk_busy_time *busy, stk_busy_work work, stk_busy_interval interval, uint64_t bytes)
{
    if (!busy->open || interval.end <= busy->since) return;
    if (work == STK_WORK_STEP) {
        if (!busy->first) busy->first = busy->until = interval.end;
        busy->last = interval.end;
    }
    if (busy->count[work] == STK_BUSY_TIME_ROOM) settle(busy);
    if (busy->count[work] == STK_BUSY_TIME_ROOM) /* no step has ended for as long: make room anyhow */
        drop(busy, work, busy->work[work][STK_BUSY_TIME_ROOM / 2].end);
    if (work == STK_WORK_COPY) busy->bytes[busy->count[work]] = bytes;
    busy->work[work][busy->count[work]++] = interval;
}

void stk_busy_time_sum(stk_busy_time *busy, stoke_upload_stats *stats)
{
    settle(busy);
    *stats = busy->sums;
    stats->elapsed_ns = busy->last - busy->first;
}
