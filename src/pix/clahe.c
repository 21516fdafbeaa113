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

#include "src/pix/reflect.h"
#include "src/pix/touch_math.h"

enum { LEVELS = 256 };

/* One axis cut into tiles. */
typedef struct cut {
    uint32_t size, tiles, tile; /* pixels, tiles, pixels of a tile */
    float inverse;              /* 1 / tile */
} cut;

/* Where a pixel lies between the centres of two tiles. */
typedef struct between {
    uint32_t first, second;
    float share; /* of the second */
} between;

static inline uint32_t luma(const uint8_t *row, size_t x, uint8_t depth)
{
    uint32_t r, g, b;
    if (depth == 1) {
        const uint8_t *p = row + x * 3;
        r = p[0], g = p[1], b = p[2];
    } else {
        const uint16_t *p = (const uint16_t *)row + x * 3;
        r = p[0], g = p[1], b = p[2];
    }
    const uint32_t y =
        (uint32_t)(((uint64_t)19595 * r + (uint64_t)38470 * g + (uint64_t)7471 * b + 32768) >> 16);
    return depth == 1 ? y : (y + 128) / 257;
}

static const uint8_t *row_of(const stoke_image *picture, uint32_t y)
{
    return (const uint8_t *)picture->data + (size_t)y * picture->stride;
}

/* ---- the table of a tile ---- */

/* Counts above `limit` are cut off and dealt out evenly; what does not divide goes to every so many-th bin.
 */
static void clip_counts(uint32_t count[LEVELS], uint32_t limit)
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

/* The picture goes on mirrored to the right and below, as far as the last tiles need it. */
static void tile_lut(const stoke_image *picture, const cut *across, const cut *down, uint32_t tx, uint32_t ty,
                     float clip, uint8_t *lut)
{
    uint32_t count[LEVELS] = { 0 };
    for (uint32_t j = 0; j < down->tile; j++) {
        const uint8_t *row = row_of(picture, stk_reflect((int64_t)ty * down->tile + j, down->size));
        const uint64_t first = (uint64_t)tx * across->tile;
        for (uint32_t i = 0; i < across->tile; i++) {
            const uint64_t x = first + i;
            const size_t at = x < across->size ? x : stk_reflect((int64_t)x, across->size);
            count[luma(row, at, picture->depth)]++;
        }
    }
    const uint64_t area = (uint64_t)across->tile * down->tile;
    if (clip > 0) {
        const double limit = (double)clip * (double)area / LEVELS;
        clip_counts(count, limit < 1 ? 1 : limit < (double)area ? (uint32_t)limit : (uint32_t)area);
    }
    const float scale = (float)(LEVELS - 1) / (float)area;
    uint32_t sum = 0;
    for (int i = 0; i < LEVELS; i++) {
        sum += count[i];
        const float value = (float)sum * scale; /* 0 .. 255 and a rounding error */
        lut[i] = (uint8_t)stk_float_bits(stk_clamp(value) + STK_ROUND_MAGIC);
    }
}

/* ---- between the tables ---- */

static between place(const cut *axis, uint32_t at)
{
    const float t = (float)at * axis->inverse - 0.5f;
    int32_t floor = (int32_t)t;
    if (t < (float)floor) floor--;
    const uint32_t second = (uint32_t)(floor + 1), last = axis->tiles - 1;
    return (between){ floor < 0 ? 0 : (uint32_t)floor, second < last ? second : last, t - (float)floor };
}

static inline int32_t equalised(const uint8_t *upper, const uint8_t *lower, between x, uint32_t y,
                                float share)
{
    const size_t first = (size_t)x.first * LEVELS + y, second = (size_t)x.second * LEVELS + y;
    const float rest = 1.0f - x.share;
    const float above = (float)upper[first] * rest + (float)upper[second] * x.share;
    const float below = (float)lower[first] * rest + (float)lower[second] * x.share;
    return (int32_t)(stk_float_bits(above * (1.0f - share) + below * share + STK_ROUND_MAGIC) & 0xff);
}

static inline int32_t clamp_to(int32_t value, int32_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static void equalise_row(const stoke_image *picture, uint32_t y, const cut *across, const cut *down,
                         const uint8_t *lut)
{
    const between v = place(down, y);
    const uint8_t *upper = lut + (size_t)v.first * across->tiles * LEVELS;
    const uint8_t *lower = lut + (size_t)v.second * across->tiles * LEVELS;
    uint8_t *row = (uint8_t *)picture->data + (size_t)y * picture->stride;
    for (uint32_t x = 0; x < picture->width; x++) {
        const uint32_t old = luma(row, x, picture->depth);
        const int32_t change = equalised(upper, lower, place(across, x), old, v.share) - (int32_t)old;
        for (size_t i = (size_t)x * 3; i < (size_t)x * 3 + 3; i++)
            if (picture->depth == 1)
                row[i] = (uint8_t)clamp_to(row[i] + change, 255);
            else
                ((uint16_t *)row)[i] = (uint16_t)clamp_to(((uint16_t *)row)[i] + change * 257, 65535);
    }
}

void stk_clahe(const stoke_image *picture, float clip, uint32_t tiles, uint8_t *lut)
{
    /* When one axis does not divide, both are padded, an axis that divides by one pixel for every tile: an
     * accident of OpenCV that is part of its result. */
    const int whole = picture->width % tiles == 0 && picture->height % tiles == 0;
    cut across = { picture->width, tiles, picture->width / tiles + !whole, 0 };
    cut down = { picture->height, tiles, picture->height / tiles + !whole, 0 };
    across.inverse = 1.0f / (float)across.tile;
    down.inverse = 1.0f / (float)down.tile;
    for (uint32_t ty = 0; ty < tiles; ty++)
        for (uint32_t tx = 0; tx < tiles; tx++)
            tile_lut(picture, &across, &down, tx, ty, clip, lut + ((size_t)ty * tiles + tx) * LEVELS);
    for (uint32_t y = 0; y < picture->height; y++) equalise_row(picture, y, &across, &down, lut);
}
