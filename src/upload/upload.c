/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating and ending an upload, handing out batches, changing epochs, where it stands.
 */
#include <stdio.h>
#include <stoke/tools/dataset.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/device.h>
#include <stoke/tools/upload.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/upload/upload_internal.h"
#include "src/loader/loader.h"

/* ---- create and destroy ---- */

int stk_upload_check_params(const stoke_upload_params *params, stoke_error *err)
{
    if (params->struct_size != sizeof *params) return stk_fail_struct(err, "stoke_upload_defaults");
    stoke_upload_params copy = *params;
    const stoke_option_group group = stoke_upload_options(&copy);
    int r = stk_options_check(&group, err);
    if (!r && !(params->step_ms >= 0))
        r = stk_fail(err, STOKE_E_INVALID, "step_ms is %g: give the milliseconds of a step, or 0",
                     params->step_ms);
    return r;
}

static int make_locks(stoke_upload *upload, stoke_error *err)
{
    if (pthread_mutex_init(&upload->lock, NULL) || pthread_mutex_init(&upload->order, NULL) ||
        pthread_cond_init(&upload->work, NULL) || stk_cond_init(&upload->ready))
        return stk_fail(err, STOKE_E_NOMEM, "cannot make the locks of an upload");
    upload->locks_made = 1;
    return STOKE_OK;
}

static int make_streams(stoke_upload *upload, void *native, stoke_error *err)
{
    int r = native ? stk_stream_wrap(&upload->consumer, upload->device, native, err)
                   : stk_stream_create(&upload->consumer, upload->device, err);
    upload->copies = upload->consumer;
    if (!r && upload->transfer == STOKE_TRANSFER_STREAM) {
        upload->copies = NULL;
        r = stk_stream_create(&upload->copies, upload->device, err);
    }
    return r;
}

/* Slots of the loader lie in pinned memory, or not, as the transfer wants it. */
static int make_loader(stoke_upload *upload, const stoke_dataset *dataset, const stoke_data_params *data,
                       stoke_error *err)
{
    const stoke_allocator pinned = stoke_device_pinned(upload->device);
    const stoke_allocator *allocator = upload->transfer == STOKE_TRANSFER_PAGEABLE ? NULL : &pinned;
    const stoke_memory_share beside = stk_upload_beside(upload);
    int r = upload->placement == STOKE_PLACEMENT_DEVICE
                ? stk_loader_create_raw(&upload->loader, dataset, data, allocator, &beside, err)
                : stoke_loader_create_beside(&upload->loader, dataset, data, allocator, &beside, err);
    if (r == STOKE_E_NOMEM && allocator) {
        const int pinned_failed = stoke_device_pinned_failed(upload->device, err);
        if (pinned_failed) r = pinned_failed;
    }
    if (r) return r;
    upload->config = stk_loader_config_of(upload->loader);
    upload->memory.host = stoke_loader_memory(upload->loader);
    upload->batches = stoke_loader_batches(upload->loader);
    upload->serial = data->workers == 0 && upload->transfer != STOKE_TRANSFER_STREAM;
    stk_loader_where(upload->loader, &upload->epoch, &upload->position);
    upload->reached = upload->epoch;
    upload->looked = upload->late = (stk_loader_bad){ 0 };
    return STOKE_OK;
}

/* Everything that depends on who augments. */
static int make_way(stoke_upload *upload, const stoke_dataset *dataset, const stoke_data_params *data,
                    uint32_t slots, stoke_error *err)
{
    int r = stk_upload_plan(upload, dataset, data, slots, NULL, err);
    if (!r) r = make_loader(upload, dataset, data, err);
    if (!r && upload->placement == STOKE_PLACEMENT_DEVICE)
        r = stk_augmenter_create(&upload->augmenter, upload->device, upload->config, upload->shape.capacity,
                                 STK_TRANSFERS, err);
    if (!r)
        r = stk_ring_create(&upload->ring, upload->device, slots, &upload->shape, upload->config->two_masks,
                            stk_upload_raw_bytes(upload), err);
    if (!r) r = stk_step_log_create(&upload->observer.step_log, slots + 1 + STK_STEPS + STK_TRANSFERS, err);
    if (!r) r = stk_transfers_create(upload, err);
    if (!r) r = stk_step_times_create(upload, err);
    if (!r && upload->augmenter)
        r = stk_block_create(&upload->knock, upload->device, STK_MEMORY_DEVICE, sizeof(uint32_t), err);
    return r;
}

