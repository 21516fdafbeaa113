/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Monitor: readings of the machine and its cards, and their summary.
 */
#include <stoke/tools/monitor.h>

#include "python/src/values.h"

typedef struct monitor {
    PyObject_HEAD stoke_monitor *monitor;
} monitor;

static stoke_monitor *monitor_of(PyObject *self)
{
    return ((monitor *)self)->monitor;
}

static PyObject *monitor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (!PyArg_ParseTuple(args, ":Monitor")) return NULL;
    monitor *self = (monitor *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    stoke_monitor_params params = stoke_monitor_defaults();
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_monitor_open(&self->monitor, &params, &error));
    if (!error.code) return (PyObject *)self;
    Py_DECREF(self);
    return py_raise(&error);
}

static void monitor_dealloc(PyObject *object)
{
    PY_UNLOCKED(stoke_monitor_close(&((monitor *)object)->monitor));
    py_free(object);
}

static PyObject *monitor_read(PyObject *self, PyObject *nothing)
{
    PY_UNLOCKED(stoke_monitor_read(monitor_of(self)));
    Py_RETURN_NONE;
}

static const py_field gpu_summary_fields[] = {
    PY_FIELDS(stoke_gpu_summary, name, problem, busy_percent, effective_percent, memory_used, power_watt,
              temperature, memory_total),
    PY_FIELDS(stoke_gpu_summary, energy_joule, idle_share, longest_idle)
};
static const py_field summary_fields[] = { PY_FIELDS(stoke_monitor_summary, seconds, readings, cpu_percent,
                                                     memory_used, memory_total, disk_busy_percent, disk_read,
                                                     disk_write) };

/* Whom the verdict is about: the least busy card. */
static int less_busy(const stoke_gpu_summary *a, const stoke_gpu_summary *b)
{
    if (a->busy_percent.mean.source == STOKE_SOURCE_NA) return 0;
    return b->busy_percent.mean.source == STOKE_SOURCE_NA ||
           a->busy_percent.mean.value < b->busy_percent.mean.value;
}

static PyObject *monitor_summary(PyObject *self, PyObject *nothing)
{
    stoke_monitor_summary machine;
    stoke_monitor_verdict verdict;
    stoke_gpu_summary *one = PyMem_Malloc(2 * sizeof *one), *least = one + 1;
    if (!one) return PyErr_NoMemory();
    const size_t n = stoke_monitor_gpus(monitor_of(self));
    stoke_monitor_summarise(monitor_of(self), &machine);
    PyObject *gpus = PyList_New(0);
    for (size_t i = 0; gpus && i < n; i++) {
        stoke_monitor_summarise_gpu(monitor_of(self), i, one);
        if (!i || less_busy(one, least)) *least = *one;
        py_add(&gpus, py_out(one, gpu_summary_fields));
    }
    stoke_monitor_judge(&machine, n ? least : NULL, &verdict);
    PyMem_Free(one);
    PyObject *dict = py_with(py_out(&machine, summary_fields), "gpus", gpus);
    dict = py_with(dict, "verdict", py_words(verdict.text));
    dict = py_with(dict, "next", py_words(verdict.next));
    return py_with(dict, "why", py_words(stoke_monitor_why(monitor_of(self))));
}

static PyMethodDef methods[] = {
    { "read", monitor_read, METH_NOARGS, "read(): one reading of everything, now." },
    { "summary", monitor_summary, METH_NOARGS, "summary() -> dict: of all readings." },
    { 0 },
};

static PyType_Slot slots[] = {
    { Py_tp_new, monitor_new },
    { Py_tp_dealloc, monitor_dealloc },
    { Py_tp_methods, methods },
    { Py_tp_doc, "Monitor(): watches the machine and its cards." },
    { 0 },
};

PyType_Spec py_monitor_spec = { "stokehold._stoke.Monitor", sizeof(monitor), 0, Py_TPFLAGS_DEFAULT, slots };
