/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a pixel of the output comes from in the fitted picture: placed and mirrored, or mapped by the matrix
 * and displaced. Images and masks ask the same.
 */
#ifndef STOKE_KERNELS_PASTE_H
#define STOKE_KERNELS_PASTE_H

#include "kernels/elastic.h"
#include "kernels/warp.h"

/* Without a warp. Columns before the picture are huge: as all numbers here, they wrap around. */
K_FN k_u32 k_placed_column(K_GLOBAL const k_sample *sample, const k_shape *shape, k_u32 x)
{
    return (sample->hflip ? shape->width - 1 - x : x) - sample->place_x;
}

K_FN k_u32 k_placed_row(K_GLOBAL const k_sample *sample, const k_shape *shape, k_u32 y)
{
    return (sample->vflip ? shape->height - 1 - y : y) - sample->place_y;
}

/* With one: 32.32 coordinates along an axis (0: x, 1: y), modulo 2^64. */
K_FN k_u64 k_warped(K_GLOBAL const k_sample *sample, K_GLOBAL const k_f32 *points, k_u32 x, k_u32 y,
                    k_u32 axis)
{
    K_GLOBAL const k_i64 *m = sample->matrix + 3 * axis;
    const k_u64 at = (k_u64)m[0] * x + (k_u64)m[1] * y + (k_u64)m[2];
    return sample->columns ? at + k_warp_shift(k_elastic_shift(points, sample, x, y, axis)) : at;
}

K_FN int k_in_picture(K_GLOBAL const k_sample *sample, k_u32 column, k_u32 line)
{
    return column < sample->width && line < sample->height;
}

#endif
