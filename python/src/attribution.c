/* SPDX-License-Identifier: Apache-2.0
 *
 * attribute, fixes, forecast: the pure functions of diagnose.h over records from Python. They are read once,
 * when somebody asks for an attribution: nothing here runs while a loop is watched.
 */
#include <math.h>
#include <string.h>

#include <stoke/tools/diagnose.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/machine.h>

#include "python/src/values.h"

/* ---- records of steps ---- */

/* From a list of dicts: names of the struct's fields, and "making": {name of a part: (wall, cpu, queued)} in
 * ns. What a dict lacks is 0, not known. */
typedef struct record_list {
    stoke_step_record *at;
    size_t n;
} record_list;

static const py_field record_fields[] = {
    PY_FIELDS(stoke_step_record, number, epoch, samples, began, first_of_epoch, ready, window_ns, pin_start),
    PY_FIELDS(stoke_step_record, pin_end, asked, got, sent, launched, copy_start, copy_end, copy_bytes),
    PY_FIELDS(stoke_step_record, augment_start, augment_end, start, end, busy_ns),
    PY_FIELD_AS(stoke_step_record, making, PY_OTHER)
};

static int read_making(stoke_step_record *record, PyObject *making)
{
    Py_ssize_t at = 0;
    PyObject *name, *times;
    while (PyDict_Next(making, &at, &name, &times)) {
        int k = 0;
        while (k < STOKE_WORK_KINDS && PyUnicode_CompareWithASCIIString(name, stoke_work_name(k))) k++;
        if (k == STOKE_WORK_KINDS)
            return py_refuse(PyExc_ValueError, "%R is no part of making a batch", name);
        unsigned long long wall, cpu, queued;
        if (!PyArg_ParseTuple(times, "KKK;a part of making is (wall, cpu, queued)", &wall, &cpu, &queued))
            return -1;
        record->making[k] = (stoke_work_time){ wall, cpu, queued };
    }
    return 0;
}

static int read_one(stoke_step_record *record, PyObject *dict)
{
    if (!PyDict_Check(dict)) return py_refuse(PyExc_TypeError, "a record is a dict");
    PyObject *making = PyDict_GetItemString(dict, "making");
    if (py_in(record, record_fields, dict)) return -1;
    return making ? read_making(record, making) : 0;
}

/* -1 with an exception set. Free with PyMem_Free. */
static int read_records(record_list *records, PyObject *list)
{
    *records = (record_list){ 0 };
    const Py_ssize_t n = PyList_Size(list);
    if (n < 0) return -1;
    const size_t bytes =
        ((size_t)n + 1) * sizeof *records->at; /* never 0; n dicts of more bytes exist already */
    if (!(records->at = PyMem_Malloc(bytes))) return py_no_memory();
    memset(records->at, 0, bytes);
    records->n = (size_t)n;
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_one(&records->at[i], PyList_GetItem(list, i))) {
            PyMem_Free(records->at);
            records->at = NULL;
            return -1;
        }
    return 0;
}

/* ---- setups ---- */

/* "batch=8 workers=2 transfer=pinned by_batch=yes" */
static int read_setup(stoke_setup *setup, const char *text)
{
    stoke_error error = { 0 };
    *setup = stoke_setup_defaults();
    error.code = stoke_setup_change(setup, text, &error);
    return py_check(&error);
}

static PyObject *setup_words(const stoke_setup *setup)
{
    char text[256];
    stoke_setup_text(setup, text, sizeof text);
    return PyUnicode_FromString(text);
}

static PyObject *setup_text(PyObject *module, PyObject *args)
{
    const char *text;
    stoke_setup setup;
    if (!PyArg_ParseTuple(args, "s:setup_text", &text) || read_setup(&setup, text)) return NULL;
    return setup_words(&setup);
}

/* ---- attribution ---- */

static const py_field attribution_fields[] = { PY_FIELDS(stoke_attribution, steps, elapsed_ns, busy_ns,
                                                         idle_ns, input_ns, fetch_ns, copy_ns, augment_ns),
                                               PY_FIELDS(stoke_attribution, overlapped_copy_ns) };

static PyObject *attribution_out(const stoke_attribution *a)
{
    const char *after = a->unknown_after < 0 ? NULL : stoke_idle_name(a->unknown_after);
    PyObject *list = PyList_New(0);
    /* (name, ns, meaning, whether it is waiting for input), all of them, in the order of the pipeline. */
    for (int k = 0; list && k < STOKE_IDLES; k++)
        py_add(&list, Py_BuildValue("(sKsN)", stoke_idle_name(k), (unsigned long long)a->idle[k],
                                    stoke_idle_meaning(k), PyBool_FromLong(k < STOKE_IDLE_INPUTS)));
    PyObject *dict = py_with(py_out(a, attribution_fields), "causes", list);
    return py_with(dict, "unknown_after", py_words(after));
}

static PyObject *attribute(PyObject *module, PyObject *args)
{
    PyObject *list;
    Py_ssize_t from;
    const char *text;
    stoke_setup setup;
    record_list records;
    if (!PyArg_ParseTuple(args, "O!ns:attribute", &PyList_Type, &list, &from, &text)) return NULL;
    if (read_setup(&setup, text) || read_records(&records, list)) return NULL;
    stoke_attribution a;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_attribute(records.at, records.n, from < 0 ? 0 : (size_t)from, &setup, &a,
                                             NULL, &error));
    PyMem_Free(records.at);
    return error.code ? py_raise(&error) : attribution_out(&a);
}

