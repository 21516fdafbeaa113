/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"
#include "tests/unit/fixture_markup.h"

#include <pthread.h>

#include <stoke/tools/trace.h>

#include "src/base/file.h"
#include "src/base/json_read.h"
#include "src/base/mem.h"
#include "src/report/trace.h"

enum { US = 1000, MS = 1000000 };

static stoke_trace *new_trace(size_t spans)
{
    stoke_trace *trace = NULL;
    stoke_error err;
    if (stoke_trace_create(&trace, spans, &err)) fail_msg("%s", err.message);
    return trace;
}

/* A file as text, from the heap of the C library. */
static char *text_of(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(64 << 20);
    assert_non_null(f);
    assert_non_null(text);
    *size = fread(text, 1, (64 << 20) - 1, f);
    text[*size] = 0;
    fclose(f);
    return text;
}

static char *svg_of(void **state, const stoke_trace *trace, const char *title, uint64_t start,
                    uint64_t length, size_t *size)
{
    const char *path = unit_path(state, "t.svg");
    stoke_error err;
    if (stoke_trace_write_svg(trace, path, title, start, length, &err)) fail_msg("%s", err.message);
    return text_of(path, size);
}

/* Two workers, a copy engine, a compute engine: an upload as one would draw it. */
static stoke_trace *usual_trace(void)
{
    stoke_trace *trace = new_trace(1000);
    const uint64_t t = UINT64_C(5000000000);
    int workers[2], compute = -1, copies = -1, consumer = -1;
    workers[0] = stoke_trace_lane(trace, "host", "worker 1", 0);
    workers[1] = stoke_trace_lane(trace, "host", "worker 2", 0);
    copies = stoke_trace_lane(trace, "sim:rtx3090", "copy engine", 1);
    compute = stoke_trace_lane(trace, "sim:rtx3090", "compute engine", 1);
    consumer = stoke_trace_lane(trace, "host", "consumer", 0); /* joins its group */
    for (int i = 0; i < 10; i++) {
        const uint64_t at = t + (uint64_t)i * 100 * MS;
        for (int w = 0; w < 2; w++) {
            stoke_trace_span(trace, workers[w], "decode", at + (uint64_t)w * MS, at + 60 * MS, 2 * i + w);
            stoke_trace_span(trace, workers[w], "augment", at + 60 * MS, at + 80 * MS, 2 * i + w);
        }
        stoke_trace_span(trace, copies, "copy", at + 10 * MS, at + 15 * MS, i + 1);
        stoke_trace_span(trace, compute, "step", at, at + 90 * MS, i);
        stoke_trace_span(trace, consumer, "wait for the batch", at + 1 * MS, at + 100 * MS, i);
    }
    return trace;
}

/* ---- recording ---- */

static void lanes_are_made_once(void **state)
{
    stoke_trace *trace = new_trace(2);
    const int a = stoke_trace_lane(trace, "host", "worker", 0),
              b = stoke_trace_lane(trace, "device", "worker", 1);
    assert_int_equal(a, 0);
    assert_int_equal(b, 1);
    assert_int_equal(stoke_trace_lane(trace, "host", "worker", 0), a);
    stoke_trace_span(trace, a, "x", 1, 2, -1);
    stoke_trace_span(trace, -1, "nowhere", 1, 2, -1); /* what a lane that could not be made gives */
    stoke_trace_span(trace, 7, "nowhere", 1, 2, -1);
    assert_int_equal(stoke_trace_dropped(trace), 0);
    stoke_trace_span(trace, b, "y", 1, 2, -1);
    stoke_trace_span(trace, b, "z", 1, 2, -1);
    stoke_trace_span(trace, b, "z", 1, 2, -1);
    assert_int_equal(stoke_trace_dropped(trace), 2);
    stoke_trace_destroy(&trace);
    assert_null(trace);
    stoke_trace_destroy(&trace);
}

enum { THREADS = 4, EACH = 5000 };

typedef struct recorder {
    stoke_trace *trace;
    int number;
} recorder;

static void *record(void *context)
{
    const recorder *r = context;
    char name[32];
    snprintf(name, sizeof name, "worker %d", r->number);
    const int lane = stoke_trace_lane(r->trace, "host", name, 0);
    for (int i = 0; i < EACH; i++)
        stoke_trace_span(r->trace, lane, "work", (uint64_t)i * 10, (uint64_t)i * 10 + (uint64_t)r->number, i);
    return NULL;
}

