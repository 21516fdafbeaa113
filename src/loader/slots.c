/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/slots.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

static size_t image_bytes(const stoke_batch *shape)
{
    return stk_slot_aligned(shape->image_row_bytes * shape->capacity);
}

static size_t mask_bytes(const stoke_batch *shape)
{
    return stk_slot_aligned(shape->mask_row_bytes * shape->capacity);
}

static size_t pixel_bytes(const stoke_batch *shape, unsigned extras)
{
    return image_bytes(shape) + mask_bytes(shape) * (extras & STK_SLOT_TWO_MASKS ? 2 : 1) +
           stk_slot_aligned(shape->target_row_bytes * shape->capacity);
}

uint64_t stk_slot_bytes(const stoke_batch *shape, unsigned extras)
{
    const size_t row = sizeof(uint64_t) + sizeof(const char *) + sizeof(uint8_t) + sizeof(stk_slot_row_mix) +
                       (extras & STK_SLOT_TWO_MASKS ? sizeof(float) : 0) +
                       (extras & STK_SLOT_RAW ? sizeof(stk_raw_row) : 0);
    return pixel_bytes(shape, extras) + sizeof(stk_slot) + row * shape->capacity;
}

static int slot_create(stk_slots *slots, stk_slot *slot, const stoke_batch *shape, unsigned extras,
                       stoke_error *err)
{
    const size_t bytes = slots->bytes_per_slot;
    const int two_masks = extras & STK_SLOT_TWO_MASKS, raw = extras & STK_SLOT_RAW;
    slot->batch = *shape;
    slot->batch.images = slots->allocator.alloc(slots->allocator.context, bytes, STK_SLOT_ALIGNMENT);
    slot->ids = stk_calloc(shape->capacity, sizeof *slot->ids);
    slot->names = stk_calloc(shape->capacity, sizeof *slot->names);
    slot->status = stk_calloc(shape->capacity, sizeof *slot->status);
    slot->mix = stk_calloc(shape->capacity, sizeof *slot->mix);
    if (two_masks) slot->lambda = stk_calloc(shape->capacity, sizeof *slot->lambda);
    if (raw) slot->raw = stk_calloc(shape->capacity, sizeof *slot->raw);
    if (!slot->batch.images || !slot->ids || !slot->names || !slot->status || !slot->mix ||
        (two_masks && !slot->lambda) || (raw && !slot->raw))
        return stk_fail(
            err, STOKE_E_NOMEM,
            "no memory for a batch of %.1f MiB: a smaller `batch`, `size` or `prefetch` needs less, and "
            "`memory_limit` tells before the run whether all of it fits",
            STK_MIB(bytes));
    void *beside = (char *)slot->batch.images + image_bytes(shape);
    slot->batch.masks = shape->mask_row_bytes ? beside : NULL;
    slot->batch.targets = shape->target_row_bytes ? beside : NULL;
    if (two_masks) slot->batch.masks_b = (char *)slot->batch.masks + mask_bytes(shape);
    slot->batch.ids = slot->ids;
    slot->batch.names = slot->names;
    slot->batch.status = slot->status;
    slot->batch.lambda = slot->lambda;
    return STOKE_OK;
}

int stk_slots_create(stk_slots *slots, uint32_t count, const stoke_batch *shape, unsigned extras,
                     const stoke_allocator *allocator, stoke_error *err)
{
    *slots = (stk_slots){ .bytes_per_slot = pixel_bytes(shape, extras) };
    slots->allocator = allocator ? *allocator : stoke_allocator_pages();
    slots->slot = stk_calloc(count, sizeof *slots->slot);
    slots->queue = stk_calloc(count, sizeof *slots->queue);
    if (!slots->slot || !slots->queue) return stk_fail(err, STOKE_E_NOMEM, "no memory for the ring");
    slots->count = count;
    for (uint32_t i = 0; i < count; i++) {
        int r = slot_create(slots, &slots->slot[i], shape, extras, err);
        if (r) return r;
    }
    return STOKE_OK;
}

void stk_slots_destroy(stk_slots *slots)
{
    for (uint32_t i = 0; i < slots->count; i++) {
        stk_slot *slot = &slots->slot[i];
        if (slot->batch.images)
            slots->allocator.release(slots->allocator.context, slot->batch.images, slots->bytes_per_slot);
        stk_free(slot->ids);
        stk_free(slot->names);
        stk_free(slot->status);
        stk_free(slot->mix);
        stk_free(slot->lambda);
        stk_free(slot->raw);
    }
    stk_free(slots->slot);
    stk_free(slots->queue);
    *slots = (stk_slots){ 0 };
}

stk_slot *stk_slots_open(stk_slots *slots, uint32_t rows)
{
    for (uint32_t i = 0; i < slots->count; i++) {
        stk_slot *slot = &slots->slot[i];
        if (slot->state != STK_SLOT_FREE) continue;
        slot->state = STK_SLOT_FILLING;
        slot->rows = rows;
        slot->issued = slot->done = slot->replaced = slot->skipped = 0;
        slot->origins = (stk_slot_origins){ 0 };
        slot->times = (stk_batch_times){ 0 };
        slot->error.code = STOKE_OK;
        slots->queue[(slots->head + slots->queued++) % slots->count] = i;
        return slot;
    }
    return NULL;
}

stk_slot *stk_slots_head(const stk_slots *slots)
{
    return slots->queued ? &slots->slot[slots->queue[slots->head]] : NULL;
}

uint32_t stk_slots_ready(const stk_slots *slots)
{
    uint32_t n = 0;
    while (n < slots->queued &&
           slots->slot[slots->queue[(slots->head + n) % slots->count]].state == STK_SLOT_READY)
        n++;
    return n;
}

void stk_slots_pop(stk_slots *slots)
{
    slots->head = (slots->head + 1) % slots->count;
    slots->queued--;
}

void stk_slots_discard(stk_slots *slots)
{
    for (stk_slot *slot; (slot = stk_slots_head(slots)); stk_slots_pop(slots)) slot->state = STK_SLOT_FREE;
}

void stk_slot_compact(stk_slot *slot)
{
    uint32_t kept = 0;
    for (uint32_t row = 0; row < slot->rows; row++) {
        if (slot->status[row] == STK_ROW_SKIPPED) continue;
        if (kept != row) {
            memcpy(stk_slot_image_row(slot, kept), stk_slot_image_row(slot, row),
                   slot->batch.image_row_bytes);
            if (slot->batch.masks)
                memcpy(stk_slot_mask_row(slot, kept), stk_slot_mask_row(slot, row),
                       slot->batch.mask_row_bytes);
            if (slot->batch.targets)
                memcpy(stk_slot_target_row(slot, kept), stk_slot_target_row(slot, row),
                       slot->batch.target_row_bytes);
            slot->ids[kept] = slot->ids[row];
            slot->names[kept] = slot->names[row];
            slot->status[kept] = slot->status[row];
            slot->mix[kept] = slot->mix[row];
            if (slot->raw) slot->raw[kept] = slot->raw[row];
        }
        kept++;
    }
    slot->batch.count = kept;
}
