/* SPDX-License-Identifier: Apache-2.0
 *
 * Photometric steps, straight into the batch row. Rows stream through the steps as three planes of floats in
 * 0..255 (a few kilobytes, in the first-level cache): colour steps work in place, a blur keeps a ring of
 * rows, the last step normalises and writes. The picture is walked once more only for what needs to know all
 * of it first: the mean gray of a contrast step, and CLAHE. Nothing is rounded to integers on the way, except
 * before CLAHE.
 */
#ifndef STOKE_SRC_PIX_COLOR_H
#define STOKE_SRC_PIX_COLOR_H

#include <stoke/augment_plan.h>

#include "src/pix/pix.h"

/* Limits of a chain; more is STOKE_E_INVALID. */
enum {
    STK_COLOR_TAPS_MAX = 31,   /* n of a blur */
    STK_COLOR_RING_ROWS = 124, /* n of all blurs of a chain together: what bounds the memory for them */
    STK_COLOR_TILES_MAX = 32   /* n of CLAHE */
};

/* Scratch of one worker; buffers only grow. */
typedef struct stk_color_pass stk_color_pass;
stk_color_pass *stk_color_pass_create(void); /* NULL on failure */
void stk_color_pass_destroy(stk_color_pass **color_pass);
uint64_t stk_color_pass_memory(const stk_color_pass *color_pass);
/* What it holds at most for such pictures and any steps a pipeline may draw. */
uint64_t stk_color_scratch(uint32_t width, uint32_t height, uint8_t depth);

/* Where rows come from: row y (0 .. height-1) of `width` interleaved RGB pixels of `depth` bytes per sample,
 * valid until the next call. May be asked for in any order and more than once. */
typedef struct stk_color_rows {
    const void *(*row)(void *context, uint32_t y);
    void *context;
    uint32_t width, height;
    uint8_t depth;
} stk_color_rows;

/* Applies n color steps and writes the batch row (see stk_write_image for `writer` and `row`). With color
 * steps that change nothing (brightness 1, ...) the result is bit-equal to stk_write_image. ERASE with n = 1
 * leaves masks to the caller. */
int stk_color_write(stk_color_pass *color_pass, const stoke_color_step *step, uint32_t n,
                    const stk_color_rows *source, const stk_pix_writer *writer, void *row, stoke_error *err);

/* A color step with its numbers worked out: what the host's rows (color.c) and a device's tables are made
 * from.
 */

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
