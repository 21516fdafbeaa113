/* SPDX-License-Identifier: Apache-2.0
 *
 * CLAHE: histograms of tiles, their tables, and every pixel moved by what the tables around it make of its
 * luma. Levels are rounded to samples of the file's depth first, as the host does, which has no floats there.
 */
#ifndef STOKE_KERNELS_CLAHE_H
#define STOKE_KERNELS_CLAHE_H

#include "kernels/clahe_math.h"
#include "kernels/planes.h"
#include "kernels/reflect.h"
#include "kernels/steps.h"

/* A pixel in samples of the file's depth, and the level of its luma. */
typedef struct k_clahe_pixel {
    k_u32 r, g, b, level;
} k_clahe_pixel;

K_FN k_clahe_pixel k_clahe_round(k_pixel p, k_u32 depth)
{
    k_clahe_pixel s;
    s.r = depth == 1 ? k_round_u8(p.r) : k_round_u16(p.r);
    s.g = depth == 1 ? k_round_u8(p.g) : k_round_u16(p.g);
    s.b = depth == 1 ? k_round_u8(p.b) : k_round_u16(p.b);
    s.level = k_luma(s.r, s.g, s.b);
    if (depth == 2) s.level = k_level_of_luma(s.level);
    return s;
}

/* x: columns of the padded picture, which goes on mirrored to the right and below as far as the last tiles
 * need it; y: strips of K_STRIP of its rows. */
K_KERNEL clahe_count(K_GLOBAL k_u32 *counts, K_GLOBAL const k_f32 *planes, K_GLOBAL const k_sample *samples,
                     K_GLOBAL const k_step *steps, const k_shape shape K_ID)
{
    const k_u32 x = k_at(0), first = k_at(1) * K_STRIP, row = k_at(2);
    if (row >= shape.count) return;
    K_GLOBAL const k_step *clahe = k_start_of(samples + row, steps, shape.round, K_CLAHE);
    if (!clahe) return;
    const k_u32 tiles = clahe->tiles, depth = samples[row].depth, height = tiles * clahe->tile_height;
    if (x >= tiles * clahe->tile_width || first >= height) return;
    const k_u32 from_x = k_reflect(x, shape.width), end = height - first > K_STRIP ? first + K_STRIP : height;
    K_GLOBAL k_u32 *upper = counts + ((k_u64)clahe->tables + x / clahe->tile_width) * K_LEVELS;
    for (k_u32 y = first; y < end; y++) {
        const k_pixel p = k_planes_get(planes, &shape, row, from_x, k_reflect(y, shape.height));
        const k_u32 tile = y / clahe->tile_height * tiles;
        k_add_to(upper + tile * K_LEVELS + k_clahe_round(p, depth).level, 1u);
    }
}

/* x, y: tiles. */
K_KERNEL clahe_table(K_GLOBAL k_u8 *tables, K_GLOBAL const k_u32 *counts, K_GLOBAL const k_sample *samples,
                     K_GLOBAL const k_step *steps, const k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (row >= shape.count) return;
    K_GLOBAL const k_step *clahe = k_start_of(samples + row, steps, shape.round, K_CLAHE);
    if (!clahe || x >= clahe->tiles || y >= clahe->tiles) return;
    const k_u64 at = ((k_u64)clahe->tables + y * clahe->tiles + x) * K_LEVELS;
    k_equalise(tables + at, counts + at, clahe->limit, clahe->scale);
}

/* What the tables around pixel (x, y) make of a level. */
K_FN k_u32 k_clahe_level(K_GLOBAL const k_u8 *tables, K_GLOBAL const k_step *clahe, k_u32 level, k_u32 x,
                         k_u32 y)
{
    const k_u32 tiles = clahe->tiles;
    k_f32 across, down;
    const k_u32 i = k_between_tiles(x, clahe->inverse_width, tiles, &across);
    const k_u32 j = k_between_tiles(y, clahe->inverse_height, tiles, &down);
    K_GLOBAL const k_u8 *entry = tables + (k_u64)clahe->tables * K_LEVELS + level;
    const k_u32 left = k_tile_before(i) * K_LEVELS, right = k_tile_after(i, tiles) * K_LEVELS;
    const k_u32 above = k_tile_before(j) * tiles * K_LEVELS,
                below = k_tile_after(j, tiles) * tiles * K_LEVELS;
    const k_u32 quad = (k_u32)entry[above + left] | (k_u32)entry[above + right] << 8 |
                       (k_u32)entry[below + left] << 16 | (k_u32)entry[below + right] << 24;
    return k_blend_tiles(quad, across, down);
}

K_KERNEL clahe_apply(K_GLOBAL k_f32 *planes, K_GLOBAL const k_u8 *tables, K_GLOBAL const k_sample *samples,
                     K_GLOBAL const k_step *steps, const k_shape shape K_ID)
{
    const k_u32 x = k_at(0), y = k_at(1), row = k_at(2);
    if (x >= shape.width || y >= shape.height || row >= shape.count) return;
    K_GLOBAL const k_step *clahe = k_start_of(samples + row, steps, shape.round, K_CLAHE);
    if (!clahe) return;
    const k_u32 depth = samples[row].depth;
    k_pixel p = k_planes_get(planes, &shape, row, x, y);
    const k_clahe_pixel s = k_clahe_round(p, depth);
    const k_i32 by = (k_i32)k_clahe_level(tables, clahe, s.level, x, y) - (k_i32)s.level;
    if (depth == 1) {
        p.r = (k_f32)k_move(s.r, by, 255);
        p.g = (k_f32)k_move(s.g, by, 255);
        p.b = (k_f32)k_move(s.b, by, 255);
    } else {
        p.r = k_level_of_u16(k_move(s.r, by * 257, 65535));
        p.g = k_level_of_u16(k_move(s.g, by * 257, 65535));
        p.b = k_level_of_u16(k_move(s.b, by * 257, 65535));
    }
    k_planes_set(planes, &shape, row, x, y, p);
}

#endif
