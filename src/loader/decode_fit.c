/* SPDX-License-Identifier: Apache-2.0
 *
 * The deterministic fitted sample: decoded, labelled, fitted. Nothing random happens here; of the
 * plan only the box and the size it is resized to are looked at.
 *
 * There are two ways, and both give the same pixels (decode: exact):
 *
 *   region   decodes only the plan's box. The way without a cache: a crop costs what the crop costs.
 *   whole    what every epoch has in common: without crop ops the whole source resized to the output, with
 *            them the whole source at its own size. It can be kept; the plan's box is then cut from it.
 */
#include <stoke/tools/labels.h>
#include "src/base/error.h"
#include "src/loader/sample.h"

/* A part of the source and the size it is fitted to. */
typedef struct part {
    stoke_box box;
    uint32_t width, height;
} part;

static part planned(const stk_sample_ctx *ctx)
{
    return (part){ ctx->plan.box, ctx->plan.width, ctx->plan.height };
}

/* The part that all draws have in common. */
static part whole(const stk_sample_ctx *ctx)
{
    const stk_loader_config *config = ctx->config;
    const stoke_box all = { 0, 0, ctx->width, ctx->height };
    return config->crops ? (part){ all, all.width, all.height }
                         : (part){ all, config->width, config->height };
}

/* The pixels of a box in a larger picture. */
static stoke_image cut(const stoke_image *full, const stoke_box *box)
{
    stoke_image piece = *full;
    piece.data = (char *)full->data + box->y * full->stride + (size_t)box->x * full->channels * full->depth;
    piece.width = box->width;
    piece.height = box->height;
    return piece;
}

/* Whether a part is what the plan asks for, so that nothing follows but laying it out. A plan that is not
 * drawn yet asks for nothing. */
static int is_planned(const stk_sample_ctx *ctx, const part *p)
{
    const part q = planned(ctx);
    return q.width && p->width == q.width && p->height == q.height && p->box.x == q.box.x &&
           p->box.y == q.box.y && p->box.width == q.box.width && p->box.height == q.box.height;
}

/* A place in the batch for pixels that need no work after decoding; data NULL when they do. */
static stoke_image direct(const stk_sample_ctx *ctx, const part *p, void *row, uint8_t channels)
{
    const uint32_t width = ctx->config->width, height = ctx->config->height;
    const stoke_augment_plan *plan = &ctx->plan;
    const int fits =
        p->box.width == width && p->box.height == height && p->width == width && p->height == height;
    const int all = plan->box.width == width && plan->box.height == height;
    if (!fits || !all || plan->warp || plan->hflip || plan->vflip || plan->swap_labels)
        return (stoke_image){ 0 };
    return (stoke_image){ row, (size_t)width * channels, width, height, channels, 1 };
}

/* ---- the image ---- */

int stk_sample_ctx_window(stk_sample_ctx *ctx, const stoke_image *pixels)
{
    if (pixels->depth != 2 || ctx->config->window.mode == STK_WINDOW_NONE) return STOKE_OK;
    uint32_t *histogram = stk_buffer_reserve(&ctx->scratch->histogram, 65536 * sizeof *histogram);
    if (!histogram) return stk_fail(ctx->err, STOKE_E_NOMEM, "no memory for the window's histogram");
    stk_window_apply(&ctx->config->window, pixels, histogram);
    return STOKE_OK;
}

static int decode_image(stk_sample_ctx *ctx, const part *p, stoke_image target, stoke_image *pixels)
{
    stk_scratch *scratch = ctx->scratch;
    stoke_decode_params params = ctx->config->image_decode;
    params.orientation = ctx->orientation;
    /* Percentiles are those of the whole picture: a crop must not change its own brightness. */
    const int all = ctx->config->window.mode == STK_WINDOW_PERCENTILE && ctx->image_info.bits == 16;
    if (!all) params.region = p->box;
    params.fast_width = p->width;
    params.fast_height = p->height;
    params.target = target;
    int r = stoke_decoder_decode(scratch->image_decoder, scratch->image_file.data, ctx->image_bytes, &params,
                                 pixels, ctx->err);
    if (!r) r = stk_sample_ctx_window(ctx, pixels);
    if (!r && all) *pixels = cut(pixels, &p->box);
    return r;
}

/* Where the image of a part is decoded to if it needs no resize: data NULL = the decoder's buffer. */
static stoke_image image_target(const stk_sample_ctx *ctx, const part *p)
{
    const stk_pix_writer *writer = &ctx->config->writer;
    if (ctx->raw) return is_planned(ctx, p) ? stk_raw_image_place(ctx) : (stoke_image){ 0 };
    if (writer->dtype != STOKE_DTYPE_U8 || writer->layout != STOKE_LAYOUT_HWC || ctx->plan.n_color_steps)
        return (stoke_image){ 0 };
    return direct(ctx, p, ctx->image_row, 3);
}

/* ---- the mask ---- */

