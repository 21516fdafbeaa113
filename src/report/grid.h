/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture grid before it becomes a file.
 */
#ifndef STOKE_SRC_REPORT_GRID_H
#define STOKE_SRC_REPORT_GRID_H

#include "src/report/canvas.h"

/* Draws the grid of stoke_grid_write; free the canvas afterwards. */
int stk_grid_draw(stk_canvas *canvas, const stoke_tile *tiles, size_t n_tiles,
                  const stoke_grid_params *params, stoke_error *err);

/* Draws the strips of stoke_strips_write; free the canvas afterwards. */
int stk_strips_draw(stk_canvas *canvas, const stoke_strip *strips, size_t n_strips, const stoke_tile *tiles,
                    const stoke_grid_params *params, stoke_error *err);

/* ---- what grid and strips share ---- */

enum {
    STK_PAGE_MARGIN = 28,
    STK_PAGE_SEAM = 4, /* a sample and the same sample with its mask */
    STK_TITLE_SCALE = 3,
    STK_TITLE_LINE = 8 * STK_TITLE_SCALE + 6,
    STK_BELOW_TITLE = 12,
    STK_ABOVE_CAPTION = 8,
    STK_ABOVE_LEGEND = 20 /* on each side of the rule */
};

/* Fills *p from params (NULL = defaults), checked. */
int stk_grid_params_take(stoke_grid_params *p, const stoke_grid_params *params, stoke_error *err);
int stk_tile_check(const stoke_tile *tile, size_t index, stoke_error *err);
/* Size of a sample as drawn: its longest side is the tile's. */
void stk_tile_size(const stoke_grid_params *p, const stoke_image *image, uint32_t *width, uint32_t *height);
/* Size of the letters under a tile. */
uint32_t stk_caption_scale(const stoke_grid_params *p);
/* One bold line, cut in the middle where it is wider than `width`. */
void stk_heading_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, const char *text,
                      unsigned scale);

/* What is drawn returns its height. On a canvas without pixels (zeroed) it is only measured: so a page is
 * laid out by the code that draws it. */

/* The title in bold at the top of the page, broken into lines, with the gap below; NULL takes no room. */
uint32_t stk_title_draw(stk_canvas *canvas, uint64_t width, const char *title);

/* Class id at a pixel of a u8 or u16 mask. */
static inline uint32_t stk_mask_at(const stoke_image *mask, uint32_t x, uint32_t y)
{
    const uint8_t *row = (const uint8_t *)mask->data + y * mask->stride;
    return mask->depth == 1 ? row[x] : ((const uint16_t *)row)[x];
}

/* The sample with its mask laid over, scaled to the box. */
void stk_overlay_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                      const stoke_tile *tile, double opacity, int32_t ignore_index);
/* What stands beside a sample: itself with its mask laid over, or its target. 0: it has neither. */
int stk_partner_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                     const stoke_tile *tile, const stoke_grid_params *params);
/* Where the tile's mask and `truth` differ: right parts dimmed, wrong ones marked, ignored ones hatched. */
void stk_difference_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                         const stoke_tile *tile, const stoke_image *truth, int32_t ignore_index);
/* In the place of a picture that is not there. */
void stk_blank_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                    const char *text, unsigned scale);
/* A box in the look of a class, for the legend. */
void stk_overlay_swatch(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t side, uint32_t id,
                        int32_t ignore_index);

/* Classes that occur, with their share of the pixels (pixels 0: names alone). */
typedef struct stk_grid_legend {
    struct stk_legend_entry {
        uint32_t id;
        uint64_t pixels;
    } * entries;
    size_t count;
    uint64_t pixels;
    uint32_t name_width, item_width; /* of the text of a class, of a whole item */
} stk_grid_legend;
/* shares 0: they mean nothing where truth and prediction are counted together. */
int stk_legend_count(stk_grid_legend *legend, const stoke_tile *tiles, size_t n_tiles,
                     const stoke_grid_params *params, int shares, stoke_error *err);
void stk_legend_free(stk_grid_legend *legend);
/* Below `top`, with the rule above it, over a width that has room for item_width; nothing where there are no
 * classes. */
uint32_t stk_legend_draw(const stk_grid_legend *legend, stk_canvas *canvas, uint64_t top, uint64_t width,
                         const stoke_grid_params *params);

/* What is left after drawing, which gave `status`: writes the picture and frees the canvas. */
int stk_canvas_finish(stk_canvas *canvas, const char *path, int status, stoke_error *err);

/* comparison.c: bytes at most of the picture that stoke_comparison_write draws. */
uint64_t stk_comparison_bytes(size_t rows, uint32_t classes);

/* Dark on light, the colours of all texts. */
static const stk_canvas_color stk_page_color = { 248, 248, 250 };
static const stk_canvas_color stk_ink = { 28, 32, 42 };
static const stk_canvas_color stk_faded_ink = { 104, 111, 125 };
static const stk_canvas_color stk_rule = { 216, 219, 226 };

#endif
