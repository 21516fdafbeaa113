/* SPDX-License-Identifier: Apache-2.0
 *
 * A blur, across and then down: the symmetric filter weight[0] (centre) .. weight[radius], mirrored at the
 * borders, summed from the centre outwards.
 */
#ifndef STOKE_KERNELS_BLUR_H
#define STOKE_KERNELS_BLUR_H

#include "kernels/planes.h"
#include "kernels/reflect.h"
#include "kernels/steps.h"

/* Place `at` of a line of `size` floats `stride` apart. */
K_FN k_f32 k_blur_line(K_GLOBAL const k_f32 *line, k_u64 stride, k_u32 at, k_u32 size,
                       K_GLOBAL const k_step *blur)
{
    const k_u32 radius = blur->radius;
    k_f32 sum = blur->weight[0] * line[at * stride];
    if (at >= radius && size - at > radius) { /* nowhere near a border */
        for (k_u32 k = 1; k <= radius; k++)
            sum += blur->weight[k] * (line[(at - k) * stride] + line[(at + k) * stride]);
        return sum;
    }
    for (k_u32 k = 1; k <= radius; k++) {
        const k_u32 before = k_reflect((k_i64)at - k, size), after = k_reflect((k_i64)at + k, size);
        sum += blur->weight[k] * (line[before * stride] + line[after * stride]);
    }
    return sum;
}

K_KERNEL blur_across(K_GLOBAL k_f32 *spare, K_GLOBAL const k_f32 *planes, K_GLOBAL const k_sample *samples,
                     K_GLOBAL const k_step *steps, const k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (x >= shape.width || y >= shape.height || row >= shape.count) return;
    K_GLOBAL const k_step *blur = k_start_of(samples + row, steps, shape.round, K_BLUR);
    if (!blur) return;
    const k_u64 begin = k_planes_at(&shape, row, 0, y), size = k_plane_size(&shape);
    for (k_u64 line = begin; line < begin + 3 * size; line += size)
        spare[line + x] = k_blur_line(planes + line, 1, x, shape.width, blur);
}

K_KERNEL blur_down(K_GLOBAL k_f32 *planes, K_GLOBAL const k_f32 *spare, K_GLOBAL const k_sample *samples,
                   K_GLOBAL const k_step *steps, const k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (x >= shape.width || y >= shape.height || row >= shape.count) return;
    K_GLOBAL const k_step *blur = k_start_of(samples + row, steps, shape.round, K_BLUR);
    if (!blur) return;
    const k_u64 begin = k_planes_at(&shape, row, x, 0), size = k_plane_size(&shape);
    for (k_u64 line = begin; line < begin + 3 * size; line += size)
        planes[line + (k_u64)y * shape.width] =
            k_clamp(k_blur_line(spare + line, shape.width, y, shape.height, blur));
}

#endif
