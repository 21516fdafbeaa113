/* SPDX-License-Identifier: Apache-2.0
 *
 * Gaussian noise on the values.
 */
#include "src/augment/op.h"

typedef struct noise_args {
    double p;
    double mean;
    double std[2];
    int gray;
} noise_args;

static const stoke_option options[] = {
    STK_P(noise_args, "0.5"),
    STK_REAL(noise_args, mean, "0", -1, 1, "Mean, on the scale 0..1"),
    STK_RANGE(noise_args, std, "0.03", 0, 1, "Standard deviation, on the scale 0..1"),
    { "gray", STOKE_OPT_FLAG, offsetof(noise_args, gray), "false", NULL, 0, 0, NULL,
      "The same for all three channels: a gray picture stays gray" },
};

static void draw(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const noise_args *a = args;
    const stk_rng r = stk_op_draw(random, 0);
    if (!stk_op_hits(r, a->p)) return;
    stoke_color_step *step = stk_draft_color(draft, STOKE_COLOR_NOISE);
    step->a = (float)stk_op_uniform(a->std, r.word[1]);
    step->b = (float)a->mean;
    step->n = (uint32_t)a->gray;
    step->key = stk_pair(r.word[2], r.word[3]);
}

const stk_op stk_op_gaussian_noise = {
    .name = "gaussian_noise",
    .summary = "Add Gaussian noise, every sample its own",
    .group = "colour",
    STK_OPTIONS(options),
    .color_steps = 1u << STOKE_COLOR_NOISE,
    .draw = draw,
};
