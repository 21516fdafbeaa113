/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch on its way, from a host slot of the loader to a device slot. All of it on one stream:
 *
 *     wait for `done` of the slot ─► copy_start ─► copies ─► copy_end ─► kernels ─► end, `ready`
 */
#include <string.h>

#include <signal.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/retry.h"
#include "src/loader/loader.h"
#include "src/upload/upload_internal.h"

int stk_transfers_create(stoke_upload *upload, stoke_error *err)
{
    int r = STOKE_OK;
    for (int i = 0; i < STK_TRANSFERS && !r; i++) {
        stk_upload_transfer *transfer = &upload->transfers[i];
        r = stk_event_create(&transfer->copy_start, upload->device, err);
        if (!r) r = stk_event_create(&transfer->copy_end, upload->device, err);
        if (!r) r = stk_event_create(&transfer->kernel_start, upload->device, err);
        if (!r) r = stk_event_create(&transfer->end, upload->device, err);
    }
    return r;
}

void stk_transfers_destroy(stoke_upload *upload)
{
    for (int i = 0; i < STK_TRANSFERS; i++) {
        stk_upload_transfer *transfer = &upload->transfers[i];
        stk_event_destroy(&transfer->copy_start);
        stk_event_destroy(&transfer->copy_end);
        stk_event_destroy(&transfer->kernel_start);
        stk_event_destroy(&transfer->end);
        *transfer = (stk_upload_transfer){ 0 };
    }
    upload->sent = upload->copied = upload->ended = 0;
}

/* ---- what becomes of transfers ---- */

int stk_upload_between(stk_device_event *start, stk_device_event *end, stk_busy_interval *interval,
                       stoke_error *err)
{
    int r = stk_event_time(start, &interval->start, err);
    if (!r) r = stk_event_time(end, &interval->end, err);
    if (!r && interval->end < interval->start) interval->end = interval->start;
    return r;
}

int stk_transfers_read(stoke_upload *upload, stoke_error *err)
{
    for (; upload->ended < upload->sent; upload->ended++) {
        stk_upload_transfer *transfer = &upload->transfers[upload->ended % STK_TRANSFERS];
        stk_busy_interval copy, kernels;
        int done, r = stk_event_done(transfer->end, &done, err);
        if (r || !done) return r;
        r = stk_upload_between(transfer->copy_start, transfer->copy_end, &copy, err);
        if (!r && transfer->kernels)
            r = stk_upload_between(transfer->kernel_start, transfer->end, &kernels, err);
        if (r) return r;
        stk_observer_arrived(&upload->observer, upload->ended, transfer->number, copy, transfer->bytes,
                             transfer->kernels ? &kernels : NULL);
    }
    return STOKE_OK;
}

int stk_transfer_retire(stoke_upload *upload, stoke_error *err)
{
    int r = STOKE_OK, done = 1;
    while (upload->copied < upload->sent) { /* both are this thread's to change */
        stk_upload_transfer *transfer = &upload->transfers[upload->copied % STK_TRANSFERS];
        r = stk_event_done(transfer->copy_end, &done, err);
        if (r || !done) break;
        stoke_batch_release(upload->loader, &transfer->host);
        pthread_mutex_lock(&upload->lock);
        upload->copied++;
        pthread_mutex_unlock(&upload->lock);
    }
    pthread_mutex_lock(&upload->lock);
    if (!r) r = stk_transfers_read(upload, err);
    pthread_mutex_unlock(&upload->lock);
    return r;
}

/* The same, after waiting for the oldest of them. Returns 1 in *any when there was one. */
static int transfer_wait(stoke_upload *upload, int *any, stoke_error *err)
{
    *any = upload->copied < upload->sent;
    if (!*any) return STOKE_OK;
    int r = stk_event_finish(upload->transfers[upload->copied % STK_TRANSFERS].copy_end, err);
    return r ? r : stk_transfer_retire(upload, err);
}

/* At most one copy stays on the way while a batch is taken: the ring of the loader is for batches that are
 * being made. While it has none ready, none stays: the next copy could not start before the one that is
 * waited for has ended anyhow. When a copy has ended, so have the kernels before it on the stream: that
 * leaves two transfers whose times are to be read, and one to use. */
