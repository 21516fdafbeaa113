/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/extension.h"

#include <stdlib.h>
#include <string.h>

typedef struct array {
    PyObject_HEAD stoke_hold *hold;
    py_view view;
} array;

/* ---- views ---- */

py_view py_view_of(void *data, stoke_dtype dtype, int32_t dims, const int64_t *shape, int channels_last)
{
    static const int32_t plain[] = { 0, 1, 2, 3 }, last[] = { 0, 2, 3, 1 };
    const int32_t *order = channels_last ? last : plain; /* of dimensions in memory, outermost first */
    py_view view = { .data = data, .dims = dims, .dtype = dtype, .place = py_on_cpu };
    int64_t step = 1;
    for (int32_t i = dims - 1; i >= 0; i--) {
        view.shape[order[i]] = shape[order[i]];
        view.strides[order[i]] = step;
        step *= shape[order[i]];
    }
    return view;
}

size_t py_view_bytes(const py_view *view)
{
    size_t bytes = stoke_dtype_bytes(view->dtype);
    for (int32_t i = 0; i < view->dims; i++) bytes *= (size_t)view->shape[i];
    return bytes;
}

/* ---- the object ---- */

PyObject *py_array_new(stoke_hold *hold, const py_view *view)
{
    array *self = PyObject_New(array, py_array_type);
    if (!self) return NULL;
    self->hold = stoke_hold_take(hold);
    self->view = *view;
    return (PyObject *)self;
}

int py_array_get(PyObject *object, py_view *view, stoke_hold **hold)
{
    if (!PyObject_TypeCheck(object, py_array_type)) {
        PyErr_SetString(PyExc_TypeError, "not an array of stokehold");
        return 0;
    }
    *view = ((array *)object)->view;
    *hold = ((array *)object)->hold;
    return 1;
}

void py_let_go(stoke_hold *hold, py_place place)
{
    if (place.device == PY_DEVICE_CPU)
        stoke_hold_drop(hold);
    else
        PY_UNLOCKED(stoke_hold_drop(hold));
}

static void array_dealloc(PyObject *self)
{
    py_let_go(((array *)self)->hold, ((array *)self)->view.place);
    py_free(self);
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
    static const char *const places[] = {
        [PY_DEVICE_CPU] = "", [PY_DEVICE_CUDA] = " on cuda", [PY_DEVICE_OPENCL] = " on opencl"
    };
    const py_view *view = &((array *)self)->view;
    PyObject *shape = array_shape(self, NULL), *text = NULL;
    if (shape)
        text = PyUnicode_FromFormat("<stokehold array %S %s%s>", shape, stoke_dtype_name(view->dtype),
                                    places[view->place.device]);
    Py_XDECREF(shape);
    return text;
}

/* ---- for NumPy ---- */

