/* SPDX-License-Identifier: Apache-2.0
 *
 * The fitted picture into the rows of the batch, as the plan says.
 */
#include <string.h>

#include "src/base/error.h"
#include "src/loader/job.h"

static int mirror(const stoke_plan *plan)
{
    return (plan->hflip ? STK_MIRROR_H : 0) | (plan->vflip ? STK_MIRROR_V : 0);
}

int stk_lay_image(stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    const stoke_plan *plan = &job->plan;
    if (job->image.data != job->image_row)
        stk_write_image(&recipe->writer, &job->image, job->image_row, recipe->width, recipe->height,
                        plan->place_x, plan->place_y, mirror(plan));
    return STOKE_OK;
}

/* No mask: zeros where the image is. One row of zeros with stride 0 stands for a whole picture. */
static int zero_ids(stk_job *job)
{
    stk_buffer *buffer = &job->bench->zeros;
    const size_t held = buffer->capacity;
    void *zeros = stk_buffer_reserve(buffer, job->plan.width);
    if (!zeros) return stk_fail(job->err, STOKE_E_NOMEM, "no memory for a row of zeros");
    if (buffer->capacity != held) memset(zeros, 0, buffer->capacity);
    job->ids = (stoke_image){ zeros, 0, job->plan.width, job->plan.height, 1, 1 };
    return STOKE_OK;
}

int stk_lay_mask(stk_job *job)
{
    const stk_recipe *recipe = job->recipe;
    const stoke_plan *plan = &job->plan;
    int r = job->ids.data ? STOKE_OK : zero_ids(job);
    if (!r && job->ids.data != job->mask_row)
        stk_write_mask(&job->ids, recipe->mask_dtype, job->mask_row, recipe->width, recipe->height,
                       plan->place_x, plan->place_y, mirror(plan), recipe->mask_fill);
    return r;
}
