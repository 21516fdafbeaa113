/* SPDX-License-Identifier: Apache-2.0
 *
 * Class ids into the row of the batch, as the plan says: the same geometry as the image, nearest instead of
 * interpolated. What lies outside the picture is ignore_index.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/loader/sample_ctx.h"

/* No mask: zeros where the image is. One row of zeros with stride 0 stands for a whole picture. */
static int zero_ids(stk_sample_ctx *ctx)
{
    stk_mem_buffer *buffer = &ctx->scratch->zeros;
    const uint8_t depth = stoke_labels_depth(ctx->config->labels); /* ignore_index must fit */
    const size_t held = buffer->capacity;
    void *zeros = stk_buffer_reserve(buffer, (size_t)ctx->plan.width * depth);
    if (!zeros) return stk_fail(ctx->err, STOKE_E_NOMEM, "no memory for a row of zeros");
    if (buffer->capacity != held) memset(zeros, 0, buffer->capacity);
    ctx->ids = (stoke_image){ zeros, 0, ctx->plan.width, ctx->plan.height, 1, depth };
    return STOKE_OK;
}

/* Left and right classes change places, in a copy: ids may belong to a cache. */
static int swap_ids(stk_sample_ctx *ctx)
{
    const stoke_image from = ctx->ids;
    const uint16_t *swap = ctx->config->swap;
    stoke_image to;
    int r = stk_scratch_image(&ctx->scratch->swapped, from.width, from.height, 1, from.depth, &to, ctx->err);
    if (r) return r;
    for (uint32_t y = 0; y < from.height; y++) {
        const void *in = (const char *)from.data + y * from.stride;
        void *out = (char *)to.data + y * to.stride;
        if (from.depth == 1)
            for (uint32_t x = 0; x < from.width; x++)
                ((uint8_t *)out)[x] = (uint8_t)swap[((const uint8_t *)in)[x]];
        else
            for (uint32_t x = 0; x < from.width; x++) ((uint16_t *)out)[x] = swap[((const uint16_t *)in)[x]];
    }
    ctx->ids = to;
    return STOKE_OK;
}

/* Straight into the batch where an id has as many bytes there, else by way of a line. */
static int warp_ids(stk_sample_ctx *ctx)
{
    const stk_loader_config *config = ctx->config;
    const uint8_t depth = ctx->ids.depth;
    const int direct = stoke_dtype_bytes(config->mask_dtype) == depth;
    stoke_image line;
    int r = stk_scratch_image(&ctx->scratch->lines, config->width, 1, 1, depth, &line, ctx->err);
    if (r) return r;
    for (uint32_t y = 0; y < config->height; y++) {
        void *out = direct ? (char *)ctx->mask_row + y * line.stride : line.data;
        stk_warp_mask_row(&ctx->scratch->warper, &ctx->ids, config->mask_fill, y, out);
        if (!direct) stk_write_mask_line(out, depth, config->mask_dtype, ctx->mask_row, config->width, y);
    }
    return STOKE_OK;
}

/* Where the image was erased so that the network must not guess, the mask says nothing. */
static void erase_ids(const stk_sample_ctx *ctx)
{
    const stk_loader_config *config = ctx->config;
    for (uint32_t i = 0; i < ctx->plan.n_color_steps; i++) {
        const stoke_color_step *touch = &ctx->plan.touch[i];
        if (touch->kind == STOKE_COLOR_ERASE && touch->n == 1)
            stk_fill_mask_box(config->mask_dtype, ctx->mask_row, config->width, &touch->box,
                              config->mask_fill);
    }
}

int stk_render_ids(stk_sample_ctx *ctx)
{
    if (!ctx->ids.data) return zero_ids(ctx);
    return ctx->plan.swap_labels && ctx->config->swap ? swap_ids(ctx) : STOKE_OK;
}

int stk_render_mask(stk_sample_ctx *ctx)
{
    const stk_loader_config *config = ctx->config;
    const stoke_augment_plan *plan = &ctx->plan;
    int r = stk_render_ids(ctx);
    if (!r && plan->warp) r = warp_ids(ctx);
    if (r) return r;
    if (!plan->warp && ctx->ids.data != ctx->mask_row)
        stk_write_mask(&ctx->ids, config->mask_dtype, ctx->mask_row, config->width, config->height,
                       plan->place_x, plan->place_y, stk_sample_ctx_mirror(ctx), config->mask_fill);
    erase_ids(ctx);
    return STOKE_OK;
}
