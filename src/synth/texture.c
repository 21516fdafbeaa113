/* SPDX-License-Identifier: Apache-2.0
 *
 * Textures and the sine, all by whole-number arithmetic. Each texture is a tile of bytes that repeats without
 * a seam, mean about 128. Computed once (about 20 ms), because per scene they would cost more than the scene.
 */
#include "src/synth/synth.h"

#include <pthread.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/rng.h"

/* One scene into the caller's memory. */

stoke_synth_params stoke_synth_defaults(void)
{
    return (stoke_synth_params){ .struct_size = sizeof(stoke_synth_params),
                                 .count = 64,
                                 .height = 512,
                                 .width = 512,
                                 .classes = 6,
                                 .jpeg_quality = 90,
                                 .scale = 1 };
}

int stk_synth_check(const stoke_synth_params *p, stoke_error *err)
{
    if (p->struct_size != sizeof *p)
        return stk_fail(err, STOKE_E_INVALID,
                        "stoke_synth_params: struct_size is not set, see stoke_synth_defaults");
    if (p->width < 16 || p->width > 16384 || p->height < 16 || p->height > 16384)
        return stk_fail(err, STOKE_E_INVALID, "a scene of %u x %u: sides must be 16 to 16384",
                        (unsigned)p->height, (unsigned)p->width);
    if (p->classes < 2 || p->classes > 255)
        return stk_fail(err, STOKE_E_INVALID, "%u classes: must be 2 to 255", (unsigned)p->classes);
    if (p->jpeg_quality < 1 || p->jpeg_quality > 100)
        return stk_fail(err, STOKE_E_INVALID, "jpeg quality %d: must be 1 to 100", p->jpeg_quality);
    if (p->degrade < STOKE_DEGRADE_NOISE || p->degrade > STOKE_DEGRADE_NONE)
        return stk_fail(err, STOKE_E_INVALID, "degrade %d: there is no such kind", p->degrade);
    if (p->scale < 1 || p->scale > 4)
        return stk_fail(err, STOKE_E_INVALID, "scale %u: must be 1 to 4", (unsigned)p->scale);
    if (!p->restore && p->scale != 1)
        return stk_fail(err, STOKE_E_INVALID, "scale %u is that of targets: set `task` restore",
                        (unsigned)p->scale);
    if (p->width % p->scale || p->height % p->scale)
        return stk_fail(err, STOKE_E_INVALID, "a scene of %u x %u: `scale` %u must divide its sides",
                        (unsigned)p->height, (unsigned)p->width, (unsigned)p->scale);
    if (p->restore && p->degrade == STOKE_DEGRADE_NONE && p->scale == 1)
        return stk_fail(err, STOKE_E_INVALID,
                        "`degrade` none with `scale` 1 leaves nothing to restore: choose another of them");
    return STOKE_OK;
}

static int fits(const stoke_image *image, const stoke_synth_params *p, uint32_t scale, uint8_t channels)
{
    return image->data && image->width == p->width / scale && image->height == p->height / scale &&
           image->channels == channels && image->depth == 1 &&
           image->stride >= (size_t)image->width * channels;
}

/* The picture, and in `mask` the class of every pixel. */
static int draw(const stoke_synth_params *params, uint64_t index, int clean, stoke_image *image,
                stoke_image *mask, stoke_error *err)
{
    stk_synth_scene *scene = stk_alloc(sizeof *scene);
    if (!scene) return stk_fail(err, STOKE_E_NOMEM, "out of memory for a scene");
    stk_scene_invent(scene, params, index);
    scene->clean = clean;
    /* The mask holds indices of shapes until the picture is rendered, then their classes. */
    stk_scene_paint(scene, mask);
    const int status = stk_photo_render(scene, mask, image, err);
    for (uint32_t y = 0; !status && y < mask->height; y++) {
        uint8_t *row = (uint8_t *)mask->data + y * mask->stride;
        for (uint32_t x = 0; x < mask->width; x++) row[x] = scene->shapes[row[x]].class_id;
    }
    stk_free(scene);
    return status;
}

int stoke_synth_draw(const stoke_synth_params *params, uint64_t index, stoke_image *image, stoke_image *mask,
                     stoke_error *err)
{
    int status = stk_synth_check(params, err);
    if (status) return status;
    if (!fits(image, params, 1, 3) || !fits(mask, params, 1, 1))
        return stk_fail(err, STOKE_E_INVALID, "image and mask must be u8, 3 and 1 channels, %u x %u",
                        (unsigned)params->height, (unsigned)params->width);
    return draw(params, index, 0, image, mask, err);
}

int stoke_synth_draw_pair(const stoke_synth_params *params, uint64_t index, stoke_image *image,
                          stoke_image *target, stoke_error *err)
{
    int status = stk_synth_check(params, err);
    if (status) return status;
    if (!params->restore || !fits(image, params, params->scale, 3) || !fits(target, params, 1, 3))
        return stk_fail(err, STOKE_E_INVALID,
                        "target and image must be u8 of 3 channels, %u x %u and %u times smaller",
                        (unsigned)params->height, (unsigned)params->width, (unsigned)params->scale);
    const size_t pixels = (size_t)params->width * params->height;
    stoke_image mask = { stk_alloc(pixels), params->width, params->width, params->height, 1, 1 };
    if (!mask.data) return stk_fail(err, STOKE_E_NOMEM, "out of memory for a scene");
    status = draw(params, index, 1, target, &mask, err);
    stk_free(mask.data);
    return status ? status : stk_degrade(params, index, target, image, err);
}

