/* SPDX-License-Identifier: Apache-2.0
 *
 * What the search knows when it has ended, for those who put it into words.
 */
#ifndef STOKE_SRC_TUNE_BATCH_BATCH_SEARCH_H
#define STOKE_SRC_TUNE_BATCH_BATCH_SEARCH_H

#include "src/tune/batch/batch_fit.h"
#include "src/tune/batch/trial_log.h"

typedef struct stk_batch_search {
    const stoke_batch_params *params;
    stoke_trial_fn run;
    void *context;
    stoke_batch_result *result;
    stk_trial_log journal;
    stk_batch_fit fit;
    uint32_t low;        /* the largest that fits; 0 = none yet */
    uint32_t high;       /* the smallest that does not; 0 = none yet */
    uint32_t most;       /* never tried beyond */
    int flat;            /* two doublings gained less than 5 % each: larger ones were not tried */
    stoke_trial stopped; /* what else went wrong, twice; its outcome is ok when nothing did */
    stoke_trial confirmed;
} stk_batch_search;

/* Samples a second with the loader on. */
double stk_batch_whole_rate(const stoke_trial *trial);

/* Fills bound, why and next of the result. */
void stk_batch_tell(stk_batch_search *search);

#endif
