/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule, and the threads that follow it. Rows, not batches, are the unit of work: a slow sample holds
 * up its own batch only, while the other workers go on filling the slots behind it. When the last batch of an
 * epoch has been handed out, rows of the next epoch follow at once: its first batch is ready when it is asked
 * for.
 */
#include "src/loader/loader_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/retry.h"
#include "src/loader/slots.h"
#include "src/pix/pix_table.h"

/* One row, or what was kept of one. */
typedef struct row_pixels {
    uint8_t *image, *mask, *target; /* mask or target; the other is NULL */
} row_pixels;

static row_pixels row_of(const stk_slot *slot, uint32_t i)
{
    return (row_pixels){ stk_slot_image_row(slot, i), stk_slot_mask_row(slot, i),
                         slot->batch.targets ? stk_slot_target_row(slot, i) : NULL };
}

/* A box of `height` lines, `pixel` bytes a pixel, from one picture of `width` pixels a line to another. */
static void paste_box(uint8_t *to, const uint8_t *from, size_t width, size_t pixel, const stoke_box *box)
{
    size_t at = (box->y * width + box->x) * pixel;
    for (uint32_t y = 0; y < box->height; y++, at += width * pixel)
        memcpy(to + at, from + at, box->width * pixel);
}

static void cut_picture(const stoke_batch *batch, uint8_t *own, const uint8_t *other, uint32_t width,
                        uint32_t height, const stoke_box *box)
{
    const size_t element = stoke_dtype_bytes(batch->image_dtype);
    const size_t plane = (size_t)width * height * element;
    if (batch->layout == STOKE_LAYOUT_HWC)
        paste_box(own, other, width, 3 * element, box);
    else
        for (size_t c = 0; c < 3; c++) paste_box(own + c * plane, other + c * plane, width, element, box);
}

static void cut(const stoke_batch *batch, row_pixels own, row_pixels other, const stoke_box *box)
{
    cut_picture(batch, own.image, other.image, batch->width, batch->height, box);
    if (own.mask) paste_box(own.mask, other.mask, batch->width, stoke_dtype_bytes(batch->mask_dtype), box);
    if (!own.target) return;
    const uint32_t scale = batch->target_width / batch->width;
    const stoke_box larger = { box->x * scale, box->y * scale, box->width * scale, box->height * scale };
    cut_picture(batch, own.target, other.target, batch->target_width, batch->target_height, &larger);
}

/* `other` is the row before, not mixed yet. */
static void mix_row(stk_slot *slot, uint32_t i, row_pixels other)
{
    const stoke_batch *batch = &slot->batch;
    const stk_slot_row_mix *mix = &slot->mix[i];
    const row_pixels own = row_of(slot, i);
    const size_t elements = (size_t)batch->width * batch->height * 3;
    if (mix->kind == STOKE_MIX_UP)
        stk_pix()->mix[batch->image_dtype](own.image, other.image, elements, mix->lambda);
    if (mix->kind == STOKE_MIX_UP && own.target)
        stk_pix()->mix[batch->image_dtype](
            own.target, other.target, (size_t)batch->target_width * batch->target_height * 3, mix->lambda);
    if (mix->kind == STOKE_MIX_CUT) cut(batch, own, other, &mix->box);
    if (!batch->masks_b) return;
    slot->lambda[i] = mix->kind == STOKE_MIX_UP ? mix->lambda : 1.0f;
    memcpy(stk_slot_mask_b_row(slot, i), mix->kind == STOKE_MIX_UP ? other.mask : own.mask,
           batch->mask_row_bytes);
}

uint64_t stk_mix_scratch(const stoke_batch *shape)
{
    return shape->image_row_bytes + shape->mask_row_bytes + shape->target_row_bytes;
}

int stk_slot_mix(stk_slot *slot, stk_mem_buffer *copy, stoke_error *err)
{
    const stoke_batch *batch = &slot->batch;
    const uint32_t count = batch->count;
    if (!count) return STOKE_OK;
    row_pixels last = row_of(slot, count - 1);
    /* Row 0 is mixed last of all, when the last row is no longer what it was. */
    if (count > 1 && slot->mix[0].kind != STOKE_MIX_NONE) {
        uint8_t *kept = stk_buffer_reserve(copy, stk_mix_scratch(batch));
        if (!kept) return stk_fail(err, STOKE_E_NOMEM, "no memory to mix the rows of a batch");
        uint8_t *beside = kept + batch->image_row_bytes; /* its mask or its target */
        memcpy(kept, last.image, batch->image_row_bytes);
        if (last.mask) memcpy(beside, last.mask, batch->mask_row_bytes);
        if (last.target) memcpy(beside, last.target, batch->target_row_bytes);
        last = (row_pixels){ kept, last.mask ? beside : NULL, last.target ? beside : NULL };
    }
    /* From the end on, so that the row before is still as it was. */
    for (uint32_t i = count - 1; i > 0; i--) mix_row(slot, i, row_of(slot, i - 1));
    if (count == 1) slot->mix[0].kind = STOKE_MIX_NONE;
    mix_row(slot, 0, last);
    return STOKE_OK;
}

