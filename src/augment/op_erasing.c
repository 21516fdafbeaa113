/* SPDX-License-Identifier: Apache-2.0
 *
 * A random rectangle painted over; the mask there is kept or ignored.
 */
#include <string.h>

#include "src/augment/op.h"

typedef struct erasing_args {
    double p;
    double scale[2], ratio[2];
    const char *value;
    int mask;
    uint8_t fill[4]; /* by check */
} erasing_args;

enum { FIRST_TRY = 1 }; /* draw 0 decides whether */

static const stoke_option options[] = {
    STK_P(erasing_args, "0.5"),
    STK_RANGE(erasing_args, scale, "0.02..0.33", 0.0001, 1, "Share of the output's area"),
    STK_RANGE(erasing_args, ratio, "0.3..3.3", 0.01, 100, "Height divided by width"),
    STK_TEXT(erasing_args, value, "0", "R,G,B", "What is put there, 0 to 255; one number is a gray"),
    { "mask", STOKE_OPT_CHOICE, offsetof(erasing_args, mask), "keep", "keep|ignore", 0, 0, NULL,
      "Whether the mask keeps its classes there or becomes ignore_index" },
};

static int check(void *args, stk_op_constants *constants, stoke_error *err)
{
    erasing_args *a = args;
    double fill[3];
    constants->erases_masks |= a->mask;
    int r = stk_op_numbers("value", a->value, 0, 255, fill, 3, err);
    for (int i = 0; !r && i < 3; i++) a->fill[i] = (uint8_t)(fill[i] + 0.5);
    return r;
}

static void draw(const void *args, const stk_op_random *random, stk_draft *draft)
{
    const erasing_args *a = args;
    const uint32_t whole[2] = { draft->draw->out_height, draft->draw->out_width };
    uint32_t start[2], size[2];
    if (!stk_random_rectangle(random, FIRST_TRY, a->scale, a->ratio, whole, 1, start, size)) return;
    stoke_color_step *step = stk_draft_color(draft, STOKE_COLOR_ERASE);
    step->box = (stoke_box){ start[1], start[0], size[1], size[0] };
    memcpy(step->fill, a->fill, sizeof step->fill);
    step->n = (uint32_t)a->mask;
}

const stk_op stk_op_erasing = {
    .name = "erasing",
    .summary = "Paint over a random rectangle (torchvision's rule)",
    .group = "colour",
    STK_OPTIONS(options),
    .color_steps = 1u << STOKE_COLOR_ERASE,
    .check = check,
    .draw = draw,
};
