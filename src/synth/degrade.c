/* SPDX-License-Identifier: Apache-2.0
 *
 * From a clean picture to what a worse camera would have taken: lens (blur), fewer pixels (scale), less
 * light, sensor (noise), in that order. How much of each is drawn for every scene.
 */
#include "src/synth/synth.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/rng.h"

enum {
    NOISE = 1,
    BLUR = 2,
    DARK = 4,
    NOISE_DRAW = 1,        /* of a row's noise: the picture's own has 0 */
    LEVELS_ROW = INT32_MAX /* no row of pixels: its draw says how much of what */
};

/* What happens to a scene. */
typedef struct harm {
    uint32_t noise;  /* eighths of what a good camera has */
    uint32_t passes; /* of 1 2 1; their sigma is the root of half their number */
    uint32_t light;  /* of 256 */
} harm;

static uint32_t within(uint32_t word, uint32_t low, uint32_t high)
{
    return low + (uint32_t)((uint64_t)word * (high - low + 1) >> 32);
}

/* Noise of 13 to 30 levels in the middle of the range, blur of sigma 1.2 to 2.2 with a level of noise, a
 * seventh to two fifths of the light with half to all of the usual noise. mix has one, two or all three; in
 * the dark, where less is left of the picture, half of the noise. */
static harm draw_harm(const stoke_synth_params *p, uint64_t index)
{
    static const uint32_t kinds[] = {
        [STOKE_DEGRADE_NOISE] = NOISE, [STOKE_DEGRADE_BLUR] = BLUR, [STOKE_DEGRADE_DARK] = DARK
    };
    const stk_rng r = stk_philox(p->seed, index, LEVELS_ROW, STK_STREAM_SYNTH, 0);
    harm h = { 0, 0, 256 };
    uint32_t what = 0;
    if (p->degrade == STOKE_DEGRADE_MIX)
        what = within(r.word[0], 1, NOISE | BLUR | DARK);
    else if (p->degrade != STOKE_DEGRADE_NONE)
        what = kinds[p->degrade];
    if (what & NOISE)
        h.noise = within(r.word[1], 24, 56) / (what & DARK ? 2 : 1);
    else if (what & DARK)
        h.noise = within(r.word[1], 4, 8);
    else if (what & BLUR)
        h.noise = 2;
    if (what & BLUR) h.passes = within(r.word[2], 3, 10);
    if (what & DARK) h.light = within(r.word[3], 38, 100);
    return h;
}

static uint8_t *row_of(const stoke_image *image, uint32_t y)
{
    return (uint8_t *)image->data + (size_t)y * image->stride;
}

/* A row with a pixel of border left and right. */
static void take_line(const stoke_image *image, uint32_t y, uint8_t *line)
{
    const size_t bytes = (size_t)image->width * 3;
    memcpy(line + 3, row_of(image, y), bytes);
    memcpy(line, line + 3, 3);
    memcpy(line + 3 + bytes, line + bytes, 3);
}

/* One pass of 1 2 1 in place: three rows are kept as they were. */
static void blur_once(const stoke_image *image, uint8_t *lines, uint16_t *sums)
{
    const size_t line = ((size_t)image->width + 2) * 3;
    take_line(image, 0, lines);
    for (uint32_t y = 0; y < image->height; y++) {
        const uint32_t above = y ? y - 1 : 0, below = y + 1 < image->height ? y + 1 : y;
        if (below > y) take_line(image, below, lines + below % 3 * line);
        const uint8_t *const rows[3] = { lines + above % 3 * line, lines + y % 3 * line,
                                         lines + below % 3 * line };
        stk_soften_row(rows, sums, row_of(image, y), image->width);
    }
}

/* The mean of scale x scale pixels, rounded. */
static void shrink_row(const stoke_image *from, uint32_t scale, uint32_t y, uint8_t *out, uint32_t width)
{
    const uint32_t n = scale * scale;
    for (uint32_t i = 0; i < width * 3; i++) {
        uint32_t sum = n / 2;
        for (uint32_t k = 0; k < n; k++)
            sum += row_of(from, y * scale + k / scale)[(i / 3 * scale + k % scale) * 3 + i % 3];
        out[i] = (uint8_t)(sum / n);
    }
}

static void blur(const stoke_image *image, uint32_t passes, uint8_t *lines, uint16_t *sums)
{
    for (uint32_t i = 0; i < passes; i++) blur_once(image, lines, sums);
}

int stk_degrade(const stoke_synth_params *p, uint64_t index, const stoke_image *target,
                const stoke_image *image, stoke_error *err)
{
    const harm h = draw_harm(p, index);
    const size_t bytes = (size_t)target->width * 3, line = bytes + 6;
    uint16_t strength[256], *sums = stk_alloc(line * sizeof *sums);
    uint8_t *lines = stk_alloc(3 * line);
    stoke_image soft = *target;
    soft.stride = bytes;
    soft.data = stk_alloc(bytes * target->height);
    const int good = sums && lines && soft.data;
    if (good) {
        for (uint32_t y = 0; y < target->height; y++) memcpy(row_of(&soft, y), row_of(target, y), bytes);
        blur(&soft, h.passes, lines, sums);
        stk_noise_strength(h.noise, strength);
    }
    for (uint32_t y = 0; good && y < image->height; y++) {
        uint8_t *row = row_of(image, y);
        shrink_row(&soft, p->scale, y, row, image->width);
        for (size_t i = 0; i < (size_t)image->width * 3; i++)
            row[i] = (uint8_t)((row[i] * h.light + 128) >> 8);
        if (h.noise) stk_noise_row(p->seed, index, y, NOISE_DRAW, strength, row, image->width);
    }
    stk_free(soft.data);
    stk_free(lines);
    stk_free(sums);
    return good ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "out of memory for a scene");
}
