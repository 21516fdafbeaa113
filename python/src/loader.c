/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Loader: an engine as a Python object. stokehold/loader.py makes of it what people use.
 */
#include <stdio.h>
#include <string.h>

#include <stoke/augment.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/upload.h>

#include "python/src/batch.h"
#include <stoke/tools/lease.h>
#include "python/src/picture.h"
#include "python/src/pinned.h"
#include "python/src/settings.h"

typedef struct loader {
    PyObject_HEAD py_settings settings;
    py_pinned *pinned; /* NULL: ordinary memory */
    stoke_lender *engine;
    int channels_last;
    py_place place; /* of batches */
} loader;

static stoke_lender *engine_of(PyObject *self)
{
    return ((loader *)self)->engine;
}

static PyObject *failed(int status, const stoke_error *error)
{
    return py_raise(status, error->message);
}

/* ---- beginning and end ---- */

/* "cuda:1" as DLPack has it. */
static py_place place_of(const stoke_lender *engine)
{
    const stoke_device_info *info = stoke_lender_device(engine);
    py_place place = py_on_cpu;
    if (info && sscanf(info->name, "cuda:%d", &place.id) == 1) place.device = PY_DEVICE_CUDA;
    if (info && sscanf(info->name, "opencl:%d", &place.id) == 1) place.device = PY_DEVICE_OPENCL;
    return place;
}

/* Batches in host memory. May wait. */
static int open_here(loader *self, stoke_error *err)
{
    py_pinned *from = self->pinned;
    return stoke_lender_open(&self->engine, &self->settings.params, from ? &from->allocator : NULL,
                          from ? &from->hold : NULL, err);
}

/* 0, or -1 with an exception set. */
static int open_engine(loader *self, PyObject *to)
{
    stoke_error error = { 0 };
    stoke_lender_route route = { .upload = self->settings.upload };
    int r;
    if (to != Py_None && !(route.device = py_settings_keep(&self->settings, to))) return -1;
    const stoke_data_params *params = &self->settings.params;
    Py_BEGIN_ALLOW_THREADS r =
        route.device ? stoke_lender_open_on(&self->engine, params, &route, &error) : open_here(self, &error);
    Py_END_ALLOW_THREADS if (r)
    {
        if (r != STOKE_E_NOMEM || !py_pinned_raise(self->pinned)) failed(r, &error);
        return -1;
    }
    self->place = place_of(self->engine);
    return 0;
}

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *dict, *config = Py_None, *to = Py_None, *upload = NULL, *defaults = NULL, *pinned = NULL;
    int channels_last = 0;
    if (!PyArg_ParseTuple(args, "O!|OpOO!O!O:Loader", &PyDict_Type, &dict, &config, &channels_last, &to,
                          &PyDict_Type, &upload, &PyDict_Type, &defaults, &pinned))
        return NULL;
    loader *self = (loader *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
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
    PyTypeObject *type = Py_TYPE(object);
    loader *self = (loader *)object;
    Py_BEGIN_ALLOW_THREADS stoke_lender_drop(self->engine);
    if (self->pinned) stoke_hold_drop(&self->pinned->hold);
    Py_END_ALLOW_THREADS py_settings_free(&self->settings);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *loader_close(PyObject *self, PyObject *nothing)
{
    Py_BEGIN_ALLOW_THREADS stoke_lender_close(engine_of(self));
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
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
        Py_BEGIN_ALLOW_THREADS r = stoke_lender_next(engine_of(self), SLICE_NS, &lease, &error);
        Py_END_ALLOW_THREADS if (r == STOKE_E_TIMEOUT && PyErr_CheckSignals()) return NULL;
    } while (r == STOKE_E_TIMEOUT);
    if (r == STOKE_E_END) Py_RETURN_NONE;
    return r ? failed(r, &error)
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
    Py_BEGIN_ALLOW_THREADS r = stoke_lender_set_epoch(engine_of(self), epoch, &error);
    Py_END_ALLOW_THREADS if (r) return failed(r, &error);
    Py_RETURN_NONE;
}