/* Nothing is under way to a slot any more, or the device is lost. */
static void finish_transfers(stoke_upload *upload)
{
    for (int i = 0; i < STK_TRANSFERS; i++)
        if (upload->transfers[i].end) stk_event_finish(upload->transfers[i].end, NULL);
}

/* Nothing on the device reads or writes what is ours any more. Someone else's stream may have more work than
 * ours: only what uses our slots is waited for. */
static void come_to_rest(stoke_upload *upload)
{
    finish_transfers(upload);
    for (uint32_t i = 0; i < upload->ring.count; i++)
        if (upload->ring.slot[i].done) stk_event_finish(upload->ring.slot[i].done, NULL);
}

/* All but the ring. */
static void unmake_filling(stoke_upload *upload)
{
    stk_block_destroy(&upload->knock);
    stk_step_times_destroy(upload);
    stk_transfers_destroy(upload);
    stk_step_log_destroy(&upload->observer.step_log);
    stk_augmenter_destroy(&upload->augmenter);
    stoke_loader_destroy(&upload->loader); /* gives the pinned slots back */
    upload->config = NULL;
}

static void unmake_way(stoke_upload *upload)
{
    unmake_filling(upload);
    stk_ring_destroy(&upload->ring);
}

/* Tries the device, looks at what both would cost, and begins again with the better one. */
static int make_better_way(stoke_upload *upload, const stoke_dataset *dataset, const stoke_data_params *data,
                           uint32_t slots, double step_ms, stoke_error *err)
{
    uint64_t tried = 0;
    if (upload->info.shares_cores && !upload->info.emulated) {
        snprintf(upload->why, sizeof upload->why,
                 "host: %s computes on the host's own cores, so augmenting there would free none of them",
                 upload->info.name);
    } else {
        upload->placement = STOKE_PLACEMENT_DEVICE;
        int r = make_way(upload, dataset, data, slots, err);
        if (!r) r = stk_placement_choose(upload, step_ms, err);
        if (r == STOKE_PLACEMENT_DEVICE) {
            stk_transfer_forget(upload);
            return stoke_loader_set_epoch(upload->loader, upload->epoch);
        }
        const int cannot = r == STOKE_E_NOMEM || r == STOKE_E_UNSUPPORTED || r == STOKE_E_LIMIT;
        if (cannot || r == STOKE_E_NOTFOUND) /* no compiler for its kernels */
            snprintf(upload->why, sizeof upload->why, "host: %s cannot augment (%.600s)", upload->info.name,
                     err->message);
        else if (r < 0)
            return r;
        tried = upload->memory.host.total_bytes - upload->memory.read_bytes; /* nobody did */
        come_to_rest(upload);
        unmake_way(upload);
    }
    upload->placement = STOKE_PLACEMENT_HOST;
    const int r = make_way(upload, dataset, data, slots, err);
    stoke_memory_plan *host = &upload->memory.host;
    if (r || tried <= host->total_bytes) return r;
    /* Both ways were made, one after the other: the plan is that of the larger one. */
    if (!host->beside_bytes) host->beside = "trying the device first";
    host->beside_bytes += tried - host->total_bytes;
    host->total_bytes = tried;
    return STOKE_OK;
}

static int build(stoke_upload *upload, const stoke_dataset *dataset, const stoke_data_params *data,
                 const stoke_upload_params *params, stoke_error *err)
{
    static const char *const wanted[] = { "host: as asked for", "device: as asked for" };
    const uint32_t slots = (uint32_t)params->depth + 1; /* `depth` ahead, one with the consumer */
    upload->placement = params->placement;
    upload->transfer = params->transfer;
    upload->reads = params->reads;
    int r = make_locks(upload, err);
    if (!r) r = stk_busy_time_create(&upload->observer.busy, upload->info.emulated, err);
    if (!r) r = make_streams(upload, params->consumer_stream, err);
    if (!r) r = stk_event_create(&upload->passed, upload->device, err);
    if (r) return r;
    if (params->placement == STOKE_PLACEMENT_AUTO) {
        r = make_better_way(upload, dataset, data, slots, params->step_ms, err);
    } else {
        snprintf(upload->why, sizeof upload->why, "%s", wanted[params->placement]);
        r = make_way(upload, dataset, data, slots, err);
    }
    if (!r && upload->transfer == STOKE_TRANSFER_STREAM) r = stk_transfer_start(upload, err);
    return r;
}

