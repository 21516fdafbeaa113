/* SPDX-License-Identifier: Apache-2.0
 *
 * Step times from any bytes: refused with a message, or some steps, each a time that a device can be asked
 * for.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>

#include "src/tune/diagnose/diagnose.h"

FUZZ_TARGET(trace_steps)
{
    double *ms;
    size_t n;
    char what[160] = "";
    stoke_error err = { 0 };
    if (stk_trace_steps_of((const char *)bytes, size, "fuzz", &ms, &n, what, sizeof what, &err)) {
        if (ms || n || !*err.message) abort();
        return 0;
    }
    if (!ms || !n || !*what) abort();
    for (size_t i = 0; i < n; i++)
        if (!(ms[i] > 0 && ms[i] <= 1e6)) abort();
    stoke_trace_steps_free(&ms);
    return 0;
}
