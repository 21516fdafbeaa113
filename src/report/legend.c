/* SPDX-License-Identifier: Apache-2.0
 *
 * The legend under a picture grid: swatch, class id, name, share of all mask pixels.
 */
#include "src/report/grid.h"

#include <inttypes.h>

#include "src/base/error.h"
#include "src/base/mem.h"

enum {
    TEXT_SCALE = 2,
    SWATCH = 22,
    AFTER_SWATCH = 10,
    BEFORE_SHARE = 18,
    BETWEEN = 36,
    LINE = 32,
    NAME_LENGTH = 40
};

static void entry_text(const stk_grid_legend *legend, size_t index, const stoke_grid_params *params,
                       char *name, size_t name_size, char *share, size_t share_size)
{
    uint32_t id = legend->entries[index].id;
    const char *word = params->class_names && id < params->n_class_names ? params->class_names[id] : NULL;
    char safe[NAME_LENGTH * STK_LETTER_BYTES + 1] = "";
    if (!word && (int64_t)id == params->ignore_index) word = "ignore";
    if (word) stk_text_fit(word, 1, NAME_LENGTH * STK_GLYPH_ADVANCE, safe, sizeof safe);
    int digits = snprintf(NULL, 0, "%" PRIu32, legend->entries[legend->count - 1].id);
    snprintf(name, name_size, "%*" PRIu32 "%s%s", digits, id, word ? "  " : "", safe);
    *share = 0;
    if (!legend->pixels) return;
    /* A class that is there must not read "0.0 %". Long double keeps 10^12 pixels exact. */
    uint64_t tenths = (uint64_t)((long double)legend->entries[index].pixels * 1000 / legend->pixels + 0.5L);
    if (!tenths)
        snprintf(share, share_size, "<0.1 %%");
    else
        snprintf(share, share_size, "%" PRIu64 ".%" PRIu64 " %%", tenths / 10, tenths % 10);
}

static void count_pixels(const stoke_tile *tile, uint64_t *counts)
{
    if (!tile->mask) return;
    for (uint32_t y = 0; y < tile->mask->height; y++)
        for (uint32_t x = 0; x < tile->mask->width; x++) counts[stk_mask_at(tile->mask, x, y)]++;
}

int stk_legend_count(stk_grid_legend *legend, const stoke_tile *tiles, size_t n_tiles,
                     const stoke_grid_params *params, stoke_error *err)
{
    enum { IDS = 65536 };
    *legend = (stk_grid_legend){ 0 };
    size_t used = 0;
    uint64_t *counts = stk_calloc(IDS, sizeof *counts);
    for (size_t i = 0; counts && i < n_tiles; i++) count_pixels(&tiles[i], counts);
    for (uint32_t id = 0; counts && id < IDS; id++) used += counts[id] != 0;
    legend->entries = counts ? stk_calloc(used, sizeof *legend->entries) : NULL;
    if (!legend->entries) {
        stk_free(counts);
        return stk_fail(err, STOKE_E_NOMEM, "out of memory for a legend");
    }
    for (uint32_t id = 0; id < IDS; id++) {
        if (!counts[id]) continue;
        legend->entries[legend->count++] = (struct stk_legend_entry){ id, counts[id] };
        legend->pixels += counts[id];
    }
    stk_free(counts);
    for (size_t i = 0; i < legend->count; i++) {
        char name[NAME_LENGTH * STK_LETTER_BYTES + 24], share[32];
        entry_text(legend, i, params, name, sizeof name, share, sizeof share);
        uint32_t width = stk_text_width(name, TEXT_SCALE);
        if (width > legend->name_width) legend->name_width = width;
    }
    legend->item_width =
        SWATCH + AFTER_SWATCH + legend->name_width + BEFORE_SHARE + stk_text_width("100.0 %", TEXT_SCALE);
    return STOKE_OK;
}

void stk_legend_drop_shares(stk_grid_legend *legend)
{
    if (!legend->pixels) return;
    legend->pixels = 0;
    legend->item_width = SWATCH + AFTER_SWATCH + legend->name_width;
}

void stk_legend_free(stk_grid_legend *legend)
{
    stk_free(legend->entries);
    *legend = (stk_grid_legend){ 0 };
}

static size_t items_per_line(const stk_grid_legend *legend, uint32_t width)
{
    size_t items = ((size_t)width + BETWEEN) / (legend->item_width + BETWEEN);
    return items ? items : 1;
}

/* Lines are filled downwards, as one reads a list: 0 1 2 in the first column. */
static size_t line_count(const stk_grid_legend *legend, uint32_t width)
{
    size_t items = items_per_line(legend, width);
    return (legend->count + items - 1) / items;
}

uint32_t stk_legend_height(const stk_grid_legend *legend, uint32_t width)
{
    size_t lines = line_count(legend, width);
    return lines ? (uint32_t)(lines * LINE - (LINE - SWATCH)) : 0;
}

void stk_legend_draw(const stk_grid_legend *legend, stk_canvas *canvas, uint32_t x, uint32_t y,
                     uint32_t width, const stoke_grid_params *params)
{
    size_t lines = line_count(legend, width);
    for (size_t i = 0; i < legend->count; i++) {
        char name[NAME_LENGTH * STK_LETTER_BYTES + 24], share[32];
        entry_text(legend, i, params, name, sizeof name, share, sizeof share);
        uint32_t left = x + (uint32_t)(i / lines) * (legend->item_width + BETWEEN),
                 top = y + (uint32_t)(i % lines) * LINE;
        uint32_t text_top = top + (SWATCH - 7 * TEXT_SCALE) / 2, text_left = left + SWATCH + AFTER_SWATCH;
        stk_overlay_swatch(canvas, left, top, SWATCH, legend->entries[i].id, params->ignore_index);
        stk_canvas_text(canvas, text_left, text_top, name, TEXT_SCALE, stk_ink);
        stk_canvas_text(canvas, left + legend->item_width - stk_text_width(share, TEXT_SCALE), text_top,
                        share, TEXT_SCALE, stk_faded_ink);
    }
}
