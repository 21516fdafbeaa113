/* SPDX-License-Identifier: Apache-2.0
 *
 * The fitted image into the row of the batch, as the plan says. Lines of the output are made one by one where
 * they are needed: placed and mirrored, or warped; then through the color steps, or straight to the writer.
 * There is no picture in between, with one exception: see keep_lines.
 */
#include <string.h>

#include "src/loader/sample_ctx.h"
#include "src/pix/pix_table.h"

static const uint8_t black[3];

/* Where lines of the output come from. */
typedef struct lines {
    stk_sample_ctx *ctx;
    uint8_t *line; /* one line, or all of them */
    size_t bytes;  /* of a line */
    int keep;
    uint32_t ready; /* lines kept so far */
} lines;

static const void *warped_line(void *context, uint32_t y)
{
    lines *l = context;
    stk_pix_warper *warper = &l->ctx->scratch->warper;
    if (!l->keep) {
        stk_warp_image_row(warper, &l->ctx->image, black, y, l->line);
        return l->line;
    }
    for (; l->ready <= y; l->ready++)
        stk_warp_image_row(warper, &l->ctx->image, black, l->ready, l->line + l->ready * l->bytes);
    return l->line + y * l->bytes;
}

static const void *placed_line(void *context, uint32_t y)
{
    lines *l = context;
    const stoke_image *image = &l->ctx->image;
    const stoke_augment_plan *plan = &l->ctx->plan;
    const uint32_t width = l->ctx->config->width, height = l->ctx->config->height;
    const uint32_t from = (plan->vflip ? height - 1 - y : y) - plan->place_y; /* above the picture: huge */
    if (from >= image->height) return memset(l->line, 0, l->bytes);
    const uint8_t *src = (const uint8_t *)image->data + (size_t)from * image->stride;
    if (image->width == width && !plan->hflip) return src;
    const size_t pixel = 3u * image->depth;
    const uint32_t left = plan->hflip ? width - plan->place_x - image->width : plan->place_x;
    uint8_t *out = (uint8_t *)memset(l->line, 0, l->bytes) + left * pixel;
    if (!plan->hflip)
        memcpy(out, src, image->width * pixel);
    else if (image->depth == 1)
        stk_pix()->reverse_3(out, src, image->width);
    else
        stk_pix()->reverse_6(out, src, image->width);
    return l->line;
}

/* A contrast step needs the mean of the picture first and walks it twice. To keep what was warped is cheaper
 * than to warp twice: 1.9-2.2 against 2.8-3.5 ms of CPU for rotate, contrast and write of 512 x 512. */
static int keep_lines(const stoke_augment_plan *plan)
{
    for (uint32_t i = 0; plan->warp && i < plan->n_color_steps; i++)
        if (plan->touch[i].kind == STOKE_COLOR_CONTRAST) return 1;
    return 0;
}

/* Line by line: warped or touched, or both. */
static int lay_lines(stk_sample_ctx *ctx)
{
    const stk_loader_config *config = ctx->config;
    const stoke_augment_plan *plan = &ctx->plan;
    stk_scratch *scratch = ctx->scratch;
    const int keep = keep_lines(plan);
    stoke_image room;
    int r = stk_scratch_image(&scratch->lines, config->width, keep ? config->height : 1, 3, ctx->image.depth,
                              &room, ctx->err);
    if (r) return r;
    lines l = { .ctx = ctx, .line = room.data, .bytes = room.stride, .keep = keep };
    const stk_color_rows rows = { plan->warp ? warped_line : placed_line, &l, config->width, config->height,
                                  ctx->image.depth };
    if (plan->n_color_steps)
        return stk_color_write(scratch->color_pass, plan->touch, plan->n_color_steps, &rows, &config->writer,
                               ctx->image_row, ctx->err);
    for (uint32_t y = 0; y < config->height; y++)
        stk_write_image_line(&config->writer, rows.row(&l, y), rows.depth, ctx->image_row, config->width,
                             config->height, y);
    return STOKE_OK;
}

int stk_render_image(stk_sample_ctx *ctx)
{
    const stk_loader_config *config = ctx->config;
    const stoke_augment_plan *plan = &ctx->plan;
    if (ctx->image.data == ctx->image_row) return STOKE_OK; /* decoded there */
    if (plan->warp || plan->n_color_steps) return lay_lines(ctx);
    stk_write_image(&config->writer, &ctx->image, ctx->image_row, config->width, config->height,
                    plan->place_x, plan->place_y, stk_sample_ctx_mirror(ctx));
    return STOKE_OK;
}