static uint8_t tiles[STK_TEXTURES][STK_TILE_PIXELS];
static int16_t sine_table[STK_TURN];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A unit vector turned STK_TURN times by one angle unit in Q30. Rounding to nearest keeps the error after a
 * full turn below 2^-20, far under the Q15 that is kept. The two constants are cos and sin of 2 pi / 1024
 * times 2^30. */
static void build_sine(void)
{
    const int64_t step_cos = 1073721611, step_sin = 6588356, half = 1 << 29;
    int64_t c = 1 << 30, s = 0;
    for (int i = 0; i < STK_TURN; i++) {
        int64_t q15 = (s + (1 << 14)) >> 15;
        sine_table[i] = (int16_t)(q15 > 32767 ? 32767 : q15);
        int64_t next = (c * step_cos - s * step_sin + half) >> 30;
        s = (s * step_cos + c * step_sin + half) >> 30;
        c = next;
    }
}

static uint32_t lattice(uint32_t x, uint32_t y, uint32_t salt)
{
    return (uint32_t)(stk_mix64((uint64_t)salt << 32 | y << 16 | x) >> 40);
}

/* Smooth noise 0 .. 255 with one random value every `cell` pixels (a power of two), 3t^2 - 2t^3 between them.
 */
static int32_t value_noise(uint32_t x, uint32_t y, uint32_t cell, uint32_t salt)
{
    uint32_t cells = STK_TILE / cell, x0 = x / cell, y0 = y / cell;
    uint32_t x1 = (x0 + 1) % cells, y1 = (y0 + 1) % cells;
    int32_t tx = (int32_t)(x % cell * 256 / cell), ty = (int32_t)(y % cell * 256 / cell);
    tx = tx * tx * (768 - 2 * tx) >> 16;
    ty = ty * ty * (768 - 2 * ty) >> 16;
    int32_t a = lattice(x0, y0, salt) & 255, b = lattice(x1, y0, salt) & 255;
    int32_t c = lattice(x0, y1, salt) & 255, d = lattice(x1, y1, salt) & 255;
    int32_t upper = a * 256 + (b - a) * tx, lower = c * 256 + (d - c) * tx;
    return (upper * 256 + (lower - upper) * ty) >> 16;
}

/* Octaves from cells of 64 down to 2, each half as strong; stretched, since a sum of octaves stays near its
 * mean. */
static uint8_t cloud(uint32_t x, uint32_t y)
{
    int32_t sum = 0, weight = 32, total = 0;
    for (uint32_t cell = 64; cell >= 2; cell /= 2, weight = weight * 5 / 8) {
        sum += weight * value_noise(x, y, cell, cell);
        total += weight;
    }
    return stk_clamp_byte(128 + (sum / total - 128) * 9 / 4);
}

/* A sine every 32 pixels, bent and roughened by the cloud. */
static uint8_t stripes(uint32_t x, uint32_t y)
{
    int32_t soft = tiles[STK_CLOUD][y * STK_TILE + x];
    return stk_clamp_byte(128 + (stk_sine(x * 32 + (uint32_t)soft * 2) * 90 >> 15) + (soft - 128) / 3);
}

/* Bricks of 64 x 32, every other row shifted by half, each with its own shade; dark joints of 4 pixels. */
static uint8_t bricks(uint32_t x, uint32_t y)
{
    uint32_t row = y / 32, column = (x + row % 2 * 32) / 64 % 4;
    int32_t soft = tiles[STK_CLOUD][y * STK_TILE + x];
    if (y % 32 < 4 || (x + row % 2 * 32) % 64 < 4) return stk_clamp_byte(24 + soft / 4);
    return stk_clamp_byte(110 + (int32_t)(lattice(column, row, 77) % 90) + (soft - 128) / 3);
}

static uint8_t grain(uint32_t x, uint32_t y)
{
    int32_t fine = value_noise(x, y, 4, 91) + value_noise(x, y, 2, 92) - 255;
    return stk_clamp_byte(128 + fine * 3 / 4 + (tiles[STK_CLOUD][y * STK_TILE + x] - 128) / 4);
}

/* Distance to the nearest of one random point per 32 x 32 cell: round stones. */
static uint8_t pebbles(uint32_t x, uint32_t y)
{
    int32_t nearest = 1 << 30;
    for (uint32_t i = 0; i < 9; i++) {
        uint32_t cx = (x / 32 + 7 + i % 3) % 8, cy = (y / 32 + 7 + i / 3) % 8, r = lattice(cx, cy, 55);
        int32_t dx = (int32_t)(x % 32) - ((int32_t)(i % 3) - 1) * 32 - (int32_t)(r & 31);
        int32_t dy = (int32_t)(y % 32) - ((int32_t)(i / 3) - 1) * 32 - (int32_t)(r >> 5 & 31);
        int32_t distance = dx * dx + dy * dy;
        if (distance < nearest) nearest = distance;
    }
    return stk_clamp_byte(228 - nearest * 3 / 5 + (tiles[STK_CLOUD][y * STK_TILE + x] - 128) / 4);
}

static void build(void)
{
    /* The cloud first: the others are roughened by it. */
    static uint8_t (*const makers[STK_TEXTURES])(uint32_t, uint32_t) = { cloud, stripes, bricks, grain,
                                                                         pebbles };
    build_sine();
    for (int kind = 0; kind < STK_TEXTURES; kind++)
        for (uint32_t i = 0; i < STK_TILE_PIXELS; i++)
            tiles[kind][i] = makers[kind](i % STK_TILE, i / STK_TILE);
}

void stk_texture_prepare(void)
{
    pthread_once(&once, build);
}

const uint8_t *stk_texture_tile(stk_synth_texture kind)
{
    return tiles[kind];
}

int32_t stk_sine(uint32_t angle)
{
    return sine_table[angle % STK_TURN];
}
