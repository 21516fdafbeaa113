/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands behind Loader(to=...) (stoke/tools/lease.h), without Python: leases on a device outlive their
 * engine, any thread lets go of them, and the figures are the consumer's. On the host's device and on the
 * CUDA driver of tests/fake, which keeps books of what is left.
 */
#include "tests/unit/fixture_fake_gpu.h"
#include "tests/unit/fixture_lease.h"

#include <pthread.h>

static const char *const devices[] = { "host", "cuda:0" };
enum { DEVICES = sizeof devices / sizeof *devices, MOST = 16 };

static stoke_lender_route route(const char *device, int64_t depth)
{
    stoke_lender_route to = { device, stoke_upload_defaults() };
    to.upload.placement = STOKE_PLACEMENT_HOST;
    to.upload.depth = depth;
    return to;
}

static stoke_lender *opened(const stoke_data_params *params, const char *device, int64_t depth)
{
    stoke_lender *engine;
    stoke_error err = { 0 };
    const stoke_lender_route to = route(device, depth);
    if (stoke_lender_open_on(&engine, params, &to, &err)) fail_msg("%s", err.message);
    return engine;
}

static void assert_digest(stoke_lease *lease, const pairs_digest *expected)
{
    uint8_t digest[16];
    stoke_error err = { 0 };
    if (stoke_lease_digest(lease, digest, &err)) fail_msg("%s", err.message);
    assert_memory_equal(digest, expected->digest, 16);
}

static void leases_outlive_the_engine(void **state)
{
    pairs_write(state, 12, 32, 32);
    stoke_data_params params = pairs_params(state);
    params.augment = "standard,mixup(p=0.5)";
    pairs_digest expected[MOST];
    assert_int_equal(pairs_epoch(&params, expected, MOST), 3);
    for (int way = 0; way < 2 * DEVICES; way++) {
        stoke_lender *engine = opened(&params, devices[way / 2], 2);
        stoke_lease *lease[2], *more;
        stoke_error err = { 0 };
        char name[16];
        for (int i = 0; i < 2; i++) assert_int_equal(leasing_next(engine, &lease[i]), 0);
        snprintf(name, sizeof name, "%s", lease[1]->batch.names[2]);
        if (way % 2) { /* closed, and one of them let go before the end */
            stoke_lender_close(engine);
            stoke_lender_close(engine);
            assert_int_equal(stoke_lender_next(engine, 0, &more, &err), STOKE_E_STATE);
            assert_digest(lease[0], &expected[0]);
            stoke_hold_drop(&lease[0]->hold);
        }
        stoke_lender_drop(engine);
        for (int i = way % 2; i < 2; i++) assert_digest(lease[i], &expected[i]);
        assert_string_equal(lease[1]->batch.names[2], name);
        for (int i = way % 2; i < 2; i++) stoke_hold_drop(&lease[i]->hold);
    }
}

static void starving_names_the_device(void **state)
{
    pairs_write(state, 24, 32, 32);
    const stoke_data_params params = pairs_params(state);
    for (int d = 0; d < DEVICES; d++) {
        stoke_lender *engine = opened(&params, devices[d], 1);
        stoke_lease *lease[2], *more;
        stoke_error err;
        int r;
        for (int i = 0; i < 2; i++) assert_int_equal(leasing_next(engine, &lease[i]), 0);
        do r = stoke_lender_next(engine, 0, &more, &err);
        while (r == STOKE_E_TIMEOUT);
        assert_int_equal(r, STOKE_E_STARVED);
        assert_non_null(strstr(err.message, "all 2 batches on "));
        assert_non_null(strstr(err.message, devices[d]));
        assert_non_null(strstr(err.message, "raise depth"));
        leasing_one_array_holds(engine, lease[0], 2);
        stoke_hold_drop(&lease[1]->hold);
        stoke_lender_drop(engine);
    }
}

static void take(stoke_lender *engine, int batches)
{
    stoke_lease *lease;
    for (int i = 0; i < batches; i++) {
        assert_int_equal(leasing_next(engine, &lease), 0);
        stoke_hold_drop(&lease->hold);
    }
}

static void assert_taken(stoke_lender *engine, uint64_t batches)
{
    stoke_lender_stats stats;
    stoke_error err = { 0 };
    assert_int_equal(stoke_lender_stats_get(engine, &stats, &err), 0);
    assert_int_equal(stats.loader.batches, batches);
    assert_int_equal(stats.loader.samples, 4 * batches);
    assert_int_equal(stats.loader.stage[STOKE_STAGE_BATCH_WAIT].count, batches);
    assert_true(stats.loader.first_batch_ns > 0 && stats.elapsed_ns > 0);
    assert_true(stats.slots == 4 && stats.held == 0 && stats.loader.ready_batches <= 4);
}

/* The loader is ahead; what is told and saved is what came. */
static void figures_are_the_consumers(void **state)
{
    pairs_write(state, 24, 32, 32);
    const stoke_data_params params = pairs_params(state);
    for (int d = 0; d < DEVICES; d++) {
        stoke_lender *engine = opened(&params, devices[d], 3), *other = opened(&params, devices[d], 1);
        stoke_lease *lease;
        stoke_error err = { 0 };
        char text[STOKE_LENDER_STATE];
        uint64_t all, left;
        take(engine, 2);
        assert_taken(engine, 2);
        assert_int_equal(stoke_lender_batches(engine, &all, &left, &err), 0);
        assert_true(all == 6 && left == 4);
        assert_int_equal(stoke_lender_state(engine, text, &err), 0);
        assert_int_equal(stoke_lender_restore(other, text, &err), 0);
        assert_int_equal(leasing_next(other, &lease), 0);
        assert_int_equal(lease->batch.index, 2);
        stoke_hold_drop(&lease->hold);
        stoke_lender_drop(other);
        assert_int_equal(stoke_lender_set_epoch(engine, 3, &err), 0);
        take(engine, 1);
        stoke_lender_close(engine);
        assert_taken(engine, 3);
        assert_string_equal(stoke_lender_device(engine)->name, devices[d]);
        assert_int_equal(stoke_lender_device_memory(engine)->slots, 4);
        assert_non_null(strstr(stoke_lender_placement(engine), "host: "));
        stoke_lender_drop(engine);
    }
}

