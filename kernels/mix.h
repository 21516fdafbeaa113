/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a batch, mixed with the row before them (row 0 with the last), both as they are before any mixing:
 * MixUp and CutMix as src/loader/mix.h has them.
 */
#ifndef STOKE_KERNELS_MIX_H
#define STOKE_KERNELS_MIX_H

#include "kernels/write.h"

/* The definition, on the host too: two products and a sum, each rounded, in this order. With lambda 1 the own
 * value stays as it is, whatever the other one's. */
K_FN k_f32 k_mixed(k_f32 own, k_f32 other, k_f32 lambda)
{
    return lambda * own + (1.0f - lambda) * other;
}

/* Element `at` of two rows into a third. U8 is rounded to nearest, halves up. */
K_FN void k_mix_element(K_GLOBAL k_u8 *to, K_GLOBAL const k_u8 *own, K_GLOBAL const k_u8 *other, k_u32 dtype,
                        k_u64 at, k_f32 lambda)
{
    if (dtype == K_DTYPE_U8) {
        to[at] = (k_u8)(int)(k_mixed((k_f32)own[at], (k_f32)other[at], lambda) + 0.5f);
    } else if (dtype == K_DTYPE_F32) {
        K_GLOBAL const k_f32 *a = (K_GLOBAL const k_f32 *)own, *b = (K_GLOBAL const k_f32 *)other;
        ((K_GLOBAL k_f32 *)to)[at] = k_mixed(a[at], b[at], lambda);
    } else {
        K_GLOBAL const k_u16 *a = (K_GLOBAL const k_u16 *)own, *b = (K_GLOBAL const k_u16 *)other;
        ((K_GLOBAL k_u16 *)to)[at] = dtype == K_DTYPE_F16
                                         ? k_f16(k_mixed(k_from_f16(a[at]), k_from_f16(b[at]), lambda))
                                         : k_bf16(k_mixed(k_from_bf16(a[at]), k_from_bf16(b[at]), lambda));
    }
}

/* Element `at`, whatever it means. */
K_FN void k_copy_element(K_GLOBAL k_u8 *to, K_GLOBAL const k_u8 *from, k_u32 dtype, k_u64 at)
{
    if (dtype == K_DTYPE_U8)
        to[at] = from[at];
    else if (dtype == K_DTYPE_F32 || dtype == K_DTYPE_I32)
        ((K_GLOBAL k_u32 *)to)[at] = ((K_GLOBAL const k_u32 *)from)[at];
    else if (dtype == K_DTYPE_I64)
        ((K_GLOBAL k_u64 *)to)[at] = ((K_GLOBAL const k_u64 *)from)[at];
    else
        ((K_GLOBAL k_u16 *)to)[at] = ((K_GLOBAL const k_u16 *)from)[at];
}

/* A batch of one row stays as it is. */
K_KERNEL mix_rows(K_GLOBAL k_u8 *images, K_GLOBAL k_u8 *masks, K_GLOBAL k_u8 *masks_b,
                  K_GLOBAL const k_u8 *pure, K_GLOBAL const k_u8 *pure_masks,
                  K_GLOBAL const k_sample *samples, k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (x >= shape.width || y >= shape.height || row >= shape.count) return;
    K_GLOBAL const k_sample *sample = samples + row;
    const k_u32 before = row ? row - 1 : shape.count - 1, kind = shape.count > 1 ? sample->mix : K_MIX_NONE;
    const int pasted =
        kind == K_MIX_CUT && x - sample->mix_x < sample->mix_width && y - sample->mix_y < sample->mix_height;
    const k_u64 image = row * shape.image_pitch, mask = row * shape.mask_pitch;
    const k_u64 other = before * shape.image_pitch, other_mask = before * shape.mask_pitch;
    const k_u64 at = (k_u64)y * shape.width + x;
    for (k_u32 c = 0; c < 3; c++) {
        const k_u64 element = k_element_at(&shape, c, x, y);
        if (kind == K_MIX_UP)
            k_mix_element(images + image, pure + image, pure + other, shape.dtype, element, sample->lambda);
        else
            k_copy_element(images + image, pure + (pasted ? other : image), shape.dtype, element);
    }
    k_copy_element(masks + mask, pure_masks + (pasted ? other_mask : mask), shape.mask_dtype, at);
    if (shape.two_masks)
        k_copy_element(masks_b + mask, pure_masks + (pasted || kind == K_MIX_UP ? other_mask : mask),
                       shape.mask_dtype, at);
}

#endif
