/* SPDX-License-Identifier: Apache-2.0
 *
 * The upload: whatever the way and whoever augments, the bytes are the loader's; where it stands is what was
 * handed out; and it ends at any moment.
 */
#include "tests/unit/fixture_upload.h"

#include <math.h>
#include <stdio.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/diagnose.h>
#include <stoke/tools/upload.h>

#include "src/base/mem.h"
#include "src/loader/loader_internal.h"
#include "tests/unit/fixture_sim_gpu.h"

static const char *const devices[] = { "host", "sim:rtx3090" };

/* ---- bytes ---- */

static void check_way(const feeding *f, stoke_device *device, stoke_upload_params params)
{
    stoke_upload *upload = feeding_open(f, device, params);
    const char *why;
    assert_int_equal(stoke_upload_batches(upload), BATCHES);
    assert_int_equal(stoke_upload_placement(upload, &why), params.placement);
    assert_non_null(strstr(why, "as asked for"));
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) { /* one after the other, then back */
        if (epoch) assert_int_equal(stoke_upload_set_epoch(upload, epoch), 0);
        feeding_take_all(upload, f, epoch * BATCHES, (epoch + 1) * BATCHES);
        assert_int_equal(feeding_take(upload, f, MOST), STOKE_E_END);
        assert_int_equal(feeding_take(upload, f, MOST), STOKE_E_END);
    }
    assert_int_equal(stoke_upload_set_epoch(upload, 1), 0);
    feeding_take_all(upload, f, BATCHES, BATCHES + 2);
    assert_int_equal(stoke_upload_set_epoch(upload, 2), 0); /* in the middle */
    feeding_take_all(upload, f, 2 * BATCHES, 2 * BATCHES + 1);
    stoke_upload_destroy(&upload);
    assert_null(upload);
}

static void every_way_gives_the_bytes_of_the_loader(void **state)
{
    feeding f = feeding_begin(state);
    for (size_t d = 0; d < 2; d++) {
        stoke_device *device = feeding_device(devices[d]);
        for (int placement = STOKE_PLACEMENT_HOST; placement <= STOKE_PLACEMENT_DEVICE; placement++)
            for (int transfer = STOKE_TRANSFER_STREAM; transfer <= STOKE_TRANSFER_PAGEABLE; transfer++)
                for (int64_t depth = 1; depth <= 3; depth++)
                    check_way(&f, device, feeding_params(placement, transfer, depth));
        stoke_device_close(&device);
    }
    feeding_end(&f);
}

static void what_is_enqueued_after_next_sees_the_batch(void **state)
{
    feeding f = feeding_begin(state);
    for (size_t d = 0; d < 2; d++) {
        stoke_device *device = feeding_device(devices[d]);
        for (int way = 0; way < 6; way++) {
            stoke_upload *upload = feeding_open(&f, device, feeding_params(way % 2, way / 2, 1 + way % 3));
            feeding_run_ahead(upload, &f);
            stoke_upload_destroy(&upload);
        }
        stoke_device_close(&device);
    }
    feeding_end(&f);
}

/* Calls of the device for the same batches, watched or not. Pinned: nothing runs ahead, so their number is
 * known. */
static uint64_t calls_of(const feeding *f, int watched)
{
    stoke_device *device = feeding_device("sim:rtx3090");
    stoke_upload *upload =
        feeding_open(f, device, feeding_params(STOKE_PLACEMENT_DEVICE, STOKE_TRANSFER_PINNED, 1));
    if (watched) stoke_upload_mark(upload);
    feeding_take_all(upload, f, 0, BATCHES);
    const uint64_t calls = counts_of(device).calls;
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    return calls;
}

static void only_who_watches_pays_for_it(void **state)
{
    feeding f = feeding_begin(state);
    assert_int_equal(calls_of(&f, 1), calls_of(&f, 0) + BATCHES);
    feeding_end(&f);
}

static void workers_do_not_matter(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("host");
    for (f.data.workers = 0; f.data.workers <= 3; f.data.workers += 3)
        for (f.data.prefetch = 1; f.data.prefetch <= 5; f.data.prefetch += 4)
            check_way(&f, device, feeding_params(STOKE_PLACEMENT_DEVICE, STOKE_TRANSFER_STREAM, 2));
    stoke_device_close(&device);
    feeding_end(&f);
}

