/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch on its way, from a host slot of the loader to a device slot. All of it on one stream:
 *
 *     wait for `done` of the slot ─► copy_start ─► copies ─► copy_end ─► kernels ─► end, `ready`
 */
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/feed/feed_private.h"
#include "src/loader/ahead.h"

int stk_trips_create(stoke_feed *feed, stoke_error *err)
{
    int r = STOKE_OK;
    for (int i = 0; i < STK_TRIPS && !r; i++) {
        stk_trip *trip = &feed->trip[i];
        r = stk_event_create(&trip->copy_start, feed->device, err);
        if (!r) r = stk_event_create(&trip->copy_end, feed->device, err);
        if (!r) r = stk_event_create(&trip->kernel_start, feed->device, err);
        if (!r) r = stk_event_create(&trip->end, feed->device, err);
    }
    return r;
}

void stk_trips_destroy(stoke_feed *feed)
{
    for (int i = 0; i < STK_TRIPS; i++) {
        stk_trip *trip = &feed->trip[i];
        stk_event_destroy(&trip->copy_start);
        stk_event_destroy(&trip->copy_end);
        stk_event_destroy(&trip->kernel_start);
        stk_event_destroy(&trip->end);
        *trip = (stk_trip){ 0 };
    }
    feed->sent = feed->copied = feed->ended = 0;
}

/* ---- what becomes of trips ---- */

int stk_feed_between(stk_event *start, stk_event *end, stk_interval *interval, stoke_error *err)
{
    int r = stk_event_time(start, &interval->start, err);
    if (!r) r = stk_event_time(end, &interval->end, err);
    if (!r && interval->end < interval->start) interval->end = interval->start;
    return r;
}

static int read_trip(stoke_feed *feed, const stk_trip *trip, stoke_error *err)
{
    stk_interval copy, kernels;
    int r = stk_feed_between(trip->copy_start, trip->copy_end, &copy, err);
    if (!r && trip->kernels) r = stk_feed_between(trip->kernel_start, trip->end, &kernels, err);
    if (r) return r;
    stk_book_add(&feed->book, STK_WORK_COPY, copy, trip->bytes);
    stk_diary_arrived(&feed->diary, feed->ended, copy, trip->bytes, trip->kernels ? &kernels : NULL);
    stk_feed_lanes_tell(feed->lanes, STK_LANE_COPY, "copy", copy.start, copy.end, trip->number);
    if (!trip->kernels) return STOKE_OK;
    stk_book_add(&feed->book, STK_WORK_AUGMENT, kernels, 0);
    stk_feed_lanes_tell(feed->lanes, STK_LANE_COMPUTE, "augment", kernels.start, kernels.end, trip->number);
    return STOKE_OK;
}

int stk_trips_read(stoke_feed *feed, stoke_error *err)
{
    for (; feed->ended < feed->sent; feed->ended++) {
        stk_trip *trip = &feed->trip[feed->ended % STK_TRIPS];
        int done, r = stk_event_done(trip->end, &done, err);
        if (r || !done) return r;
        r = read_trip(feed, trip, err);
        if (r) return r;
    }
    return STOKE_OK;
}

int stk_transfer_retire(stoke_feed *feed, stoke_error *err)
{
    int r = STOKE_OK, done = 1;
    while (feed->copied < feed->sent) { /* both are this thread's to change */
        stk_trip *trip = &feed->trip[feed->copied % STK_TRIPS];
        r = stk_event_done(trip->copy_end, &done, err);
        if (r || !done) break;
        stoke_batch_release(feed->loader, &trip->host);
        pthread_mutex_lock(&feed->lock);
        feed->copied++;
        pthread_mutex_unlock(&feed->lock);
    }
    pthread_mutex_lock(&feed->lock);
    if (!r) r = stk_trips_read(feed, err);
    pthread_mutex_unlock(&feed->lock);
    return r;
}

int stk_transfer_wait(stoke_feed *feed, int *any, stoke_error *err)
{
    *any = feed->copied < feed->sent;
    if (!*any) return STOKE_OK;
    int r = stk_event_finish(feed->trip[feed->copied % STK_TRIPS].copy_end, err);
    return r ? r : stk_transfer_retire(feed, err);
}

