/* SPDX-License-Identifier: Apache-2.0
 *
 * From shapes to a photograph: surface colour by texture, light and soft shadows, the softness of a lens, the
 * noise of a sensor. Row by row, so besides the shadows only a few rows of memory are needed.
 */
#include "src/synth/synth.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/rng.h"

enum {
    SHADOW_DEPTH = 92, /* of 256: one shadow takes a third of the light */
    SHADOW_MAX = 150
};

/* ---- shadows: half resolution, painted hard in the order of the shapes, then blurred ---- */

typedef struct shadow_map {
    uint8_t *depth; /* light taken away, of 256 */
    uint32_t width, height;
    uint32_t *sums; /* scratch of the blur, one per column */
    uint8_t *line;
} shadow_map;

/* Adds a shape's shadow to what lies below it, or (no offset) wipes out the shadows that fell on what it now
 * hides. */
static void paint_shadow(shadow_map *map, const stk_synth_shape *s, int32_t dx, int32_t dy, int add)
{
    int32_t crossing[STK_POINTS];
    uint32_t top = stk_first_pixel((int64_t)s->top + dy, map->height, 9),
             bottom = stk_first_pixel((int64_t)s->bottom + dy, map->height, 9);
    for (uint32_t y = top; y < bottom; y++) {
        uint8_t *row = map->depth + (size_t)y * map->width;
        int count = stk_shape_cross(s, (int32_t)y * 512 + 256 - dy, crossing);
        for (int k = 0; k + 1 < count; k += 2) {
            uint32_t from = stk_first_pixel((int64_t)crossing[k] + dx, map->width, 9);
            uint32_t to = stk_first_pixel((int64_t)crossing[k + 1] + dx, map->width, 9);
            for (uint32_t x = from; x < to; x++) {
                int depth = add ? row[x] + SHADOW_DEPTH : 0;
                row[x] = (uint8_t)(depth > SHADOW_MAX ? SHADOW_MAX : depth);
            }
        }
    }
}

static uint32_t clamp_index(int64_t i, uint32_t count)
{
    return i < 0 ? 0 : i >= count ? count - 1 : (uint32_t)i;
}

/* Running means over 2 * radius + 1 pixels: along each row, then down all columns at once. Multiplying by the
 * rounded reciprocal in Q16 costs a tenth of a division. */
static void blur_rows(shadow_map *map, uint32_t radius)
{
    uint32_t scale = 65536 / (2 * radius + 1);
    for (uint32_t y = 0; y < map->height; y++) {
        uint8_t *row = map->depth + (size_t)y * map->width;
        uint32_t sum = 0;
        memcpy(map->line, row, map->width);
        for (int64_t i = -(int64_t)radius; i <= radius; i++) sum += map->line[clamp_index(i, map->width)];
        for (uint32_t x = 0; x < map->width; x++) {
            row[x] = (uint8_t)(sum * scale >> 16);
            sum += map->line[clamp_index((int64_t)x + radius + 1, map->width)];
            sum -= map->line[clamp_index((int64_t)x - radius, map->width)];
        }
    }
}

/* Rows are rewritten in place: the result lags `radius` rows behind the sums, and a ring of `radius` + 1 old
 * rows in `line` keeps what is still to be subtracted. */
static void blur_columns(shadow_map *map, uint32_t radius)
{
    uint32_t scale = 65536 / (2 * radius + 1), ring = radius + 1;
    size_t width = map->width;
    memset(map->sums, 0, width * sizeof *map->sums);
    for (int64_t i = -(int64_t)radius; i <= radius; i++) {
        const uint8_t *row = map->depth + clamp_index(i, map->height) * width;
        for (size_t x = 0; x < width; x++) map->sums[x] += row[x];
    }
    for (uint32_t k = 0; k < ring; k++) memcpy(map->line + k * width, map->depth, width);
    for (uint32_t y = 0; y < map->height; y++) {
        uint8_t *row = map->depth + y * width, *oldest = map->line + y % ring * width;
        /* oldest holds row y - radius - 1: the last step took it out of the sums, its place gets row y. */
        memcpy(oldest, row, width);
        const uint8_t *leaves = map->line + (y + 1) % ring * width; /* row y - radius */
        const uint8_t *enters = map->depth + clamp_index((int64_t)y + radius + 1, map->height) * width;
        for (size_t x = 0; x < width; x++) {
            uint32_t sum = map->sums[x];
            uint8_t coming = enters[x];
            row[x] = (uint8_t)(sum * scale >> 16);
            map->sums[x] = sum + coming - leaves[x];
        }
    }
}

