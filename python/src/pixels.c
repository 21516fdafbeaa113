/* SPDX-License-Identifier: Apache-2.0
 *
 * Two protocols say where an array lies: NumPy's dict and DLPack's capsule. A capsule is only read: it is not
 * renamed, so that it lets go of its memory by itself when we drop it.
 */
#include "python/src/extension.h"

#include <string.h>

#include "python/src/dlpack.h"

enum { MAX_DIMS = 3 };

/* An array as both protocols tell it. */
typedef struct found {
    const char *data;
    stoke_dtype dtype;
    Py_ssize_t dims;
    int64_t shape[MAX_DIMS], strides[MAX_DIMS]; /* in bytes */
} found;

static int refuse_type(const char *what)
{
    return py_refuse(PyExc_TypeError,
                     "elements of type %s: an image has uint8, uint16 or float32, a mask uint8, bool, "
                     "uint16, int32 or int64",
                     what);
}

static int refuse_shape(void)
{
    return py_refuse(PyExc_ValueError,
                     "a picture has two dimensions (height, width), or three with its channels");
}

static void dense(found *f)
{
    int64_t step = (int64_t)stoke_dtype_bytes(f->dtype);
    for (Py_ssize_t i = f->dims - 1; i >= 0; step *= f->shape[i--]) f->strides[i] = step;
}

/* ---- __array_interface__ ---- */

static int type_of_text(const char *text, stoke_dtype *dtype)
{
    for (int i = 0; i < PY_PICTURE_TYPES; i++)
        if (!strcmp(text, py_elements[i].numpy)) {
            *dtype = py_elements[i].dtype;
            return 0;
        }
    return refuse_type(text);
}

/* A tuple of numbers; its length, or -1 with an exception set. */
static Py_ssize_t read_numbers(PyObject *tuple, int64_t numbers[MAX_DIMS])
{
    if (!tuple || !PyTuple_Check(tuple) || PyTuple_Size(tuple) > MAX_DIMS) return refuse_shape();
    const Py_ssize_t n = PyTuple_Size(tuple);
    for (Py_ssize_t i = 0; i < n; i++) numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    return PyErr_Occurred() ? -1 : n;
}

/* An address in a tuple, or (PIL) bytes, whose number is known. */
static int read_data(PyObject *data, const found *f, const char **address)
{
    if (data && PyBytes_Check(data)) {
        int64_t needed = (int64_t)stoke_dtype_bytes(f->dtype); /* if the elements lie densely */
        for (Py_ssize_t i = 0; i < f->dims; i++) {
            if (f->shape[i] < 1 || f->shape[i] > INT64_MAX / needed) return refuse_shape();
            needed *= f->shape[i];
        }
        *address = PyBytes_AsString(data);
        return PyBytes_Size(data) >= needed ? 0 : refuse_shape();
    }
    if (data && PyTuple_Check(data) && PyTuple_Size(data) == 2) {
        *address = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
        return PyErr_Occurred() ? -1 : 0;
    }
    return py_refuse(PyExc_TypeError, "__array_interface__ does not say where the data are");
}

static int read_interface(PyObject *dict, found *f)
{
    if (!PyDict_Check(dict)) return py_refuse(PyExc_TypeError, "__array_interface__ is no dict");
    PyObject *type = PyDict_GetItemString(dict, "typestr"), *strides = PyDict_GetItemString(dict, "strides");
    PyObject *text = type ? PyUnicode_AsUTF8String(type) : NULL;
    const int r = text ? type_of_text(PyBytes_AsString(text), &f->dtype) : refuse_type("unknown");
    Py_XDECREF(text);
    if (r) return -1;
    f->dims = read_numbers(PyDict_GetItemString(dict, "shape"), f->shape);
    if (f->dims < 0 || read_data(PyDict_GetItemString(dict, "data"), f, &f->data)) return -1;
    if (strides && strides != Py_None) {
        /* Bytes are only checked to be enough where they lie densely, and PIL's do. */
        const int bytes = PyBytes_Check(PyDict_GetItemString(dict, "data"));
        return !bytes && read_numbers(strides, f->strides) == f->dims ? 0 : refuse_shape();
    }
    dense(f);
    return 0;
}

