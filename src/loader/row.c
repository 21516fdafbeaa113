/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a batch: the sample that stands at its position, or what the policy puts there when it is bad.
 */
#include "src/loader/loader_internal.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"

enum {
    SUBSTITUTES =
        1000,   /* with 99 % bad samples, all of them fail once in 23,000 rows; the fuse blows long before */
    LISTED = 10 /* bad files named in the message; the rest is in the quarantine list */
};

/* "3 of 40 samples are bad, more than max_bad allows (1):" and the first of them, a line each. */
int stk_loader_too_bad(const stoke_loader *loader, uint64_t ticket, stoke_error *err)
{
    stoke_bad_file first[LISTED];
    const uint64_t bad = stk_quarantine_until(loader->quarantine, ticket, first, LISTED);
    if (bad <= loader->max_bad) return STOKE_OK;
    stk_fail(err, STOKE_E_TOO_BAD,
             "%llu of %llu samples are bad, more than max_bad allows (%llu):", (unsigned long long)bad,
             (unsigned long long)loader->order.count, (unsigned long long)loader->max_bad);
    uint64_t listed = 0;
    while (listed < bad && listed < LISTED && stk_error_add_entry(err, first[listed].reason)) listed++;
    if (listed < bad) stk_error_add(err, "\n  ... and %llu more", (unsigned long long)(bad - listed));
    return STOKE_E_TOO_BAD;
}

/* Books a bad sample. Returns what ends the run: 0, the sample's own error (policy stop), or a blown fuse. */
static int book_bad(stoke_loader *loader, uint64_t id, uint64_t ticket, stk_loader_row_result *result)
{
    const stoke_sample sample = stoke_dataset_sample(loader->config.dataset, id);
    const stoke_error reason = result->error;
    uint64_t bad;
    int r = stk_quarantine_add(loader->quarantine, id, ticket, &sample, &reason, &bad, &result->error);
    if (r) return r;
    if (loader->policy == STOKE_POLICY_STOP) return reason.code;
    return bad <= loader->max_bad ? STOKE_OK : stk_loader_too_bad(loader, ticket, &result->error);
}

void stk_row_fill(stk_loader_worker *worker, stk_slot *slot, uint32_t row, stk_loader_row_result *result)
{
    stoke_loader *loader = worker->loader;
    const uint64_t position = slot->batch.position + row;
    stoke_order order = loader->order;
    order.epoch = slot->batch.epoch;
    const stk_sample_target place = { order.epoch,
                                      position,
                                      stk_slot_image_row(slot, row),
                                      stk_slot_mask_row(slot, row),
                                      &slot->mix[row],
                                      slot->raw ? &slot->raw[row] : NULL };
    *result = (stk_loader_row_result){ .mark = STOKE_ROW_OK };
    uint64_t id = stoke_order_at(&order, position);
    for (uint32_t attempt = 1; attempt <= SUBSTITUTES; attempt++) {
        int r = stk_sample_load(&worker->scratch, &loader->config, &loader->gate, &place, id, &result->error);
        slot->ids[row] = id;
        slot->names[row] = stoke_dataset_sample(loader->config.dataset, id).name;
        slot->status[row] = result->mark;
        if (!r) return;
        if (stk_is_want(r) || (r = book_bad(loader, id, slot->ticket + row, result))) {
            result->status = r;
            return;
        }
        if (loader->policy == STOKE_POLICY_SKIP) {
            result->skipped = 1;
            slot->status[row] = STK_ROW_SKIPPED;
            return;
        }
        result->mark = STOKE_ROW_REPLACED;
        result->replaced = 1;
        id = stoke_order_substitute(&order, position, attempt);
    }
    result->status =
        stk_fail(&result->error, STOKE_E_TOO_BAD, "no good sample in %d substitutes at position %llu",
                 SUBSTITUTES, (unsigned long long)position);
}
