/* SPDX-License-Identifier: Apache-2.0
 *
 * What it cost, and what came out.
 */
#include "src/loader/loader_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <stoke/tools/loader.h>

#include "src/base/error.h"
#include "src/base/json_read.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/loader/batch_times.h"

/* Every stage, and the work that the time of a sample's stages counts as. */
static const struct {
    const char *name;
    stoke_work work;
} stages[STOKE_STAGES] = {
    [STOKE_STAGE_READ] = { "read", STOKE_WORK_READ },
    [STOKE_STAGE_DECODE_IMAGE] = { "decode image", STOKE_WORK_DECODE },
    [STOKE_STAGE_DECODE_MASK] = { "decode mask", STOKE_WORK_DECODE },
    [STOKE_STAGE_FIT] = { "fit", STOKE_WORK_FIT },
    [STOKE_STAGE_WRITE] = { "write", STOKE_WORK_AUGMENT },
    [STOKE_STAGE_SLOT_WAIT] = { .name = "slot wait" },
    [STOKE_STAGE_BATCH_WAIT] = { .name = "batch wait" },
};

const char *stoke_stage_name(stoke_stage stage)
{
    return (unsigned)stage < STOKE_STAGES ? stages[stage].name : "unknown";
}

stoke_memory_plan stoke_loader_memory(const stoke_loader *loader)
{
    return loader->plan;
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
    /* Hits and misses are booked with the batches they are delivered in: what the workers look up ahead, past
     * the end of an epoch too, depends on how far they got. */
    stk_cache_stats now = { 0 };
    if (loader->config.cache) stk_cache_stats_get(loader->config.cache, &now);
    stats->cache_damaged = now.damaged;
    stats->cache_ram_bytes = now.ram_bytes;
    stats->cache_disk_bytes = now.disk_bytes;
    stats->memory_bytes += now.ram_bytes;
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
    if (batch->masks) XXH3_128bits_update(state, batch->masks, count * batch->mask_row_bytes);
    if (batch->targets) XXH3_128bits_update(state, batch->targets, count * batch->target_row_bytes);
    if (batch->masks_b) {
        XXH3_128bits_update(state, batch->masks_b, count * batch->mask_row_bytes);
        XXH3_128bits_update(state, batch->lambda, count * sizeof *batch->lambda);
    }
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(digest, canonical.digest, 16);
    XXH3_freeState(state);
}

/* ---- sums ---- */

const char *stoke_work_name(int work)
{
    static const char *const names[STOKE_WORK_KINDS] = { "read", "decode", "fit", "augment", "collate" };
    return work >= 0 && work < STOKE_WORK_KINDS ? names[work] : "unknown";
}

/* A stage that ran for no longer than it lasted. */
static stoke_work_time took(uint64_t wall_ns, uint64_t cpu_ns)
{
    return (stoke_work_time){ .wall_ns = wall_ns, .cpu_ns = cpu_ns < wall_ns ? cpu_ns : wall_ns };
}

static uint64_t stood(const stoke_work_time *time)
{
    return time->wall_ns - time->cpu_ns;
}

static void add(stoke_work_time *sum, const stoke_work_time *time)
{
    sum->wall_ns += time->wall_ns;
    sum->cpu_ns += time->cpu_ns;
    sum->queued_ns += time->queued_ns;
}

void stk_batch_times_row(stk_batch_times *made, const stoke_stage_time *times, uint64_t queued_ns)
{
    stoke_work_time row[STOKE_STAGE_WRITE + 1];
    uint64_t all = 0;
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) {
        row[i] = took(times[i].wall_ns, times[i].cpu_ns);
        all += stood(&row[i]);
    }
    const double share = queued_ns < all ? (double)queued_ns / (double)all : 1;
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) {
        if (queued_ns) row[i].queued_ns = (uint64_t)(share * (double)stood(&row[i]));
        add(&made->time[stages[i].work], &row[i]);
    }
}

void stk_batch_times_whole(stk_batch_times *made, uint64_t wall_ns, uint64_t cpu_ns, uint64_t queued_ns)
{
    stoke_work_time time = took(wall_ns, cpu_ns);
    time.queued_ns = queued_ns < stood(&time) ? queued_ns : stood(&time);
    add(&made->time[STOKE_WORK_AUGMENT], &time);
}

/* ---- the run queue ---- */

/* "ran waited slices", in ns, since the thread was made. A caller that comes in another thread than before
 * (workers: 0) is noticed: the descriptor belongs to the thread that opened it. */
static uint64_t waited(stk_batch_run_queue *queue)
{
    if (queue->is_open && !pthread_equal(queue->owner, pthread_self())) stk_run_queue_close(queue);
    if (!queue->is_open) {
        queue->file = stoke_open("/proc/thread-self/schedstat", O_RDONLY, 0);
        queue->owner = pthread_self();
        queue->is_open = 1;
    }
    char text[96];
    const ssize_t n = queue->file < 0 ? -1 : pread(queue->file, text, sizeof text - 1, 0);
    if (n <= 0) return queue->total_ns;
    text[n] = 0;
    char *end;
    strtoull(text, &end, 10);
    return strtoull(end, NULL, 10);
}

void stk_run_queue_begin(stk_batch_run_queue *queue)
{
    if (queue->begun) return;
    queue->total_ns = waited(queue);
    queue->begun = 1;
}