static void *drop(void *lease)
{
    stoke_hold_drop(&((stoke_lease *)lease)->hold);
    return NULL;
}

static void other_threads_let_go(void **state)
{
    pairs_write(state, 24, 32, 32);
    const stoke_data_params params = pairs_params(state);
    for (int d = 0; d < DEVICES; d++) {
        stoke_lender *engine = opened(&params, devices[d], 3);
        stoke_lease *lease[3];
        pthread_t thread[3];
        stoke_error err = { 0 };
        for (uint64_t epoch = 0; epoch < 6; epoch++) {
            assert_int_equal(stoke_lender_set_epoch(engine, epoch, &err), 0);
            for (int i = 0; i < 3; i++) {
                assert_int_equal(leasing_next(engine, &lease[i]), 0);
                if (d) assert_int_equal(stoke_lease_lend(lease[i], NULL, &err), 0);
            }
            if (epoch == 5) stoke_lender_drop(engine); /* the last of them ends device and upload */
            for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, drop, lease[i]), 0);
            for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
        }
    }
}

static int try_in_child(stoke_lender *engine, stoke_lease *lease)
{
    stoke_error err = { 0 };
    stoke_lease *more;
    if (stoke_lender_next(engine, UINT64_MAX / 2, &more, &err) != STOKE_E_STATE) return 1;
    if (!strstr(err.message, "spawn")) return 2;
    uint8_t byte, digest[16];
    if (stoke_lease_lend(lease, NULL, &err) != STOKE_E_STATE) return 3;
    if (stoke_lease_arrive(lease, &err) != STOKE_E_STATE) return 4;
    if (stoke_lease_fetch(lease, lease->batch.images, &byte, 1, &err) != STOKE_E_STATE) return 5;
    if (stoke_lease_digest(lease, digest, &err) != STOKE_E_STATE) return 6;
    stoke_lender_close(engine);
    stoke_hold_drop(&lease->hold);
    stoke_lender_drop(engine);
    return 0;
}

static void a_child_of_fork_is_told(void **state)
{
    pairs_write(state, 12, 32, 32);
    const stoke_data_params params = pairs_params(state);
    stoke_lender *engine = opened(&params, "cuda:0", 2);
    leasing_fork(engine, try_in_child);
    stoke_lender_drop(engine);
}

static int open_fails(const stoke_data_params *params, const stoke_lender_route *to, const char *words)
{
    stoke_lender *engine;
    stoke_error err = { 0 };
    const int r = stoke_lender_open_on(&engine, params, to, &err);
    assert_null(engine);
    assert_int_equal(r, err.code);
    if (!strstr(err.message, words)) fail_msg("%s", err.message);
    return r;
}

static void opening_that_fails_leaves_nothing(void **state)
{
    pairs_write(state, 4, 32, 32);
    stoke_data_params params = pairs_params(state);
    stoke_lender_route to = route("cuda:0", 2);
    card->settings->cards = 0;
    assert_int_equal(open_fails(&params, &to, "finds no card"), STOKE_E_DEVICE);
    card->settings->cards = 1;
    to.device = "cuda:1";
    assert_int_equal(open_fails(&params, &to, "cuda:1"), STOKE_E_DEVICE);
    to.device = "cuda:0";
    card->settings->version = 10020;
    assert_int_equal(open_fails(&params, &to, "too old"), STOKE_E_DEVICE);
    card->reset();
    card->settings->memory_bytes = 20000;
    assert_int_equal(open_fails(&params, &to, "of device memory"), STOKE_E_NOMEM);
    card->settings->memory_bytes = 200000; /* for a slot on the host, not for 9 on the card */
    to.upload.depth = 8;
    assert_int_equal(open_fails(&params, &to, "Lower batch, size or depth"), STOKE_E_NOMEM);
    card->reset();
    to.device = "sim:rtx3090";
    assert_int_equal(open_fails(&params, &to, "simulated"), STOKE_E_INVALID);
    to.device = "host";
    params.augment = "hflop";
    for (to.upload.placement = STOKE_PLACEMENT_HOST; to.upload.placement <= STOKE_PLACEMENT_DEVICE;
         to.upload.placement++)
        assert_int_equal(open_fails(&params, &to, "hflop"), STOKE_E_INVALID); /* not: a file is missing */
    params.data = unit_path(state, "nothing");
    assert_int_equal(open_fails(&params, &to, "nothing"), STOKE_E_NOTFOUND);
}

UNIT_GROUP(lender_device)
{
    const struct CMUnitTest tests[] = {
        fake_card_test_with_folder(leases_outlive_the_engine),
        fake_card_test_with_folder(starving_names_the_device),
        fake_card_test_with_folder(figures_are_the_consumers),
        fake_card_test_with_folder(other_threads_let_go),
        fake_card_test_with_folder(a_child_of_fork_is_told),
        fake_card_test_with_folder(opening_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
