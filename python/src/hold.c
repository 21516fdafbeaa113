/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/hold.h"

#include <stdint.h>
#include <stdlib.h>

void py_hold_begin(py_hold *hold, void (*end)(py_hold *hold))
{
    atomic_init(&hold->count, 1);
    hold->end = end;
}

py_hold *py_hold_take(py_hold *hold)
{
    atomic_fetch_add_explicit(&hold->count, 1, memory_order_relaxed);
    return hold;
}

void py_hold_drop(py_hold *hold)
{
    /* Whoever ends it must see what all others did to the memory before. */
    if (hold && atomic_fetch_sub_explicit(&hold->count, 1, memory_order_acq_rel) == 1) hold->end(hold);
}

enum { ALIGNMENT = 64 };

typedef struct memory {
    py_hold hold; /* first */
    void *data;
} memory;

static void memory_end(py_hold *hold)
{
    free(((memory *)hold)->data);
    free(hold);
}

py_hold *py_hold_memory(size_t bytes, void **data)
{
    memory *m = malloc(sizeof *m);
    if (!m) return NULL;
    m->data = bytes <= SIZE_MAX - ALIGNMENT
                  ? aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT)
                  : NULL;
    if (!m->data) {
        free(m);
        return NULL;
    }
    py_hold_begin(&m->hold, memory_end);
    *data = m->data;
    return &m->hold;
}
