/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows left to a device: filling them in a worker, and carrying them out on the host after all.
 *
 * The fitted picture belongs to whoever made it: the decoder, the resizer's buffer, the cache. Without a
 * cache, decoder and resizer are asked to make it in the row (stk_raw_image_place), and nothing is copied; so
 * are cached entries on disk that no crop cuts. What is left is one copy: of parts cut from a cached or
 * windowed picture, of lent cache memory, and of ids whose file is deeper or more colourful than they are.
 *
 * CPU time of the stage `write` for 512 x 512, preset standard, on a busy machine of two cores: 1.8-2.1 ms in
 * an ordinary loader, 0.003 ms where the picture is made in the row (decoding takes 0.05 ms more there: the
 * row is not in the processor's cache, the decoder's buffer is), 0.12-0.27 ms where it is copied.
 */
#include "src/loader/raw.h"

#include <string.h>

#include "src/base/error.h"
#include "src/loader/job.h"
#include "src/loader/slots.h"

enum { ALIGNMENT = 64 };

/* Whole cache lines: rows are copied by several threads, and by a device. */
static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

stoke_batch stk_slot_shape(const stk_recipe *recipe, uint32_t capacity, unsigned *extras)
{
    stoke_batch shape = stk_recipe_shape(recipe, capacity);
    const size_t pixels = (size_t)recipe->width * recipe->height;
    *extras = recipe->two_masks ? STK_SLOT_TWO_MASKS : 0;
    if (!recipe->raw) return shape;
    *extras = STK_SLOT_RAW;
    shape.image_row_bytes = aligned(pixels * 6);
    shape.mask_row_bytes = aligned(pixels * 2 * stoke_labels_depth(recipe->labels));
    return shape;
}

const stk_raw_row *stk_batch_raw(const stoke_batch *batch)
{
    return ((const stk_slot *)batch)->raw; /* the batch is the slot's first member */
}

/* ---- filling ---- */

static uint8_t image_depth(const stk_job *job)
{
    if (job->image.data) return job->image.depth;
    return job->image_info.bits == 16 ? 2 : 1;
}

/* Both the fitted image and its ids: what is laid out is laid out together. A picture of w x h pixels fits by
 * its image when 3 * depth * w * h <= 6 * W * H, by its ids when w * h <= 2 * W * H. */
static int fits(const stk_job *job)
{
    unsigned extras;
    const stoke_batch room = stk_slot_shape(job->recipe, 1, &extras);
    const stoke_plan *plan = &job->plan;
    const size_t bytes = stoke_image_bytes(plan->width, plan->height, 3, image_depth(job));
    const size_t ids =
        stoke_image_bytes(plan->width, plan->height, 1, stoke_labels_depth(job->recipe->labels));
    return bytes && bytes <= room.image_row_bytes && ids && ids <= room.mask_row_bytes;
}

static stoke_image place(const stk_job *job, void *row, uint8_t channels, uint8_t depth)
{
    const stoke_plan *plan = &job->plan;
    if (!fits(job)) return (stoke_image){ 0 };
    return (stoke_image){ row,  (size_t)plan->width * channels * depth, plan->width, plan->height, channels,
                          depth };
}

stoke_image stk_raw_image_place(const stk_job *job)
{
    return place(job, job->image_row, 3, image_depth(job));
}

stoke_image stk_raw_ids_place(const stk_job *job)
{
    return place(job, job->mask_row, 1, stoke_labels_depth(job->recipe->labels));
}

/* Rows packed. The picture may lie in the row already, whole or as a part of what the cache put there: lines
 * then only move towards the beginning. Returns the bytes. */
static size_t pack(void *row, const stoke_image *image)
{
    const size_t line = (size_t)image->width * image->channels * image->depth, bytes = line * image->height;
    if (image->stride == line && image->data == row) return bytes;
    if (image->stride == line) {
        memmove(row, image->data, bytes);
        return bytes;
    }
    for (uint32_t y = 0; y < image->height; y++)
        memmove((char *)row + y * line, (const char *)image->data + y * image->stride, line);
    return bytes;
}

/* The geometry of a picture that the row has no room for. Only a warp asks for one: without, a picture is
 * never larger than the output. Left and right classes change places here too, since the fill around the
 * picture must not; touches, erased boxes of the mask among them, are left to the device. */
static int lay_here(stk_job *job, stk_raw_row *raw)
{
    static const uint8_t black[3];
    const stk_recipe *recipe = job->recipe;
    stk_warper *warper = &job->bench->warper;
    int r = stk_warp_begin(warper, &job->plan, recipe->width, recipe->height, job->err);
    if (!r) r = stk_lay_ids(job);
    if (r) return r;
    const size_t line = (size_t)recipe->width * 3 * job->image.depth,
                 ids_line = (size_t)recipe->width * job->ids.depth;
    for (uint32_t y = 0; y < recipe->height; y++) { /* in turn: an elastic row serves both */
        stk_warp_image_row(warper, &job->image, black, y, (char *)job->image_row + y * line);
        stk_warp_mask_row(warper, &job->ids, recipe->mask_fill, y, (char *)job->mask_row + y * ids_line);
    }
    stoke_plan *plan = &raw->plan;
    plan->warp = plan->hflip = plan->vflip = plan->swap_labels = 0;
    plan->place_x = plan->place_y = 0;
    plan->elastic_alpha = plan->elastic_step = 0;
    raw->width = recipe->width;
    raw->height = recipe->height;
    raw->mask_depth = job->ids.depth;
    raw->laid = 1;
    raw->image_bytes = line * recipe->height;
    raw->mask_bytes = ids_line * recipe->height;
    return STOKE_OK;
}

int stk_raw_put(stk_job *job)
{
    stk_raw_row *raw = job->raw;
    *raw = (stk_raw_row){ .plan = job->plan,
                          .width = job->image.width,
                          .height = job->image.height,
                          .depth = job->image.depth,
                          .mask_depth = job->ids.data ? job->ids.depth : 0 };
    if (job->plan.warp && !fits(job)) return lay_here(job, raw);
    raw->image_bytes = pack(job->image_row, &job->image);
    if (job->ids.data) raw->mask_bytes = pack(job->mask_row, &job->ids);
    return STOKE_OK;
}

/* ---- carrying out ---- */

struct stk_raw_bench {
    stk_bench bench;
};

int stk_raw_bench_create(stk_raw_bench **out, stoke_error *err)
{
    *out = stk_calloc(1, sizeof **out);
    if (!*out) return stk_fail(err, STOKE_E_NOMEM, "no memory for a worker");
    const int r = stk_bench_create(&(*out)->bench, err);
    if (r) {
        stk_free(*out);
        *out = NULL;
    }
    return r;
}

void stk_raw_bench_destroy(stk_raw_bench **bench)
{
    if (!*bench) return;
    stk_bench_destroy(&(*bench)->bench);
    stk_free(*bench);
    *bench = NULL;
}

int stk_raw_lay(stk_raw_bench *bench, const stk_recipe *recipe, const stk_raw_row *row, const void *image,
                const void *mask, void *image_row, void *mask_row, stoke_error *err)
{
    stk_job job = {
        .bench = &bench->bench,
        .recipe = recipe,
        .plan = row->plan,
        .image_row = image_row,
        .mask_row = mask_row,
        .image = { (void *)image, (size_t)row->width * 3 * row->depth, row->width, row->height, 3,
                   row->depth },
        .err = err,
    };
    if (row->mask_depth)
        job.ids =
            (stoke_image){ (void *)mask,   (size_t)row->width * row->mask_depth, row->width, row->height, 1,
                           row->mask_depth };
    return stk_lay(&job);
}
