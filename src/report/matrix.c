/* SPDX-License-Identifier: Apache-2.0
 *
 * A confusion matrix as a picture: a row per true class, its pixels shared out over the predicted ones.
 *
 *   MARGIN  title
 *                      names of the predicted classes, upwards
 *           name |  cells, darker the larger the share, numbers in per cent
 *           note                                                            MARGIN
 */
#include <math.h>
#include <stdio.h>

#include "src/base/error.h"
#include "src/report/grid.h"
#include <stoke/tools/chart.h>

enum {
    MOST_CLASSES = 1500, /* of 10 pixels each: 225 million, which is near what a canvas takes */
    TEXT = 2,            /* scale of names and notes */
    NAME_LETTERS = 22,
    NAME_BYTES = NAME_LETTERS * STK_LETTER_BYTES + 1,
    GAP = 8,
    NOTE_HEIGHT = 8 * TEXT + GAP
};

typedef struct layout {
    const uint64_t *counts;
    uint32_t size, cell;
    const char *const *names;
    const char *title;
    uint32_t scale;      /* of names: small where cells are */
    uint32_t name_width; /* of the longest, in pixels */
    uint32_t title_height, left, top;
    uint64_t width, height;
} layout;

static void name_of(const layout *l, uint32_t id, char text[NAME_BYTES])
{
    char number[32];
    const char *name = l->names ? l->names[id] : NULL;
    if (!name) {
        snprintf(number, sizeof number, "class %u", (unsigned)id);
        name = number;
    }
    stk_text_fit(name, 1, NAME_LETTERS * STK_GLYPH_ADVANCE, text, NAME_BYTES);
}

static const char axes_note[] = "rows: truth, columns: prediction";
static const char *const notes[] = { "Each row adds up to 100 %: where the pixels of a class went.",
                                     "Nothing is written for less than 0.5 %. Grey: not in the truth." };
enum { NOTES = sizeof notes / sizeof *notes };

static int plan(layout *l, stoke_error *err)
{
    char name[NAME_BYTES];
    if (!l->size || l->size > MOST_CLASSES)
        return stk_fail(err, STOKE_E_INVALID, "a picture of a matrix takes 1 to %d classes, not %u",
                        MOST_CLASSES, (unsigned)l->size);
    /* Few classes get room for a number in each cell; 150 of them a picture of 3000 pixels. */
    l->cell = l->size <= 12 ? 56 : l->size <= 24 ? 42 : l->size <= 40 ? 30 : l->size <= 150 ? 20 : 10;
    l->scale = l->cell < 20 ? 1 : TEXT;
    for (uint32_t i = 0; i < l->size; i++) {
        name_of(l, i, name);
        const uint32_t width = stk_text_width(name, l->scale);
        if (width > l->name_width) l->name_width = width;
    }
    l->left = STK_PAGE_MARGIN + l->name_width + GAP;
    uint64_t content = l->name_width + GAP + (uint64_t)l->size * l->cell;
    for (size_t i = 0; i < NOTES; i++)
        if (content < stk_text_width(notes[i], TEXT)) content = stk_text_width(notes[i], TEXT);
    l->title_height = stk_title_draw(&(stk_canvas){ 0 }, content, l->title);
    l->top = STK_PAGE_MARGIN + l->title_height + NOTE_HEIGHT + l->name_width + GAP;
    l->width = content + 2 * STK_PAGE_MARGIN;
    l->height = l->top + (uint64_t)l->size * l->cell + GAP + NOTES * NOTE_HEIGHT + STK_PAGE_MARGIN;
    return STOKE_OK;
}

/* White to a deep blue. The square root lifts what matters: a mistake of 4 % has a fifth of the colour. */
static stk_canvas_color shade(double share)
{
    static const double dark[3] = { 8, 64, 129 };
    const double strength = sqrt(share);
    double rgb[3];
    for (int c = 0; c < 3; c++) rgb[c] = 255 + (dark[c] - 255) * strength;
    return (stk_canvas_color){ (uint8_t)rgb[0], (uint8_t)rgb[1], (uint8_t)rgb[2] };
}

