/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of CUDA without a card: the controls of tests/fake, and one run through everything a device does.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_FAKE_GPU_H
#define STOKE_TESTS_UNIT_FIXTURE_FAKE_GPU_H

#include "tests/unit/unit.h"

#include <dlfcn.h>

#include "kernels/tables.h"
#include "src/device/device.h"
#include "tests/fake/fake_cuda.h"

static const fake_cuda_control *card;
static const fake_nvrtc_control *compiler;

/* What the loader of programs gives for a name in a library that a variable names; NULL = not there. */
static inline const void *fake_card_symbol(const char *variable, const char *name)
{
    const char *file = getenv(variable);
    void *library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
    return library ? dlsym(library, name) : NULL;
}

/* Before every test. */
static inline int fake_card_setup(void **state)
{
    card = fake_card_symbol("STOKE_LIBCUDA", "fake_cuda");
    compiler = fake_card_symbol("STOKE_LIBNVRTC", "fake_nvrtc");
    if (!card || !compiler) {
        print_message("# STOKE_LIBCUDA and STOKE_LIBNVRTC must name the libraries of tests/fake\n");
        return -1;
    }
    setenv("OCL_ICD_VENDORS", "/nowhere", 1); /* lists are made often, and OpenCL takes long to start */
    card->reset();
    compiler->reset();
    return 0;
}

/* After every test: whatever it did was in order, and nothing is left. */
static inline int fake_card_teardown(void **state)
{
    if (*card->faults() || *card->leaks())
        print_message("# faults:\n%s# leaks:\n%s", card->faults(), card->leaks());
    return *card->faults() || *card->leaks() || card->contexts() || card->depth() || compiler->programs() ? -1
                                                                                                          : 0;
}

/* The same with a folder. */
static inline int fake_card_folder_setup(void **state)
{
    return fake_card_setup(state) ? -1 : unit_folder_setup(state);
}

static inline int fake_card_folder_teardown(void **state)
{
    const int r = fake_card_teardown(state);
    return unit_folder_teardown(state) ? -1 : r;
}

#define fake_card_test_with_folder(f)                                                                        \
    cmocka_unit_test_setup_teardown(f, fake_card_folder_setup, fake_card_folder_teardown)
#define fake_card_test(f) cmocka_unit_test_setup_teardown(f, fake_card_setup, fake_card_teardown)

/* The first thing done wrong or NULL. Of two threads one may make a call while the other
 * learns that the device is lost. */
static inline const char *fake_card_fault(void)
{
    for (const char *line = card->faults(), *next; *line; line = next) {
        next = strchr(line, '\n') ? strchr(line, '\n') + 1 : line + strlen(line);
        const char *late = strstr(line, "after the device was lost");
        if (!late || late >= next) return line;
    }
    return NULL;
}

/* Runs with the n-th call made to fail, by one code or another; whatever comes of it, nothing was done wrong
 * and nothing is left. Who is refused the context cannot end what is in it. */
static inline int fake_card_break(unsigned long n, int (*run)(void *context), void *context)
{
    static const int codes[] = { 2, 700 }; /* out of memory, illegal address */
    card->reset();
    card->fail_at(n, codes[n % 2]);
    const int r = run(context), unreachable = !strcmp(card->failed(), "cuCtxPushCurrent_v2");
    if (fake_card_fault() || card->depth() || (*card->leaks() && !unreachable))
        fail_msg("call %lu (%s): %s%s", n, card->failed(), card->faults(), card->leaks());
    return r;
}

/* The kernels as text alone: where nvcc was at build time, PTX would be taken first. */
static inline stk_program fake_card_text(void)
{
    stk_program program = stk_augment_program;
    program.n_ptx = 0;
    return program;
}

enum { CARD_BYTES = 1000, CARD_CLEARED = 100 /* words */ };

typedef struct card_run {
    stoke_device *device;
    stk_device_block a, b, pinned, back, pageable;
    stk_device_stream *copies, *work;
    stk_device_event *copied, *ready;
    stk_program program;
    stk_device_module *module;
} card_run;

