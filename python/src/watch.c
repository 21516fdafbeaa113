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
    int r;
    PY_UNLOCKED(r = stoke_monitor_open(&self->monitor, &params, &error));
    if (!r) return (PyObject *)self;
    Py_DECREF(self);
    return py_raise(r, error.message);
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

#define FIELD(field) PY_FIELD(stoke_load, field, PY_FIGURE)
static const py_field load_fields[] = { FIELD(cpu_percent),       FIELD(memory_total), FIELD(memory_used),
                                        FIELD(disk_busy_percent), FIELD(disk_read),    FIELD(disk_write) };
#undef FIELD
#define FIELD(field) PY_FIELD(stoke_gpu, field, PY_FIGURE)
static const py_field gpu_fields[] = { PY_FIELD(stoke_gpu, name, PY_TEXT),
                                       PY_FIELD(stoke_gpu, problem, PY_TEXT),
                                       FIELD(busy_percent),
                                       FIELD(effective_percent),
                                       FIELD(memory_total),
                                       FIELD(memory_used),
                                       FIELD(temperature),
                                       FIELD(power_watt),
                                       FIELD(clock_sm_mhz) };
#undef FIELD

static PyObject *monitor_now(PyObject *self, PyObject *nothing)
{
    PyObject *gpus = PyList_New(0);
    for (size_t i = 0; gpus && i < stoke_monitor_gpus(monitor_of(self)); i++)
        if (py_push(gpus, py_out(stoke_monitor_gpu(monitor_of(self), i), gpu_fields))) Py_CLEAR(gpus);
    PyObject *dict = py_with(py_out(stoke_monitor_load(monitor_of(self)), load_fields), "gpus", gpus);
    return py_with(dict, "why", py_words(stoke_monitor_why(monitor_of(self))));
}

#define FIELD(field, kind) PY_FIELD(stoke_gpu_summary, field, kind)
static const py_field gpu_summary_fields[] = {
    FIELD(name, PY_TEXT),           FIELD(problem, PY_TEXT),
    FIELD(busy_percent, PY_SPREAD), FIELD(effective_percent, PY_SPREAD),
    FIELD(memory_used, PY_SPREAD),  FIELD(power_watt, PY_SPREAD),
    FIELD(temperature, PY_SPREAD),  FIELD(memory_total, PY_FIGURE),
    FIELD(energy_joule, PY_FIGURE), FIELD(idle_share, PY_FIGURE),
    FIELD(longest_idle, PY_FIGURE),
};
#undef FIELD
#define FIELD(field, kind) PY_FIELD(stoke_monitor_summary, field, kind)
static const py_field summary_fields[] = {
    FIELD(seconds, PY_REAL),       FIELD(readings, PY_U64),        FIELD(cpu_percent, PY_SPREAD),
    FIELD(memory_used, PY_SPREAD), FIELD(memory_total, PY_FIGURE), FIELD(disk_busy_percent, PY_SPREAD),
    FIELD(disk_read, PY_SPREAD),   FIELD(disk_write, PY_SPREAD),
};
#undef FIELD

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
        if (py_push(gpus, py_out(one, gpu_summary_fields))) Py_CLEAR(gpus);
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
    { "now", monitor_now, METH_NOARGS, "now() -> dict: the newest reading." },
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
