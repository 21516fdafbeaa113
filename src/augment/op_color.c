/* SPDX-License-Identifier: Apache-2.0
 *
 * Brightness, contrast, saturation, hue: alone, and the four together in random order.
 */
#include "src/augment/op.h"

typedef struct factor_args {
    double p;
    double factor[2];
} factor_args;

/* A factor of 1 changes nothing. */
static const stoke_option factor_options[] = {
    STK_P(factor_args, "0.5"),
    STK_RANGE(factor_args, factor, "0.7..1.3", 0, 100, "Factor; 1 changes nothing"),
};

static void draw_one(const void *args, const stk_op_random *random, stk_draft *draft, stoke_color_kind kind)
{
    const factor_args *a = args;
    const stk_rng r = stk_op_draw(random, 0);
    if (stk_op_hits(r, a->p)) stk_draft_color(draft, kind)->a = (float)stk_op_uniform(a->factor, r.word[1]);
}

/* An op that adds one step of one kind. */
#define COLOR_OP(op, KIND, table, text)                                                                      \
    static void draw_##op(const void *args, const stk_op_random *random, stk_draft *draft)                   \
    {                                                                                                        \
        draw_one(args, random, draft, KIND);                                                                 \
    }                                                                                                        \
    const stk_op stk_op_##op = {                                                                             \
        .name = #op,                                                                                         \
        .summary = text,                                                                                     \
        .group = "colour",                                                                                   \
        STK_OPTIONS(table),                                                                                  \
        .color_steps = 1u << KIND,                                                                           \
        .draw = draw_##op,                                                                                   \
    }

COLOR_OP(brightness, STOKE_COLOR_BRIGHTNESS, factor_options, "Multiply all values");
COLOR_OP(contrast, STOKE_COLOR_CONTRAST, factor_options,
         "Move all values away from or towards the mean gray of the picture");
COLOR_OP(saturation, STOKE_COLOR_SATURATION, factor_options,
         "Move every pixel away from or towards its gray");

/* The same shape as factor_args, so that one draw serves all four. */
typedef struct hue_args {
    double p;
    double shift[2];
} hue_args;
_Static_assert(offsetof(hue_args, shift) == offsetof(factor_args, factor), "hue_args is read as factor_args");

static const stoke_option hue_options[] = {
    STK_P(hue_args, "0.5"),
    STK_SPREAD(hue_args, shift, "0.1", -0.5, 0.5, "Shift of the hue, in turns"),
};

COLOR_OP(hue, STOKE_COLOR_HUE, hue_options, "Turn the colour circle");

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
    const stk_rng r = stk_op_draw(random, 0), factor = stk_op_draw(random, 1);
    if (!stk_op_hits(r, a->p)) return;
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
