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

static const py_field report_fields[] = { PY_FIELDS(stoke_lr_report, half, floor, lowest, drop, noise,
                                                    suggested, from_curve, why) };

static const char *const ends[] = { "whole", "rose", "not finite" };

/* From two lists of the same length; 0, or -1 with an exception set. */
static int points_in(stoke_lr_report *report, PyObject *lists[2])
{
    report->count = (size_t)PyList_Size(lists[0]);
    if (report->count != (size_t)PyList_Size(lists[1]))
        return py_refuse(PyExc_ValueError, "as many losses as rates");
    double *rates = py_reals(lists[0]), *losses = rates ? py_reals(lists[1]) : NULL;
    if (losses && !(report->points = calloc(report->count + 1, sizeof *report->points))) PyErr_NoMemory();
    for (size_t i = 0; report->points && i < report->count; i++)
        report->points[i] = (stoke_lr_point){ .lr = rates[i], .loss = losses[i] };
    free(rates);
    free(losses);
    return report->points ? 0 : -1;
}

static PyObject *report_out(const stoke_lr_report *report)
{
    static const char *const confidences[] = { "low", "medium", "high" };
    PyObject *smooth = PyList_New(0);
    for (size_t i = 0; smooth && i < report->count; i++)
        py_add(&smooth, PyFloat_FromDouble(report->points[i].smooth));
    return py_with(py_with(py_out(report, report_fields), "smooth", smooth), "confidence",
                   py_words(confidences[report->confidence]));
}

static PyObject *lr_judge(PyObject *module, PyObject *args)
{
    PyObject *lists[2];
    const char *end;
    stoke_lr_report report = { 0 };
    if (!PyArg_ParseTuple(args, "O!O!sd:lr_judge", &PyList_Type, &lists[0], &PyList_Type, &lists[1], &end,
                          &report.end_lr))
        return NULL;
    int known = STOKE_LR_END_NOT_FINITE;
    while (known >= 0 && strcmp(end, ends[known])) known--;
    if (known < 0) return PyErr_Format(PyExc_ValueError, "a sweep cannot end as %s", end);
    report.end = (stoke_lr_end)known;
    PyObject *result = NULL;
    stoke_error error = { 0 };
    if (!points_in(&report, lists)) {
        error.code = stoke_lr_judge(&report, &error);
        result = error.code ? py_raise(&error) : report_out(&report);
    }
    free(report.points); /* they are ours, not the library's */
    return result;
}

/* lr_watch(state, loss) -> (state, smooth, end); state None begins. */
static PyObject *lr_watch(PyObject *module, PyObject *args)
{
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

static int value_out(void *list, const char *path, const stoke_yaml_value *value)
{
    return py_push(list, Py_BuildValue("(NNi)", py_words(path), py_words(value->text), value->quoted));
}

static PyObject *config_values(PyObject *module, PyObject *args)
{
    PyObject *list = NULL;
    const char *file;
    int merged;
    stoke_yaml *yaml = NULL;
    stoke_error error = { 0 };
    if (!PyArg_ParseTuple(args, "yp:config_values", &file, &merged)) return NULL;
    error.code = stoke_yaml_open_checked(&yaml, file, &error);
    if (error.code == STOKE_E_FORMAT || error.code == STOKE_E_UNSUPPORTED) error.code = STOKE_E_INVALID;
    if (!py_check(&error)) list = PyList_New(0);
    const char *path;
    stoke_yaml_value value;
    for (size_t i = 0; list && stoke_yaml_at(yaml, i, &path, &value); i++)
        if (value_out(list, path, &value)) Py_CLEAR(list);
    if (list && merged && stoke_yaml_merged(yaml, value_out, list)) Py_CLEAR(list);
    stoke_yaml_close(&yaml);
    return list;
}

PyMethodDef py_learn_functions[] = {
    { "lr_judge", lr_judge, METH_VARARGS,
      "lr_judge(rates, losses, end, end_lr) -> dict: what the curve says." },
    { "lr_watch", lr_watch, METH_VARARGS, "lr_watch(state, loss) -> (state, smoothed loss, end)." },
    { "config_values", config_values, METH_VARARGS,
      "config_values(path, merged) -> list of (dotted path, text or None, quoted); merged: those of << "
      "too." },
    { 0 },
};
