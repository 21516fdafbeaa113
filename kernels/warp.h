/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the warp, in integers alone: src/pix/warp.h has the definition, and the host reads this
 * file too (src/pix/warp_pixel.h).
 */
#ifndef STOKE_KERNELS_WARP_H
#define STOKE_KERNELS_WARP_H

#include "kernels/compat.h"

/* What is added to a coordinate before it is cut: half of 1/256 px for images, half a pixel for masks. */
#define K_WARP_HALF_STEP  ((k_u64)1 << 23)
#define K_WARP_HALF_PIXEL ((k_u64)1 << 31)

/* Column or row of a 32.32 coordinate. */
K_FN k_i32 k_warp_whole(k_u64 coordinate)
{
    return (k_i32)(k_u32)(coordinate >> 32);
}

/* Weight of the tap after it, in 1/256. */
K_FN k_u32 k_warp_weight(k_u64 coordinate)
{
    return (k_u32)(coordinate >> 24) & 255u;
}

/* A displacement in 1/65536 px as a coordinate. */
K_FN k_u64 k_warp_shift(k_i32 shift)
{
    return (k_u64)(k_i64)shift << 16;
}

/* The four taps: top left, top right, bottom left, bottom right. */
K_FN k_u8 k_warp_blend_u8(k_u32 tl, k_u32 tr, k_u32 bl, k_u32 br, k_u32 wx, k_u32 wy)
{
    const k_u32 left = (tl * (256 - wy) + bl * wy + 1) >> 1;
    const k_u32 right = (tr * (256 - wy) + br * wy + 1) >> 1;
    return (k_u8)((left * (256 - wx) + right * wx + (1u << 14)) >> 15);
}

/* At most 65535 * 2^16 + 2^15: fits 32 bits, no need of 64. */
K_FN k_u16 k_warp_blend_u16(k_u32 tl, k_u32 tr, k_u32 bl, k_u32 br, k_u32 wx, k_u32 wy)
{
    const k_u32 left = tl * (256 - wy) + bl * wy;
    const k_u32 right = tr * (256 - wy) + br * wy;
    return (k_u16)((left * (256 - wx) + right * wx + (1u << 15)) >> 16);
}

#endif