static void names_and_ids_come_along(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("host");
    for (int placement = 0; placement < 2; placement++) {
        stoke_upload *upload = feeding_open(&f, device, feeding_params(placement, STOKE_TRANSFER_STREAM, 2));
        const stoke_device_batch *batch;
        assert_int_equal(stoke_upload_next(upload, &batch), 0);
        assert_true(batch->images && batch->masks && batch->masks_b && batch->lambda);
        assert_null(batch->host.images);
        for (uint32_t i = 0; i < batch->host.count; i++) {
            const stoke_sample sample = stoke_dataset_sample(f.dataset, batch->host.ids[i]);
            assert_string_equal(batch->host.names[i], sample.name);
            assert_int_equal(batch->host.status[i], STOKE_ROW_OK);
        }
        stoke_upload_destroy(&upload); /* with the batch held */
    }
    stoke_device_close(&device);
    feeding_end(&f);
}

static void without_masks_and_in_other_types(void **state)
{
    static const char *const lists[] = { "none", "standard", "rotate(p=1,degrees=30)" };
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("host");
    f.data.images = unit_path(state, "images");
    f.data.data = NULL;
    f.data.layout = STOKE_LAYOUT_HWC;
    for (size_t i = 0; i < 3; i++) {
        stoke_dataset_close(&f.dataset);
        f.data.augment = lists[i];
        f.data.dtype = (int)i + 1; /* f16, bf16, u8 */
        assert_int_equal(stoke_dataset_open(&f.dataset, &f.data, NULL), 0);
        feeding_expect(&f);
        check_way(&f, device, feeding_params(STOKE_PLACEMENT_DEVICE, STOKE_TRANSFER_STREAM, 1));
        check_way(&f, device, feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_PINNED, 1));
    }
    stoke_device_close(&device);
    feeding_end(&f);
}

/* ---- bad files ---- */

static void skipped_rows_are_left_out(void **state)
{
    feeding f = feeding_begin(state);
    unit_write(unit_path(state, "images/s4.png"), "no picture", 10);
    unit_write(unit_path(state, "images/s7.png"), "no picture", 10);
    f.data.policy = STOKE_POLICY_SKIP;
    f.data.max_bad = "5";
    f.data.augment = "standard,mixup(p=0.6)";
    stoke_device *device = feeding_device("host");
    for (f.data.batch = 4; f.data.batch >= 1; f.data.batch -= 3) {
        stoke_loader *loader;
        pairs_digest expected[SAMPLES];
        int status;
        assert_int_equal(stoke_loader_create(&loader, f.dataset, &f.data, NULL, NULL), 0);
        const size_t n = pairs_take(loader, expected, SAMPLES, &status);
        assert_int_equal(status, STOKE_E_END);
        stoke_loader_stats_data stats;
        stoke_loader_stats(loader, &stats);
        assert_int_equal(stats.skipped, 2);
        stoke_loader_destroy(&loader);
        for (int placement = 0; placement < 2; placement++) {
            stoke_upload *upload =
                feeding_open(&f, device, feeding_params(placement, STOKE_TRANSFER_STREAM, 2));
            const stoke_device_batch *batch;
            for (size_t i = 0; i < n; i++) {
                stoke_batch host;
                uint8_t digest[16];
                assert_int_equal(stoke_upload_next(upload, &batch), 0);
                assert_int_equal(stoke_upload_read(upload, batch, &host, NULL), 0);
                stoke_batch_digest(&host, digest);
                assert_int_equal(host.count, expected[i].count);
                assert_memory_equal(digest, expected[i].digest, 16);
                stoke_upload_release(upload, &batch);
            }
            assert_int_equal(stoke_upload_next(upload, &batch), STOKE_E_END);
            uint64_t replaced, skipped;
            stoke_upload_bad(upload, &replaced, &skipped);
            assert_int_equal(replaced, 0);
            assert_int_equal(skipped, 2);
            stoke_upload_destroy(&upload);
        }
    }
    stoke_device_close(&device);
    feeding_end(&f);
}

