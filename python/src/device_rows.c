/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.DeviceRows: batches that are on a device already, augmented there (<stoke/tools/device_rows.h>).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoke/tools/device_rows.h>
#include <stoke/tools/device.h>

#include "python/src/values.h"

enum { ARRAYS = 3 }; /* images, masks, second masks */

/* What results keep alive: the rows and their device, which is its own or belongs to whom the arrays came
 * from: memory of OpenCL has a meaning there only. */
typedef struct maker {
    stoke_hold hold; /* first */
    pid_t pid;
    stoke_device *own, *device;
    stoke_hold *keeper; /* of a device that is not its own */
    py_place place;
    stoke_device_rows *rows;
    uint32_t height, width; /* of what comes in */
} maker;

typedef struct rows_object {
    PyObject_HEAD py_settings settings;
    maker *maker;
} rows_object;

typedef struct result {
    stoke_hold hold; /* first */
    maker *maker;
    stoke_device_buffer *buffer[ARRAYS];
} result;

/* ---- beginning and end ---- */

static void maker_end(stoke_hold *hold)
{
    maker *m = (maker *)hold;
    if (getpid() != m->pid) return; /* drivers do not survive a fork */
    stoke_device_rows_destroy(&m->rows);
    stoke_device_close(&m->own);
    stoke_hold_drop(m->keeper);
    free(m);
}

static void result_end(stoke_hold *hold)
{
    result *r = (result *)hold;
    if (getpid() == r->maker->pid)
        for (int i = 0; i < ARRAYS; i++) stoke_device_buffer_destroy(&r->buffer[i]);
    stoke_hold_drop(&r->maker->hold);
    free(r);
}

int py_result_is(const stoke_hold *hold)
{
    return hold->end == result_end;
}

int py_result_fetch(stoke_hold *hold, const void *array, void *to, size_t bytes, stoke_error *err)
{
    result *r = (result *)hold;
    for (int i = 0; i < ARRAYS; i++)
        if (r->buffer[i] && stoke_device_buffer_address(r->buffer[i]) == (uintptr_t)array)
            return stoke_device_buffer_read(r->buffer[i], to, bytes, err);
    err->code = STOKE_E_INVALID;
    snprintf(err->message, sizeof err->message, "no array of this result");
    return err->code;
}

/* The device that an array lies on, if it is no array of the host's; its owner keeps it. */
static stoke_device *device_under(stoke_hold *hold, stoke_hold **owner)
{
    if (py_result_is(hold)) {
        *owner = &((result *)hold)->maker->hold;
        return ((result *)hold)->maker->device;
    }
    return stoke_lease_device((stoke_lease *)hold, owner);
}

/* The device that an array lies on, with what keeps it. */
static int borrow_device(maker *m, PyObject *array)
{
    py_view view;
    stoke_hold *hold;
    if (!py_array_get(array, &view, &hold)) return -1;
    if (view.place.device == PY_DEVICE_CPU) return py_refuse(PyExc_ValueError, "the array is in host memory");
    stoke_hold *owner;
    m->device = device_under(hold, &owner);
    m->keeper = stoke_hold_take(owner);
    m->place = view.place;
    return 0;
}

static int make(rows_object *self, PyObject *device, const unsigned int size[2], unsigned int capacity)
{
    maker *m = self->maker = calloc(1, sizeof *m);
    if (!m) return py_no_memory();
    stoke_hold_begin(&m->hold, maker_end);
    m->pid = getpid();
    m->height = size[0];
    m->width = size[1];
    if (PyUnicode_Check(device) ? py_device_open(&m->own, device) : borrow_device(m, device)) return -1;
    if (m->own) m->device = m->own;
    const stoke_data_params *params = &self->settings.params;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_device_rows_create(&m->rows, m->device, params, capacity, m->width,
                                                      m->height, &error));
    return py_check(&error);
}