/* ---- one row: the sample at its position, or what the policy puts there when it is bad ---- */

typedef struct row_result {
    int status; /* 0, or what ends the batch */
    uint64_t retries;
    stoke_error error;
} row_result;

/* With 99 % bad samples, all of them fail once in 23,000 rows; the fuse blows long before. */
enum { SUBSTITUTES = 1000 };

int stk_loader_too_bad(const stoke_loader *loader, uint64_t ticket, stoke_error *err)
{
    return stk_quarantine_too_bad(loader->quarantine, ticket, loader->max_bad, loader->order.count, err);
}

/* Books a bad sample. Returns what ends the run: 0, the sample's own error (policy stop), or a blown fuse. */
static int book_bad(stoke_loader *loader, uint64_t id, uint64_t ticket, row_result *result)
{
    const stoke_sample sample = stoke_dataset_sample(loader->config.dataset, id);
    const stoke_error reason = result->error;
    uint64_t bad;
    int r = stk_quarantine_add(loader->quarantine, id, ticket, &sample, &reason, &bad, &result->error);
    if (r) return r;
    if (loader->policy == STOKE_POLICY_STOP) return reason.code;
    return bad <= loader->max_bad ? STOKE_OK : stk_loader_too_bad(loader, ticket, &result->error);
}

static void fill_row(stk_loader_worker *worker, stk_slot *slot, uint32_t row, row_result *result)
{
    stoke_loader *loader = worker->loader;
    const uint64_t position = slot->batch.position + row;
    stoke_order order = loader->order;
    order.epoch = slot->batch.epoch;
    *result = (row_result){ 0 };
    slot->status[row] = STOKE_ROW_OK;
    uint64_t id = stoke_order_at(&order, position);
    for (uint32_t attempt = 1; attempt <= SUBSTITUTES; attempt++) {
        int r =
            stk_sample_load(&worker->scratch, &loader->config, &loader->gate, slot, row, id, &result->error);
        slot->ids[row] = id;
        slot->names[row] = stoke_dataset_sample(loader->config.dataset, id).name;
        if (!r) return;
        if (stk_is_want(r) || (r = book_bad(loader, id, slot->ticket + row, result))) {
            result->status = r;
            return;
        }
        if (loader->policy == STOKE_POLICY_SKIP) {
            slot->status[row] = STK_ROW_SKIPPED;
            return;
        }
        slot->status[row] = STOKE_ROW_REPLACED;
        id = stoke_order_substitute(&order, position, attempt);
    }
    result->status =
        stk_fail(&result->error, STOKE_E_TOO_BAD, "no good sample in %d substitutes at position %llu",
                 SUBSTITUTES, (unsigned long long)position);
}

/* ---- the schedule ---- */

stoke_rank stk_loader_rank_from(const stoke_loader *loader, uint64_t position)
{
    return (stoke_rank){
        .count = loader->order.count,
        .start = position,
        .batch = loader->batch,
        .rank = loader->rank,
        .world = loader->world,
        .drop_last = loader->drop_last,
    };
}

stoke_rank stk_loader_rank(const stoke_loader *loader, uint64_t epoch)
{
    return stk_loader_rank_from(loader, epoch == loader->epoch ? loader->start : 0);
}

/* Where the next batch of the schedule lies, its rows in batch.count; 0: there is none. */
static int next_of_epoch(const stoke_loader *loader, stk_loader_cursor *at, stoke_batch *next)
{
    stoke_rank shard = stk_loader_rank(loader, at->epoch);
    if (at->k >= stoke_rank_batches(&shard)) {
        *at = (stk_loader_cursor){ .epoch = at->epoch + 1 };
        shard = stk_loader_rank(loader, at->epoch);
        if (!stoke_rank_batches(&shard)) return 0;
    }
    next->epoch = at->epoch;
    next->position = stoke_rank_batch(&shard, at->k, &next->count);
    next->index = shard.start / shard.batch + at->k * shard.world + shard.rank;
    return 1;
}

static int next_of_route(const stoke_loader *loader, const stk_loader_cursor *at, stoke_batch *next)
{
    const stoke_rank whole = stk_loader_rank_from(loader, 0);
    const uint64_t number = loader->route.at(loader->route.context, at->k), each = stoke_rank_batches(&whole);
    if (number == UINT64_MAX || !each) return 0;
    next->epoch = number / each;
    next->index = number % each;
    next->position = stoke_rank_batch(&whole, next->index, &next->count);
    return 1;
}

