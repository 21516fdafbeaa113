/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops of one colour step each, and the jitter: brightness, contrast, saturation and hue in random order.
 */
#include "src/augment/op.h"
#include "src/base/error.h"
#include "src/pix/color.h"

/* An op that adds one step: `a` is drawn, `b` and `n` are given. */
typedef struct step_args {
    double p;
    double a[2], b;
    int64_t n;
    int gray; /* of noise: its n */
} step_args;

static void draw_step(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const step_args *s = args;
    const stk_rng r = random->first;
    const stoke_color_kind kind = (stoke_color_kind)__builtin_ctz(random->op->color_steps);
    stoke_color_step *step = stk_draft_color(draft, kind);
    step->a = (float)stk_op_uniform(s->a, r.word[1]);
    step->b = (float)s->b;
    step->n = s->gray ? 1 : (uint32_t)s->n;
    if (kind == STOKE_COLOR_NOISE) step->key = stk_pair(r.word[2], r.word[3]);
}

#define COLOR_OP(op, KIND, table, check_settings, text)                                                      \
    const stk_op stk_op_##op = {                                                                             \
        .name = #op,                                                                                         \
        .summary = text,                                                                                     \
        .group = "colour",                                                                                   \
        STK_OPTIONS(table),                                                                                  \
        .color_steps = 1u << KIND,                                                                           \
        .check = check_settings,                                                                             \
        .draw = draw_step,                                                                                   \
    }

static const stoke_option factor_options[] = {
    STK_P(step_args, "0.5"),
    STK_SETTING(step_args, "factor", a, RANGE, "0.7..1.3", 0, 100, "A..B", "Factor; 1 changes nothing"),
};

COLOR_OP(brightness, STOKE_COLOR_BRIGHTNESS, factor_options, NULL, "Multiply all values");
COLOR_OP(contrast, STOKE_COLOR_CONTRAST, factor_options, NULL,
         "Move all values away from or towards the mean gray of the picture");
COLOR_OP(saturation, STOKE_COLOR_SATURATION, factor_options, NULL,
         "Move every pixel away from or towards its gray");

static const stoke_option hue_options[] = {
    STK_P(step_args, "0.5"),
    STK_SETTING(step_args, "shift", a, SPREAD, "0.1", -0.5, 0.5, "X|A..B", "Shift of the hue, in turns"),
};

COLOR_OP(hue, STOKE_COLOR_HUE, hue_options, NULL, "Turn the colour circle");

static const stoke_option gamma_options[] = {
    STK_P(step_args, "0.5"),
    STK_SETTING(step_args, "gamma", a, RANGE, "0.8..1.2", 0.01, 100, "A..B", "Exponent; above 1 darkens"),
    STK_SETTING(step_args, "gain", b, REAL, "1", 0, 100, "X", "Factor after it"),
};

COLOR_OP(gamma, STOKE_COLOR_GAMMA, gamma_options, NULL, "Raise all values to a power");

static const stoke_option noise_options[] = {
    STK_P(step_args, "0.5"),
    STK_SETTING(step_args, "mean", b, REAL, "0", -1, 1, "X", "Mean, on the scale 0..1"),
    STK_SETTING(step_args, "std", a, RANGE, "0.03", 0, 1, "A..B", "Standard deviation, on the scale 0..1"),
    STK_SETTING(step_args, "gray", gray, FLAG, "false", 0, 0, NULL,
                "The same for all three channels: a gray picture stays gray"),
};

COLOR_OP(gaussian_noise, STOKE_COLOR_NOISE, noise_options, NULL, "Add Gaussian noise, every sample its own");

static const stoke_option blur_options[] = {
    STK_P(step_args, "0.5"),
    STK_SETTING(step_args, "kernel", n, INT, "3", 1, STK_COLOR_TAPS_MAX, "N", "Taps in each direction, odd"),
    STK_SETTING(step_args, "sigma", a, RANGE, "0.1..2", 0.01, 100, "A..B", "Sigma of the Gaussian in pixels"),
};

