/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the selftest that augment a batch: random pictures and ids, plans drawn from a pipeline, carried
 * out by an augmenter on the device and by the loader's own code on the host.
 */
#include "src/selftest/selftest.h"

#include <math.h>
#include <string.h>
#include <stoke/tools/device.h>

#include "src/base/error.h"
#include "kernels/half.h"
#include "src/base/mem.h"
#include "src/upload/augmenter.h"
#include "src/loader/slots.h"

/* Of the output: odd sizes, more than one strip either way (K_STRIP). One row of the batch stays empty. */
enum { WIDTH = 75, HEIGHT = 69, ROWS = 7, TURNS = 2, CLASSES = 19, DEEP_CLASSES = 700 };
enum { PAD = 0xa5, ALIGNMENT = 64 };

/* In the order of the choices of `dtype` and `mask_dtype`. */
enum { F32, F16, BF16, U8 };
enum { M_AUTO, M_U8, M_U16, M_I32, M_I64 };

typedef struct batch_case {
    const char *name, *augment;
    int dtype, mask_dtype, layout, normalize;
    uint8_t deep;      /* 16-bit pictures */
    uint8_t deep_ids;  /* 16-bit ids */
    uint8_t unlabeled; /* no masks */
    uint8_t alone;     /* a batch of one */
    uint8_t roots;     /* noise takes a root: without exact_math a level may be crossed */
} batch_case;

#define GEOMETRY "affine(p=0.8,degrees=40,scale=0.7..1.5,shear=12,shear_y=5)"
#define CHAIN                                                                                                \
    "contrast(p=0.8),gaussian_blur(p=0.7,kernel=5),hue(p=0.7),clahe(p=0.7,grid=3),brightness(p=0.7),"        \
    "contrast(p=0.7),gaussian_noise(p=0.7),gaussian_blur(p=0.7,kernel=31,sigma=3..6),saturation(p=0.7),"     \
    "gamma(p=0.7),erasing(p=0.7,value=40,mask=ignore)"