/* ---- __dlpack__ ---- */

static int type_of_code(const dl_tensor *t, stoke_dtype *dtype)
{
    char text[48];
    for (const py_element *at = py_elements; at < py_elements + PY_PICTURE_TYPES; at++)
        if (t->dtype.code == at->code && t->dtype.bits == at->bits && t->dtype.lanes == 1) {
            *dtype = at->dtype;
            return 0;
        }
    snprintf(text, sizeof text, "number %u of DLPack with %u bits", t->dtype.code, t->dtype.bits);
    return refuse_type(text);
}

static int read_tensor(const dl_tensor *t, found *f)
{
    if (t->device.type != PY_DEVICE_CPU)
        return py_refuse(PyExc_ValueError, "the picture lies on a device: give it as .cpu()");
    if (type_of_code(t, &f->dtype)) return -1;
    if (t->dims < 0 || t->dims > MAX_DIMS) return refuse_shape();
    const int64_t bytes = (int64_t)stoke_dtype_bytes(f->dtype);
    f->data = (const char *)t->data + t->byte_offset;
    f->dims = t->dims;
    for (int i = 0; i < t->dims; i++) {
        f->shape[i] = t->shape[i];
        if (t->strides) f->strides[i] = t->strides[i] * bytes;
    }
    if (!t->strides) dense(f);
    return 0;
}

static int read_capsule(PyObject *capsule, found *f)
{
    if (PyCapsule_IsValid(capsule, PY_DLPACK_PLAIN))
        return read_tensor(&((dl_managed *)PyCapsule_GetPointer(capsule, PY_DLPACK_PLAIN))->tensor, f);
    if (PyCapsule_IsValid(capsule, PY_DLPACK_VERSIONED))
        return read_tensor(&((dl_versioned *)PyCapsule_GetPointer(capsule, PY_DLPACK_VERSIONED))->tensor, f);
    return py_refuse(PyExc_TypeError, "__dlpack__ did not give a capsule of DLPack");
}

/* ---- both ---- */

static int to_pixels(const found *f, int channels_first, stoke_pixels *pixels)
{
    if (f->dims < 2) return refuse_shape();
    const int first = channels_first && f->dims == 3; /* of dimensions, height's */
    for (Py_ssize_t i = 0; i < f->dims; i++)
        if (f->shape[i] < 1 || f->shape[i] > INT32_MAX) return refuse_shape();
    const Py_ssize_t channel = f->dims < 3 ? -1 : channels_first ? 0 : 2;
    *pixels = (stoke_pixels){
        .data = f->data,
        .dtype = f->dtype,
        .height = (uint32_t)f->shape[first],
        .width = (uint32_t)f->shape[first + 1],
        .channels = channel < 0 ? 1 : (uint32_t)f->shape[channel],
        .row = (ptrdiff_t)f->strides[first],
        .column = (ptrdiff_t)f->strides[first + 1],
        .channel = channel < 0 ? 0 : (ptrdiff_t)f->strides[channel],
    };
    return 0;
}

int py_pixels_take(py_pixels *taken, PyObject *object, int channels_first)
{
    found f = { 0 };
    /* The dict or the capsule that says where the object's data are. */
    taken->owner = PyObject_GetAttrString(object, "__array_interface__");
    if (!taken->owner && !PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    const int is_capsule = !taken->owner;
    if (is_capsule) {
        PyErr_Clear();
        taken->owner = PyObject_CallMethod(object, "__dlpack__", NULL);
        if (!taken->owner && PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Format(
                PyExc_TypeError,
                "a picture is an array of NumPy, an image of PIL, or anything with __dlpack__; this is %R",
                (PyObject *)Py_TYPE(object));
        if (!taken->owner) return -1;
    }
    const int r = is_capsule ? read_capsule(taken->owner, &f) : read_interface(taken->owner, &f);
    if (!r && !to_pixels(&f, channels_first, &taken->pixels)) return 0;
    py_pixels_drop(taken);
    return -1;
}

void py_pixels_drop(py_pixels *taken)
{
    Py_CLEAR(taken->owner);
}
