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
#include <stoke/tools/image.h>
#include <stoke/tools/labels.h>

#include "src/base/error.h"
#include "src/loader/sample.h"
#include "src/loader/slots.h"

stoke_batch stk_slot_shape(const stk_loader_config *config, uint32_t capacity, unsigned *extras)
{
    stoke_batch shape = stk_batch_shape(config, capacity);
    const size_t pixels = (size_t)config->width * config->height;
    *extras = config->two_masks ? STK_SLOT_TWO_MASKS : 0;
    if (!config->raw) return shape;
    *extras = STK_SLOT_RAW;
    shape.image_row_bytes = stk_slot_aligned(pixels * 6);
    shape.mask_row_bytes = stk_slot_aligned(pixels * 2 * stoke_labels_depth(config->labels));
    return shape;
}

const stk_raw_row *stk_batch_raw(const stoke_batch *batch)
{
    return stk_slot_of(batch)->raw;
}

/* ---- filling ---- */

static uint8_t image_depth(const stk_sample_ctx *ctx)
{
    if (ctx->image.data) return ctx->image.depth;
    return ctx->image_info.bits == 16 ? 2 : 1;
}

/* Both the fitted image and its ids: what is laid out is laid out together. A picture of w x h pixels fits by
 * its image when 3 * depth * w * h <= 6 * W * H, by its ids when w * h <= 2 * W * H. */
static int fits(const stk_sample_ctx *ctx)
{
    unsigned extras;
    const stoke_batch room = stk_slot_shape(ctx->config, 1, &extras);
    const stoke_augment_plan *plan = &ctx->plan;
    const size_t bytes = stoke_image_bytes(plan->width, plan->height, 3, image_depth(ctx));
    const size_t ids =
        stoke_image_bytes(plan->width, plan->height, 1, stoke_labels_depth(ctx->config->labels));
    return bytes && bytes <= room.image_row_bytes && ids && ids <= room.mask_row_bytes;
}

static stoke_image place(const stk_sample_ctx *ctx, void *row, uint8_t channels, uint8_t depth)
{
    const stoke_augment_plan *plan = &ctx->plan;
    if (!fits(ctx)) return (stoke_image){ 0 };
    return (stoke_image){ row,  (size_t)plan->width * channels * depth, plan->width, plan->height, channels,
                          depth };
}

stoke_image stk_raw_image_place(const stk_sample_ctx *ctx)
{
    return place(ctx, ctx->image_row, 3, image_depth(ctx));
}

stoke_image stk_raw_ids_place(const stk_sample_ctx *ctx)
{
    return place(ctx, ctx->mask_row, 1, stoke_labels_depth(ctx->config->labels));
}

/* Rows packed. The picture may lie in the row already, whole or as a part of what the cache put there: lines
 * then only move towards the beginning. Returns the bytes. */
static size_t pack(void *row, const stoke_image *image)
{
    const size_t line = (size_t)image->width * image->channels * image->depth, bytes = line * image->height;
    if (image->stride != line || image->data != row)
        stk_copy_rows(row, line, image->data, image->stride, line, image->height);
    return bytes;
}

/* The geometry of a picture that the row has no room for. Only a warp asks for one: without, a picture is
 * never larger than the output. Left and right classes change places here too, since the fill around the
 * picture must not; color steps, erased boxes of the mask among them, are left to the device. */
static int lay_here(stk_sample_ctx *ctx, stk_raw_row *raw)
{
    static const uint8_t black[3];
    const stk_loader_config *config = ctx->config;
    stk_pix_warper *warper = &ctx->scratch->warper;
    int r = stk_warp_begin(warper, &ctx->plan, config->width, config->height, ctx->err);
    if (!r) r = stk_render_ids(ctx);
    if (r) return r;
    const size_t line = (size_t)config->width * 3 * ctx->image.depth,
                 ids_line = (size_t)config->width * ctx->ids.depth;
    for (uint32_t y = 0; y < config->height; y++) { /* in turn: an elastic row serves both */
        stk_warp_image_row(warper, &ctx->image, black, y, (char *)ctx->image_row + y * line);
        stk_warp_mask_row(warper, &ctx->ids, config->mask_fill, y, (char *)ctx->mask_row + y * ids_line);
    }
    stoke_augment_plan *plan = &raw->plan;
    plan->warp = plan->hflip = plan->vflip = plan->swap_labels = 0;
    plan->place_x = plan->place_y = 0;
    plan->elastic_alpha = plan->elastic_step = 0;
    raw->width = config->width;
    raw->height = config->height;
    raw->mask_depth = ctx->ids.depth;
    raw->laid = 1;
    raw->image_bytes = line * config->height;
    raw->mask_bytes = ids_line * config->height;
    return STOKE_OK;
}

int stk_raw_put(stk_sample_ctx *ctx)
{
    stk_raw_row *raw = ctx->raw;
    *raw = (stk_raw_row){ .plan = ctx->plan,
                          .width = ctx->image.width,
                          .height = ctx->image.height,
                          .depth = ctx->image.depth,
                          .mask_depth = ctx->ids.data ? ctx->ids.depth : 0 };
    if (ctx->plan.warp && !fits(ctx)) return lay_here(ctx, raw);
    raw->image_bytes = pack(ctx->image_row, &ctx->image);
    if (ctx->ids.data) raw->mask_bytes = pack(ctx->mask_row, &ctx->ids);
    return STOKE_OK;
}

/* ---- carrying out ---- */

int stk_raw_render(stk_scratch *scratch, const stk_loader_config *config, const stk_raw_row *row,
                   const void *image, const void *mask, void *image_row, void *mask_row, stoke_error *err)
{
    stk_sample_ctx ctx = {
        .scratch = scratch,
        .config = config,
        .plan = row->plan,
        .image_row = image_row,
        .mask_row = mask_row,
        .image = { (void *)image, (size_t)row->width * 3 * row->depth, row->width, row->height, 3,
                   row->depth },
        .err = err,
    };
    if (row->mask_depth)
        ctx.ids =
            (stoke_image){ (void *)mask,   (size_t)row->width * row->mask_depth, row->width, row->height, 1,
                           row->mask_depth };
    return stk_render(&ctx);
}