/* At most one copy stays on the way while a batch is taken: the ring of the loader is for batches that are
 * being made. While it has none ready, none stays: the next copy could not start before the one that is
 * waited for has ended anyhow. When a copy has ended, so have the kernels before it on the stream: that
 * leaves two trips whose times are to be read, and one to use. */
static int make_room(stoke_feed *feed, stoke_error *err)
{
    int any = 1, r = stk_transfer_retire(feed, err);
    while (!r && any &&
           (feed->sent - feed->copied > 1 || (feed->sent != feed->copied && !stk_loader_ready(feed->loader))))
        r = stk_transfer_wait(feed, &any, err);
    return r;
}

/* ---- sending ---- */

/* Copies a run of bytes of host memory. */
static int copy_run(stoke_feed *feed, stk_trip *trip, const stk_block *to, size_t to_at,
                    const stk_block *from, size_t begin, size_t end, stoke_error *err)
{
    if (begin == end) return STOKE_OK;
    trip->bytes += end - begin;
    return stk_stream_copy(feed->copies, to, to_at + begin, from, begin, end - begin, err);
}

/* Which part of a row is used: of raw ones less than their room. */
static size_t used_bytes(const stk_raw_row *row, int masks, size_t pitch)
{
    return !row ? pitch : masks ? row->mask_bytes : row->image_bytes;
}

/* Rows, `pitch` bytes apart on both sides. Where one is used up to the next, both cross in one copy. */
static int copy_rows(stoke_feed *feed, stk_trip *trip, const stk_block *to, size_t to_at, void *from,
                     size_t pitch, const stk_raw_row *raw, int masks, stoke_error *err)
{
    const uint32_t count = trip->host->count;
    const stk_block host = {
        .device = feed->device,
        .kind = feed->transfer == STOKE_TRANSFER_PAGEABLE ? STK_MEMORY_PAGEABLE : STK_MEMORY_PINNED,
        .bytes = pitch * count,
        .host = from,
    };
    size_t begin = 0, end = 0;
    int r = STOKE_OK;
    for (uint32_t i = 0; i < count && !r; i++) {
        if (end != i * pitch) {
            r = copy_run(feed, trip, to, to_at, &host, begin, end, err);
            begin = i * pitch;
        }
        end = i * pitch + used_bytes(raw ? &raw[i] : NULL, masks, pitch);
    }
    return r ? r : copy_run(feed, trip, to, to_at, &host, begin, end, err);
}

static int copy_batch(stoke_feed *feed, stk_device_slot *slot, stk_trip *trip, stoke_error *err)
{
    const stoke_batch *host = trip->host;
    const stk_raw_row *raw = stk_batch_raw(host);
    const size_t image_row = host->image_row_bytes, mask_row = host->mask_row_bytes;
    if (raw) {
        int r = copy_rows(feed, trip, &slot->raw, 0, host->images, image_row, raw, 0, err);
        return r ? r : copy_rows(feed, trip, &slot->raw, feed->raw_masks, host->masks, mask_row, raw, 1, err);
    }
    int r = copy_rows(feed, trip, &slot->images, 0, host->images, image_row, NULL, 0, err);
    if (!r) r = copy_rows(feed, trip, &slot->masks, 0, host->masks, mask_row, NULL, 1, err);
    if (!r && host->masks_b)
        r = copy_rows(feed, trip, &slot->masks_b, 0, host->masks_b, mask_row, NULL, 1, err);
    return r;
}

static int run_kernels(stoke_feed *feed, stk_device_slot *slot, stk_trip *trip, stoke_error *err)
{
    const stk_augment_job job = {
        .rows = stk_batch_raw(trip->host),
        .count = trip->host->count,
        .raw = &slot->raw,
        .image_pitch = feed->raw_image_row,
        .mask_at = feed->raw_masks,
        .mask_pitch = feed->raw_mask_row,
        .images = &slot->images,
        .masks = &slot->masks,
        .masks_b = feed->recipe->two_masks ? &slot->masks_b : NULL,
        .turn = (uint32_t)(feed->sent % STK_TRIPS),
    };
    /* Without the knock the time would begin when the copy ended, and kernels may stand in line for long
     * behind a step. */
    int r = stk_stepper_knock(feed, feed->copies, err);
    if (!r) r = stk_event_record(trip->kernel_start, feed->copies, err);
    if (!r) r = stk_augmenter_run(feed->augmenter, feed->copies, &job, err);
    trip->kernels = 1;
    return r;
}

