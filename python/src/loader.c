/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Loader: a lender as a Python object. stokehold/loader.py makes of it what people use.
 */
#include <stdio.h>
#include <string.h>

#include <stoke/augment.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/upload.h>

#include "python/src/batch.h"
#include "python/src/picture.h"
#include "python/src/pinned.h"
#include "python/src/settings.h"
#include "python/src/values.h"

typedef struct loader {
    PyObject_HEAD py_settings settings;
    py_pinned *pinned; /* NULL: ordinary memory */
    stoke_lender *lender;
    int channels_last;
    py_place place; /* of batches */
} loader;

static stoke_lender *lender_of(PyObject *self)
{
    return ((loader *)self)->lender;
}

/* ---- beginning and end ---- */

/* "cuda:1" as DLPack has it. */
static py_place place_of(const stoke_lender *lender)
{
    const stoke_device_info *info = stoke_lender_device(lender);
    py_place place = py_on_cpu;
    if (info && sscanf(info->name, "cuda:%d", &place.id) == 1) place.device = PY_DEVICE_CUDA;
    if (info && sscanf(info->name, "opencl:%d", &place.id) == 1) place.device = PY_DEVICE_OPENCL;
    return place;
}

/* 0, or -1 with an exception set. */
static int open_engine(loader *self, PyObject *to)
{
    stoke_error error = { 0 };
    stoke_lender_route route = { .upload = self->settings.upload };
    const stoke_data_params *params = &self->settings.params;
    py_pinned *from = self->pinned;
    int r;
    if (to != Py_None && !(route.device = py_settings_keep(&self->settings, to))) return -1;
    if (route.device)
        PY_UNLOCKED(r = stoke_lender_open_on(&self->lender, params, &route, &error));
    else
        PY_UNLOCKED(r = stoke_lender_open(&self->lender, params, from ? &from->allocator : NULL,
                                          from ? &from->hold : NULL, &error));
    if (r == STOKE_E_NOMEM && py_pinned_raise(from)) return -1;
    if (py_check(r, &error)) return -1;
    self->place = place_of(self->lender);
    return 0;
}

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *dict, *config = Py_None, *to = Py_None, *upload = NULL, *defaults = NULL, *pinned = NULL;
    int channels_last = 0;
    if (!PyArg_ParseTuple(args, "O!|OpOO!O!O:Loader", &PyDict_Type, &dict, &config, &channels_last, &to,
                          &PyDict_Type, &upload, &PyDict_Type, &defaults, &pinned))
        return NULL;
    loader *self = (loader *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    self->channels_last = channels_last;
    if (!py_pinned_get(pinned, &self->pinned) && !py_settings_read(&self->settings, defaults, config, dict) &&
        !(upload && py_settings_read_feed(&self->settings, upload)) && !open_engine(self, to))
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void loader_dealloc(PyObject *object)
{
    loader *self = (loader *)object;
    PY_UNLOCKED(stoke_lender_drop(self->lender); if (self->pinned) stoke_hold_drop(&self->pinned->hold));
    py_settings_free(&self->settings);
    py_free(object);
}

static PyObject *loader_close(PyObject *self, PyObject *nothing)
{
    PY_UNLOCKED(stoke_lender_close(lender_of(self)));
    Py_RETURN_NONE;
}

/* ---- batches ---- */

/* A signal (Ctrl-C) is noticed after that long at the latest; a wait that is woken ten times a second costs
 * nothing. */
enum { SLICE_NS = 100 * 1000 * 1000 };

static PyObject *loader_next(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    stoke_lease *lease;
    int r;
    do {
        PY_UNLOCKED(r = stoke_lender_next(lender_of(self), SLICE_NS, &lease, &error));
        if (r == STOKE_E_TIMEOUT && PyErr_CheckSignals()) return NULL;
    } while (r == STOKE_E_TIMEOUT);
    if (r == STOKE_E_END) Py_RETURN_NONE;
    return r ? py_raise(r, error.message)
             : py_batch_new(&lease->hold, &lease->batch, ((loader *)self)->channels_last,
                            ((loader *)self)->place);
}

/* ---- where it stands ---- */

static PyObject *loader_set_epoch(PyObject *self, PyObject *argument)
{
    const unsigned long long epoch = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred()) return NULL;
    stoke_error error = { 0 };
    int r;
    PY_UNLOCKED(r = stoke_lender_set_epoch(lender_of(self), epoch, &error));
    return py_none(r, &error);
}

static PyObject *loader_state(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    char text[STOKE_LENDER_STATE];
    int r;
    PY_UNLOCKED(r = stoke_lender_state(lender_of(self), text, &error));
    return r ? py_raise(r, error.message) : PyUnicode_FromString(text);
}

