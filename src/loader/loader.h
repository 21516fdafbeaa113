/* SPDX-License-Identifier: Apache-2.0
 *
 * What other rooms see of a loader beyond <stoke/loader.h>: where it stood after each batch, a way out of a
 * wait, who did what when, what a batch took to be made, and loaders whose memory is planned together with
 * that of others.
 */
#ifndef STOKE_SRC_LOADER_LOADER_H
#define STOKE_SRC_LOADER_LOADER_H

#include <stoke/loader.h>

#include "src/loader/batch_times.h"
#include "src/loader/memory_plan.h"
#include "src/loader/raw.h"
#include "src/source/quarantine.h"

/* The epoch, and the global position after the last batch of next(). For the thread that calls next(). */
void stk_loader_where(const stoke_loader *loader, uint64_t *epoch, uint64_t *position);
/* As stoke_loader_state, of another place. Any thread. */
int stk_loader_state_at(const stoke_loader *loader, uint64_t epoch, uint64_t position, char *text,
                        size_t size);

/* Samples of an epoch, of all ranks together. */
uint64_t stk_loader_samples(const stoke_loader *loader);
/* Batches of an epoch from a global position on. Any thread. */
uint64_t stk_loader_batches_from(const stoke_loader *loader, uint64_t position);

/* Rows that were replaced, or left out (policy skip). */
typedef struct stk_loader_bad {
    uint64_t replaced, skipped;
} stk_loader_bad;
/* Of all batches of next() so far, those it passed over because nothing was left of them among them. For the
 * thread that calls next(). */
stk_loader_bad stk_loader_bad_rows(const stoke_loader *loader);

/* The next bad sample that batches of next() have met, in the order of their rows; 0: there is none yet. take
 * 0: it is the next one again. For the thread that calls next(). */
int stk_loader_next_bad(stoke_loader *loader, int take, stk_quarantine_entry *entry);

/* The batches of a run by number, epoch after epoch, where this process takes some of them in an order of its
 * own: number n is batch n % E of epoch n / E, of E batches (stk_loader_batches_from position 0). */
typedef struct stk_loader_route {
    uint64_t (*at)(const void *context,
                   uint64_t k); /* number of the k-th one; UINT64_MAX: there are no more */
    const void *context;
} stk_loader_route;
/* What next() gives from now on, to a loader that is alone in its world. A batch of which policy skip left
 * nothing comes with count 0: other processes count on its number. */
void stk_loader_follow(stoke_loader *loader, const stk_loader_route *route);

/* 1: next() would not have to wait. Any thread. */
int stk_loader_ready(stoke_loader *loader);
/* While on, next() returns STOKE_E_CANCELLED instead of waiting, and so does one that waits in another thread
 * now. Nothing is lost: the batch it would have given is the next one's. Any thread. */
void stk_loader_cancel(stoke_loader *loader, int on);

/* From the next row of every worker on; rows under way still tell the one before, whose context must live as
 * long as the loader. */
void stk_loader_trace(stoke_loader *loader, stk_batch_spans spans);

/* What it took to make a batch of next(); valid until it is released. */
const stk_batch_times *stk_batch_times_of(const stoke_batch *batch);
/* While on, workers ask the kernel how long they stood in line for a core: once a row, and twice where the
 * caller makes the rows (workers: 0). From the next row of every worker on. Any thread. */
void stk_loader_record(stoke_loader *loader, int on);

/* Whether a loader can be made with them, before anything is made of them. */
int stk_loader_check_params(const stoke_data_params *params, stoke_error *err);

/* A loader whose memory somebody has planned already, together with that of others. */
int stk_loader_create_planned(stoke_loader **out, const stoke_dataset *dataset,
                              const stoke_data_params *params, const stk_loader_plan *plan, stoke_error *err);
/* A loader that is not needed for a while: what workers hold goes back. Rows that are being made are finished
 * and what is ready stays. next() must not be called before it is woken. */
void stk_loader_rest(stoke_loader *loader);
void stk_loader_wake(stoke_loader *loader);

#endif
