/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA kind of device over the driver of tests/fake: what it finds, what it does, what it says. Failures
 * of every single call are in test_cuda_failures.c.
 */
#include "tests/unit/fixture_fake_gpu.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <stoke/tools/device.h>

#include "src/base/clock.h"
#include "src/device/cuda.h"

/* ---- what is there ---- */

/* The entry of a list, which must be there. */
static stoke_device_info listed(const char *name)
{
    stoke_device_list *list;
    stoke_device_info info;
    int found = 0;
    assert_int_equal(stoke_device_list_create(&list, NULL), STOKE_OK);
    for (size_t i = 0; !found && stoke_device_list_at(list, i, &info); i++) found = !strcmp(info.name, name);
    stoke_device_list_destroy(&list);
    if (!found) fail_msg("%s is not in the list", name);
    return info;
}

/* Opening fails with a status, and says so. */
static void refuses(const char *name, int status, const char *words)
{
    stoke_device *device;
    stoke_error err = { 0 };
    assert_int_equal(stoke_device_open(&device, name, NULL, &err), status);
    assert_null(device);
    if (!strstr(err.message, words)) fail_msg("'%s' is not in: %s", words, err.message);
}

static void test_lists_cards(void **state)
{
    card->settings->cards = 2;
    const stoke_device_info info = listed("cuda:1");
    assert_string_equal(info.title, "Fake card 1");
    assert_string_equal(info.driver, "CUDA 12.4, compute capability 8.6");
    assert_string_equal(info.problem, "");
    assert_int_equal(info.memory_bytes, 256u << 20);
    assert_int_equal(info.compute_units, 3);
    assert_true(info.exact_math && !info.emulated && !info.shares_memory && !info.shares_cores);
}

static void test_one_of_two_is_broken(void **state)
{
    stoke_error err;
    card->settings->cards = 2;
    card->settings->broken_card = 0;
    assert_non_null(strstr(listed("cuda:0").problem, "cuDeviceGetAttribute says CUDA_ERROR_UNKNOWN"));
    assert_string_equal(listed("cuda:1").problem, "");
    refuses("cuda:0", STOKE_E_DEVICE, "CUDA_ERROR_UNKNOWN");
    stoke_device *device;
    assert_int_equal(stoke_device_open(&device, "cuda:1", NULL, &err), STOKE_OK);
    stoke_device_close(&device);
    assert_int_equal(stoke_device_open(&device, "auto", NULL, &err), STOKE_OK);
    assert_string_equal(stoke_device_describe(device)->name, "cuda:1");
    stoke_device_close(&device);
}

static void test_no_card(void **state)
{
    card->settings->cards = 0;
    assert_non_null(strstr(listed("cuda").problem, "CUDA_VISIBLE_DEVICES"));
    refuses("cuda", STOKE_E_NOTFOUND, "the driver finds no card");
    card->settings->cards = 1;
    card->fail_at(2, CUDA_ERROR_NO_DEVICE); /* cuInit */
    refuses("cuda", STOKE_E_NOTFOUND, "cuInit says CUDA_ERROR_NO_DEVICE");
}

static void test_no_such_card(void **state)
{
    refuses("cuda:1", STOKE_E_NOTFOUND, "the driver shows 1 card");
    refuses("cuda:first", STOKE_E_NOTFOUND, "as in cuda:0");
    refuses("cuda:-1", STOKE_E_NOTFOUND, "as in cuda:0");
}

static void test_prohibited(void **state)
{
    card->settings->prohibited = 1;
    assert_non_null(strstr(listed("cuda:0").problem, "nvidia-smi -i 0 -c DEFAULT"));
    refuses("cuda:0", STOKE_E_UNSUPPORTED, "prohibited");
}

static void test_driver_too_old(void **state)
{
    card->settings->version = 10020;
    assert_non_null(strstr(listed("cuda").problem, "it knows CUDA 10.2, 11.0 is needed"));
    refuses("cuda:0", STOKE_E_UNSUPPORTED, "update the driver");
}