static int make_room(stoke_upload *upload, stoke_error *err)
{
    int any = 1, r = stk_transfer_retire(upload, err);
    while (!r && any &&
           (upload->sent - upload->copied > 1 ||
            (upload->sent != upload->copied && !stk_loader_ready(upload->loader))))
        r = transfer_wait(upload, &any, err);
    return r;
}

/* ---- sending ---- */

/* Copies a run of bytes of host memory. */
static int copy_run(stoke_upload *upload, stk_upload_transfer *transfer, const stk_device_block *to,
                    size_t to_at, const stk_device_block *from, size_t begin, size_t end, stoke_error *err)
{
    if (begin == end) return STOKE_OK;
    transfer->bytes += end - begin;
    return stk_stream_copy(upload->copies, to, to_at + begin, from, begin, end - begin, err);
}

/* Rows, `pitch` bytes apart on both sides, of raw ones the part that is used. Where one is used up to the
 * next, both cross in one copy. */
static int copy_rows(stoke_upload *upload, stk_upload_transfer *transfer, const stk_device_block *to,
                     size_t to_at, void *from, size_t pitch, const stk_raw_row *raw, int masks,
                     stoke_error *err)
{
    const uint32_t count = transfer->host->count;
    const stk_device_block host = {
        .device = upload->device,
        .kind = upload->transfer == STOKE_TRANSFER_PAGEABLE ? STK_MEMORY_PAGEABLE : STK_MEMORY_PINNED,
        .bytes = pitch * count,
        .host = from,
    };
    size_t begin = 0, end = 0;
    int r = STOKE_OK;
    for (uint32_t i = 0; i < count && !r; i++) {
        if (end != i * pitch) {
            r = copy_run(upload, transfer, to, to_at, &host, begin, end, err);
            begin = i * pitch;
        }
        end = i * pitch + (!raw ? pitch : masks ? raw[i].mask_bytes : raw[i].image_bytes);
    }
    return r ? r : copy_run(upload, transfer, to, to_at, &host, begin, end, err);
}

static int copy_batch(stoke_upload *upload, stk_ring_slot *slot, stk_upload_transfer *transfer,
                      stoke_error *err)
{
    const stoke_batch *host = transfer->host;
    const stk_raw_row *raw = stk_batch_raw(host);
    const size_t image_row = host->image_row_bytes, mask_row = host->mask_row_bytes;
    if (raw) {
        int r = copy_rows(upload, transfer, &slot->raw, 0, host->images, image_row, raw, 0, err);
        return r ? r
                 : copy_rows(upload, transfer, &slot->raw, upload->raw.mask_at, host->masks, mask_row, raw, 1,
                             err);
    }
    int r = copy_rows(upload, transfer, &slot->images, 0, host->images, image_row, NULL, 0, err);
    if (!r) r = copy_rows(upload, transfer, &slot->masks, 0, host->masks, mask_row, NULL, 1, err);
    if (!r && host->masks_b)
        r = copy_rows(upload, transfer, &slot->masks_b, 0, host->masks_b, mask_row, NULL, 1, err);
    return r;
}

static int run_kernels(stoke_upload *upload, stk_ring_slot *slot, stk_upload_transfer *transfer,
                       stoke_error *err)
{
    const stk_augmenter_job job = {
        .rows = stk_batch_raw(transfer->host),
        .count = transfer->host->count,
        .raw = &slot->raw,
        .layout = upload->raw,
        .images = &slot->images,
        .masks = &slot->masks,
        .masks_b = upload->config->two_masks ? &slot->masks_b : NULL,
        .turn = (uint32_t)(upload->sent % STK_TRANSFERS),
    };
    /* For those who watch: without the knock the time would begin when the copy ended, and kernels may stand
     * in line for long behind a step. */
    int r = STOKE_OK;
    if (atomic_load(&upload->observer.watched))
        r = stk_augment_spin(upload->copies, stk_augmenter_module(upload->augmenter), &upload->knock, 1, 0,
                             err);
    if (!r) r = stk_event_record(transfer->kernel_start, upload->copies, err);
    if (!r) r = stk_augmenter_run(upload->augmenter, upload->copies, &job, err);
    transfer->kernels = 1;
    return r;
}

