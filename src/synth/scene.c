/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a scene: ground, often a sky above hills, and 5 to 12 things. A class has one kind of outline,
 * one hue and one texture, so that a network can learn it; size, place, turn, shade and light are random.
 */
#include "src/synth/synth.h"

#include <string.h>

#include "src/base/rng.h"

/* A row of draws: words of Philox blocks in order. */
typedef struct dice {
    uint64_t seed, index;
    uint32_t block, used;
    stk_rng words;
} dice;

static uint32_t roll(dice *d)
{
    if (d->used % 4 == 0) d->words = stk_philox(d->seed, d->index, 0, STK_STREAM_SYNTH, d->block++);
    return d->words.word[d->used++ % 4];
}

/* Uniform in [low, high]. */
static int32_t between(dice *d, int32_t low, int32_t high)
{
    return low + (int32_t)((uint64_t)roll(d) * (uint64_t)(high - low + 1) >> 32);
}

/* ---- colour ---- */

/* hue 0 .. 1535 (red, yellow, green, cyan, blue, magenta), saturation and value 0 .. 255. */
static void hue_color(int32_t hue, int32_t saturation, int32_t value, int32_t rgb[3])
{
    hue = ((hue % 1536) + 1536) % 1536;
    for (int c = 0; c < 3; c++) {
        /* Distance on the circle from the channel's own hue: full within a sixth, none beyond a third. */
        int32_t away = (hue - c * 512 + 1536) % 1536;
        if (away > 768) away = 1536 - away;
        int32_t pure = away <= 256 ? 255 : away >= 512 ? 0 : 511 - away;
        rgb[c] = value * (255 - saturation * (255 - pure) / 255) / 255;
    }
}

/* Colours by texture value: from `dark` to `light`. */
static void fill_colors(stk_synth_shape *s, const int32_t dark[3], const int32_t light[3])
{
    for (int t = 0; t < 256; t++)
        for (int c = 0; c < 3; c++) s->color[t][c] = (uint8_t)((dark[c] * (255 - t) + light[c] * t) / 255);
}

static void random_surface(dice *d, stk_synth_shape *s, stk_synth_texture texture)
{
    uint32_t angle = (uint32_t)between(d, 0, STK_TURN - 1);
    int32_t scale = between(d, 45000, 88000); /* Q16 texture pixels per pixel: 0.7 .. 1.35 */
    s->texture = texture;
    s->step_u = (int32_t)((int64_t)scale * stk_cosine(angle) >> 15);
    s->step_v = (int32_t)((int64_t)scale * stk_sine(angle) >> 15);
    s->start_u = roll(d);
    s->start_v = roll(d);
    s->glow = between(d, 225, 290);
}

/* ---- outlines ---- */

static void add_point(stk_synth_shape *s, int32_t x, int32_t y)
{
    s->x[s->points] = x;
    s->y[s->points] = y;
    if (!s->points || y < s->top) s->top = y;
    if (!s->points || y > s->bottom) s->bottom = y;
    s->points++;
}

/* A point at (dx, dy) Q8 from the centre of a shape turned by `turn`. */
static void add_turned(stk_synth_shape *s, int64_t dx, int64_t dy, uint32_t turn)
{
    int64_t c = stk_cosine(turn), n = stk_sine(turn);
    add_point(s, s->center_x * 256 + (int32_t)((dx * c - dy * n) >> 15),
              s->center_y * 256 + (int32_t)((dx * n + dy * c) >> 15));
}

/* 64 corners: the sides leave the true curve by 0.12 % of the radius, 0.1 pixel at 100. */
static void add_oval(stk_synth_shape *s, int64_t rx, int64_t ry, uint32_t turn)
{
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t angle = i * (STK_TURN / 64);
        add_turned(s, rx * stk_cosine(angle) >> 15, ry * stk_sine(angle) >> 15, turn);
    }
}

/* `corners` points around the centre, each at its own radius. */
static void add_spokes(dice *d, stk_synth_shape *s, int64_t radius, int corners, int inner_percent,
                       int loose_percent, uint32_t turn)
{
    for (int i = 0; i < corners; i++) {
        uint32_t angle = (uint32_t)(i * STK_TURN / corners);
        int64_t percent = i % 2 && inner_percent ? inner_percent : between(d, 100 - loose_percent, 100);
        int64_t r = radius * percent / 100;
        add_turned(s, r * stk_cosine(angle) >> 15, r * stk_sine(angle) >> 15, turn);
    }
}

enum { OVAL, BOX, POLYGON, STAR, RING, FAMILIES };