/* Opens a slot for the next batch of the schedule; NULL when no slot is free or there is no batch. */
static stk_slot *open_next(stoke_loader *loader)
{
    stk_loader_cursor *at = &loader->schedule;
    stoke_batch next;
    if (!(loader->route.at ? next_of_route(loader, at, &next) : next_of_epoch(loader, at, &next)))
        return NULL;
    const uint32_t rows = next.count;
    stk_slot *slot = stk_slots_open(&loader->slots, rows);
    if (!slot) return NULL;
    slot->batch.epoch = next.epoch;
    slot->batch.position = next.position;
    slot->batch.index = next.index;
    slot->batch.count = rows;
    slot->ticket = loader->tickets;
    loader->tickets += rows;
    slot->times.first = loader->fresh;
    loader->fresh = 0;
    at->k++;
    return slot;
}

static stk_slot *take_row(stoke_loader *loader, uint32_t *row)
{
    if (loader->paused || loader->stopping || loader->resting) return NULL;
    if (!loader->filling) loader->filling = open_next(loader);
    stk_slot *slot = loader->filling;
    if (!slot) return NULL;
    *row = slot->issued++;
    if (!*row) slot->times.began = stk_now_ns();
    slot->times.window_ns += loader->window_ns;
    loader->window_ns = 0;
    if (slot->issued == slot->rows) loader->filling = NULL;
    loader->in_flight++;
    return slot;
}

/* Returns 1 when it was the last row of its batch. */
static int book_row(stk_loader_worker *worker, stk_slot *slot, uint32_t row, const row_result *result,
                    uint64_t queued_ns)
{
    stoke_loader *loader = worker->loader;
    for (int i = 0; i < STK_ROW_STAGES; i++) {
        loader->stats.stage[i].wall_ns += worker->scratch.times[i].wall_ns;
        loader->stats.stage[i].cpu_ns += worker->scratch.times[i].cpu_ns;
        loader->stats.stage[i].count += worker->scratch.times[i].count;
    }
    stk_batch_times_row(&slot->times, worker->scratch.times, queued_ns);
    loader->stats.bytes_read += worker->scratch.bytes_read;
    loader->stats.retries += result->retries;
    worker->memory = stk_scratch_memory(&worker->scratch);
    slot->replaced += slot->status[row] == STOKE_ROW_REPLACED;
    slot->skipped += slot->status[row] == STK_ROW_SKIPPED;
    if (loader->config.cache && slot->status[row] != STK_ROW_SKIPPED && !result->status) {
        const stk_scratch *scratch = &worker->scratch;
        slot->origins.ram += scratch->cache_hit && scratch->cache_from_ram;
        slot->origins.disk += scratch->cache_hit && !scratch->cache_from_ram;
        slot->origins.decoded += !scratch->cache_hit;
        slot->origins.stored += scratch->cache_stored != 0;
    }
    /* Of several failing rows the first one speaks, whoever was faster: the message must not depend on
     * threads. */
    if (result->status && (!slot->error.code || row < slot->error_row)) {
        slot->error = result->error;
        slot->error.code = result->status;
        slot->error_row = row;
    }
    return ++slot->done == slot->rows;
}

/* Rows of a raw batch are mixed where they are made. */
static int mixes_here(const stoke_loader *loader)
{
    return loader->config.mixes && !loader->config.raw;
}

/* What needs all rows of a batch, by the one who finished the last of them: closing gaps and mixing. Nobody
 * else touches the slot meanwhile, so the lock is not held. */
static void finish_batch(stk_loader_worker *worker, stk_slot *slot)
{
    stoke_loader *loader = worker->loader;
    if (slot->error.code) return; /* it will not be delivered */
    pthread_mutex_unlock(&loader->lock);
    const uint64_t cpu = stk_thread_cpu_ns(), wall = stk_now_ns();
    stoke_error error = { 0 };
    int r = STOKE_OK;
    if (slot->skipped) stk_slot_compact(slot);
    if (mixes_here(loader)) r = stk_slot_mix(slot, &worker->scratch.mix, &error);
    const uint64_t cpu_end = stk_thread_cpu_ns(), wall_end = stk_now_ns();
    const uint64_t queued = worker->records ? stk_run_queue_since(&worker->line) : 0;
    const stk_scratch *scratch = &worker->scratch;
    stk_spans_tell(&scratch->spans, scratch->number, STOKE_STAGE_WRITE, wall, wall_end, scratch->batch);
    pthread_mutex_lock(&loader->lock);
    loader->stats.stage[STOKE_STAGE_WRITE].cpu_ns += cpu_end - cpu;
    loader->stats.stage[STOKE_STAGE_WRITE].wall_ns += wall_end - wall;
    stk_batch_times_whole(&slot->times, wall_end - wall, cpu_end - cpu, queued);
    worker->memory = stk_scratch_memory(&worker->scratch);
    if (r) slot->error = error;
}

