/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Loader: a lender as a Python object. stokehold/loader.py makes of it what people use.
 */
#include <stdio.h>
#include <stdlib.h>

#include <stoke/augment.h>
#include <stoke/labels.h>
#include <stoke/tools/dataset.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/report.h>
#include <stoke/tools/upload.h>

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

/* 0, or -1 with an exception set. */
static int open_engine(loader *self, PyObject *to)
{
    stoke_error error = { 0 };
    stoke_lender_route route = { .upload = self->settings.upload };
    const stoke_data_params *params = &self->settings.params;
    py_pinned *from = self->pinned;
    if (to != Py_None && !(route.device = py_settings_keep(&self->settings, to))) return -1;
    if (route.device)
        PY_UNLOCKED(error.code = stoke_lender_open_on(&self->lender, params, &route, &error));
    else
        PY_UNLOCKED(error.code = stoke_lender_open(&self->lender, params, from ? &from->allocator : NULL,
                                                   from ? &from->hold : NULL, &error));
    if (error.code == STOKE_E_NOMEM && py_pinned_raise(from)) return -1;
    if (py_check(&error)) return -1;
    const stoke_device_info *info = stoke_lender_device(self->lender);
    py_place *place = &self->place; /* "cuda:1" as DLPack has it */
    *place = py_on_cpu;
    if (info && sscanf(info->name, "cuda:%d", &place->id) == 1) place->device = PY_DEVICE_CUDA;
    if (info && sscanf(info->name, "opencl:%d", &place->id) == 1) place->device = PY_DEVICE_OPENCL;
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
    do {
        PY_UNLOCKED(error.code = stoke_lender_next(lender_of(self), SLICE_NS, &lease, &error));
        if (error.code == STOKE_E_TIMEOUT && PyErr_CheckSignals()) return NULL;
    } while (error.code == STOKE_E_TIMEOUT);
    if (error.code == STOKE_E_END) Py_RETURN_NONE;
    return error.code ? py_raise(&error)
                      : py_batch_new(&lease->hold, &lease->batch, ((loader *)self)->channels_last,
                                     ((loader *)self)->place);
}

/* ---- where it stands ---- */

static PyObject *loader_set_epoch(PyObject *self, PyObject *argument)
{
    const unsigned long long epoch = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred()) return NULL;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_lender_set_epoch(lender_of(self), epoch, &error));
    return py_none(&error);
}

static PyObject *loader_state(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    char text[STOKE_LENDER_STATE];
    PY_UNLOCKED(error.code = stoke_lender_state(lender_of(self), text, &error));
    return error.code ? py_raise(&error) : PyUnicode_FromString(text);
}

static PyObject *loader_restore(PyObject *self, PyObject *args)
{
    const char *text;
    if (!PyArg_ParseTuple(args, "s:restore", &text)) return NULL;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_lender_restore(lender_of(self), text, &error));
    return py_none(&error);
}

static PyObject *loader_batches(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    uint64_t all, left;
    PY_UNLOCKED(error.code = stoke_lender_batches(lender_of(self), &all, &left, &error));
    return error.code ? py_raise(&error)
                      : Py_BuildValue("(KK)", (unsigned long long)all, (unsigned long long)left);
}

/* ---- what is known ---- */

static const py_field stats_fields[] = {
    PY_FIELDS(stoke_lender_stats, loader.samples, loader.batches, loader.replaced, loader.skipped,
              loader.bad_samples, loader.bytes_read, loader.retries, loader.first_batch_ns),
    PY_FIELDS(stoke_lender_stats, loader.heap_allocations, loader.memory_bytes, loader.cache_hits_ram,
              loader.cache_hits_disk, loader.cache_misses, loader.cache_stored, loader.cache_damaged,
              loader.cache_ram_bytes),
    PY_FIELDS(stoke_lender_stats, loader.cache_disk_bytes, elapsed_ns, held, slots),
    { "ready", PY_U64, offsetof(stoke_lender_stats, loader.ready_batches) }
};

