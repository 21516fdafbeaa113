/* SPDX-License-Identifier: Apache-2.0
 *
 * The upload over the CUDA driver of tests/fake, which does its work as late as the interface allows, keeps
 * books of every object, and fails where it is told to: an event that is not waited for, a slot that is given
 * back too early or memory that is freed while it is used shows here.
 */
#include <stoke/tools/diagnose.h>
#include <stoke/tools/upload.h>
#include "tests/unit/fixture_fake_gpu.h"
#include "tests/unit/fixture_upload.h"

#include "src/device/cuda.h"

static void events_keep_the_order(void **state)
{
    feeding f = feeding_begin(state);
    for (int eager = 0; eager < 2; eager++)
        for (int way = 0; way < 6; way++) {
            card->reset();
            card->settings->eager = eager;
            stoke_device *device = feeding_device("cuda:0");
            stoke_upload *upload = feeding_open(&f, device, feeding_params(way % 2, way / 2, 1 + way % 3));
            feeding_run_ahead(upload, &f);
            stoke_upload_destroy(&upload);
            stoke_device_close(&device);
            if (*card->faults() || *card->leaks()) fail_msg("%s%s", card->faults(), card->leaks());
        }
    feeding_end(&f);
}

/* A stream of the caller's own, which stays when the upload is gone. */
static void the_consumers_stream_may_be_its_own(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("cuda:0");
    stk_cuda *cuda = device->own;
    CUstream theirs;
    assert_int_equal(stk_device_cuda.enter(device, NULL), STOKE_OK);
    assert_int_equal(cuda->driver.cuStreamCreate(&theirs, 0), CUDA_SUCCESS);
    stk_device_cuda.leave(device);
    for (int transfer = 0; transfer < 3; transfer++) {
        stoke_upload_params params = feeding_params(STOKE_PLACEMENT_DEVICE, transfer, 2);
        params.consumer_stream = theirs;
        stoke_upload *upload = feeding_open(&f, device, params);
        feeding_run_ahead(upload, &f);
        stoke_upload_destroy(&upload);
    }
    assert_int_equal(stk_device_cuda.enter(device, NULL), STOKE_OK);
    assert_int_equal(cuda->driver.cuStreamDestroy(theirs), CUDA_SUCCESS);
    stk_device_cuda.leave(device);
    stoke_device_close(&device);
    feeding_end(&f);
}

/* An epoch with a step on every batch; what comes is right, or the run ends with an error. */
typedef struct run {
    const feeding *f;
    stoke_upload_params params;
    size_t taken;
} run;

static int run_epoch(void *context)
{
    run *one = context;
    stoke_device_params settings = stoke_device_defaults();
    stoke_device *device = NULL;
    stoke_upload *upload = NULL;
    stoke_error err = { 0 };
    settings.cache = "";
    one->taken = 0;
    int r = stoke_device_open(&device, "cuda:0", &settings, &err);
    if (!r) r = stoke_upload_create(&upload, one->f->dataset, &one->f->data, device, &one->params, &err);
    if (r && !*err.message) fail_msg("error %d without a message", r);
    for (; !r && one->taken < BATCHES; one->taken++) {
        r = feeding_take(upload, one->f, one->taken);
        if (!r) r = stoke_fake_step(upload, 0.01, NULL);
        if (r) break;
    }
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    return r;
}

static void every_call_may_fail(void **state)
{
    feeding f = feeding_begin(state);
    size_t failures = 0, cut_short = 0;
    for (int way = 0; way < 6; way++) {
        run one = { &f, feeding_params(way % 2, way / 2, 2), 0 };
        card->reset();
        assert_int_equal(run_epoch(&one), 0);
        const unsigned long calls = card->calls();
        for (unsigned long n = 1 + (unsigned long)way; n < calls; n += 1 + calls / 20) {
            const int r = fake_card_break(n, run_epoch, &one);
            failures += r != 0;
            cut_short += r && one.taken;
        }
    }
    assert_true(failures > 30 && cut_short > 2);
    card->reset();
    feeding_end(&f);
}

/* Kernels that nothing here can compile are no reason to do without the card. */
static void auto_does_without_a_compiler(void **state)
{
    if (stk_augment_program.n_ptx) unit_skip("the kernels are at hand as PTX");
    char *compiler_was = strdup(getenv("STOKE_LIBNVRTC"));
    setenv("STOKE_LIBNVRTC", "/nowhere/libnvrtc.so", 1);
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("cuda:0");
    stoke_upload *upload = feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_AUTO, 0, 2));
    const char *why;
    assert_int_equal(stoke_upload_placement(upload, &why), STOKE_PLACEMENT_HOST);
    assert_non_null(strstr(why, "no NVRTC"));
    feeding_take_all(upload, &f, 0, BATCHES);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    feeding_end(&f);
    setenv("STOKE_LIBNVRTC", compiler_was, 1);
    free(compiler_was);
}

UNIT_GROUP(upload_cuda)
{
    const struct CMUnitTest tests[] = {
        fake_card_test_with_folder(events_keep_the_order),
        fake_card_test_with_folder(the_consumers_stream_may_be_its_own),
        fake_card_test_with_folder(every_call_may_fail),
        fake_card_test_with_folder(auto_does_without_a_compiler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
