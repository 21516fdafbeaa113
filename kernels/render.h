/* SPDX-License-Identifier: Apache-2.0
 *
 * The fitted picture into the batch, or into the planes of rows that have more to come: placed or warped,
 * black outside, then through the steps of segment 0.
 */
#ifndef STOKE_KERNELS_RENDER_H
#define STOKE_KERNELS_RENDER_H

#include "kernels/paste.h"
#include "kernels/planes.h"
#include "kernels/steps.h"
#include "kernels/write.h"

/* A pixel of the fitted picture, in its own depth. */
typedef struct k_rgb {
    k_u32 r, g, b;
} k_rgb;

/* Pixel `at` of the picture, counted row after row; black when it is not inside. */
K_FN k_rgb k_fetch(K_GLOBAL const k_u8 *raw, K_GLOBAL const k_sample *sample, k_u64 at, int inside)
{
    k_rgb p = { 0, 0, 0 };
    if (!inside) return p;
    if (sample->depth == 1) {
        K_GLOBAL const k_u8 *from = raw + sample->image + at * 3;
        p.r = from[0];
        p.g = from[1];
        p.b = from[2];
    } else {
        K_GLOBAL const k_u16 *from = (K_GLOBAL const k_u16 *)(raw + sample->image) + at * 3;
        p.r = from[0];
        p.g = from[1];
        p.b = from[2];
    }
    return p;
}

K_FN k_u32 k_blend(k_u32 depth, k_u32 tl, k_u32 tr, k_u32 bl, k_u32 br, k_u32 wx, k_u32 wy)
{
    return depth == 1 ? k_warp_blend_u8(tl, tr, bl, br, wx, wy) : k_warp_blend_u16(tl, tr, bl, br, wx, wy);
}

/* The four pixels around (X, Y). Places are counted modulo 2^64, so that the one after column -1 is column 0.
 */
K_FN k_rgb k_interpolated(K_GLOBAL const k_u8 *raw, K_GLOBAL const k_sample *sample, k_u64 X, k_u64 Y)
{
    const k_i32 column = k_warp_whole(X), line = k_warp_whole(Y);
    const k_u32 wx = k_warp_weight(X), wy = k_warp_weight(Y), depth = sample->depth, width = sample->width;
    const int left = (k_u32)column < width, right = (k_u32)column + 1 < width;
    const int top = (k_u32)line < sample->height, bottom = (k_u32)line + 1 < sample->height;
    const k_u64 at = (k_u64)(k_i64)line * width + (k_u64)(k_i64)column;
    const k_rgb tl = k_fetch(raw, sample, at, top && left);
    const k_rgb tr = k_fetch(raw, sample, at + 1, top && right);
    const k_rgb bl = k_fetch(raw, sample, at + width, bottom && left);
    const k_rgb br = k_fetch(raw, sample, at + width + 1, bottom && right);
    k_rgb p;
    p.r = k_blend(depth, tl.r, tr.r, bl.r, br.r, wx, wy);
    p.g = k_blend(depth, tl.g, tr.g, bl.g, br.g, wx, wy);
    p.b = k_blend(depth, tl.b, tr.b, bl.b, br.b, wx, wy);
    return p;
}

K_FN k_rgb k_laid(K_GLOBAL const k_u8 *raw, K_GLOBAL const k_sample *sample, K_GLOBAL const k_f32 *points,
                  const k_shape *shape, k_u32 x, k_u32 y)
{
    if (sample->warp)
        return k_interpolated(raw, sample, k_warped(sample, points, x, y, 0) + K_WARP_HALF_STEP,
                              k_warped(sample, points, x, y, 1) + K_WARP_HALF_STEP);
    const k_u32 column = k_placed_column(sample, shape, x), line = k_placed_row(sample, shape, y);
    return k_fetch(raw, sample, (k_u64)line * sample->width + column, k_in_picture(sample, column, line));
}

K_FN k_pixel k_levels(k_rgb v, k_u32 depth)
{
    k_pixel p;
    p.r = depth == 1 ? (k_f32)v.r : k_level_of_u16(v.r);
    p.g = depth == 1 ? (k_f32)v.g : k_level_of_u16(v.g);
    p.b = depth == 1 ? (k_f32)v.b : k_level_of_u16(v.b);
    return p;
}

K_KERNEL lay_image(K_GLOBAL k_u8 *images, K_GLOBAL k_f32 *planes, K_GLOBAL const k_u8 *raw,
                   K_GLOBAL const k_sample *samples, K_GLOBAL const k_step *steps,
                   K_GLOBAL const k_f32 *points, K_GLOBAL const k_u32 *keys, K_GLOBAL const k_f32 *deep,
                   k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (x >= shape.width || y >= shape.height || row >= shape.count) return;
    K_GLOBAL const k_sample *sample = samples + row;
    const k_rgb v = k_laid(raw, sample, points, &shape, x, y);
    if (sample->depth == 2 && sample->n_steps == 0) {
        K_GLOBAL k_u8 *out = images + row * shape.image_pitch;
        k_put_deep(out, deep, &shape, 0, x, y, v.r);
        k_put_deep(out, deep, &shape, 1, x, y, v.g);
        k_put_deep(out, deep, &shape, 2, x, y, v.b);
        return;
    }
    k_pixel p = k_levels(v, sample->depth);
    k_steps_run(&p, sample, steps, keys, 0, x, y, 0);
    if (sample->segments == 1)
        k_write_pixel(images, &shape, row, x, y, p);
    else
        k_planes_set(planes, &shape, row, x, y, p);
}

#endif