/* ---- costs ---- */

typedef struct costing {
    stoke_costs costs;
    record_list records;
    double *step_ms;
    double pageable_ms, pinned_ms; /* of a copy */
} costing;

static const py_field cost_fields[] = {
    PY_FIELDS(costing, costs.cores, costs.launch_ms, costs.host_ms, costs.restart_ms, costs.steps_per_epoch,
              costs.processor, pageable_ms, pinned_ms),
};

static void forget(costing *c)
{
    PyMem_Free(c->records.at);
    PyMem_Free(c->step_ms);
}

/* Times of steps are those of the records. Others' loaders augment on the host, as far as one can see. */
static int read_costs(costing *c, const char *setup, PyObject *list, PyObject *numbers)
{
    *c = (costing){ .costs = stoke_costs_defaults(), .pageable_ms = NAN, .pinned_ms = NAN };
    if (read_setup(&c->costs.measured, setup)) return -1;
    if (py_in(c, cost_fields, numbers)) return -1;
    if (read_records(&c->records, list)) return -1;
    const size_t n = c->records.n;
    c->step_ms = PyMem_Malloc((n + 1) * sizeof *c->step_ms);
    if (!c->step_ms) {
        forget(c);
        return py_no_memory();
    }
    for (size_t i = 0; i < n; i++) {
        const stoke_step_record *r = &c->records.at[i];
        c->step_ms[i] = r->end > r->start ? (double)(r->end - r->start) / 1e6 : 0;
    }
    c->costs.step_ms = c->step_ms;
    c->costs.n_steps = n;
    c->costs.side[c->costs.measured.placement] =
        (stoke_side){ c->records.at, n, c->pageable_ms, c->pinned_ms, { NAN, NAN }, { NAN, NAN } };
    return 0;
}

static const py_field forecast_fields[] = { PY_FIELDS(stoke_forecast, step_ms, low_ms, high_ms, busy,
                                                      busy_low, busy_high, closed_ms) };

static PyObject *forecast_out(const stoke_forecast *f)
{
    return py_with(py_out(f, forecast_fields), "limit",
                   py_words(f->limit < 0 ? "the device" : stoke_idle_name(f->limit)));
}

static PyObject *forecast(PyObject *module, PyObject *args)
{
    const char *measured, *change;
    PyObject *list, *numbers;
    unsigned long long seed;
    costing c;
    if (!PyArg_ParseTuple(args, "sO!O!sK:forecast", &measured, &PyList_Type, &list, &PyDict_Type, &numbers,
                          &change, &seed))
        return NULL;
    if (read_costs(&c, measured, list, numbers)) return NULL;
    stoke_setup setup = c.costs.measured;
    stoke_forecast made;
    stoke_error error = { 0 };
    error.code = stoke_setup_change(&setup, change, &error);
    PY_UNLOCKED(if (!error.code) error.code = stoke_forecast_make(&c.costs, &setup, seed, &made, &error));
    forget(&c);
    return error.code ? py_raise(&error) : forecast_out(&made);
}

/* ---- fixes ---- */

static const py_field fix_fields[] = {
    PY_FIELDS(stoke_fix, applies, what, change, setting, gain_ms, gain_low, gain_high),
    PY_FIELD_AS(stoke_fix, order, PY_INT), PY_FIELDS(stoke_fix, marginal_ms)
};

static PyObject *fixes_out(const stoke_fixes *found)
{
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < STOKE_CAUSES; k++) {
        const stoke_fix *fix = &found->fix[k];
        PyObject *dict = py_with(py_out(fix, fix_fields), "cause", py_words(stoke_cause_name(fix->cause)));
        py_add(&list,
               py_with(dict, "busy", fix->applies ? PyFloat_FromDouble(fix->alone.busy) : py_words(NULL)));
    }
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:d}", "fixes", list, "now", forecast_out(&found->now), "together",
                         forecast_out(&found->together), "all", setup_words(&found->all), "gain_all_ms",
                         found->gain_all_ms);
}

static PyObject *fixes(PyObject *module, PyObject *args)
{
    const char *measured;
    PyObject *list, *numbers;
    unsigned long long seed;
    costing c;
    if (!PyArg_ParseTuple(args, "sO!O!K:fixes", &measured, &PyList_Type, &list, &PyDict_Type, &numbers,
                          &seed))
        return NULL;
    if (read_costs(&c, measured, list, numbers)) return NULL;
    stoke_fixes *found = PyMem_Malloc(sizeof *found);
    if (!found) {
        forget(&c);
        return PyErr_NoMemory();
    }
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_fixes_find(found, &c.costs, stoke_machine_cores().usable, seed, &error));
    forget(&c);
    PyObject *result = error.code ? py_raise(&error) : fixes_out(found);
    PyMem_Free(found);
    return result;
}

PyMethodDef py_attribution_functions[] = {
    { "setup_text", setup_text, METH_VARARGS, "setup_text(changes) -> str: a setup as a sentence." },
    { "attribute", attribute, METH_VARARGS,
      "attribute(records, from_, setup) -> dict: idle time by exclusive causes." },
    { "forecast", forecast, METH_VARARGS,
      "forecast(setup, records, costs, change, seed) -> dict: what a step would take." },
    { "fixes", fixes, METH_VARARGS, "fixes(setup, records, costs, seed) -> dict: what each fix would give." },
    { 0 },
};
