/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Monitor: readings of the machine and its cards, and their summary.
 */
#include <stoke/tools/monitor.h>

#include "python/src/values.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
    monitor *self = (monitor *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    stoke_monitor_params params = stoke_monitor_defaults();
    stoke_error error = { 0 };
    int r;
    Py_BEGIN_ALLOW_THREADS r = stoke_monitor_open(&self->monitor, &params, &error);
    Py_END_ALLOW_THREADS if (!r) return (PyObject *)self;
    Py_DECREF(self);
    return py_raise(r, error.message);
}

static void monitor_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_BEGIN_ALLOW_THREADS stoke_monitor_close(&((monitor *)object)->monitor);
    Py_END_ALLOW_THREADS((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *monitor_read(PyObject *self, PyObject *nothing)
{
    Py_BEGIN_ALLOW_THREADS stoke_monitor_read(monitor_of(self));
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
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
        if (py_push(gpus,
                    py_fields_out(stoke_monitor_gpu(monitor_of(self), i), gpu_fields, COUNT(gpu_fields))))
            Py_CLEAR(gpus);
    PyObject *dict =
        gpus ? py_fields_out(stoke_monitor_load(monitor_of(self)), load_fields, COUNT(load_fields)) : NULL;
    if (dict && (PyDict_SetItemString(dict, "gpus", gpus) ||
                 py_put(dict, "why", py_words(stoke_monitor_why(monitor_of(self))))))
        Py_CLEAR(dict);
    Py_XDECREF(gpus);
    return dict;
}

/* (mean, p5, p95, peak) */
static PyObject *spread_out(const stoke_spread *spread)
{
    return Py_BuildValue("(NNNN)", py_figure(spread->mean), py_figure(spread->p5), py_figure(spread->p95),
                         py_figure(spread->peak));
}

static PyObject *gpu_out(const stoke_gpu_summary *s)
{
    PyObject *dict = PyDict_New();
    if (!dict) return NULL;
    if (py_put(dict, "name", py_words(s->name)) || py_put(dict, "problem", py_words(s->problem)) ||
        py_put(dict, "busy_percent", spread_out(&s->busy_percent)) ||
        py_put(dict, "effective_percent", spread_out(&s->effective_percent)) ||
        py_put(dict, "memory_used", spread_out(&s->memory_used)) ||
        py_put(dict, "power_watt", spread_out(&s->power_watt)) ||
        py_put(dict, "temperature", spread_out(&s->temperature)) ||
        py_put(dict, "memory_total", py_figure(s->memory_total)) ||
        py_put(dict, "energy_joule", py_figure(s->energy_joule)) ||
        py_put(dict, "idle_share", py_figure(s->idle_share)) ||
        py_put(dict, "longest_idle", py_figure(s->longest_idle)))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *machine_out(const stoke_monitor_summary *s)
{
    PyObject *dict = PyDict_New();
    if (!dict) return NULL;
    if (py_put(dict, "seconds", PyFloat_FromDouble(s->seconds)) ||
        py_put(dict, "readings", PyLong_FromUnsignedLongLong(s->readings)) ||
        py_put(dict, "cpu_percent", spread_out(&s->cpu_percent)) ||
        py_put(dict, "memory_used", spread_out(&s->memory_used)) ||
        py_put(dict, "memory_total", py_figure(s->memory_total)) ||
        py_put(dict, "disk_busy_percent", spread_out(&s->disk_busy_percent)) ||
        py_put(dict, "disk_read", spread_out(&s->disk_read)) ||
        py_put(dict, "disk_write", spread_out(&s->disk_write)))
        Py_CLEAR(dict);
    return dict;
}

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
    PyObject *gpus = PyList_New(0), *dict = NULL;
    for (size_t i = 0; gpus && i < n; i++) {
        stoke_monitor_summarise_gpu(monitor_of(self), i, one);
        if (!i || less_busy(one, least)) *least = *one;
        if (py_push(gpus, gpu_out(one))) Py_CLEAR(gpus);
    }
    if (gpus) dict = machine_out(&machine);
    if (dict) {
        stoke_monitor_judge(&machine, n ? least : NULL, &verdict);
        if (PyDict_SetItemString(dict, "gpus", gpus) || py_put(dict, "verdict", py_words(verdict.text)) ||
            py_put(dict, "next", py_words(verdict.next)) ||
            py_put(dict, "why", py_words(stoke_monitor_why(monitor_of(self)))))
            Py_CLEAR(dict);
    }
    Py_XDECREF(gpus);
    PyMem_Free(one);
    return dict;
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

static PyType_Spec spec = { "stokehold._stoke.Monitor", sizeof(monitor), 0, Py_TPFLAGS_DEFAULT, slots };

int py_add_watch(PyObject *module)
{
    return py_add_type(module, &spec) ? 0 : -1;
}