/* The reason comes after the batches before it, and set_epoch gets over it. */
static void a_bad_file_that_stops_is_named_in_its_place(void **state)
{
    feeding f = feeding_begin(state);
    f.data.policy = STOKE_POLICY_STOP;
    f.data.order = STOKE_ORDER_SEQUENTIAL;
    feeding_expect(&f);
    unit_write(unit_path(state, "images/s5.png"), "no picture", 10);
    stoke_device *device = feeding_device("host");
    for (int transfer = 0; transfer < 3; transfer++) {
        stoke_upload *upload = feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_DEVICE, transfer, 2));
        for (int again = 0; again < 2; again++) {
            assert_int_equal(feeding_take(upload, &f, 0), 0);
            const int r = feeding_take(upload, &f, MOST);
            assert_true(r < 0 && r != STOKE_E_END);
            assert_non_null(strstr(stoke_upload_error(upload), "s5.png"));
            assert_int_equal(feeding_take(upload, &f, MOST), r); /* stays failed */
            assert_int_equal(stoke_upload_set_epoch(upload, 0), 0);
        }
        stoke_upload_destroy(&upload);
    }
    stoke_device_close(&device);
    feeding_end(&f);
}

static void an_epoch_without_batches_ends_at_once(void **state)
{
    feeding f = feeding_begin(state);
    f.data.batch = 16;
    f.data.drop_last = 1;
    stoke_device *device = feeding_device("host");
    for (int transfer = 0; transfer < 3; transfer++) {
        stoke_upload *upload = feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_AUTO, transfer, 2));
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            assert_int_equal(feeding_take(upload, &f, MOST), STOKE_E_END);
            stk_transfer_pause(upload); /* the thread is not off through all epochs there are */
            assert_int_equal(upload->reached, epoch);
            stk_transfer_go_on(upload);
            assert_int_equal(stoke_upload_set_epoch(upload, epoch + 1), 0);
        }
        stoke_upload_destroy(&upload);
    }
    stoke_device_close(&device);
    feeding_end(&f);
}

/* ---- holding ---- */

static void held_batches_stay_and_all_of_them_starve(void **state)
{
    feeding f = feeding_begin(state);
    for (int transfer = 0; transfer < 3; transfer++) {
        stoke_device *device = feeding_device(devices[transfer % 2]);
        stoke_upload *upload = feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_DEVICE, transfer, 1));
        const stoke_device_batch *held[2], *more;
        stoke_batch host;
        uint8_t digest[16];
        for (int i = 0; i < 2; i++) assert_int_equal(stoke_upload_next(upload, &held[i]), 0);
        assert_int_equal(stoke_upload_next(upload, &more), STOKE_E_STARVED);
        assert_null(more);
        assert_non_null(strstr(stoke_upload_error(upload), "all 2 device slots are held"));
        stoke_upload_release(upload, &held[1]); /* any order */
        assert_int_equal(feeding_take(upload, &f, 2), 0);
        assert_int_equal(feeding_take(upload, &f, MOST), STOKE_E_END);
        assert_int_equal(stoke_upload_read(upload, held[0], &host, NULL), 0);
        stoke_batch_digest(&host, digest);
        assert_memory_equal(digest, f.expected[0].digest, 16);
        stoke_upload_set_epoch(upload, 2); /* held ones live through it */
        feeding_take_all(upload, &f, 2 * BATCHES, 3 * BATCHES);
        assert_int_equal(stoke_upload_read(upload, held[0], &host, NULL), 0);
        stoke_batch_digest(&host, digest);
        assert_memory_equal(digest, f.expected[0].digest, 16);
        stoke_upload_destroy(&upload);
        stoke_device_close(&device);
    }
    feeding_end(&f);
}

/* ---- where it stands ---- */

