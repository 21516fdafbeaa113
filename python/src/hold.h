/* SPDX-License-Identifier: Apache-2.0
 *
 * Who keeps memory alive: a count that arrays, tensors and whoever else uses it share. Tensors are dropped by
 * any thread, with and without the GIL and while the interpreter ends, so nothing here knows Python.
 */
#ifndef STOKE_PYTHON_SRC_HOLD_H
#define STOKE_PYTHON_SRC_HOLD_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct py_hold {
    atomic_uint count;
    void (*end)(struct py_hold *hold); /* called once, by whoever lets go last */
} py_hold;

/* Begins with one count, the caller's. */
void py_hold_begin(py_hold *hold, void (*end)(py_hold *hold));
py_hold *py_hold_take(py_hold *hold);
/* NULL is fine. */
void py_hold_drop(py_hold *hold);

/* `bytes` of memory behind a count of its own; *data is aligned to 64 bytes. NULL when there is none. */
py_hold *py_hold_memory(size_t bytes, void **data);

#endif
