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

/* Where a strip stands. Strips beside each other have the same top, text and height: their tiles line up. */
typedef struct place {
    uint32_t column;       /* 0: the left one */
    uint32_t text, height; /* of label and note; of everything but the heading */
    uint64_t top;          /* of the heading, if there is one */
} place;

typedef struct layout {
    const stoke_strip *strips;
    const stoke_tile *tiles;
    size_t n_strips;
    stoke_grid_params p;
    uint32_t tile_width; /* of the widest */
    uint32_t abreast;
    place *places;
    uint64_t strip_width, width, total;
    uint32_t title_height;
    stk_grid_legend legend;
} layout;

/* ---- notes ---- */

/* Draws the note (canvas NULL: only measures); returns its height. */
static uint32_t note_lines(stk_canvas *canvas, uint32_t x, uint32_t y, uint64_t width, const char *note)
{
    uint32_t top = y;
    char line[STK_LINE_BYTES];
    while (stk_text_line(&note, TEXT_SCALE, width, line)) {
        if (canvas) stk_canvas_text(canvas, x, top, line, TEXT_SCALE, stk_faded_ink);
        top += NOTE_LINE;
    }
    return top - y;
}

/* ---- layout ---- */

static const stoke_tile *tiles_of(const layout *l, size_t strip)
{
    return l->tiles + strip * l->p.columns;
}

/* Draws a caption (canvas NULL: only measures); returns its height with the gap above. */
static uint32_t caption_lines(const layout *l, stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width,
                              const char *caption)
{
    const uint32_t scale = stk_caption_scale(&l->p);
    uint32_t height = STK_ABOVE_CAPTION - 2;
    char line[STK_LINE_BYTES];
    if (!caption || !*caption) return 0;
    while (stk_text_line(&caption, scale, width, line)) {
        height += 2;
        if (canvas) stk_canvas_text(canvas, x, y + height, line, scale, stk_ink);
        height += 8 * scale;
    }
    return height;
}

static uint32_t tile_height(const layout *l, const stoke_tile *tile)
{
    uint32_t width, height;
    if (!tile->image) return 0;
    stk_tile_size(&l->p, tile->image, &width, &height);
    if (tile->mask) height += STK_PAGE_SEAM + height;
    return height + caption_lines(l, NULL, 0, 0, width, tile->caption);
}

static int measure_tiles(layout *l, stoke_error *err)
{
    for (size_t i = 0; i < l->n_strips * l->p.columns; i++) {
        uint32_t width, height;
        if (!l->tiles[i].image) continue;
        int status = stk_tile_check(&l->tiles[i], i, err);
        if (status) return status;
        stk_tile_size(&l->p, l->tiles[i].image, &width, &height);
        if (width > l->tile_width) l->tile_width = width;
    }
    l->strip_width = (uint64_t)l->p.columns * (l->tile_width + ASIDE) - ASIDE;
    if (l->strip_width < TEXT_WIDTH) l->strip_width = TEXT_WIDTH;
    return STOKE_OK;
}

/* Text and height of strip i alone. */
static place measure_strip(const layout *l, size_t i)
{
    const stoke_strip *s = &l->strips[i];
    place p = { .text = (s->label ? LABEL_HEIGHT : 0) + note_lines(NULL, 0, 0, l->strip_width, s->note) };
    if (p.text) p.text += BELOW_NOTE;
    for (uint32_t c = 0; c < l->p.columns; c++) {
        const uint32_t height = tile_height(l, &tiles_of(l, i)[c]);
        if (height > p.height) p.height = height;
    }
    return p;
}

/* Gives the strips their places from `top` on; returns where the last line ends. */
static uint64_t place_strips(layout *l, uint64_t top)
{
    for (size_t i = 0, n; i < l->n_strips; i += n) {
        place line = { .top = top };
        for (n = 0; n < l->abreast && i + n < l->n_strips && (!n || !l->strips[i + n].heading); n++) {
            const place one = measure_strip(l, i + n);
            if (one.text > line.text) line.text = one.text;
            if (one.height > line.height) line.height = one.height;
        }
        line.height += line.text;
        for (size_t k = 0; k < n; k++) {
            line.column = (uint32_t)k;
            l->places[i + k] = line;
        }
        top += (l->strips[i].heading ? HEADING_HEIGHT : 0) + (uint64_t)line.height + BETWEEN;
    }
    return top - BETWEEN;
}