static PyObject *loader_state(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    char text[STOKE_LENDER_STATE];
    int r;
    Py_BEGIN_ALLOW_THREADS r = stoke_lender_state(engine_of(self), text, &error);
    Py_END_ALLOW_THREADS return r ? failed(r, &error) : PyUnicode_FromString(text);
}

static PyObject *loader_restore(PyObject *self, PyObject *argument)
{
    PyObject *bytes = PyUnicode_AsUTF8String(argument);
    if (!bytes) return NULL;
    stoke_error error = { 0 };
    const char *text = PyBytes_AsString(bytes);
    int r;
    Py_BEGIN_ALLOW_THREADS r = stoke_lender_restore(engine_of(self), text, &error);
    Py_END_ALLOW_THREADS Py_DECREF(bytes);
    if (r) return failed(r, &error);
    Py_RETURN_NONE;
}

static PyObject *loader_batches(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    uint64_t all, left;
    int r;
    Py_BEGIN_ALLOW_THREADS r = stoke_lender_batches(engine_of(self), &all, &left, &error);
    Py_END_ALLOW_THREADS return r ? failed(r, &error)
                                  : Py_BuildValue("(KK)", (unsigned long long)all, (unsigned long long)left);
}

/* ---- what is known ---- */

/* dict[name] = number; 0, or -1 with an exception set. */
static int put(PyObject *dict, const char *name, uint64_t number)
{
    PyObject *value = PyLong_FromUnsignedLongLong(number);
    const int r = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return r;
}

typedef struct field {
    const char *name;
    uint64_t value;
} field;

static PyObject *fields_as_dict(const field *fields, size_t n)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < n; i++)
        if (put(dict, fields[i].name, fields[i].value)) Py_CLEAR(dict);
    return dict;
}

static PyObject *stages_as_dict(const stoke_loader_stats_data *s)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < STOKE_STAGES; i++) {
        const stoke_stage_time *t = &s->stage[i];
        PyObject *times = Py_BuildValue("(KKK)", (unsigned long long)t->wall_ns,
                                        (unsigned long long)t->cpu_ns, (unsigned long long)t->count);
        if (!times || PyDict_SetItemString(dict, stoke_stage_name((stoke_stage)i), times)) Py_CLEAR(dict);
        Py_XDECREF(times);
    }
    return dict;
}

static PyObject *loader_stats(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    stoke_lender_stats stats;
    int r = stoke_lender_stats_get(engine_of(self), &stats, &error);
    if (r) return failed(r, &error);
    const stoke_loader_stats_data *s = &stats.loader;
    const field fields[] = {
        { "samples", s->samples },
        { "batches", s->batches },
        { "replaced", s->replaced },
        { "skipped", s->skipped },
        { "bad_samples", s->bad_samples },
        { "bytes_read", s->bytes_read },
        { "retries", s->retries },
        { "first_batch_ns", s->first_batch_ns },
        { "heap_allocations", s->heap_allocations },
        { "memory_bytes", s->memory_bytes },
        { "cache_hits_ram", s->cache_hits_ram },
        { "cache_hits_disk", s->cache_hits_disk },
        { "cache_misses", s->cache_misses },
        { "cache_stored", s->cache_stored },
        { "cache_damaged", s->cache_damaged },
        { "cache_ram_bytes", s->cache_ram_bytes },
        { "cache_disk_bytes", s->cache_disk_bytes },
        { "elapsed_ns", stats.elapsed_ns },
        { "held", stats.held },
        { "ready", s->ready_batches },
        { "slots", stats.slots },
    };
    PyObject *dict = fields_as_dict(fields, sizeof fields / sizeof *fields), *stages = stages_as_dict(s);
    if (dict && (!stages || PyDict_SetItemString(dict, "stages", stages))) Py_CLEAR(dict);
    Py_XDECREF(stages);
    return dict;
}