static const batch_case cases[] = {
    { "lay_image, lay_mask: stretched", .augment = "none" },
    { "lay_image, lay_mask: placed, mirrored", .augment = "random_crop,hflip,vflip" },
    { "lay_image, lay_mask: warp", .augment = GEOMETRY },
    { "lay_image, lay_mask: warp, mirrored",
      .augment = "random_resized_crop,hflip,vflip,rotate(p=0.9,degrees=180)" },
    { "lay_image, lay_mask: elastic_points", .augment = "elastic(p=0.8,alpha=2..6,sigma=4..9)" },
    { "lay_image, lay_mask: elastic, warp",
      .augment = "hflip," GEOMETRY ",elastic(p=0.8,alpha=0..8,sigma=16..32)" },
    { "lay_image: u16", .augment = "random_crop,hflip", .deep = 1 },
    { "lay_image: u16, warp, elastic", .augment = GEOMETRY ",elastic(p=0.8)", .deep = 1 },
    { "lay_mask: ids of 16 bits", .augment = "random_crop,hflip,elastic(p=0.6)", .deep_ids = 1 },
    { "lay_mask: no masks", .augment = GEOMETRY ",erasing(p=0.7,mask=ignore)", .unlabeled = 1 },
    { "lay_mask: left and right swapped", .augment = "hflip(p=0.7,swap=2-3,4-5,7-8),rotate(p=0.5)" },
    { "lay_mask: swapped ids of 16 bits", .augment = "hflip(p=0.7,swap=2-3,300-699)", .deep_ids = 1 },
    { "apply_color: brightness", .augment = "brightness(p=0.8,factor=0.2..3)" },
    { "apply_color, gray_sum: contrast", .augment = "contrast(p=0.8,factor=0.2..3)" },
    { "apply_color: saturation", .augment = "saturation(p=0.8,factor=0..3)" },
    { "apply_color: hue", .augment = "hue(p=0.8,shift=0.5)" },
    { "apply_color: gamma", .augment = "gamma(p=0.8,gamma=0.3..3,gain=1.2)" },
    { "apply_color, blur_across, blur_down", .augment = "gaussian_blur(p=0.8,kernel=7,sigma=0.3..3)" },
    { "apply_color, blur: 31 taps", .augment = "gaussian_blur(p=0.8,kernel=31,sigma=2..9)" },
    { "apply_color, noise_keys: noise", .augment = "gaussian_noise(p=0.8,std=0.01..0.4)", .roots = 1 },
    { "apply_color, noise_keys: gray noise", .augment = "gaussian_noise(p=0.8,std=0.01..0.4,gray=true)",
      .roots = 1 },
    { "apply_color, clahe_*", .augment = "clahe(p=0.8,clip=0.5..6,grid=4)" },
    { "apply_color, clahe_*: u16", .augment = "clahe(p=0.8,clip=0.5..6,grid=8)", .deep = 1 },
    { "apply_color: erasing", .augment = "erasing(p=0.8,value=90)" },
    { "apply_color: erasing, masks too", .augment = "erasing(p=0.8,mask=ignore)" },
    { "apply_color: color_jitter",
      .augment = "color_jitter(p=1,brightness=0.5,contrast=0.5,saturation=0.5,hue=0.2)" },
    { "apply_color: chain with barriers", .augment = CHAIN, .roots = 1 },
    { "apply_color: chain with barriers, u16", .augment = GEOMETRY "," CHAIN, .deep = 1, .roots = 1 },
    { "mix_rows: mixup", .augment = "hflip,mixup(p=0.8,alpha=1)" },
    { "mix_rows: cutmix", .augment = "hflip,cutmix(p=0.8)" },
    { "mix_rows: both, after a chain", .augment = CHAIN ",mixup(p=0.5,alpha=1),cutmix(p=0.6)", .roots = 1 },
    { "mix_rows: a batch of one", .augment = "mixup(p=1),cutmix(p=1)", .alone = 1 },
    { "types: f32 chw", .augment = "standard,mixup(p=0.6)", F32, M_U8, 0, 1, .roots = 1 },
    { "types: f32 hwc", .augment = "standard,mixup(p=0.6)", F32, M_U16, 1, 2, .roots = 1 },
    { "types: f16 chw", .augment = "standard,mixup(p=0.6)", F16, M_I32, 0, 1, .roots = 1 },
    { "types: f16 hwc", .augment = "standard,cutmix(p=0.6)", F16, M_I64, 1, 0, .roots = 1 },
    { "types: bf16 chw", .augment = "standard,mixup(p=0.6)", BF16, M_I64, 0, 1, .roots = 1 },
    { "types: bf16 hwc", .augment = "standard,mixup(p=0.6)", BF16, M_I32, 1, 0, .deep = 1, .roots = 1 },
    { "types: u8 chw", .augment = "standard,mixup(p=0.6)", U8, M_U16, 0, 2, .roots = 1 },
    { "types: u8 hwc", .augment = "standard,mixup(p=0.6)", U8, M_AUTO, 1, 2, .roots = 1 },
    { "types: f16 chw, u16 straight", .augment = "crop,mixup(p=0.6)", F16, M_AUTO, 0, 1, .deep = 1,
      .deep_ids = 1 },
    { "types: u8 hwc, u16 straight", .augment = "crop", U8, M_I64, 1, 2, .deep = 1 },
    { "preset strong", .augment = "strong", .roots = 1 },
    { "preset face", .augment = "face", .roots = 1 },
    { "preset medical", .augment = "medical", .deep = 1, .roots = 1 },
};

/* A batch on both sides. */
typedef struct proving {
    const batch_case *c;
    stk_loader_config config;
    uint32_t count;
    stk_raw_row row[ROWS];
    stk_tables_raw_layout layout; /* of the raw block */
    stk_slots wanted;
    stk_device_block raw_near, raw_far, near,
        far[3];      /* images, masks, second masks; `near` has them one by one */
    size_t bytes[3]; /* of each of the three; 0 = there is none */
    stk_device_stream *stream;
    stk_augmenter *augmenter;
} proving;

/* ---- what is augmented ---- */

/* Outside the classes: 255 is one of many. */
static uint16_t ignored_id(const batch_case *c)
{
    return c->deep_ids ? UINT16_MAX : 255;
}

static int make_recipe(proving *p, stoke_error *err)
{
    const batch_case *c = p->c;
    stoke_data_params params = stoke_data_defaults();
    params.size[0] = HEIGHT;
    params.size[1] = WIDTH;
    params.augment = c->augment;
    params.dtype = c->dtype;
    params.mask_dtype = c->mask_dtype;
    params.layout = c->layout;
    params.normalize = c->normalize;
    params.classes = c->deep_ids ? DEEP_CLASSES : CLASSES;
    params.ignore_index = ignored_id(c);
    params.quarantine = "";
    p->count = c->alone ? 1 : ROWS - 1;
    return stk_loader_config_create(&p->config, NULL, &params, err);
}

