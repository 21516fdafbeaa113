/* SPDX-License-Identifier: Apache-2.0
 *
 * One sample, from two file names to a finished row.
 */
#ifndef STOKE_SRC_LOADER_SAMPLE_H
#define STOKE_SRC_LOADER_SAMPLE_H

#include "src/loader/memory_gate.h"
#include "src/loader/slots.h"

/* A file larger than this is no sample: 1 GiB, about 40 times an uncompressed 8-megapixel 16-bit TIFF. */
#define STK_FILE_LIMIT (UINT64_C(1) << 30)

/* Where a sample goes, in time and in memory. */
typedef struct stk_sample_target {
    uint64_t epoch, position;
    void *image_row, *mask_row;
    stk_slot_row_mix *mix;
    stk_raw_row *raw; /* NULL in an ordinary loader */
} stk_sample_target;

/* Fills one row with sample `id`. On failure err->message names file and reason, and the row's content is
 * undefined. */
int stk_sample_load(stk_scratch *scratch, const stk_loader_config *config, stk_memory_gate *gate,
                    const stk_sample_target *place, uint64_t id, stoke_error *err);

#endif