static int send(stoke_upload *upload, stk_ring_slot *slot, stk_upload_transfer *transfer, stoke_error *err)
{
    stk_device_stream *stream = upload->copies;
    int r = upload->transfer == STOKE_TRANSFER_STREAM ? stk_stream_wait(stream, slot->done, err) : STOKE_OK;
    if (!r) r = stk_event_record(transfer->copy_start, stream, err);
    if (!r) r = copy_batch(upload, slot, transfer, err);
    if (!r) r = stk_event_record(transfer->copy_end, stream, err);
    if (!r && upload->transfer == STOKE_TRANSFER_PAGEABLE) r = stk_event_finish(transfer->copy_end, err);
    if (!r && upload->augmenter && transfer->host->count) r = run_kernels(upload, slot, transfer, err);
    if (!r) r = stk_event_record(transfer->end, stream, err);
    if (!r) r = stk_event_record(slot->ready, stream, err);
    return r;
}

/* ---- taking ---- */

/* Bad rows since the last look. */
static stk_loader_bad look_for_bad(stoke_upload *upload)
{
    const stk_loader_bad now = stk_loader_bad_rows(upload->loader), before = upload->looked;
    upload->looked = now;
    return (stk_loader_bad){ now.replaced - before.replaced, now.skipped - before.skipped };
}

void stk_transfer_forget(stoke_upload *upload)
{
    look_for_bad(upload);
    upload->late = (stk_loader_bad){ 0 };
    stk_step_log_forget(&upload->observer.step_log);
}

void stk_transfer_queue(stoke_upload *upload, stk_ring_slot *slot)
{
    slot->late = upload->late;
    upload->late = (stk_loader_bad){ 0 };
    stk_ring_push(&upload->ring, slot);
}

/* What the consumer is told about the batch, which outlives the host slot. */
static void describe(stoke_upload *upload, stk_ring_slot *slot, const stoke_batch *from)
{
    stoke_batch *to = &slot->batch.host;
    const stk_raw_row *raw = stk_batch_raw(from);
    const uint32_t count = from->count;
    uint64_t epoch;
    to->index = from->index;
    to->epoch = from->epoch;
    to->position = from->position;
    to->count = count;
    memcpy(slot->ids, from->ids, count * sizeof *slot->ids);
    memcpy(slot->names, from->names, count * sizeof *slot->names);
    memcpy(slot->status, from->status, count * sizeof *slot->status);
    for (uint32_t i = 0; slot->lambda && i < count; i++) {
        if (!raw)
            slot->lambda[i] = from->lambda[i];
        else /* a row alone has nothing to be mixed with */
            slot->lambda[i] = count > 1 && raw[i].plan.mix == STOKE_MIX_UP ? raw[i].plan.lambda : 1.0f;
    }
    stk_loader_where(upload->loader, &epoch, &slot->position);
}

int stk_transfer_fill(stoke_upload *upload, stk_ring_slot *slot, uint64_t deadline_ns, stoke_error *err)
{
    int r = make_room(upload, err);
    if (r) return r;
    stk_upload_transfer *transfer = &upload->transfers[upload->sent % STK_TRANSFERS];
    transfer->bytes = 0;
    transfer->kernels = 0;
    r = stoke_loader_next_until(upload->loader, &transfer->host, deadline_ns);
    if (r == STOKE_E_END) {
        /* Batches passed over before the end of an epoch have no later one of that epoch to be counted with.
         */
        pthread_mutex_lock(&upload->lock);
        upload->late = look_for_bad(upload);
        pthread_mutex_unlock(&upload->lock);
    }
    if (r) return stk_fail_again(err, r, stoke_loader_error(upload->loader));
    slot->bad = look_for_bad(upload);
    describe(upload, slot, transfer->host);
    transfer->number = (int64_t)transfer->host->index;
    slot->transfer = upload->sent;
    const uint64_t sent = stk_now_ns();
    r = send(upload, slot, transfer, err);
    if (r) { /* what was put on the stream may still read the host slot */
        stk_stream_finish(upload->copies, NULL);
        stoke_batch_release(upload->loader, &transfer->host);
        return r;
    }
    pthread_mutex_lock(&upload->lock);
    stk_step_log_sent(&upload->observer.step_log, upload->sent, transfer->host,
                      stk_batch_times_of(transfer->host), sent);
    upload->sent++;
    pthread_mutex_unlock(&upload->lock);
    return STOKE_OK;
}

