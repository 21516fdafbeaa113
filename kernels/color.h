/* SPDX-License-Identifier: Apache-2.0
 *
 * A later segment of the steps: from the planes through its steps, to the batch or back to the planes.
 */
#ifndef STOKE_KERNELS_COLOR_H
#define STOKE_KERNELS_COLOR_H

#include "kernels/gray.h"
#include "kernels/planes.h"
#include "kernels/steps.h"
#include "kernels/write.h"

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
