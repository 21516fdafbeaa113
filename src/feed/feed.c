/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating and ending a feed, handing out batches, changing epochs, where it stands.
 */
#include <stdio.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/options_private.h"
#include "src/base/wait.h"
#include "src/feed/feed_private.h"
#include "src/loader/ahead.h"
#include "src/loader/slots.h"

/* ---- create and destroy ---- */

int stk_feed_check_params(const stoke_feed_params *params, stoke_error *err)
{
    if (params->struct_size != sizeof *params)
        return stk_fail(err, STOKE_E_INVALID, "params were not made by stoke_feed_defaults of this version");
    stoke_feed_params copy = *params;
    const stoke_option_group group = stoke_feed_options(&copy);
    int r = stk_options_check(&group, err);
    if (!r && !(params->step_ms >= 0))
        r = stk_fail(err, STOKE_E_INVALID, "step_ms is %g: give the milliseconds of a step, or 0",
                     params->step_ms);
    return r;
}

static int make_locks(stoke_feed *feed, stoke_error *err)
{
    if (pthread_mutex_init(&feed->lock, NULL) || pthread_mutex_init(&feed->order, NULL) ||
        pthread_cond_init(&feed->work, NULL) || stk_cond_init(&feed->ready))
        return stk_fail(err, STOKE_E_NOMEM, "cannot make the locks of a feed");
    feed->locks_made = 1;
    return STOKE_OK;
}

static int make_streams(stoke_feed *feed, void *native, stoke_error *err)
{
    int r = native ? stk_stream_wrap(&feed->consumer, feed->device, native, err)
                   : stk_stream_create(&feed->consumer, feed->device, err);
    feed->copies = feed->consumer;
    if (!r && feed->transfer == STOKE_TRANSFER_STREAM) {
        feed->copies = NULL;
        r = stk_stream_create(&feed->copies, feed->device, err);
    }
    return r;
}

/* Slots of the loader lie in page-locked memory, or not, as the transfer wants it. */
static int make_loader(stoke_feed *feed, const stoke_dataset *dataset, const stoke_data_params *data,
                       stoke_error *err)
{
    const stoke_allocator pinned = stoke_device_pinned(feed->device);
    const stoke_allocator *allocator = feed->transfer == STOKE_TRANSFER_PAGEABLE ? NULL : &pinned;
    const stoke_memory_share beside = stk_feed_beside(feed);
    int r = feed->placement == STOKE_PLACEMENT_DEVICE
                ? stk_loader_create_raw(&feed->loader, dataset, data, allocator, &beside, err)
                : stoke_loader_create_beside(&feed->loader, dataset, data, allocator, &beside, err);
    if (r == STOKE_E_NOMEM && allocator) {
        const int pinned_failed = stoke_device_pinned_failed(feed->device, err);
        if (pinned_failed) r = pinned_failed;
    }
    if (r) return r;
    feed->recipe = stk_loader_recipe(feed->loader);
    feed->memory.host = stoke_loader_memory(feed->loader);
    feed->batches = stoke_loader_batches(feed->loader);
    feed->serial = data->workers == 0 && feed->transfer != STOKE_TRANSFER_STREAM;
    stk_loader_where(feed->loader, &feed->epoch, &feed->position);
    feed->reached = feed->epoch;
    feed->looked = feed->late = (stk_bad_rows){ 0 };
    return STOKE_OK;
}

/* Everything that depends on who augments. */
static int make_way(stoke_feed *feed, const stoke_dataset *dataset, const stoke_data_params *data,
                    uint32_t slots, stoke_error *err)
{
    int r = stk_feed_plan(feed, dataset, data, slots, NULL, err);
    if (!r) r = make_loader(feed, dataset, data, err);
    if (!r && feed->placement == STOKE_PLACEMENT_DEVICE)
        r = stk_augmenter_create(&feed->augmenter, feed->device, feed->recipe, feed->shape.capacity,
                                 STK_TRIPS, err);
    if (!r)
        r = stk_ring_create(&feed->ring, feed->device, slots, &feed->shape, feed->recipe->two_masks,
                            stk_feed_raw_bytes(feed), err);
    if (!r) r = stk_diary_create(&feed->diary, slots + 1 + STK_STEPS + STK_TRIPS, err);
    if (!r) r = stk_trips_create(feed, err);
    if (!r) r = stk_stepper_create(feed, err);
    return r;
}

