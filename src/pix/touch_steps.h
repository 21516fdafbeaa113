/* SPDX-License-Identifier: Apache-2.0
 *
 * A touch with its numbers worked out: what the host's rows (touch.c) and a device's tables are made from.
 */
#ifndef STOKE_SRC_PIX_TOUCH_STEPS_H
#define STOKE_SRC_PIX_TOUCH_STEPS_H

#include <stoke/plan.h>

#include "src/pix/touch.h"

enum { STK_TOUCH_RADIUS_MAX = STK_TOUCH_TAPS_MAX / 2 };

typedef struct stk_touch_step {
    const stoke_touch *touch;
    float a, c;    /* factor and summand of the step's formula; a contrast step's c is to be multiplied by the
                      mean gray */
    float turn[3]; /* hue */
    uint32_t radius; /* blur */
    float weight[STK_TOUCH_RADIUS_MAX + 1];
} stk_touch_step;

/* STOKE_E_INVALID for numbers no pipeline draws. */
int stk_touch_check(const stoke_touch *touch, stoke_error *err);
stk_touch_step stk_touch_step_make(const stoke_touch *touch);
/* Steps that change nothing are left out: a sample that goes through none of them is bit-equal to what the
 * plain writer makes of it, 16 bits included. */
int stk_touch_step_changes(const stk_touch_step *step, uint32_t width, uint32_t height);

#endif
