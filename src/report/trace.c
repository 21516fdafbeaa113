/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording. A span takes the next place of an array by one atomic addition and is seen by readers when its
 * lane is stored: no lock, no allocation, and a writer may run while others still record.
 */
#include "src/report/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include <stoke/tools/output.h>
#include <stoke/tools/report.h>

typedef struct place {
    const char *what;
    uint64_t start, end;
    int64_t number;
    atomic_uint lane_and_one; /* 0: not written yet */
} place;

struct stoke_trace {
    size_t capacity;
    atomic_size_t next; /* runs on past the capacity: that many were dropped */
    place *places;
    pthread_mutex_t lock; /* of the lanes */
    stk_trace_lane *lanes;
    size_t lane_capacity;
    stk_string_arena names;
    atomic_uint n_lanes;
};

int stoke_trace_create(stoke_trace **out, size_t spans, stoke_error *err)
{
    stoke_trace *trace = stk_calloc(1, sizeof *trace);
    *out = NULL;
    if (trace) trace->places = stk_calloc(spans ? spans : 1, sizeof *trace->places);
    if (!trace || !trace->places || pthread_mutex_init(&trace->lock, NULL)) {
        if (trace) stk_free(trace->places);
        stk_free(trace);
        return stk_fail(err, STOKE_E_NOMEM, "out of memory for a trace of %zu spans: ask for fewer", spans);
    }
    trace->capacity = spans;
    *out = trace;
    return STOKE_OK;
}

uint64_t stk_trace_bytes(const stoke_trace *trace, uint64_t spans)
{
    const uint64_t most = spans < trace->capacity ? spans : trace->capacity;
    return most * (sizeof(place) + sizeof(stk_trace_span));
}

void stoke_trace_destroy(stoke_trace **out)
{
    stoke_trace *trace = *out;
    *out = NULL;
    if (!trace) return;
    stk_string_arena_free(&trace->names);
    stk_free(trace->lanes);
    stk_free(trace->places);
    pthread_mutex_destroy(&trace->lock);
    stk_free(trace);
}

static int add_lane(stoke_trace *trace, const char *group, const char *name, int emulated)
{
    const unsigned n = trace->n_lanes;
    const stk_trace_lane lane = { stk_string_arena_copy(&trace->names, group, strlen(group)),
                                  stk_string_arena_copy(&trace->names, name, strlen(name)), emulated != 0 };
    if (!lane.group || !lane.name || n >= INT32_MAX ||
        !stk_grow((void **)&trace->lanes, &trace->lane_capacity, n + 1, sizeof *trace->lanes))
        return STOKE_E_NOMEM;
    trace->lanes[n] = lane;
    trace->n_lanes = n + 1;
    return (int)n;
}

int stoke_trace_lane(stoke_trace *trace, const char *group, const char *name, int emulated)
{
    int found = -1;
    pthread_mutex_lock(&trace->lock);
    for (unsigned i = 0; i < trace->n_lanes && found < 0; i++)
        if (!strcmp(trace->lanes[i].group, group) && !strcmp(trace->lanes[i].name, name)) found = (int)i;
    if (found < 0) found = add_lane(trace, group, name, emulated);
    pthread_mutex_unlock(&trace->lock);
    return found;
}

void stoke_trace_span(stoke_trace *trace, int lane, const char *what, uint64_t start_ns, uint64_t end_ns,
                      int64_t number)
{
    if (lane < 0 || (unsigned)lane >= atomic_load_explicit(&trace->n_lanes, memory_order_relaxed)) return;
    const size_t at = atomic_fetch_add_explicit(&trace->next, 1, memory_order_relaxed);
    if (at >= trace->capacity) return;
    place *p = &trace->places[at];
    p->what = what;
    p->start = start_ns;
    p->end = end_ns > start_ns ? end_ns : start_ns;
    p->number = number;
    atomic_store_explicit(&p->lane_and_one, (unsigned)lane + 1, memory_order_release);
}

size_t stoke_trace_dropped(const stoke_trace *trace)
{
    const size_t next = atomic_load_explicit(&trace->next, memory_order_relaxed);
    return next > trace->capacity ? next - trace->capacity : 0;
}

/* ---- in order ---- */

static int by_lane_and_start(const void *a, const void *b)
{
    const stk_trace_span *x = a, *y = b;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->end != y->end) return x->end > y->end ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* A span that begins before the one before it has ended goes one row down: kernels of two streams may run at
 * once. Less than a microsecond is two clocks that do not quite agree: the span begins that much later. */
