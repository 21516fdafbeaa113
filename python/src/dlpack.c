/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack: how frameworks hand each other memory (https://dmlc.github.io/dlpack). A capsule holds a struct
 * with the view and a function that lets go of it. The consumer renames the capsule to say that it will call
 * the function; a capsule nobody took calls it itself.
 */
#include <stdlib.h>

#include "python/src/extension.h"
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

const py_element py_elements[PY_TYPES] = {
    { STOKE_DTYPE_U8, "|u1", DL_UINT, 8 },    { STOKE_DTYPE_U8, "|b1", DL_BOOL, 8 },
    { STOKE_DTYPE_U16, "<u2", DL_UINT, 16 },  { STOKE_DTYPE_I32, "<i4", DL_INT, 32 },
    { STOKE_DTYPE_I64, "<i8", DL_INT, 64 },   { STOKE_DTYPE_F32, "<f4", DL_FLOAT, 32 },
    { STOKE_DTYPE_F16, "<f2", DL_FLOAT, 16 }, { STOKE_DTYPE_BF16, NULL, DL_BFLOAT, 16 },
};

const py_element *py_element_of(stoke_dtype dtype)
{
    const py_element *at = py_elements;
    while (at->dtype != dtype) at++;
    return at;
}

static dl_tensor tensor_of(parcel *p)
{
    const py_element *type = py_element_of(p->view.dtype);
    return (dl_tensor){
        .data = p->view.data,
        .device = { p->view.place.device, p->view.place.id },
        .dims = p->view.dims,
        .dtype = { type->code, type->bits, 1 },
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
