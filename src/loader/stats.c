/* SPDX-License-Identifier: Apache-2.0
 *
 * What it cost, and what came out.
 */
#include "src/loader/loader_internal.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include <stoke/tools/loader.h>

#include "src/base/mem.h"

const char *stoke_stage_name(stoke_stage stage)
{
    static const char *const names[STOKE_STAGES] = { "read",  "decode image", "decode mask", "fit",
                                                     "write", "slot wait",    "batch wait" };
    return (unsigned)stage < STOKE_STAGES ? names[stage] : "unknown";
}

stoke_memory_plan stoke_loader_memory(const stoke_loader *loader)
{
    return loader->plan;
}

/* Hits and misses are booked with the batches they are delivered in: what the workers look up ahead, past the
 * end of an epoch too, depends on how far they got. */
static void book_cache(const stk_cache *cache, stoke_loader_stats_data *stats)
{
    stk_cache_stats now;
    stk_cache_stats_get(cache, &now);
    stats->cache_damaged = now.damaged;
    stats->cache_ram_bytes = now.ram_bytes;
    stats->cache_disk_bytes = now.disk_bytes;
    stats->memory_bytes += now.ram_bytes;
}

/* The words of each never change once they are there, nor do those of both together. */
const char *stoke_loader_warning(const stoke_loader *loader)
{
    stoke_loader *own = (stoke_loader *)loader; /* where both are put together is no part of the value */
    const char *cache = loader->config.cache ? stk_cache_warning(loader->config.cache) : NULL;
    const char *list = stk_quarantine_problem(loader->quarantine, NULL);
    if (!cache || !list) return cache ? cache : list;
    pthread_mutex_lock(&own->lock);
    if (!*own->warning) snprintf(own->warning, sizeof own->warning, "%s; %s", cache, list);
    pthread_mutex_unlock(&own->lock);
    return own->warning;
}

int stoke_loader_unrecorded(const stoke_loader *loader, char *text, size_t size)
{
    return stk_quarantine_unrecorded(loader->quarantine, text, size);
}

void stoke_loader_stats(const stoke_loader *loader, stoke_loader_stats_data *stats)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&loader->lock; /* a lock is no part of the value */
    pthread_mutex_lock(lock);
    *stats = loader->stats;
    stats->memory_bytes = loader->plan.slots * loader->plan.slot_bytes;
    for (uint32_t i = 0; i < loader->benches; i++) stats->memory_bytes += loader->workers[i].memory;
    stats->ready_batches = stk_slots_ready(&loader->slots);
    stats->slots = loader->slots.count;
    pthread_mutex_unlock(lock);
    if (loader->config.cache) book_cache(loader->config.cache, stats);
    stats->bad_samples = stk_quarantine_count(loader->quarantine);
    stats->heap_allocations = stk_mem_count().calls - loader->heap_calls_at_start;
}

int stoke_loader_bad(const stoke_loader *loader, size_t index, stoke_bad_file *bad)
{
    if (index >= stk_quarantine_count(loader->quarantine)) return STOKE_E_NOTFOUND;
    *bad = stk_quarantine_get(loader->quarantine, index);
    return STOKE_OK;
}

void stoke_batch_digest(const stoke_batch *batch, uint8_t digest[16])
{
    XXH3_state_t *state = XXH3_createState();
    memset(digest, 0, 16);
    if (!state) return;
    const uint64_t count = batch->count;
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, &count, sizeof count);
    XXH3_128bits_update(state, batch->ids, count * sizeof *batch->ids);
    XXH3_128bits_update(state, batch->images, count * batch->image_row_bytes);
    XXH3_128bits_update(state, batch->masks, count * batch->mask_row_bytes);
    if (batch->masks_b) {
        XXH3_128bits_update(state, batch->masks_b, count * batch->mask_row_bytes);
        XXH3_128bits_update(state, batch->lambda, count * sizeof *batch->lambda);
    }
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(digest, canonical.digest, 16);
    XXH3_freeState(state);
}
