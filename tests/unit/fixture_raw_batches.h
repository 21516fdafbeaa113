/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of raw batches share: a folder with pictures of every kind, pipelines with every step, and a
 * loader that lays rows out itself next to one that leaves them to a device. Whatever finishes the rows of
 * the second must come to the bytes of the first.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_RAW_BATCHES_H
#define STOKE_TESTS_UNIT_FIXTURE_RAW_BATCHES_H

#include "tests/unit/fixture_pairs.h"

#include "src/base/mem.h"
#include "src/loader/slots.h"
#include "src/loader/raw.h"

enum { RAW_SAMPLES = 11, RAW_WIDTH = 33, RAW_HEIGHT = 17, RAW_BATCH = 4 };

/* A 16-bit picture with values between the levels of 257. */
static inline void raw_write_deep(void **state, uint32_t i, uint32_t w, uint32_t h)
{
    uint16_t *rgb = malloc((size_t)w * h * 6);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++)
            for (uint32_t c = 0; c < 3; c++)
                rgb[((size_t)y * w + x) * 3 + c] =
                    (uint16_t)(pairs_value(i, x, y, c) * 257u + x * 31 + y * 17 + c);
    const stoke_image image = { rgb, (size_t)w * 6, w, h, 3, 2 };
    char name[64];
    snprintf(name, sizeof name, "images/s%u.png", i);
    assert_int_equal(stoke_image_write_png(unit_path(state, name), &image, NULL), 0);
    free(rgb);
}

/* The size of the output, smaller, larger, much larger; 8 and 16 bits; JPEG and PNG. */
static inline void raw_write(void **state)
{
    static const uint32_t size[][2] = { { 33, 17 }, { 47, 40 }, { 20, 25 }, { 97, 61 } };
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    for (uint32_t i = 0; i < RAW_SAMPLES; i++) {
        const int deep = i == 1 || i == 3 || i == 8 || i == 10;
        const uint32_t w = size[i % 4][0], h = size[i % 4][1];
        pairs_write_one(state, i, !deep && i % 3 == 0 ? "jpg" : "png", w, h);
        if (deep) raw_write_deep(state, i, w, h);
    }
}

/* The images alone. */
static inline const char *raw_list_without_masks(void **state)
{
    char text[1024] = "";
    for (uint32_t i = 0; i < RAW_SAMPLES; i++) {
        char line[64], name[64];
        snprintf(name, sizeof name, "images/s%u.png", i);
        snprintf(line, sizeof line, "images/s%u.%s\n", i,
                 access(unit_path(state, name), R_OK) ? "jpg" : "png");
        strcat(text, line);
    }
    unit_write(unit_path(state, "list.csv"), text, strlen(text));
    return unit_path(state, "list.csv");
}

static inline stoke_data_params raw_params(void **state, const char *augment)
{
    stoke_data_params params = pairs_params(state);
    params.size[0] = RAW_HEIGHT;
    params.size[1] = RAW_WIDTH;
    params.batch = RAW_BATCH;
    params.classes = 19; /* as the preset `face` has them */
    params.ignore_index = 255;
    params.augment = augment;
    return params;
}

/* Beside the presets: every op, and what only some of them come to together. */
static const char *const raw_pipelines[] = {
    "vflip(p=0.5),hflip(p=0.5,swap=1-2)",
    /* fitted pictures that no raw row has room for */
    "random_crop,rotate(p=1,degrees=90)",
    "random_crop,scale(p=1,factor=0.4..0.8),hflip(p=0.5,swap=0-3),erasing(p=1,mask=ignore)",
    "random_crop,rotate(p=0.5,degrees=45),elastic(p=0.5,alpha=30,sigma=4..9),gaussian_noise(p=1)",
    "center_crop,elastic(p=1,alpha=1..8,sigma=4..9),vflip(p=0.5)",
    "elastic(p=0.7,alpha=0..8,sigma=8..32),rotate(p=0.5)",
    /* steps that need more than their own pixel, first, last and in a row */
    "contrast(p=1,factor=0.5..1.5)",
    "brightness(p=0.5),contrast(p=0.7),contrast(p=0.7),gaussian_blur(p=0.7,kernel=9,sigma=1..4),contrast(p=0."
    "7)",
    "gaussian_blur(p=1,kernel=31,sigma=9),gaussian_blur(p=0.5,kernel=1),hue(p=1,shift=0.5)",
    "clahe(p=1,grid=3),gamma(p=0.5,gain=1.2),clahe(p=0.5,grid=8,clip=0.01..40),gaussian_blur(p=0.5)",
    "rotate(p=0.5),clahe(p=0.7,grid=1),saturation(p=0.6,factor=0..3),gaussian_noise(p=0.5,gray=true,mean=0.1)"
    ","
    "color_jitter(p=0.5,brightness=0.9,contrast=0.9,saturation=0.9,hue=0.5),gaussian_noise(p=0.5),"
    "erasing(p=0.5,value=255,0,128),contrast(p=0.3)",
    /* rows mixed with each other */
    "hflip(p=0.5),mixup(p=0.6,alpha=1)",
    "rotate(p=0.5),contrast(p=0.5),cutmix(p=0.6)",
    "random_resized_crop(scale=0.1..1),gaussian_blur(p=0.5),mixup(p=0.4),cutmix(p=0.4),"
    "normalize(mean=0.2,0.3,0.4,std=0.1,0.2,0.3)",
};
enum { RAW_PIPELINES = sizeof raw_pipelines / sizeof *raw_pipelines };