static void outline(dice *d, stk_synth_shape *s, int family, int32_t radius)
{
    uint32_t turn = (uint32_t)between(d, 0, STK_TURN - 1);
    int64_t r = (int64_t)radius * 256, w, h;
    switch (family) {
    case OVAL: add_oval(s, r, r * between(d, 50, 92) / 100, turn); break;
    case BOX:
        w = r * 9 / 10;
        h = r * between(d, 40, 90) / 100;
        for (int i = 0; i < 4; i++) add_turned(s, i == 0 || i == 3 ? -w : w, i < 2 ? -h : h, turn);
        break;
    case POLYGON: add_spokes(d, s, r, between(d, 5, 8), 0, 25, turn); break;
    case STAR:
        w = between(d, 5, 7); /* one draw per statement: the order of arguments is the compiler's */
        h = between(d, 42, 52);
        add_spokes(d, s, r, 2 * (int)w, (int)h, 6, turn);
        break;
    default: /* RING */
        w = between(d, 75, 100);
        h = between(d, 48, 64);
        add_oval(s, r, r * w / 100, turn);
        s->split = s->points;
        add_oval(s, r * h / 100, r * w / 100 * h / 100, turn);
    }
    if (family != RING) s->split = s->points;
}

/* ---- shapes ---- */

/* The hue of a class: golden-section steps around the circle, so any first n classes are spread out. Family
 * and texture have the same period, shifted by one each round: 25 classes before a pair repeats. */
static void invent_thing(dice *d, stk_synth_scene *scene, stk_synth_shape *s, uint32_t classes)
{
    uint32_t id = (uint32_t)between(d, 1, (int32_t)classes - 1), kind = id - 1;
    int32_t side = (int32_t)(scene->width < scene->height ? scene->width : scene->height);
    int32_t radius = side * between(d, 60, 200) / 1000 + 2,
            hue = (int32_t)(kind * 949 % 1536) + between(d, -45, 45);
    int32_t dark[3], light[3];
    s->class_id = (uint8_t)id;
    s->casts_shadow = 1;
    s->center_x = between(d, 0, (int32_t)scene->width - 1);
    s->center_y = between(d, 0, (int32_t)scene->height - 1);
    outline(d, s, (int)(kind % FAMILIES), radius);
    random_surface(d, s, (stk_synth_texture)((kind + kind / FAMILIES) % STK_TEXTURES));
    int32_t saturation = between(d, 150, 215), value = between(d, 170, 240);
    hue_color(hue + between(d, -30, 30), saturation, value * 11 / 20, dark);
    hue_color(hue, saturation * 4 / 5, value, light);
    fill_colors(s, dark, light);
    /* Lit from where the shadow points away: up to a quarter brighter or darker at the rim. */
    int64_t slope = (int64_t)between(d, 25, 60) * 65536 / radius;
    s->slope_x = -(int32_t)(slope * stk_cosine(scene->sun) >> 15);
    s->slope_y = -(int32_t)(slope * stk_sine(scene->sun) >> 15);
}

/* Earth, grass, sand, stone: weak colours, so that things stand out. */
static void invent_ground(dice *d, stk_synth_scene *scene, stk_synth_shape *s)
{
    static const int16_t hues[4] = { 130, 330, 200, 900 }, saturations[4] = { 90, 95, 75, 22 };
    int kind = between(d, 0, 3), value = between(d, 120, 190);
    int32_t dark[3], light[3], right = (int32_t)scene->width * 256, bottom = (int32_t)scene->height * 256;
    add_point(s, 0, 0);
    add_point(s, right, 0);
    add_point(s, right, bottom);
    add_point(s, 0, bottom);
    s->split = s->points;
    s->center_x = (int32_t)scene->width / 2;
    s->center_y = (int32_t)scene->height / 2;
    random_surface(d, s, kind == 3 ? STK_PEBBLES : kind == 1 ? STK_GRAIN : STK_CLOUD);
    hue_color(hues[kind] + between(d, -40, 40), saturations[kind], value / 2, dark);
    hue_color(hues[kind] + between(d, -40, 40), saturations[kind] * 3 / 4, value, light);
    fill_colors(s, dark, light);
    s->slope_y = (int32_t)(between(d, 0, 70) * 65536 / (int32_t)scene->height); /* nearer is brighter */
}

