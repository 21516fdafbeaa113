/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of an upload in other hands: streams that the caller made, threads that let go while another waits,
 * and batches that stay when the upload is stopped. Over the CUDA driver of tests/fake, which does its work
 * as late as the interface allows: a wait that is missing shows as wrong bytes.
 */
#include "tests/unit/fixture_fake_gpu.h"
#include "tests/unit/fixture_upload.h"

#include <pthread.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/upload.h>

#include "src/base/clock.h"
#include "src/device/cuda.h"

enum { GUESTS = 3 };

/* An upload on the fake card, and streams of somebody else. The last one is the default stream. */
typedef struct house {
    feeding f;
    stoke_device *device;
    stoke_upload *upload;
    CUstream native[GUESTS];
    stk_device_stream *guest[GUESTS];
} house;

static house house_begin(void **state, stoke_upload_params params)
{
    house h = { .f = feeding_begin(state), .device = feeding_device("cuda:0") };
    stk_cuda *cuda = h.device->own;
    assert_int_equal(stk_device_cuda.enter(h.device, NULL), STOKE_OK);
    for (int i = 0; i + 1 < GUESTS; i++)
        assert_int_equal(cuda->driver.cuStreamCreate(&h.native[i], 0), CUDA_SUCCESS);
    stk_device_cuda.leave(h.device);
    for (int i = 0; i < GUESTS; i++)
        assert_int_equal(stk_stream_wrap(&h.guest[i], h.device, h.native[i], NULL), 0);
    h.upload = feeding_open(&h.f, h.device, params);
    return h;
}

static void house_end(house *h)
{
    stk_cuda *cuda = h->device->own;
    stoke_upload_destroy(&h->upload);
    for (int i = 0; i < GUESTS; i++) stk_stream_destroy(&h->guest[i]);
    assert_int_equal(stk_device_cuda.enter(h->device, NULL), STOKE_OK);
    for (int i = 0; i + 1 < GUESTS; i++) cuda->driver.cuStreamDestroy(h->native[i]);
    stk_device_cuda.leave(h->device);
    stoke_device_close(&h->device);
    feeding_end(&h->f);
}

/* The digest of a held batch, by way of fetch. */
static void fetched(stoke_upload *upload, const stoke_device_batch *batch, uint8_t digest[16])
{
    stoke_batch host = batch->host;
    stoke_error err = { 0 };
    const uint64_t from[] = { batch->images, batch->masks, batch->masks_b };
    void **to[] = { &host.images, &host.masks, &host.masks_b };
    for (int i = 0; i < 3; i++) {
        const size_t bytes = host.count * (i ? host.mask_row_bytes : host.image_row_bytes);
        *to[i] = malloc(bytes);
        if (stoke_upload_fetch(upload, batch, from[i], *to[i], bytes, &err)) fail_msg("%s", err.message);
    }
    stoke_batch_digest(&host, digest);
    for (int i = 0; i < 3; i++) free(*to[i]);
}

static void assert_fetched(stoke_upload *upload, const stoke_device_batch *batch,
                           const pairs_digest *expected)
{
    uint8_t digest[16];
    fetched(upload, batch, digest);
    assert_memory_equal(digest, expected->digest, 16);
}

/* ---- streams ---- */

/* Without a wait on the host between two batches; every third batch is used by all of them. */
static void lent_streams_see_the_batch_and_keep_it(void **state)
{
    for (int way = 0; way < 6; way++) {
        card->reset();
        house h = house_begin(state, feeding_params(way % 2, way / 2, 1 + way % 3));
        feeding_snapshot snaps[GUESTS][MOST];
        for (size_t i = 0; i < MOST; i++) {
            const stoke_device_batch *batch;
            if (i && i % BATCHES == 0) assert_int_equal(stoke_upload_set_epoch(h.upload, i / BATCHES), 0);
            assert_int_equal(stoke_upload_next(h.upload, &batch), 0);
            for (size_t g = 0; g < GUESTS; g++) {
                snaps[g][i] = (feeding_snapshot){ 0 };
                if (i % 3 && i % GUESTS != g) continue;
                assert_int_equal(stoke_upload_lend(h.upload, batch, h.native[g], NULL), 0);
                feeding_snap(h.guest[g], batch, &snaps[g][i]);
            }
            stoke_upload_release(h.upload, &batch);
        }
        for (size_t g = GUESTS; g--;) assert_int_equal(stk_stream_finish(h.guest[g], NULL), 0);
        for (size_t i = 0; i < MOST; i++)
            for (size_t g = 0; g < GUESTS; g++)
                if (snaps[g][i].images.bytes) feeding_compare(&snaps[g][i], &h.f.expected[i]);
        house_end(&h);
        if (*card->faults() || *card->leaks()) fail_msg("%s%s", card->faults(), card->leaks());
    }
}

