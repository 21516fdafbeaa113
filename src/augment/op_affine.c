/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps about the centre of the output. Positive angles turn counter-clockwise as displayed, in every op.
 */
#include "src/augment/op.h"
#include "src/base/exact_math.h"

/* Beyond 0.05 or 20 the picture is a stamp or a handful of pixels; the limits keep maps well conditioned. */
#define SCALE_MIN 0.05
#define SCALE_MAX 20

typedef struct rotate_args {
    double p;
    double degrees[2];
} rotate_args;

static const stoke_option rotate_options[] = {
    STK_P(rotate_args, "0.5"),
    STK_SPREAD(rotate_args, degrees, "20", -360, 360, "Angle, counter-clockwise"),
};

static void draw_rotate(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const rotate_args *a = args;
    double s, c;
    stk_sincos_degrees(stk_op_uniform(a->degrees, random->first.word[1]), &s, &c);
    stk_draft_about_center(draft, (const double[4]){ c, -s, s, c }, 0, 0);
}

const stk_op stk_op_rotate = {
    .name = "rotate",
    .summary = "Turn image and mask about the centre",
    .group = "geometry",
    STK_OPTIONS(rotate_options),
    .traits = STK_TRAIT_WARP,
    .draw = draw_rotate,
};

typedef struct scale_args {
    double p;
    double factor[2];
} scale_args;

static const stoke_option scale_options[] = {
    STK_P(scale_args, "0.5"),
    STK_RANGE(scale_args, factor, "0.8..1.2", SCALE_MIN, SCALE_MAX, "Factor; above 1 zooms in"),
};

static void draw_scale(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const scale_args *a = args;
    const double inverse = 1 / stk_op_uniform(a->factor, random->first.word[1]);
    stk_draft_about_center(draft, (const double[4]){ inverse, 0, 0, inverse }, 0, 0);
}

const stk_op stk_op_scale = {
    .name = "scale",
    .summary = "Zoom into or out of image and mask",
    .group = "geometry",
    STK_OPTIONS(scale_options),
    .traits = STK_TRAIT_WARP,
    .draw = draw_scale,
};

typedef struct affine_args {
    double p;
    double degrees[2], scale[2], translate_x[2], translate_y[2], shear[2], shear_y[2];
} affine_args;

static const stoke_option affine_options[] = {
    STK_P(affine_args, "0.5"),
    STK_SPREAD(affine_args, degrees, "10", -360, 360, "Angle, counter-clockwise"),
    STK_RANGE(affine_args, scale, "0.9..1.1", SCALE_MIN, SCALE_MAX, "Factor; above 1 zooms in"),
    STK_SPREAD(affine_args, translate_x, "0.1", -1, 1, "Shift to the right, as a share of the width"),
    STK_SPREAD(affine_args, translate_y, "0.1", -1, 1, "Shift down, as a share of the height"),
    STK_SPREAD(affine_args, shear, "5", -80, 80, "Shear along x, in degrees"),
    STK_SPREAD(affine_args, shear_y, "0", -80, 80, "Shear along y, in degrees"),
};

static double tangent(double degrees)
{
    double s, c;
    stk_sincos_degrees(degrees, &s, &c);
    return s / c;
}

/* torchvision's linear part, rotation * scale * shear_y * shear_x, with the angle the other way round. The
 * determinant of all but the scale is 1, so the inverse needs no division by it. */
static void draw_affine(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const affine_args *a = args;
    const stk_rng r = random->first, more = stk_op_draw(random, 1);
    double s, c;
    stk_sincos_degrees(-stk_op_uniform(a->degrees, r.word[1]), &s, &c);
    const double scale = stk_op_uniform(a->scale, r.word[2]);
    const double shift_x = stk_op_uniform(a->translate_x, r.word[3]) * draft->draw->out_width;
    const double shift_y = stk_op_uniform(a->translate_y, more.word[0]) * draft->draw->out_height;
    const double tx = tangent(stk_op_uniform(a->shear, more.word[1]));
    const double ty = tangent(stk_op_uniform(a->shear_y, more.word[2]));
    const double xx = c + s * ty, yx = s - c * ty;
    const double xy = -xx * tx - s, yy = -yx * tx + c;
    const double inverse[4] = { yy / scale, -xy / scale, -yx / scale, xx / scale };
    stk_draft_about_center(draft, inverse, shift_x, shift_y);
}

const stk_op stk_op_affine = {
    .name = "affine",
    .summary = "Turn, zoom, shift and shear image and mask, in one go",
    .group = "geometry",
    STK_OPTIONS(affine_options),
    .traits = STK_TRAIT_WARP,
    .draw = draw_affine,
};