/* NULL with an exception set when NumPy cannot have it. */
static const char *numpy_type(const py_view *view)
{
    const char *type = py_element_of(view->dtype)->numpy;
    if (type && view->place.device == PY_DEVICE_CPU) return type;
    PyErr_SetString(
        PyExc_TypeError,
        type ? "NumPy does not reach memory of a device: numpy() and cpu() copy it, DLPack hands it to "
               "those who can"
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
    const py_place *place = &((array *)self)->view.place;
    return Py_BuildValue("(ii)", (int)place->device, (int)place->id);
}

/* ---- copies in host memory ---- */

/* Dense, so that strides stay true. May wait. */
static int copy_bytes(const array *from, void *to, size_t bytes, stoke_error *err)
{
    if (from->view.place.device != PY_DEVICE_CPU && py_result_is(from->hold))
        return py_result_fetch(from->hold, from->view.data, to, bytes, err);
    if (from->view.place.device != PY_DEVICE_CPU)
        return stoke_lease_fetch((stoke_lease *)from->hold, from->view.data, to, bytes, err);
    memcpy(to, from->view.data, bytes);
    return STOKE_OK;
}

/* A copy with its own hold, which the caller gets; NULL with an exception set. */
static stoke_hold *host_copy(const array *from, py_view *copy)
{
    const size_t bytes = py_view_bytes(&from->view);
    stoke_error error = { 0 };
    *copy = from->view;
    copy->place = py_on_cpu;
    stoke_hold *hold = stoke_hold_memory(bytes, &copy->data);
    if (!hold) return (stoke_hold *)PyErr_NoMemory();
    PY_UNLOCKED(error.code = copy_bytes(from, copy->data, bytes, &error));
    if (!py_check(&error)) return hold;
    stoke_hold_drop(hold);
    return NULL;
}

static PyObject *copied_capsule(const array *from, int versioned)
{
    py_view copy;
    stoke_hold *hold = host_copy(from, &copy);
    if (!hold) return NULL;
    PyObject *capsule = py_dlpack_capsule(hold, &copy, versioned, 1);
    stoke_hold_drop(hold);
    return capsule;
}

static PyObject *array_cpu(PyObject *self, PyObject *nothing)
{
    py_view copy;
    if (((array *)self)->view.place.device == PY_DEVICE_CPU) {
        Py_INCREF(self);
        return self;
    }
    stoke_hold *hold = host_copy((array *)self, &copy);
    if (!hold) return NULL;
    PyObject *result = py_array_new(hold, &copy);
    stoke_hold_drop(hold);
    return result;
}

static PyObject *array_numpy(PyObject *self, PyObject *nothing)
{
    PyObject *host = array_cpu(self, NULL), *numpy = host ? PyImport_ImportModule("numpy") : NULL;
    PyObject *result = numpy ? PyObject_CallMethod(numpy, "asarray", "O", host) : NULL;
    Py_XDECREF(host);
    Py_XDECREF(numpy);
    return result;
}

/* ---- capsules ---- */

/* DLPack's number of a stream into the driver's handle. 0; or 1: the consumer says that it sees to the order
 * itself; or -1 with an exception set. */
static int read_stream(PyObject *stream, void **handle)
{
    *handle = NULL; /* the default stream, which None and 1 stand for */
    if (stream == Py_None) return 0;
    const long long number = PyLong_AsLongLong(stream);
    if (number == -1) return PyErr_Occurred() ? -1 : 1;
    if (number == 2 || number <= 0)
        return py_refuse(PyExc_BufferError,
                         number == 2
                             ? "the per-thread default stream has another meaning in the thread that "
                               "lets go of the array: give a stream with a handle, or 1"
                             : "no stream has this number: give a handle, 1 for the default stream, or "
                               "-1 for none");
    if (number > 2) *handle = (void *)(uintptr_t)number;
    return 0;
}

/* The consumer's stream waits for the batch, and the batch for it; without one, the host waits. 0, or -1 with
 * an exception set. */
static int order(const array *own, PyObject *stream)
{
    /* It was waited for when it came. */
    if (own->view.place.device != PY_DEVICE_CUDA || py_result_is(own->hold)) return 0;
    void *handle;
    const int alone = read_stream(stream, &handle);
    if (alone < 0) return -1;
    stoke_lease *lease = (stoke_lease *)own->hold;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code =
                    alone ? stoke_lease_arrive(lease, &error) : stoke_lease_lend(lease, handle, &error));
    return py_check(&error);
}

/* (a, b) into two numbers; -1 with an exception set. None leaves them. */
static int read_pair(PyObject *pair, const char *name, long numbers[2])
{
    if (pair == Py_None) return 0;
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2)
        return py_refuse(PyExc_TypeError, "%s must be a tuple of two numbers", name);
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
    const py_place *at = &own->view.place;
    long version[2] = { 0, 0 }, place[2] = { at->device, at->id };
    if (read_pair(max_version, "max_version", version) || read_pair(device, "dl_device", place)) return NULL;
    const int versioned = version[0] >= 1, here = place[0] == at->device && place[1] == at->id;
    const int copies = copy == Py_None ? !here : PyObject_IsTrue(copy);
    if (copies < 0) return NULL;
    if (copies ? place[0] != PY_DEVICE_CPU : !here)
        return PyErr_Format(PyExc_BufferError,
                            "__dlpack__ gives an array where it is, or a copy of it in host memory "
                            "(dl_device=(1, 0)): nothing on another device");
    if (copies) return copied_capsule(own, versioned);
    return order(own, stream) ? NULL : py_dlpack_capsule(own->hold, &own->view, versioned, 0);
}

static PyMethodDef methods[] = {
    { "__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
      "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) -> capsule: DLPack's "
      "protocol. On CUDA, stream is a handle, 1 or None for the default stream, or -1 when the caller sees "
      "to "
      "the order: it waits for the batch, and the batch's place is used again after the work it has when all "
      "arrays are gone. Elsewhere be done with the array before you let go of it." },
    { "__dlpack_device__", array_dlpack_device, METH_NOARGS, "__dlpack_device__() -> (type, id)." },
    { "cpu", array_cpu, METH_NOARGS,
      "cpu() -> Array in host memory: itself if it lies there, else a copy, made after the work that the "
      "streams it was given to have got so far." },
    { "numpy", array_numpy, METH_NOARGS,
      "numpy() -> numpy.ndarray: a view where it lies in host memory, else of a copy." },
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

PyType_Spec py_array_spec = { "stokehold._stoke.Array", sizeof(array), 0, Py_TPFLAGS_DEFAULT, slots };
