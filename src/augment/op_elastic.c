/* SPDX-License-Identifier: Apache-2.0
 *
 * A smooth random displacement of image and mask.
 */
#include "src/augment/op.h"
#include "src/pix/warp.h"

/* Limits of the settings, within what the warper takes. A step is sqrt(3) sigmas: see draw. */
#define SIGMA_MIN 4
#define ALPHA_MAX 1000
_Static_assert(SIGMA_MIN * 17 / 10 >= (int)STK_ELASTIC_STEP_MIN && ALPHA_MAX <= (int)STK_ELASTIC_ALPHA_MAX,
               "every field that can be drawn can be warped");

typedef struct elastic_args {
    double p;
    double alpha[2], sigma[2];
} elastic_args;

static const stoke_option options[] = {
    STK_P(elastic_args, "0.5"),
    STK_RANGE(elastic_args, alpha, "0..8", 0, ALPHA_MAX, "Largest displacement in pixels"),
    STK_RANGE(elastic_args, sigma, "16..32", SIGMA_MIN, 4096,
              "Smoothness in pixels: the field looks like noise blurred by a Gaussian of this sigma"),
};

/* A cubic B-spline of step h has the variance h^2 / 3 (four boxes of h^2 / 12): sqrt(3) sigmas per step make
 * it as smooth as a Gaussian of that sigma. */
static void draw(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const elastic_args *a = args;
    const stk_rng r = random->first, key = stk_op_draw(random, 1);
    draft->plan->elastic_alpha = (float)stk_op_uniform(a->alpha, r.word[1]);
    draft->plan->elastic_step = (float)(1.7320508075688772 * stk_op_uniform(a->sigma, r.word[2]));
    draft->plan->elastic_key = stk_pair(key.word[0], key.word[1]);
    if (draft->plan->elastic_alpha > 0) return;
    draft->plan->elastic_step = 0;
    draft->plan->elastic_key = 0;
}

const stk_op stk_op_elastic = {
    .name = "elastic",
    .summary = "Displace image and mask by a smooth random field",
    .group = "geometry",
    STK_OPTIONS(options),
    .traits = STK_TRAIT_WARP | STK_TRAIT_ELASTIC,
    .draw = draw,
};