static void state_is_that_of_what_was_handed_out(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("host");
    for (int transfer = 0; transfer < 3; transfer++)
        for (size_t taken = 0; taken <= BATCHES + 1; taken++) {
            stoke_upload *upload =
                feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_DEVICE, transfer, 3));
            stoke_loader *loader;
            char text[512], plain[512];
            assert_int_equal(stoke_loader_create(&loader, f.dataset, &f.data, NULL, NULL), 0);
            for (size_t i = 0; i < taken; i++) {
                const stoke_batch *batch;
                if (i == BATCHES) stoke_upload_set_epoch(upload, 1), stoke_loader_set_epoch(loader, 1);
                assert_int_equal(feeding_take(upload, &f, i), 0);
                assert_int_equal(stoke_loader_next(loader, &batch), 0);
                stoke_batch_release(loader, &batch);
            }
            assert_true(stoke_upload_state(upload, text, sizeof text) < (int)sizeof text);
            stoke_loader_state(loader, plain, sizeof plain);
            assert_string_equal(text, plain);
            if (taken == BATCHES) { /* the next epoch, before its first batch */
                assert_int_equal(feeding_take(upload, &f, MOST), STOKE_E_END);
                stoke_upload_set_epoch(upload, 1), stoke_loader_set_epoch(loader, 1);
                stoke_upload_state(upload, text, sizeof text);
                stoke_loader_state(loader, plain, sizeof plain);
                assert_string_equal(text, plain);
            }
            stoke_loader_destroy(&loader);
            stoke_upload_destroy(&upload);
            upload = feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_HOST, (transfer + 1) % 3, 1));
            assert_int_equal(stoke_upload_restore(upload, text, NULL), 0);
            const size_t left = taken <= BATCHES ? BATCHES - taken % BATCHES : 2 * BATCHES - taken;
            feeding_take_all(upload, &f, taken, taken + left);
            assert_int_equal(feeding_take(upload, &f, MOST), STOKE_E_END);
            stoke_upload_destroy(&upload);
        }
    stoke_device_close(&device);
    feeding_end(&f);
}

static void a_bad_state_changes_nothing(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("host");
    stoke_upload *upload =
        feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_DEVICE, STOKE_TRANSFER_STREAM, 2));
    stoke_error err;
    feeding_take_all(upload, &f, 0, 1);
    assert_true(stoke_upload_restore(upload, "{\"version\":1}", &err) < 0);
    feeding_take_all(upload, &f, 1, BATCHES);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    feeding_end(&f);
}

/* ---- a device that is lost ---- */

/* The position in a state. */
static uint64_t handed_out(const char *text)
{
    const char *position = strstr(text, "\"position\":");
    assert_non_null(position);
    return strtoull(position + strlen("\"position\":"), NULL, 10);
}

/* After any number of calls: what was handed out before was right, and another device goes on from there. */
static void another_device_goes_on_after_a_loss(void **state)
{
    feeding f = feeding_begin(state);
    size_t lost_at[BATCHES + 1] = { 0 };
    stoke_device *host = feeding_device("host");
    for (uint64_t calls = 0; calls < 160; calls += 7) {
        stoke_device *device = feeding_device("sim");
        stoke_upload *upload = feeding_open(
            &f, device, feeding_params((int)calls % 2, (int)(calls / 2) % 3, 1 + (int64_t)calls % 3));
        char text[512];
        size_t taken = 0;
        int r = 0;
        stk_sim_lose_after(device, calls);
        while (taken < BATCHES && !(r = feeding_take(upload, &f, taken))) taken++;
        if (r) {
            assert_int_equal(r, STOKE_E_DEVICE);
            const int again = feeding_take(upload, &f, MOST); /* and stays so */
            assert_int_equal(again, STOKE_E_DEVICE);
            assert_non_null(strstr(stoke_upload_error(upload), "lost"));
        }
        lost_at[taken]++;
        stoke_upload_state(upload, text, sizeof text);
        stoke_upload_destroy(&upload);
        stoke_device_close(&device);
        upload = feeding_open(&f, host, feeding_params(STOKE_PLACEMENT_DEVICE, STOKE_TRANSFER_STREAM, 2));
        assert_int_equal(stoke_upload_restore(upload, text, NULL), 0);
        /* `feeding_take` fails too where only the reading failed: that batch had been handed out. */
        if (taken < BATCHES && handed_out(text) > f.expected[taken].position) taken++;
        feeding_take_all(upload, &f, taken, BATCHES);
        assert_int_equal(feeding_take(upload, &f, MOST), STOKE_E_END);
        stoke_upload_destroy(&upload);
    }
    assert_true(lost_at[0] > 1 && lost_at[1] + lost_at[2] > 1); /* early and late ones were tried */
    stoke_device_close(&host);
    feeding_end(&f);
}