static int shadow_create(shadow_map *map, const stk_synth_scene *scene, stoke_error *err)
{
    uint32_t side = scene->width < scene->height ? scene->width : scene->height;
    uint32_t radius = side / 160 ? side / 160 : 1; /* half pixels: at 512 the edge is 12 pixels soft */
    *map = (shadow_map){ .width = (scene->width + 1) / 2, .height = (scene->height + 1) / 2 };
    map->depth = stk_calloc(map->height, map->width);
    map->sums = stk_calloc(map->width, sizeof *map->sums);
    map->line = stk_calloc(radius + 1, map->width);
    if (!map->depth || !map->sums || !map->line)
        return stk_fail(err, STOKE_E_NOMEM, "out of memory for a scene");
    for (int i = 0; i < scene->count; i++) {
        const stk_synth_shape *s = &scene->shapes[i];
        if (!s->casts_shadow) continue;
        paint_shadow(map, s, scene->shadow_x, scene->shadow_y, 1);
        paint_shadow(map, s, 0, 0, 0);
    }
    for (int pass = 0; pass < 2; pass++) {
        blur_rows(map, radius);
        blur_columns(map, radius);
    }
    return STOKE_OK;
}

/* ---- surfaces ---- */

/* A run of pixels of one shape. The texture is read along a line through the tile; a second look at the
 * cloud, four times as coarse, takes away the repetition. */
static void color_run(const stk_synth_scene *scene, const stk_synth_shape *s, const uint8_t *shade,
                      uint32_t y, uint32_t from, uint32_t to, uint8_t *out)
{
    const uint8_t *tile = stk_texture_tile(s->texture), *cloud = stk_texture_tile(STK_CLOUD);
    int32_t rx = (int32_t)from - s->center_x, ry = (int32_t)y - s->center_y;
    int32_t lx = (int32_t)from - (int32_t)scene->width / 2, ly = (int32_t)y - (int32_t)scene->height / 2;
    uint32_t u = s->start_u + (uint32_t)s->step_u * (uint32_t)rx - (uint32_t)s->step_v * (uint32_t)ry;
    uint32_t v = s->start_v + (uint32_t)s->step_v * (uint32_t)rx + (uint32_t)s->step_u * (uint32_t)ry;
    int64_t light = ((int64_t)scene->light + s->glow - 256) * 65536 + (int64_t)s->slope_x * rx +
                    (int64_t)s->slope_y * ry + (int64_t)scene->light_x * lx + (int64_t)scene->light_y * ly;
    int64_t change = (int64_t)s->slope_x + scene->light_x;
    for (uint32_t x = from; x < to; x++, light += change) {
        uint32_t fine = tile[(v >> 16 & 255) << 8 | (u >> 16 & 255)];
        uint32_t coarse = cloud[(v >> 18 & 255) << 8 | (u >> 18 & 255)];
        const uint8_t *color = s->color[(fine * 3 + coarse) / 4];
        int32_t level = (int32_t)(light >> 16);
        level = (level < 24 ? 24 : level) * (256 - shade[x / 2]) >> 8;
        out[0] = stk_clamp_byte(color[0] * level >> 8);
        out[1] = stk_clamp_byte(color[1] * level >> 8);
        out[2] = stk_clamp_byte(color[2] * level >> 8);
        out += 3;
        u += (uint32_t)s->step_u;
        v += (uint32_t)s->step_v;
    }
}

static void color_row(const stk_synth_scene *scene, const stoke_image *indices, const shadow_map *map,
                      uint32_t y, uint8_t *out)
{
    const uint8_t *index = (const uint8_t *)indices->data + y * indices->stride;
    const uint8_t *shade = map->depth + (size_t)(y / 2) * map->width;
    for (uint32_t from = 0, to; from < scene->width; from = to) {
        for (to = from + 1; to < scene->width && index[to] == index[from];) to++;
        color_run(scene, &scene->shapes[index[from]], shade, y, from, to, out + (size_t)from * 3);
    }
}

/* ---- lens and sensor ---- */