int stoke_upload_create(stoke_upload **out, const stoke_dataset *dataset, const stoke_data_params *data,
                        stoke_device *device, const stoke_upload_params *params, stoke_error *err)
{
    const stoke_upload_params defaults = stoke_upload_defaults();
    stoke_error own = { 0 }; /* auto looks at the message */
    *out = NULL;
    if (!params) params = &defaults;
    int r = stk_upload_check_params(params, err);
    if (!r && stoke_dataset_has_targets(dataset))
        r = stk_fail(
            err, STOKE_E_UNSUPPORTED,
            "batches with targets (`task` restore) stay in host memory: take them without a device, and copy "
            "images and targets there");
    if (r) return r;
    stoke_upload *upload = stk_calloc(1, sizeof *upload);
    if (!upload) return stk_fail(err, STOKE_E_NOMEM, "no memory for an upload");
    upload->device = device;
    upload->info = *stoke_device_describe(device);
    r = build(upload, dataset, data, params, err ? err : &own);
    if (r)
        stoke_upload_destroy(&upload);
    else
        *out = upload;
    return r;
}

void stoke_upload_stop(stoke_upload *upload)
{
    if (upload->stopped) return;
    stk_transfer_stop(upload);
    finish_transfers(upload); /* `done` of slots that are held is for their holders to record */
    pthread_mutex_lock(&upload->lock);
    stk_ring_discard(&upload->ring);
    for (stk_ring_slot *slot; (slot = stk_ring_free(&upload->ring));) { /* other threads release meanwhile */
        slot->state = STK_RING_GONE;
        pthread_mutex_unlock(&upload->lock);
        stk_event_finish(slot->done, NULL);
        stk_ring_empty(slot);
        pthread_mutex_lock(&upload->lock);
    }
    upload->stopped = 1; /* from here on who releases a batch frees it */
    pthread_mutex_unlock(&upload->lock);
    unmake_filling(upload);
}

void stoke_upload_destroy(stoke_upload **pointer)
{
    stoke_upload *upload = *pointer;
    if (!upload) return;
    *pointer = NULL;
    stk_transfer_stop(upload);
    come_to_rest(upload);
    stk_foreign_streams_destroy(upload);
    if (upload->copies != upload->consumer) stk_stream_destroy(&upload->copies);
    stk_stream_destroy(&upload->consumer); /* waits for its work, when it is ours */
    unmake_way(upload);
    stk_observer_destroy(&upload->observer);
    if (upload->locks_made) {
        pthread_mutex_destroy(&upload->lock);
        pthread_mutex_destroy(&upload->order);
        pthread_cond_destroy(&upload->work);
        pthread_cond_destroy(&upload->ready);
    }
    stk_free(upload);
}

const stoke_upload_memory *stoke_upload_memory_plan(const stoke_upload *upload)
{
    return &upload->memory;
}

int stoke_upload_placement(const stoke_upload *upload, const char **why)
{
    if (why) *why = upload->why;
    return upload->placement;
}

uint64_t stoke_upload_batches(const stoke_upload *upload)
{
    return upload->batches;
}

uint64_t stoke_upload_remaining(const stoke_upload *upload)
{
    return stk_loader_batches_from(upload->loader, upload->position);
}

const stoke_loader *stoke_upload_loader(const stoke_upload *upload)
{
    return upload->loader;
}

uint32_t stoke_upload_ready(stoke_upload *upload)
{
    pthread_mutex_lock(&upload->lock);
    const uint32_t ready = upload->ring.queued;
    pthread_mutex_unlock(&upload->lock);
    return ready;
}

/* ---- batches ---- */

/* The thread's next batch. Lock held. */
static int wait_for_head(stoke_upload *upload, uint64_t deadline_ns, stk_ring_slot **out)
{
    for (;;) {
        stk_ring_slot *head = stk_ring_head(&upload->ring);
        const int is_ours = head && head->batch.host.epoch == upload->epoch;
        if (is_ours) {
            *out = stk_ring_take(&upload->ring);
            return STOKE_OK;
        }
        if (head || upload->reached > upload->epoch) return STOKE_E_END;
        if (upload->failure.code) return upload->failure.code;
        if (upload->resting) return STOKE_E_END;
        if (upload->ring.held == upload->ring.count) return STOKE_E_STARVED;
        if (deadline_ns != STK_FOR_EVER && stk_now_ns() >= deadline_ns) return STOKE_E_TIMEOUT;
        stk_cond_wait(&upload->ready, &upload->lock, deadline_ns);
    }
}

