/* SPDX-License-Identifier: Apache-2.0
 *
 * All idle time of a device, cut into exclusive causes. A step's gap, from the end of the step before to its
 * own start, is cut at the moments of its batch; every piece, less what augmenting kernels of any batch took
 * of it, belongs to what ended at its right end:
 *
 *     copies by the loop    ready ─ pin_end ─ got ─ copy_start ─ copy_end ─ launched ─ start
 *     by their own stream   ready ─ pin_end ─ copy_start ─ copy_end ─ launched ─ start
 *     no workers            asked, and then as by the loop
 *                           input   pin     host  copy queue   copy       host      launch
 *
 * Whole nanoseconds, so that the pieces sum to the idle time exactly, whatever the records say.
 */
#include <stdlib.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/tune/diagnose/diagnose.h"

__extension__ typedef unsigned __int128 stk_wide;

/* What the last batches took to make, by cause; of EPOCH_START and ORDER nothing. Wide: nothing that records
 * may claim overflows it. */
typedef struct attribute_sums {
    stk_wide weight[STOKE_IDLE_INPUTS];
} attribute_sums;

/* ---- the union of intervals, and how much of it lies within another ---- */

void stk_cover_destroy(stk_cover *cover)
{
    stk_free(cover->part);
    stk_free(cover->before);
    *cover = (stk_cover){ 0 };
}

