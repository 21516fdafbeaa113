/* SPDX-License-Identifier: Apache-2.0
 *
 * Class ids into the batch: the geometry of the image, nearest instead of interpolated. What lies outside the
 * picture is `fill`, what was erased so that the network must not guess too.
 */
#ifndef STOKE_KERNELS_MASK_H
#define STOKE_KERNELS_MASK_H

#include "kernels/paste.h"

/* Signed, so that a fill of -1 is -1 in every type. */
K_FN void k_put_id(K_GLOBAL k_u8 *row, k_u32 dtype, k_u64 at, k_i32 id)
{
    if (dtype == K_DTYPE_U8)
        row[at] = (k_u8)id;
    else if (dtype == K_DTYPE_U16)
        ((K_GLOBAL k_u16 *)row)[at] = (k_u16)id;
    else if (dtype == K_DTYPE_I32)
        ((K_GLOBAL k_i32 *)row)[at] = id;
    else
        ((K_GLOBAL k_i64 *)row)[at] = id;
}

/* An id of the picture; without a mask all of them are 0. */
K_FN k_u32 k_id_of(K_GLOBAL const k_u8 *raw, K_GLOBAL const k_sample *sample, K_GLOBAL const k_u16 *swap,
                   k_u32 column, k_u32 line)
{
    const k_u64 at = (k_u64)line * sample->width + column;
    k_u32 id;
    if (sample->mask_depth == 0) return 0;
    id =
        sample->mask_depth == 1 ? raw[sample->mask + at] : ((K_GLOBAL const k_u16 *)(raw + sample->mask))[at];
    if (!sample->swap) return id;
    return sample->mask_depth == 1 ? swap[id] & 255u : swap[id];
}

/* 300 must not become class 44 where an id has one byte in the batch. */
K_FN k_i32 k_narrowed(k_u32 id, k_u32 dtype)
{
    return dtype == K_DTYPE_U8 && id > 255 ? 255 : (k_i32)id;
}

/* Placed, the fill is the batch's own; warped, it is an id of the picture's depth, as on the host, where the
 * warp knows nothing of the batch. They differ for fills that do not fit an id, which no labels have. */
K_FN k_i32 k_laid_id(K_GLOBAL const k_u8 *raw, K_GLOBAL const k_sample *sample, K_GLOBAL const k_f32 *points,
                     K_GLOBAL const k_u16 *swap, const k_shape *shape, k_u32 x, k_u32 y)
{
    k_u32 column, line;
    if (sample->warp) {
        column = (k_u32)k_warp_whole(k_warped(sample, points, x, y, 0) + K_WARP_HALF_PIXEL);
        line = (k_u32)k_warp_whole(k_warped(sample, points, x, y, 1) + K_WARP_HALF_PIXEL);
    } else {
        column = k_placed_column(sample, shape, x);
        line = k_placed_row(sample, shape, y);
    }
    if (k_in_picture(sample, column, line))
        return k_narrowed(k_id_of(raw, sample, swap, column, line), shape->mask_dtype);
    if (!sample->warp) return (k_i32)shape->mask_fill;
    return k_narrowed(shape->mask_fill & (sample->mask_depth == 1 ? 255u : 65535u), shape->mask_dtype);
}

K_FN int k_erased(K_GLOBAL const k_sample *sample, K_GLOBAL const k_step *steps, k_u32 x, k_u32 y)
{
    for (k_u32 i = 0; i < sample->n_steps; i++) {
        K_GLOBAL const k_step *s = steps + sample->first_step + i;
        if (s->kind == K_ERASE && s->erase_mask && x - s->x < s->width && y - s->y < s->height) return 1;
    }
    return 0;
}

K_KERNEL lay_mask(K_GLOBAL k_u8 *masks, K_GLOBAL const k_u8 *raw, K_GLOBAL const k_sample *samples,
                  K_GLOBAL const k_step *steps, K_GLOBAL const k_f32 *points, K_GLOBAL const k_u16 *swap,
                  k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (x >= shape.width || y >= shape.height || row >= shape.count) return;
    K_GLOBAL const k_sample *sample = samples + row;
    const k_i32 id = k_erased(sample, steps, x, y) ? (k_i32)shape.mask_fill
                                                   : k_laid_id(raw, sample, points, swap, &shape, x, y);
    k_put_id(masks + row * shape.mask_pitch, shape.mask_dtype, (k_u64)y * shape.width + x, id);
}

#endif
