/* SPDX-License-Identifier: Apache-2.0
 *
 * The legend under a picture grid: swatch, class id, name, share of all mask pixels.
 */
#include "src/report/grid.h"

#include <inttypes.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include <stoke/tools/report.h>

/* ---- colours of classes ---- */

/* Colours of classes. The first thirteen are picked by hand to be pleasant and easy to name, in the order of
 * the hues that synthetic scenes give their classes (src/synth/scene.c): an overlay looks like what it lies
 * on. Every further one is the colour farthest from all before it (and from black and white-grey) in OKLab,
 * lightness 0.35 .. 0.93, chroma above 0.06, on a grid of 15 steps. So any first n classes are well apart:
 * nearest two of the first 24 are 60 apart in RGB, of all 254 21. */

static const uint32_t colors[254] = {
    /* clang-format off */
    0xe63946, 0x3478f6, 0x2ea043, 0xe91e8c, 0x00bcd4, 0xff7043, 0x9b51e0, 0x8dc92a, 0xffb703, 0x795548,
    0xff96ff, 0x00806e, 0x2646a0, 0x780069, 0xff00ff, 0x2dffd2, 0x0000ff, 0xb487a5, 0x004b00, 0x00ff00,
    0xb4870f, 0x780000, 0xa5b4ff, 0x5a00d2, 0xf0f000, 0x004b5a, 0xa54b87, 0xffa5b4, 0x96b487, 0x5a87b4,
    0x5a6900, 0xc300c3, 0x4b0f87, 0xc3f0a5, 0xb44b00, 0xd269d2, 0x0f00b4, 0x5a3c69, 0xb4004b, 0x00d296,
    0x78e1ff, 0x8700b4, 0x9687ff, 0xff6996, 0x3ca5ff, 0x4b3c0f, 0x695aa5, 0xf0c3ff, 0x78875a, 0x694bff,
    0xd29678, 0xb400ff, 0x87ff78, 0xffd296, 0x006996, 0xc36969, 0x1e4be1, 0x3ca587, 0xff4bd2, 0xb40087,
    0x00c300, 0xc3c35a, 0x872d4b, 0x96a51e, 0x9678c3, 0x8700ff, 0x96691e, 0xa50f00, 0x3c5a3c, 0x69d2c3,
    0x007800, 0xd2a5d2, 0xd25a96, 0xd25aff, 0xff963c, 0x00e169, 0x966978, 0x78a5d2, 0x5a3cb4, 0x87e187,
    0x4b0fff, 0xa5f0e1, 0x5a2d2d, 0x873c00, 0xd26900, 0x7869e1, 0x698700, 0x2d69c3, 0xf087c3, 0x0096a5,
    0xd287ff, 0xa53cb4, 0xb4d2a5, 0x69c3ff, 0xe1b478, 0xa54b5a, 0x692d87, 0xc3d2ff, 0x6987e1, 0xa59669,
    0xffe169, 0xc3e15a, 0xd2a500, 0x2d1e96, 0xe18796, 0x78b4b4, 0xc387d2, 0xff0f69, 0x003c78, 0x69b469,
    0xe11eb4, 0x00f0f0, 0xc3ff00, 0xff69ff, 0x0087d2, 0x782dd2, 0xb4784b, 0xd200f0, 0x78e100, 0x691e4b,
    0xd2a5ff, 0xc32d2d, 0xd22d69, 0x3c874b, 0x960f96, 0x961e69, 0x9696e1, 0x3c7887, 0x784b69, 0x3c4b78,
    0xa51ed2, 0xff3c00, 0xffa5e1, 0x694b00, 0x965ab4, 0xffc3b4, 0x3c2dc3, 0x00ffa5, 0x3c2d78, 0x873c87,
    0xc33ca5, 0xb469a5, 0xffa587, 0x006969, 0x1e692d, 0x96c3e1, 0xff4ba5, 0x69b400, 0xc34bd2, 0x6900b4,
    0xff78e1, 0xd2873c, 0x9669ff, 0x2d0fe1, 0xb469e1, 0x00c3b4, 0x2dc35a, 0x2da5d2, 0x5a6996, 0x87ff1e,
    0xe15a3c, 0xe13ce1, 0x69693c, 0xff8778, 0xff5a69, 0x96ffc3, 0x784bc3, 0xb44bff, 0x692d00, 0x8787b4,
    0x96c369, 0x69c396, 0xf0d200, 0x87e1b4, 0xe15a78, 0x4b5ae1, 0x2dd2f0, 0xe1d278, 0x876996, 0xe17869,
    0x783c3c, 0x3c4b00, 0x87002d, 0x004b3c, 0x6900ff, 0x5a1e69, 0xa5a5d2, 0x877800, 0x2dff69, 0x00e1c3,
    0xd278a5, 0xb496ff, 0x965a3c, 0xc3a55a, 0xa53c2d, 0x78ffff, 0x4b4b96, 0x6978ff, 0xff00d2, 0x003cc3,
    0x782d69, 0xf069b4, 0xc34b5a, 0xe1f078, 0xb4b400, 0x00e100, 0x690087, 0xffd2f0, 0x1e3cff, 0xe196e1,
    0x3c4bc3, 0xb4ff96, 0x4b3ce1, 0xff87a5, 0xf07800, 0x5a5ac3, 0x4b1ea5, 0x69964b, 0x964bff, 0x00b478,
    0xc38787, 0xe10000, 0x005a78, 0x782da5, 0xff003c, 0xff1eb4, 0x78a587, 0xe1a5a5, 0x00a500, 0xe14bb4,
    0x5a78c3, 0xb43c69, 0x78a5ff, 0x96a55a, 0x87004b, 0x5a9696, 0x694b87, 0x69d269, 0x2d5aff, 0xb46900,
    0x002da5, 0xa5e12d, 0x96d2d2, 0xe1e1a5, 0x963c69, 0xb45a78, 0xf0b4d2, 0x3c8700, 0x2d78b4, 0xb40069,
    0x005aa5, 0xc33c87, 0xc35ab4, 0xe169f0,
    /* clang-format on */
};

