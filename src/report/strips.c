/* SPDX-License-Identifier: Apache-2.0
 *
 * Labelled strips: what different settings make of one sample, to be compared along a line. Many of them
 * stand two abreast, or the picture would be a ribbon.
 *
 *   MARGIN  title
 *           heading of a section
 *           label                       APART  label
 *           note                               note
 *           image    image    image            image    image    image
 *           overlay  overlay  overlay          overlay  overlay  overlay
 *           caption  caption  caption          caption  caption  caption
 *           legend                                                        MARGIN
 */
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/report/grid.h"

enum {
    TEXT_WIDTH = 360, /* of a note at least, however narrow the tiles: 30 letters */
    LABEL_HEIGHT = 8 * 2 + 8,
    NOTE_LINE = 8 * 2 + 4,
    BELOW_NOTE = 4,
    HEADING_HEIGHT = 8 * 2 + 34,
    BETWEEN = 28, /* strips below each other */
    APART = 48,   /* strips beside each other */
    ASIDE = 8,    /* tiles */
    TEXT_SCALE = 2,
    FEW = 4 /* strips that still stand below each other: some 1000 pixels */
};

typedef struct layout {
    const stoke_strip *strips;
    const stoke_tile *tiles;
    size_t n_strips;
    stoke_grid_params p;
    uint32_t tile_width; /* of the widest */
    uint32_t abreast;
    uint64_t strip_width, content; /* of a strip; of the page within its margins */
    stk_grid_legend legend;
} layout;

static int plan(layout *l, stoke_error *err)
{
    if (!l->n_strips || !l->p.columns)
        return stk_fail(err, STOKE_E_INVALID, "a picture of strips needs at least one strip and one column");
    for (size_t i = 0; i < l->n_strips * l->p.columns; i++) {
        uint32_t width, height;
        if (!l->tiles[i].image) continue;
        int status = stk_tile_check(&l->tiles[i], i, err);
        if (status) return status;
        stk_tile_size(&l->p, l->tiles[i].image, &width, &height);
        if (width > l->tile_width) l->tile_width = width;
    }
    int status = stk_legend_count(&l->legend, l->tiles, l->n_strips * l->p.columns, &l->p, 1, err);
    if (status) return status;
    l->strip_width = stk_most((uint64_t)l->p.columns * (l->tile_width + ASIDE) - ASIDE, TEXT_WIDTH);
    l->abreast = l->n_strips > FEW ? 2 : 1;
    l->content = stk_most(l->abreast * (l->strip_width + APART) - APART, l->legend.item_width);
    return STOKE_OK;
}

/* ---- drawing: all of it returns heights ---- */

/* Label and note, with the gap below. */
static uint32_t draw_text(const layout *l, stk_canvas *canvas, const stoke_strip *strip, uint32_t x,
                          uint32_t y)
{
    const uint32_t top = y;
    const char *note = strip->note;
    char line[STK_LINE_BYTES];
    if (strip->label) {
        stk_heading_draw(canvas, x, y, (uint32_t)l->strip_width, strip->label, TEXT_SCALE);
        y += LABEL_HEIGHT;
    }
    for (; stk_text_line(&note, TEXT_SCALE, l->strip_width, line); y += NOTE_LINE)
        stk_canvas_text(canvas, x, y, line, TEXT_SCALE, stk_faded_ink);
    return y > top ? y + BELOW_NOTE - top : 0;
}

/* A sample, its mask or target, its caption in lines. */
static uint32_t draw_tile(const layout *l, stk_canvas *canvas, const stoke_tile *tile, uint32_t x, uint32_t y)
{
    const uint32_t top = y, scale = stk_caption_scale(&l->p);
    const char *caption = tile->caption;
    uint32_t width, height;
    char line[STK_LINE_BYTES];
    if (!tile->image) return 0;
    stk_tile_size(&l->p, tile->image, &width, &height);
    stk_canvas_blit(canvas, x, y, width, height, tile->image);
    y += height;
    if (stk_partner_draw(canvas, x, y + STK_PAGE_SEAM, width, height, tile, &l->p))
        y += STK_PAGE_SEAM + height;
    if (caption && *caption) y += STK_ABOVE_CAPTION - 2;
    while (stk_text_line(&caption, scale, width, line)) {
        stk_canvas_text(canvas, x, y + 2, line, scale, stk_ink);
        y += 2 + 8 * scale;
    }
    return y - top;
}

/* The page. Strips beside each other have the same room for text: their tiles line up. */
static uint64_t draw_all(const layout *l, stk_canvas *canvas)
{
    uint64_t y = STK_PAGE_MARGIN + stk_title_draw(canvas, l->content, l->p.title);
    for (size_t i = 0, n; i < l->n_strips; i += n) {
        const char *heading = l->strips[i].heading;
        uint64_t text = 0, height = 0;
        if (heading) {
            stk_canvas_fill(canvas, STK_PAGE_MARGIN, (uint32_t)y, (uint32_t)l->content, 1, stk_rule);
            stk_heading_draw(canvas, STK_PAGE_MARGIN, (uint32_t)y + 12, (uint32_t)l->content, heading,
                             TEXT_SCALE);
            y += HEADING_HEIGHT;
        }
        for (n = 0; n < l->abreast && i + n < l->n_strips && (!n || !l->strips[i + n].heading); n++) {
            const uint64_t left = STK_PAGE_MARGIN + n * (l->strip_width + APART);
            text = stk_most(text, draw_text(l, canvas, &l->strips[i + n], (uint32_t)left, (uint32_t)y));
        }
        for (size_t k = 0; k < n * l->p.columns; k++) {
            const uint64_t left = STK_PAGE_MARGIN + k / l->p.columns * (l->strip_width + APART) +
                                  k % l->p.columns * (l->tile_width + ASIDE);
            height = stk_most(height, draw_tile(l, canvas, &l->tiles[i * l->p.columns + k], (uint32_t)left,
                                                (uint32_t)(y + text)));
        }
        y += text + height + BETWEEN;
    }
    y -= BETWEEN;
    return y + stk_legend_draw(&l->legend, canvas, y, l->content, &l->p) + STK_PAGE_MARGIN;
}

int stk_strips_draw(stk_canvas *canvas, const stoke_strip *strips, size_t n_strips, const stoke_tile *tiles,
                    const stoke_grid_params *params, stoke_error *err)
{
    layout l = { .strips = strips, .tiles = tiles, .n_strips = n_strips };
    *canvas = (stk_canvas){ 0 };
    int status = stk_grid_params_take(&l.p, params, err);
    if (!status) status = plan(&l, err);
    if (!status)
        status = stk_canvas_create(canvas, l.content + 2 * STK_PAGE_MARGIN, draw_all(&l, canvas),
                                   stk_page_color, err);
    if (!status) draw_all(&l, canvas);
    stk_legend_free(&l.legend);
    return status;
}

int stoke_strips_write(const char *path, const stoke_strip *strips, size_t n_strips, const stoke_tile *tiles,
                       const stoke_grid_params *params, stoke_error *err)
{
    stk_canvas canvas;
    const int status = stk_strips_draw(&canvas, strips, n_strips, tiles, params, err);
    return stk_canvas_finish(&canvas, path, status, err);
}
