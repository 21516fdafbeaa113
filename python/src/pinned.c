/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/pinned.h"

#include <pthread.h>
#include <stdlib.h>

#include <stoke/tools/device.h>

/* What a function of Python gave. */
typedef struct piece {
    void *pointer; /* into it, aligned */
    PyObject *owner;
    struct piece *next;
} piece;

typedef struct source {
    py_pinned base; /* first */
    stoke_device *device;
    PyObject *take; /* take(bytes) -> (address, what keeps it); NULL: the device gives */
    pthread_mutex_t lock;
    piece *pieces;
    PyObject *failed[3]; /* the exception that `take` raised */
} source;

typedef struct pinned_object {
    PyObject_HEAD source *source;
} pinned_object;

/* ---- memory from a function of Python ---- */

/* The GIL held. 0 with an exception set. */
static int take_piece(source *s, size_t bytes, size_t alignment, piece *p)
{
    PyObject *given = PyObject_CallFunction(s->take, "n", (Py_ssize_t)(bytes + alignment));
    unsigned long long address = 0;
    if (given && PyArg_ParseTuple(given, "KO;memory is (address, owner)", &address, &p->owner)) {
        Py_INCREF(p->owner);
        p->pointer =
            (void *)(uintptr_t)((address + alignment - 1) / alignment * alignment); /* a power of two */
    }
    Py_XDECREF(given);
    return p->owner != NULL;
}

/* By whoever makes slots: without the GIL. */
static void *python_alloc(void *context, size_t bytes, size_t alignment)
{
    source *s = context;
    piece *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    const PyGILState_STATE state = PyGILState_Ensure();
    const int taken = take_piece(s, bytes, alignment, p);
    if (!taken) {
        for (int i = 0; i < 3; i++) Py_CLEAR(s->failed[i]);
        PyErr_Fetch(&s->failed[0], &s->failed[1], &s->failed[2]);
    }
    PyGILState_Release(state);
    if (!taken) {
        free(p);
        return NULL;
    }
    void *pointer = p->pointer;
    pthread_mutex_lock(&s->lock);
    p->next = s->pieces;
    s->pieces = p;
    pthread_mutex_unlock(&s->lock);
    return pointer;
}

/* By whoever lets go last, with or without the GIL. After the interpreter's end the memory stays: there is
 * nobody left to take it. */
static void python_release(void *context, void *pointer, size_t bytes)
{
    source *s = context;
    pthread_mutex_lock(&s->lock);
    piece **at = &s->pieces;
    while (*at && (*at)->pointer != pointer) at = &(*at)->next;
    piece *p = *at;
    if (p) *at = p->next;
    pthread_mutex_unlock(&s->lock);
    if (!p) return;
    if (Py_IsInitialized()) {
        const PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(p->owner);
        PyGILState_Release(state);
    }
    free(p);
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
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static source *source_new(void)
{
    source *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    if (pthread_mutex_init(&s->lock, NULL)) {
        free(s);
        return NULL;
    }
    stoke_hold_begin(&s->base.hold, source_end);
    return s;
}

int py_device_open(stoke_device **device, PyObject *name)
{
    PyObject *bytes = PyUnicode_AsUTF8String(name);
    if (!bytes) return -1;
    const char *text = PyBytes_AsString(bytes);
    stoke_error error = { 0 };
    int r;
    PY_UNLOCKED(r = stoke_device_open(device, text, NULL, &error));
    Py_DECREF(bytes);
    return py_check(r ? STOKE_E_DEVICE : STOKE_OK, &error);
}

static PyObject *pinned_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *from;
    if (!PyArg_ParseTuple(args, "O:Pinned", &from)) return NULL;
    pinned_object *self = (pinned_object *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    source *s = self->source = source_new();
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
    if (!PyObject_TypeCheck(object, py_pinned_type)) {
        PyErr_SetString(PyExc_TypeError, "not a Pinned of stokehold");
        return -1;
    }
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
    const int r = s->device ? stoke_device_pinned_failed(s->device, &error) : STOKE_OK;
    return py_check(r, &error) != 0;
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