/* The driver is another file while a function runs. */
static void with_driver(const char *file, void (*run)(void))
{
    char usual[4096];
    snprintf(usual, sizeof usual, "%s", getenv("STOKE_LIBCUDA"));
    setenv("STOKE_LIBCUDA", file, 1);
    run();
    setenv("STOKE_LIBCUDA", usual, 1);
}

static void without_driver(void)
{
    assert_non_null(strstr(listed("cuda").problem, "no NVIDIA driver (/nowhere/libcuda.so.1: cannot open"));
    refuses("cuda:0", STOKE_E_NOTFOUND, "install it");
}

static void without_function(void)
{
    assert_non_null(strstr(listed("cuda").problem, "it knows CUDA 12.4 but has no cuEventElapsedTime"));
    refuses("cuda:0", STOKE_E_UNSUPPORTED, "reinstall the NVIDIA driver");
}

static void with_other_library(void)
{
    refuses("cuda:0", STOKE_E_UNSUPPORTED,
            "is no NVIDIA driver that can be used: it has no cuDriverGetVersion");
}

static void test_driver_missing_or_partial(void **state)
{
    const char *partial = getenv("STOKE_FAKE_PARTIAL");
    with_driver("/nowhere/libcuda.so.1", without_driver);
    with_driver(getenv("STOKE_LIBNVRTC"), with_other_library);
    if (!partial) unit_skip("STOKE_FAKE_PARTIAL does not name a driver that lacks a function");
    with_driver(partial, without_function);
}

/* ---- what it does ---- */

static void test_scenario(void **state)
{
    stoke_error err = { 0 };
    for (int eager = 0; eager < 2; eager++) {
        card->settings->eager = eager;
        if (card_scenario(&err)) fail_msg("%s", err.message);
        assert_string_equal(card->leaks(), "");
    }
}

static void *scenario_of_thread(void *result)
{
    stoke_error err = { 0 };
    *(int *)result = card_scenario(&err);
    if (*(int *)result) print_message("# %s\n", err.message);
    return NULL;
}

