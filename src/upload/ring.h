/* SPDX-License-Identifier: Apache-2.0
 *
 * Device slots: room for finished batches on the device, and for raw ones where it augments.
 *
 *      free ──► filling ──work is on the stream──► queued ──next()──► held ──release()──► free
 *
 * All changes of state happen under the upload's lock.
 */
#ifndef STOKE_SRC_UPLOAD_RING_H
#define STOKE_SRC_UPLOAD_RING_H

#include <stoke/upload.h>

#include "src/device/device.h"
#include "src/loader/loader.h"

typedef enum stk_ring_state {
    STK_RING_FREE,
    STK_RING_FILLING,
    STK_RING_QUEUED,
    STK_RING_HELD,
    STK_RING_GONE /* its memory was given up: the upload was stopped */
} stk_ring_state;

typedef struct stk_ring_slot {
    stoke_device_batch batch; /* first: a batch pointer is its slot's pointer */
    stk_ring_state state;
    stk_device_block images, masks, masks_b, raw;
    stk_device_event *ready, *done;
    void *
        lent[STOKE_LENT_MAX]; /* streams of others that use it, as they were given; under the upload's `order`
                               */
    uint32_t n_lent;
    uint64_t position;   /* where the loader stood after this batch */
    uint64_t transfer;   /* that brought it */
    uint64_t freed;      /* when, as a count */
    stk_loader_bad bad;  /* of this batch, and of those passed over before it */
    stk_loader_bad late; /* passed over at the end of the epoch before */
    uint64_t *ids;
    const char **names;
    uint8_t *status;
    float *lambda;         /* NULL without second masks */
    stk_device_block read; /* stoke_upload_read's copy on the host; made when it is first asked for */
} stk_ring_slot;

typedef struct stk_ring {
    stk_ring_slot *slot;
    uint32_t count, held;
    uint32_t *queue, head, queued; /* queued slots, oldest first */
    uint64_t frees;
} stk_ring;

/* Bytes of the blocks of a slot. */
uint64_t stk_ring_slot_bytes(const stoke_batch *shape, int two_masks, uint64_t raw_bytes);
/* `shape`: a finished batch. */
int stk_ring_create(stk_ring *ring, stoke_device *device, uint32_t count, const stoke_batch *shape,
                    int two_masks, uint64_t raw_bytes, stoke_error *err);
void stk_ring_destroy(stk_ring *ring);
/* Gives up the memory of a slot that nobody uses; what is known about it stays. Twice is fine. */
void stk_ring_empty(stk_ring_slot *slot);

/* The free slot that has been free for longest: its last reader has most likely ended. NULL: none. */
stk_ring_slot *stk_ring_free(const stk_ring *ring);
void stk_ring_give_back(stk_ring *ring, stk_ring_slot *slot);
void stk_ring_push(stk_ring *ring, stk_ring_slot *slot);
stk_ring_slot *stk_ring_head(const stk_ring *ring);
/* The head becomes the caller's. */
stk_ring_slot *stk_ring_take(stk_ring *ring);
/* Frees what is queued. */
void stk_ring_discard(stk_ring *ring);

#endif
