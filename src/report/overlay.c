/* SPDX-License-Identifier: Apache-2.0
 *
 * A mask laid over its image: the class colour over the region, stronger along its edge. On both sides of a
 * border the edge has the region's own colour, so a region shows on an image of the same colour too. The
 * image below has lost its colours: green over blue would be teal, which may be another class.
 */
#include <string.h>
#include <stoke/tools/image.h>

#include "src/base/error.h"
#include "src/report/grid.h"

/* Diagonal stripes for ignore_index: every 8 pixels, 3 wide. No class looks like that in any image. */
enum { HATCH_PERIOD = 8, HATCH_WIDTH = 3, EDGE_ALPHA = 232, OVERLAY_QUALITY = 90 };
static const stk_canvas_color hatch_light = { 245, 245, 245 }, hatch_dark = { 70, 70, 76 };

/* A mistake: a red that stands out from every grey, at any lightness. Right parts keep a third of their grey.
 */
enum { WRONG_ALPHA = 224, DIM_ALPHA = 168 };
static const stk_canvas_color wrong = { 226, 38, 28 };

static int on_stripe(uint32_t x, uint32_t y)
{
    return (x + y) % HATCH_PERIOD < HATCH_WIDTH;
}

static stk_canvas_color class_color(uint32_t id)
{
    uint8_t rgb[3];
    stoke_class_color(id, rgb);
    return (stk_canvas_color){ rgb[0], rgb[1], rgb[2] };
}

/* A mask seen at the size of the tile: the class at the source pixel nearest to each pixel's centre. */
typedef struct scaled_mask {
    const stoke_image *mask;
    uint32_t width, height;
} scaled_mask;

static uint32_t class_at(const scaled_mask *m, uint32_t x, uint32_t y)
{
    if (m->width == m->mask->width && m->height == m->mask->height) return stk_mask_at(m->mask, x, y);
    return stk_mask_at(m->mask, (uint32_t)((2 * (uint64_t)x + 1) * m->mask->width / (2 * (uint64_t)m->width)),
                       (uint32_t)((2 * (uint64_t)y + 1) * m->mask->height / (2 * (uint64_t)m->height)));
}

static int is_edge(const scaled_mask *m, uint32_t x, uint32_t y, uint32_t id)
{
    return (x > 0 && class_at(m, x - 1, y) != id) || (x + 1 < m->width && class_at(m, x + 1, y) != id) ||
           (y > 0 && class_at(m, x, y - 1) != id) || (y + 1 < m->height && class_at(m, x, y + 1) != id);
}

/* Gray with the weights of the ops, in 1/256. */
static void drain(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height)
{
    for (uint32_t row = y; row < y + height && row < canvas->height; row++) {
        uint8_t *p = canvas->pixels + ((size_t)row * canvas->width + x) * 3;
        for (uint32_t i = 0; i < width && x + i < canvas->width; i++, p += 3)
            p[0] = p[1] = p[2] = (uint8_t)((77 * p[0] + 150 * p[1] + 29 * p[2] + 128) >> 8);
    }
}

void stk_overlay_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                      const stoke_tile *tile, double opacity, int32_t ignore_index)
{
    const scaled_mask m = { tile->mask, width, height };
    unsigned fill = (unsigned)(opacity * 256);
    unsigned edge = fill > EDGE_ALPHA ? fill : fill + (EDGE_ALPHA - fill) * 3 / 4;
    if (!fill) edge = 0;
    stk_canvas_blit(canvas, x, y, width, height, tile->image);
    if (fill) drain(canvas, x, y, width, height);
    for (uint32_t row = 0; row < height && y + row < canvas->height; row++)
        for (uint32_t column = 0; column < width; column++) {
            uint32_t id = class_at(&m, column, row);
            if ((int64_t)id == ignore_index) {
                int stripe = on_stripe(column, row);
                stk_canvas_blend(canvas, x + column, y + row, stripe ? hatch_light : hatch_dark,
                                 stripe ? edge : fill);
            } else {
                unsigned alpha = is_edge(&m, column, row, id) ? edge : fill;
                /* Class 0 is the background as a rule, and black: half as strong, or it buries the picture.
                 */
                stk_canvas_blend(canvas, x + column, y + row, class_color(id), id ? alpha : alpha / 2);
            }
        }
}

int stk_partner_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                     const stoke_tile *tile, const stoke_grid_params *params)
{
    if (tile->target)
        stk_canvas_blit(canvas, x, y, width, height, tile->target);
    else if (tile->mask)
        stk_overlay_draw(canvas, x, y, width, height, tile, params->opacity, params->ignore_index);
    return tile->target || tile->mask;
}

void stk_difference_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                         const stoke_tile *tile, const stoke_image *truth, int32_t ignore_index)
{
    const scaled_mask said = { tile->mask, width, height }, is = { truth, width, height };
    stk_canvas_blit(canvas, x, y, width, height, tile->image);
    drain(canvas, x, y, width, height);
    for (uint32_t row = 0; row < height && y + row < canvas->height; row++)
        for (uint32_t column = 0; column < width; column++) {
            const uint32_t id = class_at(&is, column, row);
            if ((int64_t)id == ignore_index)
                stk_canvas_blend(canvas, x + column, y + row,
                                 on_stripe(column, row) ? hatch_light : hatch_dark, DIM_ALPHA);
            else if (class_at(&said, column, row) != id)
                stk_canvas_blend(canvas, x + column, y + row, wrong, WRONG_ALPHA);
            else
                stk_canvas_blend(canvas, x + column, y + row, stk_page_color, DIM_ALPHA);
        }
}

void stk_overlay_swatch(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t side, uint32_t id,
                        int32_t ignore_index)
{
    stk_canvas_fill(canvas, x, y, side, side, stk_faded_ink);
    for (uint32_t row = 1; row + 1 < side; row++)
        for (uint32_t column = 1; column + 1 < side; column++) {
            stk_canvas_color color = class_color(id);
            if ((int64_t)id == ignore_index) color = on_stripe(column, row) ? hatch_light : hatch_dark;
            stk_canvas_blend(canvas, x + column, y + row, color, 256);
        }
}

int stoke_overlay_write(const char *path, const stoke_image *image, const stoke_image *mask, double opacity,
                        int32_t ignore_index, stoke_error *err)
{
    const stoke_tile tile = { .image = image, .mask = mask };
    const size_t length = strlen(path);
    stk_canvas canvas = { 0 };
    int status = stk_tile_check(&tile, 0, err);
    if (!status && !(opacity >= 0 && opacity <= 1))
        status = stk_fail(err, STOKE_E_INVALID, "opacity must be between 0 and 1");
    if (!status) status = stk_canvas_create(&canvas, image->width, image->height, stk_page_color, err);
    if (!status) {
        stk_overlay_draw(&canvas, 0, 0, image->width, image->height, &tile, opacity, ignore_index);
        const stoke_image picture = stk_canvas_image(&canvas);
        status = length > 4 && strcmp(path + length - 4, ".jpg") == 0
                     ? stoke_image_write_jpeg(path, &picture, OVERLAY_QUALITY, err)
                     : stoke_image_write_drawing(path, &picture, err);
    }
    stk_canvas_free(&canvas);
    return status;
}