/* Devices in four threads, and none finds another's context current. */
static void test_threads(void **state)
{
    pthread_t threads[4];
    int results[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, scenario_of_thread, &results[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(results[i], STOKE_OK);
    }
}

static void test_memory_full(void **state)
{
    card_run run = { .program = fake_card_text() };
    stoke_error err = { 0 };
    stk_device_block large;
    assert_int_equal(card_make(&run, &err), STOKE_OK);
    assert_int_equal(stk_block_create(&large, run.device, STK_MEMORY_DEVICE, 256u << 20, &err),
                     STOKE_E_NOMEM);
    assert_non_null(strstr(err.message, "no room for a block of 256.0 MiB (cuMemAlloc says"));
    assert_non_null(strstr(err.message, "; 256.0 of 256.0 MiB are free")); /* less the two blocks of 1 KB */
    assert_int_equal(card_work(&run, &err), STOKE_OK);                     /* the device is not lost */
    card_end(&run);
}

/* Work queued, then everything destroyed in the worst order. */
static void test_destroy_while_busy(void **state)
{
    card_run run = { .program = fake_card_text() };
    stoke_error err = { 0 };
    assert_int_equal(card_make(&run, &err), STOKE_OK);
    memset(run.pinned.host, 1, CARD_BYTES);
    assert_int_equal(stk_stream_copy(run.work, &run.a, 0, &run.pinned, 0, CARD_BYTES, &err), STOKE_OK);
    assert_int_equal(card_clear(&run, &err), STOKE_OK);
    assert_int_equal(stk_event_record(run.ready, run.work, &err), STOKE_OK);
    stk_event_destroy(&run.ready);
    stk_block_destroy(&run.pinned);
    assert_int_equal(card_clear(&run, &err), STOKE_OK);
    stk_module_destroy(&run.module);
    card_end(&run);
}

static void test_grid_too_large(void **state)
{
    card_run run = { .program = fake_card_text() };
    stoke_error err = { 0 };
    const k_shape shape = { .width = 1 };
    assert_int_equal(card_make(&run, &err), STOKE_OK);
    const stk_device_argument arguments[] = { { .block = &run.a },
                                              { .value = &shape, .bytes = sizeof shape } };
    const stk_device_launch launch = { STK_KERNEL_clear, { 1, 1, 65536 }, arguments, 2, 0 };
    assert_int_equal(stk_stream_launch(run.work, run.module, &launch, &err), STOKE_E_LIMIT);
    assert_non_null(strstr(err.message, "1 x 1 x 65536 work items"));
    card_end(&run);
}

/* ---- events ---- */

static void test_events_before_they_happen(void **state)
{
    card_run run = { .program = fake_card_text() };
    stoke_error err = { 0 };
    uint64_t ns;
    int done = 0;
    assert_int_equal(card_make(&run, &err), STOKE_OK);
    assert_int_equal(stk_stream_wait(run.work, run.ready, &err), STOKE_OK);
    assert_int_equal(stk_event_finish(run.ready, &err), STOKE_OK);
    assert_int_equal(stk_event_done(run.ready, &done, &err), STOKE_OK);
    assert_int_equal(done, 1);
    assert_int_equal(stk_event_time(run.ready, &ns, &err), STOKE_E_STATE);
    assert_int_equal(card_clear(&run, &err), STOKE_OK);
    assert_int_equal(stk_event_record(run.ready, run.work, &err), STOKE_OK);
    assert_int_equal(stk_event_time(run.ready, &ns, &err), STOKE_E_STATE);
    assert_int_equal(stk_event_done(run.ready, &done, &err), STOKE_OK);
    assert_int_equal(done, 0);
    assert_int_equal(stk_event_finish(run.ready, &err), STOKE_OK);
    assert_int_equal(stk_event_done(run.ready, &done, &err), STOKE_OK);
    assert_int_equal(done, 1);
    card_end(&run);
}

/* The time of an event is counted from a mark, and lies between its recording and now. Marks are off by what
 * it takes to get to know of an event; the fake knows better, so the test need not be patient with that. */
static void check_time(const card_run *run, const stk_cuda_mark *mark)
{
    stk_device_event *event = run->copied;
    stoke_error err = { 0 };
    uint64_t ns = 0;
    const uint64_t before = stk_now_ns();
    assert_int_equal(stk_event_time(event, &ns, &err), STOKE_OK);
    const uint64_t now = stk_now_ns(), rounding = 2000; /* ns */
    uint64_t wanted = mark->ns + card->happened(event->handle) - card->happened(mark->event);
    if (wanted < event->recorded_ns) wanted = event->recorded_ns;
    assert_in_range(ns, event->recorded_ns, now);
    if (wanted < before) assert_in_range(ns, wanted - rounding, wanted + rounding);
}

/* Marks are as old as the test says; none is asked that must not be. */
static void test_times_after_a_long_while(void **state)
{
    card_run run = { .program = fake_card_text() };
    stoke_error err = { 0 };
    assert_int_equal(card_make(&run, &err), STOKE_OK);
    stk_cuda_mark *marks = ((stk_cuda *)run.device->own)->clock.marks;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stk_event_record(run.copied, run.copies, &err), STOKE_OK);
        assert_int_equal(stk_event_finish(run.copied, &err), STOKE_OK);
        usleep(2000); /* between what is right and what a wrong mark would give, which is now */
        const uint64_t latest = marks[1].ns;
        marks[0].ns += 5000000000u; /* ns */
        check_time(&run, &marks[1]);
        marks[1].ns -= 9000000000u; /* ns: too old, a new one is taken */
        check_time(&run, &marks[1]);
        assert_true(marks[1].ns > latest);
        marks[0].ns = latest; /* the new one is after the event: the one before it is asked */
        check_time(&run, &marks[0]);
    }
    card_end(&run);
}

/* ---- streams of others ---- */