/* The kernels of all blurs of a pipeline share one ring of rows. */
static int check_blur(void *args, stk_op_constants *constants, stoke_error *err)
{
    const step_args *s = args;
    if (s->n % 2 == 0)
        return stk_fail(err, STOKE_E_INVALID, "kernel: %d is even; a blur has a pixel in its middle",
                        (int)s->n);
    constants->blur_taps += (uint32_t)s->n;
    if (constants->blur_taps <= STK_COLOR_RING_ROWS) return STOKE_OK;
    return stk_fail(err, STOKE_E_LIMIT, "the kernels of all blurs together have more than %d rows",
                    STK_COLOR_RING_ROWS);
}

COLOR_OP(gaussian_blur, STOKE_COLOR_BLUR, blur_options, check_blur, "Blur by a Gaussian");

static const stoke_option clahe_options[] = {
    STK_P(step_args, "0.5"),
    STK_SETTING(step_args, "clip", a, RANGE, "1..4", 0.01, 256, "A..B",
                "Clip limit, in multiples of an even histogram"),
    STK_SETTING(step_args, "grid", n, INT, "8", 1, STK_COLOR_TILES_MAX, "N", "Tiles in each direction"),
};

static int count_tiles(void *args, stk_op_constants *constants, stoke_error *err)
{
    const step_args *s = args;
    (void)err;
    constants->clahe_tiles += (uint32_t)(s->n * s->n);
    return STOKE_OK;
}

/* Contrast limited adaptive histogram equalisation. */
COLOR_OP(clahe, STOKE_COLOR_CLAHE, clahe_options, count_tiles,
         "Equalise the lightness in tiles, with limited contrast");

typedef struct jitter_args {
    double p;
    double brightness, contrast, saturation, hue;
} jitter_args;

static const stoke_option jitter_options[] = {
    STK_P(jitter_args, "0.5"),
    STK_REAL(jitter_args, brightness, "0.3", 0, 100, "Factor from 1 - X (at least 0) to 1 + X"),
    STK_REAL(jitter_args, contrast, "0.2", 0, 100, "The same"),
    STK_REAL(jitter_args, saturation, "0.2", 0, 100, "The same"),
    STK_REAL(jitter_args, hue, "0.1", 0, 0.5, "Shift from -X to X turns"),
};

/* The strengths stand in the order of the color step kinds. A strength of 0 leaves its color step out, and
 * the others keep their numbers. */
static void draw_jitter(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const jitter_args *a = args;
    const stk_rng r = random->first, factor = stk_op_draw(random, 1);
    const double strength[4] = { a->brightness, a->contrast, a->saturation, a->hue };
    uint32_t order[4] = { 0, 1, 2, 3 };
    uint64_t rest = stk_below(stk_pair(r.word[1], r.word[2]), 24); /* which of the 4! orders */
    for (uint32_t n = 4; n > 1; n--) {
        const uint32_t k = (uint32_t)(rest % n), last = order[n - 1];
        order[n - 1] = order[k];
        order[k] = last;
        rest /= n;
    }
    for (int i = 0; i < 4; i++) {
        const uint32_t kind = order[i];
        const double x = strength[kind];
        if (x == 0) continue;
        const double around[2] = { x > 1 ? 0 : 1 - x, 1 + x }, turns[2] = { -x, x };
        stk_draft_color(draft, (stoke_color_kind)kind)->a =
            (float)stk_op_uniform(kind == STOKE_COLOR_HUE ? turns : around, factor.word[kind]);
    }
}

_Static_assert(STOKE_COLOR_BRIGHTNESS == 0 && STOKE_COLOR_CONTRAST == 1 && STOKE_COLOR_SATURATION == 2 &&
                   STOKE_COLOR_HUE == 3,
               "the jitter's order is that of the color kinds");

const stk_op stk_op_color_jitter = {
    .name = "color_jitter",
    .summary = "Brightness, contrast, saturation and hue, in an order drawn for each sample",
    .group = "colour",
    STK_OPTIONS(jitter_options),
    .color_steps = 1u << STOKE_COLOR_BRIGHTNESS | 1u << STOKE_COLOR_CONTRAST | 1u << STOKE_COLOR_SATURATION |
                   1u << STOKE_COLOR_HUE,
    .draw = draw_jitter,
};
