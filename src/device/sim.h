/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests, and nobody else, may do to a simulated GPU: give it a clock of theirs, take memory away, lose
 * it in the middle of work; and see what its engines did. The device must be one that was opened as
 * "sim"; before its first stream, but for stk_sim_lose_after.
 */
#ifndef STOKE_SRC_DEVICE_SIM_H
#define STOKE_SRC_DEVICE_SIM_H

#include "src/device/device.h"

typedef enum stk_sim_engine {
    STK_ENGINE_COMPUTE, /* kernels, steps, copies within the device */
    STK_ENGINE_UP,      /* host to device */
    STK_ENGINE_DOWN,    /* device to host; with one copy engine it is not used */
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
void stk_sim_set_copy_engines(stoke_device *device, uint32_t engines); /* 1 or 2 */
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

#endif