static PyObject *loader_memory(PyObject *self, PyObject *nothing)
{
    const stoke_memory_plan plan = stoke_lender_memory(engine_of(self));
    const stoke_upload_memory *device = stoke_lender_device_memory(engine_of(self));
    const field fields[] = {
        { "slots", plan.slots },
        { "workers", plan.workers },
        { "slot_bytes", plan.slot_bytes },
        { "worker_bytes", plan.worker_bytes },
        { "large_bytes", plan.large_bytes },
        { "cache_bytes", plan.cache_bytes },
        { "fixed_bytes", plan.fixed_bytes },
        { "total_bytes", plan.total_bytes },
        { "limit_bytes", plan.limit_bytes },
        { "prefetch_reduced", (uint64_t)plan.prefetch_reduced },
        { "largest_width", plan.largest_width },
        { "largest_height", plan.largest_height },
        { "images_probed", plan.images_probed },
        { "device_slots", device ? device->slots : 0 },
        { "device_bytes", device ? device->total_bytes : 0 },
    };
    PyObject *dict = fields_as_dict(fields, sizeof fields / sizeof *fields);
    char text[512];
    int length = stoke_memory_plan_text(&plan, text, sizeof text);
    if (device) {
        length += snprintf(text + length, sizeof text - (size_t)length, "; on %s ",
                           stoke_lender_device(engine_of(self))->name);
        stoke_upload_memory_text(device, text + length, sizeof text - (size_t)length);
    }
    PyObject *words = dict ? PyUnicode_FromString(text) : NULL;
    if (dict && (!words || PyDict_SetItemString(dict, "text", words))) Py_CLEAR(dict);
    Py_XDECREF(words);
    return dict;
}

static PyObject *loader_bad(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    const stoke_lender_bad_file *bad;
    size_t n;
    int r = stoke_lender_bad(engine_of(self), &bad, &n, &error);
    if (r) return failed(r, &error);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *one =
            Py_BuildValue("(NNs)", PyUnicode_DecodeFSDefault(bad[i].path),
                          PyUnicode_DecodeFSDefault(bad[i].reason), stoke_status_name(bad[i].code));
        if (!one || PyList_Append(list, one)) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *loader_remarks(PyObject *self, PyObject *nothing)
{
    char text[4096] = "", warning[512];
    stoke_error error = { 0 };
    const stoke_lender *engine = engine_of(self);
    int r = stoke_lender_warning(engine_of(self), warning, sizeof warning, &error);
    if (r) return failed(r, &error);
    Py_BEGIN_ALLOW_THREADS stoke_data_remarks(stoke_lender_dataset(engine), stoke_lender_params(engine), text,
                                              sizeof text);
    Py_END_ALLOW_THREADS PyObject *all = PyUnicode_FromFormat("%s%s", text, warning);
    PyObject *lines = all ? PyUnicode_Splitlines(all, 0) : NULL;
    Py_XDECREF(all);
    return lines;
}

static PyObject *loader_two_masks(PyObject *self, void *closure)
{
    stoke_pipeline *pipeline = NULL;
    int found = 0;
    if (!stoke_pipeline_create(&pipeline, stoke_lender_params(engine_of(self))->augment, NULL))
        found = py_pipeline_mixes_up(stoke_pipeline_text(pipeline));
    stoke_pipeline_destroy(&pipeline);
    return PyBool_FromLong(found);
}

static PyObject *loader_samples(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(stoke_dataset_count(stoke_lender_dataset(engine_of(self))));
}

static PyObject *loader_device(PyObject *self, void *closure)
{
    const stoke_device_info *info = stoke_lender_device(engine_of(self));
    if (!info) Py_RETURN_NONE;
    return Py_BuildValue("(sss)", info->name, info->title, stoke_lender_placement(engine_of(self)));
}

static PyObject *loader_batch_size(PyObject *self, void *closure)
{
    return PyLong_FromLongLong(stoke_lender_params(engine_of(self))->batch);
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
    Py_BEGIN_ALLOW_THREADS r = py_picture_write(engine_of(self), name, count, epoch, columns, tile, &error);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (r) return failed(r, &error);
    Py_RETURN_NONE;
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

static PyType_Spec spec = { "stokehold._stoke.Loader", sizeof(loader), 0, Py_TPFLAGS_DEFAULT, slots };

int py_add_loader(PyObject *module)
{
    return py_add_type(module, &spec) ? 0 : -1;
}
