/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Array: a view of memory that somebody holds, for NumPy (__array_struct__, __array_interface__) and
 * for everybody who reads DLPack. Never a copy unless one is asked for.
 *
 * On a device, what holds the memory is a lease (lease.h), and who takes a capsule says on which stream it
 * will work: DLPack's protocol, in which the producer sees to it that this stream waits for the data.
 */
#ifndef STOKE_PYTHON_SRC_ARRAY_H
#define STOKE_PYTHON_SRC_ARRAY_H

#include <stoke/data.h>

#include "python/src/extension.h"
#include <stoke/tools/lease.h>

enum { PY_VIEW_DIMS = 4 };

/* DLPack's numbers of kinds of devices. */
enum { PY_DEVICE_CPU = 1, PY_DEVICE_CUDA = 2, PY_DEVICE_OPENCL = 4 };

typedef struct py_place {
    int32_t device, id;
} py_place;
static const py_place py_on_cpu = { PY_DEVICE_CPU, 0 };

/* Dense memory, in whatever order of dimensions. */
typedef struct py_view {
    void *data; /* on a device an address there, or a cl_mem */
    int32_t dims;
    int64_t shape[PY_VIEW_DIMS], strides[PY_VIEW_DIMS]; /* in elements */
    stoke_dtype dtype;
    py_place place;
} py_view;

/* Types of elements as NumPy and DLPack name them; pictures have one of the first PY_PICTURE_TYPES. */
typedef struct py_element {
    stoke_dtype dtype;
    const char *numpy; /* NULL: it has none */
    uint8_t code, bits;
} py_element;
enum { PY_PICTURE_TYPES = 6, PY_TYPES = 8 };
extern const py_element py_elements[PY_TYPES];
const py_element *py_element_of(stoke_dtype dtype);

/* On the processor, in C order; channels_last (four dimensions, given as N, C, H, W) lies in memory as N, H,
 * W, C. */
py_view py_view_of(void *data, stoke_dtype dtype, int32_t dims, const int64_t *shape, int channels_last);
size_t py_view_bytes(const py_view *view);

/* A new array with its own count on `hold`; NULL with an exception set. */
PyObject *py_array_new(stoke_hold *hold, const py_view *view);
/* View and hold (borrowed) of an array; 0 with TypeError set when the object is none. */
int py_array_get(PyObject *object, py_view *view, stoke_hold **hold);

/* Drops a count, the GIL held. The last one of a batch on a device may wait for it: other threads run
 * meanwhile. */
void py_let_go(stoke_hold *hold, py_place place);

/* dlpack.c: a capsule, "dltensor" or (versioned) "dltensor_versioned", with its own count on `hold`. */
PyObject *py_dlpack_capsule(stoke_hold *hold, const py_view *view, int versioned, int copied);

/* device_rows.c: whether a hold is that of a result of _stoke.DeviceRows; else it is a lease (lease.h).
 * Results in memory of ours are held by a count that is no lease: the host has waited for them, so nobody has
 * to put streams in order. */
int py_result_is(const stoke_hold *hold);
/* May wait. As stoke_lease_fetch. */
int py_result_fetch(stoke_hold *hold, const void *array, void *to, size_t bytes, stoke_error *err);

#endif
