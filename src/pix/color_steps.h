/* SPDX-License-Identifier: Apache-2.0
 *
 * A color step with its numbers worked out: what the host's rows (color.c) and a device's tables are made
 * from.
 */
#ifndef STOKE_SRC_PIX_COLOR_STEPS_H
#define STOKE_SRC_PIX_COLOR_STEPS_H

#include <stoke/augment_plan.h>

#include "src/pix/color.h"

enum { STK_COLOR_RADIUS_MAX = STK_COLOR_TAPS_MAX / 2 };

typedef struct stk_color_op {
    const stoke_color_step *step;
    float a, c;    /* factor and summand of the step's formula; a contrast step's c is to be multiplied by the
                      mean gray */
    float turn[3]; /* hue */
    uint32_t radius; /* blur */
    float weight[STK_COLOR_RADIUS_MAX + 1];
} stk_color_op;

/* STOKE_E_INVALID for numbers no pipeline draws. */
int stk_color_check(const stoke_color_step *step, stoke_error *err);
stk_color_op stk_color_op_make(const stoke_color_step *step);
/* Steps that change nothing are left out: a sample that goes through none of them is bit-equal to what the
 * plain writer makes of it, 16 bits included. */
int stk_color_op_changes(const stk_color_op *step, uint32_t width, uint32_t height);

#endif
