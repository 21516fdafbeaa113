/* SPDX-License-Identifier: Apache-2.0
 *
 * All memory of a network in one allocation, planned ahead. The same code runs twice: once with no memory, to
 * measure, then once more to hand out addresses; so the plan that is printed is the memory that is used.
 */
#ifndef STOKE_SRC_NET_ACTIVATION_ARENA_H
#define STOKE_SRC_NET_ACTIVATION_ARENA_H

#include <stoke/common.h>

/* What memory is for, as the plan reports it. The regions lie one after the other. */
typedef enum stk_arena_region {
    STK_REGION_PARAMETERS = 0,
    STK_REGION_PACKED = 1,
    STK_REGION_ACTIVATIONS = 2,
    STK_REGION_WORKSPACE = 3
} stk_arena_region;
enum { STK_REGIONS = 4 };

typedef struct stk_activation_arena {
    unsigned char *base;       /* NULL while measuring */
    size_t used[STK_REGIONS];  /* now */
    size_t most[STK_REGIONS];  /* ever: the size of the region */
    size_t start[STK_REGIONS]; /* of the region, once there is memory */
} stk_activation_arena;

/* Room for `count` elements of `bytes` bytes, 64-byte aligned; NULL while measuring. */
void *stk_activation_arena_take(stk_activation_arena *arena, stk_arena_region region, size_t count,
                                size_t bytes);

/* What is taken between a mark and its release may share memory with what is taken after it. */
static inline size_t stk_activation_arena_mark(const stk_activation_arena *arena, stk_arena_region region)
{
    return arena->used[region];
}
static inline void stk_activation_arena_release(stk_activation_arena *arena, stk_arena_region region,
                                                size_t mark)
{
    arena->used[region] = mark;
}

size_t stk_activation_arena_bytes(const stk_activation_arena *arena);
/* Ends the measuring: allocates what was measured, on huge pages where the system has them, and starts again.
 * STOKE_E_NOMEM: the system has less; it would hand it out all the same and kill the process later. */
int stk_activation_arena_commit(stk_activation_arena *arena, stoke_error *err);
void stk_activation_arena_free(stk_activation_arena *arena);

#endif