static PyObject *loader_restore(PyObject *self, PyObject *argument)
{
    PyObject *bytes = PyUnicode_AsUTF8String(argument);
    if (!bytes) return NULL;
    stoke_error error = { 0 };
    const char *text = PyBytes_AsString(bytes);
    int r;
    PY_UNLOCKED(r = stoke_lender_restore(lender_of(self), text, &error));
    Py_DECREF(bytes);
    return py_none(r, &error);
}

static PyObject *loader_batches(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    uint64_t all, left;
    int r;
    PY_UNLOCKED(r = stoke_lender_batches(lender_of(self), &all, &left, &error));
    return r ? py_raise(r, error.message)
             : Py_BuildValue("(KK)", (unsigned long long)all, (unsigned long long)left);
}

/* ---- what is known ---- */

static PyObject *stages_out(const stoke_stage_time *stage)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < STOKE_STAGES; i++, stage++)
        dict = py_with(dict, stoke_stage_name((stoke_stage)i),
                       Py_BuildValue("(KKK)", (unsigned long long)stage->wall_ns,
                                     (unsigned long long)stage->cpu_ns, (unsigned long long)stage->count));
    return dict;
}

#define FIELD(field, kind) PY_FIELD(stoke_lender_stats, field, kind)
static const py_field stats_fields[] = {
    FIELD(loader.samples, PY_U64),
    FIELD(loader.batches, PY_U64),
    FIELD(loader.replaced, PY_U64),
    FIELD(loader.skipped, PY_U64),
    FIELD(loader.bad_samples, PY_U64),
    FIELD(loader.bytes_read, PY_U64),
    FIELD(loader.retries, PY_U64),
    FIELD(loader.first_batch_ns, PY_U64),
    FIELD(loader.heap_allocations, PY_U64),
    FIELD(loader.memory_bytes, PY_U64),
    FIELD(loader.cache_hits_ram, PY_U64),
    FIELD(loader.cache_hits_disk, PY_U64),
    FIELD(loader.cache_misses, PY_U64),
    FIELD(loader.cache_stored, PY_U64),
    FIELD(loader.cache_damaged, PY_U64),
    FIELD(loader.cache_ram_bytes, PY_U64),
    FIELD(loader.cache_disk_bytes, PY_U64),
    FIELD(elapsed_ns, PY_U64),
    FIELD(held, PY_U32),
    FIELD(slots, PY_U32),
    { "ready", PY_U64, offsetof(stoke_lender_stats, loader.ready_batches) },
};
#undef FIELD

static PyObject *loader_stats(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    stoke_lender_stats stats;
    int r = stoke_lender_stats_get(lender_of(self), &stats, &error);
    if (r) return py_raise(r, error.message);
    return py_with(py_out(&stats, stats_fields), "stages", stages_out(stats.loader.stage));
}

#define FIELD(field, kind) PY_FIELD(stoke_memory_plan, field, kind)
static const py_field plan_fields[] = {
    FIELD(slots, PY_U32),
    FIELD(workers, PY_U32),
    FIELD(slot_bytes, PY_U64),
    FIELD(worker_bytes, PY_U64),
    FIELD(large_bytes, PY_U64),
    FIELD(cache_bytes, PY_U64),
    FIELD(fixed_bytes, PY_U64),
    FIELD(total_bytes, PY_U64),
    FIELD(limit_bytes, PY_U64),
    FIELD(largest_width, PY_U32),
    FIELD(largest_height, PY_U32),
    FIELD(images_probed, PY_U64),
    FIELD(prefetch_reduced, PY_BOOL),
};
#undef FIELD

static PyObject *loader_memory(PyObject *self, PyObject *nothing)
{
    const stoke_memory_plan plan = stoke_lender_memory(lender_of(self));
    const stoke_upload_memory none = { 0 }, *device = stoke_lender_device_memory(lender_of(self));
    char text[512];
    int length = stoke_memory_plan_text(&plan, text, sizeof text);
    if (device) {
        length += snprintf(text + length, sizeof text - (size_t)length, "; on %s ",
                           stoke_lender_device(lender_of(self))->name);
        stoke_upload_memory_text(device, text + length, sizeof text - (size_t)length);
    } else {
        device = &none;
    }
    PyObject *dict = py_with(py_out(&plan, plan_fields), "text", PyUnicode_FromString(text));
    dict = py_with(dict, "device_slots", PyLong_FromUnsignedLongLong(device->slots));
    return py_with(dict, "device_bytes", PyLong_FromUnsignedLongLong(device->total_bytes));
}

static PyObject *loader_bad(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    const stoke_lender_bad_file *bad;
    size_t n;
    int r = stoke_lender_bad(lender_of(self), &bad, &n, &error);
    if (r) return py_raise(r, error.message);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        if (py_push(list,
                    Py_BuildValue("(NNs)", PyUnicode_DecodeFSDefault(bad[i].path),
                                  PyUnicode_DecodeFSDefault(bad[i].reason), stoke_status_name(bad[i].code))))
            Py_CLEAR(list);
    return list;
}