/* Whatever is seen while others record is whole; afterwards nothing is missing. */
static void threads_record_without_a_lock(void **state)
{
    stoke_trace *trace = new_trace(THREADS * EACH);
    pthread_t thread[THREADS];
    recorder r[THREADS];
    stk_trace_sheet sheet;
    stoke_error err;
    for (int i = 0; i < THREADS; i++) {
        r[i] = (recorder){ trace, i + 1 };
        assert_int_equal(pthread_create(&thread[i], NULL, record, &r[i]), 0);
    }
    for (int k = 0; k < 3; k++) {
        assert_int_equal(stk_sheet_make(&sheet, trace, &err), STOKE_OK);
        for (size_t i = 0; i < sheet.count; i++) {
            const stk_trace_span *s = &sheet.spans[i];
            assert_string_equal(s->what, "work");
            assert_int_equal(s->end - s->start, atoi(sheet.lanes[s->lane].name + 7));
        }
        stk_sheet_free(&sheet);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert_int_equal(stk_sheet_make(&sheet, trace, &err), STOKE_OK);
    assert_int_equal(sheet.count, THREADS * EACH);
    for (size_t i = 0; i < sheet.count; i++) assert_int_equal(sheet.spans[i].number, i % EACH);
    assert_int_equal(sheet.dropped, 0);
    stk_sheet_free(&sheet);
    stoke_trace_destroy(&trace);
}

static void spans_at_once_get_rows(void **state)
{
    stoke_trace *trace = new_trace(10);
    stk_trace_sheet sheet;
    stoke_error err;
    const int lane = stoke_trace_lane(trace, "device", "compute", 0);
    stoke_trace_span(trace, lane, "augment", 40 * US, 60 * US, 2); /* while step 1 runs */
    stoke_trace_span(trace, lane, "step", 0, 50 * US, 1);
    stoke_trace_span(trace, lane, "step", 50 * US - 300, 90 * US,
                     2);                                        /* clocks differ by 0.3 us: not at once */
    stoke_trace_span(trace, lane, "step", 90 * US, 80 * US, 3); /* ends before it begins: no length */
    assert_int_equal(stk_sheet_make(&sheet, trace, &err), STOKE_OK);
    assert_int_equal(sheet.rows[0], 2);
    const uint32_t row[] = { 0, 1, 0, 0 };
    const uint64_t start[] = { 0, 40 * US, 50 * US, 90 * US };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sheet.spans[i].row, row[i]);
        assert_int_equal(sheet.spans[i].start, start[i]);
        assert_true(sheet.spans[i].end >= start[i]);
    }
    stk_sheet_free(&sheet);
    stoke_trace_destroy(&trace);
}

/* ---- JSON ---- */

static const char *text_at(const stk_json *json, const stk_json_value *object, const char *key)
{
    const char *text = stk_json_text(json, stk_json_find(json, object, key));
    if (!text) fail_msg("no %s", key);
    return text;
}

static double real_at(const stk_json *json, const stk_json_value *object, const char *key)
{
    double value;
    if (!stk_json_real(json, stk_json_find(json, object, key), &value)) fail_msg("no %s", key);
    return value;
}

/* The keys that Chrome's format documents: ph, name, pid, tid, ts and dur in microseconds, args; names and
 * order of processes and threads as metadata events. */
static void json_is_chromes(void **state)
{
    stoke_trace *trace = usual_trace();
    const char *path = unit_path(state, "t.json");
    stoke_error err;
    stk_json json;
    size_t size, spans = 0, processes = 0, threads = 0;
    int emulated = 0;
    assert_int_equal(stoke_trace_write_json(trace, path, &err), STOKE_OK);
    char *text = text_of(path, &size);
    if (stk_json_read(&json, text, size, STK_JSON_VALUES, &err)) fail_msg("%s", err.message);
    const stk_json_value *events = stk_json_find(&json, json.values, "traceEvents");
    const stk_json_value *other = stk_json_find(&json, json.values, "otherData");
    assert_string_equal(text_at(&json, other, "clock"), "CLOCK_MONOTONIC");
    assert_string_equal(text_at(&json, other, "origin_ns"), "5000000000");
    for (const stk_json_value *e = stk_json_first(&json, events); e; e = stk_json_next(&json, e)) {
        const stk_json_value *args = stk_json_find(&json, e, "args");
        const char *name = text_at(&json, e, "name");
        assert_true(real_at(&json, e, "pid") > 0);
        if (!strcmp(text_at(&json, e, "ph"), "X")) {
            spans++;
            assert_true(real_at(&json, e, "tid") > 0);
            assert_true(real_at(&json, e, "ts") >= 0);
            if (!strcmp(name, "step") && real_at(&json, args, "batch") == 3) {
                assert_true(real_at(&json, e, "ts") == 300000);
                assert_true(real_at(&json, e, "dur") == 90000);
                assert_string_equal(text_at(&json, args, "times"), "emulated");
            }
            if (!strcmp(name, "decode")) assert_string_equal(text_at(&json, args, "times"), "measured");
            continue;
        }
        assert_string_equal(text_at(&json, e, "ph"), "M");
        processes += !strcmp(name, "process_name");
        if (!strcmp(name, "thread_name")) {
            threads++;
            emulated += !strcmp(text_at(&json, args, "name"), "compute engine (emulated)");
        } else if (strstr(name, "sort_index")) {
            assert_true(real_at(&json, args, "sort_index") > 0);
        }
    }
    assert_int_equal(spans, 70);
    assert_int_equal(processes, 2);
    assert_int_equal(threads, 5);
    assert_int_equal(emulated, 1);
    stk_json_free(&json);
    free(text);
    stoke_trace_destroy(&trace);
}

