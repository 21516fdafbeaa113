/* SPDX-License-Identifier: Apache-2.0
 *
 * What training loops of torch ask the library for: a curve of the loss watched, judged (findlr.h) and drawn
 * (chart.h), a table as the command sets it (report.h), a settings file as a tree of texts (config.h).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/tools/chart.h>
#include <stoke/tools/config.h>
#include <stoke/tools/findlr.h>
#include <stoke/tools/report.h>

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

static int draw(double *const curves[3], size_t n, double suggested, int svg, FILE *out, stoke_error *err)
{
    enum { COLUMNS = 72, ROWS = 16 };
    const stoke_series series[] = {
        { .name = "loss", .x = curves[0], .y = curves[1], .count = n, .faint = 1 },
        { .name = "smoothed", .x = curves[0], .y = curves[2], .count = n },
    };
    const stoke_mark mark = { .x = suggested, .text = "suggested" };
    stoke_chart chart = stoke_chart_defaults();
    chart.title = "Loss over the learning rate";
    chart.x_label = "learning rate";
    chart.y_label = "loss";
    chart.series = series;
    chart.n_series = 2;
    chart.marks = &mark;
    chart.n_marks = isfinite(suggested);
    chart.log_x = 1;
    return svg ? stoke_chart_svg(&chart, out, err) : stoke_chart_text(&chart, COLUMNS, ROWS, out, err);
}

static PyObject *lr_chart(PyObject *module, PyObject *args)
{
    PyObject *lists[3];
    double suggested;
    int svg;
    if (!PyArg_ParseTuple(args, "O!O!O!dp:lr_chart", &PyList_Type, &lists[0], &PyList_Type, &lists[1],
                          &PyList_Type, &lists[2], &suggested, &svg))
        return NULL;
    const Py_ssize_t n = PyList_Size(lists[0]);
    if (!n || PyList_Size(lists[1]) != n || PyList_Size(lists[2]) != n)
        return PyErr_Format(PyExc_ValueError, "a curve has as many losses as rates, one at least");
    PyObject *result = NULL;
    char *text = NULL;
    size_t bytes = 0;
    stoke_error error = { 0 };
    double *curves[3] = { 0 };
    for (int i = 0; i < 3 && !PyErr_Occurred(); i++) curves[i] = py_reals(lists[i]);
    if (!PyErr_Occurred()) {
        FILE *out = open_memstream(&text, &bytes);
        if (out) error.code = draw(curves, (size_t)n, suggested, svg, out, &error);
        result = py_written(out, &text, &bytes);
        if (error.code) {
            Py_CLEAR(result);
            py_raise(&error);
        }
    }
    for (int i = 0; i < 3; i++) free(curves[i]);
    return result;
}

/* ---- a table ---- */

/* From cells row by row, the headings first: bytes, or None for n/a. NULL with an exception set. */
static stoke_table *table_in(Py_ssize_t columns, PyObject *all)
{
    enum { COLUMNS = 16 };
    const char *cells[COLUMNS];
    const Py_ssize_t n = PyList_Size(all);
    stoke_table *table = NULL;
    if (columns < 1 || columns > COLUMNS || !n || n % columns) {
        PyErr_SetString(PyExc_ValueError, "a table has 1 to 16 columns, and rows as long as the headings");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
        PyObject *cell = PyList_GetItem(all, i);
        cells[i % columns] = cell == Py_None ? NULL : PyBytes_AsString(cell);
        if (PyErr_Occurred() || (i + 1) % columns) continue;
        if (table)
            stoke_table_row(table, cells);
        else if (!(table = stoke_table_create(cells, (size_t)columns)))
            PyErr_NoMemory();
    }
    if (PyErr_Occurred()) stoke_table_destroy(&table);
    return table;
}

static PyObject *table(PyObject *module, PyObject *args)
{
    PyObject *cells;
    Py_ssize_t columns;
    char *text = NULL;
    size_t bytes = 0;
    if (!PyArg_ParseTuple(args, "nO!:table", &columns, &PyList_Type, &cells)) return NULL;
    stoke_table *made = table_in(columns, cells);
    if (!made) return NULL;
    FILE *out = open_memstream(&text, &bytes);
    if (out) stoke_table_print(made, out);
    stoke_table_destroy(&made);
    return py_written(out, &text, &bytes);
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
    { "lr_chart", lr_chart, METH_VARARGS,
      "lr_chart(rates, losses, smooth, suggested, svg) -> str: SVG, or characters for a terminal." },
    { "table", table, METH_VARARGS,
      "table(columns, cells) -> str: as the command sets its tables; cells are bytes, the headings first." },
    { "config_values", config_values, METH_VARARGS,
      "config_values(path, merged) -> list of (dotted path, text or None, quoted); merged: those of << "
      "too." },
    { 0 },
};
