/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictions to look at: one sample per row, its panels side by side under common headings.
 *
 *   MARGIN  title
 *           sample | truth | prediction | where they differ
 *           caption
 *           legend                                           MARGIN
 *
 * Without any truth the second and fourth panel are left out.
 */

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/report/grid.h"
#include <stoke/tools/chart.h>

enum {
    HEADING_SCALE = 2,
    HEADING_HEIGHT = 8 * HEADING_SCALE + 8,
    BELOW_ROW = 20,
    CAPTION_HEIGHT = STK_ABOVE_CAPTION + 8 * 2,
    LONGEST_SIDE = 256, /* of a panel */
    LEAST_WIDTH = 120   /* of a panel's place, for its heading */
};

enum panel { SAMPLE, TRUTH, PREDICTION, DIFFERENCE, PANELS };
static const char *const headings[PANELS] = { "sample", "truth", "prediction", "mistakes" };

typedef struct layout {
    const stoke_comparison *rows;
    size_t n_rows;
    stoke_grid_params p;
    uint32_t panel_width; /* of the widest */
    int truths;           /* whether any row has one */
    uint64_t content;     /* width within the margins */
    stk_grid_legend legend;
} layout;

static stoke_tile tile_of(const stoke_comparison *row, const stoke_image *mask)
{
    return (stoke_tile){ .image = row->image, .mask = mask };
}

/* Truths and predictions together: a class that is only predicted needs its name too. */
static int count_legend(layout *l, stoke_error *err)
{
    stoke_tile *tiles = stk_calloc(l->n_rows, 2 * sizeof *tiles);
    if (!tiles) return stk_fail(err, STOKE_E_NOMEM, "out of memory for a picture of predictions");
    for (size_t i = 0; i < l->n_rows; i++) {
        tiles[2 * i] = tile_of(&l->rows[i], l->rows[i].truth);
        tiles[2 * i + 1] = tile_of(&l->rows[i], l->rows[i].predicted);
    }
    const int status = stk_legend_count(&l->legend, tiles, 2 * l->n_rows, &l->p, 0, err);
    stk_free(tiles);
    return status;
}

static int plan(layout *l, stoke_error *err)
{
    if (!l->n_rows)
        return stk_fail(err, STOKE_E_INVALID, "a picture of predictions needs at least one sample");
    l->panel_width = LEAST_WIDTH;
    for (size_t i = 0; i < l->n_rows; i++) {
        const stoke_comparison *row = &l->rows[i];
        const stoke_tile truth = tile_of(row, row->truth), predicted = tile_of(row, row->predicted);
        uint32_t width, height;
        if (!row->predicted) return stk_fail(err, STOKE_E_INVALID, "row %zu: there is no prediction", i);
        int status = stk_tile_check(&truth, i, err);
        if (!status) status = stk_tile_check(&predicted, i, err);
        if (status) return status;
        stk_tile_size(&l->p, row->image, &width, &height);
        if (width > l->panel_width) l->panel_width = width;
        l->truths |= row->truth != NULL;
    }
    l->content = (l->truths ? PANELS : 2) * (uint64_t)(l->panel_width + STK_PAGE_SEAM) - STK_PAGE_SEAM;
    const int status = count_legend(l, err);
    l->content = stk_most(l->content, l->legend.item_width);
    return status;
}

/* Returns its height with the gap below; the first row has the headings above it. */
static uint32_t draw_row(const layout *l, stk_canvas *canvas, const stoke_comparison *row, uint32_t y)
{
    uint32_t x = STK_PAGE_MARGIN, width, height;
    const stoke_tile truth = tile_of(row, row->truth), predicted = tile_of(row, row->predicted);
    stk_tile_size(&l->p, row->image, &width, &height);
    for (enum panel panel = SAMPLE; panel < PANELS; panel++) {
        if (!l->truths && panel != SAMPLE && panel != PREDICTION) continue;
        if (row == l->rows)
            stk_canvas_text(canvas, x, y - HEADING_HEIGHT, headings[panel], HEADING_SCALE, stk_faded_ink);
        if (panel == SAMPLE)
            stk_canvas_blit(canvas, x, y, width, height, row->image);
        else if (panel == PREDICTION)
            stk_overlay_draw(canvas, x, y, width, height, &predicted, l->p.opacity, l->p.ignore_index);
        else if (!row->truth)
            stk_blank_draw(canvas, x, y, width, height, "no mask", 2);
        else if (panel == TRUTH)
            stk_overlay_draw(canvas, x, y, width, height, &truth, l->p.opacity, l->p.ignore_index);
        else
            stk_difference_draw(canvas, x, y, width, height, &predicted, row->truth, l->p.ignore_index);
        x += l->panel_width + STK_PAGE_SEAM;
    }
    if (!row->caption) return height + BELOW_ROW;
    char caption[768];
    stk_text_fit(row->caption, 2, (uint32_t)l->content, caption, sizeof caption);
    stk_canvas_text(canvas, STK_PAGE_MARGIN, y + height + STK_ABOVE_CAPTION, caption, 2, stk_ink);
    return height + CAPTION_HEIGHT + BELOW_ROW;
}

/* Returns the height of the page. */
static uint64_t draw_all(const layout *l, stk_canvas *canvas)
{
    uint64_t y = STK_PAGE_MARGIN + stk_title_draw(canvas, l->content, l->p.title) + HEADING_HEIGHT;
    for (size_t i = 0; i < l->n_rows; i++) y += draw_row(l, canvas, &l->rows[i], (uint32_t)y);
    y -= BELOW_ROW;
    return y + stk_legend_draw(&l->legend, canvas, y, l->content, &l->p) + STK_PAGE_MARGIN;
}

uint64_t stk_comparison_bytes(size_t rows, uint32_t classes)
{
    enum { NAMES = 1400, TITLE = 80, LEGEND_LINE = 32 }; /* generous: texts may be as long as they like */
    const uint64_t width = PANELS * (LONGEST_SIDE + STK_PAGE_SEAM) + 2 * STK_PAGE_MARGIN;
    const uint64_t height = rows * (uint64_t)(LONGEST_SIDE + CAPTION_HEIGHT + BELOW_ROW) +
                            2 * STK_PAGE_MARGIN + TITLE + HEADING_HEIGHT + 2 * STK_ABOVE_LEGEND +
                            (classes + 2) / 2 * LEGEND_LINE;
    return 3 * height * (width > NAMES ? width : NAMES) + 65536 * sizeof(uint64_t);
}

int stoke_comparison_write(const char *path, const stoke_comparison *rows, size_t n_rows,
                           int32_t ignore_index, const char *const *class_names, uint32_t n_class_names,
                           const char *title, stoke_error *err)
{
    layout l = { .rows = rows, .n_rows = n_rows, .p = stoke_grid_defaults() };
    stk_canvas canvas = { 0 };
    l.p.tile = LONGEST_SIDE;
    l.p.ignore_index = ignore_index;
    l.p.class_names = class_names;
    l.p.n_class_names = n_class_names;
    l.p.title = title;
    int status = plan(&l, err);
    if (!status)
        status = stk_canvas_create(&canvas, l.content + 2 * STK_PAGE_MARGIN, draw_all(&l, &canvas),
                                   stk_page_color, err);
    if (!status) draw_all(&l, &canvas);
    stk_legend_free(&l.legend);
    return stk_canvas_finish(&canvas, path, status, err);
}