static void creating_on_a_lost_device_fails_cleanly(void **state)
{
    feeding f = feeding_begin(state);
    for (uint64_t calls = 0; calls < 400; calls += 13) {
        stoke_device *device = feeding_device("sim");
        stoke_upload *upload = NULL;
        stoke_error err = { 0 };
        const stoke_upload_params params = feeding_params((int)calls % 3, STOKE_TRANSFER_STREAM, 2);
        stk_sim_lose_after(device, calls);
        const int r = stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err);
        if (r) {
            assert_int_equal(r, STOKE_E_DEVICE);
            assert_null(upload);
            assert_true(*err.message);
        }
        stoke_upload_destroy(&upload);
        stoke_device_close(&device);
    }
    feeding_end(&f);
}

/* ---- ending ---- */

static void destroying_early_comes_to_an_end(void **state)
{
    feeding f = feeding_begin(state);
    for (int i = 0; i < 24; i++) {
        stoke_device *device = feeding_device(devices[i % 2]);
        stoke_upload *upload = feeding_open(&f, device, feeding_params(i / 2 % 2, i % 3, 1 + i % 4));
        const stoke_device_batch *batch;
        for (int taken = 0; taken < i / 6; taken++) {
            assert_int_equal(stoke_upload_next(upload, &batch), 0);
            assert_int_equal(stoke_fake_step(upload, 0.2, NULL), 0);
            if (taken) stoke_upload_release(upload, &batch);
        }
        if (i % 5 == 0) stoke_upload_set_epoch(upload, 5);
        stoke_upload_destroy(&upload);
        stoke_device_close(&device);
    }
    feeding_end(&f);
}

static void failing_memory_is_an_error(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("sim");
    int refused = 0, r;
    for (int64_t after = 0; after < 400; after += 1 + after / 8) {
        stoke_upload *upload = NULL;
        const stoke_upload_params params = feeding_params((int)after % 2, (int)after % 3, 2);
        stoke_error err = { 0 };
        stk_mem_fail_after(after);
        r = stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err);
        stk_mem_fail_after(-1);
        refused += r != 0;
        assert_true(!r == !!upload);
        stoke_upload_destroy(&upload);
    }
    assert_true(refused > 5);
    stoke_device_close(&device);
    feeding_end(&f);
}

/* ---- memory ---- */

static void memory_is_known_before_it_is_taken(void **state)
{
    feeding f = feeding_begin(state);
    for (int placement = 0; placement < 2; placement++) {
        stoke_device *device = feeding_device("sim");
        stk_sim_counts counts;
        stoke_upload *upload = feeding_open(&f, device, feeding_params(placement, STOKE_TRANSFER_STREAM, 2));
        const stoke_upload_memory m = *stoke_upload_memory_plan(upload);
        assert_int_equal(m.slots, 3);
        assert_int_equal(m.total_bytes, m.slots * m.slot_bytes + m.work_bytes);
        assert_true(placement ? m.work_bytes > 0 : m.work_bytes == 0);
        stk_sim_count(device, &counts);
        /* The allocator rounds every block up to 512 bytes. */
        assert_in_range(counts.allocated_bytes, m.total_bytes, m.total_bytes + 64 * 512);
        stoke_upload_destroy(&upload);
        stk_sim_count(device, &counts);
        assert_int_equal(counts.allocated_bytes, 0);
        stoke_device_close(&device);
    }
    feeding_end(&f);
}

static uint64_t pinned;

static int count_block(stk_device_block *block, stoke_error *err)
{
    const int r = stk_device_sim.block_create(block, err);
    if (!r && block->kind == STK_MEMORY_PINNED) pinned += block->bytes;
    return r;
}

static void uncount_block(stk_device_block *block)
{
    if (block->kind == STK_MEMORY_PINNED) pinned -= block->bytes;
    stk_device_sim.block_destroy(block);
}

static void tables_count_against_the_limit(stoke_upload *upload)
{
    const stoke_upload_memory *m = stoke_upload_memory_plan(upload);
    assert_int_equal(m->host.beside_bytes, m->total_bytes + m->table_bytes); /* its contents are kept here */
    assert_string_equal(m->host.beside, "batches on the device, in the same memory");
}

