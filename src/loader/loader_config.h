/* SPDX-License-Identifier: Apache-2.0
 *
 * What every sample of a run has in common. Made once from the settings, immutable while workers run.
 */
#ifndef STOKE_SRC_LOADER_LOADER_CONFIG_H
#define STOKE_SRC_LOADER_LOADER_CONFIG_H

#include <stoke/augment.h>
#include <stoke/labels.h>
#include <stoke/loader.h>

#include "src/cache/cache.h"
#include "src/pix/pix.h"

typedef struct stk_loader_config {
    const stoke_dataset *dataset;
    stoke_pipeline *pipeline;
    stoke_labels *labels;
    stk_pix_window window;
    stk_pix_writer writer;
    stoke_decode_params image_decode, mask_decode; /* region, target and sizes are set per sample */
    stoke_orientation orientation; /* as asked for: of auto, every sample makes ignore or apply */
    stoke_orientation alone;       /* of an image without a mask, then */
    stoke_dtype mask_dtype;
    uint32_t width, height;
    uint32_t mask_fill; /* of uncovered pixels: ignore_index, or 0 without one */
    uint64_t seed;
    int32_t ignore;       /* ignore_index, or -1 */
    const uint16_t *swap; /* class id -> its mirror image, for every value of an id; NULL: nothing to swap */
    /* What plans of this pipeline may ask for. */
    int crops;   /* a part of the source: what is decoded depends on the draw */
    int focuses; /* a part found by a look at the mask */
    int warps, elastic, color_steps;
    int mixes;        /* rows of a batch, mixed with each other */
    int two_masks;    /* and by MixUp: a batch has masks_b and lambda */
    int plain;        /* nothing: the fitted picture is the batch's */
    int raw;          /* rows are left to a device: fitted pictures and their plans (raw.h) */
    int keeps;        /* the settings ask for a cache */
    stk_cache *cache; /* cache_lookup.c; NULL = none, or not opened yet */
    uint64_t cache_ram;
    char transform[256]; /* the part of a cache key that all samples have in common */
} stk_loader_config;

int stk_loader_config_create(stk_loader_config *config, const stoke_dataset *dataset,
                             const stoke_data_params *params, stoke_error *err);
void stk_loader_config_destroy(stk_loader_config *config);
/* Which way up an image with such a mask (NULL: none) is decoded: ignore or apply. */
stoke_orientation stk_loader_config_orientation(const stk_loader_config *config,
                                                const stoke_image_info *image, const stoke_image_info *mask);
/* An empty batch with all sizes and types set. */
stoke_batch stk_batch_shape(const stk_loader_config *config, uint32_t capacity);

#endif