/* Without a thread: the caller does its work. */
static int fill_here(stoke_upload *upload, uint64_t deadline_ns, stk_ring_slot **out)
{
    if (upload->failure.code) return upload->failure.code;
    pthread_mutex_lock(&upload->lock); /* other threads release meanwhile */
    stk_ring_slot *slot = stk_ring_free(&upload->ring);
    pthread_mutex_unlock(&upload->lock);
    if (!slot) return STOKE_E_STARVED;
    stoke_error error = { 0 };
    const int r = stk_transfer_fill(upload, slot, deadline_ns, &error);
    if (r && r != STOKE_E_END && r != STOKE_E_TIMEOUT) upload->failure = error;
    if (r) return r;
    pthread_mutex_lock(&upload->lock);
    stk_transfer_queue(upload, slot);
    *out = stk_ring_take(&upload->ring);
    pthread_mutex_unlock(&upload->lock);
    return STOKE_OK;
}

/* What stoke_upload_error gives; the thread may change upload->failure at any time. */
static int say(stoke_upload *upload, int status)
{
    pthread_mutex_lock(&upload->lock);
    if (status == STOKE_E_STARVED)
        stk_fail(&upload->said, status, "all %u device slots are held by the caller: release a batch first",
                 upload->ring.count);
    else if (status != STOKE_E_END && status != STOKE_E_TIMEOUT)
        upload->said = upload->broken.code ? upload->broken : upload->failure;
    pthread_mutex_unlock(&upload->lock);
    return status;
}

/* Why nothing is handed out any more; 0: it is. */
static int refusal(stoke_upload *upload)
{
    pthread_mutex_lock(&upload->lock);
    if (upload->stopped && !upload->broken.code)
        stk_fail(&upload->broken, STOKE_E_STATE, "the upload was stopped: make another one");
    const int code = upload->broken.code;
    pthread_mutex_unlock(&upload->lock);
    return code;
}

/* The next batch, wherever it comes from, with the time that it took. */
static int take(stoke_upload *upload, uint64_t began, uint64_t deadline_ns, stk_ring_slot **slot)
{
    int r;
    if (upload->started) {
        pthread_mutex_lock(&upload->lock);
        r = wait_for_head(upload, deadline_ns, slot);
        pthread_mutex_unlock(&upload->lock);
    } else {
        r = fill_here(upload, deadline_ns, slot);
    }
    upload->host_wait_ns += stk_now_ns() - began;
    if (!r) {
        upload->steps.number = (int64_t)(*slot)->batch.host.index;
        upload->steps.transfer = (*slot)->transfer;
    }
    stk_observer_span(&upload->observer, "wait for a batch", began, r ? -1 : upload->steps.number);
    if (r != STOKE_E_END) return r;
    /* The epoch has ended for the caller: what was passed over behind its last batch counts now. The thread
     * may have queued batches of the next one already. */
    pthread_mutex_lock(&upload->lock);
    stk_ring_slot *head = stk_ring_head(&upload->ring);
    stk_loader_bad *late = head ? &head->late : &upload->late;
    upload->bad.replaced += late->replaced;
    upload->bad.skipped += late->skipped;
    *late = (stk_loader_bad){ 0 };
    pthread_mutex_unlock(&upload->lock);
    return r;
}

int stoke_upload_next_until(stoke_upload *upload, const stoke_device_batch **batch, uint64_t deadline_ns)
{
    const uint64_t began = stk_now_ns();
    stk_ring_slot *slot = NULL;
    stoke_error error = { 0 };
    *batch = NULL;
    int r = refusal(upload);
    if (!r) r = take(upload, began, deadline_ns, &slot);
    if (r) return say(upload, r);
    pthread_mutex_lock(&upload->order);
    r = stk_stream_wait(upload->consumer, slot->ready, &error);
    pthread_mutex_unlock(&upload->order);
    if (r) {
        stk_upload_break(upload, &error);
        stk_upload_give_back(upload, slot);
        return say(upload, r);
    }
    upload->position = slot->position;
    upload->bad.replaced += slot->bad.replaced;
    upload->bad.skipped += slot->bad.skipped;
    *batch = &slot->batch;
    pthread_mutex_lock(&upload->lock);
    stk_step_log_taken(&upload->observer.step_log, slot->transfer, began, stk_now_ns());
    pthread_mutex_unlock(&upload->lock);
    return STOKE_OK;
}

int stoke_upload_next(stoke_upload *upload, const stoke_device_batch **batch)
{
    return stoke_upload_next_until(upload, batch, STK_FOR_EVER);
}

