/* SPDX-License-Identifier: Apache-2.0
 *
 * Labelled strips: what different settings make of one sample, to be compared along a line.
 *
 *   MARGIN  title
 *           heading of a section
 *           label        image    image    image
 *           note         overlay  overlay  overlay
 *                        caption  caption  caption
 *           legend                                   MARGIN
 */
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/report/grid.h"

enum {
    LABEL_WIDTH = 372, /* 30 letters of the note and a gap */
    LABEL_GAP = 12,
    LABEL_HEIGHT = 8 * 2 + 12,
    NOTE_LINE = 8 * 2 + 4,
    HEADING_HEIGHT = 8 * 2 + 26,
    BETWEEN = 20, /* strips */
    ASIDE = 8,    /* tiles */
    TEXT_SCALE = 2
};

typedef struct layout {
    const stoke_strip *strips;
    const stoke_tile *tiles;
    size_t n_strips;
    stoke_grid_params p;
    uint32_t tile_width; /* of the widest */
    uint32_t *height;    /* of each strip with its heading, without the gap below */
    uint64_t width, total;
    stk_legend legend;
} layout;

/* ---- notes ---- */

/* The length of the next line of a text: up to `letters`, broken after a space or a comma where there is one.
 */
static size_t line_length(const char *text, size_t letters)
{
    size_t all = strlen(text), cut = 0;
    const char *newline = strchr(text, '\n');
    if (newline && (size_t)(newline - text) <= letters) return (size_t)(newline - text) + 1;
    if (all <= letters) return all;
    for (size_t i = 1; i <= letters; i++)
        if (text[i - 1] == ' ' || text[i - 1] == ',' || text[i] == ' ') cut = i;
    return cut ? cut : letters;
}

/* Draws the note (canvas NULL: only measures); returns its height. */
static uint32_t note_lines(stk_canvas *canvas, uint32_t x, uint32_t y, const char *note)
{
    const size_t letters = (LABEL_WIDTH - LABEL_GAP) / (STK_GLYPH_ADVANCE * TEXT_SCALE);
    uint32_t top = y;
    while (note && *note) {
        char line[LABEL_WIDTH], safe[LABEL_WIDTH];
        size_t length = line_length(note, letters), shown = length;
        while (shown && (note[shown - 1] == ' ' || note[shown - 1] == '\n')) shown--;
        memcpy(line, note, shown);
        line[shown] = 0;
        if (canvas) {
            stk_text_fit(line, TEXT_SCALE, LABEL_WIDTH, safe, sizeof safe);
            stk_canvas_text(canvas, x, top, safe, TEXT_SCALE, stk_faded_ink);
        }
        top += NOTE_LINE;
        note += length;
        while (*note == ' ') note++;
    }
    return top - y;
}

/* ---- layout ---- */

static const stoke_tile *tiles_of(const layout *l, size_t strip)
{
    return l->tiles + strip * l->p.columns;
}

static uint32_t tile_height(const layout *l, const stoke_tile *tile)
{
    uint32_t width, height;
    if (!tile->image) return 0;
    stk_tile_size(&l->p, tile->image, &width, &height);
    if (tile->mask) height += STK_PAGE_SEAM + height;
    return height + (tile->caption ? STK_ABOVE_CAPTION + 8 * stk_caption_scale(&l->p) : 0);
}

static int measure_strip(layout *l, size_t strip, stoke_error *err)
{
    const stoke_strip *s = &l->strips[strip];
    uint32_t height = (s->label ? LABEL_HEIGHT : 0) + note_lines(NULL, 0, 0, s->note);
    for (uint32_t i = 0; i < l->p.columns; i++) {
        const stoke_tile *tile = &tiles_of(l, strip)[i];
        uint32_t tile_w, tile_h;
        if (!tile->image) continue;
        int status = stk_tile_check(tile, strip * l->p.columns + i, err);
        if (status) return status;
        stk_tile_size(&l->p, tile->image, &tile_w, &tile_h);
        if (tile_w > l->tile_width) l->tile_width = tile_w;
        if (tile_height(l, tile) > height) height = tile_height(l, tile);
    }
    l->height[strip] = height + (s->heading ? HEADING_HEIGHT : 0);
    return STOKE_OK;
}