/* The plan of row i, from a source that is smaller than the output, or larger, or neither. */
static stoke_augment_plan draw(const proving *p, uint32_t i)
{
    stoke_draw d = { .seed = 7,
                     .epoch = 1,
                     .position = i,
                     .source_width = 40 + 23 * i,
                     .source_height = 61 - 7 * i,
                     .out_width = WIDTH,
                     .out_height = HEIGHT };
    stoke_augment_plan plan;
    stoke_pipeline_draw(p->config.pipeline, &d, &plan);
    if (plan.wants_focus) {
        const uint32_t focus[2] = { d.source_width / 3, d.source_height / 2 };
        d.focus = focus;
        stoke_pipeline_draw(p->config.pipeline, &d, &plan);
    }
    return plan;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void make_rows(proving *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        stk_raw_row *row = &p->row[i];
        row->plan = draw(p, i);
        row->width = row->plan.width;
        row->height = row->plan.height;
        row->depth = p->c->deep ? 2 : 1;
        row->mask_depth = p->c->unlabeled ? 0 : p->c->deep_ids ? 2 : 1;
        const size_t pixels = (size_t)row->width * row->height;
        row->image_bytes = pixels * 3 * row->depth;
        row->mask_bytes = pixels * row->mask_depth;
        if (aligned(row->image_bytes) > p->layout.image_pitch)
            p->layout.image_pitch = aligned(row->image_bytes);
        if (aligned(row->mask_bytes) > p->layout.mask_pitch) p->layout.mask_pitch = aligned(row->mask_bytes);
    }
    p->layout.mask_at = p->layout.image_pitch * p->count;
}

/* Samples of any value; ids of the classes, some of them ignored. */
static void fill_raw(proving *p)
{
    uint8_t *bytes = p->raw_near.host;
    stk_selftest_fill(bytes, p->raw_near.bytes, 3);
    const uint32_t classes = p->c->deep_ids ? DEEP_CLASSES : CLASSES;
    for (uint32_t i = 0; i < p->count; i++) {
        uint8_t *ids = bytes + p->layout.mask_at + i * p->layout.mask_pitch;
        for (size_t k = 0; k < p->row[i].mask_bytes; k += p->row[i].mask_depth) {
            const uint16_t id = (uint16_t)((ids[k] * 256u + k) % (classes + 1));
            const uint16_t value = id == classes ? ignored_id(p->c) : id;
            if (p->row[i].mask_depth == 2)
                memcpy(ids + k, &value, sizeof value);
            else
                ids[k] = (uint8_t)value;
        }
    }
}

/* ---- on the host ---- */

static int augment_here(proving *p, stoke_error *err)
{
    const stoke_batch shape = stk_batch_shape(&p->config, ROWS);
    const uint8_t *raw = p->raw_near.host;
    stk_scratch bench = { 0 };
    stk_mem_buffer spare = { 0 };
    int r = stk_slots_create(&p->wanted, 1, &shape, p->config.two_masks ? STK_SLOT_TWO_MASKS : 0, NULL, err);
    if (!r) r = stk_scratch_create(&bench, err);
    stk_slot *slot = r ? NULL : stk_slots_open(&p->wanted, p->count);
    if (slot) memset(slot->batch.images, PAD, p->wanted.bytes_per_slot);
    for (uint32_t i = 0; !r && i < p->count; i++) {
        const stoke_augment_plan *plan = &p->row[i].plan;
        slot->mix[i] = (stk_slot_row_mix){ plan->mix, plan->lambda, plan->mix_box };
        r = stk_raw_render(&bench, &p->config, &p->row[i], raw + i * p->layout.image_pitch,
                           raw + p->layout.mask_at + i * p->layout.mask_pitch, stk_slot_image_row(slot, i),
                           stk_slot_mask_row(slot, i), err);
    }
    if (slot) slot->batch.count = p->count;
    if (!r && p->config.mixes) r = stk_slot_mix(slot, &spare, err);
    stk_buffer_free(&spare);
    stk_scratch_destroy(&bench);
    return r;
}

/* ---- on the device ---- */

