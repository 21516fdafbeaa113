/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinates along a row of a warp: shared by the tables and the borders (warp.c). The arithmetic of a pixel
 * is the devices' too: kernels/warp.h.
 */
#ifndef STOKE_SRC_PIX_WARP_PIXEL_H
#define STOKE_SRC_PIX_WARP_PIXEL_H

#include <stddef.h>

#include "kernels/warp.h"
#include "src/pix/pix_table.h"

/* Coordinates of pixel i of a line. */
static inline uint64_t stk_warp_x(const stk_pix_warp_line *line, size_t i)
{
    const uint64_t x = line->x + i * line->dx;
    return line->shift_x ? x + k_warp_shift(line->shift_x[i]) : x;
}

static inline uint64_t stk_warp_y(const stk_pix_warp_line *line, size_t i)
{
    const uint64_t y = line->y + i * line->dy;
    return line->shift_y ? y + k_warp_shift(line->shift_y[i]) : y;
}

#endif
