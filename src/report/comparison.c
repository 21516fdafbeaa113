/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictions to look at: one sample per row, its panels side by side under common headings.
 *
 *   MARGIN  title
 *           sample | truth | prediction | where they differ
 *           caption
 *           legend                                           MARGIN
 *
 * Without any truth the second and fourth panel are left out. Of restored pictures truth and prediction are
 * pictures themselves, and the fourth panel has their difference, so many times as large that it can be seen.
 */
#include <stdio.h>
#include <stdlib.h>

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
static const char *const headings[2][PANELS] = { { "sample", "truth", "prediction", "mistakes" },
                                                 { "input", "target", "output", "difference" } };

/* Differences are shown up to so many times as large, and 1 value in 200 may be cut off for it. */
enum { FACTOR_MOST = 32, VALUES_CUT = 200 };

typedef struct layout {
    const stoke_comparison *rows;
    size_t n_rows;
    stoke_grid_params p;
    uint32_t panel_width; /* of the widest */
    int truths;           /* whether any row has one */
    int pictures;         /* truths and predictions are pictures */
    unsigned factor;      /* of their difference */
    uint8_t *difference;  /* room for the largest */
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

/* ---- restored pictures ---- */

static int check_pictures(const stoke_comparison *row, size_t index, stoke_error *err)
{
    const stoke_image *const all[] = { row->image, row->truth, row->predicted };
    for (size_t i = 0; i < 3; i++)
        if (!all[i] || !all[i]->data || all[i]->channels != 3 || all[i]->depth != 1 || !all[i]->width ||
            !all[i]->height)
            return stk_fail(err, STOKE_E_INVALID, "row %zu: %s must be RGB with 8 bits", index,
                            headings[1][i]);
    if (row->truth->width != row->predicted->width || row->truth->height != row->predicted->height)
        return stk_fail(err, STOKE_E_SIZE, "row %zu: output and target differ in size", index);
    return STOKE_OK;
}

static uint8_t distance(const stoke_image *a, const stoke_image *b, uint32_t y, size_t i)
{
    const uint8_t *x = (const uint8_t *)a->data + y * a->stride,
                  *z = (const uint8_t *)b->data + y * b->stride;
    return (uint8_t)abs(x[i] - z[i]);
}

/* One factor for the whole page, so that rows can be compared: the largest power of two that cuts off few. */
static unsigned choose_factor(const layout *l)
{
    uint64_t counts[256] = { 0 }, all = 0, beyond = 0;
    for (size_t i = 0; i < l->n_rows; i++) {
        const stoke_image *a = l->rows[i].predicted, *b = l->rows[i].truth;
        for (uint32_t y = 0; y < a->height; y++)
            for (size_t k = 0; k < 3 * (size_t)a->width; k++) counts[distance(a, b, y, k)]++;
        all += 3 * (uint64_t)a->width * a->height;
    }
    int value = 255; /* the largest that is shown as it is */
    while (value && beyond + counts[value] <= all / VALUES_CUT) beyond += counts[value--];
    unsigned factor = 1;
    while (factor < FACTOR_MOST && 2 * factor * (unsigned)value <= 255) factor *= 2;
    return factor;
}

static stoke_image amplified(const layout *l, const stoke_comparison *row)
{
    const stoke_image *a = row->predicted, *b = row->truth;
    stoke_image image = *a;
    uint8_t *to = l->difference;
    for (uint32_t y = 0; y < a->height; y++)
        for (size_t k = 0; k < 3 * (size_t)a->width; k++) {
            const unsigned value = l->factor * distance(a, b, y, k);
            *to++ = (uint8_t)(value < 255 ? value : 255);
        }
    image.data = l->difference;
    image.stride = 3 * (size_t)a->width;
    return image;
}

/* Enlarged by whole numbers alone: noise and edges stay what they are. */
static void picture_size(const layout *l, const stoke_image *image, uint32_t *width, uint32_t *height)
{
    const uint32_t longest = image->width > image->height ? image->width : image->height;
    if (longest > l->p.tile) {
        stk_tile_size(&l->p, image, width, height);
    } else {
        *width = image->width * (l->p.tile / longest);
        *height = image->height * (l->p.tile / longest);
    }
}

static int plan_pictures(layout *l, stoke_error *err)
{
    size_t most = 0;
    for (size_t i = 0; i < l->n_rows; i++) {
        const stoke_image *output = l->rows[i].predicted;
        uint32_t width, height;
        const int status = check_pictures(&l->rows[i], i, err);
        if (status) return status;
        picture_size(l, output, &width, &height);
        if (width > l->panel_width) l->panel_width = width;
        most = stk_most(most, 3 * (size_t)output->width * output->height);
    }
    l->truths = 1;
    l->factor = choose_factor(l);
    l->content = PANELS * (uint64_t)(l->panel_width + STK_PAGE_SEAM) - STK_PAGE_SEAM;
    l->difference = stk_alloc(most);
    return l->difference ? STOKE_OK
                         : stk_fail(err, STOKE_E_NOMEM, "out of memory for a picture of differences");
}

static void draw_picture(const layout *l, stk_canvas *canvas, const stoke_comparison *row, enum panel panel,
                         uint32_t x, uint32_t y, uint32_t width, uint32_t height)
{
    const stoke_image difference = panel == DIFFERENCE ? amplified(l, row) : (stoke_image){ 0 };
    const stoke_image *const shown[PANELS] = { row->image, row->truth, row->predicted, &difference };
    stk_canvas_blit(canvas, x, y, width, height, shown[panel]);
}

/* ---- the page ---- */

static int plan(layout *l, stoke_error *err)
{
    if (!l->n_rows)
        return stk_fail(err, STOKE_E_INVALID, "a picture of predictions needs at least one sample");
    l->panel_width = LEAST_WIDTH;
    l->pictures = l->rows[0].predicted && l->rows[0].predicted->channels == 3;
    if (l->pictures) return plan_pictures(l, err);
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

static void draw_heading(const layout *l, stk_canvas *canvas, enum panel panel, uint32_t x, uint32_t y)
{
    char text[40];
    const char *heading = headings[l->pictures][panel];
    if (l->pictures && panel == DIFFERENCE) {
        snprintf(text, sizeof text, "%s x%u", heading, l->factor);
        heading = text;
    }
    stk_canvas_text(canvas, x, y, heading, HEADING_SCALE, stk_faded_ink);
}

/* Returns its height with the gap below; the first row has the headings above it. */
static uint32_t draw_row(const layout *l, stk_canvas *canvas, const stoke_comparison *row, uint32_t y)
{
    uint32_t x = STK_PAGE_MARGIN, width, height;
    const stoke_tile truth = tile_of(row, row->truth), predicted = tile_of(row, row->predicted);
    if (l->pictures)
        picture_size(l, row->predicted, &width, &height);
    else
        stk_tile_size(&l->p, row->image, &width, &height);
    for (enum panel panel = SAMPLE; panel < PANELS; panel++) {
        if (!l->truths && panel != SAMPLE && panel != PREDICTION) continue;
        if (row == l->rows) draw_heading(l, canvas, panel, x, y - HEADING_HEIGHT);
        if (l->pictures)
            draw_picture(l, canvas, row, panel, x, y, width, height);
        else if (panel == SAMPLE)
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
    return 3 * height * (width > NAMES ? width : NAMES) +
           65536 * sizeof(uint64_t); /* more than differences */
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
    stk_free(l.difference);
    return stk_canvas_finish(&canvas, path, status, err);
}
