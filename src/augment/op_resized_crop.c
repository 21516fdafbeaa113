/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of random area and shape, stretched to the output.
 */
#include <math.h>

#include "src/augment/op.h"

typedef struct resized_args {
    double scale[2], ratio[2];
} resized_args;

static const stoke_option options[] = {
    STK_RANGE(resized_args, scale, "0.08..1", 0.0001, 1, "Share of the source's area"),
    STK_RANGE(resized_args, ratio, "0.75..1.3333", 0.01, 100, "Width divided by height"),
};

/* None of the tries fitted: the central part, as large as the allowed ratios permit. */
static stoke_box fallback(const resized_args *a, uint32_t width, uint32_t height)
{
    const double own = (double)width / height;
    double w = width, h = height;
    if (own < a->ratio[0])
        h = floor(w / a->ratio[0] + 0.5);
    else if (own > a->ratio[1])
        w = floor(h * a->ratio[1] + 0.5);
    stoke_box box = { 0, 0, w < 1 ? 1 : (uint32_t)w, h < 1 ? 1 : (uint32_t)h };
    box.x = (width - box.width) / 2;
    box.y = (height - box.height) / 2;
    return box;
}

static void draw(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const resized_args *a = args;
    const uint32_t whole[2] = { draft->draw->source_width, draft->draw->source_height };
    uint32_t start[2], size[2];
    if (stk_random_rectangle(random, 0, a->scale, a->ratio, whole, 0, start, size))
        stk_draft_part(draft, (stoke_box){ start[0], start[1], size[0], size[1] });
    else
        stk_draft_part(draft, fallback(a, whole[0], whole[1]));
}

double stk_resized_crop_most(const void *args)
{
    return ((const resized_args *)args)->scale[1];
}

const stk_op stk_op_random_resized_crop = {
    .name = "random_resized_crop",
    .summary = "Cut a part of random area and shape and stretch it to the output (torchvision's rule)",
    .group = "geometry",
    STK_OPTIONS(options),
    .traits = STK_TRAIT_CROP,
    .draw = draw,
};
