/* SPDX-License-Identifier: Apache-2.0
 *
 * A device proven against the host: every copy path, order by events, every kernel, a memory that is too
 * small. The order of lines is fixed, so that two reports can be laid side by side.
 */
#include "src/selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stoke/tools/device.h>

#include "src/base/error.h"
#include "src/base/rng.h"

void stk_selftest_fill(void *bytes, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        const uint64_t word = stk_mix64(seed << 32 | i);
        memcpy((uint8_t *)bytes + i, &word, size - i < sizeof word ? size - i : sizeof word);
    }
}

void stk_selftest_compare(stoke_selftest_line *line, const void *got, const void *wanted, size_t bytes)
{
    const uint8_t *a = got, *b = wanted;
    line->compared += bytes;
    if (!memcmp(got, wanted, bytes)) return;
    for (size_t i = 0; i < bytes; i++) {
        if (a[i] == b[i]) continue;
        const double apart = abs(a[i] - b[i]);
        line->different++;
        if (apart > line->largest) line->largest = apart;
    }
}

typedef struct testing {
    stoke_device *device;
    int (*line)(void *context, const stoke_selftest_line *line);
    void *context;
    unsigned lines, failed;
    char first[256]; /* line that failed, and why */
} testing;

/* Runs one line and hands it out. STOKE_E_END: there is no such line. */
static int run_line(testing *t, stk_selftest_fn *fn, unsigned which)
{
    stoke_error err = { 0 };
    stoke_selftest_line line = { .against = "host reference" };
    const int r = fn(t->device, which, &line, &err);
    if (r == STOKE_E_END) return r;
    if (r) snprintf(line.problem, sizeof line.problem, "%.767s", err.message);
    line.passed =
        !r && line.compared && line.largest <= line.tolerance && (line.tolerance > 0 || !line.different);
    t->lines++;
    if (!line.passed && !t->failed++)
        snprintf(t->first, sizeof t->first, "%.100s%s%.140s", line.name ? line.name : "?", r ? ": " : "",
                 line.problem);
    return t->line && t->line(t->context, &line) ? STOKE_E_CANCELLED : STOKE_OK;
}

static int run_lines(testing *t)
{
    int r = STOKE_OK;
    for (unsigned i = 0; !r && i < STK_SELFTEST_COPIES; i++) r = run_line(t, stk_selftest_copy, i);
    if (!r) r = run_line(t, stk_selftest_order, 0);
    if (!r) r = run_line(t, stk_selftest_times, 0);
    for (unsigned i = 0; !r; i++) r = run_line(t, stk_selftest_words, i);
    if (r != STOKE_E_END) return r;
    r = STOKE_OK;
    for (unsigned i = 0; !r; i++) r = run_line(t, stk_selftest_batch, i);
    if (r != STOKE_E_END) return r;
    r = run_line(t, stk_selftest_limit, 0);
    return r ? r : run_line(t, stk_selftest_batch_limit, 0);
}

int stoke_device_selftest(stoke_device *device, int (*line)(void *context, const stoke_selftest_line *line),
                          void *context, stoke_error *err)
{
    testing t = { .device = device, .line = line, .context = context };
    const int r = run_lines(&t);
    if (r) return stk_fail(err, r, "the selftest was stopped after %u lines", t.lines);
    if (!t.failed) return STOKE_OK;
    return stk_fail(err, STOKE_E_DEVICE,
                    "%s failed %u of %u lines, the first: %s. Its batches cannot be trusted: update the "
                    "driver, or use --placement host",
                    stoke_device_describe(device)->name, t.failed, t.lines, t.first);
}
