/* SPDX-License-Identifier: Apache-2.0
 *
 * Step times from traces: ours and torch.profiler's, and what is no trace.
 */
#include "tests/unit/unit.h"

#include <stoke/tools/diagnose.h>
#include <stoke/tools/trace.h>

#include "src/base/mem.h"
#include "src/tune/diagnose/diagnose.h"

typedef struct found {
    int status;
    double *ms;
    size_t n;
    char what[200];
    stoke_error err;
} found;

static found look(const char *text)
{
    found f = { 0 };
    f.status =
        stk_trace_steps_of(text, strlen(text), "trace.json", &f.ms, &f.n, f.what, sizeof f.what, &f.err);
    if (f.status) {
        assert_null(f.ms);
        assert_int_equal(f.n, 0);
        if (f.status != STOKE_E_NOMEM) assert_non_null(strstr(f.err.message, "trace.json"));
    }
    return f;
}

static void expect(const char *text, const double *ms, size_t n)
{
    found f = look(text);
    if (f.status) fail_msg("%s", f.err.message);
    assert_int_equal(f.n, n);
    for (size_t i = 0; i < n; i++) assert_float_equal(f.ms[i], ms[i], 1e-9);
    assert_true(strlen(f.what) > 10);
    stoke_trace_steps_free(&f.ms);
    assert_null(f.ms);
}

static void refuse(const char *text, int status, const char *part)
{
    const found f = look(text);
    assert_int_equal(f.status, status);
    if (!strstr(f.err.message, part)) fail_msg("'%s' is not in: %s", part, f.err.message);
}

/* What stoke_trace_write_json writes comes back. */
static void our_own(void **state)
{
    stoke_trace *trace;
    const char *path = unit_path(state, "own.json");
    double *ms;
    size_t n;
    char what[200];
    assert_int_equal(stoke_trace_create(&trace, 16, NULL), 0);
    const int device = stoke_trace_lane(trace, "sim", "compute engine", 1);
    const int host = stoke_trace_lane(trace, "consumer", "host thread", 0);
    stoke_trace_span(trace, device, "step", 9000000, 9500000, 1);
    stoke_trace_span(trace, device, "step", 1000000, 6000000, 0);
    stoke_trace_span(trace, host, "launch", 1, 900000, 0);
    assert_int_equal(stoke_trace_write_json(trace, path, NULL), 0);
    stoke_trace_destroy(&trace);
    assert_int_equal(stoke_trace_steps(path, &ms, &n, what, sizeof what, NULL), 0);
    assert_int_equal(n, 2);
    assert_float_equal(ms[0], 5, 1e-9); /* in order of time */
    assert_float_equal(ms[1], 0.5, 1e-9);
    assert_non_null(strstr(what, "stoke"));
    stoke_trace_steps_free(&ms);
}

#define EVENT(cat, name, pid, ts, dur)                                                                       \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":" #pid ",\"tid\":7,\"ts\":" #ts         \
    ",\"dur\":" #dur "}"

/* The union of kernels, cut at the step's ends; of one card; a step without kernels is none. */
static void torch_profiler(void **state)
{
    const double host[] = { 0.7, 0.1 }, card[] = { 0.5 };
    expect(
        "{\"traceEvents\":[" EVENT("user_annotation", "ProfilerStep#1", 9, 1000, 1000) "," EVENT(
            "user_annotation", "ProfilerStep#2", 9, 2000,
            1000) "," EVENT("user_annotation", "ProfilerStep#3", 9, 3000,
                            1000) "," EVENT("kernel", "b", 0, 1300,
                                            300) "," EVENT("kernel", "a", 0, 1100,
                                                           400) "," EVENT("kernel", "late", 0, 1800,
                                                                          300) "," EVENT("kernel",
                                                                                         "other card", 1,
                                                                                         2500,
                                                                                         400) "," EVENT("cpu_"
                                                                                                        "op",
                                                                                                        "aten"
                                                                                                        "::"
                                                                                                        "conv"
                                                                                                        "2d",
                                                                                                        9,
                                                                                                        2200,
                                                                                                        700) "]}",
        host, 2);
    /* The range on the card is the true one. */
    expect("[" EVENT("user_annotation", "ProfilerStep#1", 9, 1000, 100) "," EVENT(
               "gpu_user_annotation", "ProfilerStep#1", 0, 1500,
               1000) "," EVENT("kernel", "a", 0, 1050, 20) "," EVENT("kernel", "a", 0, 1600, 500) "]",
           card, 1);
}

static void no_traces(void **state)
{
    double *ms;
    size_t n;
    char what[64];
    stoke_error err = { 0 };
    refuse("{\"a\": 1}", STOKE_E_FORMAT, "traceEvents");
    refuse("{\"traceEvents\": 3}", STOKE_E_FORMAT, "traceEvents");
    refuse("[{\"ph\":", STOKE_E_FORMAT, "byte");
    refuse("[]", STOKE_E_NOTFOUND, "prof.step()");
    refuse("[" EVENT("user_annotation", "ProfilerStep#1", 9, 1000, 100) "]", STOKE_E_NOTFOUND,
           "ProfilerActivity.CUDA");
    refuse("[" EVENT("", "step", 9, 1000, -5) "," EVENT("", "step", 9, 1e308, 1e308) "]", STOKE_E_NOTFOUND,
           "no steps");
    refuse("[" EVENT("", "step", 9, 1, 1e12) "]", STOKE_E_INVALID, "no step is that long");
    assert_int_equal(stoke_trace_steps(unit_path(state, "none.json"), &ms, &n, what, sizeof what, &err),
                     STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "none.json"));
}

static void without_memory(void **state)
{
    static const char text[] = "[" EVENT("user_annotation", "ProfilerStep#1", 9, 1000,
                                         100) "," EVENT("kernel", "a", 0, 1050, 20) "]";
    int status = STOKE_E_NOMEM;
    for (int64_t after = 0; status == STOKE_E_NOMEM; after++) {
        assert_true(after < 100);
        stk_mem_fail_after(after);
        found f = look(text);
        stk_mem_fail_after(-1);
        status = f.status;
        stoke_trace_steps_free(&f.ms);
    }
    assert_int_equal(status, 0);
}

UNIT_GROUP(trace_steps)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(our_own),
        cmocka_unit_test(torch_profiler),
        unit_test_with_folder(no_traces),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