/* What is pinned is what the plan says: the loader's slots, and tables where kernels need them. */
static void pinned_memory_is_known_too(void **state)
{
    stk_device_fns counting = stk_device_sim;
    counting.block_create = count_block;
    counting.block_destroy = uncount_block;
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("sim");
    device->fns = &counting;
    for (int placement = 0; placement < 2; placement++) {
        stoke_upload *upload = feeding_open(&f, device, feeding_params(placement, STOKE_TRANSFER_PINNED, 2));
        const stoke_upload_memory m = *stoke_upload_memory_plan(upload);
        const stk_slots *slots = &upload->loader->slots;
        const uint64_t planned = slots->count * slots->bytes_per_slot + m.table_bytes;
        /* And what alignment takes, and what is known of a block. */
        assert_in_range(pinned, planned, planned + slots->count * (64 + sizeof(stk_device_block)));
        assert_int_equal(m.table_bytes > 0, placement);
        if (placement) tables_count_against_the_limit(upload);
        stoke_upload_destroy(&upload);
        assert_int_equal(pinned, 0);
    }
    stoke_device_close(&device);
    feeding_end(&f);
}

/* ---- who augments ---- */

static void auto_says_why(void **state)
{
    feeding f = feeding_begin(state);
    for (int transfer = 0; transfer < 3; transfer++)
        for (size_t d = 0; d < 2; d++) {
            stoke_device *device = feeding_device(devices[d]);
            stoke_upload_params params = feeding_params(STOKE_PLACEMENT_AUTO, transfer, 2);
            params.step_ms = 1;
            stoke_upload *upload = feeding_open(&f, device, params);
            const char *why;
            const int placement = stoke_upload_placement(upload, &why);
            assert_true(placement == STOKE_PLACEMENT_HOST || placement == STOKE_PLACEMENT_DEVICE);
            assert_non_null(strstr(why, placement ? "device: " : "host: "));
            assert_non_null(strstr(why, d ? "emulated" : "own cores"));
            feeding_take_all(upload, &f, 0, BATCHES); /* what was measured is given again */
            assert_int_equal(feeding_take(upload, &f, MOST), STOKE_E_END);
            stoke_upload_destroy(&upload);
            stoke_device_close(&device);
        }
    feeding_end(&f);
}

/* A device whose kernels take for ever, and one whose kernels take no time, beside a host that has to work.
 * By the clock of a test: a minute a kernel is longer than any host is held up, and nobody waits for it. */
static void auto_takes_the_faster_one(void **state)
{
    feeding f = feeding_begin(state);
    for (int fast = 0; fast < 2; fast++) {
        stoke_device_params params = stoke_device_defaults();
        hand h = { .now = 1000 * (uint64_t)MS };
        stoke_device *device;
        stoke_upload *upload;
        const char *why;
        /* Without a thread: the clock is not made for two. */
        const stoke_upload_params wanted = feeding_params(STOKE_PLACEMENT_AUTO, STOKE_TRANSFER_PINNED, 1);
        params.contents = 1;
        params.launch_us = fast ? 0.001 : 60e6;
        assert_int_equal(stoke_device_open(&device, "sim", &params, NULL), 0);
        stk_sim_set_clock(device, &(stk_sim_clock){ hand_now, hand_sleep, &h });
        assert_int_equal(stoke_upload_create(&upload, f.dataset, &f.data, device, &wanted, NULL), 0);
        assert_int_equal(stoke_upload_placement(upload, &why), fast);
        feeding_take_all(upload, &f, 0, BATCHES);
        stoke_upload_destroy(&upload);
        stoke_device_close(&device);
    }
    feeding_end(&f);
}

/* What `auto` foresees of copying, with either placement: by the clock of a test, over a link of 1 MB/s. */
static void foreseen_copies(feeding *f, double *host_ms, double *device_ms)
{
    stoke_device_params slow = stoke_device_defaults();
    hand h = { .now = 1000 * (uint64_t)MS };
    stoke_device *device;
    slow.pinned_gb_s = 0.001;
    assert_int_equal(stoke_device_open(&device, "sim", &slow, NULL), 0);
    stk_sim_set_clock(device, &(stk_sim_clock){ hand_now, hand_sleep, &h });
    /* Without a thread: the clock is not made for two. */
    stoke_upload *upload =
        feeding_open(f, device, feeding_params(STOKE_PLACEMENT_AUTO, STOKE_TRANSFER_PINNED, 1));
    const char *why;
    assert_int_equal(stoke_upload_placement(upload, &why), STOKE_PLACEMENT_DEVICE);
    const char *figures = strstr(why, "copy ");
    assert_non_null(figures);
    assert_int_equal(sscanf(figures, "copy %lf, device %*f ms against %*f, %lf", device_ms, host_ms), 2);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
}

