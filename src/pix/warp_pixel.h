/* SPDX-License-Identifier: Apache-2.0
 *
 * One pixel of a warp, as warp.h defines it: shared by the reference (warp_c.c) and the borders (warp.c).
 */
#ifndef STOKE_SRC_PIX_WARP_PIXEL_H
#define STOKE_SRC_PIX_WARP_PIXEL_H

#include <stddef.h>

#include "src/pix/pix_table.h"

/* What is added to a coordinate before it is cut: half of 1/256 px for images, half a pixel for masks. */
#define STK_WARP_HALF_STEP  (UINT64_C(1) << 23)
#define STK_WARP_HALF_PIXEL (UINT64_C(1) << 31)

/* Coordinates of pixel i of a line. */
static inline uint64_t stk_warp_x(const stk_warp_line *line, size_t i)
{
    const uint64_t x = line->x + i * line->dx;
    return line->shift_x ? x + ((uint64_t)(int64_t)line->shift_x[i] << 16) : x;
}

static inline uint64_t stk_warp_y(const stk_warp_line *line, size_t i)
{
    const uint64_t y = line->y + i * line->dy;
    return line->shift_y ? y + ((uint64_t)(int64_t)line->shift_y[i] << 16) : y;
}

/* Column or row of a coordinate. */
static inline int32_t stk_warp_whole(uint64_t coordinate)
{
    return (int32_t)(uint32_t)(coordinate >> 32);
}

/* Weight of the tap after it, in 1/256. */
static inline uint32_t stk_warp_weight(uint64_t coordinate)
{
    return (uint32_t)(coordinate >> 24) & 255;
}

/* The four taps: top left, top right, bottom left, bottom right. */
static inline uint8_t stk_warp_blend_u8(uint32_t tl, uint32_t tr, uint32_t bl, uint32_t br, uint32_t wx,
                                        uint32_t wy)
{
    const uint32_t left = (tl * (256 - wy) + bl * wy + 1) >> 1;
    const uint32_t right = (tr * (256 - wy) + br * wy + 1) >> 1;
    return (uint8_t)((left * (256 - wx) + right * wx + (1u << 14)) >> 15);
}

/* At most 65535 * 2^16 + 2^15: fits 32 bits, no need of 64. */
static inline uint16_t stk_warp_blend_u16(uint32_t tl, uint32_t tr, uint32_t bl, uint32_t br, uint32_t wx,
                                          uint32_t wy)
{
    const uint32_t left = tl * (256 - wy) + bl * wy;
    const uint32_t right = tr * (256 - wy) + br * wy;
    return (uint16_t)((left * (256 - wx) + right * wx + (1u << 15)) >> 16);
}

#endif