static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *dict, *device;
    unsigned int capacity, size[2];
    if (!PyArg_ParseTuple(args, "O!O(II)I:DeviceRows", &PyDict_Type, &dict, &device, &size[0], &size[1],
                          &capacity))
        return NULL;
    rows_object *self = (rows_object *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    if (!py_settings_read(&self->settings, NULL, Py_None, dict) && !make(self, device, size, capacity))
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void rows_dealloc(PyObject *object)
{
    rows_object *self = (rows_object *)object;
    if (self->maker) PY_UNLOCKED(stoke_hold_drop(&self->maker->hold));
    py_settings_free(&self->settings);
    py_free(object);
}

/* ---- a batch ---- */

/* What a call has in common: where from, where to, when. */
typedef struct call {
    stoke_device_source source;
    stoke_device_target target;
    unsigned long long epoch, position;
    int has_stream;
    void *stream;
} call;

/* 0, or -1 with an exception set; *shares: a list of the shares of mixup, or None. One thread at a time:
 * stokehold/augment.py has a lock. */
static int run(maker *m, call *c, PyObject **shares)
{
    stoke_error error = { 0 };
    float *lambda = NULL;
    const stoke_error forked = {
        STOKE_E_STATE, "drivers do not survive a fork: make the augmentation again in this process"
    };
    if (getpid() != m->pid) return py_check(&forked);
    if (stoke_device_rows_two_masks(m->rows) && !(lambda = calloc(c->source.count + 1, sizeof *lambda)))
        return py_no_memory();
    c->target.lambda = lambda;
    PY_UNLOCKED(error.code = stoke_device_rows_run(m->rows, c->epoch, c->position, &c->source, &c->target,
                                                   c->has_stream, c->stream, &error));
    *shares = py_check(&error) ? NULL : lambda ? PyList_New(0) : py_words(NULL);
    for (uint32_t i = 0; *shares && lambda && i < c->source.count; i++)
        py_add(shares, PyFloat_FromDouble((double)lambda[i]));
    free(lambda);
    return *shares ? 0 : -1;
}

/* The type by its short name; -1 with an exception set. */
static int dtype_of(const char *name, stoke_dtype *dtype)
{
    for (int i = STOKE_DTYPE_U8; i <= STOKE_DTYPE_I64; i++)
        if (!strcmp(stoke_dtype_name((stoke_dtype)i), name)) {
            *dtype = (stoke_dtype)i;
            return 0;
        }
    return py_refuse(PyExc_ValueError, "%s is no type of elements", name);
}

static PyObject *rows_run(PyObject *self, PyObject *args)
{
    call c = { .has_stream = 1 };
    unsigned long long stream, images, masks, to[ARRAYS];
    const char *image_type, *mask_type;
    int channels_first;
    PyObject *shares;
    if (!PyArg_ParseTuple(args, "IKK(KsIp)(Ks)(KKK)K:run", &c.source.count, &c.epoch, &c.position, &images,
                          &image_type, &c.source.channels, &channels_first, &masks, &mask_type, &to[0],
                          &to[1], &to[2], &stream))
        return NULL;
    if (dtype_of(image_type, &c.source.image_dtype) || dtype_of(mask_type, &c.source.mask_dtype)) return NULL;
    c.source.images = images;
    c.source.masks = masks;
    c.source.layout = channels_first ? STOKE_LAYOUT_CHW : STOKE_LAYOUT_HWC;
    c.target = (stoke_device_target){ .images = to[0], .masks = to[1], .masks_b = to[2] };
    c.stream = (void *)(uintptr_t)stream;
    return run(((rows_object *)self)->maker, &c, &shares) ? NULL : shares;
}

/* ---- arrays of ours ---- */

/* On this maker's device, and there. What OpenCL hands out has a meaning to the device object it came from
 * only, even where two of them are the same card. */
static int wait_for(const maker *m, stoke_hold *hold, py_place place)
{
    stoke_error error = { 0 };
    stoke_hold *owner;
    if (place.device != m->place.device || place.id != m->place.id ||
        (place.device == PY_DEVICE_OPENCL && device_under(hold, &owner) != m->device))
        return py_refuse(PyExc_ValueError, "the array is on another device than the one it was made for");
    if (py_result_is(hold) || place.device != PY_DEVICE_CUDA) return 0; /* it was waited for when it came */
    PY_UNLOCKED(error.code = stoke_lease_arrive((stoke_lease *)hold, &error));
    return py_check(&error);
}

/* Dense images as N, C, H, W (also those that lie in memory as N, H, W, C) or N, H, W, C. */
static int images_in(call *c, PyObject *array, const maker *m)
{
    py_view view;
    stoke_hold *hold;
    if (!py_array_get(array, &view, &hold) || wait_for(m, hold, view.place)) return -1;
    const int64_t h = m->height, w = m->width;
    const int first = view.dims == 4 && view.shape[2] == h && view.shape[3] == w;
    if (view.dims != 4 || (!first && (view.shape[1] != h || view.shape[2] != w)))
        return py_refuse(PyExc_ValueError, "images on a device are a batch of four dimensions");
    c->source.count = (uint32_t)view.shape[0];
    c->source.channels = (uint32_t)view.shape[first ? 1 : 3];
    c->source.layout = first && view.strides[3] == 1 ? STOKE_LAYOUT_CHW : STOKE_LAYOUT_HWC;
    c->source.images = (uintptr_t)view.data;
    c->source.image_dtype = view.dtype;
    return 0;
}

static int masks_in(call *c, PyObject *array, const maker *m)
{
    py_view view;
    stoke_hold *hold;
    if (array == Py_None) return 0;
    if (!py_array_get(array, &view, &hold) || wait_for(m, hold, view.place)) return -1;
    if (view.dims != 3 || view.shape[0] != c->source.count || view.shape[1] != m->height ||
        view.shape[2] != m->width)
        return py_refuse(PyExc_ValueError, "masks are as many as images, and as large");
    c->source.masks = (uintptr_t)view.data;
    c->source.mask_dtype = view.dtype;
    return 0;
}

static result *result_new(maker *m, const stoke_batch *shape, stoke_device_target *to, stoke_error *err)
{
    result *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    stoke_hold_begin(&r->hold, result_end);
    r->maker = m;
    stoke_hold_take(&m->hold);
    uint64_t *const address[ARRAYS] = { &to->images, &to->masks, &to->masks_b };
    const int n = stoke_device_rows_two_masks(m->rows) ? 3 : 2;
    for (int i = 0; i < n; i++) {
        const size_t bytes = shape->capacity * (i ? shape->mask_row_bytes : shape->image_row_bytes);
        if (stoke_device_buffer_create(&r->buffer[i], m->device, bytes, err)) {
            stoke_hold_drop(&r->hold);
            return NULL;
        }
        *address[i] = stoke_device_buffer_address(r->buffer[i]);
    }
    return r;
}

static PyObject *array_of(result *r, int which, const stoke_batch *b, int channels_last)
{
    if (!r->buffer[which]) Py_RETURN_NONE;
    void *data = (void *)(uintptr_t)stoke_device_buffer_address(r->buffer[which]);
    py_view view = which ? py_view_of_masks(b, data, b->capacity)
                         : py_view_of_images(b, data, b->capacity, channels_last);
    view.place = r->maker->place;
    return py_array_new(&r->hold, &view);
}

static PyObject *rows_run_arrays(PyObject *self, PyObject *args)
{
    maker *m = ((rows_object *)self)->maker;
    PyObject *images, *masks, *shares = NULL;
    int channels_last;
    call c = { 0 };
    if (!PyArg_ParseTuple(args, "OOKKp:run_arrays", &images, &masks, &c.epoch, &c.position, &channels_last))
        return NULL;
    if (images_in(&c, images, m) || masks_in(&c, masks, m)) return NULL;
    const stoke_batch shape = stoke_device_rows_shape(m->rows, c.source.count);
    stoke_error error = { 0 };
    result *r;
    PY_UNLOCKED(r = result_new(m, &shape, &c.target, &error));
    if (!r) return error.code ? py_raise(&error) : PyErr_NoMemory();
    PyObject *all = NULL;
    if (!run(m, &c, &shares))
        all = Py_BuildValue("(NNNN)", array_of(r, 0, &shape, channels_last), array_of(r, 1, &shape, 0),
                            array_of(r, 2, &shape, 0), shares);
    stoke_hold_drop(&r->hold);
    return all;
}

/* Arrays with the same number can be taken by the same rows, as long as those are there. */
static PyObject *rows_realm(PyObject *none, PyObject *array)
{
    py_view view;
    stoke_hold *hold, *owner;
    (void)none;
    if (!py_array_get(array, &view, &hold)) return NULL;
    const int own = view.place.device == PY_DEVICE_OPENCL;
    return PyLong_FromVoidPtr(own ? (void *)device_under(hold, &owner) : NULL);
}

static PyMethodDef methods[] = {
    { "realm", rows_realm, METH_O | METH_STATIC,
      "realm(array) -> a number that arrays share which the same rows can take." },
    { "run", rows_run, METH_VARARGS,
      "run(count, epoch, position, (images, dtype, channels, channels_first), (masks, dtype), (to, to, to), "
      "stream) -> shares of mixup, or None. Addresses on the device; masks and the last target may be 0." },
    { "run_arrays", rows_run_arrays, METH_VARARGS,
      "run_arrays(images, masks, epoch, position, channels_last) -> (images, masks, masks_b, shares)." },
    { 0 },
};

static PyObject *rows_two_masks(PyObject *self, void *closure)
{
    return PyBool_FromLong(stoke_device_rows_two_masks(((rows_object *)self)->maker->rows));
}

static PyGetSetDef members[] = {
    { "two_masks", rows_two_masks, NULL, "Whether results have second masks (mixup).", NULL },
    { 0 },
};

static PyType_Slot slots[] = {
    { Py_tp_doc, "DeviceRows(settings, device, size, capacity): augments batches of pictures of that size on "
                 "a device: its name, or an array that lies on it." },
    { Py_tp_new, rows_new },
    { Py_tp_dealloc, rows_dealloc },
    { Py_tp_methods, methods },
    { Py_tp_getset, members },
    { 0 },
};

PyType_Spec py_device_rows_spec = { "stokehold._stoke.DeviceRows", sizeof(rows_object), 0, Py_TPFLAGS_DEFAULT,
                                    slots };
