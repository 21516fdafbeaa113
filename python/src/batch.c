/* SPDX-License-Identifier: Apache-2.0 */
#include <stoke/tools/loader.h>
#include "python/src/batch.h"

#include <stoke/tools/lease.h>

typedef struct batch {
    PyObject_HEAD stoke_hold *hold;
    const stoke_batch *rows;
    int channels_last;
    py_place place;
} batch;

static PyTypeObject *batch_type;

PyObject *py_batch_new(stoke_hold *hold, const stoke_batch *rows, int channels_last, py_place place)
{
    batch *self = PyObject_New(batch, batch_type);
    if (!self) {
        stoke_hold_drop(hold);
        return NULL;
    }
    self->hold = hold;
    self->rows = rows;
    self->channels_last = channels_last;
    self->place = place;
    return (PyObject *)self;
}

stoke_hold *py_batch_hold(PyObject *object)
{
    if (PyObject_TypeCheck(object, batch_type)) return ((batch *)object)->hold;
    PyErr_SetString(PyExc_TypeError, "not a batch of stokehold");
    return NULL;
}

static void batch_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    py_let_go(((batch *)self)->hold, ((batch *)self)->place);
    PyObject_Free(self);
    Py_DECREF(type);
}

static const stoke_batch *rows_of(PyObject *self)
{
    return ((batch *)self)->rows;
}

static PyObject *array_of(PyObject *self, const py_view *view)
{
    return py_array_new(((batch *)self)->hold, view);
}

/* Of what lies where the batch does. */
static PyObject *array_there(PyObject *self, py_view view)
{
    view.place = ((batch *)self)->place;
    return array_of(self, &view);
}

/* ---- arrays ---- */

static PyObject *batch_images(PyObject *self, void *closure)
{
    const stoke_batch *b = rows_of(self);
    const int64_t n = b->count, c = b->channels, h = b->height, w = b->width;
    const int hwc = b->layout == STOKE_LAYOUT_HWC, as_nchw = !hwc || ((batch *)self)->channels_last;
    const int64_t nchw[] = { n, c, h, w }, nhwc[] = { n, h, w, c };
    return array_there(self, py_view_of(b->images, b->image_dtype, 4, as_nchw ? nchw : nhwc, hwc && as_nchw));
}

static PyObject *masks_at(PyObject *self, void *masks)
{
    if (!masks) Py_RETURN_NONE;
    const stoke_batch *b = rows_of(self);
    const int64_t shape[] = { b->count, b->height, b->width };
    return array_there(self, py_view_of(masks, b->mask_dtype, 3, shape, 0));
}

static PyObject *batch_masks(PyObject *self, void *closure)
{
    return masks_at(self, rows_of(self)->masks);
}

static PyObject *batch_masks_b(PyObject *self, void *closure)
{
    return masks_at(self, rows_of(self)->masks_b);
}

static PyObject *per_row(PyObject *self, const void *values, stoke_dtype dtype)
{
    if (!values) Py_RETURN_NONE;
    const int64_t shape[] = { rows_of(self)->count };
    const py_view view = py_view_of((void *)values, dtype, 1, shape, 0);
    return array_of(self, &view);
}

static PyObject *batch_lambda(PyObject *self, void *closure)
{
    return per_row(self, rows_of(self)->lambda, STOKE_DTYPE_F32);
}

/* Ids are far below 2^63, and signed is what frameworks index with. */
static PyObject *batch_ids(PyObject *self, void *closure)
{
    return per_row(self, rows_of(self)->ids, STOKE_DTYPE_I64);
}

static PyObject *batch_status(PyObject *self, void *closure)
{
    return per_row(self, rows_of(self)->status, STOKE_DTYPE_U8);
}

/* ---- the rest ---- */

static PyObject *batch_names(PyObject *self, void *closure)
{
    const stoke_batch *b = rows_of(self);
    PyObject *list = PyList_New(b->count);
    for (uint32_t i = 0; list && i < b->count; i++) {
        PyObject *name = PyUnicode_DecodeFSDefault(b->names[i]);
        if (!name || PyList_SetItem(list, i, name)) Py_CLEAR(list);
    }
    return list;
}

static PyObject *batch_index(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(rows_of(self)->index);
}

static PyObject *batch_epoch(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(rows_of(self)->epoch);
}

static Py_ssize_t batch_length(PyObject *self)
{
    return (Py_ssize_t)rows_of(self)->count;
}

/* May wait. */
static int digest_of(const batch *b, uint8_t digest[16], stoke_error *err)
{
    if (b->place.device != PY_DEVICE_CPU) return stoke_lease_digest((stoke_lease *)b->hold, digest, err);
    stoke_batch_digest(b->rows, digest);
    return STOKE_OK;
}

static PyObject *batch_digest(PyObject *self, PyObject *nothing)
{
    uint8_t digest[16];
    char text[33];
    stoke_error error = { 0 };
    int r;
    Py_BEGIN_ALLOW_THREADS r = digest_of((batch *)self, digest, &error);
    Py_END_ALLOW_THREADS if (r) return py_raise(r, error.message);
    for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return PyUnicode_FromString(text);
}

static PyMethodDef methods[] = {
    { "digest", batch_digest, METH_NOARGS,
      "digest() -> str: of ids and all bytes, as `stoke hash` prints it. Equal batches have equal digests." },
    { 0 },
};

static PyGetSetDef members[] = {
    { "images", batch_images, NULL, "Array of the images.", NULL },
    { "masks", batch_masks, NULL, "Array of the masks, N x H x W.", NULL },
    { "masks_b", batch_masks_b, NULL, "With mixup the second masks, else None.", NULL },
    { "lambda_", batch_lambda, NULL, "With mixup the share of the first masks, by row; else None.", NULL },
    { "ids", batch_ids, NULL, "Array of the samples' numbers in the data set.", NULL },
    { "status", batch_status, NULL, "Array by row: 0, or 1 where a bad sample was replaced.", NULL },
    { "names", batch_names, NULL, "The samples' names.", NULL },
    { "index", batch_index, NULL, "Number of the batch in its epoch, over all ranks.", NULL },
    { "epoch", batch_epoch, NULL, "The epoch it belongs to.", NULL },
    { 0 },
};

static PyType_Slot slots[] = {
    { Py_tp_doc,
      "A batch. Its place in the loader's ring is free again when it and all its arrays are gone." },
    { Py_tp_new, py_not_callable },
    { Py_tp_dealloc, batch_dealloc },
    { Py_tp_methods, methods },
    { Py_tp_getset, members },
    { Py_sq_length, batch_length },
    { 0 },
};

static PyType_Spec spec = { "stokehold._stoke.Batch", sizeof(batch), 0, Py_TPFLAGS_DEFAULT, slots };

int py_add_batch(PyObject *module)
{
    batch_type = py_add_type(module, &spec);
    return batch_type ? 0 : -1;
}
