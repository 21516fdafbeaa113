/* SPDX-License-Identifier: Apache-2.0
 *
 * Contrast limited adaptive histogram equalisation, in place, of the lightness.
 */
#ifndef STOKE_SRC_PIX_CLAHE_H
#define STOKE_SRC_PIX_CLAHE_H

#include <stddef.h>
#include <stdint.h>

/* A picture whose rows are three runs of `width` samples: R, G, B. */
typedef struct stk_clahe_planar {
    void *data;
    uint32_t width, height;
    uint8_t depth; /* bytes per sample: 1 or 2 */
} stk_clahe_planar;

static inline size_t stk_planar_row_bytes(const stk_clahe_planar *picture)
{
    return (size_t)picture->width * 3 * picture->depth;
}

static inline void *stk_planar_row(const stk_clahe_planar *picture, uint32_t y)
{
    return (uint8_t *)picture->data + y * stk_planar_row_bytes(picture);
}

/* How a picture is cut into n x n tiles, and what the table of a tile is made with. */
typedef struct stk_clahe_cut {
    uint32_t tile_width, tile_height;
    float inverse_width, inverse_height; /* 1 / tile */
    uint32_t limit;                      /* counts are cut at; 0 = not */
    float scale;                         /* 255 / pixels of a tile */
} stk_clahe_cut;
stk_clahe_cut stk_clahe_cut_make(uint32_t width, uint32_t height, float clip, uint32_t tiles);

/* Bytes of scratch for pictures of that width and n x n tiles. */
size_t stk_clahe_bytes(uint32_t width, uint32_t tiles);

/* Equalises the luma Y of `picture` as OpenCV's createCLAHE(clip, (tiles, tiles)) would, and moves R, G and B
 * by the change of Y, clamped. On a grey u8 picture that is OpenCV's result bit for bit. clip 0 = no limit.
 * `scratch` = stk_clahe_bytes, 64-byte aligned. */
void stk_clahe(const stk_clahe_planar *picture, float clip, uint32_t tiles, void *scratch);

#endif