int stk_cover_create(stk_cover *cover, size_t room, stoke_error *err)
{
    *cover = (stk_cover){ .room = room };
    cover->part = stk_calloc(room, sizeof *cover->part);
    cover->before = stk_calloc(room, sizeof *cover->before);
    if (cover->part && cover->before) return STOKE_OK;
    stk_cover_destroy(cover);
    return stk_fail(err, STOKE_E_NOMEM, "no memory for %zu intervals", room);
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

/* The wait for input, divided by what the pipeline was doing over the last batches, not by what happened to
 * run during the wait: the last stage of a batch always does, whatever held the batch up. */

const int stk_idle_of_work[STOKE_WORK_KINDS] = {
    [STOKE_WORK_READ] = STOKE_IDLE_READ,       [STOKE_WORK_DECODE] = STOKE_IDLE_DECODE,
    [STOKE_WORK_FIT] = STOKE_IDLE_FIT,         [STOKE_WORK_AUGMENT] = STOKE_IDLE_AUGMENT,
    [STOKE_WORK_COLLATE] = STOKE_IDLE_COLLATE,
};

static attribute_sums weigh(const stoke_step_record *record)
{
    attribute_sums w = { 0 };
    for (int i = 0; i < STOKE_WORK_KINDS; i++) {
        const stoke_work_time *time = &record->making[i];
        const stk_wide on_cpu = (stk_wide)time->cpu_ns + time->queued_ns;
        w.weight[stk_idle_of_work[i]] += time->cpu_ns;
        w.weight[STOKE_IDLE_CONTENTION] += time->queued_ns;
        if (time->wall_ns > on_cpu) w.weight[STOKE_IDLE_FILES] += time->wall_ns - on_cpu;
    }
    w.weight[STOKE_IDLE_WINDOW] = record->window_ns;
    return w;
}

/* Weights cut to a sum below 2^63, so that their products with any ns are below 2^127. */
static uint64_t narrow(const attribute_sums *sums, uint64_t weight[STOKE_IDLE_INPUTS])
{
    stk_wide total = 0;
    unsigned shift = 0;
    for (int i = 0; i < STOKE_IDLE_INPUTS; i++) total += sums->weight[i];
    while (total >> shift >> 63) shift++;
    uint64_t narrow_total = 0;
    for (int i = 0; i < STOKE_IDLE_INPUTS; i++) {
        weight[i] = (uint64_t)(sums->weight[i] >> shift);
        narrow_total += weight[i];
    }
    return narrow_total;
}

/* Divides `ns` by the shares, to the nanosecond: added to row. 0 = the sums are empty, and row is as before.
 */
static int batch_times_divide(const attribute_sums *sums, uint64_t ns, uint64_t row[STOKE_IDLES])
{
    uint64_t weight[STOKE_IDLE_INPUTS], rest[STOKE_IDLE_INPUTS], left = ns;
    const uint64_t total = narrow(sums, weight);
    if (!total) return 0;
    for (int i = 0; i < STOKE_IDLE_INPUTS; i++) {
        const stk_wide product = (stk_wide)ns * weight[i];
        const uint64_t share = (uint64_t)(product / total);
        rest[i] = (uint64_t)(product % total);
        row[i] += share;
        left -= share;
    }
    for (; left; left--) { /* fewer than there are causes: the largest remainders get one each */
        int most = 0;
        for (int i = 1; i < STOKE_IDLE_INPUTS; i++)
            if (rest[i] > rest[most]) most = i;
        row[most]++;
        rest[most] = 0;
    }
    return 1;
}

enum { POINTS = 8, INPUT = -1 };

typedef struct point {
    uint64_t at;
    int cause; /* of the time up to it */
    int known;
} point;

typedef struct chain {
    point point[POINTS];
    int n;
} chain;

typedef struct attributing {
    const stoke_step_record *records;
    size_t n, from;
    const stoke_setup *setup;
    stk_cover busy;        /* within the window */
    uint64_t *later_ready; /* the first time that any batch after this one was ready */
    attribute_sums sums;
    uint64_t unknown_after[STOKE_IDLES]; /* ns */
    stoke_attribution *out;
} attributing;

static uint64_t clamp(uint64_t x, uint64_t low, uint64_t high)
{
    return x < low ? low : stk_least(x, high);
}

/* Sums that hostile records can drive over the edge stay at it. */
static void add_up(uint64_t *sum, uint64_t ns)
{
    *sum = ns > UINT64_MAX - *sum ? UINT64_MAX : *sum + ns;
}

/* ---- the chain of a step ---- */

static void add_point(chain *c, uint64_t at, int cause)
{
    c->point[c->n++] = (point){ .at = at, .cause = cause, .known = at != 0 };
}

/* ready: of this batch and all before it, since batches come in order. */
static chain chain_of(const stoke_step_record *record, const stoke_setup *setup, uint64_t ready)
{
    const int by_loop = setup->transfer != STOKE_TRANSFER_STREAM;
    chain c = { 0 };
    /* Ours has a thread for copies that makes batches when there are no workers; in PyTorch the loop does. */
    if (!setup->workers && (by_loop || setup->by_batch)) add_point(&c, record->asked, STOKE_IDLE_HOST);
    add_point(&c, ready, INPUT);
    if (record->pin_start || record->pin_end) add_point(&c, record->pin_end, STOKE_IDLE_PIN);
    if (by_loop) add_point(&c, record->got, STOKE_IDLE_HOST);
    if (record->copy_start || record->copy_end || record->copy_bytes) { /* else nothing had to be copied */
        add_point(&c, record->copy_start, STOKE_IDLE_COPY_QUEUE);
        add_point(&c, record->copy_end, STOKE_IDLE_COPY);
    }
    add_point(&c, record->launched, STOKE_IDLE_HOST);
    add_point(&c, record->start, STOKE_IDLE_LAUNCH);
    return c;
}

/* Into the gap and in order. Where moments contradict each other the later in the chain wins: those are the
 * device's own, and `got` of a loop that waits for its copy comes after the copy. Only a launch is put behind
 * what it has to wait for: loops that do not wait launch long before the copy has ended. */
static void straighten(chain *c, uint64_t low, uint64_t high)
{
    const int launched = c->n - 2;
    uint64_t next = high, last = low;
    for (int i = c->n - 1; i >= 0; i--) c->point[i].at = clamp(c->point[i].at, low, high);
    for (int i = launched - 1; i >= 0; i--) {
        point *p = &c->point[i];
        if (!p->known) continue;
        p->at = next = stk_least(p->at, next);
        last = stk_most(last, p->at);
    }
    c->point[launched].at = stk_most(c->point[launched].at, last);
    c->point[c->n - 1].at = high;
}

/* ---- pieces ---- */

static uint64_t idle_within(const attributing *a, uint64_t start, uint64_t end)
{
    return end - start - stk_cover_within(&a->busy, start, end);
}

static void add_unknown(attributing *a, uint64_t *row, int after, uint64_t ns)
{
    row[STOKE_IDLE_UNKNOWN] += ns;
    a->unknown_after[after] += ns;
}

static void divide_input(attributing *a, size_t i, uint64_t start, uint64_t end, uint64_t *row)
{
    const int can_overtake = a->setup->workers > 1;
    const uint64_t ns = idle_within(a, start, end);
    uint64_t out_of_order = 0;
    if (a->records[i].first_of_epoch) {
        row[STOKE_IDLE_EPOCH_START] += ns;
        return;
    }
    if (can_overtake && a->later_ready[i] < end)
        out_of_order = idle_within(a, stk_most(start, a->later_ready[i]), end);
    row[STOKE_IDLE_ORDER] += out_of_order;
    /* Nothing is known of its making: the wait is one after the step before. */
    if (!batch_times_divide(&a->sums, ns - out_of_order, row))
        add_unknown(a, row, STOKE_IDLE_INSIDE, ns - out_of_order);
}

static void divide_gap(attributing *a, size_t i, chain *c, uint64_t low, uint64_t high, uint64_t *row)
{
    int after = STOKE_IDLE_INSIDE, missing = 0;
    uint64_t at = low;
    straighten(c, low, high);
    for (int k = 0; k < c->n; k++) {
        const point *p = &c->point[k];
        if (!p->known) {
            missing = 1;
            continue;
        }
        if (missing)
            add_unknown(a, row, after, idle_within(a, at, p->at));
        else if (p->cause == INPUT)
            divide_input(a, i, at, p->at, row);
        else
            row[p->cause] += idle_within(a, at, p->at);
        /* What a missing moment comes after: the last part of making a batch stands for all of it. */
        after = p->cause == INPUT ? STOKE_IDLE_COLLATE : p->cause;
        at = p->at;
        missing = 0;
    }
}

/* Gaps inside a step: of what it has after the end of the one before. busy_ns 0: not known, taken as none. */
static uint64_t holes(const stoke_step_record *record, uint64_t before)
{
    const uint64_t length = record->end - record->start;
    const uint64_t busy = record->busy_ns ? stk_least(record->busy_ns, length) : length;
    return stk_least(length - busy, record->end - stk_most(record->start, before));
}

static void take_in(attributing *a, size_t i, uint64_t ready, uint64_t row[STOKE_IDLES])
{
    const stoke_step_record *record = &a->records[i];
    const uint64_t before = a->records[i - 1].end;
    if (record->start > before) {
        chain c = chain_of(record, a->setup, ready);
        divide_gap(a, i, &c, before, record->start, row);
    }
    row[STOKE_IDLE_INSIDE] += holes(record, before);
    if (record->asked && record->got > record->asked) add_up(&a->out->fetch_ns, record->got - record->asked);
}

/* ---- the whole ---- */

static int check(const stoke_step_record *records, size_t n, size_t from, const stoke_setup *setup,
                 stoke_error *err)
{
    if (setup->struct_size != sizeof *setup) return stk_fail_struct(err, "stoke_setup_defaults");
    if (!from || from >= n)
        return stk_fail(
            err, STOKE_E_INVALID,
            "step %zu of %zu cannot be the first: the one before gives the beginning, so at least "
            "two are needed",
            from, n);
    for (size_t i = from - 1; i < n; i++) {
        const stoke_step_record *record = &records[i];
        if (!record->end || (i >= from && !record->start))
            return stk_fail(err, STOKE_E_INVALID, "record %zu lacks the start or the end of its step", i);
        if (i >= from && (record->start > record->end || record->end < records[i - 1].end))
            return stk_fail(err, STOKE_E_INVALID,
                            "record %zu is not in order: its step ends before it starts, or before the step "
                            "of the record before it",
                            i);
    }
    return STOKE_OK;
}

/* Steps and kernels, cut to the window. */
static int unite_busy(attributing *a, uint64_t low, uint64_t high, stoke_error *err)
{
    size_t room;
    if (!stk_mul(a->n, 2, &room)) return stk_fail(err, STOKE_E_NOMEM, "no memory for %zu steps", a->n);
    const int r = stk_cover_create(&a->busy, room, err);
    if (r) return r;
    for (size_t i = 0; i < a->n; i++) {
        const stoke_step_record *record = &a->records[i];
        if (record->augment_start)
            stk_cover_add(&a->busy, clamp(record->augment_start, low, high),
                          clamp(record->augment_end, low, high));
        if (i >= a->from)
            stk_cover_add(&a->busy, clamp(record->start, low, high), clamp(record->end, low, high));
    }
    stk_cover_unite(&a->busy);
    return STOKE_OK;
}

/* Copies and kernels, as far as they lie in the window. */
static void sum_work(const attributing *a, uint64_t low, uint64_t high)
{
    stoke_attribution *out = a->out;
    for (size_t i = 0; i < a->n; i++) {
        const stoke_step_record *record = &a->records[i];
        const uint64_t start = clamp(record->copy_start, low, high), end = clamp(record->copy_end, low, high);
        const uint64_t kernels = clamp(record->augment_start, low, high);
        const uint64_t kernels_end = clamp(record->augment_end, low, high);
        if (record->copy_start && start < end) {
            add_up(&out->copy_ns, end - start);
            add_up(&out->overlapped_copy_ns, stk_cover_within(&a->busy, start, end));
        }
        if (record->augment_start && kernels < kernels_end) add_up(&out->augment_ns, kernels_end - kernels);
    }
}

static void go_through(attributing *a, uint64_t (*per_step)[STOKE_IDLES])
{
    const size_t window = a->setup->prefetch ? a->setup->prefetch : 1;
    uint64_t ready = 0;
    for (size_t i = 0; i < a->n; i++) {
        uint64_t row[STOKE_IDLES] = { 0 };
        ready = stk_most(ready, a->records[i].ready);
        const attribute_sums comes = weigh(&a->records[i]);
        const attribute_sums leaves = i >= window ? weigh(&a->records[i - window]) : (attribute_sums){ 0 };
        for (int k = 0; k < STOKE_IDLE_INPUTS; k++) a->sums.weight[k] += comes.weight[k] - leaves.weight[k];
        if (i < a->from) continue;
        take_in(a, i, a->records[i].ready ? ready : 0, row);
        for (int k = 0; k < STOKE_IDLES; k++) {
            a->out->idle[k] += row[k];
            if (per_step) per_step[i - a->from][k] = row[k];
        }
    }
}

static int close_books(attributing *a, uint64_t low, uint64_t high, stoke_error *err)
{
    stoke_attribution *out = a->out;
    uint64_t sum = 0, longest = 0;
    out->steps = a->n - a->from;
    out->elapsed_ns = high - low;
    out->busy_ns = stk_cover_within(&a->busy, low, high) - out->idle[STOKE_IDLE_INSIDE];
    out->idle_ns = out->elapsed_ns - out->busy_ns;
    out->unknown_after = -1;
    for (int k = 0; k < STOKE_IDLES; k++) {
        sum += out->idle[k];
        if (k < STOKE_IDLE_INPUTS) out->input_ns += out->idle[k];
        if (a->unknown_after[k] > longest) {
            longest = a->unknown_after[k];
            out->unknown_after = k;
        }
    }
    if (sum == out->idle_ns) return STOKE_OK;
    return stk_fail(err, STOKE_E_STATE,
                    "causes sum to %llu ns of %llu ns idle: a fault of this library, please report it",
                    (unsigned long long)sum, (unsigned long long)out->idle_ns);
}

int stoke_attribute(const stoke_step_record *records, size_t n, size_t from, const stoke_setup *setup,
                    stoke_attribution *out, uint64_t (*per_step)[STOKE_IDLES], stoke_error *err)
{
    attributing a = { .records = records, .n = n, .from = from, .setup = setup, .out = out };
    *out = (stoke_attribution){ .unknown_after = -1 };
    int r = check(records, n, from, setup, err);
    if (r) return r;
    const uint64_t low = records[from - 1].end, high = records[n - 1].end;
    r = unite_busy(&a, low, high, err);
    if (!r && !(a.later_ready = stk_calloc(n, sizeof *a.later_ready)))
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for %zu steps", n);
    if (!r) {
        uint64_t first = UINT64_MAX;
        for (size_t i = n; i-- > 0;) {
            a.later_ready[i] = first;
            if (records[i].ready) first = stk_least(first, records[i].ready);
        }
        go_through(&a, per_step);
        sum_work(&a, low, high);
        r = close_books(&a, low, high, err);
    }
    stk_free(a.later_ready);
    stk_cover_destroy(&a.busy);
    return r;
}
