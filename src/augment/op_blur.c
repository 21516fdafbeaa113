/* SPDX-License-Identifier: Apache-2.0
 *
 * A Gaussian blur; the kernels of all blurs of a pipeline share one ring of rows.
 */
#include "src/augment/op.h"
#include "src/base/error.h"
#include "src/pix/color.h"

typedef struct blur_args {
    double p;
    int64_t kernel;
    double sigma[2];
} blur_args;

static const stoke_option options[] = {
    STK_P(blur_args, "0.5"),
    STK_INT(blur_args, kernel, "3", 1, STK_COLOR_TAPS_MAX, "Taps in each direction, odd"),
    STK_RANGE(blur_args, sigma, "0.1..2", 0.01, 100, "Sigma of the Gaussian in pixels"),
};

static int check(void *args, stk_op_constants *constants, stoke_error *err)
{
    const blur_args *a = args;
    if (a->kernel % 2 == 0)
        return stk_fail(err, STOKE_E_INVALID, "kernel: %d is even; a blur has a pixel in its middle",
                        (int)a->kernel);
    constants->blur_taps += (uint32_t)a->kernel;
    if (constants->blur_taps <= STK_COLOR_RING_ROWS) return STOKE_OK;
    return stk_fail(err, STOKE_E_LIMIT, "the kernels of all blurs together have more than %d rows",
                    STK_COLOR_RING_ROWS);
}

static void draw(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const blur_args *a = args;
    const stk_rng r = stk_op_draw(random, 0);
    if (!stk_op_hits(r, a->p)) return;
    stoke_color_step *step = stk_draft_color(draft, STOKE_COLOR_BLUR);
    step->n = (uint32_t)a->kernel;
    step->a = (float)stk_op_uniform(a->sigma, r.word[1]);
}

const stk_op stk_op_gaussian_blur = {
    .name = "gaussian_blur",
    .summary = "Blur by a Gaussian",
    .group = "colour",
    STK_OPTIONS(options),
    .color_steps = 1u << STOKE_COLOR_BLUR,
    .check = check,
    .draw = draw,
};