static int decode_ids(stk_sample_ctx *ctx, const stoke_box *box, stoke_image target, stoke_image *ids)
{
    const stk_loader_config *config = ctx->config;
    stk_scratch *scratch = ctx->scratch;
    const uint8_t depth = stoke_labels_depth(config->labels);
    stoke_decode_params params = config->mask_decode;
    params.region = *box;
    params.target = target;
    stoke_image raw;
    int r = stoke_decoder_decode(scratch->mask_decoder, scratch->mask_file.data, ctx->mask_bytes, &params,
                                 &raw, ctx->err);
    if (r) return r;
    *ids = raw;
    if (raw.channels != 1 || raw.depth != depth)
        r = stk_scratch_image(&scratch->labelled, raw.width, raw.height, 1, depth, ids, ctx->err);
    return r ? r : stoke_labels_apply(config->labels, &raw, ids, ctx->err);
}

static stoke_image ids_target(const stk_sample_ctx *ctx, const part *p)
{
    const stk_loader_config *config = ctx->config;
    if (ctx->raw) return is_planned(ctx, p) ? stk_raw_ids_place(ctx) : (stoke_image){ 0 };
    if (config->mask_dtype != STOKE_DTYPE_U8 || stoke_labels_depth(config->labels) != 1)
        return (stoke_image){ 0 };
    return direct(ctx, p, ctx->mask_row, 1);
}

/* ---- either ---- */

/* ctx->image or ctx->ids, resized to what the part asks for. */
static int fit(stk_sample_ctx *ctx, const part *p, int ids)
{
    stoke_image *pixels = ids ? &ctx->ids : &ctx->image, fitted = { 0 };
    stk_mem_buffer *buffer = ids ? &ctx->scratch->mask_fitted : &ctx->scratch->fitted;
    int r = STOKE_OK;
    if (pixels->width == p->width && pixels->height == p->height) return STOKE_OK;
    if (ctx->raw) fitted = ids ? ids_target(ctx, p) : image_target(ctx, p);
    if (!fitted.data)
        r = stk_scratch_image(buffer, p->width, p->height, pixels->channels, pixels->depth, &fitted,
                              ctx->err);
    if (!r && ids) stk_resize_nearest(pixels, &fitted);
    if (!r && !ids) r = stk_resize(ctx->scratch->resizer, pixels, &fitted, ctx->err);
    if (!r) *pixels = fitted;
    return r;
}

static int make_image(stk_sample_ctx *ctx, const part *p)
{
    int r = decode_image(ctx, p, image_target(ctx, p), &ctx->image);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_DECODE_IMAGE);
    if (!r) r = fit(ctx, p, 0);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_FIT);
    return r;
}

static int make_ids(stk_sample_ctx *ctx, const part *p)
{
    int r = decode_ids(ctx, &p->box, ids_target(ctx, p), &ctx->ids);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_DECODE_MASK);
    if (!r) r = fit(ctx, p, 1);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_FIT);
    return r;
}

/* From the whole mask. */
static int cut_ids(stk_sample_ctx *ctx, const part *p)
{
    ctx->ids = cut(&ctx->ids, &p->box);
    int r = fit(ctx, p, 1);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_FIT);
    return r;
}

int stk_decode_fit_ids(stk_sample_ctx *ctx)
{
    const stoke_box all = { 0, 0, ctx->width, ctx->height };
    const int r = decode_ids(ctx, &all, (stoke_image){ 0 }, &ctx->ids);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_DECODE_MASK);
    return stk_sample_ctx_in_file(ctx, ctx->sample.mask_path, r);
}

/* ---- both ---- */

/* The mask comes first, so that the image is still in the processor's cache when it is laid out. */
int stk_decode_fit_region(stk_sample_ctx *ctx)
{
    const part p = planned(ctx);
    int r = STOKE_OK;
    if (ctx->sample.mask_path) r = ctx->ids.data ? cut_ids(ctx, &p) : make_ids(ctx, &p);
    if (r) return stk_sample_ctx_in_file(ctx, ctx->sample.mask_path, r);
    return stk_sample_ctx_in_file(ctx, ctx->sample.image_path, make_image(ctx, &p));
}

int stk_decode_fit_whole(stk_sample_ctx *ctx)
{
    const part p = whole(ctx);
    int r = STOKE_OK;
    if (ctx->sample.mask_path) r = stk_sample_ctx_in_file(ctx, ctx->sample.mask_path, make_ids(ctx, &p));
    return r ? r : stk_sample_ctx_in_file(ctx, ctx->sample.image_path, make_image(ctx, &p));
}

int stk_decode_fit_cut(stk_sample_ctx *ctx)
{
    const part p = planned(ctx);
    const stoke_box *box = &p.box;
    /* Where the plan wants less than the whole source, the whole has the source's own size: boxes fit it. */
    if (box->width == ctx->width && box->height == ctx->height && p.width == ctx->image.width &&
        p.height == ctx->image.height)
        return STOKE_OK;
    ctx->image = cut(&ctx->image, box);
    int r = fit(ctx, &p, 0);
    if (!r && ctx->ids.data) r = cut_ids(ctx, &p);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_FIT);
    return r;
}
