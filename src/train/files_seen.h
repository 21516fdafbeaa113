/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether files changed under their names. Names and order tell one set from another; size and time tell, at
 * the price of a stat for each, whether somebody has worked on the pictures since.
 */
#ifndef STOKE_SRC_TRAIN_FILES_SEEN_H
#define STOKE_SRC_TRAIN_FILES_SEEN_H

#include <stoke/dataset.h>

typedef struct stk_files_seen {
    uint64_t digest; /* of size and time of every file, in the order of the set */
    uint64_t count;  /* files */
    uint64_t newer;  /* of them changed after `since_ns` */
    const char *first_newer;
} stk_files_seen;

/* since_ns: CLOCK_REALTIME. What cannot be asked for counts as a file of no size. */
stk_files_seen stk_files_look(const stoke_dataset *set, int64_t since_ns);

#endif
