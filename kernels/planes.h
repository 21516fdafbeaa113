/* SPDX-License-Identifier: Apache-2.0
 *
 * The planes of rows that wait for their next segment: floats [row][3][height][width].
 */
#ifndef STOKE_KERNELS_PLANES_H
#define STOKE_KERNELS_PLANES_H

#include "kernels/tables.h"

/* A pixel on its way through the steps: levels 0..255 as floats, whatever the depth of the file. */
typedef struct k_pixel {
    k_f32 r, g, b;
} k_pixel;

/* Floats from one plane to the next. 64 bits: a batch of 256 rows of 2048 x 2048 has more than 2^32. */
K_FN k_u64 k_plane_size(const k_shape *shape)
{
    return (k_u64)shape->width * shape->height;
}

/* Where the red plane of a row begins. */
K_FN k_u64 k_planes_begin(const k_shape *shape, k_u32 row)
{
    return 3 * k_plane_size(shape) * row;
}

/* Where the red of a pixel is. */
K_FN k_u64 k_planes_at(const k_shape *shape, k_u32 row, k_u32 x, k_u32 y)
{
    return k_planes_begin(shape, row) + (k_u64)y * shape->width + x;
}

K_FN k_pixel k_planes_get(K_GLOBAL const k_f32 *planes, const k_shape *shape, k_u32 row, k_u32 x, k_u32 y)
{
    K_GLOBAL const k_f32 *red = planes + k_planes_at(shape, row, x, y);
    const k_u64 size = k_plane_size(shape);
    k_pixel p;
    p.r = red[0];
    p.g = red[size];
    p.b = red[2 * size];
    return p;
}

K_FN void k_planes_set(K_GLOBAL k_f32 *planes, const k_shape *shape, k_u32 row, k_u32 x, k_u32 y, k_pixel p)
{
    K_GLOBAL k_f32 *red = planes + k_planes_at(shape, row, x, y);
    const k_u64 size = k_plane_size(shape);
    red[0] = p.r;
    red[size] = p.g;
    red[2 * size] = p.b;
}

#endif
