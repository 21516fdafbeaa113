/* SPDX-License-Identifier: Apache-2.0
 *
 * What verify has read (verify.c), before it is judged (verify_report.c).
 */
#ifndef STOKE_SRC_SOURCE_VERIFY_H
#define STOKE_SRC_SOURCE_VERIFY_H

#include <pthread.h>

#include <stoke/dataset.h>

#include "src/source/pairs.h"
#include "src/source/tally.h"

typedef struct stk_verify_bad_line {
    uint64_t order; /* twice the sample's id, plus one for its mask */
    int by_label;   /* of values that are no class, and nothing else */
    stoke_bad_file file;
} stk_verify_bad_line;

/* What members add up for themselves, and the calling thread collects. */
typedef struct stk_verify_sums {
    uint64_t ok, ok_but_label, image_bytes, mask_bytes, formats[8], images16;
    uint32_t min_width, min_height, max_width, max_height;
    uint32_t low, high;                 /* values of 16-bit images */
    uint64_t first_jpeg, first_colored; /* ids of masks; UINT64_MAX: none */
    stk_pair_counts pairs;
} stk_verify_sums;
void stk_verify_sums_begin(stk_verify_sums *sums);

typedef struct stk_verify_result {
    const stoke_dataset *dataset;
    const stoke_data_params *params;
    stoke_labels *labels; /* as set */
    stoke_labels *values; /* every value as it is; NULL: there is a map, and tallies count classes */
    stk_verify_sums sums;
    stk_tally *tally, *odd; /* of good masks; of those with values that are no class */
    pthread_mutex_t lock;   /* of the bad lines */
    stk_verify_bad_line *bad;
    size_t n_bad, bad_capacity;
} stk_verify_result;

void stk_bad_line_free(stk_verify_bad_line *line);

/* Moves what was found into the report. On failure the report is left for stoke_verify_report_free. */
int stk_verify_write(stk_verify_result *v, stoke_verify_report *report, stoke_error *err);

#endif
