/* SPDX-License-Identifier: Apache-2.0
 *
 * One sample, from two file names to a finished row: read, probe, draw, decode, fit, write. The bench is what
 * a worker owns: buffers that only grow, a decoder, a resizer. Steady work allocates nothing of ours.
 */
#ifndef STOKE_SRC_LOADER_SAMPLE_H
#define STOKE_SRC_LOADER_SAMPLE_H

#include <stoke/augment.h>
#include <stoke/labels.h>
#include <stoke/loader.h>

#include "src/base/mem.h"
#include "src/pix/pix.h"

enum { STK_ROW_STAGES = STOKE_STAGE_WRITE + 1 };

/* A file larger than this is no sample: 1 GiB, about 40 times an uncompressed 8-megapixel 16-bit TIFF. */
#define STK_FILE_LIMIT (UINT64_C(1) << 30)

/* What every sample of a run has in common. Immutable while workers run. */
typedef struct stk_recipe {
    const stoke_dataset *dataset;
    stoke_pipeline *pipeline;
    stoke_labels *labels;
    stk_window window;
    stk_writer writer;
    stoke_decode_params image_decode, mask_decode; /* region, target and sizes are set per sample */
    stoke_dtype mask_dtype;
    uint32_t width, height;
    uint32_t mask_fill; /* of uncovered pixels: ignore_index, or 0 without one */
    uint64_t seed;
} stk_recipe;

typedef struct stk_bench {
    stk_buffer image_file, mask_file; /* bytes as read */
    stk_buffer fitted, labelled, mask_fitted, zeros, histogram;
    stoke_decoder *image_decoder, *mask_decoder;
    stk_resizer *resizer;
    stoke_stage_time times[STK_ROW_STAGES]; /* of the last sample */
    uint64_t bytes_read;
    uint64_t granted; /* bytes this bench may use; grows through stk_budget */
} stk_bench;

int stk_bench_create(stk_bench *bench, stoke_error *err);
void stk_bench_destroy(stk_bench *bench);
uint64_t stk_bench_memory(const stk_bench *bench);

/* Memory beyond the plan, shared by all benches: a picture larger than those probed may take it, or is
 * refused. */
typedef struct stk_budget {
    _Atomic uint64_t spare; /* bytes left under memory_limit; UINT64_MAX = no limit */
    uint64_t limit;
} stk_budget;

/* Width and height as decoded: swapped when the stored orientation is applied and turns the picture. */
void stk_shown_size(const stoke_image_info *info, const stoke_decode_params *params, uint32_t *width,
                    uint32_t *height);

/* What a bench holds for such a pair (mask NULL = none): the planner and the gate use the same sum. */
uint64_t stk_bench_need(const stk_recipe *recipe, const stoke_image_info *image, uint64_t image_bytes,
                        const stoke_image_info *mask, uint64_t mask_bytes);

/* Fills one row. On failure err->message names file and reason, and the row's content is undefined. */
int stk_sample_load(stk_bench *bench, const stk_recipe *recipe, stk_budget *budget, uint64_t id,
                    uint64_t epoch, uint64_t position, void *image_row, void *mask_row, stoke_error *err);

#endif
