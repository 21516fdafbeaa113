/* SPDX-License-Identifier: Apache-2.0 */
#include "src/pix/color_steps.h"

#include <math.h>

#include "src/base/error.h"
#include "src/base/exact_math.h"

int stk_color_check(const stoke_color_step *t, stoke_error *err)
{
    if (t->kind >= STOKE_COLOR_KINDS || !isfinite(t->a) || !isfinite(t->b))
        return stk_fail(err, STOKE_E_INVALID, "color step of kind %u with %g and %g", t->kind, (double)t->a,
                        (double)t->b);
    switch ((stoke_color_kind)t->kind) {
    case STOKE_COLOR_HUE:
        if (t->a >= -0.5f && t->a <= 0.5f) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "hue turned by %g, not -0.5 to 0.5", (double)t->a);
    case STOKE_COLOR_GAMMA:
        if (t->a > 0) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "gamma of %g: must be positive", (double)t->a);
    case STOKE_COLOR_BLUR:
        if (t->n % 2 == 1 && t->n <= STK_COLOR_TAPS_MAX && t->a > 0) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "blur of %u taps and sigma %g: taps are odd and at most %d",
                        t->n, (double)t->a, STK_COLOR_TAPS_MAX);
    case STOKE_COLOR_NOISE:
        if (t->n <= 1) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "noise of kind %u: 0 is coloured, 1 gray", t->n);
    case STOKE_COLOR_CLAHE:
        if (t->n >= 1 && t->n <= STK_COLOR_TILES_MAX && t->a >= 0) return STOKE_OK;
        return stk_fail(err, STOKE_E_INVALID, "clahe of %u x %u tiles and limit %g: tiles are 1 to %d", t->n,
                        t->n, (double)t->a, STK_COLOR_TILES_MAX);
    default: return STOKE_OK;
    }
}

/* The centre takes up the rounding of the others, so that they sum to 1. */
static void blur_weights(stk_color_op *s)
{
    const double sigma = s->step->a;
    double weight[STK_COLOR_RADIUS_MAX + 1], sum = 1, sides = 0;
    s->radius = s->step->n / 2;
    for (uint32_t k = 1; k <= s->radius; k++) {
        weight[k] = stk_exp(-(double)k * k / (2 * sigma * sigma));
        sum += 2 * weight[k];
    }
    for (uint32_t k = 1; k <= s->radius; k++) {
        s->weight[k] = (float)(weight[k] / sum);
        sides += 2 * (double)s->weight[k];
    }
    s->weight[0] = (float)(1 - sides);
}

stk_color_op stk_color_op_make(const stoke_color_step *t)
{
    stk_color_op s = { .step = t, .a = t->a };
    switch ((stoke_color_kind)t->kind) {
    case STOKE_COLOR_HUE:
        for (int i = 0; i < 3; i++) {
            const double turn = 2 * i + 6 * (double)t->a; /* -3 .. 7 */
            s.turn[i] = (float)(turn < 0 ? turn + 6 : turn >= 6 ? turn - 6 : turn);
        }
        break;
    case STOKE_COLOR_CONTRAST:
    case STOKE_COLOR_SATURATION: s.c = (float)(1 - (double)t->a); break;
    case STOKE_COLOR_GAMMA: s.c = (float)(255 * (double)t->b); break;
    case STOKE_COLOR_NOISE:
        s.a = (float)(255 * (double)t->a);
        s.c = (float)(255 * (double)t->b);
        break;
    case STOKE_COLOR_BLUR: blur_weights(&s); break;
    default: break;
    }
    return s;
}

int stk_color_op_changes(const stk_color_op *s, uint32_t width, uint32_t height)
{
    const stoke_color_step *t = s->step;
    switch ((stoke_color_kind)t->kind) {
    case STOKE_COLOR_BRIGHTNESS:
    case STOKE_COLOR_CONTRAST:
    case STOKE_COLOR_SATURATION: return t->a != 1;
    case STOKE_COLOR_HUE: return t->a != 0;
    case STOKE_COLOR_GAMMA: return t->a != 1 || t->b != 1;
    case STOKE_COLOR_BLUR: return s->weight[0] != 1;
    case STOKE_COLOR_NOISE: return t->a != 0 || t->b != 0;
    case STOKE_COLOR_ERASE: return t->box.x < width && t->box.y < height && t->box.width && t->box.height;
    default: return 1;
    }
}
