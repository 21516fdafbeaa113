/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/ahead.h"

#include "src/loader/loader_internal.h"

void stk_loader_where(const stoke_loader *loader, uint64_t *epoch, uint64_t *position)
{
    *epoch = loader->epoch;
    *position = stk_loader_position(loader);
}

uint64_t stk_loader_batches_from(const stoke_loader *loader, uint64_t position)
{
    const stoke_rank shard = stk_loader_rank_from(loader, position);
    return stoke_rank_batches(&shard);
}

stk_loader_bad stk_loader_bad_rows(const stoke_loader *loader)
{
    return (stk_loader_bad){ loader->stats.replaced, loader->stats.skipped };
}

int stk_loader_ready(stoke_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    const stk_slot *head = stk_slots_head(&loader->slots);
    const int ready = loader->failure.code || (head && head->state == STK_SLOT_READY);
    pthread_mutex_unlock(&loader->lock);
    return ready;
}

void stk_loader_cancel(stoke_loader *loader, int on)
{
    pthread_mutex_lock(&loader->lock);
    loader->cancelled = on;
    pthread_cond_broadcast(&loader->ready);
    pthread_mutex_unlock(&loader->lock);
}

void stk_loader_trace(stoke_loader *loader, stk_loader_spans spans)
{
    pthread_mutex_lock(&loader->lock);
    loader->spans = spans;
    pthread_mutex_unlock(&loader->lock);
}

const stk_batch_times *stk_batch_times_of(const stoke_batch *batch)
{
    return &((const stk_slot *)batch)->times; /* the batch is the slot's first member */
}

void stk_loader_record(stoke_loader *loader, int on)
{
    pthread_mutex_lock(&loader->lock);
    loader->recording = on;
    pthread_mutex_unlock(&loader->lock);
}