static void a_batch_has_room_for_so_many_streams(void **state)
{
    house h = house_begin(state, feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_STREAM, 2));
    stk_cuda *cuda = h.device->own;
    CUstream many[STOKE_LENT_MAX + 1];
    const stoke_device_batch *batch;
    stoke_error err;
    assert_int_equal(stk_device_cuda.enter(h.device, NULL), STOKE_OK);
    for (int i = 0; i <= STOKE_LENT_MAX; i++) cuda->driver.cuStreamCreate(&many[i], 0);
    for (int round = 0; round < 2; round++) { /* what is released is forgotten */
        assert_int_equal(stoke_upload_next(h.upload, &batch), 0);
        for (int twice = 0; twice < 2; twice++)
            for (int i = 0; i < STOKE_LENT_MAX; i++)
                assert_int_equal(stoke_upload_lend(h.upload, batch, many[i + round], NULL), 0);
        assert_int_equal(stoke_upload_lend(h.upload, batch, many[round ? 0 : STOKE_LENT_MAX], &err),
                         STOKE_E_LIMIT);
        assert_non_null(strstr(err.message, "8 streams at most"));
        stoke_upload_release(h.upload, &batch);
    }
    stoke_upload_stop(h.upload);
    for (int i = 0; i <= STOKE_LENT_MAX; i++) cuda->driver.cuStreamDestroy(many[i]);
    stk_device_cuda.leave(h.device);
    house_end(&h);
}

/* More streams than are kept: those met first are met again. */
static void streams_come_and_go(void **state)
{
    house h = house_begin(state, feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_STREAM, 2));
    stk_cuda *cuda = h.device->own;
    for (uint64_t i = 0; i < STK_FOREIGN_STREAMS + 2; i++) {
        const stoke_device_batch *batch;
        CUstream theirs;
        if (i % BATCHES == 0) assert_int_equal(stoke_upload_set_epoch(h.upload, i / BATCHES), 0);
        assert_int_equal(stoke_upload_next(h.upload, &batch), 0);
        assert_int_equal(stk_device_cuda.enter(h.device, NULL), STOKE_OK);
        assert_int_equal(cuda->driver.cuStreamCreate(&theirs, 0), CUDA_SUCCESS);
        assert_int_equal(stoke_upload_lend(h.upload, batch, theirs, NULL), 0);
        assert_int_equal(stoke_upload_lend(h.upload, batch, h.native[0], NULL), 0);
        if (i < MOST) assert_fetched(h.upload, batch, &h.f.expected[i]);
        stoke_upload_release(h.upload, &batch);
        cuda->driver.cuStreamDestroy(theirs); /* from here on nobody may touch it */
        stk_device_cuda.leave(h.device);
    }
    house_end(&h);
}

