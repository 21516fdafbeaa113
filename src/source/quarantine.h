/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples that could not be used: remembered once each, recorded in a JSON lines file, counted against a
 * fuse.
 */
#ifndef STOKE_SRC_SOURCE_QUARANTINE_H
#define STOKE_SRC_SOURCE_QUARANTINE_H

#include <stoke/dataset.h>

typedef struct stk_quarantine stk_quarantine;

/* The list that was named; NULL for none, and for the name that settings have when nobody said one: where the
 * report has the bad files anyway. */
const char *stk_quarantine_named(const stoke_data_params *params);

/* path NULL or "" = remembered only. The file is opened at the first record, so a clean run leaves none.
 * Lines are appended to what earlier runs wrote. */
int stk_quarantine_open(stk_quarantine **out, const char *path, stoke_error *err);

/* Records a sample; further records of the same id only lower its ticket, the place in the order of delivery
 * where it was met first. Safe from several threads. *distinct (may be NULL) = bad samples so far. Fails only
 * for want of memory, and the sample is counted all the same. A file that cannot be written is no failure:
 * see below. */
int stk_quarantine_add(stk_quarantine *quarantine, uint64_t id, uint64_t ticket, const stoke_sample *sample,
                       const stoke_error *error, uint64_t *distinct, stoke_error *err);

uint64_t stk_quarantine_count(stk_quarantine *quarantine);
/* In order of arrival; index < count. The strings live until close. Paths are the image's. */
stoke_bad_file stk_quarantine_get(stk_quarantine *quarantine, size_t index);

/* How many were met up to a ticket, and the first `most` of them by (ticket, id): what a consumer has seen so
 * far, however far the workers are ahead. */
uint64_t stk_quarantine_until(stk_quarantine *quarantine, uint64_t ticket, stoke_bad_file *first,
                              size_t most);
typedef struct stk_quarantine_entry {
    uint64_t id, ticket;
    stoke_bad_file file;
} stk_quarantine_entry;
/* The first behind `after` (NULL: of all) in that order, up to a ticket; 0: there is none. */
int stk_quarantine_next(stk_quarantine *quarantine, const stk_quarantine_entry *after, uint64_t ticket,
                        stk_quarantine_entry *next);
/* STOKE_E_TOO_BAD when more than max_bad were met up to a ticket, of a set of `samples`: "3 of 40 samples are
 * bad, more than max_bad allows (1):" and the first of them, a line each. */
int stk_quarantine_too_bad(stk_quarantine *quarantine, uint64_t ticket, uint64_t max_bad, uint64_t samples,
                           stoke_error *err);

/* Why records do not reach the file any more; NULL while they do. *recorded (may be NULL) = how many samples,
 * from the first on, are in it. The text lives until close. */
const char *stk_quarantine_problem(stk_quarantine *quarantine, size_t *recorded);
/* The same for people, in one line: the reason, how many samples are missing in the list, the first of them.
 * 0 when none is. */
int stk_quarantine_unrecorded(stk_quarantine *quarantine, char *line, size_t size);

/* fsync, then close; sets *quarantine to NULL. Not while others add. */
void stk_quarantine_close(stk_quarantine **quarantine);

/* The bad files of a report, with their texts. make: 0 without memory, and nothing is held. */
int stk_bad_file_make(stoke_bad_file *bad, const char *path, const stoke_error *error);
void stk_bad_file_free(stoke_bad_file *bad);
void stk_bad_files_free(stoke_bad_file *bad, size_t count);

/* max_bad: "1%" of count, rounded up, or a number. *limit bad samples are allowed. NULL or "" = 1 %. */
int stk_max_bad_limit(const char *text, uint64_t count, uint64_t *limit, stoke_error *err);

#endif