void stk_soften_row(const uint8_t *const rows[3], uint16_t *sums, uint8_t *out, size_t width)
{
    for (size_t i = 0; i < (width + 2) * 3; i++)
        sums[i] = (uint16_t)(rows[0][i] + 2 * rows[1][i] + rows[2][i]);
    for (size_t i = 0; i < width * 3; i++)
        out[i] = (uint8_t)((sums[i] + 2 * sums[i + 3] + sums[i + 6] + 8) >> 4);
}

/* Whole square root, rounded down. */
static uint32_t root(uint32_t n)
{
    uint32_t r = 0;
    for (uint32_t bit = 1u << 15; bit; bit >>= 1)
        if ((r + bit) * (r + bit) <= n) r += bit;
    return r;
}

/* Photons come by chance: the deviation grows with the root of the light, 0.9 + 0.30 sqrt(value) levels. A
 * draw is the sum of two bytes less 255, deviation 104.5: strength = levels * 4096 / 104.5 for a shift by 12.
 */
void stk_noise_strength(uint32_t eighths, uint16_t strength[256])
{
    for (uint32_t v = 0; v < 256; v++)
        strength[v] =
            (uint16_t)((90 * 256 + 30 * root(v * 65536)) * UINT64_C(4096) * eighths / (8 * 2675200));
}

/* One Philox block keys a row; the bytes come from mixing its counter, four samples per 64 bits. */
void stk_noise_row(uint64_t seed, uint64_t index, uint32_t y, uint32_t draw, const uint16_t strength[256],
                   uint8_t *row, uint32_t width)
{
    stk_rng key = stk_philox(seed, index, (uint64_t)y + 1, STK_STREAM_SYNTH, draw);
    uint64_t counter = stk_pair(key.word[0], key.word[1]), bits = 0;
    for (size_t i = 0; i < (size_t)width * 3; i++, bits >>= 16) {
        if (i % 4 == 0) bits = stk_mix64(counter += UINT64_C(0x9e3779b97f4a7c15)); /* odd: every value once */
        int32_t chance = (int32_t)(bits & 255) + (int32_t)(bits >> 8 & 255) - 255;
        row[i] = stk_clamp_byte(row[i] + ((chance * strength[row[i]] + 2048) >> 12));
    }
}

static void render_rows(const stk_synth_scene *scene, const stoke_image *indices, const shadow_map *map,
                        uint8_t *lines, uint16_t *sums, stoke_image *image)
{
    uint16_t strength[256];
    size_t line = ((size_t)scene->width + 2) * 3;
    stk_noise_strength(8, strength);
    for (uint32_t y = 0; y <= scene->height; y++) { /* colours are one row ahead of the lens */
        if (y < scene->height) {
            uint8_t *fresh = lines + y % 3 * line;
            color_row(scene, indices, map, y, fresh + 3);
            memcpy(fresh, fresh + 3, 3); /* the border */
            memcpy(fresh + line - 3, fresh + line - 6, 3);
        }
        if (!y) continue;
        uint32_t above = y > 1 ? y - 2 : 0, below = y < scene->height ? y : scene->height - 1;
        const uint8_t *const rows[3] = { lines + above % 3 * line, lines + (y - 1) % 3 * line,
                                         lines + below % 3 * line };
        uint8_t *out = (uint8_t *)image->data + (size_t)(y - 1) * image->stride;
        stk_soften_row(rows, sums, out, scene->width);
        if (!scene->clean)
            stk_noise_row(scene->noise_seed, scene->index, y - 1, 0, strength, out, scene->width);
    }
}

int stk_photo_render(const stk_synth_scene *scene, const stoke_image *indices, stoke_image *image,
                     stoke_error *err)
{
    shadow_map map;
    size_t line = ((size_t)scene->width + 2) * 3;
    int status = shadow_create(&map, scene, err);
    uint16_t *sums = stk_alloc(line * sizeof *sums);
    uint8_t *lines = stk_alloc(3 * line);
    if (!status && (!sums || !lines)) status = stk_fail(err, STOKE_E_NOMEM, "out of memory for a scene");
    if (!status) render_rows(scene, indices, &map, lines, sums, image);
    stk_free(lines);
    stk_free(sums);
    stk_free(map.depth);
    stk_free(map.sums);
    stk_free(map.line);
    return status;
}