static void draw_cell(const layout *l, stk_canvas *canvas, uint32_t truth, uint32_t predicted, uint64_t sum)
{
    const uint32_t x = l->left + predicted * l->cell, y = l->top + truth * l->cell;
    const double share = sum ? (double)l->counts[(size_t)truth * l->size + predicted] / (double)sum : 0;
    stk_canvas_fill(canvas, x, y, l->cell - 1, l->cell - 1, sum ? shade(share) : stk_rule);
    const unsigned percent = (unsigned)(share * 100 + 0.5);
    char number[16];
    snprintf(number, sizeof number, "%u", percent);
    unsigned scale = l->cell >= 40 ? 2 : 1;
    if (!percent || stk_text_width(number, scale) + 2 > l->cell) return;
    stk_canvas_text(canvas, x + (l->cell - stk_text_width(number, scale)) / 2, y + (l->cell - 7 * scale) / 2,
                    number, scale, share > 0.3 ? (stk_canvas_color){ 255, 255, 255 } : stk_ink);
}

/* Text from below upwards, its end at `bottom`: drawn on a separate strip, then turned. */
static int draw_upwards(stk_canvas *canvas, uint32_t x, uint32_t bottom, const char *text, unsigned scale,
                        stoke_error *err)
{
    stk_canvas strip;
    const uint32_t width = stk_text_width(text, scale), height = 8 * scale;
    if (!width) return STOKE_OK;
    const int status = stk_canvas_create(&strip, width, height, stk_page_color, err);
    if (status) return status;
    stk_canvas_text(&strip, 0, 0, text, scale, stk_ink);
    for (uint32_t i = 0; i < width && i <= bottom; i++)
        for (uint32_t k = 0; k < height; k++) {
            const uint8_t *p = strip.pixels + ((size_t)k * width + i) * 3;
            stk_canvas_fill(canvas, x + k, bottom - i, 1, 1, (stk_canvas_color){ p[0], p[1], p[2] });
        }
    stk_canvas_free(&strip);
    return STOKE_OK;
}

static int draw_names(const layout *l, stk_canvas *canvas, stoke_error *err)
{
    char name[NAME_BYTES];
    int status = STOKE_OK;
    for (uint32_t i = 0; i < l->size && !status; i++) {
        const uint32_t middle = i * l->cell + (l->cell - 7 * l->scale) / 2;
        name_of(l, i, name);
        stk_canvas_text(canvas, l->left - GAP - stk_text_width(name, l->scale), l->top + middle, name,
                        l->scale, stk_ink);
        status = draw_upwards(canvas, l->left + middle, l->top - GAP, name, l->scale, err);
    }
    return status;
}

static int draw_all(const layout *l, stk_canvas *canvas, stoke_error *err)
{
    stk_title_draw(canvas, canvas->width - 2 * STK_PAGE_MARGIN, l->title);
    stk_canvas_text(canvas, STK_PAGE_MARGIN, STK_PAGE_MARGIN + l->title_height, axes_note, TEXT,
                    stk_faded_ink);
    for (uint32_t truth = 0; truth < l->size; truth++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < l->size; i++) sum += l->counts[(size_t)truth * l->size + i];
        for (uint32_t predicted = 0; predicted < l->size; predicted++)
            draw_cell(l, canvas, truth, predicted, sum);
    }
    uint32_t y = l->top + l->size * l->cell + GAP + GAP;
    for (size_t i = 0; i < NOTES; i++, y += NOTE_HEIGHT)
        stk_canvas_text(canvas, STK_PAGE_MARGIN, y, notes[i], TEXT, stk_faded_ink);
    return draw_names(l, canvas, err);
}

int stoke_matrix_write(const char *path, const uint64_t *counts, uint32_t size, const char *const *names,
                       const char *title, stoke_error *err)
{
    layout l = { .counts = counts, .size = size, .names = names, .title = title };
    stk_canvas canvas = { 0 };
    int status = plan(&l, err);
    if (!status) status = stk_canvas_create(&canvas, l.width, l.height, stk_page_color, err);
    if (!status) status = draw_all(&l, &canvas, err);
    return stk_canvas_finish(&canvas, path, status, err);
}
