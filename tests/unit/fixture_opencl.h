/* SPDX-License-Identifier: Apache-2.0
 *
 * An OpenCL device for tests, or the words why there is none, and a small program to run on it.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_OPENCL_H
#define STOKE_TESTS_UNIT_FIXTURE_OPENCL_H

#include "tests/unit/unit.h"

#include "src/device/opencl.h"

/* What the kernels below take by value. */
typedef struct here_shape {
    uint32_t count, value;
    float a, b;
} here_shape;

enum { HERE_ADD, HERE_SLOW, HERE_FLOATS, HERE_KERNELS };

static const char HERE_TEXT[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "typedef struct { uint count, value; float a, b; } shape;\n"
    "__kernel void add(__global uint *words, const shape s)\n"
    "{\n"
    "    const uint i = (uint)get_global_id(0);\n"
    "    if (i < s.count && get_global_id(1) == 0) words[i] += s.value;\n"
    "}\n"
    "__kernel void slow(__global uint *words, const shape s)\n"
    "{\n"
    "    if (get_global_id(0)) return;\n"
    "    uint v = words[0];\n"
    "    for (uint i = 0; i < s.value; i++) v = (v ^ (v >> 7)) * 1664525u + 1013904223u;\n"
    "    words[0] = v;\n"
    "}\n"
    "__kernel void floats(__global float *out, __global const float *in, const shape s)\n"
    "{\n"
    "    const uint i = (uint)get_global_id(0);\n"
    "    if (i >= s.count) return;\n"
    "    out[3 * i] = in[i] * s.a + s.b;\n"
    "    out[3 * i + 1] = in[i] / s.a;\n"
    "    out[3 * i + 2] = sqrt(in[i]);\n"
    "}\n";

static const char *const HERE_NAMES[HERE_KERNELS] = { "add", "slow", "floats" };
static const uint8_t HERE_ARGUMENTS[HERE_KERNELS] = { 2, 2, 3 };
static const stk_program HERE_PROGRAM = { .name = "test",
                                          .text = HERE_TEXT,
                                          .text_bytes = sizeof HERE_TEXT - 1,
                                          .kernels = HERE_NAMES,
                                          .arguments = HERE_ARGUMENTS,
                                          .n_kernels = HERE_KERNELS };

/* What `slow` makes of a word. */
static inline uint32_t here_slow(uint32_t v, uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) v = (v ^ (v >> 7)) * 1664525u + 1013904223u;
    return v;
}

/* Skips the test when there is no device; programs are kept in `cache` ("" = not). */
static inline stoke_device *here_open(const char *cache)
{
    static char reason[STOKE_ERROR_TEXT];
    stoke_device_params params = stoke_device_defaults();
    stoke_device *device;
    stoke_error err = { 0 };
    params.cache = cache;
    const int r = stoke_device_open(&device, "opencl", &params, &err);
    if (r == STOKE_E_NOTFOUND) {
        snprintf(reason, sizeof reason, "%s", err.message);
        unit_skip(reason);
    }
    if (r) fail_msg("%s", err.message);
    return device;
}

#endif