int stk_worker_step(stk_loader_worker *worker)
{
    stoke_loader *loader = worker->loader;
    uint32_t row;
    stk_slot *slot = take_row(loader, &row);
    if (!slot) return 0;
    worker->scratch.spans = loader->spans;
    worker->scratch.batch = (int64_t)slot->batch.index;
    worker->records = loader->recording;
    pthread_mutex_unlock(&loader->lock);
    row_result result;
    const int alone = !loader->threads; /* the caller does other things between rows */
    if (alone || !worker->records) stk_run_queue_leave(&worker->line);
    if (worker->records) stk_run_queue_begin(&worker->line);
    const uint64_t retries = stk_retries();
    fill_row(worker, slot, row, &result);
    result.retries = stk_retries() - retries;
    const uint64_t queued = worker->records ? stk_run_queue_since(&worker->line) : 0;
    pthread_mutex_lock(&loader->lock);
    if (book_row(worker, slot, row, &result, queued)) {
        if (slot->skipped || mixes_here(loader)) finish_batch(worker, slot);
        slot->state = STK_SLOT_READY;
        slot->times.ready = stk_now_ns();
    }
    loader->in_flight--;
    if (slot->state == STK_SLOT_READY || ((loader->paused || loader->resting) && !loader->in_flight))
        pthread_cond_broadcast(&loader->ready);
    return 1;
}

static void wait_for_work(stk_loader_worker *worker)
{
    stoke_loader *loader = worker->loader;
    const uint64_t begin = stk_now_ns();
    stk_run_queue_leave(&worker->line); /* being woken late is no row's delay */
    pthread_cond_wait(&loader->work, &loader->lock);
    const uint64_t end = stk_now_ns();
    stoke_stage_time *wait = &loader->stats.stage[STOKE_STAGE_SLOT_WAIT];
    wait->wall_ns += end - begin;
    wait->count++;
    const uint64_t from = begin > loader->restarted_ns ? begin : loader->restarted_ns;
    loader->window_ns += end - from; /* what was before the schedule was set again is no batch's */
    stk_spans_tell(&loader->spans, worker->scratch.number, STOKE_STAGE_SLOT_WAIT, begin, end, -1);
}

/* Relative to what the thread inherited from its creator: in a run that was itself started with nice, an
 * absolute value would put the workers above the consumer. The kernel cuts the sum to 19. */
static void step_back(int by)
{
    const id_t self = (id_t)syscall(SYS_gettid);
    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + by);
}

static void *run(void *argument)
{
    stk_loader_worker *worker = argument;
    stoke_loader *loader = worker->loader;
    /* Linux keeps a nice value per thread. The consumer launches kernels from its own thread and must get a
     * core when it wants one: SPDL measured 4.0 -> 3.0 batches/s for a loader that did not step back. */
    if (loader->nice) step_back((int)loader->nice);
    pthread_mutex_lock(&loader->lock);
    while (!loader->stopping)
        if (!stk_worker_step(worker)) {
            if (!loader->stopping) wait_for_work(worker);
        }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

int stk_workers_start(stoke_loader *loader, stoke_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the consumer's */
    int number = 0;
    for (uint32_t i = 0; i < loader->threads && !number; i++) {
        number = stk_thread_start(&loader->workers[i].thread, run, &loader->workers[i]);
        loader->workers[i].started = !number;
        if (!number) {
            char name[16];
            snprintf(name, sizeof name, "stoke-%u", i % 100000);
            pthread_setname_np(loader->workers[i].thread, name);
        }
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (number)
        return stk_fail_errno(err, STOKE_E_NOMEM, number, "cannot start %u worker threads", loader->threads);
    return STOKE_OK;
}

void stk_workers_stop(stoke_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->stopping = 1;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    for (uint32_t i = 0; i < loader->threads; i++)
        if (loader->workers[i].started) pthread_join(loader->workers[i].thread, NULL);
}

void stk_schedule_restart(stoke_loader *loader, uint64_t epoch, uint64_t start)
{
    loader->paused = 1;
    while (loader->in_flight) pthread_cond_wait(&loader->ready, &loader->lock);
    stk_slots_discard(&loader->slots);
    loader->filling = NULL;
    loader->epoch = epoch;
    loader->start = start;
    loader->delivered = 0;
    loader->waited_ns = 0;
    loader->schedule = (stk_loader_cursor){ .epoch = epoch };
    loader->failure = (stoke_error){ 0 };
    loader->fresh = 1;
    loader->window_ns = 0;
    loader->restarted_ns = stk_now_ns();
    loader->paused = 0;
    pthread_cond_broadcast(&loader->work);
}