static int plan(layout *l, stoke_error *err)
{
    if (!l->n_strips || !l->p.columns)
        return stk_fail(err, STOKE_E_INVALID, "a picture of strips needs at least one strip and one column");
    l->height = stk_calloc(l->n_strips, sizeof *l->height);
    if (!l->height) return stk_fail(err, STOKE_E_NOMEM, "out of memory for a picture of strips");
    l->total = 2 * STK_PAGE_MARGIN + (l->p.title ? STK_TITLE_HEIGHT : 0) - BETWEEN;
    for (size_t i = 0; i < l->n_strips; i++) {
        int status = measure_strip(l, i, err);
        if (status) return status;
        l->total += l->height[i] + BETWEEN;
    }
    int status = stk_legend_count(&l->legend, l->tiles, l->n_strips * l->p.columns, &l->p, err);
    if (status) return status;
    uint64_t content = LABEL_WIDTH + (uint64_t)l->p.columns * (l->tile_width + ASIDE) - ASIDE;
    if (content < l->legend.item_width) content = l->legend.item_width;
    l->width = content + 2 * STK_PAGE_MARGIN;
    /* A canvas so wide is refused anyway; the legend's arithmetic has 32 bits. */
    if (l->legend.count && content < UINT32_MAX)
        l->total += 2 * STK_ABOVE_LEGEND + 1 + stk_legend_height(&l->legend, (uint32_t)content);
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
    if (tile->caption) {
        char caption[256];
        stk_text_fit(tile->caption, stk_caption_scale(&l->p), width, caption, sizeof caption);
        stk_canvas_text(canvas, x, y + STK_ABOVE_CAPTION, caption, stk_caption_scale(&l->p), stk_ink);
    }
}

static void draw_strip(const layout *l, stk_canvas *canvas, size_t strip, uint32_t y)
{
    const stoke_strip *s = &l->strips[strip];
    if (s->heading) {
        const uint32_t content = canvas->width - 2 * STK_PAGE_MARGIN;
        stk_canvas_fill(canvas, STK_PAGE_MARGIN, y, content, 1, stk_rule);
        stk_heading_draw(canvas, STK_PAGE_MARGIN, y + 12, content, s->heading, TEXT_SCALE);
        y += HEADING_HEIGHT;
    }
    for (uint32_t i = 0; i < l->p.columns; i++)
        draw_tile(l, canvas, &tiles_of(l, strip)[i],
                  STK_PAGE_MARGIN + LABEL_WIDTH + i * (l->tile_width + ASIDE), y);
    if (s->label) {
        stk_heading_draw(canvas, STK_PAGE_MARGIN, y, LABEL_WIDTH - LABEL_GAP, s->label, TEXT_SCALE);
        y += LABEL_HEIGHT;
    }
    note_lines(canvas, STK_PAGE_MARGIN, y, s->note);
}

static void draw_all(const layout *l, stk_canvas *canvas)
{
    const uint32_t content = canvas->width - 2 * STK_PAGE_MARGIN;
    uint32_t top = STK_PAGE_MARGIN;
    if (l->p.title) {
        stk_heading_draw(canvas, STK_PAGE_MARGIN, top, content, l->p.title, STK_TITLE_SCALE);
        top += STK_TITLE_HEIGHT;
    }
    for (size_t i = 0; i < l->n_strips; i++) {
        draw_strip(l, canvas, i, top);
        top += l->height[i] + BETWEEN;
    }
    if (!l->legend.count) return;
    top += STK_ABOVE_LEGEND - BETWEEN;
    stk_canvas_fill(canvas, STK_PAGE_MARGIN, top, content, 1, stk_rule);
    stk_legend_draw(&l->legend, canvas, STK_PAGE_MARGIN, top + 1 + STK_ABOVE_LEGEND, content, &l->p);
}

int stk_strips_draw(stk_canvas *canvas, const stoke_strip *strips, size_t n_strips, const stoke_tile *tiles,
                    const stoke_grid_params *params, stoke_error *err)
{
    layout l = { .strips = strips, .tiles = tiles, .n_strips = n_strips };
    *canvas = (stk_canvas){ 0 };
    int status = stk_grid_params_take(&l.p, params, err);
    if (!status) status = plan(&l, err);
    if (!status) status = stk_canvas_create(canvas, l.width, l.total, stk_paper, err);
    if (!status) draw_all(&l, canvas);
    stk_legend_free(&l.legend);
    stk_free(l.height);
    return status;
}

int stoke_strips_write(const char *path, const stoke_strip *strips, size_t n_strips, const stoke_tile *tiles,
                       const stoke_grid_params *params, stoke_error *err)
{
    stk_canvas canvas;
    int status = stk_strips_draw(&canvas, strips, n_strips, tiles, params, err);
    if (!status) {
        const stoke_image picture = stk_canvas_image(&canvas);
        status = stoke_image_write_png(path, &picture, err);
    }
    stk_canvas_free(&canvas);
    return status;
}
