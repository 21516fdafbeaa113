/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches in other hands. A batch may be lent to streams that the caller made, and any thread may let go of
 * it:
 *
 *     lend      the stream waits for `ready` of the slot
 *     release   the consumer's stream waits for what each of those streams has been given; then `done`
 *
 * So the thread that fills the slot again waits for one event, whoever used it.
 */
#include "src/base/error.h"
#include "src/feed/feed_private.h"

int stk_guests_create(stoke_feed *feed, stoke_error *err)
{
    return stk_event_create(&feed->passed, feed->device, err);
}

void stk_guests_destroy(stoke_feed *feed)
{
    for (int i = 0; i < STK_GUESTS; i++) stk_stream_destroy(&feed->guest[i].stream);
    stk_event_destroy(&feed->passed);
}

static stk_device_slot *slot_of(const stoke_device_batch *batch)
{
    return (stk_device_slot *)batch; /* the batch is the slot's first member */
}

/* ---- streams of others ---- */

/* The stream behind a handle; the one that was met first makes room. `order` held. */
static int guest_of(stoke_feed *feed, void *native, stk_stream **out, stoke_error *err)
{
    for (int i = 0; i < STK_GUESTS; i++) {
        *out = feed->guest[i].stream;
        if (*out && feed->guest[i].native == native) return STOKE_OK;
    }
    stk_guest *guest = &feed->guest[feed->guests_met++ % STK_GUESTS];
    stk_stream_destroy(&guest->stream);
    guest->native = native;
    const int r = stk_stream_wrap(&guest->stream, feed->device, native, err);
    *out = guest->stream;
    return r;
}

static int write_down(stk_device_slot *slot, void *native, stoke_error *err)
{
    for (uint32_t i = 0; i < slot->n_lent; i++)
        if (slot->lent[i] == native) return STOKE_OK;
    if (slot->n_lent == STOKE_LENT_MAX)
        return stk_fail(err, STOKE_E_LIMIT,
                        "a batch is lent to %d streams at most: let the others wait for one of them",
                        STOKE_LENT_MAX);
    slot->lent[slot->n_lent++] = native;
    return STOKE_OK;
}

int stoke_feed_lend(stoke_feed *feed, const stoke_device_batch *batch, void *stream, stoke_error *err)
{
    stk_device_slot *slot = slot_of(batch);
    stk_stream *guest;
    pthread_mutex_lock(&feed->order);
    int r = guest_of(feed, stream, &guest, err);
    if (!r) r = write_down(slot, stream, err);
    if (!r) r = stk_stream_wait(guest, slot->ready, err);
    pthread_mutex_unlock(&feed->order);
    return r;
}

/* A stream waits for what guests have been given so far. `order` held. */
static int follow_guests(stoke_feed *feed, const stk_device_slot *slot, stk_stream *follower,
                         stoke_error *err)
{
    int r = STOKE_OK;
    for (uint32_t i = 0; i < slot->n_lent && !r; i++) {
        stk_stream *guest;
        r = guest_of(feed, slot->lent[i], &guest, err);
        if (!r) r = stk_event_record(feed->passed, guest, err);
        if (!r) r = stk_stream_wait(follower, feed->passed, err);
    }
    return r;
}

/* ---- letting go ---- */

void stk_feed_break(stoke_feed *feed, const stoke_error *error)
{
    pthread_mutex_lock(&feed->lock);
    if (!feed->broken.code) feed->broken = *error;
    pthread_mutex_unlock(&feed->lock);
}

void stk_feed_give_back(stoke_feed *feed, stk_device_slot *slot)
{
    pthread_mutex_lock(&feed->lock);
    stk_ring_give_back(&feed->ring, slot);
    const int stopped = feed->stopped;
    if (stopped) slot->state = STK_RING_GONE;
    pthread_cond_broadcast(&feed->work);
    pthread_mutex_unlock(&feed->lock);
    if (!stopped) return; /* else nobody fills it again: it is ours */
    stk_event_finish(slot->done, NULL);
    stk_ring_empty(slot);
}

/* Nothing tells when the batch has been read: wait here. `order` held. */
static void wait_for_readers(stoke_feed *feed, const stk_device_slot *slot)
{
    stk_stream *guest;
    for (uint32_t i = 0; i < slot->n_lent; i++)
        if (!guest_of(feed, slot->lent[i], &guest, NULL)) stk_stream_finish(guest, NULL);
    stk_stream_finish(feed->consumer, NULL);
}

void stoke_feed_release(stoke_feed *feed, const stoke_device_batch **batch)
{
    if (!*batch) return;
    stk_device_slot *slot = slot_of(*batch);
    stoke_error error = { 0 };
    *batch = NULL;
    pthread_mutex_lock(&feed->order);
    int r = follow_guests(feed, slot, feed->consumer, &error);
    if (!r) r = stk_event_record(slot->done, feed->consumer, &error);
    if (r) wait_for_readers(feed, slot);
    slot->n_lent = 0;
    pthread_mutex_unlock(&feed->order);
    if (r) stk_feed_break(feed, &error);
    stk_feed_give_back(feed, slot);
}

/* ---- looking at it ---- */

int stoke_feed_arrive(stoke_feed *feed, const stoke_device_batch *batch, stoke_error *err)
{
    return stk_event_finish(slot_of(batch)->ready, err);
}

static const stk_block *block_of(const stk_device_slot *slot, uint64_t array)
{
    const stoke_device_batch *batch = &slot->batch;
    if (!array) return NULL;
    return array == batch->images    ? &slot->images
           : array == batch->masks   ? &slot->masks
           : array == batch->masks_b ? &slot->masks_b
                                     : NULL;
}

/* Behind the batch and what others have been given for it. */
static int come_after(stoke_feed *feed, const stk_device_slot *slot, stk_stream *stream, stoke_error *err)
{
    pthread_mutex_lock(&feed->order);
    int r = stk_stream_wait(stream, slot->ready, err);
    if (!r) r = follow_guests(feed, slot, stream, err);
    pthread_mutex_unlock(&feed->order);
    return r;
}

/* By a stream of its own: a copy to memory that is not page-locked waits inside the call, and who lets go of
 * another batch meanwhile must not wait for that. */
int stoke_feed_fetch(stoke_feed *feed, const stoke_device_batch *batch, uint64_t array, void *to,
                     size_t bytes, stoke_error *err)
{
    const stk_device_slot *slot = slot_of(batch);
    const stk_block *from = block_of(slot, array);
    const stk_block host = {
        .device = feed->device, .kind = STK_MEMORY_PAGEABLE, .bytes = bytes, .host = to
    };
    if (!from || bytes > from->bytes)
        return stk_fail(err, STOKE_E_INVALID, "%zu bytes are no part of an array of the batch", bytes);
    if (!bytes) return STOKE_OK;
    stk_stream *own;
    int r = stk_stream_create(&own, feed->device, err);
    if (r) return r;
    r = come_after(feed, slot, own, err);
    if (!r) r = stk_stream_copy(own, &host, 0, from, 0, bytes, err);
    const int ended =
        stk_stream_finish(own, r ? NULL : err); /* the memory is not ours: also after a failure */
    stk_stream_destroy(&own);
    return r ? r : ended;
}
