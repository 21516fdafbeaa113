/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring: a fixed number of batch-sized slots, their only owner. A slot is free, being filled, ready or
 * held.
 *
 *      free ──open──► filling ──last row, mixed──► ready ──next()──► held ──release──► free
 *
 * Any free slot may carry the next batch (not batch % slots), so a batch the consumer keeps for long costs
 * one slot and stalls nothing else. All state changes happen under the loader's lock.
 */
#ifndef STOKE_SRC_LOADER_SLOTS_H
#define STOKE_SRC_LOADER_SLOTS_H

#include <stoke/augment_plan.h>
#include <stoke/loader.h>

#include "src/base/mem.h"
#include "src/loader/batch_times.h"
#include "src/loader/raw.h"

typedef enum stk_slot_state { STK_SLOT_FREE, STK_SLOT_FILLING, STK_SLOT_READY, STK_SLOT_HELD } stk_slot_state;

/* Beside enum stoke_row_status, before delivery: the row has no sample (policy skip). */
enum { STK_ROW_SKIPPED = 255 };

/* How a row is mixed with the one before it: from its plan. */
typedef struct stk_slot_row_mix {
    stoke_mix_kind kind;
    float lambda;
    stoke_box box;
} stk_slot_row_mix;

/* What rows of a slot have besides image, mask and name; bits. */
enum stk_slot_extra {
    STK_SLOT_TWO_MASKS = 1, /* masks_b and lambda */
    STK_SLOT_RAW = 2        /* a stk_raw_row */
};

/* Where the samples of a batch came from; all 0 without a cache. */
typedef struct stk_slot_origins {
    uint32_t ram, disk, decoded, stored; /* stored: decoded ones that the cache has now */
} stk_slot_origins;

typedef struct stk_slot {
    stoke_batch batch; /* first: a batch pointer is its slot's pointer */
    stk_slot_state state;
    uint32_t rows, issued, done; /* of this batch; handed to workers; finished */
    uint32_t replaced, skipped;
    stk_slot_origins origins;
    stk_batch_times times;
    uint64_t ticket; /* of its first row: rows are numbered in the order of delivery, over all epochs */
    uint64_t *ids;
    const char **names;
    uint8_t *status;
    stk_slot_row_mix *mix;
    float *lambda;     /* NULL without second masks */
    stk_raw_row *raw;  /* NULL in an ordinary loader */
    stoke_error error; /* code 0: none. The first row (by index) that failed decides. */
    uint32_t error_row;
} stk_slot;

typedef struct stk_slots {
    stk_slot *slot;
    uint32_t count;
    uint64_t bytes_per_slot; /* of pixels, as allocated through the hook */
    stoke_allocator allocator;
    /* Slots opened but not delivered, oldest first. */
    uint32_t *queue, queued, head;
} stk_slots;

/* Whole cache lines: rows are written by several threads, and copied by a device. */
enum { STK_SLOT_ALIGNMENT = 64 };
static inline size_t stk_slot_aligned(size_t n)
{
    return (n + STK_SLOT_ALIGNMENT - 1) / STK_SLOT_ALIGNMENT * STK_SLOT_ALIGNMENT;
}

/* raw.c: what rows of the ring look like, finished or raw; *extras = STK_SLOT_ bits. */
stoke_batch stk_slot_shape(const stk_loader_config *config, uint32_t capacity, unsigned *extras);
/* Bytes of one slot for such batches, bookkeeping included. */
uint64_t stk_slot_bytes(const stoke_batch *shape, unsigned extras);
/* shape: capacity, sizes and types are copied into every slot. allocator NULL = heap. */
int stk_slots_create(stk_slots *slots, uint32_t count, const stoke_batch *shape, unsigned extras,
                     const stoke_allocator *allocator, stoke_error *err);
void stk_slots_destroy(stk_slots *slots);

/* A free slot, put at the end of the queue and reset for `rows` rows; NULL when none is free. */
stk_slot *stk_slots_open(stk_slots *slots, uint32_t rows);
/* The oldest undelivered slot; NULL when there is none. */
stk_slot *stk_slots_head(const stk_slots *slots);
/* How many at the head of the queue are ready: one behind a batch that is still filled does not count. */
uint32_t stk_slots_ready(const stk_slots *slots);
/* Removes the head from the queue. */
void stk_slots_pop(stk_slots *slots);
/* Frees every queued slot (none may have rows in flight). */
void stk_slots_discard(stk_slots *slots);

/* Closes the gaps that policy skip left, keeping the order of rows; sets batch.count. */
void stk_slot_compact(stk_slot *slot);

/* The slot of a batch that it gave out. */
static inline stk_slot *stk_slot_of(const stoke_batch *batch)
{
    return (stk_slot *)batch; /* the batch is the slot's first member */
}

static inline void *stk_slot_image_row(const stk_slot *slot, uint32_t row)
{
    return (char *)slot->batch.images + (size_t)row * slot->batch.image_row_bytes;
}

/* NULL where there are targets. */
static inline void *stk_slot_mask_row(const stk_slot *slot, uint32_t row)
{
    if (!slot->batch.masks) return NULL;
    return (char *)slot->batch.masks + (size_t)row * slot->batch.mask_row_bytes;
}

static inline void *stk_slot_target_row(const stk_slot *slot, uint32_t row)
{
    return (char *)slot->batch.targets + (size_t)row * slot->batch.target_row_bytes;
}

static inline void *stk_slot_mask_b_row(const stk_slot *slot, uint32_t row)
{
    return (char *)slot->batch.masks_b + (size_t)row * slot->batch.mask_row_bytes;
}

/* Rows of a finished batch, mixed with each other: MixUp and CutMix.
 *
 * Every row is mixed with the row before it (row 0 with the last), both as they are before any mixing. The
 * plan of a row says how; which row stands before it follows from its place in the batch. Both are the same
 * for any number of workers, ranks and any point of resumption, since a batch is always the same run of
 * global positions (order.h), and so are the bytes. Under policy skip the gaps are closed first: which rows
 * are bad is a property of the files.
 */

/* Mixes rows 0 .. batch.count-1 by slot->mix and fills masks_b and lambda where the slot has them. `copy`
 * keeps one row meanwhile. A batch of one row stays as it is. */
int stk_slot_mix(stk_slot *slot, stk_mem_buffer *copy, stoke_error *err);
/* What `copy` will hold. */
uint64_t stk_mix_scratch(const stoke_batch *shape);

#endif
