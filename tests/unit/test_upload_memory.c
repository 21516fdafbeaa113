/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on a device that has no room for them.
 */
#include <stoke/tools/upload.h>
#include "tests/unit/fixture_upload.h"

#include "src/device/sim.h"

static void too_little_memory_is_refused_with_the_sum(void **state)
{
    feeding f = feeding_begin(state);
    f.data.size[0] = f.data.size[1] = 512;
    f.data.batch = 8;
    stoke_device_params small = stoke_device_defaults();
    stoke_device *device;
    stoke_upload *upload;
    stoke_error err = { 0 };
    stoke_upload_params params = feeding_params(STOKE_PLACEMENT_DEVICE, STOKE_TRANSFER_STREAM, 2);
    assert_int_equal(stoke_device_open(&device, "sim", &small, NULL), 0);
    stk_sim_set_memory(device, (512 + 64) << 20);
    assert_int_equal(stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err), STOKE_E_NOMEM);
    assert_non_null(strstr(err.message, "slots 3 x "));
    assert_non_null(strstr(err.message, "kernels"));
    assert_non_null(strstr(err.message, "Lower batch, size or depth"));
    f.data.size[0] = f.data.size[1] = 16; /* the device is as good as before */
    assert_int_equal(stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err), 0);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);

    small.memory_limit = 8 << 20; /* what the caller allows is a limit like what there is */
    f.data.size[0] = f.data.size[1] = 512;
    assert_int_equal(stoke_device_open(&device, "host", &small, NULL), 0);
    assert_int_equal(stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err), STOKE_E_NOMEM);
    assert_non_null(strstr(err.message, "8.0 of 8.0 MiB free"));
    stoke_device_close(&device);

    feeding_end(&f);
}

static void memory_of_the_host_has_one_limit(void **state)
{
    if (UNIT_SANITIZED)
        unit_skip("the process's own share is measured again, and a sanitizer's moves by what it keeps of "
                  "freed memory");
    feeding f = feeding_begin(state);
    stoke_upload *upload;
    stoke_error err = { 0 };
    stoke_upload_params params = feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_STREAM, 2);
    stoke_device *device = feeding_device("host");
    f.data.size[0] = f.data.size[1] = 512;
    f.data.batch = 8;
    assert_int_equal(stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err), 0);
    const stoke_upload_memory all = *stoke_upload_memory_plan(upload);
    assert_int_equal(all.host.beside_bytes, all.total_bytes); /* the host's batches lie in the same memory */
    stoke_upload_destroy(&upload);
    /* Less than for all: the ring gets shorter. */
    f.data.memory_limit = all.host.total_bytes - all.host.slot_bytes / 2;
    if (stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err)) fail_msg("%s", err.message);
    const stoke_upload_memory less = *stoke_upload_memory_plan(upload);
    assert_true(less.host.prefetch_reduced && less.host.total_bytes <= f.data.memory_limit);
    stoke_upload_destroy(&upload);
    /* Copies that are read back are in the plan, and it is known before the upload is made. */
    stoke_upload_memory foreseen;
    params.reads = 1;
    f.data.memory_limit = 0;
    assert_int_equal(stoke_upload_estimate(&foreseen, f.dataset, &f.data, device, &params, &err), 0);
    assert_int_equal(foreseen.read_bytes, all.slots * all.slot_bytes);
    assert_int_equal(foreseen.host.beside_bytes, all.total_bytes + foreseen.read_bytes);
    assert_int_equal(foreseen.host.slots, all.host.slots);
    params.reads = 0;
    f.data.memory_limit = all.total_bytes + all.host.slot_bytes;
    assert_int_equal(stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err), STOKE_E_LIMIT);
    assert_non_null(strstr(err.message, "batches on the device, in the same memory "));
    assert_non_null(strstr(err.message, "Set memory_limit to "));
    stoke_device_close(&device);
    feeding_end(&f);
}

UNIT_GROUP(upload_memory)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(too_little_memory_is_refused_with_the_sum),
        unit_test_with_folder(memory_of_the_host_has_one_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