static int make_blocks(proving *p, stoke_device *device, stoke_error *err)
{
    const stoke_batch shape = stk_batch_shape(&p->config, ROWS);
    p->bytes[0] = shape.image_row_bytes * ROWS;
    p->bytes[1] = shape.mask_row_bytes * ROWS;
    p->bytes[2] = p->config.two_masks ? shape.mask_row_bytes * ROWS : 0;
    const size_t raw = p->layout.mask_at + p->layout.mask_pitch * p->count;
    int r = stk_stream_create(&p->stream, device, err);
    if (!r) r = stk_block_create(&p->raw_near, device, STK_MEMORY_PINNED, raw, err);
    if (!r) r = stk_block_create(&p->raw_far, device, STK_MEMORY_DEVICE, raw, err);
    if (!r)
        r = stk_block_create(&p->near, device, STK_MEMORY_PINNED, p->bytes[0] + p->bytes[1] + p->bytes[2],
                             err);
    for (int i = 0; !r && i < 3; i++)
        if (p->bytes[i]) r = stk_block_create(&p->far[i], device, STK_MEMORY_DEVICE, p->bytes[i], err);
    return r;
}

/* Between `near` and the three blocks of the batch. */
static int move(proving *p, int up, stoke_error *err)
{
    int r = STOKE_OK;
    size_t at = 0;
    for (int i = 0; !r && i < 3; at += p->bytes[i++]) {
        if (up)
            r = stk_stream_copy(p->stream, &p->far[i], 0, &p->near, at, p->bytes[i], err);
        else
            r = stk_stream_copy(p->stream, &p->near, at, &p->far[i], 0, p->bytes[i], err);
        if (i == 1 && !p->bytes[2]) break;
    }
    return r;
}

/* Each turn over the bytes of the one before it: a pixel that a kernel leaves out shows. */
static int augment_there(proving *p, uint32_t turn, stoke_error *err)
{
    const stk_augmenter_job job = {
        .rows = p->row,
        .count = p->count,
        .raw = &p->raw_far,
        .layout = p->layout,
        .images = &p->far[0],
        .masks = &p->far[1],
        .masks_b = p->bytes[2] ? &p->far[2] : NULL,
        .turn = turn,
    };
    memset(p->near.host, PAD, p->near.bytes);
    int r = stk_stream_copy(p->stream, &p->raw_far, 0, &p->raw_near, 0, p->raw_near.bytes, err);
    if (!r) r = move(p, 1, err);
    if (!r) r = stk_augmenter_run(p->augmenter, p->stream, &job, err);
    if (!r) r = move(p, 0, err);
    return r ? r : stk_stream_finish(p->stream, err);
}

/* ---- the two side by side ---- */

static double element(const void *data, size_t i, stoke_dtype dtype)
{
    switch (dtype) {
    case STOKE_DTYPE_F32: return ((const float *)data)[i];
    case STOKE_DTYPE_F16: return k_from_f16(((const uint16_t *)data)[i]);
    case STOKE_DTYPE_BF16: return k_from_bf16(((const uint16_t *)data)[i]);
    default: return ((const uint8_t *)data)[i];
    }
}

static void compare_images(const proving *p, stoke_selftest_line *line, const void *got, const void *wanted)
{
    const stoke_dtype dtype = p->config.writer.dtype;
    const size_t size = stoke_dtype_bytes(dtype), count = p->bytes[0] / size;
    line->compared += count;
    if (!memcmp(got, wanted, p->bytes[0])) return;
    for (size_t i = 0; i < count; i++) {
        if (!memcmp((const char *)got + i * size, (const char *)wanted + i * size, size)) continue;
        const double apart = fabs(element(got, i, dtype) - element(wanted, i, dtype));
        line->different++;
        if (!(apart <= line->largest)) line->largest = apart; /* a NaN stays, and fails */
    }
}

/* Ids are exact on every device: one that differs is not a matter of tolerance. */
static int compare_ids(const proving *p, stoke_selftest_line *line, const char *got, const char *wanted,
                       const char *what, stoke_error *err)
{
    const size_t size = stoke_dtype_bytes(p->config.mask_dtype), count = p->bytes[1] / size;
    size_t different = 0;
    if (memcmp(got, wanted, p->bytes[1]))
        for (size_t i = 0; i < count; i++) different += memcmp(got + i * size, wanted + i * size, size) != 0;
    line->compared += count;
    line->different += different;
    return different ? stk_fail(err, STOKE_E_STATE, "%zu of %zu ids of %s differ", different, count, what)
                     : STOKE_OK;
}

