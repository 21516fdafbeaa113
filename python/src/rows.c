/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Rows: batches from pictures in memory (<stoke/tools/rows.h>). stokehold/augment.py and dataset.py
 * make of it what people use.
 *
 * Batches may outlive the object: what they need has its own count. Rows of a batch are put by any
 * thread, without the GIL while pixels are worked on.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "python/src/extension.h"
#include <stoke/tools/lease.h>

/* What batches keep alive. */
typedef struct maker {
    stoke_hold hold; /* first */
    stoke_rows *rows;
    py_pinned *pinned; /* where their memory comes from; NULL: ordinary memory */
    atomic_uint held;  /* batches out */
} maker;

typedef struct rows_object {
    PyObject_HEAD py_settings settings;
    maker *maker;
    int channels_last;
} rows_object;

enum { NAME_BYTES = 24 }; /* of a 64-bit number */

/* A batch that somebody holds. ids and names are its own: rows know only positions. */
typedef struct lent {
    stoke_hold hold; /* first */
    maker *maker;
    stoke_batch *slot;
    stoke_batch batch;
    uint64_t *ids;
    const char **names;
    char (*texts)[NAME_BYTES];
} lent;

static maker *maker_of(PyObject *self)
{
    return ((rows_object *)self)->maker;
}

/* ---- beginning and end ---- */

static void maker_end(stoke_hold *hold)
{
    maker *m = (maker *)hold;
    stoke_rows_destroy(&m->rows);
    if (m->pinned) stoke_hold_drop(&m->pinned->hold);
    free(m);
}

static int make(rows_object *self, PyObject *dict, PyObject *config, PyObject *defaults, PyObject *pinned,
                const unsigned int size[2])
{
    if (py_settings_read(&self->settings, defaults, config, dict)) return -1;
    stoke_data_params *params = &self->settings.params;
    if (!params->size[0] || !params->size[1]) {
        params->size[0] = size[0];
        params->size[1] = size[1];
    }
    self->maker = calloc(1, sizeof *self->maker);
    if (!self->maker) return py_no_memory();
    stoke_hold_begin(&self->maker->hold, maker_end);
    if (py_pinned_get(pinned, &self->maker->pinned)) return -1;
    const stoke_allocator *memory = self->maker->pinned ? &self->maker->pinned->allocator : NULL;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_rows_create(&self->maker->rows, params, memory, &error));
    if (error.code) error.code = stoke_lender_status(error.code, error.message);
    return py_check(&error);
}

static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *dict, *config = Py_None, *defaults = NULL, *pinned = NULL;
    int channels_last = 0;
    unsigned int size[2] = { 0, 0 };
    if (!PyArg_ParseTuple(args, "O!|Op(II)O!O:Rows", &PyDict_Type, &dict, &config, &channels_last, &size[0],
                          &size[1], &PyDict_Type, &defaults, &pinned))
        return NULL;
    rows_object *self = (rows_object *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    self->channels_last = channels_last;
    if (!make(self, dict, config, defaults, pinned, size)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void rows_dealloc(PyObject *object)
{
    rows_object *self = (rows_object *)object;
    if (self->maker) stoke_hold_drop(&self->maker->hold);
    py_settings_free(&self->settings);
    py_free(object);
}

/* ---- a batch ---- */

/* By whoever lets go last, in any thread, with or without the GIL. */
static void lent_end(stoke_hold *hold)
{
    lent *l = (lent *)hold;
    stoke_rows_release(l->maker->rows, &l->slot);
    atomic_fetch_sub(&l->maker->held, 1);
    stoke_hold_drop(&l->maker->hold);
    free(l);
}

/* From a sequence of numbers, or position, position + 1, ...; -1 with an exception set. */
static int fill_ids(lent *l, PyObject *ids, uint32_t count, uint64_t position)
{
    for (uint32_t i = 0; i < count; i++) {
        l->ids[i] = position + i;
        if (ids != Py_None) {
            PyObject *id = PySequence_GetItem(ids, i);
            if (id) l->ids[i] = PyLong_AsUnsignedLongLong(id);
            Py_XDECREF(id);
            if (PyErr_Occurred()) return -1;
        }
        snprintf(l->texts[i], NAME_BYTES, "%llu", (unsigned long long)l->ids[i]);
        l->names[i] = l->texts[i];
    }
    return 0;
}

static PyObject *rows_begin(PyObject *self, PyObject *args)
{
    unsigned int count;
    unsigned long long epoch, position;
    PyObject *ids = Py_None;
    if (!PyArg_ParseTuple(args, "IKK|O:begin", &count, &epoch, &position, &ids)) return NULL;
    lent *l = calloc(1, sizeof *l + (size_t)count * (sizeof *l->ids + sizeof *l->names + NAME_BYTES));
    if (!l) return PyErr_NoMemory();
    l->ids = (uint64_t *)(l + 1); /* the arrays of its rows lie behind it */
    l->names = (const char **)(l->ids + count);
    l->texts = (char(*)[NAME_BYTES])(l->names + count);
    if (fill_ids(l, ids, count, position)) {
        free(l);
        return NULL;
    }
    maker *m = maker_of(self);
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_rows_begin(m->rows, count, epoch, position, &l->slot, &error));
    if (error.code) {
        free(l);
        return error.code == STOKE_E_NOMEM && py_pinned_raise(m->pinned) ? NULL : py_raise(&error);
    }
    l->batch = *l->slot;
    l->batch.ids = l->ids;
    l->batch.names = l->names;
    l->maker = m;
    stoke_hold_take(&m->hold);
    atomic_fetch_add(&m->held, 1);
    stoke_hold_begin(&l->hold, lent_end);
    return py_batch_new(&l->hold, &l->batch, ((rows_object *)self)->channels_last, py_on_cpu);
}

/* The batch behind a Batch that this object began; NULL with an exception set. */
static lent *lent_of(PyObject *self, PyObject *batch)
{
    stoke_hold *hold = py_batch_hold(batch);
    if (!hold) return NULL;
    if (hold->end == lent_end && ((lent *)hold)->maker == maker_of(self)) return (lent *)hold;
    PyErr_SetString(PyExc_ValueError, "this batch was begun by somebody else");
    return NULL;
}

static PyObject *rows_put(PyObject *self, PyObject *args)
{
    PyObject *batch, *image, *mask = Py_None;
    unsigned int row;
    int image_first = 0, mask_first = 0;
    PyObject *substitute = Py_None;
    unsigned long long id = 0;
    if (!PyArg_ParseTuple(args, "OIOO|ppO:put", &batch, &row, &image, &mask, &image_first, &mask_first,
                          &substitute))
        return NULL;
    lent *l = lent_of(self, batch);
    if (!l) return NULL;
    if (substitute != Py_None) {
        id = PyLong_AsUnsignedLongLong(substitute);
        if (PyErr_Occurred()) return NULL;
    }
    py_pixels pixels[2] = { 0 };
    if (py_pixels_take(&pixels[0], image, image_first)) return NULL;
    if (mask != Py_None && py_pixels_take(&pixels[1], mask, mask_first)) {
        py_pixels_drop(&pixels[0]);
        return NULL;
    }
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_rows_put(l->maker->rows, l->slot, row, &pixels[0].pixels,
                                            mask != Py_None ? &pixels[1].pixels : NULL, &error));
    for (int i = 0; i < 2; i++) py_pixels_drop(&pixels[i]);
    if (error.code) return py_raise(&error);
    if (substitute != Py_None) {
        l->ids[row] = id;
        snprintf(l->texts[row], NAME_BYTES, "%llu", id);
    }
    Py_RETURN_NONE;
}