static void give_rows(stk_trace_sheet *sheet)
{
    enum { SLACK_NS = 1000 };
    uint64_t end[STK_TRACE_ROWS] = { 0 };
    for (size_t i = 0; i < sheet->count; i++) {
        stk_trace_span *s = &sheet->spans[i];
        if (!i || s->lane != s[-1].lane) memset(end, 0, sizeof end);
        uint32_t row = 0;
        while (row + 1 < STK_TRACE_ROWS && end[row] > s->start && end[row] - s->start > SLACK_NS) row++;
        if (end[row] > s->start && end[row] - s->start <= SLACK_NS) {
            s->start = end[row];
            if (s->end < s->start) s->end = s->start;
        }
        s->row = row;
        if (s->end > end[row]) end[row] = s->end;
        if (row >= sheet->rows[s->lane]) sheet->rows[s->lane] = row + 1;
    }
}

/* Lanes of one group stand together, where the first of them does; map[lane] = its place in the sheet. */
static void order_lanes(stk_trace_sheet *sheet, const stk_trace_lane *lanes, uint32_t *map)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < sheet->n_lanes; i++) map[i] = UINT32_MAX;
    for (uint32_t i = 0; i < sheet->n_lanes; i++) {
        if (map[i] != UINT32_MAX) continue;
        for (uint32_t k = i; k < sheet->n_lanes; k++) {
            if (strcmp(lanes[k].group, lanes[i].group) != 0) continue;
            sheet->lanes[at] = lanes[k];
            sheet->rows[at] = 1;
            map[k] = at++;
        }
    }
}

static void copy_spans(stk_trace_sheet *sheet, const stoke_trace *trace, size_t most, const uint32_t *map)
{
    for (size_t i = 0; i < most; i++) {
        const place *p = &trace->places[i];
        const unsigned lane = atomic_load_explicit(&p->lane_and_one, memory_order_acquire);
        if (!lane || lane > sheet->n_lanes) continue;
        sheet->spans[sheet->count++] =
            (stk_trace_span){ p->what, p->start, p->end, p->number, map[lane - 1], 0 };
    }
    if (sheet->count) qsort(sheet->spans, sheet->count, sizeof *sheet->spans, by_lane_and_start);
    for (size_t i = 0; i < sheet->count; i++) {
        const stk_trace_span *s = &sheet->spans[i];
        if (!i || s->start < sheet->start) sheet->start = s->start;
        if (s->end > sheet->end) sheet->end = s->end;
    }
}

int stk_sheet_make(stk_trace_sheet *sheet, const stoke_trace *trace, stoke_error *err)
{
    /* Taken by readers too: that the trace is const tells callers that their spans stay as they are. */
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&trace->lock;
    const size_t next = atomic_load_explicit(&trace->next, memory_order_relaxed);
    const size_t most = next < trace->capacity ? next : trace->capacity;
    pthread_mutex_lock(lock);
    const uint32_t n = trace->n_lanes;
    uint32_t *map = stk_calloc(n, sizeof *map);
    *sheet = (stk_trace_sheet){ .spans = stk_calloc(most, sizeof *sheet->spans),
                                .lanes = stk_calloc(n, sizeof *sheet->lanes),
                                .rows = stk_calloc(n, sizeof *sheet->rows),
                                .n_lanes = n,
                                .dropped = next - most };
    const int enough = map && sheet->spans && sheet->lanes && sheet->rows;
    if (enough) order_lanes(sheet, trace->lanes, map);
    pthread_mutex_unlock(lock);
    if (enough) {
        copy_spans(sheet, trace, most, map);
        give_rows(sheet);
    }
    stk_free(map);
    if (enough) return STOKE_OK;
    stk_sheet_free(sheet);
    return stk_fail(err, STOKE_E_NOMEM, "out of memory for writing a trace of %zu spans", most);
}

void stk_sheet_free(stk_trace_sheet *sheet)
{
    stk_free(sheet->spans);
    stk_free(sheet->lanes);
    stk_free(sheet->rows);
    *sheet = (stk_trace_sheet){ 0 };
}

/* ---- JSON ---- */

/* A trace in Chrome's format, which Perfetto reads too: groups are its processes, lanes its threads, spans
 * complete events (ph X). Times are microseconds after the first span, exact to the ns. One event a line. */

/* The first lane of the same group stands for the process. Numbers begin at 1: 0 is special to some readers.
 */
static uint32_t process_of(const stk_trace_sheet *sheet, uint32_t lane)
{
    uint32_t first = 0;
    while (strcmp(sheet->lanes[first].group, sheet->lanes[lane].group) != 0) first++;
    return first + 1;
}

