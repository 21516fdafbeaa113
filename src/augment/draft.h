/* SPDX-License-Identifier: Apache-2.0
 *
 * The draft of a plan, while ops draw into it: geometry as one map in doubles, everything else straight in
 * the plan. stk_draft_settle turns the map into what the plan says.
 *
 * The frame is the output before any geometry but the crop. Where the crop keeps the source's own scale (and
 * where the fit does, because source and output have the same size), the canvas is the whole source and the
 * frame a window on it: what a rotation brings in from outside the window is real picture. After a resize the
 * canvas is the fitted picture, and outside of it is fill.
 */
#ifndef STOKE_SRC_AUGMENT_DRAFT_H
#define STOKE_SRC_AUGMENT_DRAFT_H

#include <stoke/augment.h>

typedef struct stk_draft {
    const stoke_draw *draw;
    stoke_augment_plan *plan; /* color steps, mix, focus and elastic go straight in */
    /* From an output pixel to the frame: x = map[0] * column + map[1] * row + map[2], y = map[3] * ... */
    double map[6];
    int at_own_scale;           /* 1: the frame is a window on the source */
    int64_t window_x, window_y; /* where it begins; negative = the source begins inside */
    stoke_box part;             /* else: the part of the source that is stretched to the frame */
    int mirrored;               /* parity of flips */
    int mixed;                  /* a mix op has acted */
} stk_draft;

/* No crop, identity map, empty plan. */
void stk_draft_begin(stk_draft *draft, const stoke_draw *draw, stoke_augment_plan *plan);

/* The frame begins at (x, y) of the source, at its own scale. */
void stk_draft_window(stk_draft *draft, int64_t x, int64_t y);
/* The frame is this part of the source, resized. */
void stk_draft_part(stk_draft *draft, stoke_box part);

/* One more op, given as its map from its result to what it is applied to (what sampling needs). */
void stk_draft_map(stk_draft *draft, const double step[6]);
/* The same for a map about the centre c of the output: source = c + linear * (result - c - shift). */
void stk_draft_about_center(stk_draft *draft, const double linear[4], double shift_x, double shift_y);

/* Appends a photometric step. A pipeline is refused when it could append more than a plan holds. */
stoke_color_step *stk_draft_color(stk_draft *draft, stoke_color_kind kind);

/* Writes box, size, place, flips or matrix. */
void stk_draft_settle(stk_draft *draft);

#endif
