/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that remembers trials. Its first line is {"stoke_batch_journal":1,"key":".."}, every other one a
 * trial. A line is written by one call and reaches the disk before the search goes on; what a power cut
 * leaves of the last one is dropped.
 */
#ifndef STOKE_SRC_TUNE_BATCH_BATCH_JOURNAL_H
#define STOKE_SRC_TUNE_BATCH_BATCH_JOURNAL_H

#include <stoke/findbatch.h>

enum { STK_JOURNAL_KEY = 512 }; /* letters of a key */

typedef struct stk_batch_journal {
    int file; /* -1 = none is kept */
    const char *path;
    stoke_trial kept[STOKE_TRIALS];
    char taken[STOKE_TRIALS];
    size_t n_kept;
} stk_batch_journal;

/* path NULL: none is kept. A file with another key begins anew; one that is no journal is refused and left as
 * it is, so is one that another search has open. */
int stk_batch_journal_open(stk_batch_journal *journal, const char *path, const char *key, stoke_error *err);
void stk_batch_journal_close(stk_batch_journal *journal);

/* A remembered trial of this batch, each once; NULL = none. Only what a trial tells about the batch is
 * remembered: after a crash or a time limit it is tried again. */
const stoke_trial *stk_batch_journal_take(stk_batch_journal *journal, uint32_t batch, int with_loader);
int stk_batch_journal_add(stk_batch_journal *journal, const stoke_trial *trial, stoke_error *err);

#endif