static uint32_t thread_of(uint32_t lane, uint32_t row)
{
    return lane * STK_TRACE_ROWS + row + 1;
}

typedef struct events {
    FILE *out;
    int any; /* one was written: a comma before the next */
} events;

/* thread 0: of the process as a whole. */
static void begin_event(events *e, stoke_json *json, const char *kind, const char *name, uint32_t process,
                        uint32_t thread)
{
    if (e->any) fputc(',', e->out);
    e->any = 1;
    stoke_json_begin(json, e->out, 0);
    stoke_json_object(json, NULL);
    stoke_json_string(json, "ph", kind);
    stoke_json_string(json, "name", name);
    stoke_json_uint(json, "pid", process);
    if (thread) stoke_json_uint(json, "tid", thread);
}

/* name NULL: where it stands, by rising `order`. */
static void put_name(events *e, const char *key, uint32_t process, uint32_t thread, const char *name,
                     uint32_t order)
{
    stoke_json json;
    begin_event(e, &json, "M", key, process, thread);
    stoke_json_object(&json, "args");
    if (name)
        stoke_json_string(&json, "name", name);
    else
        stoke_json_uint(&json, "sort_index", order);
    stoke_json_close(&json);
    stoke_json_close(&json);
}

static void put_lane(events *e, const stk_trace_sheet *sheet, uint32_t lane)
{
    const stk_trace_lane *l = &sheet->lanes[lane];
    const uint32_t process = process_of(sheet, lane);
    if (process == lane + 1) {
        put_name(e, "process_name", process, 0, l->group, 0);
        put_name(e, "process_sort_index", process, 0, NULL, process);
    }
    for (uint32_t row = 0; row < sheet->rows[lane]; row++) {
        char name[256], turn[16] = "";
        if (row) snprintf(turn, sizeof turn, " %u", row + 1);
        snprintf(name, sizeof name, "%.200s%s%s", l->name, turn, l->emulated ? " (emulated)" : "");
        put_name(e, "thread_name", process, thread_of(lane, row), name, 0);
        put_name(e, "thread_sort_index", process, thread_of(lane, row), NULL, thread_of(lane, row));
    }
}

static void put_span(events *e, const stk_trace_sheet *sheet, const stk_trace_span *span)
{
    stoke_json json;
    begin_event(e, &json, "X", span->what, process_of(sheet, span->lane), thread_of(span->lane, span->row));
    stoke_json_real(&json, "ts", (double)(span->start - sheet->start) / 1000);
    stoke_json_real(&json, "dur", (double)(span->end - span->start) / 1000);
    stoke_json_object(&json, "args");
    if (span->number >= 0) stoke_json_int(&json, "batch", span->number);
    stoke_json_string(&json, "times", sheet->lanes[span->lane].emulated ? "emulated" : "measured");
    stoke_json_close(&json);
    stoke_json_close(&json);
}

static void put_sheet(FILE *out, const stk_trace_sheet *sheet)
{
    stoke_json json;
    fputs("{\"displayTimeUnit\": \"ms\",\n\"otherData\": ", out);
    stoke_json_begin(&json, out, 0);
    stoke_json_object(&json, NULL);
    stoke_json_string(&json, "comment", STOKE_OUTPUT_MARK);
    stoke_json_string(&json, "program", "stokehold");
    stoke_json_string(&json, "version", stoke_version());
    stoke_json_string(&json, "clock", "CLOCK_MONOTONIC");
    stoke_json_uint(&json, "origin_ns", sheet->start);
    stoke_json_uint(&json, "dropped_spans", sheet->dropped);
    stoke_json_close(&json);
    fputs(",\"traceEvents\": [\n", out);
    events e = { out, 0 };
    for (uint32_t lane = 0; lane < sheet->n_lanes; lane++) put_lane(&e, sheet, lane);
    for (size_t i = 0; i < sheet->count; i++) put_span(&e, sheet, &sheet->spans[i]);
    fputs("]}\n", out);
}

int stoke_trace_write_json(const stoke_trace *trace, const char *path, stoke_error *err)
{
    stk_trace_sheet sheet;
    stoke_output file;
    int status = stk_sheet_make(&sheet, trace, err);
    if (status) return status;
    status = stoke_output_open(&file, path, err);
    if (!status) {
        put_sheet(file.stream, &sheet);
        status = stoke_output_commit(&file, err);
    }
    stk_sheet_free(&sheet);
    return status;
}
