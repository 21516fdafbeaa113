/* SPDX-License-Identifier: Apache-2.0
 *
 * A later segment of the steps: the sum of gray where a contrast step starts it, then from the planes through
 * its steps, to the batch or back to the planes.
 */
#ifndef STOKE_KERNELS_COLOR_H
#define STOKE_KERNELS_COLOR_H

#include "kernels/planes.h"
#include "kernels/steps.h"
#include "kernels/write.h"

/* To a sum of two words, low and high. 64-bit atomics are an extension of OpenCL 1.2. */
K_FN void k_add_wide(K_GLOBAL k_u32 *sum, k_u32 value)
{
    const k_u32 old = k_add_to(sum, value);
    if (old > 0xffffffffu - value) k_add_to(sum + 1, 1u);
}

/* x: columns, y: strips of K_STRIP rows. Down and not across, so that work items side by side read floats
 * side by side and a group is full however narrow the picture. The steps of a strip fit a word: 64 times 20
 * bits.
 */
K_KERNEL gray_sum(K_GLOBAL k_u32 *sums, K_GLOBAL const k_f32 *planes, K_GLOBAL const k_sample *samples,
                  K_GLOBAL const k_step *steps, const k_shape shape K_ID)
{
    const k_u32 x = k_at(0), first = k_at(1) * K_STRIP, row = k_at(2);
    if (x >= shape.width || first >= shape.height || row >= shape.count) return;
    K_GLOBAL const k_step *contrast = k_start_of(samples + row, steps, shape.round, K_CONTRAST);
    if (!contrast) return;
    const k_u32 end = shape.height - first > K_STRIP ? first + K_STRIP : shape.height;
    k_u32 sum = 0;
    for (k_u32 y = first; y < end; y++) {
        const k_pixel p = k_planes_get(planes, &shape, row, x, y);
        sum += k_gray_steps(k_gray(p.r, p.g, p.b));
    }
    k_add_wide(sums + contrast->sums, sum);
}

/* The mean that gray_sum left for a contrast step. */
K_FN k_f32 k_mean_of(K_GLOBAL const k_u32 *sums, K_GLOBAL const k_step *contrast, const k_shape *shape)
{
    const k_u64 low = sums[contrast->sums], high = sums[contrast->sums + 1];
    return k_mean_gray(high << 32 | low, k_plane_size(shape));
}

K_KERNEL apply_color(K_GLOBAL k_u8 *images, K_GLOBAL k_f32 *planes, K_GLOBAL const k_sample *samples,
                     K_GLOBAL const k_step *steps, K_GLOBAL const k_u32 *keys, K_GLOBAL const k_u32 *sums,
                     const k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (x >= shape.width || y >= shape.height || row >= shape.count) return;
    K_GLOBAL const k_sample *sample = samples + row;
    if (shape.round >= sample->segments) return;
    k_pixel p = k_planes_get(planes, &shape, row, x, y); /* on its way while the tables are walked */
    K_GLOBAL const k_step *contrast = k_start_of(sample, steps, shape.round, K_CONTRAST);
    const k_f32 mean = contrast ? k_mean_of(sums, contrast, &shape) : 0.0f;
    k_steps_run(&p, sample, steps, keys, shape.round, x, y, mean);
    if (shape.round + 1 == sample->segments)
        k_write_pixel(images, &shape, row, x, y, p);
    else
        k_planes_set(planes, &shape, row, x, y, p);
}

#endif
