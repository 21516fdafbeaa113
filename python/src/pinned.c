/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/extension.h"

#include <stdlib.h>
#include <string.h>

#include <stoke/tools/device.h>

typedef struct source {
    py_pinned base; /* first */
    stoke_device *device;
    PyObject *take;      /* take(bytes) -> (address, what keeps it); NULL: the device gives */
    PyObject *failed[3]; /* the exception that `take` raised */
} source;

typedef struct pinned_object {
    PyObject_HEAD source *source;
} pinned_object;

/* ---- memory from a function of Python ---- */

/* What keeps the memory lies right before it. The GIL held; NULL with an exception set. */
static void *take(const source *s, size_t bytes, size_t alignment)
{
    PyObject *owner, *given;
    unsigned long long address;
    void *pointer = NULL;
    given = PyObject_CallFunction(s->take, "n", (Py_ssize_t)(bytes + alignment + sizeof owner));
    if (given && PyArg_ParseTuple(given, "KO;memory is (address, owner)", &address, &owner)) {
        const uintptr_t first = (uintptr_t)address + sizeof owner + alignment - 1;
        pointer = (void *)(first / alignment * alignment); /* a power of two */
        memcpy((char *)pointer - sizeof owner, &owner, sizeof owner);
        Py_INCREF(owner);
    }
    Py_XDECREF(given);
    return pointer;
}

/* By whoever makes slots: without the GIL. */
static void *python_alloc(void *context, size_t bytes, size_t alignment)
{
    source *s = context;
    const PyGILState_STATE state = PyGILState_Ensure();
    void *pointer = take(s, bytes, alignment);
    if (!pointer) {
        for (int i = 0; i < 3; i++) Py_CLEAR(s->failed[i]);
        PyErr_Fetch(&s->failed[0], &s->failed[1], &s->failed[2]);
    }
    PyGILState_Release(state);
    return pointer;
}

/* By whoever lets go last, with or without the GIL. After the interpreter's end the memory stays: there is
 * nobody left to take it. */
static void python_release(void *context, void *pointer, size_t bytes)
{
    PyObject *owner;
    if (!Py_IsInitialized()) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    memcpy(&owner, (char *)pointer - sizeof owner, sizeof owner);
    Py_DECREF(owner);
    PyGILState_Release(state);
}

/* ---- the source ---- */

static void source_end(stoke_hold *hold)
{
    source *s = (source *)hold;
    stoke_device_close(&s->device);
    if (s->take && Py_IsInitialized()) {
        const PyGILState_STATE state = PyGILState_Ensure();
        Py_CLEAR(s->take);
        for (int i = 0; i < 3; i++) Py_CLEAR(s->failed[i]);
        PyGILState_Release(state);
    }
    free(s);
}

int py_device_open(stoke_device **device, PyObject *name)
{
    PyObject *bytes = PyUnicode_AsUTF8String(name);
    if (!bytes) return -1;
    const char *text = PyBytes_AsString(bytes);
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_device_open(device, text, NULL, &error));
    Py_DECREF(bytes);
    if (error.code) error.code = STOKE_E_DEVICE;
    return py_check(&error);
}

static PyObject *pinned_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *from;
    if (!PyArg_ParseTuple(args, "O:Pinned", &from)) return NULL;
    pinned_object *self = (pinned_object *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    source *s = self->source = calloc(1, sizeof *s);
    if (s) stoke_hold_begin(&s->base.hold, source_end);
    if (!s || (PyUnicode_Check(from) && py_device_open(&s->device, from))) {
        Py_DECREF(self);
        return s ? NULL : PyErr_NoMemory();
    }
    if (s->device) {
        s->base.allocator = stoke_device_pinned(s->device);
    } else {
        Py_INCREF(s->take = from);
        s->base.allocator = (stoke_allocator){ python_alloc, python_release, s };
    }
    return (PyObject *)self;
}

static void pinned_dealloc(PyObject *object)
{
    source *s = ((pinned_object *)object)->source;
    if (s) stoke_hold_drop(&s->base.hold);
    py_free(object);
}

int py_pinned_get(PyObject *object, py_pinned **out)
{
    *out = NULL;
    if (!object || object == Py_None) return 0;
    if (!PyObject_TypeCheck(object, py_pinned_type))
        return py_refuse(PyExc_TypeError, "not a Pinned of stokehold");
    *out = &((pinned_object *)object)->source->base;
    stoke_hold_take(&(*out)->hold);
    return 0;
}

int py_pinned_raise(py_pinned *pinned)
{
    source *s = (source *)pinned;
    stoke_error error = { 0 };
    if (!s) return 0;
    if (s->failed[0]) {
        PyErr_Restore(s->failed[0], s->failed[1], s->failed[2]);
        s->failed[0] = s->failed[1] = s->failed[2] = NULL;
        return 1;
    }
    error.code = s->device ? stoke_device_pinned_failed(s->device, &error) : STOKE_OK;
    return py_check(&error) != 0;
}

static PyType_Slot slots[] = {
    { Py_tp_doc, "Pinned(device_or_function): pinned memory of a device by its name, or by take(bytes) "
                 "-> (address, what keeps it)." },
    { Py_tp_new, pinned_new },
    { Py_tp_dealloc, pinned_dealloc },
    { 0 },
};

PyType_Spec py_pinned_spec = { "stokehold._stoke.Pinned", sizeof(pinned_object), 0, Py_TPFLAGS_DEFAULT,
                               slots };
