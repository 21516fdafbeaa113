/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a simulated GPU, kept as PyTorch's caching allocator keeps a card's: what trains beside
 * Stokehold behaves so, and out of memory is rarely where the sum of sizes says.
 *
 *   - sizes are rounded up to 512 B;
 *   - up to 1 MiB they come from segments of 2 MiB, below 10 MiB from segments of 20 MiB, larger ones get a
 *     segment of their own, rounded up to 2 MiB;
 *   - the smallest free block that is large enough is taken, and cut when the rest is worth keeping (512 B
 *     among small ones, more than 1 MiB among large ones);
 *   - freed blocks stay, joined with free neighbours of their segment;
 *   - before it gives up, the allocator hands back all segments that are wholly free, once.
 *
 * The driver's context takes its part first. Addresses are made up; nothing lies there.
 */
#ifndef STOKE_SRC_DEVICE_SIM_MEMORY_H
#define STOKE_SRC_DEVICE_SIM_MEMORY_H

#include <stoke/common.h>

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

#endif
