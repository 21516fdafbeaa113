/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic scenes. A scene is a list of shapes from bottom to top (the ground and the sky are shapes too);
 * scene.c invents the list and paints the mask, photo.c turns both into a picture, and degrade.c makes a
 * worse one of that.
 *
 * The bytes must be the same on every machine, so there is no libm here (glibc's sinf and expf differ by
 * processor) and no float: fixed point throughout. "Qn" means n bits behind the point.
 */
#ifndef STOKE_SRC_SYNTH_SYNTH_H
#define STOKE_SRC_SYNTH_SYNTH_H

#include <stoke/tools/synth.h>

enum {
    STK_TILE = 256, /* textures are TILE x TILE and repeat */
    STK_TILE_PIXELS = STK_TILE * STK_TILE,
    STK_TURN = 1024, /* angle units of a full turn */
    STK_POINTS = 128,
    STK_SHAPES = 24
};

typedef enum stk_synth_texture {
    STK_CLOUD,
    STK_STRIPES,
    STK_BRICKS,
    STK_GRAIN,
    STK_PEBBLES,
    STK_TEXTURES
} stk_synth_texture;

/* Builds 320 KB of textures and a sine, once per process; constant afterwards. Call it before the next three.
 */
void stk_texture_prepare(void);
const uint8_t *stk_texture_tile(stk_synth_texture kind);
int32_t stk_sine(uint32_t angle); /* Q15; angle in STK_TURN-ths of a turn, any value */
static inline int32_t stk_cosine(uint32_t angle)
{
    return stk_sine(angle + STK_TURN / 4);
}

static inline uint8_t stk_clamp_byte(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* First pixel whose centre lies at or right of x, within 0 .. width. x has `bits` bits behind the point of a
 * pixel: 8, or 9 for pixels of twice the size. */
static inline uint32_t stk_first_pixel(int64_t x, uint32_t width, int bits)
{
    const int64_t pixel = (x + (1 << (bits - 1)) - 1) >> bits;
    return pixel < 0 ? 0 : pixel > width ? width : (uint32_t)pixel;
}

/* One or two closed outlines, filled even-odd (a ring is two circles), and how the surface looks. */
typedef struct stk_synth_shape {
    int32_t x[STK_POINTS], y[STK_POINTS]; /* Q8 pixels */
    int points, split;   /* the second outline starts at `split`; split = points: there is none */
    int32_t top, bottom; /* Q8 */
    uint8_t class_id, casts_shadow;
    stk_synth_texture texture;
    int32_t center_x, center_y; /* pixels */
    int32_t step_u, step_v;     /* Q16 texture pixels per pixel; (v, u) runs at right angles to it */
    uint32_t start_u, start_v;
    int32_t slope_x, slope_y; /* Q16 brightness per pixel from the centre */
    int32_t glow;             /* Q8, 256 = as lit */
    uint8_t color[256][3];    /* by texture value */
} stk_synth_shape;

typedef struct stk_synth_scene {
    uint32_t width, height;
    int count;
    uint32_t sun;                    /* angle the light travels in */
    int32_t shadow_x, shadow_y;      /* Q8 pixels */
    int32_t light, light_x, light_y; /* Q8 at the centre, Q16 per pixel */
    uint64_t noise_seed, index;
    int clean; /* no noise of a sensor */
    stk_synth_shape shapes[STK_SHAPES];
} stk_synth_scene;

/* Refuses params out of range. */
int stk_synth_check(const stoke_synth_params *params, stoke_error *err);

/* Invents scene `index` of a set. */
void stk_scene_invent(stk_synth_scene *scene, const stoke_synth_params *params, uint64_t index);

/* Where the outline crosses the horizontal line at `y` (Q8), rounded up, ascending; crossing[STK_POINTS].
 * Returns their number, always even: the shape lies between each pair. */
int stk_shape_cross(const stk_synth_shape *shape, int32_t y, int32_t *crossing);

/* Index of the topmost shape at each pixel centre. */
void stk_scene_paint(const stk_synth_scene *scene, stoke_image *indices);

/* Renders the picture from the painted indices. */
int stk_photo_render(const stk_synth_scene *scene, const stoke_image *indices, stoke_image *image,
                     stoke_error *err);

/* A lens: 1 2 1 in both directions. `rows` are the row above, the row, the row below; each has a pixel of
 * border left and right. sums: room for (width + 2) * 3. */
void stk_soften_row(const uint8_t *const rows[3], uint16_t *sums, uint8_t *out, size_t width);
/* A sensor: noise by value, in eighths of what a good camera has (4 levels in the middle of the range). */
void stk_noise_strength(uint32_t eighths, uint16_t strength[256]);
/* Adds it to row y; another `draw` is other noise. */
void stk_noise_row(uint64_t seed, uint64_t index, uint32_t y, uint32_t draw, const uint16_t strength[256],
                   uint8_t *row, uint32_t width);

/* Makes the picture of a pair from its target. */
int stk_degrade(const stoke_synth_params *params, uint64_t index, const stoke_image *target,
                const stoke_image *image, stoke_error *err);

#endif
