/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of restored pictures as an evaluation adds them up, beside those of the pictures as they came: what
 * is gained is the difference.
 */
#include <math.h>

#include "src/base/error.h"
#include "src/train/evaluate.h"

int stk_restoration_create(stk_restoration *r, stoke_error *err)
{
    *r = (stk_restoration){ 0 };
    const int status = stoke_restored_create(&r->output, 1, err);
    return status ? status : stoke_restored_create(&r->input, 1, err);
}

void stk_restoration_free(stk_restoration *r)
{
    stoke_restored_destroy(&r->output);
    stoke_restored_destroy(&r->input);
    stk_buffer_free(&r->clipped);
}

stoke_restored_picture stk_float_picture(const float *data, int planar, uint32_t width, size_t plane)
{
    return planar ? (stoke_restored_picture){ data, STOKE_DTYPE_F32, width, 1, plane }
                  : (stoke_restored_picture){ data, STOKE_DTYPE_F32, 3 * (size_t)width, 3, 1 };
}

/* As a file of the picture would have it. NaN stays, and so do its scores. */
static const float *clip(stk_restoration *r, const stk_restored_item *item)
{
    const size_t pixels = (size_t)item->width * item->height;
    float *clipped = stk_buffer_reserve(&r->clipped, 3 * pixels * sizeof *clipped), *to = clipped;
    for (uint32_t y = 0; clipped && y < item->height; y++) {
        const float *line = (const float *)item->output.data + y * item->output.row;
        for (uint32_t x = 0; x < item->width; x++)
            for (size_t c = 0; c < 3; c++) {
                const float v = line[x * item->output.column + c * item->output.plane];
                *to++ = v < 0 ? 0 : v > 1 ? 1 : v;
            }
    }
    return clipped;
}

int stk_restoration_add(stk_restoration *r, const stk_restored_item *item, stk_evaluate_worst *own,
                        stk_evaluate_gallery *gallery, stoke_error *err)
{
    const float *clipped = clip(r, item);
    if (!clipped)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a restored picture of %u x %u",
                        (unsigned)item->height, (unsigned)item->width);
    stk_restored_item kept = *item;
    stoke_restored_score score, before = { NAN, NAN };
    kept.output = stk_float_picture(clipped, 0, item->width, 0);
    int status = stoke_restored_add(r->output, item->height, item->width, 3, &kept.output, &item->target,
                                    &score, err);
    if (!status && item->image_width == item->width && item->image_height == item->height)
        status = stoke_restored_add(r->input, item->height, item->width, 3, &item->image, &item->target,
                                    &before, err);
    if (status) return status;
    own->psnr = score.psnr;
    own->ssim = score.ssim;
    own->input_psnr = before.psnr;
    if (gallery) stk_gallery_take_restored(gallery, own, &kept);
    return STOKE_OK;
}

void stk_restoration_scores(const stk_restoration *r, stk_evaluate_result *result)
{
    result->scores = stoke_restored_scores(r->output);
    result->input = stoke_restored_scores(r->input);
}