static void json_survives_odd_names_and_nothing(void **state)
{
    stoke_trace *trace = new_trace(1);
    const char *path = unit_path(state, "t.json");
    stoke_error err;
    stk_json json;
    size_t size;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stoke_trace_write_json(trace, path, &err), STOKE_OK);
        char *text = text_of(path, &size);
        if (stk_json_read(&json, text, size, STK_JSON_VALUES, &err)) fail_msg("%s", err.message);
        stk_json_free(&json);
        free(text);
        const int lane = stoke_trace_lane(trace, "a \"group\"\n\xff", "\\ \t\x01", i);
        stoke_trace_span(trace, lane, "\"what\" \xc3", 1, UINT64_MAX, INT64_MAX);
    }
    stoke_trace_destroy(&trace);
}

/* ---- SVG ---- */

static void the_picture_tells_the_story(void **state)
{
    stoke_trace *trace = usual_trace();
    size_t size;
    char *text = svg_of(state, trace, "Feeding an <RTX 3090>", 0, 0, &size);
    assert_well_formed(text);
    assert_non_null(strstr(text, ">Feeding an &lt;RTX 3090&gt;</text>"));
    assert_non_null(strstr(text, "width=\"1200\""));
    /* Groups once each, lanes with what they are, the colours' meaning. */
    assert_int_equal(count_of(text, ">host</text>"), 1);
    assert_int_equal(count_of(text, ">sim:rtx3090</text>"), 1);
    assert_int_equal(count_of(text, ">compute engine (emulated)</text>"), 1);
    assert_int_equal(count_of(text, ">worker 2</text>"), 1);
    assert_int_equal(count_of(text, ">decode</text>"), 1);
    assert_int_equal(count_of(text, ">waiting</text>"), 1);
    assert_non_null(strstr(text, "emulated: times of a model, not measured."));
    assert_non_null(strstr(text, ">step 3</text>"));
    assert_non_null(strstr(text, "<title>step, batch 3: 90.0 ms, 300.0 ms after the start</title>"));
    assert_non_null(strstr(text, ">ms</text>"));
    assert_non_null(strstr(text, ">800</text>"));
    /* Idle: 10 of 100 ms for the steps, 95 for copies, all of it for one who waits. */
    assert_non_null(strstr(text, ">10.0 %</text>"));
    assert_non_null(strstr(text, ">95.0 %</text>"));
    assert_non_null(strstr(text, ">100.0 %</text>"));
    free(text);
    /* Half a step: what lies outside is not there, what reaches in is cut. */
    text = svg_of(state, trace, "part", UINT64_C(5000000000) + 345 * MS, 90 * MS, &size);
    assert_well_formed(text);
    assert_null(strstr(text, "<title>step, batch 2:"));
    assert_non_null(strstr(text, "<title>step, batch 3:"));
    assert_non_null(strstr(text, "<title>step, batch 4:"));
    assert_null(strstr(text, "<title>step, batch 5:"));
    assert_non_null(strstr(text, ">ms, from 345.0 ms after the start</text>"));
    assert_non_null(strstr(text, ">11.1 %</text>")); /* 10 of 90 ms */
    free(text);
    stoke_trace_destroy(&trace);
}

