/* SPDX-License-Identifier: Apache-2.0
 *
 * Values raised to a power, and scaled.
 */
#include "src/augment/op.h"

typedef struct gamma_args {
    double p;
    double gamma[2];
    double gain;
} gamma_args;

static const stoke_option options[] = {
    STK_P(gamma_args, "0.5"),
    STK_RANGE(gamma_args, gamma, "0.8..1.2", 0.01, 100, "Exponent; above 1 darkens"),
    STK_REAL(gamma_args, gain, "1", 0, 100, "Factor after it"),
};

static void draw(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const gamma_args *a = args;
    const stk_rng r = stk_op_draw(random, 0);
    if (!stk_op_hits(r, a->p)) return;
    stoke_color_step *step = stk_draft_color(draft, STOKE_COLOR_GAMMA);
    step->a = (float)stk_op_uniform(a->gamma, r.word[1]);
    step->b = (float)a->gain;
}

const stk_op stk_op_gamma = {
    .name = "gamma",
    .summary = "Raise all values to a power",
    .group = "colour",
    STK_OPTIONS(options),
    .color_steps = 1u << STOKE_COLOR_GAMMA,
    .draw = draw,
};
