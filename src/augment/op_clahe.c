/* SPDX-License-Identifier: Apache-2.0
 *
 * Contrast limited adaptive histogram equalisation (CLAHE): lightness, tile by tile.
 */
#include "src/augment/op.h"
#include "src/pix/color.h"

typedef struct clahe_args {
    double p;
    double clip[2];
    int64_t grid;
} clahe_args;

static const stoke_option options[] = {
    STK_P(clahe_args, "0.5"),
    STK_RANGE(clahe_args, clip, "1..4", 0.01, 256, "Clip limit, in multiples of an even histogram"),
    STK_INT(clahe_args, grid, "8", 1, STK_COLOR_TILES_MAX, "Tiles in each direction"),
};

static int check(void *args, stk_op_constants *constants, stoke_error *err)
{
    const clahe_args *a = args;
    (void)err;
    constants->clahe_tiles += (uint32_t)(a->grid * a->grid);
    return STOKE_OK;
}

static void draw(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const clahe_args *a = args;
    const stk_rng r = stk_op_draw(random, 0);
    if (!stk_op_hits(r, a->p)) return;
    stoke_color_step *step = stk_draft_color(draft, STOKE_COLOR_CLAHE);
    step->n = (uint32_t)a->grid;
    step->a = (float)stk_op_uniform(a->clip, r.word[1]);
}

const stk_op stk_op_clahe = {
    .name = "clahe",
    .summary = "Equalise the lightness in tiles, with limited contrast",
    .group = "colour",
    STK_OPTIONS(options),
    .color_steps = 1u << STOKE_COLOR_CLAHE,
    .check = check,
    .draw = draw,
};
