/* SPDX-License-Identifier: Apache-2.0
 *
 * CLAHE after Zuiderveld, in the variant of OpenCV: the facts that make it bit-equal are how the picture is
 * padded to whole tiles, how clipped counts are dealt out again, and floats in that order of operations.
 *
 * Lightness is the luma of JPEG in 16-bit fixed point: its weights sum to 1, so Y of a grey pixel is the
 * pixel. Lab, which others take, needs cube roots, that is libm or tables, for a difference nobody has shown
 * to matter. 16-bit pictures are equalised by 256 levels too and moved by whole levels (steps of 257): what
 * is below a level is kept, not equalised; histograms of 65536 bins would be almost empty in a tile.
 */
#include "src/pix/clahe.h"

#include <string.h>

#include "kernels/clahe_math.h"
#include "src/pix/pix_table.h"

/* Scratch, all of it: what changes with the picture first, then with the row. */
typedef struct work {
    stk_clahe_cut cut;
    uint32_t tiles;
    uint8_t *lut;     /* of every tile */
    float *share;     /* of every column: how much of the right one of the two tiles it lies between */
    uint32_t *column; /* of every column: which two tiles, as the start of their table in `quad` */
    uint32_t *count;  /* histograms of a row of tiles */
    uint32_t *quad;   /* for every two neighbours across in a row of pixels: see stk_clahe_fn */
    uint8_t *luma;    /* of a row, padded to whole tiles */
    uint8_t *old;     /* the same before it is equalised */
} work;

static size_t padded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t stk_clahe_bytes(uint32_t width, uint32_t tiles)
{
    const size_t table = (size_t)tiles * K_LEVELS;
    return padded(table * tiles) + 2 * padded((size_t)width * 4) + padded(table * 4) +
           padded((table + K_LEVELS) * 4) + 2 * padded((size_t)width + tiles);
}

static void *take(uint8_t **scratch, size_t bytes)
{
    void *block = *scratch;
    *scratch += padded(bytes);
    return block;
}

/* ---- luma ---- */

static void luma_row(const work *w, const stk_clahe_planar *picture, uint32_t y)
{
    const uint8_t *row = stk_planar_row(picture, y);
    const uint16_t *deep = (const uint16_t *)(const void *)row;
    const size_t n = picture->width;
    uint8_t *luma = w->luma;
    if (picture->depth == 1)
        for (size_t i = 0; i < n; i++) luma[i] = (uint8_t)k_luma(row[i], row[n + i], row[2 * n + i]);
    else
        for (size_t i = 0; i < n; i++)
            luma[i] = (uint8_t)k_level_of_luma(k_luma(deep[i], deep[n + i], deep[2 * n + i]));
}

/* ---- the tables of the tiles ---- */

stk_clahe_cut stk_clahe_cut_make(uint32_t width, uint32_t height, float clip, uint32_t tiles)
{
    /* When one axis does not divide, both are padded, an axis that divides by one pixel for every tile: an
     * accident of OpenCV that is part of its result. */
    const int whole = width % tiles == 0 && height % tiles == 0;
    stk_clahe_cut cut = { .tile_width = width / tiles + !whole, .tile_height = height / tiles + !whole };
    const uint64_t area = (uint64_t)cut.tile_width * cut.tile_height;
    const double limit = (double)clip * (double)area / K_LEVELS;
    cut.inverse_width = 1.0f / (float)cut.tile_width;
    cut.inverse_height = 1.0f / (float)cut.tile_height;
    cut.scale = (float)(K_LEVELS - 1) / (float)area;
    if (clip > 0) cut.limit = limit < 1 ? 1 : limit < (double)area ? (uint32_t)limit : (uint32_t)area;
    return cut;
}

/* The tables of tile row ty. The picture goes on mirrored to the right and below, as far as the last tiles
 * need it. */
static void make_luts(const work *w, const stk_clahe_planar *picture, uint32_t ty)
{
    const uint32_t tiles = w->tiles, width = w->cut.tile_width, height = w->cut.tile_height;
    memset(w->count, 0, (size_t)tiles * K_LEVELS * sizeof *w->count);
    for (uint32_t j = 0; j < height; j++) {
        luma_row(w, picture, stk_reflect((int64_t)ty * height + j, picture->height));
        for (uint64_t x = picture->width; x < (uint64_t)tiles * width; x++)
            w->luma[x] = w->luma[stk_reflect((int64_t)x, picture->width)];
        const uint8_t *luma = w->luma;
        for (uint32_t tx = 0; tx < tiles; tx++, luma += width) {
            uint32_t *count = w->count + (size_t)tx * K_LEVELS;
            for (uint32_t i = 0; i < width; i++) count[luma[i]]++;
        }
    }
    for (uint32_t tx = 0; tx < tiles; tx++)
        k_equalise(w->lut + ((size_t)ty * tiles + tx) * K_LEVELS, w->count + (size_t)tx * K_LEVELS,
                   w->cut.limit, w->cut.scale);
}

