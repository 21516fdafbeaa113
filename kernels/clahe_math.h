/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of CLAHE, one pixel at a time: src/pix/clahe.c says where it comes from.
 */
#ifndef STOKE_KERNELS_CLAHE_MATH_H
#define STOKE_KERNELS_CLAHE_MATH_H

#include "kernels/tables.h"
#include "kernels/color_math.h"

/* (19595 R + 38470 G + 7471 B) / 65536, rounded: the luma of JPEG in samples of any depth. 65535 * 65536 +
 * 32768 fits 32 bits. */
K_FN k_u32 k_luma(k_u32 r, k_u32 g, k_u32 b)
{
    return (19595u * r + 38470u * g + 7471u * b + 32768u) >> 16;
}

/* A luma of 16 bits to the 256 levels, which are 257 apart. */
K_FN k_u32 k_level_of_luma(k_u32 luma)
{
    return (luma + 128u) / 257u;
}

/* The table of a tile from its histogram; scale = 255 / pixels of the tile. Counts above `limit` (0 = none)
 * are cut off and dealt out evenly; what does not divide goes to every so many-th level. */
K_FN void k_equalise(K_GLOBAL k_u8 *table, K_GLOBAL const k_u32 *count, k_u32 limit, k_f32 scale)
{
    const k_u32 most = limit ? limit : 0xffffffffu;
    k_u32 cut_off = 0, sum = 0, next = 0;
    for (k_u32 i = 0; i < K_LEVELS; i++) cut_off += count[i] > most ? count[i] - most : 0;
    const k_u32 each = cut_off / K_LEVELS;
    k_u32 left = cut_off % K_LEVELS;
    const k_u32 stride = left ? K_LEVELS / left : K_LEVELS; /* at least 1: left < K_LEVELS */
    for (k_u32 i = 0; i < K_LEVELS; i++) {
        sum += (count[i] > most ? most : count[i]) + each;
        if (left && i == next) {
            sum++;
            left--;
            next += stride;
        }
        /* 0 .. 255 and a rounding error, which the clamp takes away. */
        table[i] = (k_u8)k_round_u8(k_clamp((k_f32)sum * scale));
    }
}

/* Which centres of `tiles` tiles pixel `at` of an axis lies between: number k is before centre k. `share` is
 * how much of the later one it takes; inverse = 1 / pixels of a tile. */
K_FN k_u32 k_between_tiles(k_u32 at, k_f32 inverse, k_u32 tiles, k_f32 *share)
{
    const k_f32 t = (k_f32)at * inverse - 0.5f;
    k_i32 whole = (k_i32)t;
    if (t < (k_f32)whole) whole--;
    *share = t - (k_f32)whole;
    const k_u32 k = (k_u32)(whole + 1);
    return k < tiles ? k : tiles;
}

/* The tile before and after place k. */
K_FN k_u32 k_tile_before(k_u32 k)
{
    return k ? k - 1 : 0;
}

K_FN k_u32 k_tile_after(k_u32 k, k_u32 tiles)
{
    return k < tiles ? k : tiles - 1;
}

/* Between the tables of four tiles: bytes of `quad` from low to high are those of the upper left, upper
 * right, lower left and lower right one. */
K_FN k_u32 k_blend_tiles(k_u32 quad, k_f32 across, k_f32 down)
{
    const k_f32 rest = 1.0f - across;
    const k_f32 above = (k_f32)(quad & 0xff) * rest + (k_f32)(quad >> 8 & 0xff) * across;
    const k_f32 below = (k_f32)(quad >> 16 & 0xff) * rest + (k_f32)(quad >> 24) * across;
    return k_round_u8(above * (1.0f - down) + below * down);
}

/* A sample moved by what its luma changes, not below 0 or above `most`. */
K_FN k_u32 k_move(k_u32 sample, k_i32 by, k_i32 most)
{
    const k_i32 v = (k_i32)sample + by;
    return (k_u32)(v < 0 ? 0 : v > most ? most : v);
}

#endif
