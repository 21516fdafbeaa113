/* SPDX-License-Identifier: Apache-2.0
 *
 * attribute, fixes, forecast: the pure functions of diagnose.h over records from Python.
 */
#include "python/src/records.h"
#include "python/src/values.h"

#include <math.h>

#include <stoke/tools/machine.h>

/* "batch=8 workers=2 transfer=pinned by_batch=yes" */
static int read_setup(stoke_setup *setup, const char *text)
{
    stoke_error error = { 0 };
    *setup = stoke_setup_defaults();
    return py_check(stoke_setup_change(setup, text, &error), &error);
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

#define FIELD(field, kind) PY_FIELD(stoke_attribution, field, kind)
static const py_field attribution_fields[] = {
    FIELD(steps, PY_U64),   FIELD(elapsed_ns, PY_U64), FIELD(busy_ns, PY_U64),
    FIELD(idle_ns, PY_U64), FIELD(input_ns, PY_U64),   FIELD(fetch_ns, PY_U64),
    FIELD(copy_ns, PY_U64), FIELD(augment_ns, PY_U64), FIELD(overlapped_copy_ns, PY_U64),
};
#undef FIELD

/* (name, ns, meaning, whether it is waiting for input), all of them, in the order of the pipeline. */
static PyObject *causes_out(const stoke_attribution *a)
{
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < STOKE_IDLES; k++)
        if (py_push(list, Py_BuildValue("(sKsN)", stoke_idle_name(k), (unsigned long long)a->idle[k],
                                        stoke_idle_meaning(k), PyBool_FromLong(k < STOKE_IDLE_INPUTS))))
            Py_CLEAR(list);
    return list;
}

static PyObject *attribution_out(const stoke_attribution *a)
{
    const char *after = a->unknown_after < 0 ? NULL : stoke_idle_name(a->unknown_after);
    PyObject *dict = py_with(py_out(a, attribution_fields), "causes", causes_out(a));
    return py_with(dict, "unknown_after", py_words(after));
}

static PyObject *attribute(PyObject *module, PyObject *args)
{
    PyObject *list;
    Py_ssize_t from;
    const char *text;
    stoke_setup setup;
    py_records records;
    if (!PyArg_ParseTuple(args, "O!ns:attribute", &PyList_Type, &list, &from, &text)) return NULL;
    if (read_setup(&setup, text) || py_records_read(&records, list)) return NULL;
    stoke_attribution a;
    stoke_error error = { 0 };
    int r;
    PY_UNLOCKED(
        r = stoke_attribute(records.at, records.n, from < 0 ? 0 : (size_t)from, &setup, &a, NULL, &error));
    PyMem_Free(records.at);
    return r ? py_raise(r, error.message) : attribution_out(&a);
}

/* ---- costs ---- */

typedef struct costing {
    stoke_costs costs;
    py_records records;
    double *step_ms;
    double copy_ms[2]; /* pageable, pinned */
} costing;

static const py_field cost_fields[] = {
    { "cores", PY_REAL, offsetof(costing, costs.cores) },
    { "launch_ms", PY_REAL, offsetof(costing, costs.launch_ms) },
    { "host_ms", PY_REAL, offsetof(costing, costs.host_ms) },
    { "restart_ms", PY_REAL, offsetof(costing, costs.restart_ms) },
    { "steps_per_epoch", PY_U64, offsetof(costing, costs.steps_per_epoch) },
    { "processor", PY_BOOL, offsetof(costing, costs.processor) },
    { "pageable_ms", PY_REAL, offsetof(costing, copy_ms[0]) },
    { "pinned_ms", PY_REAL, offsetof(costing, copy_ms[1]) },
};

static void forget(costing *c)
{
    PyMem_Free(c->records.at);
    PyMem_Free(c->step_ms);
}

/* Times of steps are those of the records. Others' loaders augment on the host, as far as one can see. */
static int read_costs(costing *c, const char *setup, PyObject *list, PyObject *numbers)
{
    *c = (costing){ .costs = stoke_costs_defaults(), .copy_ms = { NAN, NAN } };
    if (read_setup(&c->costs.measured, setup)) return -1;
    if (py_in(c, cost_fields, numbers, NULL)) return -1;
    if (py_records_read(&c->records, list)) return -1;
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
        (stoke_side){ c->records.at, n, c->copy_ms[0], c->copy_ms[1], { NAN, NAN }, { NAN, NAN } };
    return 0;
}

#define FIELD(field, kind) PY_FIELD(stoke_forecast, field, kind)
static const py_field forecast_fields[] = {
    FIELD(step_ms, PY_REAL),  FIELD(low_ms, PY_REAL),    FIELD(high_ms, PY_REAL),   FIELD(busy, PY_REAL),
    FIELD(busy_low, PY_REAL), FIELD(busy_high, PY_REAL), FIELD(closed_ms, PY_REAL),
};
#undef FIELD

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
    int r = stoke_setup_change(&setup, change, &error);
    PY_UNLOCKED(if (!r) r = stoke_forecast_make(&c.costs, &setup, seed, &made, &error));
    forget(&c);
    return r ? py_raise(r, error.message) : forecast_out(&made);
}

/* ---- fixes ---- */

#define FIELD(field, kind) PY_FIELD(stoke_fix, field, kind)
static const py_field fix_fields[] = {
    FIELD(applies, PY_BOOL),   FIELD(what, PY_TEXT),    FIELD(change, PY_TEXT),
    FIELD(setting, PY_NAME),   FIELD(gain_ms, PY_REAL), FIELD(gain_low, PY_REAL),
    FIELD(gain_high, PY_REAL), FIELD(order, PY_INT),    FIELD(marginal_ms, PY_REAL),
};
#undef FIELD

static PyObject *fix_out(const stoke_fix *fix)
{
    PyObject *dict = py_with(py_out(fix, fix_fields), "cause", py_words(stoke_cause_name(fix->cause)));
    return py_with(dict, "busy", fix->applies ? PyFloat_FromDouble(fix->alone.busy) : py_words(NULL));
}

static PyObject *fixes_out(const stoke_fixes *found)
{
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < STOKE_CAUSES; k++)
        if (py_push(list, fix_out(&found->fix[k]))) Py_CLEAR(list);
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
    int r;
    PY_UNLOCKED(r = stoke_fixes_find(found, &c.costs, stoke_machine_cores().usable, seed, &error));
    forget(&c);
    PyObject *result = r ? py_raise(r, error.message) : fixes_out(found);
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
