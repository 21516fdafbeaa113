/* SPDX-License-Identifier: Apache-2.0
 *
 * Photometric steps, straight into the batch row. Rows stream through the steps as three planes of floats in
 * 0..255 (a few kilobytes, in the first-level cache): colour steps work in place, a blur keeps a ring of
 * rows, the last step normalises and writes. The picture is walked once more only for what needs to know all
 * of it first: the mean gray of a contrast step, and CLAHE. Nothing is rounded to integers on the way, except
 * before CLAHE.
 */
#ifndef STOKE_SRC_PIX_TOUCH_H
#define STOKE_SRC_PIX_TOUCH_H

#include <stoke/plan.h>

#include "src/pix/pix.h"

/* Limits of a chain; more is STOKE_E_INVALID. */
enum {
    STK_TOUCH_TAPS_MAX = 31,   /* n of a blur */
    STK_TOUCH_RING_ROWS = 124, /* n of all blurs of a chain together: what bounds the memory for them */
    STK_TOUCH_TILES_MAX = 32   /* n of CLAHE */
};

/* Scratch of one worker; buffers only grow. */
typedef struct stk_toucher stk_toucher;
stk_toucher *stk_toucher_create(void); /* NULL on failure */
void stk_toucher_destroy(stk_toucher **toucher);
uint64_t stk_toucher_memory(const stk_toucher *toucher);
/* What it holds at most for such pictures and any steps a pipeline may draw. */
uint64_t stk_touch_scratch(uint32_t width, uint32_t height, uint8_t depth);

/* Where rows come from: row y (0 .. height-1) of `width` interleaved RGB pixels of `depth` bytes per sample,
 * valid until the next call. May be asked for in any order and more than once. */
typedef struct stk_touch_rows {
    const void *(*row)(void *context, uint32_t y);
    void *context;
    uint32_t width, height;
    uint8_t depth;
} stk_touch_rows;

/* Applies n touches and writes the batch row (see stk_write_image for `writer` and `row`). With touches that
 * change nothing (brightness 1, ...) the result is bit-equal to stk_write_image. ERASE with n = 1 leaves
 * masks to the caller. */
int stk_touch_write(stk_toucher *toucher, const stoke_touch *touch, uint32_t n, const stk_touch_rows *source,
                    const stk_writer *writer, void *row, stoke_error *err);

#endif
