/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack: how frameworks hand each other memory (https://dmlc.github.io/dlpack). A capsule holds a struct
 * with the view and a function that lets go of it. The consumer renames the capsule to say that it will call
 * the function; a capsule nobody took calls it itself.
 */
#include <stdlib.h>

#include "python/src/array.h"
#include "python/src/dlpack.h"

static const char plain_name[] = PY_DLPACK_PLAIN, versioned_name[] = PY_DLPACK_VERSIONED;

/* What a capsule points to, and the numbers it points to in turn. */
typedef struct parcel {
    union {
        dl_managed plain;
        dl_versioned versioned;
    } dl; /* first */
    py_view view;
    stoke_hold *hold;
} parcel;

/* By the consumer, in any thread, with or without the GIL. */
static void parcel_end(parcel *p)
{
    stoke_hold_drop(p->hold);
    free(p);
}

static void delete_plain(dl_managed *self)
{
    parcel_end((parcel *)self);
}

static void delete_versioned(dl_versioned *self)
{
    parcel_end((parcel *)self);
}

/* The capsule goes; under its first name nobody took what is in it. */
static void capsule_end(PyObject *capsule)
{
    for (int i = 0; i < 2; i++) {
        const char *name = i ? versioned_name : plain_name;
        if (PyCapsule_IsValid(capsule, name)) parcel_end(PyCapsule_GetPointer(capsule, name));
    }
}

static uint8_t code_of(stoke_dtype dtype)
{
    switch (dtype) {
    case STOKE_DTYPE_F32:
    case STOKE_DTYPE_F16: return DL_FLOAT;
    case STOKE_DTYPE_BF16: return DL_BFLOAT;
    case STOKE_DTYPE_I32:
    case STOKE_DTYPE_I64: return DL_INT;
    case STOKE_DTYPE_U8:
    case STOKE_DTYPE_U16: break;
    }
    return DL_UINT;
}

static dl_tensor tensor_of(parcel *p)
{
    return (dl_tensor){
        .data = p->view.data,
        .device = { p->view.place.device, p->view.place.id },
        .dims = p->view.dims,
        .dtype = { code_of(p->view.dtype), (uint8_t)(8 * stoke_dtype_bytes(p->view.dtype)), 1 },
        .shape = p->view.shape,
        .strides = p->view.strides,
    };
}

PyObject *py_dlpack_capsule(stoke_hold *hold, const py_view *view, int versioned, int copied)
{
    parcel *p = calloc(1, sizeof *p);
    if (!p) return PyErr_NoMemory();
    p->view = *view;
    if (versioned)
        p->dl.versioned = (dl_versioned){ .version = { 1, 0 },
                                          .deleter = delete_versioned,
                                          .flags = copied ? DL_FLAG_COPIED : 0,
                                          .tensor = tensor_of(p) };
    else
        p->dl.plain = (dl_managed){ .tensor = tensor_of(p), .deleter = delete_plain };
    PyObject *capsule = PyCapsule_New(p, versioned ? versioned_name : plain_name, capsule_end);
    if (capsule)
        p->hold = stoke_hold_take(hold);
    else
        free(p);
    return capsule;
}
