/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the elastic displacement: a uniform cubic B-spline over random control points. Four rows
 * of points are weighted into one, and a cell of that one is a cubic in x, by Horner's rule. Read by the host
 * too (src/pix/elastic.c): single operations in the order written, and the last step cuts towards zero, so
 * that every machine has the same integers.
 */
#ifndef STOKE_KERNELS_SPLINE_H
#define STOKE_KERNELS_SPLINE_H

#include "kernels/compat.h"

/* A control point: uniform in (-alpha, alpha), from 23 random bits and a one below them, so that there is no
 * zero and no side. */
K_FN k_f32 k_spline_point(k_u32 word, k_f32 alpha)
{
    return (k_f32)((k_i32)(word >> 9) * 2 + 1 - (1 << 23)) * (1.0f / 8388608.0f) * alpha;
}

/* Cell of a column or row, and the place in it: 0 <= t < 1. */
K_FN k_u32 k_spline_cell(k_u32 at, k_f32 spacing, k_f32 *t)
{
    const k_f32 cells = (k_f32)at / spacing;
    const k_u32 cell = (k_u32)cells;
    *t = cells - (k_f32)cell;
    return cell;
}

/* Weights of the four points around t. */
K_FN void k_spline_weights(k_f32 weight[4], k_f32 t)
{
    const k_f32 s = 1 - t, t2 = t * t, t3 = t2 * t;
    weight[0] = s * s * s * (1.0f / 6);
    weight[1] = (3 * t3 - 6 * t2 + 4) * (1.0f / 6);
    weight[3] = t3 * (1.0f / 6);
    weight[2] = 1 - weight[0] - weight[1] - weight[3];
}

K_FN k_f32 k_spline_weigh(const k_f32 weight[4], k_f32 a, k_f32 b, k_f32 c, k_f32 d)
{
    return weight[0] * a + weight[1] * b + weight[2] * c + weight[3] * d;
}

/* The cubic of the cell with the points p, in 1/65536 px: a[0] + a[1] t + a[2] t^2 + a[3] t^3. */
K_FN void k_spline_cubic(k_f32 a[4], const k_f32 p[4])
{
    a[0] = (p[0] + 4 * p[1] + p[2]) * (65536.0f / 6);
    a[1] = (p[2] - p[0]) * (65536.0f / 2);
    a[2] = (p[0] - 2 * p[1] + p[2]) * (65536.0f / 2);
    a[3] = (p[3] - p[0] + 3 * (p[1] - p[2])) * (65536.0f / 6);
}

/* At t. The spline lies within its points, but its rounding errors might not: `limit` is alpha. */
K_FN k_i32 k_spline_shift(const k_f32 a[4], k_f32 t, k_i32 limit)
{
    const k_i32 v = (k_i32)(((a[3] * t + a[2]) * t + a[1]) * t + a[0]);
    return v > limit ? limit : v < -limit ? -limit : v;
}

#endif
