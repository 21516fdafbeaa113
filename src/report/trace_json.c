/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace in Chrome's format, which Perfetto reads too: groups are its processes, lanes its threads, spans
 * complete events (ph X). Times are microseconds after the first span, exact to the ns. One event a line.
 */
#include "src/report/trace.h"

#include <stdio.h>
#include <string.h>

#include <stoke/tools/output.h>
#include <stoke/tools/report.h>

#include "src/base/file.h"

/* The first lane of the same group stands for the process. Numbers begin at 1: 0 is special to some readers.
 */
static uint32_t process_of(const stk_trace_sheet *sheet, uint32_t lane)
{
    uint32_t first = 0;
    while (strcmp(sheet->lanes[first]->group, sheet->lanes[lane]->group) != 0) first++;
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
    const stk_trace_lane *l = sheet->lanes[lane];
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
    stoke_json_string(&json, "times", sheet->lanes[span->lane]->emulated ? "emulated" : "measured");
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
    stk_atomic_file file;
    int status = stk_sheet_make(&sheet, trace, err);
    if (status) return status;
    status = stk_atomic_open(&file, path, err);
    if (!status) {
        put_sheet(file.stream, &sheet);
        status = stk_atomic_commit(&file, err);
    }
    stk_sheet_free(&sheet);
    return status;
}
