/* SPDX-License-Identifier: Apache-2.0
 *
 * One resample for all geometry: affine map, optionally plus an elastic displacement; bilinear for images,
 * nearest for masks, from the same coordinates.
 *
 * Definition (every table gives these bytes; a device can compute them with integers alone):
 *   X, Y     32.32 coordinates of an output pixel by plan->matrix, modulo 2^64, plus displacement
 *   image    X' = X + 2^23; x0 = X' >> 32, wx = (X' >> 24) & 255: position to 1/256 px. With taps t (row y0)
 *            and b (row y0 + 1) at x0 and x0 + 1, u8:
 *              v(k) = (t[k] * (256 - wy) + b[k] * wy + 1) >> 1
 *              out  = (v(0) * (256 - wx) + v(1) * wx + 2^14) >> 15
 *            (u16: the same without the first shift: ... + 2^15) >> 16, which fits 32 bits.)
 *            A tap outside the picture has the fill colour (u16: times 257).
 *   mask     column (X + 2^31) >> 32, row likewise; outside: fill
 * The 8-bit weights cost at most 1.5/255 against exact interpolation on white noise, under 0.6/255 on photos.
 */
#ifndef STOKE_SRC_PIX_WARP_H
#define STOKE_SRC_PIX_WARP_H

#include <stoke/augment_plan.h>

#include "src/base/mem.h"

/* Scratch of one worker; zeroed = empty. */
typedef struct stk_pix_warper {
    stk_mem_buffer control; /* elastic control points of the current plan */
    stk_mem_buffer shift;   /* displacement of one row: x then y, int32 in 1/65536 px */
    const stoke_augment_plan *plan;
    uint32_t width, height; /* of the output */
    uint32_t scale;         /* output pixels to one of those that the plan's elastic step counts; 0 is 1 */
    uint32_t columns, rows; /* of the control grid; 0 = no displacement */
    uint64_t shift_row;     /* 1 + the row whose displacement `shift` holds; 0 = none */
} stk_pix_warper;

/* Prepares for the rows of one plan (which must stay where it is). Computes the control points. warper->scale
 * is set before by who lays out the larger picture of a pair (stk_plan_enlarge): its displacement is the
 * smaller one's, read between the pixels. */
int stk_warp_begin(stk_pix_warper *warper, const stoke_augment_plan *plan, uint32_t out_width,
                   uint32_t out_height, stoke_error *err);
/* Output row y of an image (3 channels, u8 or u16) as `out_width` interleaved pixels. `src` is the fitted
 * picture; rows may be read up to 16 bytes past their last pixel only where memory of the picture follows: no
 * byte outside [data, data + (height - 1) * stride + width * 3 * depth) is touched. */
void stk_warp_image_row(stk_pix_warper *warper, const stoke_image *src, const uint8_t fill[3], uint32_t y,
                        void *row);
/* Output row y of a mask (1 channel, u8 or u16; `row` has the same depth). */
void stk_warp_mask_row(stk_pix_warper *warper, const stoke_image *src, uint32_t fill, uint32_t y, void *row);
void stk_warper_free(stk_pix_warper *warper);
uint64_t stk_warper_memory(const stk_pix_warper *warper);
/* What it will hold for an output of this size when the pipeline has elastic ops. */
uint64_t stk_warp_scratch(uint32_t out_width, uint32_t out_height);

/* The elastic displacement of a plan: a uniform cubic B-spline over random control points. */

/* The smallest distance of control points, in pixels, and the largest displacement. The first bounds memory,
 * the second keeps a displacement well inside 32 bits. */
#define STK_ELASTIC_STEP_MIN  4.0f
#define STK_ELASTIC_ALPHA_MAX 16384.0f

/* STOKE_E_INVALID for numbers no pipeline draws. */
int stk_elastic_check(const stoke_augment_plan *plan, stoke_error *err);
/* Control points along `size` pixels. */
uint64_t stk_elastic_points(uint32_t size, float step);
/* Where the centre of output pixel `at` lies in the picture of which this one is `scale` times the size, in
 * steps of 1 / (2 * scale) of its pixels: (at + 1/2) / scale - 1/2. Before the first centre: 0. */
static inline uint32_t stk_elastic_place(uint32_t at, uint32_t scale)
{
    return scale < 2 ? at : 2 * at + 1 > scale ? 2 * at + 1 - scale : 0;
}
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
