/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's caching allocator, simulated: the same rounding, segments and splitting, with no memory behind
 * it. So that a card that is not there runs out of memory where a real one would: by what is reserved, not by
 * what is in use.
 *
 *   sizes are rounded up to 512 bytes
 *   up to 1 MB   from segments of 2 MB
 *   below 10 MB  from segments of 20 MB
 *   else         a separate segment, in whole 2 MB
 *
 * A segment that is free is kept for the next; only when the card has no more are the free ones given back.
 */
#ifndef STOKE_SRC_TUNE_BATCH_SIM_ALLOCATOR_H
#define STOKE_SRC_TUNE_BATCH_SIM_ALLOCATOR_H

#include <stoke/common.h>

enum { STK_SIM_ALLOCATOR_BLOCKS = 4096 };

/* A piece of a segment; those of one segment are linked in order of address. */
typedef struct stk_sim_allocator_block {
    uint64_t bytes;
    int32_t before, after; /* in the same segment; -1 = none */
    uint8_t small, used, there;
} stk_sim_allocator_block;

typedef struct stk_sim_allocator {
    uint64_t limit;
    uint64_t allocated, reserved, peak_allocated, peak_reserved;
    int32_t n;
    stk_sim_allocator_block block[STK_SIM_ALLOCATOR_BLOCKS];
} stk_sim_allocator;

void stk_sim_allocator_begin(stk_sim_allocator *paper, uint64_t limit);
/* A handle, or -1: out of memory (or of blocks, of which a trial takes a few hundred). */
int32_t stk_sim_allocator_take(stk_sim_allocator *paper, uint64_t bytes);
void stk_sim_allocator_give(stk_sim_allocator *paper, int32_t handle); /* accepts -1 */

#endif