static int send(stoke_feed *feed, stk_device_slot *slot, stk_trip *trip, stoke_error *err)
{
    stk_stream *stream = feed->copies;
    int r = feed->transfer == STOKE_TRANSFER_STREAM ? stk_stream_wait(stream, slot->done, err) : STOKE_OK;
    if (!r) r = stk_event_record(trip->copy_start, stream, err);
    if (!r) r = copy_batch(feed, slot, trip, err);
    if (!r) r = stk_event_record(trip->copy_end, stream, err);
    if (!r && feed->transfer == STOKE_TRANSFER_PAGEABLE) r = stk_event_finish(trip->copy_end, err);
    if (!r && feed->augmenter && trip->host->count) r = run_kernels(feed, slot, trip, err);
    if (!r) r = stk_event_record(trip->end, stream, err);
    if (!r) r = stk_event_record(slot->ready, stream, err);
    return r;
}

/* ---- taking ---- */

/* Bad rows since the last look. */
static stk_bad_rows look_for_bad(stoke_feed *feed)
{
    const stk_bad_rows now = stk_loader_bad_rows(feed->loader), before = feed->looked;
    feed->looked = now;
    return (stk_bad_rows){ now.replaced - before.replaced, now.skipped - before.skipped };
}

void stk_transfer_forget(stoke_feed *feed)
{
    look_for_bad(feed);
    feed->late = (stk_bad_rows){ 0 };
    stk_diary_forget(&feed->diary);
}

void stk_transfer_queue(stoke_feed *feed, stk_device_slot *slot)
{
    slot->late = feed->late;
    feed->late = (stk_bad_rows){ 0 };
    stk_ring_push(&feed->ring, slot);
}

/* What the loader says instead of a batch. Batches it passed over before the end of an epoch have no later
 * one of that epoch to be counted with. */
static int nothing_came(stoke_feed *feed, int status, stoke_error *err)
{
    if (status == STOKE_E_END) {
        pthread_mutex_lock(&feed->lock);
        feed->late = look_for_bad(feed);
        pthread_mutex_unlock(&feed->lock);
    }
    return stk_fail_again(err, status, stoke_loader_error(feed->loader));
}

/* What the consumer is told about the batch, which outlives the host slot. */
static void describe(stoke_feed *feed, stk_device_slot *slot, const stoke_batch *from)
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
    stk_loader_where(feed->loader, &epoch, &slot->position);
}

int stk_transfer_fill(stoke_feed *feed, stk_device_slot *slot, uint64_t deadline_ns, stoke_error *err)
{
    int r = make_room(feed, err);
    if (r) return r;
    stk_trip *trip = &feed->trip[feed->sent % STK_TRIPS];
    trip->bytes = 0;
    trip->kernels = 0;
    r = stoke_loader_next_until(feed->loader, &trip->host, deadline_ns);
    if (r) return nothing_came(feed, r, err);
    slot->bad = look_for_bad(feed);
    describe(feed, slot, trip->host);
    trip->number = (int64_t)trip->host->index;
    slot->trip = feed->sent;
    const uint64_t sent = stk_now_ns();
    r = send(feed, slot, trip, err);
    if (r) { /* what was put on the stream may still read the host slot */
        stk_stream_finish(feed->copies, NULL);
        stoke_batch_release(feed->loader, &trip->host);
        return r;
    }
    pthread_mutex_lock(&feed->lock);
    stk_diary_sent(&feed->diary, feed->sent, trip->host, stk_batch_making(trip->host), sent);
    feed->sent++;
    pthread_mutex_unlock(&feed->lock);
    return STOKE_OK;
}
