/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/bad_share.h"

#include <stdio.h>

#include "src/base/error.h"
#include "src/base/mem.h"

enum { EACH = 4 }; /* that a rank tells in one go: 2 KB, and there are few */

/* reason "": no more. */
typedef struct stk_bad_record {
    uint64_t id;
    int32_t code;
    char reason[500];
} record;

static record *records_of(const stk_bad_share *share, uint32_t q)
{
    return share->records + (1 + (size_t)q) * EACH;
}

int stk_bad_share_open(stk_bad_share *share, stk_comm *comm, const stoke_dataset *dataset,
                       const char *max_bad, const char *path, stoke_error *err)
{
    *share = (stk_bad_share){ .comm = comm, .dataset = dataset };
    if (!comm) return STOKE_OK;
    int r = stk_max_bad_limit(max_bad, stoke_dataset_count(dataset), &share->max_bad, err);
    if (!r) r = stk_quarantine_open(&share->all, path, err);
    if (r) return r;
    share->records = stk_calloc((1 + (size_t)stk_comm_world(comm)) * EACH, sizeof *share->records);
    if (share->records) return STOKE_OK;
    stk_bad_share_close(share);
    return stk_fail(err, STOKE_E_NOMEM, "no memory for the bad samples of %u ranks",
                    (unsigned)stk_comm_world(comm));
}

void stk_bad_share_close(stk_bad_share *share)
{
    stk_quarantine_close(&share->all);
    stk_free(share->records);
    *share = (stk_bad_share){ 0 };
}

int stk_bad_share_news(const stk_bad_share *share, stoke_loader *loader)
{
    stk_quarantine_entry entry;
    return share->all && loader && stk_loader_next_bad(loader, 0, &entry);
}

static void take_own(stk_bad_share *share, stoke_loader *loader)
{
    for (int i = 0; i < EACH; i++) {
        stk_quarantine_entry entry;
        record *to = &share->records[i];
        *to = (record){ 0 };
        if (!loader || !stk_loader_next_bad(loader, 1, &entry)) continue;
        to->id = entry.id;
        to->code = entry.file.code;
        snprintf(to->reason, sizeof to->reason, "%s", *entry.file.reason ? entry.file.reason : "?");
    }
}

/* In the order of the ranks, so that all have one list. */
static int add_all(stk_bad_share *share, int *more, stoke_error *err)
{
    int r = STOKE_OK;
    for (uint32_t q = 0; !r && q < stk_comm_world(share->comm); q++) {
        const record *of = records_of(share, q);
        *more |= *of[EACH - 1].reason != 0;
        for (int i = 0; !r && i < EACH && *of[i].reason; i++) {
            stoke_error reason = { .code = of[i].code };
            if (of[i].id >= stoke_dataset_count(share->dataset)) continue;
            const stoke_sample sample = stoke_dataset_sample(share->dataset, of[i].id);
            snprintf(reason.message, sizeof reason.message, "%.*s", (int)sizeof of[i].reason - 1,
                     of[i].reason);
            r = stk_quarantine_add(share->all, of[i].id, share->told++, &sample, &reason, NULL, err);
        }
    }
    return r;
}

int stk_bad_share_tell(stk_bad_share *share, stoke_loader *loader, stoke_error *err)
{
    int r = STOKE_OK, more = 1;
    while (!r && more) {
        more = 0;
        take_own(share, loader);
        r = stk_comm_all(share->comm, share->records, EACH * sizeof *share->records, records_of(share, 0),
                         err);
        if (!r) r = add_all(share, &more, err);
    }
    return r;
}

int stk_bad_share_check(const stk_bad_share *share, stoke_error *err)
{
    if (!share->all) return STOKE_OK;
    return stk_quarantine_too_bad(share->all, share->told, share->max_bad,
                                  stoke_dataset_count(share->dataset), err);
}