static int compare(const proving *p, stoke_selftest_line *line, stoke_error *err)
{
    const stoke_batch *batch = &p->wanted.slot[0].batch;
    const char *got = p->near.host, *masks = got + p->bytes[0];
    compare_images(p, line, got, batch->images);
    int r = compare_ids(p, line, masks, batch->masks, "the masks", err);
    if (!r && p->bytes[2])
        r = compare_ids(p, line, masks + p->bytes[1], batch->masks_b, "the second masks", err);
    return r;
}

/* One level of the 256, as an element of the batch. */
static double tolerance(const proving *p, const stoke_device *device)
{
    if (!p->c->roots || device->info.exact_math) return 0;
    double most = 0;
    for (int c = 0; c < 3; c++) most = fmax(most, fabs(p->config.writer.scale[c]) / 255);
    return p->config.writer.dtype == STOKE_DTYPE_U8 ? 1 : most;
}

static int prove(proving *p, stoke_device *device, stoke_selftest_line *line, stoke_error *err)
{
    int r = make_recipe(p, err);
    if (r) return r;
    make_rows(p);
    line->tolerance = tolerance(p, device);
    r = make_blocks(p, device, err);
    if (!r) r = stk_augmenter_create(&p->augmenter, device, &p->config, ROWS, TURNS, err);
    if (r) return r;
    fill_raw(p);
    r = augment_here(p, err);
    for (uint32_t turn = 0; !r && turn < TURNS; turn++) {
        r = augment_there(p, turn, err);
        if (!r) r = compare(p, line, err);
    }
    return r;
}

static void release(proving *p)
{
    if (p->stream) stk_stream_finish(p->stream, NULL);
    stk_augmenter_destroy(&p->augmenter);
    stk_stream_destroy(&p->stream);
    stk_block_destroy(&p->raw_near);
    stk_block_destroy(&p->raw_far);
    stk_block_destroy(&p->near);
    for (int i = 0; i < 3; i++) stk_block_destroy(&p->far[i]);
    stk_slots_destroy(&p->wanted);
    stk_loader_config_destroy(&p->config);
}

int stk_selftest_batch(stoke_device *device, unsigned which, stoke_selftest_line *line, stoke_error *err)
{
    if (which >= sizeof cases / sizeof *cases) return STOKE_E_END;
    proving *p = stk_calloc(1, sizeof *p); /* plans are 2 KB each */
    if (!p) return stk_fail(err, STOKE_E_NOMEM, "no memory for a batch");
    p->c = &cases[which];
    line->name = p->c->name;
    const int r = prove(p, device, line, err);
    release(p);
    stk_free(p);
    return r;
}

/* An augmenter that the memory is too small for is refused, and gives back what it had. */
static int refuse_augmenter(proving *p, stoke_device *device, stoke_selftest_line *line, stoke_error *err)
{
    uint64_t before, after, all;
    stoke_error refused = { 0 };
    int r = make_recipe(p, err);
    if (!r) r = stoke_device_memory(device, &before, &all, err);
    if (r) return r;
    r = stk_augmenter_create(&p->augmenter, device, &p->config, ROWS, TURNS, &refused);
    if (!r) return stk_fail(err, STOKE_E_STATE, "an augmenter beyond memory_limit was not refused");
    if (r != STOKE_E_NOMEM) return stk_fail_again(err, r, refused.message);
    r = stoke_device_memory(device, &after, &all, err);
    line->compared = 1;
    line->different = after != before;
    line->largest = after < before ? (double)(before - after) : (double)(after - before);
    return r;
}

int stk_selftest_batch_limit(stoke_device *device, unsigned which, stoke_selftest_line *line,
                             stoke_error *err)
{
    static const batch_case chain = { .augment = CHAIN };
    stoke_device *small;
    stoke_device_params params = stoke_device_defaults();
    line->name = "memory_limit: an augmenter refused";
    line->against = "bytes free before";
    params.memory_limit = 64 << 10;
    params.contents = 1;
    int r = stoke_device_open(&small, device->info.name, &params, err);
    if (r) return r;
    proving *p = stk_calloc(1, sizeof *p);
    if (p) {
        p->c = &chain;
        r = refuse_augmenter(p, small, line, err);
        release(p);
    } else {
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for a batch");
    }
    stk_free(p);
    stoke_device_close(&small);
    return r;
}