static int plan(layout *l, stoke_error *err)
{
    if (!l->n_strips || !l->p.columns)
        return stk_fail(err, STOKE_E_INVALID, "a picture of strips needs at least one strip and one column");
    l->places = stk_calloc(l->n_strips, sizeof *l->places);
    if (!l->places) return stk_fail(err, STOKE_E_NOMEM, "out of memory for a picture of strips");
    int status = measure_tiles(l, err);
    if (!status) status = stk_legend_count(&l->legend, l->tiles, l->n_strips * l->p.columns, &l->p, err);
    if (status) return status;
    l->abreast = l->n_strips > FEW ? 2 : 1;
    uint64_t content = l->abreast * (l->strip_width + APART) - APART;
    if (content < l->legend.item_width) content = l->legend.item_width;
    l->width = content + 2 * STK_PAGE_MARGIN;
    l->title_height = stk_title_height(l->p.title, content);
    l->total = place_strips(l, STK_PAGE_MARGIN + l->title_height) + STK_PAGE_MARGIN;
    /* A canvas so wide is refused anyway; the legend's arithmetic has 32 bits. */
    if (content < UINT32_MAX) l->total += stk_legend_height(&l->legend, (uint32_t)content);
    return STOKE_OK;
}

/* ---- drawing ---- */

static void draw_tile(const layout *l, stk_canvas *canvas, const stoke_tile *tile, uint32_t x, uint32_t y)
{
    uint32_t width, height;
    if (!tile->image) return;
    stk_tile_size(&l->p, tile->image, &width, &height);
    stk_canvas_blit(canvas, x, y, width, height, tile->image);
    y += height;
    if (tile->mask) {
        y += STK_PAGE_SEAM;
        stk_overlay_draw(canvas, x, y, width, height, tile, l->p.opacity, l->p.ignore_index);
        y += height;
    }
    caption_lines(l, canvas, x, y, width, tile->caption);
}

static void draw_strip(const layout *l, stk_canvas *canvas, size_t strip)
{
    const stoke_strip *s = &l->strips[strip];
    const place *at = &l->places[strip];
    const uint32_t left = STK_PAGE_MARGIN + at->column * (uint32_t)(l->strip_width + APART);
    uint32_t y = (uint32_t)at->top;
    if (s->heading) {
        const uint32_t content = canvas->width - 2 * STK_PAGE_MARGIN;
        stk_canvas_fill(canvas, STK_PAGE_MARGIN, y, content, 1, stk_rule);
        stk_heading_draw(canvas, STK_PAGE_MARGIN, y + 12, content, s->heading, TEXT_SCALE);
    }
    /* The heading of the strip that begins the line, also above its neighbour. */
    if (l->strips[strip - at->column].heading) y += HEADING_HEIGHT;
    for (uint32_t i = 0; i < l->p.columns; i++)
        draw_tile(l, canvas, &tiles_of(l, strip)[i], left + i * (l->tile_width + ASIDE), y + at->text);
    if (s->label) {
        stk_heading_draw(canvas, left, y, (uint32_t)l->strip_width, s->label, TEXT_SCALE);
        y += LABEL_HEIGHT;
    }
    note_lines(canvas, left, y, l->strip_width, s->note);
}

static void draw_all(const layout *l, stk_canvas *canvas)
{
    const uint32_t content = canvas->width - 2 * STK_PAGE_MARGIN;
    stk_title_draw(canvas, STK_PAGE_MARGIN, STK_PAGE_MARGIN, content, l->p.title);
    for (size_t i = 0; i < l->n_strips; i++) draw_strip(l, canvas, i);
    const place *last = &l->places[l->n_strips - 1];
    const int headed = l->strips[l->n_strips - 1 - last->column].heading != NULL;
    stk_legend_draw(&l->legend, canvas, (uint32_t)last->top + (headed ? HEADING_HEIGHT : 0) + last->height,
                    &l->p);
}

int stk_strips_draw(stk_canvas *canvas, const stoke_strip *strips, size_t n_strips, const stoke_tile *tiles,
                    const stoke_grid_params *params, stoke_error *err)
{
    layout l = { .strips = strips, .tiles = tiles, .n_strips = n_strips };
    *canvas = (stk_canvas){ 0 };
    int status = stk_grid_params_take(&l.p, params, err);
    if (!status) status = plan(&l, err);
    if (!status) status = stk_canvas_create(canvas, l.width, l.total, stk_page_color, err);
    if (!status) draw_all(&l, canvas);
    stk_legend_free(&l.legend);
    stk_free(l.places);
    return status;
}

int stoke_strips_write(const char *path, const stoke_strip *strips, size_t n_strips, const stoke_tile *tiles,
                       const stoke_grid_params *params, stoke_error *err)
{
    stk_canvas canvas;
    const int status = stk_strips_draw(&canvas, strips, n_strips, tiles, params, err);
    return stk_canvas_finish(&canvas, path, status, err);
}
