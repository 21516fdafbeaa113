/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Pinned: where pinned memory for batches comes from: a CUDA device by its driver, or a function
 * of Python (torch's allocator). Batches outlive loaders, and what they lie in goes with the last of them, in
 * any thread: so the source has its own count.
 */
#ifndef STOKE_PYTHON_SRC_PINNED_H
#define STOKE_PYTHON_SRC_PINNED_H

#include "python/src/extension.h"
#include <stoke/tools/lease.h>

typedef struct py_pinned {
    stoke_hold hold; /* first */
    stoke_allocator allocator;
} py_pinned;

/* Opens a device by its name. 0, or -1 with an exception set. */
int py_device_open(stoke_device **device, PyObject *name);
/* The source behind a _stoke.Pinned, with a count for the caller; *out is NULL for None. 0, or -1 with
 * TypeError set. */
int py_pinned_get(PyObject *object, py_pinned **out);
/* After STOKE_E_NOMEM of somebody who used the allocator: sets the exception that says why there was no such
 * memory and returns 1; 0 when that was not the reason. The GIL held. */
int py_pinned_raise(py_pinned *pinned);

#endif
