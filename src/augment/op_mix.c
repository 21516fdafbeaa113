/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixing a row with the row before it. Of several mix ops the first that hits wins.
 */
#include <math.h>

#include "src/augment/op.h"
#include "src/base/exact_math.h"

/* In (0, 1), 32 bits: logarithms of it are finite. */
static double open_unit(uint32_t word)
{
    return (word + 0.5) * (1.0 / 4294967296.0);
}

/* One try at Beta(a, a) for a <= 1/2, by Joehnk: X = U^(1/a), Y = V^(1/a), accepted when X + Y <= 1; then
 * X / (X + Y). In logarithms, because U^(1/a) underflows for small a. */
static int joehnk(double a, stk_rng r, double *lambda)
{
    const double x = stk_log(open_unit(r.word[0])) / a, y = stk_log(open_unit(r.word[1])) / a;
    if (stk_exp(x) + stk_exp(y) > 1) return 0;
    /* X / (X + Y) = 1 / (1 + Y / X) */
    *lambda = 1 / (1 + stk_exp(y - x));
    return 1;
}

/* One try for a > 1/2, by Ulrich's polar method: a point of the disc, S its squared radius, accepted when S
 * <= 1; then 1/2 + UV/S * sqrt(1 - S^(2 / (2a - 1))). */
static int ulrich(double a, stk_rng r, double *lambda)
{
    const double u = open_unit(r.word[0]), v = 2 * open_unit(r.word[1]) - 1, s = u * u + v * v;
    if (s > 1) return 0;
    const double rest = 1 - stk_pow(s, 2 / (2 * a - 1));
    *lambda = 0.5 + u * v / s * sqrt(rest > 0 ? rest : 0);
    return 1;
}

/* Beta(a, a) from the draws 1, 2, ... Both methods accept at least pi/4 of their tries: 64 of them fail once
 * in 10^42 samples, and then the mean is as good as any. */
static double draw_beta(double a, const stk_op_random *random)
{
    enum { TRIES = 64 };
    double lambda = 0.5;
    for (uint32_t k = 1; k <= TRIES; k++) {
        const stk_rng r = stk_op_draw(random, k);
        if (a > 0.5 ? ulrich(a, r, &lambda) : joehnk(a, r, &lambda)) break;
    }
    return lambda;
}

typedef struct mix_args {
    double p, alpha, share[2];
} mix_args;

static const stoke_option mixup_options[] = {
    STK_P(mix_args, "0.5"),
    STK_REAL(mix_args, alpha, "0.2", 0.01, 100,
             "The share of the own picture is drawn from Beta(alpha, alpha)"),
    STK_RANGE(
        mix_args, share, "0..1", 0, 1,
        "Of the own picture: what was drawn is stretched to this range; with alpha 1 all of it is alike"),
};

static void draw_mixup(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const mix_args *a = args;
    if (draft->mixed) return;
    draft->mixed = 1;
    draft->plan->mix = STOKE_MIX_UP;
    draft->plan->lambda = (float)(a->share[0] + (a->share[1] - a->share[0]) * draw_beta(a->alpha, random));
}

const stk_op stk_op_mixup = {
    .name = "mixup",
    .summary = "Blend with the row before in the batch; the batch then carries both masks",
    .group = "mix",
    STK_OPTIONS(mixup_options),
    .traits = STK_TRAIT_MIXUP,
    .draw = draw_mixup,
};

static const stoke_option cutmix_options[] = {
    STK_P(mix_args, "0.5"),
    STK_REAL(mix_args, alpha, "1", 0.01, 100,
             "The share of the own picture is drawn from Beta(alpha, alpha)"),
    STK_RANGE(mix_args, share, "0..1", 0, 1,
              "Of the own picture: what was drawn is cut to this range, and the box lies inside the picture"),
};

/* The cut around `centre` along one axis, clipped. */
static void cut(uint32_t centre, double half, uint32_t length, uint32_t *from, uint32_t *size)
{
    const int64_t low = (int64_t)centre - (int64_t)half, high = (int64_t)centre + (int64_t)half;
    *from = (uint32_t)(low > 0 ? low : 0);
    *size = (uint32_t)((high < length ? high : length) - *from);
}

/* Anywhere inside. */
static void cut_inside(uint32_t word, double part, uint32_t length, uint32_t *from, uint32_t *size)
{
    *size = (uint32_t)floor(part * length);
    *from = (uint32_t)stk_below(stk_pair(word, 0), length - *size + 1);
}

/* torchvision's box: a uniform centre and sides of sqrt(1 - lambda), clipped at the border. With a range of
 * shares it is Kornia's, which lies inside: clipped, it would leave more of the own picture than was said. */
static void draw_cutmix(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const mix_args *a = args;
    const stk_rng r = random->first;
    const uint32_t width = draft->draw->out_width, height = draft->draw->out_height;
    if (draft->mixed) return;
    draft->mixed = 1;
    const double side = sqrt(1 - fmin(fmax(draw_beta(a->alpha, random), a->share[0]), a->share[1]));
    stoke_box box;
    if (a->share[0] > 0 || a->share[1] < 1) {
        cut_inside(r.word[1], side, width, &box.x, &box.width);
        cut_inside(r.word[2], side, height, &box.y, &box.height);
    } else {
        const double half = 0.5 * side;
        cut((uint32_t)stk_below(stk_pair(r.word[1], 0), width), floor(half * width), width, &box.x,
            &box.width);
        cut((uint32_t)stk_below(stk_pair(r.word[2], 0), height), floor(half * height), height, &box.y,
            &box.height);
    }
    if (!box.width || !box.height) return; /* lambda near 1: nothing to paste */
    draft->plan->mix = STOKE_MIX_CUT;
    draft->plan->mix_box = box;
}

const stk_op stk_op_cutmix = {
    .name = "cutmix",
    .summary = "Paste a box of image and mask of the row before in the batch",
    .group = "mix",
    STK_OPTIONS(cutmix_options),
    .traits = STK_TRAIT_CUTMIX,
    .draw = draw_cutmix,
};
