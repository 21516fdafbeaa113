/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that remembers trials. Its first line is {"stoke_trial_log":1,"key":".."}, every other one a
 * trial. A line is written by one call and reaches the disk before the search goes on; what a power cut
 * leaves of the last one is dropped.
 */
#ifndef STOKE_SRC_TUNE_BATCH_TRIAL_LOG_H
#define STOKE_SRC_TUNE_BATCH_TRIAL_LOG_H

#include <stoke/tools/findbatch.h>

enum { STK_LOG_KEY = 512 }; /* letters of a key */

typedef struct stk_trial_log {
    int file; /* -1 = none is kept */
    const char *path;
    stoke_trial kept[STOKE_TRIALS];
    char taken[STOKE_TRIALS];
    size_t n_kept;
} stk_trial_log;

/* path NULL: none is kept. A file with another key begins again; one that is no journal is refused and left
 * as it is, so is one that another search has open. */
int stk_trial_log_open(stk_trial_log *journal, const char *path, const char *key, stoke_error *err);
void stk_trial_log_close(stk_trial_log *journal);

/* A remembered trial of this batch, each once; NULL = none. Only what a trial tells about the batch is
 * remembered: after a crash or a time limit it is tried again. */
const stoke_trial *stk_trial_log_take(stk_trial_log *journal, uint32_t batch, int with_loader);
int stk_trial_log_add(stk_trial_log *journal, const stoke_trial *trial, stoke_error *err);

#endif
