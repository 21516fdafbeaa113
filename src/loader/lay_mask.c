/* SPDX-License-Identifier: Apache-2.0
 *
 * Class ids into the row of the batch, as the plan says: the same geometry as the image, nearest instead of
 * interpolated. What lies outside the picture is ignore_index.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/loader/job.h"

/* No mask: zeros where the image is. One row of zeros with stride 0 stands for a whole picture. */
static int zero_ids(stk_job *job)
{
    stk_buffer *buffer = &job->bench->zeros;
    const uint8_t depth = stoke_labels_depth(job->recipe->labels); /* ignore_index must fit */
    const size_t held = buffer->capacity;
    void *zeros = stk_buffer_reserve(buffer, (size_t)job->plan.width * depth);
    if (!zeros) return stk_fail(job->err, STOKE_E_NOMEM, "no memory for a row of zeros");
    if (buffer->capacity != held) memset(zeros, 0, buffer->capacity);
    job->ids = (stoke_image){ zeros, 0, job->plan.width, job->plan.height, 1, depth };
    return STOKE_OK;
}

/* Left and right classes change places, in a copy: ids may belong to a cache. */
static int swap_ids(stk_job *job)
{
    const stoke_image from = job->ids;
    const uint16_t *swap = job->recipe->swap;
    stoke_image to;
    int r = stk_bench_image(&job->bench->swapped, from.width, from.height, 1, from.depth, &to, job->err);
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
    job->ids = to;
    return STOKE_OK;
}

/* Straight into the batch where an id has as many bytes there, else by way of a line. */
static int warp_ids(stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    const uint8_t depth = job->ids.depth;
    const int direct = stoke_dtype_bytes(recipe->mask_dtype) == depth;
    stoke_image line;
    int r = stk_bench_image(&job->bench->lines, recipe->width, 1, 1, depth, &line, job->err);
    if (r) return r;
    for (uint32_t y = 0; y < recipe->height; y++) {
        void *out = direct ? (char *)job->mask_row + y * line.stride : line.data;
        stk_warp_mask_row(&job->bench->warper, &job->ids, recipe->mask_fill, y, out);
        if (!direct) stk_write_mask_line(out, depth, recipe->mask_dtype, job->mask_row, recipe->width, y);
    }
    return STOKE_OK;
}

/* Where the image was erased so that the network must not guess, the mask says nothing. */
static void erase_ids(const stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    for (uint32_t i = 0; i < job->plan.n_touches; i++) {
        const stoke_touch *touch = &job->plan.touch[i];
        if (touch->kind == STOKE_TOUCH_ERASE && touch->n == 1)
            stk_fill_mask_box(recipe->mask_dtype, job->mask_row, recipe->width, &touch->box,
                              recipe->mask_fill);
    }
}

int stk_lay_ids(stk_job *job)
{
    if (!job->ids.data) return zero_ids(job);
    return job->plan.swap_labels && job->recipe->swap ? swap_ids(job) : STOKE_OK;
}

int stk_lay_mask(stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    const stoke_plan *plan = &job->plan;
    int r = stk_lay_ids(job);
    if (!r && plan->warp) r = warp_ids(job);
    if (r) return r;
    if (!plan->warp && job->ids.data != job->mask_row)
        stk_write_mask(&job->ids, recipe->mask_dtype, job->mask_row, recipe->width, recipe->height,
                       plan->place_x, plan->place_y, stk_job_mirror(job), recipe->mask_fill);
    erase_ids(job);
    return STOKE_OK;
}
