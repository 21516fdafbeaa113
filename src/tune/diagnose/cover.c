/* SPDX-License-Identifier: Apache-2.0 */
#include "src/tune/diagnose/cover.h"

#include <stdlib.h>

#include "src/base/error.h"
#include "src/base/mem.h"

int stk_cover_create(stk_cover *cover, size_t room, stoke_error *err)
{
    *cover = (stk_cover){ .room = room };
    cover->part = stk_calloc(room, sizeof *cover->part);
    cover->before = stk_calloc(room, sizeof *cover->before);
    if (cover->part && cover->before) return STOKE_OK;
    stk_cover_destroy(cover);
    return stk_fail(err, STOKE_E_NOMEM, "no memory for %zu intervals", room);
}

void stk_cover_destroy(stk_cover *cover)
{
    stk_free(cover->part);
    stk_free(cover->before);
    *cover = (stk_cover){ 0 };
}

void stk_cover_add(stk_cover *cover, uint64_t start, uint64_t end)
{
    if (start < end && cover->n < cover->room) cover->part[cover->n++] = (stk_busy_interval){ start, end };
}

static int by_start(const void *a, const void *b)
{
    const stk_busy_interval *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

void stk_cover_unite(stk_cover *cover)
{
    size_t n = 0;
    if (cover->n) qsort(cover->part, cover->n, sizeof *cover->part, by_start);
    for (size_t i = 0; i < cover->n; i++) {
        const stk_busy_interval next = cover->part[i];
        if (n && next.start <= cover->part[n - 1].end) {
            if (next.end > cover->part[n - 1].end) cover->part[n - 1].end = next.end;
        } else {
            cover->part[n++] = next;
        }
    }
    cover->n = n;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        cover->before[i] = sum;
        sum += cover->part[i].end - cover->part[i].start;
    }
}

/* Covered before a time. */
static uint64_t until(const stk_cover *cover, uint64_t time)
{
    size_t low = 0, high = cover->n; /* the first part that starts at `time` or later */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (cover->part[middle].start < time)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low) return 0;
    const stk_busy_interval *last = &cover->part[low - 1];
    return cover->before[low - 1] + (time < last->end ? time : last->end) - last->start;
}

uint64_t stk_cover_within(const stk_cover *cover, uint64_t start, uint64_t end)
{
    return start < end ? until(cover, end) - until(cover, start) : 0;
}
