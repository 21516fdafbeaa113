/* SPDX-License-Identifier: Apache-2.0
 *
 * What training loops of torch ask the library for: a curve of the loss watched and judged (findlr.h), a
 * settings file as a tree of texts (config.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/tools/config.h>
#include <stoke/tools/findlr.h>

#include "python/src/values.h"

/* ---- a curve ---- */

#define FIELD(field, kind) PY_FIELD(stoke_lr_report, field, kind)
static const py_field report_fields[] = {
    FIELD(half, PY_REAL),  FIELD(floor, PY_REAL),     FIELD(lowest, PY_REAL),     FIELD(drop, PY_REAL),
    FIELD(noise, PY_REAL), FIELD(suggested, PY_REAL), FIELD(from_curve, PY_BOOL), FIELD(why, PY_TEXT),
};
#undef FIELD

/* From two lists of the same length; 0, or -1 with an exception set. */
static int points_in(stoke_lr_report *report, PyObject *rates, PyObject *losses)
{
    const Py_ssize_t n = PyList_Size(rates);
    if (n != PyList_Size(losses)) {
        PyErr_SetString(PyExc_ValueError, "as many losses as rates");
        return -1;
    }
    report->points = calloc((size_t)n + 1, sizeof *report->points);
    if (!report->points) {
        PyErr_NoMemory();
        return -1;
    }
    report->count = (size_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        report->points[i].lr = PyFloat_AsDouble(PyList_GetItem(rates, i));
        report->points[i].loss = PyFloat_AsDouble(PyList_GetItem(losses, i));
        if (PyErr_Occurred()) return -1;
    }
    return 0;
}

static PyObject *report_out(const stoke_lr_report *report)
{
    static const char *const confidences[] = { "low", "medium", "high" };
    PyObject *dict = py_fields_out(report, report_fields, sizeof report_fields / sizeof *report_fields);
    PyObject *smooth = PyList_New(0);
    for (size_t i = 0; smooth && i < report->count; i++)
        if (py_push(smooth, PyFloat_FromDouble(report->points[i].smooth))) Py_CLEAR(smooth);
    if (dict && (!smooth || PyDict_SetItemString(dict, "smooth", smooth) ||
                 py_put(dict, "confidence", py_words(confidences[report->confidence]))))
        Py_CLEAR(dict);
    Py_XDECREF(smooth);
    return dict;
}

static PyObject *lr_judge(PyObject *module, PyObject *args)
{
    static const char *const ends[] = { "whole", "rose", "not finite" };
    PyObject *rates, *losses;
    const char *end;
    stoke_lr_report report = { 0 };
    if (!PyArg_ParseTuple(args, "O!O!sd:lr_judge", &PyList_Type, &rates, &PyList_Type, &losses, &end,
                          &report.end_lr))
        return NULL;
    int known = 0;
    for (int i = 0; i <= STOKE_LR_END_NOT_FINITE; i++)
        if (!strcmp(end, ends[i])) report.end = (stoke_lr_end)i, known = 1;
    if (!known) return PyErr_Format(PyExc_ValueError, "a sweep cannot end as %s", end);
    PyObject *result = NULL;
    stoke_error error = { 0 };
    if (!points_in(&report, rates, losses)) {
        const int r = stoke_lr_judge(&report, &error);
        result = r ? py_raise(r, error.message) : report_out(&report);
    }
    free(report.points); /* they are ours, not the library's */
    return result;
}

/* lr_watch(state, loss) -> (state, smooth, end); state None begins. */
static PyObject *lr_watch(PyObject *module, PyObject *args)
{
    static const char *const ends[] = { "whole", "rose", "not finite" };
    PyObject *state;
    double loss;
    stoke_lr_watch watch = { 0 };
    if (!PyArg_ParseTuple(args, "Od:lr_watch", &state, &loss)) return NULL;
    if (state != Py_None && !PyArg_ParseTuple(state, "dddd;a state of lr_watch", &watch.sum, &watch.share,
                                              &watch.smooth, &watch.lowest))
        return NULL;
    const stoke_lr_end end = stoke_lr_watch_next(&watch, loss);
    return Py_BuildValue("((dddd)ds)", watch.sum, watch.share, watch.smooth, watch.lowest, watch.smooth,
                         ends[end]);
}

/* ---- a settings file ---- */

static PyObject *config_values(PyObject *module, PyObject *argument)
{
    PyObject *bytes;
    stoke_yaml *yaml = NULL;
    stoke_error error = { 0 };
    if (!PyUnicode_FSConverter(argument, &bytes)) return NULL;
    int r = stoke_yaml_open(&yaml, PyBytes_AsString(bytes), &error);
    Py_DECREF(bytes);
    if (r)
        return py_raise(r == STOKE_E_FORMAT || r == STOKE_E_UNSUPPORTED ? STOKE_E_INVALID : r, error.message);
    PyObject *dict = PyDict_New();
    const char *path;
    stoke_yaml_value value;
    for (size_t i = 0; dict && stoke_yaml_at(yaml, i, &path, &value); i++)
        if (value.text && py_put(dict, path, py_words(value.text))) Py_CLEAR(dict);
    stoke_yaml_close(&yaml);
    return dict;
}

static PyMethodDef functions[] = {
    { "lr_judge", lr_judge, METH_VARARGS,
      "lr_judge(rates, losses, end, end_lr) -> dict: what the curve says." },
    { "lr_watch", lr_watch, METH_VARARGS, "lr_watch(state, loss) -> (state, smoothed loss, end)." },
    { "config_values", config_values, METH_O, "config_values(path) -> dict of texts by their dotted paths." },
    { 0 },
};

int py_add_learn(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
