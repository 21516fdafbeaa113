/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/array.h"

#include <stdlib.h>
#include <string.h>

typedef struct array {
    PyObject_HEAD py_hold *hold;
    py_view view;
} array;

static PyTypeObject *array_type;

/* ---- views ---- */

py_view py_view_of(void *data, stoke_dtype dtype, int32_t dims, const int64_t *shape, int channels_last)
{
    static const int32_t plain[] = { 0, 1, 2, 3 }, last[] = { 0, 2, 3, 1 };
    const int32_t *order = channels_last ? last : plain; /* of dimensions in memory, outermost first */
    py_view view = { .data = data, .dims = dims, .dtype = dtype, .device = PY_DEVICE_CPU };
    int64_t step = 1;
    for (int32_t i = dims - 1; i >= 0; i--) {
        view.shape[order[i]] = shape[order[i]];
        view.strides[order[i]] = step;
        step *= shape[order[i]];
    }
    return view;
}

static int64_t elements(const py_view *view)
{
    int64_t n = 1;
    for (int32_t i = 0; i < view->dims; i++) n *= view->shape[i];
    return n;
}

size_t py_view_bytes(const py_view *view)
{
    return (size_t)elements(view) * stoke_dtype_bytes(view->dtype);
}

/* ---- the object ---- */

PyObject *py_array_new(py_hold *hold, const py_view *view)
{
    array *self = PyObject_New(array, array_type);
    if (!self) return NULL;
    self->hold = py_hold_take(hold);
    self->view = *view;
    return (PyObject *)self;
}

int py_array_get(PyObject *object, py_view *view, py_hold **hold)
{
    if (!PyObject_TypeCheck(object, array_type)) {
        PyErr_SetString(PyExc_TypeError, "not an array of stokehold");
        return 0;
    }
    *view = ((array *)object)->view;
    *hold = ((array *)object)->hold;
    return 1;
}

static void array_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    py_hold_drop(((array *)self)->hold);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *numbers(const int64_t *values, int32_t n, int64_t factor)
{
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i] * factor);
        if (!value || PyTuple_SetItem(tuple, i, value)) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *array_shape(PyObject *self, void *closure)
{
    const py_view *view = &((array *)self)->view;
    return numbers(view->shape, view->dims, 1);
}

static PyObject *array_strides(PyObject *self, void *closure)
{
    const py_view *view = &((array *)self)->view;
    return numbers(view->strides, view->dims, (int64_t)stoke_dtype_bytes(view->dtype));
}

static PyObject *array_dtype(PyObject *self, void *closure)
{
    return PyUnicode_FromString(stoke_dtype_name(((array *)self)->view.dtype));
}

static PyObject *array_pointer(PyObject *self, void *closure)
{
    return PyLong_FromVoidPtr(((array *)self)->view.data);
}

static PyObject *array_nbytes(PyObject *self, void *closure)
{
    return PyLong_FromSize_t(py_view_bytes(&((array *)self)->view));
}

static PyObject *array_repr(PyObject *self)
{
    PyObject *shape = array_shape(self, NULL), *text = NULL;
    if (shape)
        text = PyUnicode_FromFormat("<stokehold array %S %s>", shape,
                                    stoke_dtype_name(((array *)self)->view.dtype));
    Py_XDECREF(shape);
    return text;
}

/* ---- for NumPy ---- */

static const char *type_text(stoke_dtype dtype)
{
    switch (dtype) {
    case STOKE_DTYPE_U8: return "|u1";
    case STOKE_DTYPE_U16: return "<u2";
    case STOKE_DTYPE_I32: return "<i4";
    case STOKE_DTYPE_I64: return "<i8";
    case STOKE_DTYPE_F16: return "<f2";
    case STOKE_DTYPE_F32: return "<f4";
    case STOKE_DTYPE_BF16: break;
    }
    return NULL;
}

/* NULL with an exception set when NumPy cannot have it. */
static const char *numpy_type(const py_view *view)
{
    const char *type = type_text(view->dtype);
    if (type && view->device == PY_DEVICE_CPU) return type;
    PyErr_SetString(PyExc_TypeError,
                    type ? "NumPy does not reach memory of a device: read it by DLPack"
                         : "NumPy has no bfloat16: read it by DLPack, or ask for dtype f32 or f16");
    return NULL;
}

static PyObject *array_interface(PyObject *self, void *closure)
{
    const py_view *view = &((array *)self)->view;
    const char *type = numpy_type(view);
    if (!type) return NULL;
    return Py_BuildValue("{s:N,s:N,s:s,s:(Ni),s:i}", "shape", array_shape(self, NULL), "strides",
                         array_strides(self, NULL), "typestr", type, "data", array_pointer(self, NULL), 0,
                         "version", 3);
}

/* The same as a struct, which NumPy asks for first: the two arrays of a batch take 37 us instead of 46 where
 * a step has pushed the code out of the caches (2.2 and 4.1 where not). The dict above is for all others. */
typedef struct numpy_view {
    int two; /* always: how readers know the struct */
    int dims;
    char kind;
    int item_bytes, flags;
    intptr_t *shape, *strides; /* strides in bytes */
    void *data;
    PyObject *description; /* not given */
    intptr_t numbers[2 * PY_VIEW_DIMS];
} numpy_view;

