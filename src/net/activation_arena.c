/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena: four counters, then one block.
 */
#include "src/net/net.h"

#include <stoke/tools/machine.h>
#include <string.h>
#include <sys/mman.h>

#include "src/base/error.h"
#include "src/base/mem.h"

enum {
    LINE = 64,
    HUGE_PAGE = 2 << 20 /* fresh memory is touched 2-3 times faster this way, and the TLB reaches further */
};

void *stk_activation_arena_take(stk_activation_arena *arena, stk_arena_region region, size_t count,
                                size_t bytes)
{
    const size_t at = arena->used[region];
    arena->used[region] = at + (count * bytes + LINE - 1) / LINE * LINE;
    if (arena->used[region] > arena->most[region]) arena->most[region] = arena->used[region];
    return arena->base ? arena->base + arena->start[region] + at : NULL;
}

size_t stk_activation_arena_bytes(const stk_activation_arena *arena)
{
    size_t sum = 0;
    for (int region = 0; region < STK_REGIONS; region++) sum += arena->most[region];
    return sum;
}

int stk_activation_arena_commit(stk_activation_arena *arena, stoke_error *err)
{
    const size_t bytes = stk_activation_arena_bytes(arena);
    const uint64_t available = stoke_machine_available();
    arena->base = bytes <= available ? stk_alloc_aligned(bytes, HUGE_PAGE) : NULL;
    if (!arena->base)
        return stk_fail(err, STOKE_E_NOMEM,
                        "no memory for the network: it needs %.1f MB, and %.1f MB are available%s; a smaller "
                        "batch or picture, memory: lean or min, or 16-bit precision need less",
                        (double)bytes * 1e-6, (double)available * 1e-6,
                        bytes <= available ? ", but not to this process (ulimit -v?)" : "");
    madvise(arena->base, bytes, MADV_HUGEPAGE); /* a wish: without huge pages all is the same but slower */
    size_t start = 0;
    for (int region = 0; region < STK_REGIONS; region++) {
        arena->start[region] = start;
        start += arena->most[region];
    }
    memset(arena->used, 0, sizeof arena->used);
    return STOKE_OK;
}

void stk_activation_arena_free(stk_activation_arena *arena)
{
    stk_free(arena->base);
    *arena = (stk_activation_arena){ 0 };
}