static void test_stream_of_others(void **state)
{
    card_run run = { .program = fake_card_text() };
    stoke_error err = { 0 };
    stk_device_stream *wrapped;
    CUstream theirs, foreign;
    CUcontext other, left;
    card->settings->cards = 2;
    assert_int_equal(card_make(&run, &err), STOKE_OK);
    stk_cuda *cuda = run.device->own;
    const stk_cuda_driver *driver = &cuda->driver;
    assert_int_equal(stk_device_cuda.enter(run.device, &err), STOKE_OK);
    assert_int_equal(driver->cuStreamCreate(&theirs, 0), CUDA_SUCCESS);
    stk_device_cuda.leave(run.device);

    void *const natives[] = { theirs, NULL };
    for (int i = 0; i < 2; i++) {
        memset(run.pinned.host, 40 + i, CARD_BYTES);
        assert_int_equal(stk_stream_wrap(&wrapped, run.device, natives[i], &err), STOKE_OK);
        assert_int_equal(stk_stream_copy(wrapped, &run.a, 0, &run.pinned, 0, CARD_BYTES, &err), STOKE_OK);
        assert_int_equal(stk_stream_copy(wrapped, &run.back, 0, &run.a, 0, CARD_BYTES, &err), STOKE_OK);
        assert_int_equal(stk_stream_finish(wrapped, &err), STOKE_OK);
        assert_int_equal(((unsigned char *)run.back.host)[CARD_BYTES - 1], 40 + i);
        stk_stream_destroy(&wrapped);
    }

    assert_int_equal(driver->cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    driver->cuCtxPushCurrent(other);
    assert_int_equal(driver->cuStreamCreate(&foreign, 0), CUDA_SUCCESS);
    assert_int_equal(stk_stream_wrap(&wrapped, run.device, foreign, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "belongs to another device"));
    assert_int_equal(card->depth(), 1); /* the caller's context is current again */
    driver->cuStreamDestroy(foreign);
    driver->cuCtxPopCurrent(&left);
    assert_ptr_equal(left, other);
    driver->cuDevicePrimaryCtxRelease(1);

    assert_int_equal(stk_device_cuda.enter(run.device, &err), STOKE_OK);
    assert_int_equal(driver->cuStreamDestroy(theirs), CUDA_SUCCESS); /* still there */
    stk_device_cuda.leave(run.device);
    card_end(&run);
}

/* ---- programs ---- */

/* Makes a module and takes it down; the status, the message in err. */
static int build(const stk_program *program, stoke_error *err)
{
    stoke_device *device;
    stk_device_module *module;
    *err = (stoke_error){ 0 };
    assert_int_equal(stoke_device_open(&device, "cuda", NULL, err), STOKE_OK);
    const int r = stk_module_create(&module, device, program, err);
    stk_module_destroy(&module);
    stoke_device_close(&device);
    return r;
}

/* PTX of three architectures, by rising version, of which only the middle one is not broken. */
static void test_ptx_that_fits(void **state)
{
    stk_program program = fake_card_text();
    char *good = malloc(program.text_bytes + 64);
    sprintf(good, ".version 7.8\n.target sm_80\n%s", program.text);
    const stk_program_ptx ptx[] = { { 70, "BROKEN 70", 9 },
                                    { 80, good, strlen(good) },
                                    { 90, "BROKEN 90", 9 } };
    stoke_error err;
    program.ptx = ptx;
    program.n_ptx = 3;
    assert_int_equal(build(&program, &err), STOKE_OK);
    assert_int_equal(compiler->calls(), 0);

    card->settings->ptx_max = 75; /* a driver older than the PTX: from the text then */
    assert_int_equal(build(&program, &err), STOKE_OK);
    assert_true(compiler->calls() > 0);

    card->settings->architecture = 60; /* older than every PTX */
    compiler->reset();
    assert_int_equal(build(&program, &err), STOKE_OK);
    assert_true(compiler->calls() > 0);

    card->settings->architecture = 75; /* the first one, which is broken, and so is the text */
    program.text = "BROKEN";
    assert_int_equal(build(&program, &err), STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "CUDA_ERROR_INVALID_PTX"));
    assert_non_null(strstr(err.message, "ptxas application ptx input"));
    assert_non_null(
        strstr(err.message, "and from the text: cuda:0: program augment: nvrtcCompileProgram of NVRTC 12.4"));
    assert_non_null(strstr(err.message, "augment(1): error: BROKEN"));
    free(good);
}

static void test_text_that_does_not_compile(void **state)
{
    stk_program program = fake_card_text();
    stoke_error err;
    program.text = "kernel BROKEN";
    assert_int_equal(build(&program, &err), STOKE_E_UNSUPPORTED);
    assert_non_null(
        strstr(err.message, "nvrtcCompileProgram of NVRTC 12.4 says NVRTC_ERROR_COMPILATION:\n  augment(1)"));
}