const char *stoke_upload_error(const stoke_upload *upload)
{
    return upload->said.message;
}

int stoke_upload_finish(stoke_upload *upload, stoke_error *err)
{
    const uint64_t began = stk_now_ns();
    const int r = stk_stream_finish(upload->consumer, err);
    stk_observer_span(&upload->observer, "wait for the device", began, upload->steps.number);
    return r;
}

static int copy_down(stoke_upload *upload, const stk_device_block *to, size_t at,
                     const stk_device_block *from, size_t bytes, stoke_error *err)
{
    return bytes ? stk_stream_copy(upload->consumer, to, at, from, 0, bytes, err) : STOKE_OK;
}

int stoke_upload_read(stoke_upload *upload, const stoke_device_batch *batch, stoke_batch *host,
                      stoke_error *err)
{
    stk_ring_slot *slot = &upload->ring.slot[batch->slot];
    const stoke_batch *shape = &upload->shape;
    const size_t images = shape->image_row_bytes * shape->capacity;
    const size_t masks = shape->mask_row_bytes * shape->capacity, count = batch->host.count;
    const size_t image_bytes = shape->image_row_bytes * count, mask_bytes = shape->mask_row_bytes * count;
    const int two = batch->masks_b != 0;
    int r = STOKE_OK;
    if (!slot->read.bytes)
        r = stk_block_create(&slot->read, upload->device, STK_MEMORY_PAGEABLE, images + masks * (two ? 2 : 1),
                             err);
    if (!r) r = copy_down(upload, &slot->read, 0, &slot->images, image_bytes, err);
    if (!r) r = copy_down(upload, &slot->read, images, &slot->masks, mask_bytes, err);
    if (!r && two) r = copy_down(upload, &slot->read, images + masks, &slot->masks_b, mask_bytes, err);
    if (!r) r = stk_stream_finish(upload->consumer, err);
    if (r) return r;
    *host = batch->host;
    host->images = slot->read.host;
    host->masks = (char *)slot->read.host + images;
    host->masks_b = two ? (char *)slot->read.host + images + masks : NULL;
    return STOKE_OK;
}

void stoke_upload_bad(const stoke_upload *upload, uint64_t *replaced, uint64_t *skipped)
{
    *replaced = upload->bad.replaced;
    *skipped = upload->bad.skipped;
}

/* ---- epochs and state ---- */

/* From where the loader stands now. The thread holds still, or there is none. */
static void begin_again(stoke_upload *upload)
{
    pthread_mutex_lock(&upload->lock);
    stk_ring_discard(&upload->ring);
    stk_transfer_forget(upload);
    stk_loader_where(upload->loader, &upload->epoch, &upload->position);
    upload->reached = upload->epoch;
    upload->came = 0;
    upload->resting = 0;
    upload->failure = upload->broken = (stoke_error){ 0 };
    pthread_mutex_unlock(&upload->lock);
}

/* The thread is already on the epoch, as the loader's workers are. */
static int follow(stoke_upload *upload, uint64_t epoch)
{
    pthread_mutex_lock(&upload->lock);
    const stk_ring_slot *head = stk_ring_head(&upload->ring);
    const uint64_t reached = head ? head->batch.host.epoch : upload->reached;
    const int follows =
        upload->started && !upload->broken.code && epoch == upload->epoch + 1 && reached >= epoch;
    if (follows) {
        upload->epoch = epoch;
        upload->position = 0;
    }
    pthread_mutex_unlock(&upload->lock);
    return follows;
}

int stoke_upload_set_epoch(stoke_upload *upload, uint64_t epoch)
{
    if (follow(upload, epoch)) return STOKE_OK;
    stk_transfer_pause(upload);
    int r = STOKE_OK;
    /* Right behind the last batch of an epoch, the thread may have turned to the next one on its way to the
     * pause: setting that again would throw away what the workers have made of it. */
    if (!follow(upload, epoch)) {
        r = stoke_loader_set_epoch(upload->loader, epoch);
        if (!r) begin_again(upload);
    }
    stk_transfer_go_on(upload);
    return r;
}

int stoke_upload_state(const stoke_upload *upload, char *text, size_t size)
{
    return stk_loader_state_at(upload->loader, upload->epoch, upload->position, text, size);
}

int stoke_upload_restore(stoke_upload *upload, const char *text, stoke_error *err)
{
    stk_transfer_pause(upload);
    const int r = stoke_loader_restore(upload->loader, text, err);
    if (!r) begin_again(upload);
    stk_transfer_go_on(upload);
    return r;
}
