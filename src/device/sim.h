/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests, and nobody else, may do to a simulated GPU: give it a clock of theirs, take memory away, lose
 * it in the middle of work; and see what its engines did. The device must be one that was opened as
 * "sim"; before its first stream, but for stk_sim_lose_after.
 */
#ifndef STOKE_SRC_DEVICE_SIM_H
#define STOKE_SRC_DEVICE_SIM_H

#include <stoke/common.h>
#include <stoke/tools/device.h>

#include "src/device/device.h"

typedef enum stk_sim_engine {
    STK_ENGINE_COMPUTE, /* kernels, steps, copies within the device */
    STK_ENGINE_UP,      /* host to device */
    STK_ENGINE_DOWN,    /* device to host */
    STK_ENGINES
} stk_sim_engine;

/* Times in ns. `sleep` returns at `until` or later; how much later changes no time on the device. */
typedef struct stk_sim_clock {
    uint64_t (*now)(void *context);
    void (*sleep)(void *context, uint64_t until);
    void *context;
} stk_sim_clock;
/* Instead of CLOCK_MONOTONIC. Called by whoever calls the device, one at a time for `now`. */
void stk_sim_set_clock(stoke_device *device, const stk_sim_clock *clock);
/* The card has so many bytes, context included. */
void stk_sim_set_memory(stoke_device *device, uint64_t bytes);

/* `calls` more calls of the device succeed (creating, enqueueing, waiting, asking; not destroying), then it
 * is lost: STOKE_E_DEVICE for good. At any time. */
void stk_sim_lose_after(stoke_device *device, uint64_t calls);

typedef struct stk_sim_counts {
    uint64_t calls;                /* that stk_sim_lose_after counts */
    uint64_t busy_ns[STK_ENGINES]; /* of work that has begun, to its end */
    uint64_t allocated_bytes;      /* blocks in use, rounded as the allocator does */
    uint64_t reserved_bytes;       /* taken from the card: in use, or kept for the next block */
    uint64_t peak_allocated_bytes, peak_reserved_bytes;
    uint64_t flushes; /* times the allocator gave everything unused back before it took more */
} stk_sim_counts;
void stk_sim_count(stoke_device *device, stk_sim_counts *counts);

/* Simulated GPUs by name. */

/* `name` "": the usual one. STOKE_E_NOTFOUND: the message lists all. */
int stk_sim_gpu_find(const char *name, stoke_card *card, uint32_t *compute_units, stoke_error *err);

/* The memory of a simulated GPU, kept as PyTorch's caching allocator keeps a card's: what trains beside
 * Stokehold behaves so, and out of memory is rarely where the sum of sizes says.
 *
 *   - sizes are rounded up to 512 B;
 *   - up to 1 MiB they come from segments of 2 MiB, below 10 MiB from segments of 20 MiB, larger ones get a
 *     separate segment, rounded up to 2 MiB;
 *   - the smallest free block that is large enough is taken, and cut when the rest is worth keeping (512 B
 *     among small ones, more than 1 MiB among large ones);
 *   - freed blocks stay, joined with free neighbours of their segment;
 *   - before it gives up, the allocator hands back all segments that are wholly free, once.
 *
 * The driver's context takes its part first. Addresses are made up; nothing lies there.
 */

/* CUDA's context with its kernels: 0.3 .. 0.6 GB, by card and driver. */
#define STK_SIM_CONTEXT_BYTES (UINT64_C(512) << 20)

typedef struct stk_sim_piece stk_sim_piece;

typedef struct stk_sim_memory {
    uint64_t capacity; /* of the card */
    uint64_t context;
    uint64_t allocated, reserved, peak_allocated, peak_reserved, flushes;
    uint64_t next_address;
    stk_sim_piece *segments; /* the first piece of each */
} stk_sim_memory;

void stk_sim_memory_init(stk_sim_memory *memory, uint64_t capacity);
void stk_sim_memory_free(stk_sim_memory *memory); /* whatever is still in use */
/* STOKE_E_NOMEM: the card is full, with the arithmetic (`card` names it), or the host is. */
int stk_sim_memory_take(stk_sim_memory *memory, uint64_t bytes, const char *card, stk_sim_piece **out,
                        stoke_error *err);
void stk_sim_memory_give(stk_sim_memory *memory, stk_sim_piece *piece);
uint64_t stk_piece_address(const stk_sim_piece *piece);
/* What the driver would say is free: neither in use nor kept. */
uint64_t stk_sim_memory_left(const stk_sim_memory *memory);

/* The time of a simulated GPU: engines that do one thing at a time, queues of work in order, moments that
 * order queues among each other. A timeline knows no clock: whoever calls says what time it is, and all that
 * follows is arithmetic. Nothing here is measured, so a host that wakes up late makes work submitted late,
 * as it does with a real device, but never makes the device look busy.
 *
 * An engine takes what is ready first, whoever asked first: work that waits for something far ahead does not
 * hold up what comes later on other queues. What begins after `now` is therefore not decided yet. Kernels of
 * a queue that follow each other at once go through together: a step of 100 ms is one piece of work here and
 * some hundred kernels on a card, where it could not get between each two of another queue.
 *
 * Not for several threads at once. Times never fall.
 */

typedef struct stk_sim_moment
    stk_sim_moment; /* the end of what a queue held when it was marked; counted by holders */
typedef struct stk_sim_queue stk_sim_queue;
typedef struct stk_sim_task stk_sim_task;

typedef enum stk_sim_task_kind {
    STK_TASK_WHOLE,  /* a copy, a step */
    STK_TASK_KERNEL, /* goes through together with those right before and after it */
} stk_sim_task_kind;

typedef struct stk_sim_timeline {
    uint64_t free_at[2][STK_ENGINES]; /* by view: what is so, and what is to be expected */
    uint64_t busy[STK_ENGINES];
    uint64_t submitted; /* number of the next task */
    stk_sim_queue *queues;
    stk_sim_task *spare_tasks; /* kept: steady state allocates nothing */
    stk_sim_moment *spare_moments;
} stk_sim_timeline;

void stk_timeline_free(stk_sim_timeline *timeline); /* queues and moments must be gone */

stk_sim_queue *stk_queue_create(stk_sim_timeline *timeline); /* NULL: no memory */
/* What it still holds is dropped; moments it was to reach count as reached. */
void stk_queue_destroy(stk_sim_timeline *timeline, stk_sim_queue *queue, uint64_t now);

/* All three return 0 when there is no memory, and nothing has happened then. */
int stk_queue_work(stk_sim_timeline *timeline, stk_sim_queue *queue, stk_sim_engine engine,
                   stk_sim_task_kind kind, uint64_t duration, uint64_t now);
int stk_queue_wait(stk_sim_timeline *timeline, stk_sim_queue *queue, stk_sim_moment *moment, uint64_t now);
/* *moment is let go of and replaced by a new one, held by the caller; *moment NULL is fine. */
int stk_queue_mark(stk_sim_timeline *timeline, stk_sim_queue *queue, stk_sim_moment **moment, uint64_t now);

stk_sim_moment *stk_moment_hold(stk_sim_moment *moment);                  /* returns it */
void stk_moment_drop(stk_sim_timeline *timeline, stk_sim_moment *moment); /* accepts NULL */
/* Decides everything that begins until `now`. */
void stk_timeline_advance(stk_sim_timeline *timeline, uint64_t now);
/* When the moment comes, should nothing more be submitted; exact once it is not after the last advance. */
uint64_t stk_moment_expected(stk_sim_timeline *timeline, const stk_sim_moment *moment);

#endif
