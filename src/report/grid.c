/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture grid: title, rows of pairs (sample | sample with mask, or target), captions, legend.
 *
 *   MARGIN  title
 *           image|overlay  BETWEEN  image|overlay
 *           caption                 caption
 *           legend                                 MARGIN
 */
#include "src/report/grid.h"

#include <string.h>
#include <stoke/tools/image.h>

#include "src/base/error.h"
#include "src/base/mem.h"

enum {
    BETWEEN = 24, /* pairs, and caption to next row */
    TILE_MAX = 4096,
    SMALL_TILE = 128 /* below it captions are set in the small size */
};

stoke_grid_params stoke_grid_defaults(void)
{
    return (stoke_grid_params){
        .struct_size = sizeof(stoke_grid_params), .tile = 256, .opacity = 0.45, .ignore_index = -1
    };
}

typedef struct layout {
    const stoke_tile *tiles;
    size_t n_tiles;
    stoke_grid_params p;
    uint32_t half_width, half_height; /* of the largest sample as drawn */
    uint32_t cell_width, cell_height; /* a pair with its caption */
    uint32_t caption_scale;
    int partners, captions;                         /* whether any tile has a mask or target, or a caption */
    uint64_t columns, rows, content, width, height; /* content: width within the margins */
    stk_grid_legend legend;
} layout;

int stk_tile_check(const stoke_tile *tile, size_t index, stoke_error *err)
{
    const stoke_image *image = tile->image, *mask = tile->mask;
    if (!image || !image->data || !image->width || !image->height || image->channels != 3 ||
        image->depth != 1)
        return stk_fail(err, STOKE_E_INVALID, "tile %zu: the image must be RGB with 8 bits", index);
    if (tile->target && (!tile->target->data || !tile->target->width || !tile->target->height ||
                         tile->target->channels != 3 || tile->target->depth != 1))
        return stk_fail(err, STOKE_E_INVALID, "tile %zu: the target must be RGB with 8 bits", index);
    if (!mask) return STOKE_OK;
    if (!mask->data || mask->channels != 1 || (mask->depth != 1 && mask->depth != 2))
        return stk_fail(err, STOKE_E_INVALID, "tile %zu: the mask must have one channel of 8 or 16 bits",
                        index);
    if (mask->width != image->width || mask->height != image->height)
        return stk_fail(err, STOKE_E_SIZE, "tile %zu: the mask is %ux%u (height x width), the image %ux%u",
                        index, (unsigned)mask->height, (unsigned)mask->width, (unsigned)image->height,
                        (unsigned)image->width);
    return STOKE_OK;
}

int stk_grid_params_take(stoke_grid_params *p, const stoke_grid_params *params, stoke_error *err)
{
    *p = stoke_grid_defaults();
    if (params) {
        if (params->struct_size != sizeof *params) return stk_fail_struct(err, "stoke_grid_defaults");
        *p = *params;
    }
    if (!p->tile) p->tile = 256;
    if (p->tile > TILE_MAX)
        return stk_fail(err, STOKE_E_INVALID, "a tile of %u pixels is too large (at most %d)",
                        (unsigned)p->tile, TILE_MAX);
    if (!(p->opacity >= 0 && p->opacity <= 1))
        return stk_fail(err, STOKE_E_INVALID, "the opacity must be between 0 and 1");
    return STOKE_OK;
}

void stk_tile_size(const stoke_grid_params *p, const stoke_image *image, uint32_t *width, uint32_t *height)
{
    uint64_t longest = image->width > image->height ? image->width : image->height;
    *width = (uint32_t)((image->width * (uint64_t)p->tile + longest / 2) / longest);
    *height = (uint32_t)((image->height * (uint64_t)p->tile + longest / 2) / longest);
    if (!*width) *width = 1;
    if (!*height) *height = 1;
}

uint32_t stk_caption_scale(const stoke_grid_params *p)
{
    return p->tile < SMALL_TILE ? 1 : 2;
}

void stk_heading_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, const char *text,
                      unsigned scale)
{
    char fitted[STK_LINE_BYTES];
    stk_text_fit(text, scale, width, fitted, sizeof fitted);
    stk_canvas_text(canvas, x, y, fitted, scale, stk_ink);
    stk_canvas_text(canvas, x + 1, y, fitted, scale, stk_ink); /* bold */
}

uint32_t stk_title_draw(stk_canvas *canvas, uint64_t width, const char *title)
{
    char line[STK_LINE_BYTES];
    uint32_t y = STK_PAGE_MARGIN;
    if (!title || !*title) return 0;
    for (; stk_text_line(&title, STK_TITLE_SCALE, width, line); y += STK_TITLE_LINE)
        stk_heading_draw(canvas, STK_PAGE_MARGIN, y, (uint32_t)width, line, STK_TITLE_SCALE);
    return y + STK_BELOW_TITLE - STK_PAGE_MARGIN;
}

static void place(layout *l, uint64_t columns)
{
    stk_canvas none = { 0 };
    l->columns = columns;
    l->rows = (l->n_tiles + columns - 1) / columns;
    l->content = stk_most(columns * (l->cell_width + BETWEEN) - BETWEEN, l->legend.item_width);
    l->width = l->content + 2 * STK_PAGE_MARGIN;
    l->height = 2 * STK_PAGE_MARGIN + l->rows * (l->cell_height + BETWEEN) - BETWEEN;
    l->height += stk_title_draw(&none, l->content, l->p.title);
    l->height += stk_legend_draw(&l->legend, &none, 0, l->content, &l->p);
}

