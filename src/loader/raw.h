/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw batches: what workers make when a device carries out the plans. A row holds the fitted picture and its
 * ids as they come out of the fitted sample (u8 or u16, rows packed), and its plan; nothing has
 * been laid out, touched, normalised or mixed.
 *
 * A row of the slot has room for twice the output's area at one byte a sample, which is once at two: a fitted
 * picture that is larger (a rotated crop at the source's own scale) is warped by the worker, and its plan
 * then has no geometry left. The warp is exact in integers, so the bytes of the batch do not depend on who
 * did it.
 */
#ifndef STOKE_SRC_LOADER_RAW_H
#define STOKE_SRC_LOADER_RAW_H

#include <stoke/loader.h>
#include <stoke/augment_plan.h>

#include "src/loader/scratch.h"

typedef struct stk_raw_row {
    stoke_augment_plan plan;
    uint32_t width, height; /* of the fitted picture: plan.width x plan.height, or the output's when laid */
    uint8_t depth;          /* bytes of a sample: 1 or 2 */
    uint8_t mask_depth;     /* bytes of an id: 1 or 2; 0 = no mask, all ids are 0 where the picture is */
    uint8_t laid; /* 1: the worker did the geometry; warp, place, flips and swap_labels of the plan are 0 */
    size_t image_bytes, mask_bytes; /* used of the row */
} stk_raw_row;

/* As stoke_loader_create. Batches of such a loader: images and masks point to raw rows, image_row_bytes and
 * mask_row_bytes are the room of a row; height, width, layout and types are those of the batch that is to be
 * made; masks_b and lambda are NULL. */
int stk_loader_create_raw(stoke_loader **out, const stoke_dataset *dataset, const stoke_data_params *params,
                          const stoke_allocator *allocator, const stoke_memory_share *beside,
                          stoke_error *err);
/* batch->count rows; NULL when the loader is not a raw one. */
const stk_raw_row *stk_batch_raw(const stoke_batch *batch);
const stk_loader_config *stk_loader_config_of(const stoke_loader *loader);

/* Carries out a raw row on the host: the reference for devices, and what `placement: auto` measures.
 * image_row and mask_row are rows of a finished batch. */
int stk_raw_render(stk_scratch *scratch, const stk_loader_config *config, const stk_raw_row *row,
                   const void *image, const void *mask, void *image_row, void *mask_row, stoke_error *err);

#endif