static PyObject *loader_stats(PyObject *self, PyObject *nothing)
{
    stoke_error error = { 0 };
    stoke_lender_stats stats;
    error.code = stoke_lender_stats_get(lender_of(self), &stats, &error);
    if (error.code) return py_raise(&error);
    PyObject *stages = PyDict_New();
    const stoke_stage_time *stage = stats.loader.stage;
    for (int i = 0; stages && i < STOKE_STAGES; i++, stage++)
        stages = py_with(stages, stoke_stage_name((stoke_stage)i),
                         Py_BuildValue("(KKK)", (unsigned long long)stage->wall_ns,
                                       (unsigned long long)stage->cpu_ns, (unsigned long long)stage->count));
    return py_with(py_out(&stats, stats_fields), "stages", stages);
}

static const py_field plan_fields[] = { PY_FIELDS(stoke_memory_plan, slots, workers, slot_bytes, worker_bytes,
                                                  large_bytes, cache_bytes, fixed_bytes, total_bytes),
                                        PY_FIELDS(stoke_memory_plan, limit_bytes, largest_width,
                                                  largest_height, images_probed, prefetch_reduced) };

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
    error.code = stoke_lender_bad(lender_of(self), &bad, &n, &error);
    if (error.code) return py_raise(&error);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        py_add(&list,
               Py_BuildValue("(NNs)", PyUnicode_DecodeFSDefault(bad[i].path),
                             PyUnicode_DecodeFSDefault(bad[i].reason), stoke_status_name(bad[i].code)));
    return list;
}