void stoke_class_color(uint32_t id, uint8_t rgb[3])
{
    uint32_t color = id == 0 ? 0 : id == 255 ? 0xe0e0e0 : colors[(id - 1) % 254];
    rgb[0] = (uint8_t)(color >> 16);
    rgb[1] = (uint8_t)(color >> 8);
    rgb[2] = (uint8_t)color;
}

/* ---- legend ---- */

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

int stk_legend_count(stk_grid_legend *legend, const stoke_tile *tiles, size_t n_tiles,
                     const stoke_grid_params *params, int shares, stoke_error *err)
{
    enum { IDS = 65536 };
    *legend = (stk_grid_legend){ 0 };
    size_t used = 0;
    uint64_t *counts = stk_calloc(IDS, sizeof *counts);
    for (size_t i = 0; counts && i < n_tiles; i++) {
        const stoke_image *mask = tiles[i].mask;
        for (uint32_t y = 0; mask && y < mask->height; y++)
            for (uint32_t x = 0; x < mask->width; x++) counts[stk_mask_at(mask, x, y)]++;
    }
    for (uint32_t id = 0; counts && id < IDS; id++) used += counts[id] != 0;
    legend->entries = counts ? stk_calloc(used, sizeof *legend->entries) : NULL;
    if (!legend->entries) {
        stk_free(counts);
        return stk_fail(err, STOKE_E_NOMEM, "out of memory for a legend");
    }
    for (uint32_t id = 0; id < IDS; id++) {
        if (!counts[id]) continue;
        legend->entries[legend->count++] = (struct stk_legend_entry){ id, counts[id] };
        if (shares) legend->pixels += counts[id];
    }
    stk_free(counts);
    for (size_t i = 0; i < legend->count; i++) {
        char name[NAME_LENGTH * STK_LETTER_BYTES + 24], share[32];
        entry_text(legend, i, params, name, sizeof name, share, sizeof share);
        uint32_t width = stk_text_width(name, TEXT_SCALE);
        if (width > legend->name_width) legend->name_width = width;
    }
    legend->item_width = SWATCH + AFTER_SWATCH + legend->name_width;
    if (shares) legend->item_width += BEFORE_SHARE + stk_text_width("100.0 %", TEXT_SCALE);
    return STOKE_OK;
}

void stk_legend_free(stk_grid_legend *legend)
{
    stk_free(legend->entries);
    *legend = (stk_grid_legend){ 0 };
}

uint32_t stk_legend_draw(const stk_grid_legend *legend, stk_canvas *canvas, uint64_t top, uint64_t width,
                         const stoke_grid_params *params)
{
    const uint32_t x = STK_PAGE_MARGIN, rule = (uint32_t)top + STK_ABOVE_LEGEND,
                   y = rule + STK_ABOVE_LEGEND + 1;
    size_t items = (width + BETWEEN) / (legend->item_width + BETWEEN);
    if (!items) items = 1;
    /* Lines are filled downwards, as one reads a list: 0 1 2 in the first column. */
    const size_t lines = (legend->count + items - 1) / items;
    if (!lines) return 0;
    stk_canvas_fill(canvas, x, rule, (uint32_t)width, 1, stk_rule);
    for (size_t i = 0; canvas->pixels && i < legend->count; i++) {
        char name[NAME_LENGTH * STK_LETTER_BYTES + 24], share[32];
        entry_text(legend, i, params, name, sizeof name, share, sizeof share);
        uint32_t left = x + (uint32_t)(i / lines) * (legend->item_width + BETWEEN),
                 line = y + (uint32_t)(i % lines) * LINE;
        uint32_t text_top = line + (SWATCH - 7 * TEXT_SCALE) / 2, text_left = left + SWATCH + AFTER_SWATCH;
        stk_overlay_swatch(canvas, left, line, SWATCH, legend->entries[i].id, params->ignore_index);
        stk_canvas_text(canvas, text_left, text_top, name, TEXT_SCALE, stk_ink);
        stk_canvas_text(canvas, left + legend->item_width - stk_text_width(share, TEXT_SCALE), text_top,
                        share, TEXT_SCALE, stk_faded_ink);
    }
    return (uint32_t)(2 * STK_ABOVE_LEGEND + 1 + lines * LINE - (LINE - SWATCH));
}
