/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels into the batch: what stk_pix_writer (src/pix/pix.h) says of elements, types and layouts.
 */
#ifndef STOKE_KERNELS_WRITE_H
#define STOKE_KERNELS_WRITE_H

#include "kernels/color_math.h"
#include "kernels/half.h"
#include "kernels/planes.h"

/* Which element of a row of the batch is channel c of a pixel. */
K_FN k_u64 k_element_at(const k_shape *shape, k_u32 c, k_u32 x, k_u32 y)
{
    return shape->layout == K_CHW ? ((k_u64)c * shape->height + y) * shape->width + x
                                  : ((k_u64)y * shape->width + x) * 3 + c;
}

/* A normalised value as element `at` of a row, of a type that is not U8. */
K_FN void k_put_float(K_GLOBAL k_u8 *row, k_u32 dtype, k_u64 at, k_f32 value)
{
    if (dtype == K_DTYPE_F32)
        ((K_GLOBAL k_f32 *)row)[at] = value;
    else
        ((K_GLOBAL k_u16 *)row)[at] = dtype == K_DTYPE_F16 ? k_f16(value) : k_bf16(value);
}

/* Channel c of a pixel from its level in 0..255. */
K_FN void k_put_level(K_GLOBAL k_u8 *row, const k_shape *shape, k_u32 c, k_u32 x, k_u32 y, k_f32 v)
{
    const k_u64 at = k_element_at(shape, c, x, y);
    if (shape->dtype == K_DTYPE_U8)
        row[at] = (k_u8)k_round_u8(v);
    else
        k_put_float(row, shape->dtype, at,
                    (v * shape->high[c] + shape->high_bias[c]) + (v * shape->low[c] + shape->low_bias[c]));
}

K_FN void k_write_pixel(K_GLOBAL k_u8 *images, const k_shape *shape, k_u32 row, k_u32 x, k_u32 y, k_pixel p)
{
    K_GLOBAL k_u8 *out = images + row * shape->image_pitch;
    k_put_level(out, shape, 0, x, y, p.r);
    k_put_level(out, shape, 1, x, y, p.g);
    k_put_level(out, shape, 2, x, y, p.b);
}

/* A sample of two bytes that goes through no step: `deep` has its elements, which need a double to compute.
 */
K_FN void k_put_deep(K_GLOBAL k_u8 *row, K_GLOBAL const k_f32 *deep, const k_shape *shape, k_u32 c, k_u32 x,
                     k_u32 y, k_u32 v)
{
    const k_u64 at = k_element_at(shape, c, x, y);
    if (shape->dtype == K_DTYPE_U8)
        row[at] = (k_u8)((v + 128) / 257);
    else
        k_put_float(row, shape->dtype, at, deep[c * 65536 + v]);
}

#endif
