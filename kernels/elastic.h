/* SPDX-License-Identifier: Apache-2.0
 *
 * The elastic displacement of a sample: its control points, and what they make of a pixel.
 */
#ifndef STOKE_KERNELS_ELASTIC_H
#define STOKE_KERNELS_ELASTIC_H

#include "kernels/philox.h"
#include "kernels/spline.h"
#include "kernels/tables.h"

K_KERNEL elastic_points(K_GLOBAL k_f32 *points, K_GLOBAL const k_sample *samples, k_shape shape K_ID)
{
    const k_u32 column = k_at(0), line = k_at(1), row = k_at(2);
    if (row >= shape.count || column >= samples[row].columns || line >= samples[row].rows) return;
    K_GLOBAL const k_sample *sample = samples + row;
    const k_random random =
        k_philox_block(column, line, 0, 0, sample->elastic_key[0], sample->elastic_key[1]);
    K_GLOBAL k_f32 *point = points + 2 * (sample->points + (k_u64)line * sample->columns + column);
    point[0] = k_spline_point(random.word[0], sample->elastic_alpha);
    point[1] = k_spline_point(random.word[1], sample->elastic_alpha);
}

/* Of pixel (x, y) along one axis (0: x, 1: y), in 1/65536 px. A work item weights sixteen points for each
 * axis; a row of the host shares the weighted line, with the same result. */
K_FN k_i32 k_elastic_shift(K_GLOBAL const k_f32 *points, K_GLOBAL const k_sample *sample, k_u32 x, k_u32 y,
                           k_u32 axis)
{
    k_f32 tx, ty, weight[4], line[4], cubic[4];
    const k_u32 column = k_spline_cell(x, sample->elastic_step, &tx);
    const k_u32 above = k_spline_cell(y, sample->elastic_step, &ty);
    const k_u64 pitch = 2 * (k_u64)sample->columns;
    K_GLOBAL const k_f32 *p = points + 2 * (sample->points + (k_u64)column) + above * pitch + axis;
    k_spline_weights(weight, ty);
    for (int k = 0; k < 4; k++, p += 2)
        line[k] = k_spline_weigh(weight, p[0], p[pitch], p[2 * pitch], p[3 * pitch]);
    k_spline_cubic(cubic, line);
    return k_spline_shift(cubic, tx, sample->elastic_limit);
}

#endif