/* Nothing is under way to a slot any more, or the device is lost. */
static void finish_trips(stoke_feed *feed)
{
    for (int i = 0; i < STK_TRIPS; i++)
        if (feed->trip[i].end) stk_event_finish(feed->trip[i].end, NULL);
}

/* Nothing on the device reads or writes what is ours any more. Someone else's stream may have more work than
 * ours: only what uses our slots is waited for. */
static void come_to_rest(stoke_feed *feed)
{
    finish_trips(feed);
    for (uint32_t i = 0; i < feed->ring.count; i++)
        if (feed->ring.slot[i].done) stk_event_finish(feed->ring.slot[i].done, NULL);
}

/* All but the ring. */
static void unmake_filling(stoke_feed *feed)
{
    stk_stepper_destroy(feed);
    stk_trips_destroy(feed);
    stk_diary_destroy(&feed->diary);
    stk_augmenter_destroy(&feed->augmenter);
    stoke_loader_destroy(&feed->loader); /* gives the page-locked slots back */
    feed->recipe = NULL;
}

static void unmake_way(stoke_feed *feed)
{
    unmake_filling(feed);
    stk_ring_destroy(&feed->ring);
}

/* Both ways were made, one after the other: the plan is that of the larger one. */
static void count_what_was_tried(stoke_feed *feed, uint64_t tried)
{
    stoke_memory_plan *host = &feed->memory.host;
    if (tried <= host->total_bytes) return;
    if (!host->beside_bytes) host->beside = "trying the device first";
    host->beside_bytes += tried - host->total_bytes;
    host->total_bytes = tried;
}

/* Tries the device, looks at what both would cost, and begins again with the better one. */
static int make_better_way(stoke_feed *feed, const stoke_dataset *dataset, const stoke_data_params *data,
                           uint32_t slots, double step_ms, stoke_error *err)
{
    uint64_t tried = 0;
    if (feed->info.shares_cores && !feed->info.emulated) {
        snprintf(feed->why, sizeof feed->why,
                 "host: %s computes on the host's own cores, so augmenting there would free none of them",
                 feed->info.name);
    } else {
        feed->placement = STOKE_PLACEMENT_DEVICE;
        int r = make_way(feed, dataset, data, slots, err);
        if (!r) r = stk_place_choose(feed, step_ms, err);
        if (r == STOKE_PLACEMENT_DEVICE) {
            stk_transfer_forget(feed);
            return stoke_loader_set_epoch(feed->loader, feed->epoch);
        }
        const int cannot = r == STOKE_E_NOMEM || r == STOKE_E_UNSUPPORTED || r == STOKE_E_LIMIT;
        if (cannot || r == STOKE_E_NOTFOUND) /* no compiler for its kernels */
            snprintf(feed->why, sizeof feed->why, "host: %s cannot augment (%.600s)", feed->info.name,
                     err->message);
        else if (r < 0)
            return r;
        tried = feed->memory.host.total_bytes - feed->memory.read_bytes; /* nobody did */
        come_to_rest(feed);
        unmake_way(feed);
    }
    feed->placement = STOKE_PLACEMENT_HOST;
    const int r = make_way(feed, dataset, data, slots, err);
    if (!r) count_what_was_tried(feed, tried);
    return r;
}

static int build(stoke_feed *feed, const stoke_dataset *dataset, const stoke_data_params *data,
                 const stoke_feed_params *params, stoke_error *err)
{
    static const char *const wanted[] = { "host: as asked for", "device: as asked for" };
    const uint32_t slots = (uint32_t)params->depth + 1; /* `depth` ahead, one with the consumer */
    feed->placement = params->placement;
    feed->transfer = params->transfer;
    feed->reads = params->reads;
    int r = make_locks(feed, err);
    if (!r) r = stk_book_create(&feed->book, feed->info.emulated, err);
    if (!r) r = make_streams(feed, params->consumer_stream, err);
    if (!r) r = stk_guests_create(feed, err);
    if (r) return r;
    if (params->placement == STOKE_PLACEMENT_AUTO) {
        r = make_better_way(feed, dataset, data, slots, params->step_ms, err);
    } else {
        snprintf(feed->why, sizeof feed->why, "%s", wanted[params->placement]);
        r = make_way(feed, dataset, data, slots, err);
    }
    if (!r && feed->transfer == STOKE_TRANSFER_STREAM) r = stk_transfer_start(feed, err);
    return r;
}

