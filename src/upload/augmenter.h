/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out the plans of a raw batch on a device: tables (tables.c), then one launch a stage for the whole
 * batch, nothing waited for.
 *
 *   raw, tables ──lay_image, lay_mask──► batch; planes of rows that have more to come
 *        planes ──for every further segment: gray_sum | blur_* | clahe_*──► planes ──color step──► batch or
 * planes batch ──mix_rows──► batch
 */
#ifndef STOKE_SRC_UPLOAD_AUGMENTER_H
#define STOKE_SRC_UPLOAD_AUGMENTER_H

#include "kernels/tables.h"
#include "src/device/device.h"
#include "src/loader/raw.h"

/* ---- tables.c: from the plans of a raw batch to what kernels are told (kernels/tables.h). Every number that
 * takes a double, a library or a look at the plan is worked out here, by the functions the host's own pixels
 * come from (color_steps.h, clahe.h, elastic.h) ---- */

/* What one row of a pipeline may ask for at most: memory is taken before the first plan is drawn. */
typedef struct stk_table_need {
    uint32_t steps;
    uint64_t points; /* control points */
    uint64_t keys;   /* words of row keys */
    uint32_t sums;   /* words */
    uint32_t tiles;
    int planes, spare;
} stk_table_need;
stk_table_need stk_tables_need(const stk_loader_config *config);

/* What the rows of a batch ask for in one round: in segment r of their steps, 0 < r. */
typedef struct stk_tables_round {
    uint32_t rows, ends;                  /* that have such a segment; for which it is the last one */
    uint32_t contrasts, blurs, clahes;    /* steps that start it */
    uint32_t tiles;                       /* CLAHE: of all rows together */
    uint32_t across;                      /* CLAHE: most tiles along an axis */
    uint32_t padded_width, padded_height; /* and the largest padded picture */
} stk_tables_round;

/* A batch. The caller gives room for `capacity` samples and capacity * need.steps steps. */
typedef struct stk_tables {
    k_sample *samples;
    k_step *steps;
    uint32_t steps_capacity;
    uint32_t n_samples, n_steps;
    uint32_t columns, rows; /* the largest grid of control points; 0 = none */
    uint32_t points;        /* of all rows, in pairs of floats */
    uint32_t noises, keys;  /* steps; words */
    uint32_t sums;          /* words */
    uint32_t tiles;
    uint32_t mixed;  /* rows that are mixed */
    uint32_t direct; /* rows of one segment: they are finished in the first launch */
    uint32_t rounds; /* segments of the row that has most */
    stk_tables_round round[STOKE_PLAN_COLOR_STEPS + 1];
} stk_tables;

/* Where pictures and ids lie in the raw block. */
typedef struct stk_tables_raw_layout {
    size_t image_at, image_pitch, mask_at, mask_pitch;
} stk_tables_raw_layout;

/* STOKE_E_INVALID for plans that the loader config's pipeline does not draw. */
int stk_tables_fill(stk_tables *tables, const stk_loader_config *config, const stk_raw_row *rows,
                    uint32_t count, const stk_tables_raw_layout *layout, stoke_error *err);
/* The batch without `round`. */
k_shape stk_tables_shape(const stk_loader_config *config, uint32_t count);

/* ---- augmenter.c ---- */

typedef struct stk_augmenter stk_augmenter;

/* Device memory it takes for batches of `capacity` rows, `turns` of them on the way at once: work planes as
 * the pipeline may need them once (batches go through one after the other), tables once a turn. */
uint64_t stk_augmenter_bytes(const stk_loader_config *config, uint32_t capacity, uint32_t turns);
/* Pinned memory on the host: the tables once more, before they cross. */
uint64_t stk_augmenter_host_bytes(const stk_loader_config *config, uint32_t capacity, uint32_t turns);
/* Compiles the kernels, allocates. The loader config outlives it. */
int stk_augmenter_create(stk_augmenter **out, stoke_device *device, const stk_loader_config *config,
                         uint32_t capacity, uint32_t turns, stoke_error *err);
void stk_augmenter_destroy(stk_augmenter **augmenter);

/* A batch on its way. Blocks belong to the caller and stay until the stream has passed. */
typedef struct stk_augmenter_job {
    const stk_raw_row *rows; /* read before the call returns */
    uint32_t count;
    const stk_device_block *raw;  /* device: rows' pictures and ids */
    stk_tables_raw_layout layout; /* of it */
    const stk_device_block *images, *masks,
        *masks_b;  /* device: the finished batch; masks_b NULL without second masks */
    uint32_t turn; /* 0 .. turns - 1; its work must have passed when it comes round again */
} stk_augmenter_job;
int stk_augmenter_run(stk_augmenter *augmenter, stk_device_stream *stream, const stk_augmenter_job *job,
                      stoke_error *err);
/* Launches of the last run, and the bytes they read and wrote by the model. */
uint32_t stk_augmenter_launches(const stk_augmenter *augmenter);
uint64_t stk_augmenter_traffic(const stk_augmenter *augmenter);
/* The compiled stk_augment_program; belongs to the augmenter. */
stk_device_module *stk_augmenter_module(const stk_augmenter *augmenter);
/* Launches `items` threads of a stk_augment_program that count to `turns`, a word each: with 0 turns, when it
 * has passed, the device is at work on this stream. */
int stk_augment_spin(stk_device_stream *stream, stk_device_module *module, const stk_device_block *words,
                     uint32_t items, uint32_t turns, stoke_error *err);

#endif
