/* SPDX-License-Identifier: Apache-2.0
 *
 * From the plans of a raw batch to what kernels are told (kernels/tables.h): every number that takes a
 * double, a library or a look at the plan is worked out here, by the functions the host's own pixels come
 * from (color_steps.h, clahe.h, elastic.h).
 */
#ifndef STOKE_SRC_UPLOAD_TABLES_H
#define STOKE_SRC_UPLOAD_TABLES_H

#include "kernels/tables.h"
#include "src/loader/raw.h"

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

#endif
