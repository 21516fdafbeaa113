/* SPDX-License-Identifier: Apache-2.0
 *
 * The elastic displacement of a plan: a uniform cubic B-spline over random control points.
 */
#ifndef STOKE_SRC_PIX_ELASTIC_H
#define STOKE_SRC_PIX_ELASTIC_H

#include "src/pix/warp.h"

/* The smallest distance of control points, in pixels, and the largest displacement. The first bounds memory,
 * the second keeps a displacement well inside 32 bits. */
#define STK_ELASTIC_STEP_MIN  4.0f
#define STK_ELASTIC_ALPHA_MAX 16384.0f

/* STOKE_E_INVALID for numbers no pipeline draws. */
int stk_elastic_check(const stoke_augment_plan *plan, stoke_error *err);
/* Control points along `size` pixels. */
uint64_t stk_elastic_points(uint32_t size, float step);
/* Draws the control points of warper->plan and lays out the buffers for rows of warper->width pixels. */
int stk_elastic_begin(stk_pix_warper *warper, stoke_error *err);
/* The largest displacement in 1/65536 px. */
static inline int32_t stk_elastic_limit(const stoke_augment_plan *plan)
{
    return (int32_t)(plan->elastic_alpha * 65536);
}
/* Displacement of output row y, into warper->shift: width values of x, then of y, none beyond the limit.
 * Nothing to do when they are there already: image and mask share them if their rows are made in turn. */
void stk_elastic_row(stk_pix_warper *warper, uint32_t y);

#endif