/* A set of less than a batch says as much about full batches as one that fills them. */
static void auto_foresees_full_batches(void **state)
{
    feeding f = feeding_begin(state);
    double host_ms, device_ms, large_host_ms, large_device_ms;
    f.data.batch = SAMPLES;
    foreseen_copies(&f, &host_ms, &device_ms);
    f.data.batch = 4 * SAMPLES;
    foreseen_copies(&f, &large_host_ms, &large_device_ms);
    assert_true(fabs(large_host_ms / host_ms - 4) < 0.01);
    assert_true(fabs(large_device_ms / device_ms - 4) < 0.01);
    feeding_end(&f);
}

/* More steps than a launch takes: kernels cannot do it, so the workers do. */
static void auto_falls_back_to_the_host(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device;
    assert_int_equal(stoke_device_open(&device, "sim", NULL, NULL), 0);
    f.data.batch = 30000; /* rows that are not there take no memory */
    f.data.prefetch = 1;
    stoke_upload *upload =
        feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_AUTO, STOKE_TRANSFER_PINNED, 1));
    const char *why;
    assert_int_equal(stoke_upload_placement(upload, &why), STOKE_PLACEMENT_HOST);
    assert_non_null(strstr(why, "batch 30000"));
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    feeding_end(&f);
}

static void wrong_settings_are_refused(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("host");
    stoke_upload *upload;
    stoke_error err;
    stoke_upload_params params = stoke_upload_defaults();
    assert_int_equal(params.placement, STOKE_PLACEMENT_AUTO);
    assert_int_equal(params.transfer, STOKE_TRANSFER_STREAM);
    params.depth = 0;
    assert_int_equal(stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err),
                     STOKE_E_INVALID);
    params = stoke_upload_defaults();
    params.step_ms = -1;
    assert_int_equal(stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err),
                     STOKE_E_INVALID);
    params.struct_size = 3;
    assert_int_equal(stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err),
                     STOKE_E_INVALID);
    f.data.augment = "no such op";
    params = stoke_upload_defaults();
    assert_true(stoke_upload_create(&upload, f.dataset, &f.data, device, &params, &err) < 0);
    assert_null(upload);
    stoke_device_close(&device);
    feeding_end(&f);
}

/* ---- times ---- */

static void run_steps(stoke_upload *upload, int steps, double ms, uint64_t *epoch)
{
    for (int i = 0; i < steps; i++) {
        const stoke_device_batch *batch;
        int r = stoke_upload_next(upload, &batch);
        if (r == STOKE_E_END) {
            stoke_upload_set_epoch(upload, ++*epoch);
            r = stoke_upload_next(upload, &batch);
        }
        assert_int_equal(r, 0);
        assert_int_equal(stoke_fake_step(upload, ms, NULL), 0);
        stoke_upload_release(upload, &batch);
    }
    assert_int_equal(stoke_upload_finish(upload, NULL), 0);
}

/* Not how long things take, which this machine decides, but that the sums are those of the same steps. */
static void times_add_up(void **state)
{
    feeding f = feeding_begin(state);
    for (int transfer = 0; transfer < 3; transfer++)
        for (size_t d = 0; d < 2; d++) {
            stoke_device *device = feeding_device(devices[d]);
            stoke_upload *upload =
                feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_DEVICE, transfer, 2));
            stoke_upload_stats s;
            uint64_t epoch = 0;
            run_steps(upload, 2, 1, &epoch);
            stoke_upload_mark(upload);
            run_steps(upload, 9, 1, &epoch);
            assert_int_equal(stoke_upload_measure(upload, &s, NULL), 0);
            assert_true(s.steps >= 8 && s.steps <= 10);
            if (d) assert_int_equal(s.step_ns, s.steps * 1000000);
            assert_true(s.step_ns > 0 && s.elapsed_ns >= s.step_ns);
            assert_true(s.busy_ns >= s.step_ns && s.busy_ns <= s.elapsed_ns);
            assert_true(s.batches > 0 && s.bytes > s.batches * SAMPLES);
            assert_true(s.copy_hidden_ns <= s.copy_ns && s.copy_ns > 0);
            assert_true(s.augment_ns > 0 && s.loader_cpu_ns > 0);
            /* One stream does one thing after the other. */
            if (transfer != STOKE_TRANSFER_STREAM) assert_int_equal(s.copy_hidden_ns, 0);
            stoke_upload_mark(upload);
            assert_int_equal(stoke_upload_measure(upload, &s, NULL), 0);
            assert_int_equal(s.step_ns, 0);
            assert_int_equal(stoke_fake_step(upload, -1, NULL), STOKE_E_INVALID);
            stoke_upload_destroy(&upload);
            stoke_device_close(&device);
        }
    feeding_end(&f);
}

