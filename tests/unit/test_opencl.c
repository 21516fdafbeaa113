/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL kind on a real device (PoCL where there is nothing else): copies, order, times, kernels, the
 * cache of compiled programs, memory that is not there.
 */
#include "tests/unit/fixture_opencl.h"

#include <dirent.h>
#include <math.h>
#include <sched.h>

#include "src/base/clock.h"

#define OK(call)                                                                                             \
    do {                                                                                                     \
        stoke_error err = { 0 };                                                                             \
        if ((call) != STOKE_OK) fail_msg("%s: %s", #call, err.message);                                      \
    } while (0)

/* The functions as they were, for those that tests put in their place. */
static stk_opencl_driver real;

static stk_device_block block_of(stoke_device *device, stk_device_memory_kind kind, size_t bytes)
{
    stk_device_block block;
    OK(stk_block_create(&block, device, kind, bytes, &err));
    return block;
}

static void launch(stk_device_stream *stream, stk_device_module *module, uint32_t kernel,
                   const stk_device_block *const *blocks, here_shape shape)
{
    stk_device_argument arguments[3];
    const uint32_t n = HERE_ARGUMENTS[kernel];
    for (uint32_t i = 0; i + 1 < n; i++) arguments[i] = (stk_device_argument){ .block = blocks[i] };
    arguments[n - 1] = (stk_device_argument){ .value = &shape, .bytes = sizeof shape };
    const stk_device_launch what = {
        .kernel = kernel, .grid = { shape.count, 1, 1 }, .arguments = arguments, .n_arguments = n
    };
    OK(stk_stream_launch(stream, module, &what, &err));
}

/* ---- copies ---- */

/* Up, across and down again between every two kinds of memory, at odd places. */
static void test_copies(void **state)
{
    enum { BYTES = 70001, AT = 13, MORE = 77 };
    stoke_device *device = here_open("");
    stk_device_stream *stream;
    OK(stk_stream_create(&stream, device, &err));
    stk_device_block a = block_of(device, STK_MEMORY_DEVICE, BYTES + AT),
                     b = block_of(device, STK_MEMORY_DEVICE, BYTES + MORE);
    assert_null(a.host);
    for (int up = STK_MEMORY_PAGEABLE; up <= STK_MEMORY_PINNED; up++)
        for (int down = STK_MEMORY_PAGEABLE; down <= STK_MEMORY_PINNED; down++) {
            stk_device_block from = block_of(device, (stk_device_memory_kind)up, BYTES),
                             to = block_of(device, (stk_device_memory_kind)down, BYTES + 1);
            uint8_t *source = from.host, *target = to.host;
            for (int i = 0; i < BYTES; i++) source[i] = (uint8_t)(i * 7 + (i >> 8) + up + 2 * down);
            memset(target, 0, BYTES + 1);
            OK(stk_stream_copy(stream, &a, AT, &from, 0, BYTES, &err));
            OK(stk_stream_copy(stream, &b, MORE, &a, AT, BYTES, &err));
            OK(stk_stream_copy(stream, &to, 1, &b, MORE, BYTES, &err));
            OK(stk_stream_finish(stream, &err));
            assert_int_equal(target[0], 0);
            assert_memory_equal(target + 1, source, BYTES);
            source[5] ^= 0xff;
            OK(stk_stream_copy(stream, &to, 2, &from, 1, 9, &err)); /* on the host */
            OK(stk_stream_finish(stream, &err));
            assert_memory_equal(target + 2, source + 1, 9);
            stk_block_destroy(&from);
            stk_block_destroy(&to);
        }
    stk_block_destroy(&a);
    stk_block_destroy(&b);
    stk_stream_destroy(&stream);
    stoke_device_close(&device);
}

/* Ordinary memory may be used again when the call returns. */
static void test_pageable_is_free_again(void **state)
{
    enum { BYTES = 1 << 20 };
    stoke_device *device = here_open("");
    stk_device_stream *stream;
    OK(stk_stream_create(&stream, device, &err));
    stk_device_block up = block_of(device, STK_MEMORY_PAGEABLE, BYTES),
                     down = block_of(device, STK_MEMORY_PINNED, BYTES);
    stk_device_block there = block_of(device, STK_MEMORY_DEVICE, BYTES);
    memset(up.host, 3, BYTES);
    OK(stk_stream_copy(stream, &there, 0, &up, 0, BYTES, &err));
    memset(up.host, 4, BYTES);
    OK(stk_stream_copy(stream, &down, 0, &there, 0, BYTES, &err));
    OK(stk_stream_finish(stream, &err));
    for (int i = 0; i < BYTES; i++) assert_int_equal(((uint8_t *)down.host)[i], 3);
    stk_block_destroy(&up);
    stk_block_destroy(&down);
    stk_block_destroy(&there);
    stk_stream_destroy(&stream);
    stoke_device_close(&device);
}

/* ---- order and time ---- */

/* Two streams hand a word to and fro, one slowly, so that the other would overtake it. */
static void test_events_order_streams(void **state)
{
    enum { ROUNDS = 6, TURNS = 4000000 }; /* 10 ms: what does not wait is done before */
    stoke_device *device = here_open("");
    stk_device_module *module;
    stk_device_stream *streams[2];
    stk_device_event *passed[2];
    OK(stk_module_create(&module, device, &HERE_PROGRAM, &err));
    for (int i = 0; i < 2; i++) {
        OK(stk_stream_create(&streams[i], device, &err));
        OK(stk_event_create(&passed[i], device, &err));
    }
    stk_device_block word = block_of(device, STK_MEMORY_DEVICE, 4),
                     host = block_of(device, STK_MEMORY_PINNED, 4);
    uint32_t expected = *(uint32_t *)host.host = 12345;
    const stk_device_block *blocks[] = { &word };
    OK(stk_stream_wait(streams[0], passed[1], &err)); /* never recorded: holds nothing up */
    OK(stk_stream_copy(streams[0], &word, 0, &host, 0, 4, &err));
    OK(stk_event_record(passed[0], streams[0], &err));
    for (int i = 1; i <= ROUNDS; i++) {
        stk_device_stream *stream = streams[i & 1];
        OK(stk_stream_wait(stream, passed[!(i & 1)], &err));
        launch(stream, module, i & 1 ? HERE_SLOW : HERE_ADD, blocks,
               (here_shape){ 1, i & 1 ? TURNS : 7, 0, 0 });
        OK(stk_event_record(passed[i & 1], stream, &err));
        expected = i & 1 ? here_slow(expected, TURNS) : expected + 7;
    }
    OK(stk_stream_wait(streams[1], passed[0], &err));
    OK(stk_stream_copy(streams[1], &host, 0, &word, 0, 4, &err));
    OK(stk_event_record(passed[1], streams[1], &err));
    OK(stk_event_finish(passed[1], &err));
    assert_int_equal(*(uint32_t *)host.host, expected);
    for (int i = 0; i < 2; i++) {
        stk_event_destroy(&passed[i]);
        stk_stream_destroy(&streams[i]);
    }
    stk_block_destroy(&word);
    stk_block_destroy(&host);
    stk_module_destroy(&module);
    stoke_device_close(&device);
}

static uint64_t drift; /* what the device's clock gains with every look at it, ns */
static uint64_t gained;

static cl_int CL_API_CALL drifting(cl_event event, cl_profiling_info what, size_t size, void *value,
                                   size_t *got)
{
    const cl_int code = real.clGetEventProfilingInfo(event, what, size, value, got);
    cl_ulong ns;
    memcpy(&ns, value, sizeof ns);
    ns += gained += drift;
    memcpy(value, &ns, sizeof ns);
    return code;
}

/* Times lie between the host's own stamps, and the later of two events is never the earlier; with a clock
 * that agrees, and with one that gains or loses 50 us an event. */
static void test_times(void **state)
{
    enum { EVENTS = 60, TURNS = 100000 };
    const uint64_t drifts[] = { 0, 50000, (uint64_t)-50000 };
    stoke_device *device = here_open("");
    stk_device_module *module;
    stk_device_stream *stream;
    stk_device_event *event;
    int done = 0;
    uint64_t ns;
    OK(stk_module_create(&module, device, &HERE_PROGRAM, &err));
    OK(stk_stream_create(&stream, device, &err));
    OK(stk_event_create(&event, device, &err));
    stk_device_block word = block_of(device, STK_MEMORY_DEVICE, 4);
    const stk_device_block *blocks[] = { &word };
    OK(stk_event_done(event, &done, &err));
    assert_int_equal(done, 1);
    OK(stk_event_finish(event, &err));
    assert_int_equal(stk_event_time(event, &ns, NULL), STOKE_E_STATE);
    launch(stream, module, HERE_SLOW, blocks, (here_shape){ 1, 1, 0, 0 }); /* compiled before it is timed */
    OK(stk_stream_finish(stream, &err));
    stk_opencl *own = stk_opencl_of(device);
    real = own->cl;
    own->cl.clGetEventProfilingInfo = drifting;
    for (int d = 0; d < 3; d++) {
        uint64_t last = 0;
        drift = drifts[d];
        for (int i = 0; i < EVENTS; i++) {
            const uint64_t before = stk_now_ns();
            launch(stream, module, HERE_SLOW, blocks, (here_shape){ 1, TURNS, 0, 0 });
            OK(stk_event_record(event, stream, &err));
            for (done = 0; !done;) OK(stk_event_done(event, &done, &err));
            const uint64_t after = stk_now_ns();
            OK(stk_event_time(event, &ns, &err));
            assert_in_range(ns, before, after);
            assert_true(ns >= last);
            last = ns;
        }
    }
    stk_event_destroy(&event);
    stk_block_destroy(&word);
    stk_stream_destroy(&stream);
    stk_module_destroy(&module);
    stoke_device_close(&device);
}

static cl_int CL_API_CALL counter(cl_event event, cl_profiling_info what, size_t size, void *value,
                                  size_t *got)
{
    gained = UINT64_C(1) << 60; /* no clock of the host's */
    drift = 0;
    return drifting(event, what, size, value, got);
}

/* A counter of the device's own: found by looking. Events seen late and at once keep their order. */
static void test_foreign_clock(void **state)
{
    stoke_device *opened = here_open(""), device = { .fns = &stk_device_opencl };
    const stoke_device_params params = { .struct_size = sizeof params, .cache = "" };
    stk_opencl_driver cl = real = stk_opencl_of(opened)->cl;
    stoke_device_close(&opened);
    cl.clGetEventProfilingInfo = counter;
    OK(stk_opencl_start(&device, &cl, "", &params, &err));
    assert_int_equal(stk_opencl_of(&device)->clock_twin, -1);
    stk_device_stream *stream;
    stk_device_event *events[2];
    OK(stk_stream_create(&stream, &device, &err));
    for (int i = 0; i < 2; i++) OK(stk_event_create(&events[i], &device, &err));
    for (int round = 0; round < 40; round++) {
        uint64_t ns[2];
        stk_opencl_of(&device)->clock_offset += round % 3 ? 0 : 200000; /* as if it had been found badly */
        const uint64_t before = stk_now_ns();
        for (int i = 0; i < 2; i++) OK(stk_event_record(events[i], stream, &err));
        OK(stk_event_finish(events[1], &err));
        if (round % 2) usleep(1000); /* the first of them is seen late */
        for (int i = 0; i < 2; i++) OK(stk_event_time(events[i], &ns[i], &err));
        assert_true(ns[0] <= ns[1]);
        assert_true(before <= ns[0]);
        assert_true(ns[1] <= stk_now_ns());
    }
    for (int i = 0; i < 2; i++) stk_event_destroy(&events[i]);
    stk_stream_destroy(&stream);
    device.fns->close(&device);
}

/* ---- kernels ---- */

/* a * b + c is a product and a sum; quotients and roots are the host's. */
static void test_floats_are_the_hosts(void **state)
{
    enum { COUNT = 20011 };
    stoke_device *device = here_open("");
    stk_device_module *module;
    stk_device_stream *stream;
    OK(stk_module_create(&module, device, &HERE_PROGRAM, &err));
    OK(stk_stream_create(&stream, device, &err));
    stk_device_block in = block_of(device, STK_MEMORY_PINNED, COUNT * 4),
                     out = block_of(device, STK_MEMORY_PINNED, COUNT * 12);
    stk_device_block there = block_of(device, STK_MEMORY_DEVICE, COUNT * 4),
                     made = block_of(device, STK_MEMORY_DEVICE, COUNT * 12);
    float *values = in.host;
    uint32_t v = 99;
    for (int i = 0; i < COUNT; i++) values[i] = (float)((v = here_slow(v, 1)) >> 8) / 65536.0f;
    const float a = 1.0f / 58.395f, b = -2.117903f;
    OK(stk_stream_copy(stream, &there, 0, &in, 0, in.bytes, &err));
    launch(stream, module, HERE_FLOATS, (const stk_device_block *[]){ &made, &there },
           (here_shape){ COUNT, 0, a, b });
    OK(stk_stream_copy(stream, &out, 0, &made, 0, out.bytes, &err));
    OK(stk_stream_finish(stream, &err));
    const float *result = out.host;
    int fused = 0, quotients = 0, roots = 0, would_differ = 0;
    for (int i = 0; i < COUNT; i++) {
        fused += result[3 * i] != values[i] * a + b;
        quotients += result[3 * i + 1] != values[i] / a;
        roots += result[3 * i + 2] != sqrtf(values[i]);
        would_differ += fmaf(values[i], a, b) != values[i] * a + b;
    }
    assert_true(would_differ > COUNT / 100); /* or the test could not tell */
    assert_int_equal(fused, 0);
    if (stoke_device_describe(device)->exact_math) assert_int_equal(quotients + roots, 0);
    stk_block_destroy(&in);
    stk_block_destroy(&out);
    stk_block_destroy(&there);
    stk_block_destroy(&made);
    stk_stream_destroy(&stream);
    stk_module_destroy(&module);
    stoke_device_close(&device);
}

typedef struct adder {
    stoke_device *device;
    stk_device_module *module;
    uint32_t value;
    int bad;
} adder;

static void *add_many(void *context)
{
    enum { COUNT = 33, TIMES = 200 };
    adder *a = context;
    stk_device_stream *stream;
    a->bad = stk_stream_create(&stream, a->device, NULL) != STOKE_OK;
    if (a->bad) return NULL;
    stk_device_block words, host;
    a->bad = stk_block_create(&words, a->device, STK_MEMORY_DEVICE, COUNT * 4, NULL) ||
             stk_block_create(&host, a->device, STK_MEMORY_PINNED, COUNT * 4, NULL);
    if (!a->bad) {
        const here_shape shape = { COUNT, a->value, 0, 0 };
        const stk_device_argument arguments[] = { { .block = &words },
                                                  { .value = &shape, .bytes = sizeof shape } };
        const stk_device_launch what = {
            .kernel = HERE_ADD, .grid = { COUNT, 1, 1 }, .arguments = arguments, .n_arguments = 2
        };
        memset(host.host, 0, COUNT * 4);
        a->bad |= stk_stream_copy(stream, &words, 0, &host, 0, COUNT * 4, NULL);
        for (int i = 0; i < TIMES; i++) a->bad |= stk_stream_launch(stream, a->module, &what, NULL);
        a->bad |=
            stk_stream_copy(stream, &host, 0, &words, 0, COUNT * 4, NULL) | stk_stream_finish(stream, NULL);
        for (int i = 0; i < COUNT; i++) a->bad |= ((uint32_t *)host.host)[i] != TIMES * a->value;
    }
    stk_block_destroy(&words);
    stk_block_destroy(&host);
    stk_stream_destroy(&stream);
    return NULL;
}

static cl_int CL_API_CALL hesitating(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    const cl_int code = real.clSetKernelArg(kernel, index, size, value);
    sched_yield(); /* whoever could come in between does */
    return code;
}

/* Arguments belong to a kernel, not to a thread: one thread must not launch with another's. */
static void test_threads_share_a_module(void **state)
{
    stoke_device *device = here_open("");
    stk_device_module *module;
    real = stk_opencl_of(device)->cl;
    stk_opencl_of(device)->cl.clSetKernelArg = hesitating;
    OK(stk_module_create(&module, device, &HERE_PROGRAM, &err));
    adder adders[3];
    pthread_t threads[3];
    for (uint32_t i = 0; i < 3; i++) {
        adders[i] = (adder){ device, module, 1 + 10 * i, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &adders[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(adders[i].bad, 0);
    }
    stk_module_destroy(&module);
    stoke_device_close(&device);
}

static void test_program_refused(void **state)
{
    const char *cache = unit_path(state, "programs");
    const char *names[] = { "broken" };
    const uint8_t arguments[] = { 1 };
    stk_program broken = { .name = "broken",
                           .text = "__kernel void broken(const uint n)\n{\n    undeclared_thing(n);\n}\n",
                           .kernels = names,
                           .arguments = arguments,
                           .n_kernels = 1 };
    stoke_device *device = here_open(cache);
    stk_device_module *module;
    stoke_error said = { 0 };
    assert_int_equal(stk_module_create(&module, device, &broken, &said), STOKE_E_UNSUPPORTED);
    assert_null(module);
    assert_non_null(strstr(said.message, "undeclared_thing"));
    assert_non_null(strstr(said.message, "broken"));
    const char *whole = strstr(said.message, cache); /* names the file of the whole log */
    assert_non_null(whole);
    char path[4096];
    snprintf(path, sizeof path, "%.*s", (int)(strstr(whole, ".log") + 4 - whole), whole);
    assert_int_equal(access(path, R_OK), 0);
    broken.text = "__kernel void another(const uint n) {}\n";
    assert_int_equal(stk_module_create(&module, device, &broken, &said), STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(said.message, "no kernel 'broken'"));
    OK(stk_module_create(&module, device, &HERE_PROGRAM, &err)); /* the device is as good as before */
    stk_module_destroy(&module);
    stoke_device_close(&device);
}

/* ---- the cache ---- */

static int compiled;

static cl_program CL_API_CALL counting(cl_context context, cl_uint n, const char **texts, const size_t *sizes,
                                       cl_int *code)
{
    compiled++;
    return real.clCreateProgramWithSource(context, n, texts, sizes, code);
}

static cl_program CL_API_CALL no_binaries(cl_context context, cl_uint n, const cl_device_id *devices,
                                          const size_t *sizes, const unsigned char **binaries, cl_int *status,
                                          cl_int *code)
{
    *code = CL_INVALID_BINARY;
    return NULL;
}

/* Makes a module and runs it once. How often that took the compiler. */
static int compilations(stoke_device *device)
{
    stk_device_module *module;
    stk_device_stream *stream;
    compiled = 0;
    OK(stk_module_create(&module, device, &HERE_PROGRAM, &err));
    OK(stk_stream_create(&stream, device, &err));
    stk_device_block words = block_of(device, STK_MEMORY_DEVICE, 4),
                     host = block_of(device, STK_MEMORY_PINNED, 4);
    *(uint32_t *)host.host = 30;
    OK(stk_stream_copy(stream, &words, 0, &host, 0, 4, &err));
    launch(stream, module, HERE_ADD, (const stk_device_block *[]){ &words }, (here_shape){ 1, 12, 0, 0 });
    OK(stk_stream_copy(stream, &host, 0, &words, 0, 4, &err));
    OK(stk_stream_finish(stream, &err));
    assert_int_equal(*(uint32_t *)host.host, 42);
    stk_block_destroy(&words);
    stk_block_destroy(&host);
    stk_stream_destroy(&stream);
    stk_module_destroy(&module);
    return compiled;
}

/* The one file of a folder. */
static const char *only_file(const char *folder)
{
    static char path[4096];
    int files = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.') snprintf(path, sizeof path, "%s/%s", folder, entry->d_name), files++;
    closedir(entries);
    assert_int_equal(files, 1);
    return path;
}

static void overwrite(const char *path, long at, uint8_t byte)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_int_equal(fputc(byte, f), byte);
    fclose(f);
}

static void test_cache(void **state)
{
    const char *cache = unit_path(state, "a/programs");
    stoke_device *device = here_open(cache);
    stk_opencl *own = stk_opencl_of(device);
    real = own->cl;
    own->cl.clCreateProgramWithSource = counting;
    assert_int_equal(compilations(device), 1);
    assert_int_equal(compilations(device), 0);
    const char *file = only_file(cache);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    overwrite(file, st.st_size / 2, 0xa5); /* within the binary */
    overwrite(file, st.st_size / 2 + 1, 0x5a);
    assert_int_equal(compilations(device), 1);
    assert_int_equal(compilations(device), 0); /* made again */
    assert_int_equal(truncate(file, st.st_size - 1), 0);
    assert_int_equal(compilations(device), 1);
    assert_int_equal(chmod(file, 0666), 0); /* anyone could have put it there */
    assert_int_equal(compilations(device), 1);
    assert_int_equal(compilations(device), 0);
    own->cl.clCreateProgramWithBinary = no_binaries; /* the driver does not want it after all */
    assert_int_equal(compilations(device), 1);
    own->cl.clCreateProgramWithBinary = real.clCreateProgramWithBinary;
    snprintf(own->options, sizeof own->options, "-cl-std=CL1.2 -cl-opt-disable"); /* another key */
    assert_int_equal(compilations(device), 1);
    stoke_device_close(&device);
}

static void test_cache_unwritable(void **state)
{
    const char *file = unit_path(state, "no-folder");
    unit_write(file, "", 0);
    stoke_device *device = here_open(file);
    stk_opencl *own = stk_opencl_of(device);
    real = own->cl;
    own->cl.clCreateProgramWithSource = counting;
    assert_int_equal(compilations(device), 1);
    assert_int_equal(compilations(device), 1);
    stoke_device_close(&device);
    device = here_open(""); /* none wanted */
    assert_null(stk_opencl_of(device)->cache);
    stoke_device_close(&device);
}

/* ---- failures ---- */

static cl_int CL_API_CALL gone(cl_command_queue queue)
{
    real.clFinish(queue);
    return CL_OUT_OF_RESOURCES; /* as NVIDIA's driver does when a kernel has crashed */
}

/* A device that is lost says so with the first message, whatever is asked of it, and can be taken apart and
 * opened again. */
static void test_lost(void **state)
{
    stoke_device *device = here_open("");
    stk_device_stream *stream;
    stk_device_event *event;
    stoke_error first = { 0 }, later = { 0 };
    OK(stk_stream_create(&stream, device, &err));
    OK(stk_event_create(&event, device, &err));
    stk_device_block host = block_of(device, STK_MEMORY_PINNED, 64),
                     there = block_of(device, STK_MEMORY_DEVICE, 64);
    real = stk_opencl_of(device)->cl;
    stk_opencl_of(device)->cl.clFinish = gone;
    OK(stk_stream_copy(stream, &there, 0, &host, 0, 64, &err));
    assert_int_equal(stk_stream_finish(stream, &first), STOKE_E_DEVICE);
    assert_non_null(strstr(first.message, "clFinish failed with CL_OUT_OF_RESOURCES (-5)"));
    assert_int_equal(stk_stream_copy(stream, &there, 0, &host, 0, 64, &later), STOKE_E_DEVICE);
    assert_string_equal(later.message, first.message);
    assert_int_equal(stk_event_record(event, stream, &later), STOKE_E_DEVICE);
    assert_string_equal(later.message, first.message);
    stk_event_destroy(&event);
    stk_block_destroy(&host);
    stk_block_destroy(&there);
    stk_stream_destroy(&stream);
    stoke_device_close(&device);
    device = here_open("");
    OK(stk_stream_create(&stream, device, &err));
    OK(stk_stream_finish(stream, &err));
    stk_stream_destroy(&stream);
    stoke_device_close(&device);
}

/* ---- memory ---- */

static void test_too_large(void **state)
{
    stoke_device *device = here_open("");
    stk_opencl *own = stk_opencl_of(device);
    uint64_t free_bytes, total;
    stk_device_block a, b;
    stoke_error said = { 0 };
    OK(stoke_device_memory(device, &free_bytes, &total, &err));
    assert_true(total > 0);
    assert_int_equal(stk_block_create(&a, device, STK_MEMORY_DEVICE, (size_t)total + 1, &said),
                     STOKE_E_NOMEM);
    assert_non_null(strstr(said.message, "one block may have"));
    assert_int_equal(stk_block_create(&a, device, STK_MEMORY_PINNED, (size_t)1 << 60, &said), STOKE_E_NOMEM);
    assert_non_null(strstr(said.message, "pinned"));
    /* What the driver itself refuses. */
    const uint64_t largest = own->largest;
    own->total = own->largest = UINT64_MAX / 2;
    assert_int_equal(stk_block_create(&a, device, STK_MEMORY_DEVICE, (size_t)1 << 50, &said), STOKE_E_NOMEM);
    assert_non_null(strstr(said.message, "says the driver with CL_"));
    own->largest = largest;
    /* Half a megabyte twice on a device of less than one. */
    own->total = 1 << 20;
    own->total -= 1;
    OK(stk_block_create(&a, device, STK_MEMORY_DEVICE, 1 << 19, &err));
    assert_int_equal(stk_block_create(&b, device, STK_MEMORY_DEVICE, 1 << 19, &said), STOKE_E_NOMEM);
    assert_non_null(strstr(said.message, "has 1048575, of which this process has taken 524288"));
    stk_block_destroy(&a);
    OK(stk_block_create(&b, device, STK_MEMORY_DEVICE, 1 << 19, &err)); /* nothing was lost */
    stk_block_destroy(&b);
    assert_int_equal(atomic_load(&own->taken), 0);
    stoke_device_close(&device);
}

static cl_int CL_API_CALL of_amd(cl_device_id id, cl_device_info what, size_t size, void *value, size_t *n)
{
    const size_t kib[2] = { 3000, 2000 };
    if (what != CL_DEVICE_GLOBAL_FREE_MEMORY_AMD) return real.clGetDeviceInfo(id, what, size, value, n);
    memcpy(value, kib, sizeof kib);
    return CL_SUCCESS;
}

/* OpenCL does not know what is free, AMD does. */
static void test_free_memory(void **state)
{
    stoke_device *device = here_open("");
    uint64_t free_bytes, total;
    real = stk_opencl_of(device)->cl;
    stk_opencl_of(device)->cl.clGetDeviceInfo = of_amd;
    OK(stoke_device_memory(device, &free_bytes, &total, &err));
    assert_int_equal(free_bytes, 3000 * 1024);
    assert_int_equal(total, stoke_device_describe(device)->memory_bytes);
    stoke_device_close(&device);
}

UNIT_GROUP(opencl)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_pageable_is_free_again),
        cmocka_unit_test(test_events_order_streams),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_foreign_clock),
        cmocka_unit_test(test_floats_are_the_hosts),
        cmocka_unit_test(test_threads_share_a_module),
        unit_test_with_folder(test_program_refused),
        unit_test_with_folder(test_cache),
        unit_test_with_folder(test_cache_unwritable),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_free_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
