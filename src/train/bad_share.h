/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad samples of training as processes count them: together. What a rank has met goes to all others with its
 * word of the step, so all have the same list, and end in the same step when it is too long. Rank 0 writes it
 * down for all.
 */
#ifndef STOKE_SRC_TRAIN_BAD_SHARE_H
#define STOKE_SRC_TRAIN_BAD_SHARE_H

#include "src/comm/comm.h"
#include "src/loader/loader.h"
#include "src/source/quarantine.h"

struct stk_bad_record;

typedef struct stk_bad_share {
    stk_comm *comm;
    const stoke_dataset *dataset;   /* the same on all ranks */
    stk_quarantine *all;            /* what all have met; NULL: one process, whose loader counts */
    uint64_t max_bad, told;         /* samples of all together; records so far */
    struct stk_bad_record *records; /* [1 + world][...]: the own ones first */
} stk_bad_share;

/* path: of the list, on rank 0; NULL: none. comm may be NULL. */
int stk_bad_share_open(stk_bad_share *share, stk_comm *comm, const stoke_dataset *dataset,
                       const char *max_bad, const char *path, stoke_error *err);
void stk_bad_share_close(stk_bad_share *share); /* accepts a zeroed struct */

/* Whether the loader has met what was not told yet: then all ranks have to tell, whose word says so. */
int stk_bad_share_news(const stk_bad_share *share, stoke_loader *loader);
/* By all ranks: what is new. */
int stk_bad_share_tell(stk_bad_share *share, stoke_loader *loader, stoke_error *err);
/* STOKE_E_TOO_BAD, on all ranks alike, with the first of them. err may be NULL. */
int stk_bad_share_check(const stk_bad_share *share, stoke_error *err);

#endif