static inline int card_make(card_run *run, stoke_error *err)
{
    uint64_t left, total;
    int r = stoke_device_open(&run->device, "cuda:0", NULL, err);
    if (!r) r = stoke_device_memory(run->device, &left, &total, err);
    if (!r) r = stk_block_create(&run->a, run->device, STK_MEMORY_DEVICE, CARD_BYTES, err);
    if (!r) r = stk_block_create(&run->b, run->device, STK_MEMORY_DEVICE, CARD_BYTES, err);
    if (!r) r = stk_block_create(&run->pinned, run->device, STK_MEMORY_PINNED, CARD_BYTES, err);
    if (!r) r = stk_block_create(&run->back, run->device, STK_MEMORY_PINNED, CARD_BYTES, err);
    if (!r) r = stk_block_create(&run->pageable, run->device, STK_MEMORY_PAGEABLE, CARD_BYTES, err);
    if (!r) r = stk_stream_create(&run->copies, run->device, err);
    if (!r) r = stk_stream_create(&run->work, run->device, err);
    if (!r) r = stk_event_create(&run->copied, run->device, err);
    if (!r) r = stk_event_create(&run->ready, run->device, err);
    if (!r) r = stk_module_create(&run->module, run->device, &run->program, err);
    return r;
}

static inline int card_clear(card_run *run, stoke_error *err)
{
    const k_shape shape = { .width = CARD_CLEARED };
    const stk_device_argument arguments[] = { { .block = &run->a },
                                              { .value = &shape, .bytes = sizeof shape } };
    return stk_stream_launch(
        run->work, run->module,
        &(stk_device_launch){ STK_KERNEL_clear, { CARD_CLEARED, 1, 1 }, arguments, 2, 0 }, err);
}

/* Up on one stream, a kernel and down on another; then every other way bytes can go. */
static inline int card_work(card_run *run, stoke_error *err)
{
    uint64_t copied_ns = 0, ready_ns = 0;
    int done = 0;
    unsigned char *bytes = run->pinned.host, *pageable = run->pageable.host;
    for (int i = 0; i < CARD_BYTES; i++) bytes[i] = (unsigned char)(i * 7 + 1);
    memset(run->back.host, 0, CARD_BYTES);
    memset(pageable, 0, CARD_BYTES);
    int r = stk_stream_copy(run->copies, &run->a, 0, &run->pinned, 0, CARD_BYTES, err);
    if (!r) r = stk_event_record(run->copied, run->copies, err);
    if (!r) r = stk_stream_wait(run->work, run->copied, err);
    if (!r) r = card_clear(run, err);
    if (!r) r = stk_stream_copy(run->work, &run->b, 8, &run->a, 0, CARD_BYTES - 8, err);
    if (!r) r = stk_stream_copy(run->work, &run->back, 0, &run->b, 8, CARD_BYTES - 8, err);
    if (!r) r = stk_event_record(run->ready, run->work, err);
    while (!r && !done) r = stk_event_done(run->ready, &done, err);
    if (!r) r = stk_event_finish(run->ready, err);
    if (!r) r = stk_event_time(run->copied, &copied_ns, err);
    if (!r) r = stk_event_time(run->ready, &ready_ns, err);
    if (!r) r = stk_stream_copy(run->copies, &run->pageable, 0, &run->pinned, 0, CARD_BYTES / 2, err);
    if (!r) r = stk_stream_copy(run->copies, &run->b, 0, &run->pageable, 0, CARD_BYTES / 2, err);
    if (!r) memset(pageable, 0, CARD_BYTES / 2); /* it has been read */
    if (!r) r = stk_stream_copy(run->copies, &run->pageable, CARD_BYTES / 2, &run->b, 0, CARD_BYTES / 2, err);
    if (!r) r = stk_stream_finish(run->copies, err);
    if (!r) r = stk_stream_finish(run->work, err);
    if (r) return r;
    assert_true(copied_ns && copied_ns <= ready_ns);
    const unsigned char *back = run->back.host;
    for (int i = 0; i < CARD_BYTES - 8; i++)
        assert_int_equal(back[i], i < 4 * CARD_CLEARED ? 0 : (unsigned char)(i * 7 + 1));
    for (int i = 0; i < CARD_BYTES / 2; i++)
        assert_true(!pageable[i] && pageable[CARD_BYTES / 2 + i] == (unsigned char)(i * 7 + 1));
    return STOKE_OK;
}

/* Also half-made ones. */
static inline void card_end(card_run *run)
{
    stk_module_destroy(&run->module);
    stk_event_destroy(&run->copied);
    stk_event_destroy(&run->ready);
    stk_stream_destroy(&run->copies);
    stk_stream_destroy(&run->work);
    stk_block_destroy(&run->a);
    stk_block_destroy(&run->b);
    stk_block_destroy(&run->pinned);
    stk_block_destroy(&run->back);
    stk_block_destroy(&run->pageable);
    stoke_device_close(&run->device);
}

/* Everything from opening to closing. */
static inline int card_scenario(stoke_error *err)
{
    card_run run = { .program = fake_card_text() };
    int r = card_make(&run, err);
    if (!r) r = card_work(&run, err);
    card_end(&run);
    return r;
}

#endif
