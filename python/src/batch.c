/* SPDX-License-Identifier: Apache-2.0 */

#include <stoke/tools/lease.h>
#include <stoke/tools/loader.h>

#include "python/src/values.h"

typedef struct batch {
    PyObject_HEAD stoke_hold *hold;
    const stoke_batch *rows;
    int channels_last;
    py_place place;
} batch;

PyObject *py_batch_new(stoke_hold *hold, const stoke_batch *rows, int channels_last, py_place place)
{
    batch *self = PyObject_New(batch, py_batch_type);
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
    if (PyObject_TypeCheck(object, py_batch_type)) return ((batch *)object)->hold;
    PyErr_SetString(PyExc_TypeError, "not a batch of stokehold");
    return NULL;
}

static void batch_dealloc(PyObject *self)
{
    py_let_go(((batch *)self)->hold, ((batch *)self)->place);
    py_free(self);
}

static const stoke_batch *rows_of(PyObject *self)
{
    return ((batch *)self)->rows;
}

/* What lies at an offset of stoke_batch. */
static void *at_offset(PyObject *self, size_t offset)
{
    return (char *)rows_of(self) + offset;
}

/* ---- arrays ---- */

/* Pictures of one size, laid out as the images of a batch. */
static py_view view_of_pictures(const stoke_batch *like, void *data, uint32_t n, int64_t h, int64_t w,
                                int channels_last)
{
    const int64_t c = like->channels;
    const int hwc = like->layout == STOKE_LAYOUT_HWC, as_nchw = !hwc || channels_last;
    const int64_t nchw[] = { n, c, h, w }, nhwc[] = { n, h, w, c };
    return py_view_of(data, like->image_dtype, 4, as_nchw ? nchw : nhwc, hwc && as_nchw);
}

py_view py_view_of_images(const stoke_batch *like, void *data, uint32_t n, int channels_last)
{
    return view_of_pictures(like, data, n, like->height, like->width, channels_last);
}

py_view py_view_of_masks(const stoke_batch *like, void *data, uint32_t n)
{
    return py_view_of(data, like->mask_dtype, 3, (int64_t[]){ n, like->height, like->width }, 0);
}

/* Of what lies where the batch does. */
static PyObject *array_there(PyObject *self, py_view view)
{
    view.place = ((batch *)self)->place;
    return py_array_new(((batch *)self)->hold, &view);
}

static PyObject *batch_images(PyObject *self, void *closure)
{
    const stoke_batch *b = rows_of(self);
    return array_there(self, py_view_of_images(b, b->images, b->count, ((batch *)self)->channels_last));
}

static PyObject *batch_targets(PyObject *self, void *closure)
{
    const stoke_batch *b = rows_of(self);
    if (!b->targets) Py_RETURN_NONE;
    return array_there(self, view_of_pictures(b, b->targets, b->count, b->target_height, b->target_width,
                                              ((batch *)self)->channels_last));
}

static PyObject *batch_masks(PyObject *self, void *offset)
{
    void *masks = *(void **)at_offset(self, (size_t)offset);
    if (!masks) Py_RETURN_NONE;
    return array_there(self, py_view_of_masks(rows_of(self), masks, rows_of(self)->count));
}

/* One number for each row, in host memory. */
typedef struct per_row {
    size_t offset;
    stoke_dtype dtype;
} per_row;
/* Ids are far below 2^63, and signed is what frameworks index with. */
static per_row lambdas = { offsetof(stoke_batch, lambda), STOKE_DTYPE_F32 },
               ids = { offsetof(stoke_batch, ids), STOKE_DTYPE_I64 };

static PyObject *batch_per_row(PyObject *self, void *closure)
{
    const per_row *which = closure;
    void *values = *(void **)at_offset(self, which->offset);
    if (!values) Py_RETURN_NONE;
    const py_view view = py_view_of(values, which->dtype, 1, (int64_t[]){ rows_of(self)->count }, 0);
    return py_array_new(((batch *)self)->hold, &view);
}

/* ---- the rest ---- */

static PyObject *batch_names(PyObject *self, void *closure)
{
    const stoke_batch *b = rows_of(self);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < b->count; i++) py_add(&list, PyUnicode_DecodeFSDefault(b->names[i]));
    return list;
}

static Py_ssize_t batch_length(PyObject *self)
{
    return (Py_ssize_t)rows_of(self)->count;
}

static PyObject *batch_digest(PyObject *self, PyObject *nothing)
{
    const batch *b = (batch *)self;
    uint8_t digest[16];
    char text[33];
    stoke_error error = { 0 };
    if (b->place.device != PY_DEVICE_CPU)
        PY_UNLOCKED(error.code = stoke_lease_digest((stoke_lease *)b->hold, digest, &error));
    else
        PY_UNLOCKED(stoke_batch_digest(b->rows, digest));
    if (error.code) return py_raise(&error);
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
    { "masks", batch_masks, NULL, "Array of the masks, N x H x W; None where there are targets.",
      (void *)offsetof(stoke_batch, masks) },
    { "targets", batch_targets, NULL, "Array of what the images should become (task restore), else None.",
      NULL },
    { "masks_b", batch_masks, NULL, "With mixup the second masks, else None.",
      (void *)offsetof(stoke_batch, masks_b) },
    { "lambda_", batch_per_row, NULL, "With mixup the share of the first masks, by row; else None.",
      &lambdas },
    { "ids", batch_per_row, NULL, "Array of the samples' numbers in the data set.", &ids },
    { "names", batch_names, NULL, "The samples' names.", NULL },
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

PyType_Spec py_batch_spec = { "stokehold._stoke.Batch", sizeof(batch), 0, Py_TPFLAGS_DEFAULT, slots };