/* Everything above a line of hills. Background, like the ground. */
static void invent_sky(dice *d, stk_synth_scene *scene, stk_synth_shape *s)
{
    int32_t dark[3], light[3], height = (int32_t)scene->height * 256, width = (int32_t)scene->width * 256;
    int32_t level = height * between(d, 12, 30) / 64, rough = height / between(d, 12, 40);
    const int steps = 24;
    s->center_x = (int32_t)scene->width / 2;
    s->center_y = level / 256;
    add_point(s, 0, 0);
    add_point(s, width, 0);
    int32_t drift = 0;
    for (int i = 0; i <= steps; i++) {
        drift = drift * 3 / 4 + between(d, -rough, rough) / 2;
        add_point(s, (int32_t)(width - (int64_t)width * i / steps), level + drift);
    }
    s->split = s->points;
    random_surface(d, s, STK_CLOUD);
    s->step_u = s->step_u / 3; /* clouds are large and lie flat */
    s->step_v = s->step_v / 5;
    int32_t hue = between(d, 860, 960), value = between(d, 190, 245);
    hue_color(hue, between(d, 60, 130), value * 9 / 10, dark);
    hue_color(hue, 14, value, light);
    fill_colors(s, dark, light);
    s->slope_y = (int32_t)(between(d, 20, 60) * 65536 / (int32_t)scene->height);
}

static void invent_light(dice *d, stk_synth_scene *scene)
{
    int32_t side = (int32_t)(scene->width < scene->height ? scene->width : scene->height);
    uint32_t sun = (uint32_t)between(d, 0, STK_TURN - 1);
    int64_t reach = (int64_t)side * 256 * between(d, 14, 40) / 1000,
            fall = between(d, 10, 70); /* Q8 at the edge */
    scene->sun = sun;
    scene->shadow_x = (int32_t)(reach * stk_cosine(sun) >> 15);
    scene->shadow_y = (int32_t)(reach * stk_sine(sun) >> 15);
    scene->light = between(d, 215, 280);
    scene->light_x = -(int32_t)(fall * 2 * 65536 / (int32_t)scene->width * stk_cosine(sun) >> 15);
    scene->light_y = -(int32_t)(fall * 2 * 65536 / (int32_t)scene->height * stk_sine(sun) >> 15);
}

void stk_scene_invent(stk_synth_scene *scene, const stoke_synth_params *params, uint64_t index)
{
    dice d = { .seed = params->seed, .index = index };
    stk_texture_prepare();
    memset(scene, 0, sizeof *scene);
    scene->width = params->width;
    scene->height = params->height;
    scene->noise_seed = params->seed;
    scene->index = index;
    invent_light(&d, scene);
    invent_ground(&d, scene, &scene->shapes[scene->count++]);
    if (between(&d, 0, 99) < 60) invent_sky(&d, scene, &scene->shapes[scene->count++]);
    for (int things = between(&d, 5, 12); things > 0; things--)
        invent_thing(&d, scene, &scene->shapes[scene->count++], params->classes);
}

/* ---- mask ---- */

int stk_shape_cross(const stk_synth_shape *s, int32_t y, int32_t *crossing)
{
    int count = 0;
    if (y < s->top || y > s->bottom) return 0;
    for (int i = 0; i < s->points; i++) {
        int next = i + 1 == s->split ? 0 : i + 1 == s->points ? (s->split < s->points ? s->split : 0) : i + 1;
        int32_t y0 = s->y[i], y1 = s->y[next];
        if ((y0 <= y) == (y1 <= y)) continue; /* half open: a corner on the line counts once */
        /* Rounded up: a pixel centre is a whole number of Q8, so it lies beyond the true crossing exactly
         * when it lies beyond this one. */
        int64_t rise = y1 - y0, run = (int64_t)(y - y0) * (s->x[next] - s->x[i]);
        if (rise < 0) rise = -rise, run = -run;
        int32_t x = s->x[i] + (int32_t)(run > 0 ? (run + rise - 1) / rise : run / rise);
        int k = count++;
        for (; k > 0 && crossing[k - 1] > x; k--) crossing[k] = crossing[k - 1];
        crossing[k] = x;
    }
    return count;
}

void stk_scene_paint(const stk_synth_scene *scene, stoke_image *indices)
{
    int32_t crossing[STK_POINTS];
    for (int i = 0; i < scene->count; i++) {
        const stk_synth_shape *s = &scene->shapes[i];
        uint32_t top = stk_first_pixel(s->top, scene->height, 8),
                 bottom = stk_first_pixel(s->bottom, scene->height, 8);
        for (uint32_t y = top; y < bottom; y++) {
            uint8_t *row = (uint8_t *)indices->data + y * indices->stride;
            int count = stk_shape_cross(s, (int32_t)y * 256 + 128, crossing);
            for (int k = 0; k + 1 < count; k += 2) {
                uint32_t from = stk_first_pixel(crossing[k], scene->width, 8),
                         to = stk_first_pixel(crossing[k + 1], scene->width, 8);
                if (to > from) memset(row + from, i, to - from);
            }
        }
    }
}