/* ---- between the tables ---- */

/* The four tables around every place across, for pixels at place k down, four bytes of an entry together. */
static void make_quads(const work *w, uint32_t k)
{
    const uint32_t tiles = w->tiles;
    const uint8_t *upper = w->lut + (size_t)k_tile_before(k) * tiles * K_LEVELS;
    const uint8_t *lower = w->lut + (size_t)k_tile_after(k, tiles) * tiles * K_LEVELS;
    for (uint32_t j = 0; j <= tiles; j++) {
        const size_t left = (size_t)k_tile_before(j) * K_LEVELS,
                     right = (size_t)k_tile_after(j, tiles) * K_LEVELS;
        uint32_t *quad = w->quad + (size_t)j * K_LEVELS;
        for (size_t i = 0; i < K_LEVELS; i++)
            quad[i] = (uint32_t)upper[left + i] | (uint32_t)upper[right + i] << 8 |
                      (uint32_t)lower[left + i] << 16 | (uint32_t)lower[right + i] << 24;
    }
}

/* Moves the samples of a plane by what its luma changes. */
static void move_u8(uint8_t *plane, const uint8_t *luma, const uint8_t *old, size_t n)
{
    for (size_t i = 0; i < n; i++) plane[i] = (uint8_t)k_move(plane[i], luma[i] - old[i], 255);
}

static void move_u16(uint16_t *plane, const uint8_t *luma, const uint8_t *old, size_t n)
{
    for (size_t i = 0; i < n; i++) plane[i] = (uint16_t)k_move(plane[i], (luma[i] - old[i]) * 257, 65535);
}

static void equalise_row(const work *w, const stk_clahe_planar *picture, uint32_t y, float down)
{
    const size_t n = picture->width;
    luma_row(w, picture, y);
    memcpy(w->old, w->luma, n);
    stk_pix()->clahe_row(w->luma, n, w->quad, w->column, w->share, down);
    for (size_t c = 0; c < 3; c++)
        if (picture->depth == 1)
            move_u8((uint8_t *)stk_planar_row(picture, y) + c * n, w->luma, w->old, n);
        else
            move_u16((uint16_t *)stk_planar_row(picture, y) + c * n, w->luma, w->old, n);
}

void stk_clahe_row_c(uint8_t *luma, size_t n, const uint32_t *quad, const uint32_t *column,
                     const float *share, float down)
{
    for (size_t i = 0; i < n; i++)
        luma[i] = (uint8_t)k_blend_tiles(quad[column[i] + luma[i]], share[i], down);
}

static work lay_out(const stk_clahe_planar *picture, float clip, uint32_t tiles, uint8_t *scratch)
{
    const size_t table = (size_t)tiles * K_LEVELS, columns = (size_t)picture->width * 4;
    work w = { .cut = stk_clahe_cut_make(picture->width, picture->height, clip, tiles), .tiles = tiles };
    w.lut = take(&scratch, table * tiles);
    w.share = take(&scratch, columns);
    w.column = take(&scratch, columns);
    w.count = take(&scratch, table * 4);
    w.quad = take(&scratch, (table + K_LEVELS) * 4);
    w.luma = take(&scratch, (size_t)picture->width + tiles);
    w.old = take(&scratch, (size_t)picture->width + tiles);
    for (uint32_t x = 0; x < picture->width; x++)
        w.column[x] = k_between_tiles(x, w.cut.inverse_width, tiles, w.share + x) * K_LEVELS;
    return w;
}

void stk_clahe(const stk_clahe_planar *picture, float clip, uint32_t tiles, void *scratch)
{
    const work w = lay_out(picture, clip, tiles, scratch);
    for (uint32_t ty = 0; ty < tiles; ty++) make_luts(&w, picture, ty);
    uint32_t made = UINT32_MAX;
    for (uint32_t y = 0; y < picture->height; y++) {
        float down;
        const uint32_t k = k_between_tiles(y, w.cut.inverse_height, tiles, &down);
        if (k != made) make_quads(&w, k);
        made = k;
        equalise_row(&w, picture, y, down);
    }
}