int stoke_feed_create(stoke_feed **out, const stoke_dataset *dataset, const stoke_data_params *data,
                      stoke_device *device, const stoke_feed_params *params, stoke_error *err)
{
    const stoke_feed_params defaults = stoke_feed_defaults();
    stoke_error own = { 0 }; /* auto looks at the message */
    *out = NULL;
    if (!params) params = &defaults;
    int r = stk_feed_check_params(params, err);
    if (r) return r;
    stoke_feed *feed = stk_calloc(1, sizeof *feed);
    if (!feed) return stk_fail(err, STOKE_E_NOMEM, "no memory for a feed");
    feed->device = device;
    feed->info = *stoke_device_describe(device);
    r = build(feed, dataset, data, params, err ? err : &own);
    if (r)
        stoke_feed_destroy(&feed);
    else
        *out = feed;
    return r;
}

void stoke_feed_stop(stoke_feed *feed)
{
    if (feed->stopped) return;
    stk_transfer_stop(feed);
    finish_trips(feed); /* `done` of slots that are held is for their holders to record */
    pthread_mutex_lock(&feed->lock);
    stk_ring_discard(&feed->ring);
    for (stk_device_slot *slot; (slot = stk_ring_free(&feed->ring));) { /* other threads release meanwhile */
        slot->state = STK_RING_GONE;
        pthread_mutex_unlock(&feed->lock);
        stk_event_finish(slot->done, NULL);
        stk_ring_empty(slot);
        pthread_mutex_lock(&feed->lock);
    }
    feed->stopped = 1; /* from here on who releases a batch frees it */
    pthread_mutex_unlock(&feed->lock);
    unmake_filling(feed);
}

void stoke_feed_destroy(stoke_feed **pointer)
{
    stoke_feed *feed = *pointer;
    if (!feed) return;
    *pointer = NULL;
    stk_transfer_stop(feed);
    come_to_rest(feed);
    stk_guests_destroy(feed);
    if (feed->copies != feed->consumer) stk_stream_destroy(&feed->copies);
    stk_stream_destroy(&feed->consumer); /* waits for its work, when it is ours */
    unmake_way(feed);
    stk_book_destroy(&feed->book);
    stk_feed_lanes_destroy(feed->lanes);
    if (feed->locks_made) {
        pthread_mutex_destroy(&feed->lock);
        pthread_mutex_destroy(&feed->order);
        pthread_cond_destroy(&feed->work);
        pthread_cond_destroy(&feed->ready);
    }
    stk_free(feed);
}

const stoke_feed_memory *stoke_feed_memory_plan(const stoke_feed *feed)
{
    return &feed->memory;
}

int stoke_feed_placement(const stoke_feed *feed, const char **why)
{
    if (why) *why = feed->why;
    return feed->placement;
}

uint64_t stoke_feed_batches(const stoke_feed *feed)
{
    return feed->batches;
}

uint64_t stoke_feed_remaining(const stoke_feed *feed)
{
    return stk_loader_batches_from(feed->loader, feed->position);
}

const stoke_loader *stoke_feed_loader(const stoke_feed *feed)
{
    return feed->loader;
}

uint32_t stoke_feed_ready(stoke_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    const uint32_t ready = feed->ring.queued;
    pthread_mutex_unlock(&feed->lock);
    return ready;
}

/* ---- batches ---- */

/* The thread's next batch. Lock held. */
static int wait_for_head(stoke_feed *feed, uint64_t deadline_ns, stk_device_slot **out)
{
    for (;;) {
        stk_device_slot *head = stk_ring_head(&feed->ring);
        const int is_ours = head && head->batch.host.epoch == feed->epoch;
        if (is_ours) {
            *out = stk_ring_take(&feed->ring);
            return STOKE_OK;
        }
        if (head || feed->reached > feed->epoch) return STOKE_E_END;
        if (feed->failure.code) return feed->failure.code;
        if (feed->resting) return STOKE_E_END;
        if (feed->ring.held == feed->ring.count) return STOKE_E_STARVED;
        if (deadline_ns != STK_FOR_EVER && stk_now_ns() >= deadline_ns) return STOKE_E_TIMEOUT;
        stk_cond_wait(&feed->ready, &feed->lock, deadline_ns);
    }
}

/* The epoch has ended for the caller: what was passed over behind its last batch counts now. The thread may
 * have queued batches of the next one already. */