/* The thread that sends batches ahead of the consumer. When an epoch has ended it goes on with the next one,
 * as the loader's workers do: otherwise the device would wait for a copy at every turn.
 */

/* The loader said END. Lock held, and given up meanwhile. */
static void turn_epoch(stoke_upload *upload)
{
    if (!upload->came) { /* nor has the next one any batches, and so on for ever */
        upload->resting = 1;
        return;
    }
    const uint64_t next = upload->reached + 1;
    pthread_mutex_unlock(&upload->lock);
    stoke_loader_set_epoch(upload->loader, next);
    pthread_mutex_lock(&upload->lock);
    upload->reached = next;
    upload->came = 0;
}

/* Fills a free slot. Lock held, and given up meanwhile. */
static void fill_one(stoke_upload *upload, stk_ring_slot *slot)
{
    stoke_error error = { 0 };
    slot->state = STK_RING_FILLING;
    pthread_mutex_unlock(&upload->lock);
    const int r = stk_transfer_fill(upload, slot, STK_FOR_EVER, &error);
    pthread_mutex_lock(&upload->lock);
    if (r) {
        stk_ring_give_back(&upload->ring, slot);
        if (r == STOKE_E_END)
            turn_epoch(upload);
        else if (r != STOKE_E_CANCELLED)
            upload->failure = error;
    } else {
        upload->came++;
        stk_transfer_queue(upload, slot);
    }
    pthread_cond_broadcast(&upload->ready);
}

/* No slot is free: host slots that are still being copied go back to the loader meanwhile. Returns 0 when
 * there is none. Lock held, and given up meanwhile. */
static int tidy_up(stoke_upload *upload)
{
    stoke_error error = { 0 };
    int any;
    pthread_mutex_unlock(&upload->lock);
    const int r = transfer_wait(upload, &any, &error);
    pthread_mutex_lock(&upload->lock);
    if (r) {
        upload->failure = error;
        pthread_cond_broadcast(&upload->ready);
    }
    return any;
}

static void *run(void *argument)
{
    stoke_upload *upload = argument;
    pthread_mutex_lock(&upload->lock);
    while (!upload->stopping) {
        const int at_work = !upload->paused && !upload->resting && !upload->failure.code;
        stk_ring_slot *slot = at_work ? stk_ring_free(&upload->ring) : NULL;
        if (slot) {
            fill_one(upload, slot);
            continue;
        }
        if (at_work && tidy_up(upload)) continue;
        /* While the lock was given up: who called for `work` then is not heard below. */
        if (at_work && (upload->stopping || stk_ring_free(&upload->ring))) continue;
        upload->idle = 1;
        pthread_cond_broadcast(&upload->ready);
        pthread_cond_wait(&upload->work, &upload->lock);
        upload->idle = 0;
    }
    pthread_mutex_unlock(&upload->lock);
    return NULL;
}

int stk_transfer_start(stoke_upload *upload, stoke_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the consumer's */
    const int number = stk_thread_start(&upload->thread, run, upload);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (number) return stk_fail_errno(err, STOKE_E_NOMEM, number, "cannot start the thread of an upload");
    pthread_setname_np(upload->thread, "stoke-feed");
    upload->started = 1;
    return STOKE_OK;
}

static void tell(stoke_upload *upload, int *flag, int value)
{
    pthread_mutex_lock(&upload->lock);
    *flag = value;
    pthread_cond_broadcast(&upload->work);
    pthread_mutex_unlock(&upload->lock);
}

void stk_transfer_stop(stoke_upload *upload)
{
    if (!upload->started) return;
    tell(upload, &upload->stopping, 1);
    stk_loader_cancel(upload->loader, 1);
    pthread_join(upload->thread, NULL);
    upload->started = 0;
}

void stk_transfer_pause(stoke_upload *upload)
{
    if (!upload->started) return;
    tell(upload, &upload->paused, 1);
    stk_loader_cancel(upload->loader, 1);
    pthread_mutex_lock(&upload->lock);
    while (!upload->idle) pthread_cond_wait(&upload->ready, &upload->lock);
    pthread_mutex_unlock(&upload->lock);
    stk_loader_cancel(upload->loader, 0);
}

void stk_transfer_go_on(stoke_upload *upload)
{
    if (upload->started) tell(upload, &upload->paused, 0);
}