/* More steps than there are events for. */
static void the_host_may_run_far_ahead(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("sim");
    stoke_upload *upload =
        feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_STREAM, 2));
    stoke_upload_stats s;
    stoke_upload_mark(upload);
    for (int i = 0; i < 200; i++) assert_int_equal(stoke_fake_step(upload, 0.05, NULL), 0);
    assert_int_equal(stoke_upload_finish(upload, NULL), 0);
    assert_int_equal(stoke_upload_measure(upload, &s, NULL), 0);
    assert_int_equal(s.step_ns, 199 * 50000);
    assert_int_equal(s.busy_ns, s.step_ns);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    feeding_end(&f);
}

static void a_trace_has_all_lanes(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("sim");
    stoke_upload *upload =
        feeding_open(&f, device, feeding_params(STOKE_PLACEMENT_DEVICE, STOKE_TRANSFER_STREAM, 2));
    stoke_trace *trace, *other;
    stoke_upload_stats s;
    uint64_t epoch = 0;
    assert_int_equal(stoke_trace_create(&trace, 10000, NULL), 0);
    assert_int_equal(stoke_trace_create(&other, 10000, NULL), 0);
    stoke_upload_trace(upload, other);
    run_steps(upload, 2, 0.5, &epoch);
    stoke_upload_trace(upload, trace);
    run_steps(upload, 9, 0.5, &epoch);
    stoke_upload_measure(upload, &s, NULL);
    stoke_upload_trace(upload, NULL);
    run_steps(upload, 2, 0.5, &epoch);
    stoke_upload_destroy(&upload);
    const char *path = unit_path(state, "trace.json");
    assert_int_equal(stoke_trace_write_json(trace, path, NULL), 0);
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    static const char *const parts[] = { "worker 0",         "worker 1",    "copy engine",
                                         "compute engine",   "host thread", "\"copy\"",
                                         "\"augment\"",      "\"step\"",    "decode image",
                                         "wait for a batch", "launch",      "wait for the device" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("%s is not in the trace", parts[i]);
    stoke_trace_destroy(&trace);
    stoke_trace_destroy(&other);
    stoke_device_close(&device);
    feeding_end(&f);
}

UNIT_GROUP(upload)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(every_way_gives_the_bytes_of_the_loader),
        unit_test_with_folder(what_is_enqueued_after_next_sees_the_batch),
        unit_test_with_folder(only_who_watches_pays_for_it),
        unit_test_with_folder(workers_do_not_matter),
        unit_test_with_folder(names_and_ids_come_along),
        unit_test_with_folder(without_masks_and_in_other_types),
        unit_test_with_folder(skipped_rows_are_left_out),
        unit_test_with_folder(a_bad_file_that_stops_is_named_in_its_place),
        unit_test_with_folder(an_epoch_without_batches_ends_at_once),
        unit_test_with_folder(held_batches_stay_and_all_of_them_starve),
        unit_test_with_folder(state_is_that_of_what_was_handed_out),
        unit_test_with_folder(a_bad_state_changes_nothing),
        unit_test_with_folder(another_device_goes_on_after_a_loss),
        unit_test_with_folder(creating_on_a_lost_device_fails_cleanly),
        unit_test_with_folder(destroying_early_comes_to_an_end),
        unit_test_with_folder(failing_memory_is_an_error),
        unit_test_with_folder(memory_is_known_before_it_is_taken),
        unit_test_with_folder(pinned_memory_is_known_too),
        unit_test_with_folder(auto_says_why),
        unit_test_with_folder(auto_takes_the_faster_one),
        unit_test_with_folder(auto_foresees_full_batches),
        unit_test_with_folder(auto_falls_back_to_the_host),
        unit_test_with_folder(wrong_settings_are_refused),
        unit_test_with_folder(times_add_up),
        unit_test_with_folder(the_host_may_run_far_ahead),
        unit_test_with_folder(a_trace_has_all_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