static void count_late(stoke_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    stk_device_slot *head = stk_ring_head(&feed->ring);
    stk_bad_rows *late = head ? &head->late : &feed->late;
    feed->bad.replaced += late->replaced;
    feed->bad.skipped += late->skipped;
    *late = (stk_bad_rows){ 0 };
    pthread_mutex_unlock(&feed->lock);
}

/* Without a thread: the caller does its work. */
static int fill_here(stoke_feed *feed, uint64_t deadline_ns, stk_device_slot **out)
{
    if (feed->failure.code) return feed->failure.code;
    pthread_mutex_lock(&feed->lock); /* other threads release meanwhile */
    stk_device_slot *slot = stk_ring_free(&feed->ring);
    pthread_mutex_unlock(&feed->lock);
    if (!slot) return STOKE_E_STARVED;
    stoke_error error = { 0 };
    const int r = stk_transfer_fill(feed, slot, deadline_ns, &error);
    if (r && r != STOKE_E_END && r != STOKE_E_TIMEOUT) feed->failure = error;
    if (r) return r;
    pthread_mutex_lock(&feed->lock);
    stk_transfer_queue(feed, slot);
    *out = stk_ring_take(&feed->ring);
    pthread_mutex_unlock(&feed->lock);
    return STOKE_OK;
}

/* What stoke_feed_error gives; the thread may change feed->failure at any time. */
static int say(stoke_feed *feed, int status)
{
    pthread_mutex_lock(&feed->lock);
    if (status == STOKE_E_STARVED)
        stk_fail(&feed->said, status, "all %u device slots are held by the caller: release a batch first",
                 feed->ring.count);
    else if (status != STOKE_E_END && status != STOKE_E_TIMEOUT)
        feed->said = feed->broken.code ? feed->broken : feed->failure;
    pthread_mutex_unlock(&feed->lock);
    return status;
}

/* Why nothing is handed out any more; 0: it is. */
static int refusal(stoke_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    if (feed->stopped && !feed->broken.code)
        stk_fail(&feed->broken, STOKE_E_STATE, "the feed was stopped: make another one");
    const int code = feed->broken.code;
    pthread_mutex_unlock(&feed->lock);
    return code;
}

/* The next batch, wherever it comes from, with the time that it took. */
static int take(stoke_feed *feed, uint64_t began, uint64_t deadline_ns, stk_device_slot **slot)
{
    int r;
    if (feed->started) {
        pthread_mutex_lock(&feed->lock);
        r = wait_for_head(feed, deadline_ns, slot);
        pthread_mutex_unlock(&feed->lock);
    } else {
        r = fill_here(feed, deadline_ns, slot);
    }
    feed->host_wait_ns += stk_now_ns() - began;
    if (!r) {
        feed->steps.number = (int64_t)(*slot)->batch.host.index;
        feed->steps.trip = (*slot)->trip;
    }
    stk_feed_span(feed, "wait for a batch", began, r ? -1 : feed->steps.number);
    if (r == STOKE_E_END) count_late(feed);
    return r;
}

int stoke_feed_next_until(stoke_feed *feed, const stoke_device_batch **batch, uint64_t deadline_ns)
{
    const uint64_t began = stk_now_ns();
    stk_device_slot *slot = NULL;
    stoke_error error = { 0 };
    *batch = NULL;
    int r = refusal(feed);
    if (!r) r = take(feed, began, deadline_ns, &slot);
    if (r) return say(feed, r);
    pthread_mutex_lock(&feed->order);
    r = stk_stream_wait(feed->consumer, slot->ready, &error);
    pthread_mutex_unlock(&feed->order);
    if (r) {
        stk_feed_break(feed, &error);
        stk_feed_give_back(feed, slot);
        return say(feed, r);
    }
    feed->position = slot->position;
    feed->bad.replaced += slot->bad.replaced;
    feed->bad.skipped += slot->bad.skipped;
    *batch = &slot->batch;
    pthread_mutex_lock(&feed->lock);
    stk_diary_taken(&feed->diary, slot->trip, began, stk_now_ns());
    pthread_mutex_unlock(&feed->lock);
    return STOKE_OK;
}

int stoke_feed_next(stoke_feed *feed, const stoke_device_batch **batch)
{
    return stoke_feed_next_until(feed, batch, STK_FOR_EVER);
}