uint64_t stk_run_queue_since(stk_batch_run_queue *queue)
{
    const uint64_t before = queue->total_ns, now = waited(queue);
    queue->total_ns = now;
    return now > before ? now - before : 0;
}

void stk_run_queue_leave(stk_batch_run_queue *queue)
{
    queue->begun = 0;
}

void stk_run_queue_close(stk_batch_run_queue *queue)
{
    if (queue->is_open && queue->file >= 0) close(queue->file);
    *queue = (stk_batch_run_queue){ 0 };
}

/* Where a run stands, in one line of JSON. Since order and draws are functions of (seed, epoch, position),
 * the position is all there is to remember; the rest is there to notice that it belongs to another run.
 */

enum { VERSION = 1, FIELDS = 64 };

static const char *order_name(const stoke_loader *loader)
{
    static const char *const names[] = { "shuffle", "sequential", "weighted", "weighted" };
    return names[loader->order.kind];
}

uint64_t stk_loader_position(const stoke_loader *loader)
{
    const uint64_t position = loader->start + loader->delivered * loader->world * loader->batch;
    return position < loader->order.count && stoke_loader_remaining(loader) ? position : loader->order.count;
}

int stoke_loader_state(const stoke_loader *loader, char *text, size_t size)
{
    return stk_loader_state_at(loader, loader->epoch, stk_loader_position(loader), text, size);
}

int stk_loader_state_at(const stoke_loader *loader, uint64_t epoch, uint64_t position, char *text,
                        size_t size)
{
    return snprintf(text, size,
                    "{\"version\":%d,\"seed\":%" PRIu64 ",\"epoch\":%" PRIu64 ",\"position\":%" PRIu64
                    ",\"count\":%" PRIu64 ",\"order\":\"%s\",\"fingerprint\":\"%016" PRIx64 "\"}",
                    VERSION, loader->order.seed, epoch, position, loader->order.count, order_name(loader),
                    stoke_dataset_fingerprint(loader->config.dataset));
}

/* A whole number of the state. */
static int number(const stk_json *json, const char *key, uint64_t *value, stoke_error *err)
{
    const stk_json_value *found = stk_json_find(json, json->values, key);
    if (!found) return stk_fail(err, STOKE_E_FORMAT, "\"%s\" is missing", key);
    if (!stk_json_uint(json, found, value))
        return stk_fail(err, STOKE_E_FORMAT, "\"%s\" is not a whole number", key);
    return STOKE_OK;
}

/* Its text, or NULL. */
static const char *word(const stk_json *json, const char *key)
{
    return stk_json_text(json, stk_json_find(json, json->values, key));
}

static int check(const stoke_loader *loader, const stk_json *json, stoke_error *err)
{
    uint64_t version, seed, count;
    int r = number(json, "version", &version, err);
    if (!r) r = number(json, "seed", &seed, err);
    if (!r) r = number(json, "count", &count, err);
    if (r) return r;
    if (version != VERSION)
        return stk_fail(err, STOKE_E_STATE, "version %" PRIu64 ", this library reads %d", version, VERSION);
    if (seed != loader->order.seed)
        return stk_fail(err, STOKE_E_STATE, "saved with seed %" PRIu64 ", this run has seed %" PRIu64, seed,
                        loader->order.seed);
    if (count != loader->order.count)
        return stk_fail(err, STOKE_E_STATE, "saved with %" PRIu64 " samples, the data set now has %" PRIu64,
                        count, loader->order.count);
    const char *order = word(json, "order"), *fingerprint = word(json, "fingerprint");
    if (!order || strcmp(order, order_name(loader)) != 0)
        return stk_fail(err, STOKE_E_STATE, "saved with order %s, this run has %s", order ? order : "unknown",
                        order_name(loader));
    char own[32];
    snprintf(own, sizeof own, "%016" PRIx64, stoke_dataset_fingerprint(loader->config.dataset));
    if (!fingerprint || strcmp(fingerprint, own) != 0)
        return stk_fail(err, STOKE_E_STATE,
                        "saved with other samples: their names differ (fingerprint %s, now %s)",
                        fingerprint ? fingerprint : "none", own);
    return STOKE_OK;
}

static int read_state(const stoke_loader *loader, const char *text, uint64_t *epoch, uint64_t *position,
                      stoke_error *err)
{
    stk_json json = { 0 };
    int r = stk_json_read(&json, text, strlen(text), FIELDS, err);
    if (!r) r = check(loader, &json, err);
    if (!r) r = number(&json, "epoch", epoch, err);
    if (!r) r = number(&json, "position", position, err);
    if (!r && *position > loader->order.count)
        r = stk_fail(err, STOKE_E_STATE, "position %" PRIu64 " is past the last sample", *position);
    stk_json_free(&json);
    return r;
}

int stoke_loader_restore(stoke_loader *loader, const char *text, stoke_error *err)
{
    uint64_t epoch, position;
    int r = read_state(loader, text, &epoch, &position, err);
    if (r) {
        stk_error_prefix(err, "saved loader state");
        return r;
    }
    pthread_mutex_lock(&loader->lock);
    stk_schedule_restart(loader, epoch, position);
    pthread_mutex_unlock(&loader->lock);
    return STOKE_OK;
}
