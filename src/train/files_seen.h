/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether files changed under their names. Names and order tell one set from another; size and time tell, at
 * the price of a stat for each, whether somebody has worked on the pictures since.
 */
#ifndef STOKE_SRC_TRAIN_FILES_SEEN_H
#define STOKE_SRC_TRAIN_FILES_SEEN_H

#include <stoke/dataset.h>

/* Of size and time of every file, in the order of the set. What cannot be asked for counts as a file of no
 * size. 0 for NULL. */
uint64_t stk_files_digest(const stoke_dataset *set);

/* Which of the files of several sets, each counted once, changed after a moment. */
typedef struct stk_files_newer {
    uint64_t count, newer;
    const char *first; /* of the newer ones, by its name; the set's own string; NULL: none */
    int shards;        /* they are shards */
} stk_files_newer;

/* Sets may be NULL. since_ns: CLOCK_REALTIME. Without memory *found is zeros. */
void stk_files_newer_than(const stoke_dataset *const *sets, size_t n, int64_t since_ns,
                          stk_files_newer *found);

#endif
