/* SPDX-License-Identifier: Apache-2.0
 *
 * A test for every kind of device: written once, run on each that opens here. What cannot be opened is
 * skipped with the device's own reason.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_DEVICES_H
#define STOKE_TESTS_UNIT_FIXTURE_DEVICES_H

#include "tests/unit/unit.h"

#include "src/device/device.h"

/* What a test on a device gets as its state. */
typedef struct on_device {
    stoke_device *device;
    stk_device_stream *stream;
} on_device;

typedef struct device_test {
    const char *name;
    void (*run)(on_device *on);
} device_test;

/* One run of a test. */
typedef struct device_run {
    char name[128];
    const char *device;
    const device_test *test;
} device_run;

static inline stoke_device_params devices_params(void)
{
    stoke_device_params params = stoke_device_defaults();
    params.contents = 1;
    return params;
}

static inline void devices_run_one(void **state)
{
    const device_run *run = *state;
    const stoke_device_params params = devices_params();
    on_device on = { 0 };
    stoke_error err = { 0 };
    const int r = stoke_device_open(&on.device, run->device, &params, &err);
    if (r == STOKE_E_NOTFOUND && strcmp(run->device, "host") && strcmp(run->device, "sim"))
        unit_skip(err.message);
    if (r) fail_msg("%s: %s", run->device, err.message);
    if (stk_stream_create(&on.stream, on.device, &err)) fail_msg("%s", err.message);
    run->test->run(&on);
    stk_stream_destroy(&on.stream);
    stoke_device_close(&on.device);
}

/* Fills `out` with every test on every kind; returns how many. */
static inline size_t devices_tests(const device_test *tests, size_t n_tests, struct CMUnitTest *out,
                                   device_run *runs)
{
    static const char *const names[] = { "host", "sim", "opencl", "cuda" };
    size_t n = 0;
    for (size_t d = 0; d < sizeof names / sizeof *names; d++)
        for (size_t t = 0; t < n_tests; t++, n++) {
            runs[n] = (device_run){ .device = names[d], .test = &tests[t] };
            snprintf(runs[n].name, sizeof runs[n].name, "%s: %s", names[d], tests[t].name);
            out[n] = (struct CMUnitTest){ runs[n].name, devices_run_one, NULL, NULL, &runs[n] };
        }
    return n;
}

/* Calls that must succeed, and say why when they do not. */
#define devices_ok(call)                                                                                     \
    do {                                                                                                     \
        stoke_error devices_err = { 0 };                                                                     \
        stoke_error *const err = &devices_err;                                                               \
        if (call) fail_msg("%s: %s", #call, devices_err.message);                                            \
    } while (0)

#endif