const char *stoke_feed_error(const stoke_feed *feed)
{
    return feed->said.message;
}

int stoke_feed_finish(stoke_feed *feed, stoke_error *err)
{
    const uint64_t began = stk_now_ns();
    const int r = stk_stream_finish(feed->consumer, err);
    stk_feed_span(feed, "wait for the device", began, feed->steps.number);
    return r;
}

static int copy_down(stoke_feed *feed, const stk_block *to, size_t at, const stk_block *from, size_t bytes,
                     stoke_error *err)
{
    return bytes ? stk_stream_copy(feed->consumer, to, at, from, 0, bytes, err) : STOKE_OK;
}

int stoke_feed_read(stoke_feed *feed, const stoke_device_batch *batch, stoke_batch *host, stoke_error *err)
{
    stk_device_slot *slot = &feed->ring.slot[batch->slot];
    const stoke_batch *shape = &feed->shape;
    const size_t images = shape->image_row_bytes * shape->capacity;
    const size_t masks = shape->mask_row_bytes * shape->capacity, count = batch->host.count;
    const size_t image_bytes = shape->image_row_bytes * count, mask_bytes = shape->mask_row_bytes * count;
    const int two = batch->masks_b != 0;
    int r = STOKE_OK;
    if (!slot->read.bytes)
        r = stk_block_create(&slot->read, feed->device, STK_MEMORY_PAGEABLE, images + masks * (two ? 2 : 1),
                             err);
    if (!r) r = copy_down(feed, &slot->read, 0, &slot->images, image_bytes, err);
    if (!r) r = copy_down(feed, &slot->read, images, &slot->masks, mask_bytes, err);
    if (!r && two) r = copy_down(feed, &slot->read, images + masks, &slot->masks_b, mask_bytes, err);
    if (!r) r = stk_stream_finish(feed->consumer, err);
    if (r) return r;
    *host = batch->host;
    host->images = slot->read.host;
    host->masks = (char *)slot->read.host + images;
    host->masks_b = two ? (char *)slot->read.host + images + masks : NULL;
    return STOKE_OK;
}

void stoke_feed_bad(const stoke_feed *feed, uint64_t *replaced, uint64_t *skipped)
{
    *replaced = feed->bad.replaced;
    *skipped = feed->bad.skipped;
}

/* ---- epochs and state ---- */

/* From where the loader stands now. The thread holds still, or there is none. */
static void begin_again(stoke_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    stk_ring_discard(&feed->ring);
    stk_transfer_forget(feed);
    stk_loader_where(feed->loader, &feed->epoch, &feed->position);
    feed->reached = feed->epoch;
    feed->came = 0;
    feed->resting = 0;
    feed->failure = feed->broken = (stoke_error){ 0 };
    pthread_mutex_unlock(&feed->lock);
}

/* The thread is already on the epoch, as the loader's workers are. */
static int follow(stoke_feed *feed, uint64_t epoch)
{
    pthread_mutex_lock(&feed->lock);
    const stk_device_slot *head = stk_ring_head(&feed->ring);
    const uint64_t reached = head ? head->batch.host.epoch : feed->reached;
    const int follows = feed->started && !feed->broken.code && epoch == feed->epoch + 1 && reached >= epoch;
    if (follows) {
        feed->epoch = epoch;
        feed->position = 0;
    }
    pthread_mutex_unlock(&feed->lock);
    return follows;
}

int stoke_feed_set_epoch(stoke_feed *feed, uint64_t epoch)
{
    if (follow(feed, epoch)) return STOKE_OK;
    stk_transfer_pause(feed);
    int r = STOKE_OK;
    /* Right behind the last batch of an epoch, the thread may have turned to the next one on its way to the
     * pause: setting that again would throw away what the workers have made of it. */
    if (!follow(feed, epoch)) {
        r = stoke_loader_set_epoch(feed->loader, epoch);
        if (!r) begin_again(feed);
    }
    stk_transfer_go_on(feed);
    return r;
}

int stoke_feed_state(const stoke_feed *feed, char *text, size_t size)
{
    return stk_loader_state_at(feed->loader, feed->epoch, feed->position, text, size);
}

int stoke_feed_restore(stoke_feed *feed, const char *text, stoke_error *err)
{
    stk_transfer_pause(feed);
    const int r = stoke_loader_restore(feed->loader, text, err);
    if (!r) begin_again(feed);
    stk_transfer_go_on(feed);
    return r;
}