/* All presets, then the above; NULL past the last. */
static inline const char *raw_pipeline(size_t i)
{
    stoke_preset_info info;
    size_t presets = 0;
    while (stoke_preset_at(presets, &info)) {
        if (presets++ == i) return info.name;
    }
    return i - presets < RAW_PIPELINES ? raw_pipelines[i - presets] : NULL;
}

/* ---- two loaders ---- */

typedef struct raw_run {
    stoke_dataset *dataset;
    stoke_loader *plain, *raw;
    const stk_loader_config *config;
} raw_run;

/* The plain one works without threads, one row after the other: the simplest way there is. */
static inline raw_run raw_start(const stoke_data_params *params)
{
    raw_run run;
    stoke_error err = { 0 };
    stoke_data_params simple = *params;
    simple.workers = 0;
    simple.cache = "";
    simple.cache_ram = 0;
    if (stoke_dataset_open(&run.dataset, params, &err)) fail_msg("%s", err.message);
    if (stoke_loader_create(&run.plain, run.dataset, &simple, NULL, &err)) fail_msg("%s", err.message);
    if (stk_loader_create_raw(&run.raw, run.dataset, params, NULL, NULL, &err)) fail_msg("%s", err.message);
    run.config = stk_loader_config_of(run.raw);
    return run;
}

static inline void raw_stop(raw_run *run)
{
    stoke_loader_destroy(&run->plain);
    stoke_loader_destroy(&run->raw);
    stoke_dataset_close(&run->dataset);
}

/* The next batch of both, which agree in all but their pixels; 0 at the end of the epoch. */
static inline int raw_next(raw_run *run, const stoke_batch **plain, const stoke_batch **raw)
{
    const int a = stoke_loader_next(run->plain, plain), b = stoke_loader_next(run->raw, raw);
    if (a != b)
        fail_msg("%d (%s) and %d (%s)", a, stoke_loader_error(run->plain), b, stoke_loader_error(run->raw));
    if (a == STOKE_E_END) return 0;
    if (a) fail_msg("%s", stoke_loader_error(run->plain));
    const stoke_batch *p = *plain, *r = *raw;
    assert_int_equal(p->index, r->index);
    assert_int_equal(p->epoch, r->epoch);
    assert_int_equal(p->position, r->position);
    assert_int_equal(p->count, r->count);
    assert_memory_equal(p->ids, r->ids, p->count * sizeof *p->ids);
    assert_memory_equal(p->status, r->status, p->count);
    assert_null(r->masks_b);
    assert_null(r->lambda);
    assert_null(stk_batch_raw(p));
    assert_non_null(stk_batch_raw(r));
    return 1;
}

static inline void raw_release(raw_run *run, const stoke_batch **plain, const stoke_batch **raw)
{
    stoke_batch_release(run->plain, plain);
    stoke_batch_release(run->raw, raw);
}

static inline void raw_assert_rows(const char *what, const char *pipeline, const void *wanted,
                                   const void *got, size_t row_bytes, uint32_t count)
{
    const uint8_t *a = wanted, *b = got;
    for (size_t i = 0; i < row_bytes * count; i++)
        if (a[i] != b[i])
            fail_msg("%s: %s of row %zu differ from byte %zu on: %u, not %u", pipeline, what, i / row_bytes,
                     i % row_bytes, b[i], a[i]);
}

/* A finished batch against the plain loader's. */
static inline void raw_assert_same(const char *pipeline, const stoke_batch *wanted, const stoke_batch *got)
{
    assert_int_equal(wanted->count, got->count);
    assert_int_equal(wanted->image_row_bytes, got->image_row_bytes);
    assert_int_equal(wanted->mask_row_bytes, got->mask_row_bytes);
    raw_assert_rows("images", pipeline, wanted->images, got->images, wanted->image_row_bytes, wanted->count);
    raw_assert_rows("masks", pipeline, wanted->masks, got->masks, wanted->mask_row_bytes, wanted->count);
    assert_int_equal(!wanted->masks_b, !got->masks_b);
    if (wanted->masks_b)
        raw_assert_rows("second masks", pipeline, wanted->masks_b, got->masks_b, wanted->mask_row_bytes,
                        wanted->count);
}

#endif
