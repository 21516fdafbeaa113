/* SPDX-License-Identifier: Apache-2.0
 *
 * The fitted image into the row of the batch, as the plan says. Lines of the output are made one by one where
 * they are needed: placed and mirrored, or warped; then through the touches, or straight to the writer. There
 * is no picture in between, with one exception: see keep_lines.
 */
#include <string.h>

#include "src/loader/job.h"
#include "src/pix/pix_table.h"

static const uint8_t black[3];

/* Where lines of the output come from. */
typedef struct lines {
    stk_job *job;
    uint8_t *line; /* one line, or all of them */
    size_t bytes;  /* of a line */
    int keep;
    uint32_t ready; /* lines kept so far */
} lines;

static const void *warped_line(void *context, uint32_t y)
{
    lines *l = context;
    stk_warper *warper = &l->job->bench->warper;
    if (!l->keep) {
        stk_warp_image_row(warper, &l->job->image, black, y, l->line);
        return l->line;
    }
    for (; l->ready <= y; l->ready++)
        stk_warp_image_row(warper, &l->job->image, black, l->ready, l->line + l->ready * l->bytes);
    return l->line + y * l->bytes;
}

static const void *placed_line(void *context, uint32_t y)
{
    lines *l = context;
    const stoke_image *image = &l->job->image;
    const stoke_plan *plan = &l->job->plan;
    const uint32_t width = l->job->recipe->width, height = l->job->recipe->height;
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
static int keep_lines(const stoke_plan *plan)
{
    for (uint32_t i = 0; plan->warp && i < plan->n_touches; i++)
        if (plan->touch[i].kind == STOKE_TOUCH_CONTRAST) return 1;
    return 0;
}

/* Line by line: warped or touched, or both. */
static int lay_lines(stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    const stoke_plan *plan = &job->plan;
    stk_bench *bench = job->bench;
    const int keep = keep_lines(plan);
    stoke_image room;
    int r = stk_bench_image(&bench->lines, recipe->width, keep ? recipe->height : 1, 3, job->image.depth,
                            &room, job->err);
    if (r) return r;
    lines l = { .job = job, .line = room.data, .bytes = room.stride, .keep = keep };
    const stk_touch_rows rows = { plan->warp ? warped_line : placed_line, &l, recipe->width, recipe->height,
                                  job->image.depth };
    if (plan->n_touches)
        return stk_touch_write(bench->toucher, plan->touch, plan->n_touches, &rows, &recipe->writer,
                               job->image_row, job->err);
    for (uint32_t y = 0; y < recipe->height; y++)
        stk_write_image_line(&recipe->writer, rows.row(&l, y), rows.depth, job->image_row, recipe->width,
                             recipe->height, y);
    return STOKE_OK;
}

int stk_lay_image(stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    const stoke_plan *plan = &job->plan;
    if (job->image.data == job->image_row) return STOKE_OK; /* decoded there */
    if (plan->warp || plan->n_touches) return lay_lines(job);
    stk_write_image(&recipe->writer, &job->image, job->image_row, recipe->width, recipe->height,
                    plan->place_x, plan->place_y, stk_job_mirror(job));
    return STOKE_OK;
}