static PyObject *loader_remarks(PyObject *self, PyObject *nothing)
{
    char text[4096] = "", warning[512];
    stoke_error error = { 0 };
    const stoke_lender *lender = lender_of(self);
    error.code = stoke_lender_warning(lender_of(self), warning, sizeof warning, &error);
    if (error.code) return py_raise(&error);
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
    if (stoke_dataset_has_targets(stoke_lender_dataset(lender_of(self))))
        Py_RETURN_FALSE; /* they are mixed */
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

/* ---- a picture of what it delivers ---- */

enum { NAMES = 256 };

static int write_grid(const stoke_tile *tiles, const stoke_batch *batch, const stoke_data_params *params,
                      const char *path, uint32_t columns, uint32_t tile, stoke_error *err)
{
    stoke_labels *labels = NULL;
    int r = stoke_data_labels(&labels, params, err);
    if (r) return r;
    const char *names[NAMES];
    for (uint32_t id = 0; id < NAMES; id++) names[id] = stoke_labels_name(labels, id);
    char title[256];
    snprintf(title, sizeof title, "%ux%u  %s  epoch %llu", batch->height, batch->width, params->augment,
             (unsigned long long)batch->epoch);
    stoke_grid_params grid = stoke_grid_defaults();
    grid.columns = columns;
    if (tile) grid.tile = tile;
    grid.ignore_index = (int32_t)params->ignore_index;
    grid.title = title;
    grid.class_names = names;
    grid.n_class_names = NAMES;
    r = stoke_grid_write(path, tiles, batch->count, &grid, err);
    stoke_labels_destroy(&labels);
    return r;
}

static int draw(const stoke_batch *batch, const stoke_data_params *params, int has_masks, const char *path,
                uint32_t columns, uint32_t tile, stoke_error *err)
{
    const uint32_t w = batch->width, h = batch->height;
    const uint8_t depth = (uint8_t)stoke_dtype_bytes(batch->mask_dtype);
    stoke_tile *tiles = calloc(batch->count, sizeof *tiles);
    stoke_image *pictures = calloc(batch->count, 2 * sizeof *pictures); /* two for each tile */
    const int ready = tiles && pictures;
    for (uint32_t i = 0; ready && i < batch->count; i++) {
        stoke_image *image = &pictures[2 * i], *other = image + 1;
        char *images = batch->images;
        /* Of a mixed row the mask that belongs to the stronger picture. */
        char *masks = batch->lambda && batch->lambda[i] < 0.5f ? batch->masks_b : batch->masks;
        *image = (stoke_image){ images + i * batch->image_row_bytes, (size_t)w * 3, w, h, 3, 1 };
        if (batch->targets)
            *other = (stoke_image){ (char *)batch->targets + i * batch->target_row_bytes,
                                    (size_t)batch->target_width * 3,
                                    batch->target_width,
                                    batch->target_height,
                                    3,
                                    1 };
        else
            *other = (stoke_image){ masks + i * batch->mask_row_bytes, (size_t)w * depth, w, h, 1, depth };
        tiles[i] = (stoke_tile){ .image = image,
                                 .mask = has_masks ? other : NULL,
                                 .caption = batch->names[i],
                                 .target = batch->targets ? other : NULL };
    }
    int r = STOKE_E_NOMEM;
    if (ready)
        r = write_grid(tiles, batch, params, path, columns, tile, err);
    else
        snprintf(err->message, sizeof err->message, "no memory for a picture of %u samples", batch->count);
    free(tiles);
    free(pictures);
    return r;
}

/* Writes a PNG of the first `count` samples of an epoch, each beside itself with its mask laid over, or its
 * target. By a second loader, so that the one at work is not disturbed. May wait. */
static int write_picture(const stoke_lender *lender, const char *path, uint32_t count, uint64_t epoch,
                         uint32_t columns, uint32_t tile, stoke_error *err)
{
    const stoke_dataset *dataset = stoke_lender_dataset(lender);
    stoke_data_params params = *stoke_lender_params(lender);
    stoke_loader *second = NULL;
    const stoke_batch *batch = NULL;
    /* What a picture shows is what the eye can see; everything else is as in the loader. */
    params.dtype = STOKE_IMAGE_DTYPE_U8;
    params.layout = STOKE_LAYOUT_HWC;
    params.normalize = STOKE_NORMALIZE_NONE;
    params.mask_dtype = STOKE_MASK_DTYPE_AUTO;
    params.quarantine = "";
    params.drop_last = 0;
    params.prefetch = 1;
    params.rank = 0;
    params.world = 1;
    params.batch = count;
    params.epoch = (int64_t)epoch;
    int r = stoke_lender_check(lender, err);
    if (!r) r = stoke_loader_create(&second, dataset, &params, NULL, err);
    if (r) return r;
    r = stoke_loader_next(second, &batch);
    if (r)
        snprintf(err->message, sizeof err->message, "%s",
                 r == STOKE_E_END ? "the data set has no sample to show" : stoke_loader_error(second));
    else
        r = draw(batch, &params, stoke_dataset_has_masks(dataset), path, columns, tile, err);
    stoke_loader_destroy(&second);
    return r;
}

static PyObject *loader_picture(PyObject *self, PyObject *args)
{
    const char *path;
    unsigned int count, columns, tile;
    unsigned long long epoch;
    if (!PyArg_ParseTuple(args, "yIKII:picture", &path, &count, &epoch, &columns, &tile)) return NULL;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = write_picture(lender_of(self), path, count, epoch, columns, tile, &error));
    return py_none(&error);
}

static PyMethodDef methods[] = {
    { "next", loader_next, METH_NOARGS, "next() -> Batch, or None at the end of the epoch." },
    { "close", loader_close, METH_NOARGS, "close(): ends the threads; batches that are out stay valid." },
    { "set_epoch", loader_set_epoch, METH_O, "set_epoch(epoch): starts an epoch from its first batch." },
    { "state", loader_state, METH_NOARGS,
      "state() -> str: the place after the last batch handed out, as JSON." },
    { "restore", loader_restore, METH_VARARGS, "restore(state): goes on from there." },
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
