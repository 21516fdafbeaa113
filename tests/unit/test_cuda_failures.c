/* SPDX-License-Identifier: Apache-2.0
 *
 * Every call of the CUDA driver and of its compiler fails once, in every way that matters; so does every
 * allocation of ours. What is wanted: an error that names the call, nothing left behind, nothing done that
 * the driver forbids.
 */
#include "tests/unit/fixture_fake_gpu.h"

#include "src/base/mem.h"
#include "src/device/cuda.h"

/* Calls that end something go on whatever they return, so that a failure of theirs alone is nobody's concern;
 * the others say what a result means. */
static int is_beside_the_point(const char *call)
{
    static const char *const calls[] = {
        "cuCtxPopCurrent_v2",  "cuStreamDestroy_v2", "cuEventDestroy_v2",
        "cuModuleUnload",      "cuMemFree_v2",       "cuMemFreeHost",
        "cuStreamSynchronize", "cuCtxSynchronize",   "cuDevicePrimaryCtxRelease_v2",
        "nvrtcDestroyProgram"
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i], call)) return 1;
    return 0;
}

/* A loss that such a call was the first to see is told by the call after it. */
static void check_message(const stoke_error *err, const char *call)
{
    char name[64];
    snprintf(name, sizeof name, "%s", is_beside_the_point(call) ? " says CUDA_ERROR_" : call);
    char *version = strstr(name, "_v2");
    if (version) *version = 0;
    if (!strstr(err->message, name)) fail_msg("%s failed, the message is: %s", name, err->message);
}

/* What the books may say afterwards: nothing. Only what a thread could not get at for want of the context may
 * go with the context. */
static void check_books(unsigned long n, int code)
{
    const int unreachable = !strcmp(card->failed(), "cuCtxPushCurrent_v2");
    if (*card->faults() || card->contexts() || card->depth() || (*card->leaks() && !unreachable))
        fail_msg("call %lu (%s) fails with %d: %d contexts held, depth %d\n%s%s", n, card->failed(), code,
                 card->contexts(), card->depth(), card->faults(), card->leaks());
    assert_int_equal(compiler->programs(), 0);
}

/* The n-th call fails; returns the status of the run. STOKE_E_END: it ended before it made so many. */
static int run_failing(unsigned long n, int code)
{
    stoke_error err = { 0 };
    card->reset();
    card->fail_at(n, code);
    const int r = card_scenario(&err);
    check_books(n, code);
    if (!r && !*card->failed()) return STOKE_E_END;
    if (!r) {
        const int late = !strcmp(card->failed(), "cuCtxPushCurrent_v2") && *card->leaks();
        if (!late && !is_beside_the_point(card->failed()))
            fail_msg("%s failed and nobody cared", card->failed());
    } else {
        assert_int_equal(err.code, r);
        check_message(&err, card->failed());
    }
    return r;
}

/* There are 174 calls, or some more when the machine is so busy that the clocks are compared again. */
static void try_code(int code, int status)
{
    unsigned long n = 0, reported = 0;
    int r = STOKE_OK;
    while (r != STOKE_E_END) {
        r = run_failing(++n, code);
        if (r && r != STOKE_E_END && r != status)
            fail_msg("call %lu (%s) fails with %d: status %d", n, card->failed(), code, r);
        reported += r != STOKE_OK;
    }
    print_message("# %d: %lu calls, %lu failures reported\n", code, n - 1, reported - 1);
    assert_true(n > 150 && reported > n / 2);
    card->reset();
}

static void test_out_of_memory(void **state)
{
    try_code(CUDA_ERROR_OUT_OF_MEMORY, STOKE_E_NOMEM);
}

static void test_invalid_value(void **state)
{
    try_code(CUDA_ERROR_INVALID_VALUE, STOKE_E_DEVICE);
}

static void test_illegal_address(void **state)
{
    try_code(CUDA_ERROR_ILLEGAL_ADDRESS, STOKE_E_DEVICE);
}

static void test_lost_card(void **state)
{
    try_code(CUDA_ERROR_UNKNOWN, STOKE_E_DEVICE);
}

static void test_damaged_memory(void **state)
{
    try_code(CUDA_ERROR_ECC_UNCORRECTABLE, STOKE_E_DEVICE);
}

/* A code that this driver has no name for. */
static void test_unknown_code(void **state)
{
    try_code(12345, STOKE_E_DEVICE);
}

static void test_every_allocation(void **state)
{
    int r = STOKE_E_NOMEM;
    int64_t n = 0;
    for (; r && n < 1000; n++) {
        stoke_error err = { 0 };
        card->reset();
        stk_mem_fail_after(n);
        r = card_scenario(&err);
        stk_mem_fail_after(-1);
        if (r) assert_int_equal(err.code, STOKE_E_NOMEM);
        check_books((unsigned long)n, STOKE_E_NOMEM);
        assert_string_equal(card->leaks(), "");
    }
    assert_int_equal(r, STOKE_OK);
    assert_true(n > 8);
}

static void test_compiler(void **state)
{
    stoke_error none;
    assert_int_equal(card_scenario(&none), STOKE_OK);
    const unsigned long calls = compiler->calls();
    assert_true(calls >= 8);
    for (unsigned long n = 1; n <= calls; n++) {
        stoke_error err = { 0 };
        card->reset();
        compiler->fail_at(n, 11);
        const int r = card_scenario(&err);
        check_books(n, 11);
        assert_string_equal(card->leaks(), "");
        if (!r) assert_true(is_beside_the_point(compiler->failed()));
        if (r) assert_int_equal(r, STOKE_E_UNSUPPORTED);
        if (r) check_message(&err, compiler->failed());
    }
}

/* ---- lost in the middle ---- */

/* The message of a loss stays, and no call reaches the driver any more (its books would tell). */
static void test_first_message_stays(void **state)
{
    card_run run = { .program = fake_card_text() };
    stoke_error first = { 0 }, second = { 0 };
    assert_int_equal(card_make(&run, &first), STOKE_OK);
    card->settings->bad_kernel = "clear";
    assert_int_equal(card_work(&run, &first), STOKE_E_DEVICE);
    assert_non_null(strstr(first.message, "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access"));
    assert_non_null(strstr(first.message, "cuda:0"));
    const unsigned long calls = card->calls();
    assert_int_equal(stk_stream_finish(run.work, &second), STOKE_E_DEVICE);
    assert_string_equal(second.message, first.message);
    assert_int_equal(card->calls(), calls);
    card_end(&run);
    assert_string_equal(card->leaks(), "");
}

/* Another card goes on where one is lost. (The fake one loses all at once; the driver is new after the
 * reset.) */
static void test_open_again(void **state)
{
    stoke_error err = { 0 };
    card->fail_at(60, CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(card_scenario(&err), STOKE_E_DEVICE);
    card->reset();
    assert_int_equal(card_scenario(&err), STOKE_OK);
}

UNIT_GROUP(cuda_failures)
{
    const struct CMUnitTest tests[] = {
        fake_card_test(test_out_of_memory),       fake_card_test(test_invalid_value),
        fake_card_test(test_illegal_address),     fake_card_test(test_lost_card),
        fake_card_test(test_damaged_memory),      fake_card_test(test_unknown_code),
        fake_card_test(test_every_allocation),    fake_card_test(test_compiler),
        fake_card_test(test_first_message_stays), fake_card_test(test_open_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
