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

#include "src/pix/pix_table.h"
#include "src/pix/reflect.h"
#include "kernels/clahe_math.h"

enum { LEVELS = 256 };

/* One axis cut into tiles. */
typedef struct cut {
    uint32_t size, tiles, tile; /* pixels, tiles, pixels of a tile */
    float inverse;              /* 1 / tile */
} cut;

/* Scratch, all of it: what changes with the picture first, then with the row. */
typedef struct work {
    cut across, down;
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
    const size_t table = (size_t)tiles * LEVELS;
    return padded(table * tiles) + 2 * padded((size_t)width * 4) + padded(table * 4) +
           padded((table + LEVELS) * 4) + 2 * padded((size_t)width + tiles);
}

static void *take(uint8_t **scratch, size_t bytes)
{
    void *block = *scratch;
    *scratch += padded(bytes);
    return block;
}

/* ---- luma ---- */

static void luma_u8(uint8_t *luma, const uint8_t *row, size_t n)
{
    for (size_t i = 0; i < n; i++) luma[i] = (uint8_t)k_luma(row[i], row[n + i], row[2 * n + i]);
}

static void luma_u16(uint8_t *luma, const uint16_t *row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        luma[i] = (uint8_t)k_level_of_luma(k_luma(row[i], row[n + i], row[2 * n + i]));
}

static void luma_row(const work *w, const stk_planar *picture, uint32_t y)
{
    const void *row = stk_planar_row(picture, y);
    if (picture->depth == 1)
        luma_u8(w->luma, row, picture->width);
    else
        luma_u16(w->luma, row, picture->width);
}

/* ---- the tables of the tiles ---- */

/* Counts above `limit` are cut off and dealt out evenly; what does not divide goes to every so many-th bin.
 */
static void clip_counts(uint32_t *count, uint32_t limit)
{
    uint32_t cut_off = 0;
    for (int i = 0; i < LEVELS; i++)
        if (count[i] > limit) {
            cut_off += count[i] - limit;
            count[i] = limit;
        }
    const uint32_t each = cut_off / LEVELS;
    uint32_t left = cut_off % LEVELS;
    for (int i = 0; i < LEVELS; i++) count[i] += each;
    if (!left) return;
    const uint32_t step = LEVELS / left; /* at least 1: left < LEVELS */
    for (uint32_t i = 0; i < LEVELS && left; i += step, left--) count[i]++;
}

static void make_lut(uint8_t *lut, uint32_t *count, uint64_t area, float clip)
{
    if (clip > 0) {
        const double limit = (double)clip * (double)area / LEVELS;
        clip_counts(count, limit < 1 ? 1 : limit < (double)area ? (uint32_t)limit : (uint32_t)area);
    }
    const float scale = (float)(LEVELS - 1) / (float)area;
    uint32_t sum = 0;
    for (int i = 0; i < LEVELS; i++) {
        sum += count[i];
        lut[i] = (uint8_t)k_equalised(sum, scale);
    }
}

/* The tables of tile row ty. The picture goes on mirrored to the right and below, as far as the last tiles
 * need it. */
static void make_luts(const work *w, const stk_planar *picture, uint32_t ty, float clip)
{
    const uint32_t tiles = w->across.tiles, width = w->across.tile;
    memset(w->count, 0, (size_t)tiles * LEVELS * sizeof *w->count);
    for (uint32_t j = 0; j < w->down.tile; j++) {
        luma_row(w, picture, stk_reflect((int64_t)ty * w->down.tile + j, w->down.size));
        for (uint64_t x = w->across.size; x < (uint64_t)tiles * width; x++)
            w->luma[x] = w->luma[stk_reflect((int64_t)x, w->across.size)];
        const uint8_t *luma = w->luma;
        for (uint32_t tx = 0; tx < tiles; tx++, luma += width) {
            uint32_t *count = w->count + (size_t)tx * LEVELS;
            for (uint32_t i = 0; i < width; i++) count[luma[i]]++;
        }
    }
    for (uint32_t tx = 0; tx < tiles; tx++)
        make_lut(w->lut + ((size_t)ty * tiles + tx) * LEVELS, w->count + (size_t)tx * LEVELS,
                 (uint64_t)width * w->down.tile, clip);
}

/* ---- between the tables ---- */

static uint32_t place(const cut *axis, uint32_t at, float *share)
{
    return k_between_tiles(at, axis->inverse, axis->tiles, share);
}

/* The four tables around every place across, for pixels at place k down, four bytes of an entry together. */
static void make_quads(const work *w, uint32_t k)
{
    const uint32_t tiles = w->across.tiles;
    const uint8_t *upper = w->lut + (size_t)k_tile_before(k) * tiles * LEVELS;
    const uint8_t *lower = w->lut + (size_t)k_tile_after(k, tiles) * tiles * LEVELS;
    for (uint32_t j = 0; j <= tiles; j++) {
        const size_t left = (size_t)k_tile_before(j) * LEVELS,
                     right = (size_t)k_tile_after(j, tiles) * LEVELS;
        uint32_t *quad = w->quad + (size_t)j * LEVELS;
        for (size_t i = 0; i < LEVELS; i++)
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

static void equalise_row(const work *w, const stk_planar *picture, uint32_t y, float down)
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

static work lay_out(const stk_planar *picture, uint32_t tiles, uint8_t *scratch)
{
    /* When one axis does not divide, both are padded, an axis that divides by one pixel for every tile: an
     * accident of OpenCV that is part of its result. */
    const int whole = picture->width % tiles == 0 && picture->height % tiles == 0;
    const size_t table = (size_t)tiles * LEVELS, columns = (size_t)picture->width * 4;
    work w = { .across = { picture->width, tiles, picture->width / tiles + !whole, 0 },
               .down = { picture->height, tiles, picture->height / tiles + !whole, 0 } };
    w.across.inverse = 1.0f / (float)w.across.tile;
    w.down.inverse = 1.0f / (float)w.down.tile;
    w.lut = take(&scratch, table * tiles);
    w.share = take(&scratch, columns);
    w.column = take(&scratch, columns);
    w.count = take(&scratch, table * 4);
    w.quad = take(&scratch, (table + LEVELS) * 4);
    w.luma = take(&scratch, (size_t)picture->width + tiles);
    w.old = take(&scratch, (size_t)picture->width + tiles);
    for (uint32_t x = 0; x < picture->width; x++) w.column[x] = place(&w.across, x, w.share + x) * LEVELS;
    return w;
}

void stk_clahe(const stk_planar *picture, float clip, uint32_t tiles, void *scratch)
{
    const work w = lay_out(picture, tiles, scratch);
    for (uint32_t ty = 0; ty < tiles; ty++) make_luts(&w, picture, ty, clip);
    uint32_t made = UINT32_MAX;
    for (uint32_t y = 0; y < picture->height; y++) {
        float down;
        const uint32_t k = place(&w.down, y, &down);
        if (k != made) make_quads(&w, k);
        made = k;
        equalise_row(&w, picture, y, down);
    }
}
