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
#include "src/upload/upload_internal.h"

void stk_foreign_streams_destroy(stoke_upload *upload)
{
    for (int i = 0; i < STK_FOREIGN_STREAMS; i++) stk_stream_destroy(&upload->foreign[i].stream);
    stk_event_destroy(&upload->passed);
}

static stk_ring_slot *slot_of(const stoke_device_batch *batch)
{
    return (stk_ring_slot *)batch; /* the batch is the slot's first member */
}

/* ---- streams of others ---- */

/* The stream behind a handle; the one that was met first makes room. `order` held. */
static int guest_of(stoke_upload *upload, void *native, stk_device_stream **out, stoke_error *err)
{
    for (int i = 0; i < STK_FOREIGN_STREAMS; i++) {
        *out = upload->foreign[i].stream;
        if (*out && upload->foreign[i].native == native) return STOKE_OK;
    }
    stk_upload_foreign_stream *foreign = &upload->foreign[upload->foreign_met++ % STK_FOREIGN_STREAMS];
    stk_stream_destroy(&foreign->stream);
    foreign->native = native;
    const int r = stk_stream_wrap(&foreign->stream, upload->device, native, err);
    *out = foreign->stream;
    return r;
}

static int write_down(stk_ring_slot *slot, void *native, stoke_error *err)
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

int stoke_upload_lend(stoke_upload *upload, const stoke_device_batch *batch, void *stream, stoke_error *err)
{
    stk_ring_slot *slot = slot_of(batch);
    stk_device_stream *foreign;
    pthread_mutex_lock(&upload->order);
    int r = guest_of(upload, stream, &foreign, err);
    if (!r) r = write_down(slot, stream, err);
    if (!r) r = stk_stream_wait(foreign, slot->ready, err);
    pthread_mutex_unlock(&upload->order);
    return r;
}

/* A stream waits for what guests have been given so far. `order` held. */
static int follow_guests(stoke_upload *upload, const stk_ring_slot *slot, stk_device_stream *follower,
                         stoke_error *err)
{
    int r = STOKE_OK;
    for (uint32_t i = 0; i < slot->n_lent && !r; i++) {
        stk_device_stream *foreign;
        r = guest_of(upload, slot->lent[i], &foreign, err);
        if (!r) r = stk_event_record(upload->passed, foreign, err);
        if (!r) r = stk_stream_wait(follower, upload->passed, err);
    }
    return r;
}

/* ---- letting go ---- */

void stk_upload_break(stoke_upload *upload, const stoke_error *error)
{
    pthread_mutex_lock(&upload->lock);
    if (!upload->broken.code) upload->broken = *error;
    pthread_mutex_unlock(&upload->lock);
}

void stk_upload_give_back(stoke_upload *upload, stk_ring_slot *slot)
{
    pthread_mutex_lock(&upload->lock);
    stk_ring_give_back(&upload->ring, slot);
    const int stopped = upload->stopped;
    if (stopped) slot->state = STK_RING_GONE;
    pthread_cond_broadcast(&upload->work);
    pthread_mutex_unlock(&upload->lock);
    if (!stopped) return; /* else nobody fills it again: it is ours */
    stk_event_finish(slot->done, NULL);
    stk_ring_empty(slot);
}

/* Nothing tells when the batch has been read: wait here. `order` held. */
static void wait_for_readers(stoke_upload *upload, const stk_ring_slot *slot)
{
    stk_device_stream *foreign;
    for (uint32_t i = 0; i < slot->n_lent; i++)
        if (!guest_of(upload, slot->lent[i], &foreign, NULL)) stk_stream_finish(foreign, NULL);
    stk_stream_finish(upload->consumer, NULL);
}

void stoke_upload_release(stoke_upload *upload, const stoke_device_batch **batch)
{
    if (!*batch) return;
    stk_ring_slot *slot = slot_of(*batch);
    stoke_error error = { 0 };
    *batch = NULL;
    pthread_mutex_lock(&upload->order);
    int r = follow_guests(upload, slot, upload->consumer, &error);
    if (!r) r = stk_event_record(slot->done, upload->consumer, &error);
    if (r) wait_for_readers(upload, slot);
    slot->n_lent = 0;
    pthread_mutex_unlock(&upload->order);
    if (r) stk_upload_break(upload, &error);
    stk_upload_give_back(upload, slot);
}

/* ---- looking at it ---- */

int stoke_upload_arrive(stoke_upload *upload, const stoke_device_batch *batch, stoke_error *err)
{
    return stk_event_finish(slot_of(batch)->ready, err);
}

static const stk_device_block *block_of(const stk_ring_slot *slot, uint64_t array)
{
    const stoke_device_batch *batch = &slot->batch;
    if (!array) return NULL;
    return array == batch->images    ? &slot->images
           : array == batch->masks   ? &slot->masks
           : array == batch->masks_b ? &slot->masks_b
                                     : NULL;
}

/* By a separate stream: a copy to memory that is not pinned waits inside the call, and who lets go of
 * another batch meanwhile must not wait for that. */
int stoke_upload_fetch(stoke_upload *upload, const stoke_device_batch *batch, uint64_t array, void *to,
                       size_t bytes, stoke_error *err)
{
    const stk_ring_slot *slot = slot_of(batch);
    const stk_device_block *from = block_of(slot, array);
    const stk_device_block host = {
        .device = upload->device, .kind = STK_MEMORY_PAGEABLE, .bytes = bytes, .host = to
    };
    if (!from || bytes > from->bytes)
        return stk_fail(err, STOKE_E_INVALID, "%zu bytes are no part of an array of the batch", bytes);
    if (!bytes) return STOKE_OK;
    stk_device_stream *own;
    int r = stk_stream_create(&own, upload->device, err);
    if (r) return r;
    pthread_mutex_lock(&upload->order); /* behind the batch and what others have been given for it */
    r = stk_stream_wait(own, slot->ready, err);
    if (!r) r = follow_guests(upload, slot, own, err);
    pthread_mutex_unlock(&upload->order);
    if (!r) r = stk_stream_copy(own, &host, 0, from, 0, bytes, err);
    const int ended =
        stk_stream_finish(own, r ? NULL : err); /* the memory is not ours: also after a failure */
    stk_stream_destroy(&own);
    return r ? r : ended;
}