/* The number of columns that makes the picture most nearly square. */
static void place_squarely(layout *l)
{
    uint64_t best = 1;
    double best_ratio = 0;
    /* Wider than 4096 columns would break the canvas limit anyway. */
    for (uint64_t columns = 1; columns <= l->n_tiles && columns <= 4096; columns++) {
        place(l, columns);
        double ratio = (double)l->width / (double)l->height;
        if (ratio > 1) ratio = 1 / ratio;
        if (ratio > best_ratio) {
            best_ratio = ratio;
            best = columns;
        }
    }
    place(l, best);
}

static int plan(layout *l, stoke_error *err)
{
    for (size_t i = 0; i < l->n_tiles; i++) {
        int status = stk_tile_check(&l->tiles[i], i, err);
        if (status) return status;
        uint32_t width, height;
        stk_tile_size(&l->p, l->tiles[i].image, &width, &height);
        if (width > l->half_width) l->half_width = width;
        if (height > l->half_height) l->half_height = height;
        l->partners |= l->tiles[i].mask || l->tiles[i].target;
        l->captions |= l->tiles[i].caption != NULL;
    }
    l->caption_scale = stk_caption_scale(&l->p);
    l->cell_width = l->partners ? 2 * l->half_width + STK_PAGE_SEAM : l->half_width;
    l->cell_height = l->half_height + (l->captions ? STK_ABOVE_CAPTION + 8 * l->caption_scale : 0);
    int status = stk_legend_count(&l->legend, l->tiles, l->n_tiles, &l->p, 1, err);
    if (status) return status;
    if (l->p.columns)
        place(l, l->p.columns < l->n_tiles ? l->p.columns : l->n_tiles);
    else
        place_squarely(l);
    return STOKE_OK;
}

void stk_blank_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                    const char *text, unsigned scale)
{
    const uint32_t wide = stk_text_width(text, scale);
    stk_canvas_fill(canvas, x, y, width, height, stk_rule);
    if (wide < width && height > 8 * scale)
        stk_canvas_text(canvas, x + (width - wide) / 2, y + height / 2 - 4 * scale, text, scale,
                        stk_faded_ink);
}

static void draw_tile(const layout *l, stk_canvas *canvas, const stoke_tile *tile, uint32_t x, uint32_t y)
{
    uint32_t width, height;
    char caption[768];
    stk_tile_size(&l->p, tile->image, &width, &height);
    stk_canvas_blit(canvas, x, y, width, height, tile->image);
    const uint32_t beside = x + width + STK_PAGE_SEAM;
    if (!stk_partner_draw(canvas, beside, y, width, height, tile, &l->p) && l->partners)
        stk_blank_draw(canvas, beside, y, width, height, "no mask", l->caption_scale);
    if (!tile->caption) return;
    stk_text_fit(tile->caption, l->caption_scale, l->cell_width, caption, sizeof caption);
    stk_canvas_text(canvas, x, y + height + STK_ABOVE_CAPTION, caption, l->caption_scale, stk_ink);
}

static void draw_all(const layout *l, stk_canvas *canvas)
{
    uint32_t top = STK_PAGE_MARGIN + stk_title_draw(canvas, l->content, l->p.title);
    for (size_t i = 0; i < l->n_tiles; i++)
        draw_tile(l, canvas, &l->tiles[i],
                  STK_PAGE_MARGIN + (uint32_t)(i % l->columns) * (l->cell_width + BETWEEN),
                  top + (uint32_t)(i / l->columns) * (l->cell_height + BETWEEN));
    top += (uint32_t)l->rows * (l->cell_height + BETWEEN) - BETWEEN;
    stk_legend_draw(&l->legend, canvas, top, l->content, &l->p);
}

int stk_grid_draw(stk_canvas *canvas, const stoke_tile *tiles, size_t n_tiles,
                  const stoke_grid_params *params, stoke_error *err)
{
    layout l = { .tiles = tiles, .n_tiles = n_tiles };
    *canvas = (stk_canvas){ 0 };
    int status = stk_grid_params_take(&l.p, params, err);
    if (!status && !n_tiles)
        status = stk_fail(err, STOKE_E_INVALID, "a picture grid needs at least one sample");
    if (!status) status = plan(&l, err);
    if (!status) status = stk_canvas_create(canvas, l.width, l.height, stk_page_color, err);
    if (!status) draw_all(&l, canvas);
    stk_legend_free(&l.legend);
    return status;
}

int stoke_grid_write(const char *path, const stoke_tile *tiles, size_t n_tiles,
                     const stoke_grid_params *params, stoke_error *err)
{
    stk_canvas canvas;
    const int status = stk_grid_draw(&canvas, tiles, n_tiles, params, err);
    return stk_canvas_finish(&canvas, path, status, err);
}

int stk_canvas_finish(stk_canvas *canvas, const char *path, int status, stoke_error *err)
{
    const stoke_image picture = stk_canvas_image(canvas);
    if (!status) status = stoke_image_write_drawing(path, &picture, err);
    stk_canvas_free(canvas);
    return status;
}