static void other_devices_have_no_streams_to_lend_to(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("host");
    stoke_upload *upload = feeding_open(&f, device, feeding_params(0, 0, 1));
    const stoke_device_batch *batch;
    stoke_error err;
    int none;
    assert_int_equal(stoke_upload_next(upload, &batch), 0);
    assert_int_equal(stoke_upload_lend(upload, batch, &none, &err), STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cuda only"));
    assert_int_equal(stoke_upload_arrive(upload, batch, &err), 0);
    assert_fetched(upload, batch, &f.expected[0]);
    assert_int_equal(stoke_upload_fetch(upload, batch, batch->images + 1, &none, 1, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_upload_fetch(upload, batch, batch->masks, &none, SIZE_MAX, &err), STOKE_E_INVALID);
    stoke_upload_release(upload, &batch);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    feeding_end(&f);
}

/* What a guest did to the batch is seen by who looks at it afterwards. */
static void fetching_follows_the_guests(void **state)
{
    house h = house_begin(state, feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_STREAM, 1));
    const stoke_device_batch *batch;
    stk_device_block other;
    uint8_t zeros[16] = { 0 }, seen[16];
    assert_int_equal(stk_block_create(&other, h.device, STK_MEMORY_PINNED, sizeof zeros, NULL), 0);
    memset(other.host, 0, sizeof zeros);
    assert_int_equal(stoke_upload_next(h.upload, &batch), 0);
    assert_int_equal(stoke_upload_lend(h.upload, batch, h.native[1], NULL), 0);
    const stk_device_block *images = &((const stk_ring_slot *)batch)->images;
    assert_int_equal(stk_stream_copy(h.guest[1], images, 0, &other, 0, sizeof zeros, NULL), 0);
    assert_int_equal(stoke_upload_fetch(h.upload, batch, batch->images, seen, sizeof seen, NULL), 0);
    assert_memory_equal(seen, zeros, sizeof zeros);
    stoke_upload_release(h.upload, &batch);
    stk_block_destroy(&other);
    house_end(&h);
}

/* ---- threads ---- */

typedef struct hand {
    house *h;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const stoke_device_batch *batch;
    int over;
} hand;

static void *let_go(void *argument)
{
    hand *to = argument;
    for (;;) {
        pthread_mutex_lock(&to->lock);
        while (!to->batch && !to->over) pthread_cond_wait(&to->changed, &to->lock);
        const stoke_device_batch *batch = to->batch;
        to->batch = NULL;
        pthread_cond_broadcast(&to->changed);
        pthread_mutex_unlock(&to->lock);
        if (!batch) return NULL;
        stoke_upload_lend(to->h->upload, batch, to->h->native[0], NULL);
        stoke_upload_release(to->h->upload, &batch);
    }
}

/* One takes batches with a look at the clock, others use them and let go, the last ones after the stop. */
static void other_threads_let_go(void **state)
{
    house h = house_begin(state, feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_STREAM, 3));
    hand to = { &h, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0 };
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, let_go, &to), 0);
    for (uint64_t epoch = 0; epoch < 10; epoch++) {
        const stoke_device_batch *batch;
        assert_int_equal(stoke_upload_set_epoch(h.upload, epoch), 0);
        for (uint64_t left = BATCHES; left--;) {
            int r;
            do r = stoke_upload_next_until(h.upload, &batch, stk_now_ns() + 100000);
            while (r == STOKE_E_TIMEOUT || r == STOKE_E_STARVED);
            assert_int_equal(r, 0);
            assert_int_equal(stoke_upload_remaining(h.upload), left);
            pthread_mutex_lock(&to.lock);
            while (to.batch) pthread_cond_wait(&to.changed, &to.lock);
            to.batch = batch;
            pthread_cond_broadcast(&to.changed);
            pthread_mutex_unlock(&to.lock);
        }
    }
    stoke_upload_stop(h.upload);
    pthread_mutex_lock(&to.lock);
    to.over = 1;
    pthread_cond_broadcast(&to.changed);
    pthread_mutex_unlock(&to.lock);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    house_end(&h);
}

/* Who makes the samples in next() comes back after each of them; nothing is lost by it. */
static void a_wait_in_pieces_is_one_wait(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("host");
    for (int transfer = 0; transfer < 3; transfer++)
        for (int64_t workers = 0; workers < 2; workers++) {
            f.data.workers = workers;
            stoke_upload *upload = feeding_open(&f, device, feeding_params(0, transfer, 2));
            int late = 0, r;
            for (size_t i = 0; i < BATCHES; i++) {
                const stoke_device_batch *batch;
                while ((r = stoke_upload_next_until(upload, &batch, 0)) == STOKE_E_TIMEOUT) late++;
                assert_int_equal(r, 0);
                assert_fetched(upload, batch, &f.expected[i]);
                stoke_upload_release(upload, &batch);
            }
            if (!workers && transfer) assert_true(late > 0);
            stoke_upload_destroy(&upload);
        }
    stoke_device_close(&device);
    feeding_end(&f);
}

/* ---- the end ---- */

static uint64_t left_on(stoke_device *device)
{
    uint64_t left, total;
    assert_int_equal(stoke_device_memory(device, &left, &total, NULL), 0);
    return left;
}