/* A hundred thousand kernels of a microsecond are some bars, not 20 MB. */
static void tiny_spans_are_joined(void **state)
{
    enum { SPANS = 100000 };
    stoke_trace *trace = new_trace(SPANS);
    const int lane = stoke_trace_lane(trace, "device", "compute", 0);
    for (uint64_t i = 0; i < SPANS; i++)
        stoke_trace_span(trace, lane, i % 4 ? "augment" : "copy", i * 10 * US,
                         i * 10 * US + (i % 4 ? 8 : 1) * US, (int64_t)i);
    size_t size;
    char *text = svg_of(state, trace, NULL, 0, 0, &size);
    assert_well_formed(text);
    assert_true(size < 10000);
    assert_non_null(strstr(text, ">37.5 %</text>")); /* joined bars do not change what was idle */
    free(text);
    /* Near by they are there. */
    text = svg_of(state, trace, NULL, 0, 200 * US, &size);
    assert_int_equal(count_of(text, "<title>augment, batch"), 15);
    free(text);
    stoke_trace_destroy(&trace);
}

static void pictures_of_nothing_and_of_anything(void **state)
{
    stoke_trace *trace = new_trace(6);
    size_t size;
    char *text = svg_of(state, trace, "empty", 0, 0, &size);
    assert_well_formed(text);
    assert_non_null(strstr(text, "nothing was recorded"));
    free(text);
    const int lane =
        stoke_trace_lane(trace, "<g>", "a name that is far too long for the margin & goes on and on", 1);
    text = svg_of(state, trace, "lanes only", 0, 0, &size);
    assert_well_formed(text);
    free(text);
    static const struct {
        uint64_t start, end;
    } odd[] = {
        { 0, 0 }, { 5, 5 }, { 0, UINT64_MAX }, { UINT64_MAX, 0 }, { UINT64_MAX, UINT64_MAX }, { 7, 9 }
    };
    for (size_t i = 0; i < 7; i++) {
        stoke_trace_span(trace, lane, i % 2 ? "<what>" : "wait & see", odd[i % 6].start, odd[i % 6].end, -1);
        for (size_t k = 0; k < 6; k++) {
            text = svg_of(state, trace, "odd", odd[k].start, odd[k].end, &size);
            assert_well_formed(text);
            free(text);
        }
    }
    assert_int_equal(stoke_trace_dropped(trace), 1);
    text = svg_of(state, trace, "odd", 0, 0, &size);
    assert_non_null(strstr(text, "1 spans did not fit"));
    free(text);
    stoke_trace_destroy(&trace);
}

static void what_cannot_be_written_is_said(void **state)
{
    static char large[8192]; /* more than names have room for without asking for memory */
    stoke_trace *trace = usual_trace(), *none = NULL;
    stoke_error err;
    const char *path = unit_path(state, "no/such/folder/t");
    memset(large, 'l', sizeof large - 1);
    assert_int_equal(stoke_trace_write_json(trace, path, &err), STOKE_E_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(stoke_trace_write_svg(trace, path, "t", 0, 0, &err), STOKE_E_IO);
    for (int64_t n = 0; n < 2; n++) {
        stk_mem_fail_after(n);
        assert_int_equal(stoke_trace_create(&none, 10, &err), STOKE_E_NOMEM);
        assert_null(none);
    }
    stk_mem_fail_after(-1);
    path = unit_path(state, "t");
    for (int64_t n = 0; n < 4; n++) {
        stk_mem_fail_after(n);
        assert_int_equal(stoke_trace_write_json(trace, path, &err), STOKE_E_NOMEM);
        stk_mem_fail_after(n);
        assert_int_equal(stoke_trace_write_svg(trace, path, "t", 0, 0, &err), STOKE_E_NOMEM);
        stk_mem_fail_after(0);
        assert_int_equal(stoke_trace_lane(trace, "new", large, 0), STOKE_E_NOMEM);
        stk_mem_fail_after(-1);
    }
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(stoke_trace_write_json(trace, path, &err), STOKE_OK);
    stoke_trace_destroy(&trace);
}

UNIT_GROUP(trace)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_are_made_once),
        cmocka_unit_test(threads_record_without_a_lock),
        cmocka_unit_test(spans_at_once_get_rows),
        unit_test_with_folder(json_is_chromes),
        unit_test_with_folder(json_survives_odd_names_and_nothing),
        unit_test_with_folder(the_picture_tells_the_story),
        unit_test_with_folder(tiny_spans_are_joined),
        unit_test_with_folder(pictures_of_nothing_and_of_anything),
        unit_test_with_folder(what_cannot_be_written_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