static PyObject *loader_remarks(PyObject *self, PyObject *nothing)
{
    char text[4096] = "", warning[512];
    stoke_error error = { 0 };
    const stoke_lender *lender = lender_of(self);
    int r = stoke_lender_warning(lender_of(self), warning, sizeof warning, &error);
    if (r) return py_raise(r, error.message);
    PY_UNLOCKED(
        stoke_data_remarks(stoke_lender_dataset(lender), stoke_lender_params(lender), text, sizeof text));
    PyObject *all = PyUnicode_FromFormat("%s%s", text, warning);
    PyObject *lines = all ? PyUnicode_Splitlines(all, 0) : NULL;
    Py_XDECREF(all);
    return lines;
}

static PyObject *loader_two_masks(PyObject *self, void *closure)
{
    stoke_pipeline *pipeline = NULL;
    int found = 0;
    if (!stoke_pipeline_create(&pipeline, stoke_lender_params(lender_of(self))->augment, NULL))
        found = py_pipeline_mixes_up(stoke_pipeline_text(pipeline));
    stoke_pipeline_destroy(&pipeline);
    return PyBool_FromLong(found);
}

static PyObject *loader_samples(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(stoke_dataset_count(stoke_lender_dataset(lender_of(self))));
}

static PyObject *loader_device(PyObject *self, void *closure)
{
    const stoke_device_info *info = stoke_lender_device(lender_of(self));
    if (!info) Py_RETURN_NONE;
    return Py_BuildValue("(sss)", info->name, info->title, stoke_lender_placement(lender_of(self)));
}

static PyObject *loader_batch_size(PyObject *self, void *closure)
{
    return PyLong_FromLongLong(stoke_lender_params(lender_of(self))->batch);
}

static PyObject *loader_picture(PyObject *self, PyObject *args)
{
    PyObject *path = NULL;
    unsigned int count, columns, tile;
    unsigned long long epoch;
    if (!PyArg_ParseTuple(args, "O&IKII:picture", PyUnicode_FSConverter, &path, &count, &epoch, &columns,
                          &tile))
        return NULL;
    stoke_error error = { 0 };
    const char *name = PyBytes_AsString(path);
    int r;
    PY_UNLOCKED(r = py_picture_write(lender_of(self), name, count, epoch, columns, tile, &error));
    Py_DECREF(path);
    return py_none(r, &error);
}

static PyMethodDef methods[] = {
    { "next", loader_next, METH_NOARGS, "next() -> Batch, or None at the end of the epoch." },
    { "close", loader_close, METH_NOARGS, "close(): ends the threads; batches that are out stay valid." },
    { "set_epoch", loader_set_epoch, METH_O, "set_epoch(epoch): starts an epoch from its first batch." },
    { "state", loader_state, METH_NOARGS,
      "state() -> str: the place after the last batch handed out, as JSON." },
    { "restore", loader_restore, METH_O, "restore(state): goes on from there." },
    { "batches", loader_batches, METH_NOARGS, "batches() -> (of an epoch, left of the current one)." },
    { "stats", loader_stats, METH_NOARGS,
      "stats() -> dict; times in nanoseconds, stages as (wall, cpu, count)." },
    { "memory", loader_memory, METH_NOARGS, "memory() -> dict: the plan." },
    { "bad", loader_bad, METH_NOARGS, "bad() -> list of (path, reason, status)." },
    { "remarks", loader_remarks, METH_NOARGS, "remarks() -> list of str." },
    { "picture", loader_picture, METH_VARARGS, "picture(path, count, epoch, columns, tile): writes a PNG." },
    { 0 },
};

static PyGetSetDef members[] = {
    { "two_masks", loader_two_masks, NULL, "Whether batches have second masks (mixup).", NULL },
    { "batch_size", loader_batch_size, NULL, "Samples in a whole batch.", NULL },
    { "device", loader_device, NULL, "(name, title, who augments and why) of the device, or None.", NULL },
    { "samples", loader_samples, NULL, "Samples in the data set.", NULL },
    { 0 },
};

static PyType_Slot slots[] = {
    { Py_tp_doc,
      "Loader(settings, config=None, channels_last=False, to=None, feed={}, defaults={}, pinned=None): a "
      "data "
      "set and its loader; settings are a dict of texts, defaults those that a file goes before. to: the "
      "device batches go to, feed: its settings. pinned: where the memory of batches comes from." },
    { Py_tp_new, loader_new },
    { Py_tp_dealloc, loader_dealloc },
    { Py_tp_methods, methods },
    { Py_tp_getset, members },
    { 0 },
};

PyType_Spec py_loader_spec = { "stokehold._stoke.Loader", sizeof(loader), 0, Py_TPFLAGS_DEFAULT, slots };
