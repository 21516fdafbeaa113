/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/picture.h"

#include <stdio.h>
#include <stdlib.h>

#include <stoke/labels.h>
#include <stoke/tools/report.h>
#include <stoke/tools/data.h>

enum { NAMES = 256 };

/* What a picture shows is what the eye can see; everything else is as in the loader. */
static int settle(stoke_data_params *params, uint32_t count, uint64_t epoch, stoke_error *err)
{
    static const char *const settings[][2] = { { "dtype", "u8" },       { "layout", "hwc" },
                                               { "normalize", "none" }, { "mask_dtype", "auto" },
                                               { "quarantine", "" },    { "drop_last", "false" },
                                               { "prefetch", "1" },     { "rank", "0" },
                                               { "world", "1" } };
    const stoke_option_group group = stoke_data_options(params);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        int r = stoke_options_set(&group, 1, settings[i][0], settings[i][1], err);
        if (r) return r;
    }
    params->batch = count;
    params->epoch = (int64_t)epoch;
    return STOKE_OK;
}

/* pictures: two for each tile. */
static void lay_tiles(const stoke_batch *batch, int has_masks, stoke_tile *tiles, stoke_image *pictures)
{
    const uint32_t w = batch->width, h = batch->height;
    const uint8_t depth = (uint8_t)stoke_dtype_bytes(batch->mask_dtype);
    for (uint32_t i = 0; i < batch->count; i++) {
        stoke_image *image = &pictures[2 * i], *mask = image + 1;
        char *images = batch->images;
        /* Of a mixed row the mask that belongs to the stronger picture. */
        char *masks = batch->lambda && batch->lambda[i] < 0.5f ? batch->masks_b : batch->masks;
        *image = (stoke_image){ images + i * batch->image_row_bytes, (size_t)w * 3, w, h, 3, 1 };
        *mask = (stoke_image){ masks + i * batch->mask_row_bytes, (size_t)w * depth, w, h, 1, depth };
        tiles[i] = (stoke_tile){ image, has_masks ? mask : NULL, batch->names[i] };
    }
}

static int write_grid(const stoke_tile *tiles, const stoke_batch *batch, const stoke_data_params *params,
                      const char *path, uint32_t columns, uint32_t tile, stoke_error *err)
{
    stoke_labels *labels = NULL;
    int r = stoke_data_labels(&labels, params, err);
    if (r) return r;
    const char *names[NAMES];
    for (uint32_t id = 0; id < NAMES; id++) names[id] = stoke_labels_name(labels, id);
    char title[256];
    snprintf(title, sizeof title, "%ux%u  %s  epoch %llu", batch->height, batch->width, params->augment,
             (unsigned long long)batch->epoch);
    stoke_grid_params grid = stoke_grid_defaults();
    grid.columns = columns;
    if (tile) grid.tile = tile;
    grid.ignore_index = (int32_t)params->ignore_index;
    grid.title = title;
    grid.class_names = names;
    grid.n_class_names = NAMES;
    r = stoke_grid_write(path, tiles, batch->count, &grid, err);
    stoke_labels_destroy(&labels);
    return r;
}

static int draw(const stoke_batch *batch, const stoke_data_params *params, int has_masks, const char *path,
                uint32_t columns, uint32_t tile, stoke_error *err)
{
    stoke_tile *tiles = calloc(batch->count, sizeof *tiles);
    stoke_image *pictures = calloc(batch->count, 2 * sizeof *pictures);
    int r = STOKE_E_NOMEM;
    if (tiles && pictures) {
        lay_tiles(batch, has_masks, tiles, pictures);
        r = write_grid(tiles, batch, params, path, columns, tile, err);
    } else {
        snprintf(err->message, sizeof err->message, "no memory for a picture of %u samples", batch->count);
    }
    free(tiles);
    free(pictures);
    return r;
}

int py_picture_write(const stoke_lender *lender, const char *path, uint32_t count, uint64_t epoch,
                     uint32_t columns, uint32_t tile, stoke_error *err)
{
    const stoke_dataset *dataset = stoke_lender_dataset(lender);
    stoke_data_params params = *stoke_lender_params(lender);
    stoke_loader *loader = NULL;
    const stoke_batch *batch = NULL;
    int r = stoke_lender_check(lender, err);
    if (!r) r = settle(&params, count, epoch, err);
    if (!r) r = stoke_loader_create(&loader, dataset, &params, NULL, err);
    if (r) return r;
    r = stoke_loader_next(loader, &batch);
    if (r)
        snprintf(err->message, sizeof err->message, "%s",
                 r == STOKE_E_END ? "the data set has no sample to show" : stoke_loader_error(loader));
    else
        r = draw(batch, &params, stoke_dataset_has_masks(dataset), path, columns, tile, err);
    stoke_loader_destroy(&loader);
    return r;
}