static void test_kernel_missing(void **state)
{
    stk_program program = fake_card_text();
    stoke_error err;
    program.text = "void clear() {}";
    assert_int_equal(build(&program, &err), STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cuModuleGetFunction says CUDA_ERROR_NOT_FOUND"));
    assert_non_null(strstr(err.message, "kernel take_image of program augment"));
}

static void test_compiler_too_new_for_the_card(void **state)
{
    const stk_program program = fake_card_text();
    stoke_error err;
    card->settings->architecture = 70;
    compiler->set_lowest(75);
    assert_int_equal(build(&program, &err), STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "compute capability 7.0, NVRTC 12.4 compiles for 7.5 and newer"));
}

static void test_no_compiler(void **state)
{
    char usual[4096];
    const stk_program program = fake_card_text();
    stoke_error err;
    snprintf(usual, sizeof usual, "%s", getenv("STOKE_LIBNVRTC"));
    setenv("STOKE_LIBNVRTC", "/nowhere/libnvrtc.so", 1);
    const int missing = build(&program, &err);
    assert_non_null(strstr(err.message, "no NVRTC to compile the kernels (/nowhere/libnvrtc.so"));
    setenv("STOKE_LIBNVRTC", getenv("STOKE_LIBCUDA"), 1); /* a library, but no compiler */
    const int other = build(&program, &err);
    setenv("STOKE_LIBNVRTC", usual, 1);
    assert_int_equal(missing, STOKE_E_NOTFOUND);
    assert_int_equal(other, STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "NVRTC has no nvrtcVersion"));
}

/* The real compiler where it is, its PTX into the fake driver: all kernels are in there. */
static void test_real_compiler(void **state)
{
    char usual[4096];
    const stk_program program = fake_card_text();
    stoke_error err;
    if (UNIT_SANITIZED) unit_skip("sanitizers find faults in NVRTC itself");
    snprintf(usual, sizeof usual, "%s", getenv("STOKE_LIBNVRTC"));
    unsetenv("STOKE_LIBNVRTC");
    card->settings->architecture = 90;
    card->settings->version = 13000;
    const int r = build(&program, &err);
    setenv("STOKE_LIBNVRTC", usual, 1);
    if (r == STOKE_E_NOTFOUND) unit_skip("no NVRTC here (libnvrtc.so.13, .12, .11.2)");
    if (r) fail_msg("%s", err.message);
}

/* ---- the fake itself: what it is there to find, it finds ---- */

static void finds(const char *words)
{
    if (!strstr(card->faults(), words)) fail_msg("'%s' is not in: %s", words, card->faults());
    card->reset();
}

/* A driver with a context current. */
static stk_cuda_driver started(CUcontext *context)
{
    stk_cuda_driver driver;
    stoke_error err;
    assert_int_equal(stk_cuda_driver_open(&driver, &err), STOKE_OK);
    assert_int_equal(driver.cuDevicePrimaryCtxRetain(context, 0), CUDA_SUCCESS);
    assert_int_equal(driver.cuCtxPushCurrent(*context), CUDA_SUCCESS);
    return driver;
}

static void test_fake_finds_misused_memory(void **state)
{
    CUcontext context;
    CUdeviceptr a;
    char host[64] = { 0 };
    stk_cuda_driver driver = started(&context);
    driver.cuMemAlloc(&a, 16);
    driver.cuMemcpyHtoDAsync(a, host, 17, NULL);
    finds("cuMemcpyHtoDAsync_v2: 17 bytes at 0 of a block of 16");
    driver = started(&context);
    driver.cuMemAlloc(&a, 16);
    driver.cuMemFree(a);
    driver.cuMemcpyDtoHAsync(host, a, 16, NULL);
    finds("the device memory was freed before");
    driver = started(&context);
    driver.cuMemAlloc(&a, 16);
    driver.cuMemFree(a);
    driver.cuMemFree(a);
    finds("cuMemFree a second time");
    driver = started(&context);
    driver.cuMemcpyHtoDAsync((uintptr_t)host, host, 1, NULL);
    finds("is no address of device memory");
    driver = started(&context);
    void *pinned;
    driver.cuMemAlloc(&a, 16);
    driver.cuMemHostAlloc(&pinned, 16, 0);
    driver.cuMemcpyHtoDAsync(a, pinned, 16, NULL);
    driver.cuMemFreeHost(pinned);
    finds("cuMemFreeHost while a copy still uses it");
}

