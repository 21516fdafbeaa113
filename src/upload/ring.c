/* SPDX-License-Identifier: Apache-2.0 */
#include "src/upload/upload_internal.h"

#include "src/base/error.h"
#include "src/base/mem.h"

static uint64_t image_bytes(const stoke_batch *shape)
{
    return (uint64_t)shape->image_row_bytes * shape->capacity;
}

static uint64_t mask_bytes(const stoke_batch *shape)
{
    return (uint64_t)shape->mask_row_bytes * shape->capacity;
}

uint64_t stk_ring_slot_bytes(const stoke_batch *shape, int two_masks, uint64_t raw_bytes)
{
    return image_bytes(shape) + mask_bytes(shape) * (two_masks ? 2 : 1) + raw_bytes;
}

static uint64_t address(const stk_device_block *block)
{
    return block->handle ? block->handle : (uintptr_t)block->host;
}

static int make_slot(stk_ring_slot *slot, stoke_device *device, const stoke_batch *shape, int two_masks,
                     uint64_t raw_bytes, stoke_error *err)
{
    const stk_device_memory_kind kind = STK_MEMORY_DEVICE;
    const uint32_t n = shape->capacity;
    slot->ids = stk_calloc(n, sizeof *slot->ids);
    slot->names = stk_calloc(n, sizeof *slot->names);
    slot->status = stk_calloc(n, sizeof *slot->status);
    if (two_masks) slot->lambda = stk_calloc(n, sizeof *slot->lambda);
    if (!slot->ids || !slot->names || !slot->status || (two_masks && !slot->lambda))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the names of a batch of %u", n);
    slot->batch.host = *shape;
    slot->batch.host.ids = slot->ids;
    slot->batch.host.names = slot->names;
    slot->batch.host.status = slot->status;
    slot->batch.host.lambda = slot->batch.lambda = slot->lambda;
    int r = stk_event_create(&slot->ready, device, err);
    if (!r) r = stk_event_create(&slot->done, device, err);
    if (!r) r = stk_block_create(&slot->images, device, kind, image_bytes(shape), err);
    if (!r) r = stk_block_create(&slot->masks, device, kind, mask_bytes(shape), err);
    if (!r && two_masks) r = stk_block_create(&slot->masks_b, device, kind, mask_bytes(shape), err);
    if (!r && raw_bytes) r = stk_block_create(&slot->raw, device, kind, raw_bytes, err);
    if (r) return r;
    slot->batch.images = address(&slot->images);
    slot->batch.masks = address(&slot->masks);
    slot->batch.masks_b = two_masks ? address(&slot->masks_b) : 0;
    return STOKE_OK;
}

int stk_ring_create(stk_ring *ring, stoke_device *device, uint32_t count, const stoke_batch *shape,
                    int two_masks, uint64_t raw_bytes, stoke_error *err)
{
    *ring = (stk_ring){ .slot = stk_calloc(count, sizeof *ring->slot),
                        .queue = stk_calloc(count, sizeof *ring->queue) };
    if (!ring->slot || !ring->queue) return stk_fail(err, STOKE_E_NOMEM, "no memory for %u slots", count);
    ring->count = count;
    for (uint32_t i = 0; i < count; i++) {
        ring->slot[i].batch.slot = i;
        int r = make_slot(&ring->slot[i], device, shape, two_masks, raw_bytes, err);
        if (r) return r;
    }
    return STOKE_OK;
}

void stk_ring_empty(stk_ring_slot *slot)
{
    stk_block_destroy(&slot->images);
    stk_block_destroy(&slot->masks);
    stk_block_destroy(&slot->masks_b);
    stk_block_destroy(&slot->raw);
    stk_block_destroy(&slot->read);
}

void stk_ring_destroy(stk_ring *ring)
{
    for (uint32_t i = 0; i < ring->count; i++) {
        stk_ring_slot *slot = &ring->slot[i];
        stk_ring_empty(slot);
        stk_event_destroy(&slot->ready);
        stk_event_destroy(&slot->done);
        stk_free(slot->ids);
        stk_free(slot->names);
        stk_free(slot->status);
        stk_free(slot->lambda);
    }
    stk_free(ring->slot);
    stk_free(ring->queue);
    *ring = (stk_ring){ 0 };
}

stk_ring_slot *stk_ring_free(const stk_ring *ring)
{
    stk_ring_slot *oldest = NULL;
    for (uint32_t i = 0; i < ring->count; i++) {
        stk_ring_slot *slot = &ring->slot[i];
        if (slot->state == STK_RING_FREE && (!oldest || slot->freed < oldest->freed)) oldest = slot;
    }
    return oldest;
}

void stk_ring_give_back(stk_ring *ring, stk_ring_slot *slot)
{
    if (slot->state == STK_RING_HELD) ring->held--;
    slot->state = STK_RING_FREE;
    slot->freed = ++ring->frees;
}

void stk_ring_push(stk_ring *ring, stk_ring_slot *slot)
{
    slot->state = STK_RING_QUEUED;
    ring->queue[(ring->head + ring->queued++) % ring->count] = slot->batch.slot;
}

stk_ring_slot *stk_ring_head(const stk_ring *ring)
{
    return ring->queued ? &ring->slot[ring->queue[ring->head]] : NULL;
}

stk_ring_slot *stk_ring_take(stk_ring *ring)
{
    stk_ring_slot *slot = stk_ring_head(ring);
    ring->head = (ring->head + 1) % ring->count;
    ring->queued--;
    ring->held++;
    slot->state = STK_RING_HELD;
    return slot;
}

void stk_ring_discard(stk_ring *ring)
{
    while (ring->queued) stk_ring_give_back(ring, stk_ring_take(ring));
}
