/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody's batch on the device (dense, of any type and layout) as rows of a raw batch: the box that a plan
 * looks at, three interleaved channels of 8 or 16 bits, and class ids.
 */
#ifndef STOKE_KERNELS_TAKE_H
#define STOKE_KERNELS_TAKE_H

#include "kernels/tables.h"

/* A float in 0..1 as a 16-bit sample, rounded to even as lrintf does: 2^23 has no bits below one. */
K_FN k_u16 k_deep(k_f32 v)
{
    if (v >= 1.0f) return 65535;
    if (!(v > 0.0f)) return 0;
    const k_f32 scaled = v * 65535.0f;
    return (k_u16)(k_bits(scaled + 8388608.0f) & 0x7fffffu);
}

K_KERNEL take_image(K_GLOBAL k_u8 *raw, K_GLOBAL const k_u8 *source, K_GLOBAL const k_take *takes,
                    k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (row >= shape.count) return;
    K_GLOBAL const k_take *take = takes + row;
    if (x >= take->width || y >= take->height) return;
    const k_u64 plane = (k_u64)shape.width * shape.height;
    const k_u64 pixel = (k_u64)(take->y + y) * shape.width + take->x + x;
    const k_u64 begin = row * plane * shape.channels, to = ((k_u64)y * take->width + x) * 3;
    for (k_u32 c = 0; c < 3; c++) {
        const k_u32 channel = shape.channels == 1 ? 0 : c; /* grey goes to all three */
        const k_u64 at =
            begin + (shape.layout == K_CHW ? channel * plane + pixel : pixel * shape.channels + channel);
        if (shape.dtype == K_DTYPE_U8)
            raw[take->image + to + c] = source[at];
        else
            ((K_GLOBAL k_u16 *)(raw + take->image))[to + c] =
                shape.dtype == K_DTYPE_U16 ? ((K_GLOBAL const k_u16 *)source)[at]
                                           : k_deep(((K_GLOBAL const k_f32 *)source)[at]);
    }
}

/* What is no value of an id: none of the table. */
K_FN k_u32 k_value_at(K_GLOBAL const k_u8 *source, k_u32 dtype, k_u64 at)
{
    if (dtype == K_DTYPE_U8) return source[at];
    if (dtype == K_DTYPE_U16) return ((K_GLOBAL const k_u16 *)source)[at];
    const k_i64 value =
        dtype == K_DTYPE_I32 ? ((K_GLOBAL const k_i32 *)source)[at] : ((K_GLOBAL const k_i64 *)source)[at];
    return value < 0 || value > 65535 ? 65536u : (k_u32)value;
}

/* ids: u16 [65537], the class id of every value; the last one is that of what is none. */
K_KERNEL take_mask(K_GLOBAL k_u8 *raw, K_GLOBAL const k_u8 *source, K_GLOBAL const k_take *takes,
                   K_GLOBAL const k_u16 *ids, k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (row >= shape.count) return;
    K_GLOBAL const k_take *take = takes + row;
    if (x >= take->width || y >= take->height) return;
    const k_u64 at =
        row * ((k_u64)shape.width * shape.height) + (k_u64)(take->y + y) * shape.width + take->x + x;
    const k_u64 to = (k_u64)y * take->width + x;
    const k_u16 id = ids[k_value_at(source, shape.mask_dtype, at)];
    if (shape.id_depth == 1)
        raw[take->mask + to] = (k_u8)id;
    else
        ((K_GLOBAL k_u16 *)(raw + take->mask))[to] = id;
}

#endif
