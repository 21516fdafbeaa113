/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts that keep memory alive.
 */
#include <stoke/tools/lease.h>

#include "src/base/mem.h"

void stoke_hold_begin(stoke_hold *hold, void (*end)(stoke_hold *hold))
{
    hold->count = 1;
    hold->end = end;
}

stoke_hold *stoke_hold_take(stoke_hold *hold)
{
    __atomic_fetch_add(&hold->count, 1, __ATOMIC_RELAXED);
    return hold;
}

void stoke_hold_drop(stoke_hold *hold)
{
    /* Whoever ends it must see what all others did to the memory before. */
    if (hold && __atomic_fetch_sub(&hold->count, 1, __ATOMIC_ACQ_REL) == 1) hold->end(hold);
}

typedef struct memory {
    stoke_hold hold; /* first */
    void *data;
} memory;

static void memory_end(stoke_hold *hold)
{
    stk_free(((memory *)hold)->data);
    stk_free(hold);
}

stoke_hold *stoke_hold_memory(size_t bytes, void **data)
{
    memory *m = stk_alloc(sizeof *m);
    if (!m) return NULL;
    m->data = stk_alloc_aligned(bytes ? bytes : 1, 64);
    if (!m->data) {
        stk_free(m);
        return NULL;
    }
    stoke_hold_begin(&m->hold, memory_end);
    *data = m->data;
    return &m->hold;
}