enum { NUMPY_ALIGNED = 0x100, NUMPY_NATIVE_ORDER = 0x200, NUMPY_WRITEABLE = 0x400 };

static void numpy_view_end(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *array_struct(PyObject *self, void *closure)
{
    const py_view *view = &((array *)self)->view;
    const char *type = numpy_type(view);
    numpy_view *seen = type ? calloc(1, sizeof *seen) : NULL;
    if (!seen) return type ? PyErr_NoMemory() : NULL;
    *seen = (numpy_view){ .two = 2,
                          .dims = view->dims,
                          .kind = type[1],
                          .item_bytes = (int)stoke_dtype_bytes(view->dtype),
                          .flags = NUMPY_ALIGNED | NUMPY_NATIVE_ORDER | NUMPY_WRITEABLE,
                          .shape = seen->numbers,
                          .strides = seen->numbers + PY_VIEW_DIMS,
                          .data = view->data };
    for (int32_t i = 0; i < view->dims; i++) {
        seen->shape[i] = (intptr_t)view->shape[i];
        seen->strides[i] = (intptr_t)(view->strides[i] * seen->item_bytes);
    }
    PyObject *capsule = PyCapsule_New(seen, NULL, numpy_view_end);
    if (!capsule) free(seen);
    return capsule;
}

/* ---- for all others ---- */

static PyObject *array_dlpack_device(PyObject *self, PyObject *nothing)
{
    const py_view *view = &((array *)self)->view;
    return Py_BuildValue("(ii)", (int)view->device, (int)view->device_id);
}

static PyObject *copied_capsule(const py_view *view, int versioned)
{
    py_view own = *view;
    py_hold *hold = py_hold_memory(py_view_bytes(view), &own.data);
    if (!hold) return PyErr_NoMemory();
    memcpy(own.data, view->data, py_view_bytes(view)); /* dense, so that strides stay true */
    PyObject *capsule = py_dlpack_capsule(hold, &own, versioned, 1);
    py_hold_drop(hold);
    return capsule;
}

/* (a, b) into two numbers; -1 with an exception set. None leaves them. */
static int read_pair(PyObject *pair, const char *name, long numbers[2])
{
    if (pair == Py_None) return 0;
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_Format(PyExc_TypeError, "%s must be a tuple of two numbers", name);
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        numbers[i] = PyLong_AsLong(PyTuple_GetItem(pair, i));
        if (numbers[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

static PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "stream", "max_version", "dl_device", "copy", NULL };
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &max_version, &device,
                                     &copy))
        return NULL;
    const array *own = (array *)self;
    long version[2] = { 0, 0 }, place[2] = { own->view.device, own->view.device_id };
    if (read_pair(max_version, "max_version", version) || read_pair(device, "dl_device", place)) return NULL;
    if (place[0] != own->view.device || place[1] != own->view.device_id) {
        PyErr_SetString(PyExc_BufferError, "an array is not moved to another device by __dlpack__");
        return NULL;
    }
    const int copies = copy == Py_None ? 0 : PyObject_IsTrue(copy);
    if (copies < 0) return NULL;
    if (copies && own->view.device != PY_DEVICE_CPU) {
        PyErr_SetString(PyExc_BufferError, "an array on a device is not copied by __dlpack__");
        return NULL;
    }
    const int versioned = version[0] >= 1;
    return copies ? copied_capsule(&own->view, versioned)
                  : py_dlpack_capsule(own->hold, &own->view, versioned, 0);
}

static PyMethodDef methods[] = {
    { "__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
      "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) -> capsule: DLPack's "
      "protocol." },
    { "__dlpack_device__", array_dlpack_device, METH_NOARGS, "__dlpack_device__() -> (type, id)." },
    { 0 },
};

static PyGetSetDef members[] = {
    { "shape", array_shape, NULL, "Sizes of the dimensions.", NULL },
    { "strides", array_strides, NULL, "Bytes from one element to the next, by dimension.", NULL },
    { "dtype", array_dtype, NULL, "NumPy's name of the element type, or 'bfloat16'.", NULL },
    { "ptr", array_pointer, NULL, "Address of the first element.", NULL },
    { "nbytes", array_nbytes, NULL, "Bytes of all elements.", NULL },
    { "__array_interface__", array_interface, NULL, "NumPy's protocol.", NULL },
    { "__array_struct__", array_struct, NULL, "The same for readers in C.", NULL },
    { 0 },
};

static PyType_Slot slots[] = {
    { Py_tp_doc, "Memory of a batch, seen as an array; read it by NumPy or DLPack." },
    { Py_tp_new, py_not_callable },
    { Py_tp_dealloc, array_dealloc },
    { Py_tp_repr, array_repr },
    { Py_tp_methods, methods },
    { Py_tp_getset, members },
    { 0 },
};

static PyType_Spec spec = { "stokehold._stoke.Array", sizeof(array), 0, Py_TPFLAGS_DEFAULT, slots };

int py_add_array(PyObject *module)
{
    array_type = py_add_type(module, &spec);
    return array_type ? 0 : -1;
}