static void held_batches_stay_when_the_feed_is_stopped(void **state)
{
    for (int way = 0; way < 6; way++) {
        card->reset();
        house h = house_begin(state, feeding_params(way % 2, way / 2, 3));
        const stoke_device_batch *batch[2], *more;
        for (int i = 0; i < 2; i++) assert_int_equal(stoke_upload_next(h.upload, &batch[i]), 0);
        assert_int_equal(stoke_upload_lend(h.upload, batch[0], h.native[0], NULL), 0);
        const uint64_t before = left_on(h.device);
        stoke_upload_stop(h.upload);
        stoke_upload_stop(h.upload);
        assert_null(stoke_upload_loader(h.upload));
        const uint64_t stopped = left_on(h.device);
        assert_true(stopped > before);
        assert_int_equal(stoke_upload_next(h.upload, &more), STOKE_E_STATE);
        assert_non_null(strstr(stoke_upload_error(h.upload), "stopped"));
        feeding_snapshot snap;
        for (int i = 0; i < 2; i++) assert_fetched(h.upload, batch[i], &h.f.expected[i]);
        feeding_snap(h.guest[0], batch[0], &snap); /* work that is still to be done when it is let go */
        stoke_upload_release(h.upload, &batch[0]);
        assert_true(left_on(h.device) > stopped);
        assert_int_equal(stk_stream_finish(h.guest[0], NULL), 0);
        feeding_compare(&snap, &h.f.expected[0]);
        assert_fetched(h.upload, batch[1], &h.f.expected[1]);
        if (way % 2) stoke_upload_release(h.upload, &batch[1]); /* the other way it goes with the upload */
        house_end(&h);
        if (*card->faults() || *card->leaks()) fail_msg("%s%s", card->faults(), card->leaks());
    }
}

/* Everything this file does with an upload, and the error it comes to. */
static int run_once(void *context)
{
    const feeding *f = context;
    const stoke_upload_params params = feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_STREAM, 2);
    stoke_device_params settings = stoke_device_defaults();
    stoke_device *device = NULL;
    stoke_upload *upload = NULL;
    stoke_error err = { 0 };
    char seen[64];
    settings.cache = "";
    int r = stoke_device_open(&device, "cuda:0", &settings, &err);
    if (!r) r = stoke_upload_create(&upload, f->dataset, &f->data, device, &params, &err);
    for (int i = 0; i < BATCHES && !r; i++) {
        const stoke_device_batch *batch;
        r = stoke_upload_next(upload, &batch);
        if (r) snprintf(err.message, sizeof err.message, "%s", stoke_upload_error(upload));
        if (!r) r = stoke_upload_lend(upload, batch, NULL, &err);
        if (!r) r = stoke_upload_arrive(upload, batch, &err);
        if (!r) r = stoke_upload_fetch(upload, batch, batch->masks, seen, sizeof seen, &err);
        if (i + 1 == BATCHES && upload) stoke_upload_stop(upload);
        if (batch) stoke_upload_release(upload, &batch);
    }
    if (r && !*err.message) fail_msg("error %d without a message", r);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    return r;
}

static void every_call_may_fail(void **state)
{
    feeding f = feeding_begin(state);
    card->reset();
    assert_int_equal(run_once(&f), 0);
    const unsigned long calls = card->calls();
    unsigned long failures = 0;
    for (unsigned long n = 1; n < calls; n += 1 + calls / 100)
        failures += fake_card_break(n, run_once, &f) != 0;
    assert_true(failures > 20);
    card->reset();
    feeding_end(&f);
}

UNIT_GROUP(stream_share)
{
    const struct CMUnitTest tests[] = {
        fake_card_test_with_folder(lent_streams_see_the_batch_and_keep_it),
        fake_card_test_with_folder(a_batch_has_room_for_so_many_streams),
        fake_card_test_with_folder(streams_come_and_go),
        fake_card_test_with_folder(other_devices_have_no_streams_to_lend_to),
        fake_card_test_with_folder(fetching_follows_the_guests),
        fake_card_test_with_folder(other_threads_let_go),
        fake_card_test_with_folder(a_wait_in_pieces_is_one_wait),
        fake_card_test_with_folder(held_batches_stay_when_the_feed_is_stopped),
        fake_card_test_with_folder(every_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
