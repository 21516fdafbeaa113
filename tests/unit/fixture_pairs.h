/* SPDX-License-Identifier: Apache-2.0
 *
 * A small real data set in the test's folder, and the digests of what a loader makes of it.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_PAIRS_H
#define STOKE_TESTS_UNIT_FIXTURE_PAIRS_H

#include "tests/unit/unit.h"

#include <stoke/tools/tools.h>

enum { PAIRS_CLASSES = 5 };

/* Pixel formulas: smooth enough for JPEG, different for every sample and place. */
static inline uint8_t pairs_value(uint32_t i, uint32_t x, uint32_t y, uint32_t c)
{
    return (uint8_t)((x * (3 + i % 5) + y * (2 + c) + i * 37 + c * 71) & 255);
}

static inline uint8_t pairs_class(uint32_t i, uint32_t x, uint32_t y)
{
    return (uint8_t)((x / 8 + y / 8 + i) % PAIRS_CLASSES);
}

/* Writes images/NAME and masks/NAME.png of w x h; `extension` "png" or "jpg". */
static inline void pairs_write_one(void **state, uint32_t i, const char *extension, uint32_t w, uint32_t h)
{
    uint8_t *rgb = malloc((size_t)w * h * 3), *ids = malloc((size_t)w * h);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++) {
            for (uint32_t c = 0; c < 3; c++) rgb[((size_t)y * w + x) * 3 + c] = pairs_value(i, x, y, c);
            ids[(size_t)y * w + x] = pairs_class(i, x, y);
        }
    const stoke_image image = { rgb, (size_t)w * 3, w, h, 3, 1 }, mask = { ids, w, w, h, 1, 1 };
    char name[64];
    stoke_error err;
    snprintf(name, sizeof name, "images/s%u.%s", i, extension);
    const char *path = unit_path(state, name);
    int r = strcmp(extension, "jpg") == 0 ? stoke_image_write_jpeg(path, &image, 90, &err)
                                          : stoke_image_write_png(path, &image, &err);
    assert_int_equal(r, 0);
    snprintf(name, sizeof name, "masks/s%u.png", i);
    assert_int_equal(stoke_image_write_png(unit_path(state, name), &mask, &err), 0);
    free(rgb);
    free(ids);
}

/* n pairs, every third one JPEG. */
static inline void pairs_write(void **state, uint32_t n, uint32_t w, uint32_t h)
{
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    for (uint32_t i = 0; i < n; i++) pairs_write_one(state, i, i % 3 ? "png" : "jpg", w, h);
}

/* Settings for that folder: batches of 4, 32x32, u8, no quarantine file. */
static inline stoke_data_params pairs_params(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_folder(state);
    params.size[0] = params.size[1] = 32;
    params.batch = 4;
    params.workers = 2;
    params.prefetch = 2;
    params.classes = PAIRS_CLASSES;
    params.quarantine = "";
    return params;
}

typedef struct pairs_digest {
    uint64_t index, epoch, position;
    uint32_t count;
    uint8_t digest[16];
} pairs_digest;

/* Takes up to `most` batches; returns how many came; *status = what ended it (0 when `most` was reached). */
static inline size_t pairs_take(stoke_loader *loader, pairs_digest *out, size_t most, int *status)
{
    size_t n = 0;
    const stoke_batch *batch;
    *status = 0;
    while (n < most && (*status = stoke_loader_next(loader, &batch)) == 0) {
        out[n].index = batch->index;
        out[n].epoch = batch->epoch;
        out[n].position = batch->position;
        out[n].count = batch->count;
        stoke_batch_digest(batch, out[n].digest);
        n++;
        stoke_batch_release(loader, &batch);
    }
    return n;
}

/* Opens, reads one epoch, closes. */
static inline size_t pairs_epoch(const stoke_data_params *params, pairs_digest *out, size_t most)
{
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err = { 0 };
    int status;
    if (stoke_dataset_open(&dataset, params, &err)) fail_msg("%s", err.message);
    if (stoke_loader_create(&loader, dataset, params, NULL, &err)) fail_msg("%s", err.message);
    const size_t n = pairs_take(loader, out, most, &status);
    if (status != STOKE_E_END) fail_msg("status %d: %s", status, stoke_loader_error(loader));
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    return n;
}

#endif
