/* SPDX-License-Identifier: Apache-2.0
 *
 * A small set, what a loader makes of it, and uploads that are held against that.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_UPLOAD_H
#define STOKE_TESTS_UNIT_FIXTURE_UPLOAD_H

#include <stoke/tools/loader.h>
#include <stoke/tools/upload.h>
#include "tests/unit/fixture_pairs.h"

#include "src/upload/upload_internal.h"

enum { SAMPLES = 11, BATCHES = 3, EPOCHS = 3, MOST = EPOCHS * BATCHES };

typedef struct feeding {
    stoke_data_params data;
    stoke_dataset *dataset;
    pairs_digest expected[MOST + 1]; /* of EPOCHS epochs of a loader */
    size_t n;
} feeding;

static inline void feeding_expect(feeding *f)
{
    stoke_loader *loader;
    stoke_error err;
    int status;
    if (stoke_loader_create(&loader, f->dataset, &f->data, NULL, &err)) fail_msg("%s", err.message);
    f->n = 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        stoke_loader_set_epoch(loader, epoch);
        f->n += pairs_take(loader, f->expected + f->n, MOST - f->n, &status);
        assert_true(status == STOKE_E_END || status == 0);
    }
    stoke_loader_destroy(&loader);
}

/* Pictures of odd sizes, everything that is done to them, mixed rows and second masks. */
static inline feeding feeding_begin(void **state)
{
    feeding f = { .data = pairs_params(state) };
    pairs_write(state, SAMPLES, 33, 29);
    f.data.size[0] = 17;
    f.data.size[1] = 22;
    f.data.augment = "strong,mixup(p=0.6)";
    assert_int_equal(stoke_dataset_open(&f.dataset, &f.data, NULL), 0);
    feeding_expect(&f);
    assert_int_equal(f.n, MOST);
    return f;
}

static inline void feeding_end(feeding *f)
{
    stoke_dataset_close(&f->dataset);
}

static inline stoke_device *feeding_device(const char *name)
{
    stoke_device *device = NULL;
    stoke_error err = { 0 };
    stoke_device_params params = stoke_device_defaults();
    params.contents = 1;
    params.cache = "";
    if (stoke_device_open(&device, name, &params, &err)) fail_msg("%s", err.message);
    return device;
}

static inline stoke_upload_params feeding_params(int placement, int transfer, int64_t depth)
{
    stoke_upload_params params = stoke_upload_defaults();
    params.placement = placement;
    params.transfer = transfer;
    params.depth = depth;
    return params;
}

static inline stoke_upload *feeding_open(const feeding *f, stoke_device *device, stoke_upload_params params)
{
    stoke_upload *upload = NULL;
    stoke_error err = { 0 };
    if (stoke_upload_create(&upload, f->dataset, &f->data, device, &params, &err))
        fail_msg("%s", err.message);
    return upload;
}

/* Takes one batch and holds it against the one expected at `at`. */
static inline int feeding_take(stoke_upload *upload, const feeding *f, size_t at)
{
    const stoke_device_batch *batch;
    stoke_batch host;
    stoke_error err = { 0 };
    uint8_t digest[16];
    int r = stoke_upload_next(upload, &batch);
    if (r) return r;
    r = stoke_upload_read(upload, batch, &host, &err);
    if (!r) {
        assert_true(at < f->n);
        stoke_batch_digest(&host, digest);
        assert_int_equal(host.index, f->expected[at].index);
        assert_int_equal(host.epoch, f->expected[at].epoch);
        assert_int_equal(host.position, f->expected[at].position);
        assert_int_equal(host.count, f->expected[at].count);
        assert_memory_equal(digest, f->expected[at].digest, 16);
    }
    stoke_upload_release(upload, &batch);
    assert_null(batch);
    return r;
}

static inline void feeding_take_all(stoke_upload *upload, const feeding *f, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const int r = feeding_take(upload, f, i);
        if (r) fail_msg("batch %zu: %d, %s", i, r, stoke_upload_error(upload));
    }
}

/* A batch as the consumer's stream sees it between next() and release(), copied without anybody waiting. */
typedef struct feeding_snapshot {
    stoke_batch batch;
    stk_device_block images, masks, masks_b;
    uint64_t ids[SAMPLES];
    float lambda[SAMPLES];
} feeding_snapshot;

static inline void feeding_copy(stk_device_stream *stream, stk_device_block *to, const stk_device_block *from)
{
    assert_int_equal(stk_block_create(to, from->device, STK_MEMORY_PINNED, from->bytes, NULL), 0);
    assert_int_equal(stk_stream_copy(stream, to, 0, from, 0, from->bytes, NULL), 0);
}

static inline void feeding_snap(stk_device_stream *stream, const stoke_device_batch *batch,
                                feeding_snapshot *snap)
{
    const stk_ring_slot *slot = (const stk_ring_slot *)batch;
    *snap = (feeding_snapshot){ .batch = batch->host };
    feeding_copy(stream, &snap->images, &slot->images);
    feeding_copy(stream, &snap->masks, &slot->masks);
    feeding_copy(stream, &snap->masks_b, &slot->masks_b);
    memcpy(snap->ids, batch->host.ids, batch->host.count * sizeof *snap->ids);
    memcpy(snap->lambda, batch->lambda, batch->host.count * sizeof *snap->lambda);
    snap->batch.images = snap->images.host;
    snap->batch.masks = snap->masks.host;
    snap->batch.masks_b = snap->masks_b.host;
    snap->batch.ids = snap->ids;
    snap->batch.lambda = snap->lambda;
}

/* What was snapped is what was expected; the stream has come to its end. */
static inline void feeding_compare(feeding_snapshot *snap, const pairs_digest *expected)
{
    uint8_t digest[16];
    stoke_batch_digest(&snap->batch, digest);
    assert_memory_equal(digest, expected->digest, 16);
    stk_block_destroy(&snap->images);
    stk_block_destroy(&snap->masks);
    stk_block_destroy(&snap->masks_b);
}

/* All epochs, without a wait between two batches: slots go round while what reads them is still to be done.
 */
static inline void feeding_run_ahead(stoke_upload *upload, const feeding *f)
{
    feeding_snapshot snaps[MOST];
    for (size_t i = 0; i < MOST; i++) {
        const stoke_device_batch *batch;
        if (i && i % BATCHES == 0) assert_int_equal(stoke_upload_set_epoch(upload, i / BATCHES), 0);
        assert_int_equal(stoke_upload_next(upload, &batch), 0);
        feeding_snap(upload->consumer, batch, &snaps[i]);
        stoke_upload_release(upload, &batch);
    }
    assert_int_equal(stoke_upload_finish(upload, NULL), 0);
    for (size_t i = 0; i < MOST; i++) feeding_compare(&snaps[i], &f->expected[i]);
}

#endif