static void test_fake_finds_misused_objects(void **state)
{
    CUcontext context;
    CUstream stream;
    CUevent event, other;
    float ms;
    stk_cuda_driver driver = started(&context);
    driver.cuCtxPopCurrent(&context);
    driver.cuStreamCreate(&stream, 0);
    finds("cuStreamCreate without a context");
    driver = started(&context);
    driver.cuStreamCreate(&stream, 0);
    driver.cuStreamDestroy(stream);
    driver.cuStreamSynchronize(stream);
    finds("the stream was destroyed before");
    driver = started(&context);
    driver.cuEventCreate(&event, 0);
    driver.cuEventCreate(&other, 0);
    driver.cuEventElapsedTime(&ms, event, other);
    finds("an event was never recorded");
    driver = started(&context);
    driver.cuEventCreate(&event, 0);
    driver.cuDevicePrimaryCtxRelease(0);
    assert_string_equal(card->leaks(), "event of card 0 (0 bytes)\n");
    finds("is released while current");
    driver = started(&context);
    card->fail_at(1, CUDA_ERROR_ILLEGAL_ADDRESS);
    driver.cuEventCreate(&event, 0);
    driver.cuEventCreate(&event, 0);
    finds("cuEventCreate after the device was lost");
}

/* Memory of the card is not the host's: whoever touches it dies. */
static void test_fake_memory_is_out_of_reach(void **state)
{
    CUcontext context;
    CUdeviceptr a;
    const stk_cuda_driver driver = started(&context);
    assert_int_equal(driver.cuMemAlloc(&a, 16), CUDA_SUCCESS);
    fflush(NULL);
    const pid_t child = fork();
    if (!child) {
        fclose(stderr); /* a sanitizer would have a lot to say */
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)(uintptr_t)a = 1;
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    card->reset();
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

/* ---- everything ---- */

static int count_line(void *context, const stoke_selftest_line *line)
{
    int *lines = context;
    lines[line->passed ? 0 : 1]++;
    if (!line->passed) print_message("# %s: %s\n", line->name, line->problem);
    return 0;
}

static void test_selftest(void **state)
{
    stoke_device *device;
    stoke_error err = { 0 };
    int lines[2] = { 0, 0 };
    assert_int_equal(stoke_device_open(&device, "cuda:0", NULL, &err), STOKE_OK);
    if (stoke_device_selftest(device, count_line, lines, &err)) fail_msg("%s", err.message);
    stoke_device_close(&device);
    assert_true(lines[0] > 10 && !lines[1]);
}

UNIT_GROUP(cuda)
{
    const struct CMUnitTest tests[] = {
        fake_card_test(test_lists_cards),
        fake_card_test(test_one_of_two_is_broken),
        fake_card_test(test_no_card),
        fake_card_test(test_no_such_card),
        fake_card_test(test_prohibited),
        fake_card_test(test_driver_too_old),
        fake_card_test(test_driver_missing_or_partial),
        fake_card_test(test_scenario),
        fake_card_test(test_threads),
        fake_card_test(test_memory_full),
        fake_card_test(test_destroy_while_busy),
        fake_card_test(test_grid_too_large),
        fake_card_test(test_events_before_they_happen),
        fake_card_test(test_times_after_a_long_while),
        fake_card_test(test_stream_of_others),
        fake_card_test(test_ptx_that_fits),
        fake_card_test(test_text_that_does_not_compile),
        fake_card_test(test_kernel_missing),
        fake_card_test(test_compiler_too_new_for_the_card),
        fake_card_test(test_no_compiler),
        fake_card_test(test_real_compiler),
        fake_card_test(test_fake_finds_misused_memory),
        fake_card_test(test_fake_finds_misused_objects),
        fake_card_test(test_fake_memory_is_out_of_reach),
        fake_card_test(test_selftest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
