/* SPDX-License-Identifier: Apache-2.0
 *
 * Mirrors. A mirrored face has its left eye on the other side: classes that are left or right of something
 * change places with `swap`, whenever the picture as a whole is a mirror image (two flips make none).
 */
#include "src/augment/op.h"

typedef struct hflip_args {
    double p;
    const char *swap;
} hflip_args;

static const stoke_option hflip_options[] = {
    STK_P(hflip_args, "0.5"),
    STK_TEXT(hflip_args, swap, NULL, "A-B,...",
             "Pairs of left and right classes that change places in a mirror image, e.g. 2-3,4-5"),
};

static int check_hflip(void *args, stk_op_constants *constants, stoke_error *err)
{
    const hflip_args *a = args;
    if (!a->swap || !*a->swap) return STOKE_OK;
    return stk_op_ids("swap", a->swap, 2, constants->swap[0], STK_SWAP_PAIRS, &constants->n_swap, err);
}

static void draw_hflip(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const double step[6] = { -1, 0, draft->draw->out_width - 1.0, 0, 1, 0 };
    stk_draft_map(draft, step);
    draft->mirrored ^= 1;
}

const stk_op stk_op_hflip = {
    .name = "hflip",
    .summary = "Mirror image and mask left-right",
    .group = "geometry",
    STK_OPTIONS(hflip_options),
    .check = check_hflip,
    .draw = draw_hflip,
};

typedef struct vflip_args {
    double p;
} vflip_args;

static const stoke_option vflip_options[] = { STK_P(vflip_args, "0.5") };

static void draw_vflip(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const double step[6] = { 1, 0, 0, 0, -1, draft->draw->out_height - 1.0 };
    stk_draft_map(draft, step);
    draft->mirrored ^= 1;
}

const stk_op stk_op_vflip = {
    .name = "vflip",
    .summary = "Mirror image and mask upside down",
    .group = "geometry",
    STK_OPTIONS(vflip_options),
    .draw = draw_vflip,
};