static PyObject *rows_finish(PyObject *self, PyObject *batch)
{
    lent *l = lent_of(self, batch);
    if (!l) return NULL;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_rows_finish(l->maker->rows, l->slot, &error));
    return py_none(&error);
}

/* ---- what is known ---- */

static PyObject *rows_pipeline(PyObject *self, void *closure)
{
    return PyUnicode_FromString(stoke_rows_pipeline(maker_of(self)->rows));
}

static PyObject *rows_two_masks(PyObject *self, void *closure)
{
    return PyBool_FromLong(py_pipeline_mixes_up(stoke_rows_pipeline(maker_of(self)->rows)));
}

static PyObject *rows_held(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLong(atomic_load(&maker_of(self)->held));
}

/* Those settings that are about the order and the running, which rows themselves do not use. */
static PyObject *rows_running(PyObject *self, void *closure)
{
    static const char *const orders[] = { "shuffle", "sequential", "weighted", "balanced" };
    static const char *const policies[] = { "replace", "skip", "stop" };
    const stoke_data_params *p = &((rows_object *)self)->settings.params;
    return Py_BuildValue("{s:L,s:s,s:L,s:L,s:L,s:L,s:i,s:L,s:L,s:s,s:s}", "batch",
                         (long long)(p->batch < 0 ? 8 : p->batch), "order", orders[p->order], "seed",
                         (long long)p->seed, "epoch", (long long)p->epoch, "rank", (long long)p->rank,
                         "world", (long long)p->world, "drop_last", p->drop_last, "workers",
                         (long long)stoke_data_workers(p), "prefetch", (long long)p->prefetch, "policy",
                         policies[p->policy], "max_bad", p->max_bad ? p->max_bad : "");
}

static PyMethodDef methods[] = {
    { "begin", rows_begin, METH_VARARGS, "begin(count, epoch, position, ids=None) -> Batch, to be filled." },
    { "put", rows_put, METH_VARARGS,
      "put(batch, row, image, mask, image_channels_first=False, mask_channels_first=False, id=None): fills a "
      "row; any thread. id: of the sample that stands in for the row's own." },
    { "finish", rows_finish, METH_O, "finish(batch): mixes rows where the pipeline does." },
    { 0 },
};

static PyGetSetDef members[] = {
    { "pipeline", rows_pipeline, NULL, "What augments, as a list of ops.", NULL },
    { "two_masks", rows_two_masks, NULL, "Whether batches have second masks (mixup).", NULL },
    { "held", rows_held, NULL, "Batches that somebody holds now.", NULL },
    { "running", rows_running, NULL, "Settings of order and running, as a dict.", NULL },
    { 0 },
};

static PyType_Slot slots[] = {
    { Py_tp_doc,
      "Rows(settings, config=None, channels_last=False, size=(0, 0), defaults={}, pinned=None): makes "
      "batches of pictures in memory; settings are a dict of texts, defaults those that a file goes before; "
      "size counts where they have none. pinned: where the memory of batches comes from." },
    { Py_tp_new, rows_new },
    { Py_tp_dealloc, rows_dealloc },
    { Py_tp_methods, methods },
    { Py_tp_getset, members },
    { 0 },
};

PyType_Spec py_rows_spec = { "stokehold._stoke.Rows", sizeof(rows_object), 0, Py_TPFLAGS_DEFAULT, slots };
