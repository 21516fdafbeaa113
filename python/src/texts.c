/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library draws and sets for people, as texts: charts (chart.h) and tables (report.h).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <stoke/tools/chart.h>
#include <stoke/tools/report.h>

#include "python/src/values.h"

/* ---- a curve of the loss ---- */

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
        error.code = out ? draw(curves, (size_t)n, suggested, svg, out, &error) : STOKE_E_NOMEM;
        if (out) fclose(out);
        result = error.code ? py_raise(&error) : PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace");
    }
    free(text);
    for (int i = 0; i < 3; i++) free(curves[i]);
    return result;
}

/* ---- a table ---- */

/* One row of texts, None for n/a, into cells that `keep` owns. 0, or -1 with an exception set. */
static int cells_in(const char **cells, Py_ssize_t columns, PyObject *row, PyObject *keep)
{
    if (!PyList_Check(row) || PyList_Size(row) != columns) {
        PyErr_SetString(PyExc_TypeError, "a row is a list, as long as the headings");
        return -1;
    }
    for (Py_ssize_t i = 0; i < columns; i++) {
        PyObject *text = PyList_GetItem(row, i);
        PyObject *bytes = text == Py_None ? NULL : PyUnicode_AsEncodedString(text, "utf-8", "replace");
        cells[i] = bytes ? PyBytes_AsString(bytes) : NULL;
        if (PyErr_Occurred() || (bytes && py_push(keep, bytes))) return -1;
    }
    return 0;
}

static stoke_table *table_in(PyObject *headings, PyObject *rows, PyObject *keep)
{
    enum { COLUMNS = 16 };
    const char *cells[COLUMNS];
    const Py_ssize_t columns = PyList_Size(headings);
    if (columns < 1 || columns > COLUMNS) {
        PyErr_SetString(PyExc_ValueError, "a table has 1 to 16 columns");
        return NULL;
    }
    if (cells_in(cells, columns, headings, keep)) return NULL;
    stoke_table *table = stoke_table_create(cells, (size_t)columns);
    if (!table) PyErr_NoMemory();
    for (Py_ssize_t i = 0; table && i < PyList_Size(rows); i++) {
        if (cells_in(cells, columns, PyList_GetItem(rows, i), keep))
            stoke_table_destroy(&table);
        else
            stoke_table_row(table, cells);
    }
    return table;
}

static PyObject *table(PyObject *module, PyObject *args)
{
    PyObject *headings, *rows, *keep = PyList_New(0), *result = NULL;
    char *text = NULL;
    size_t bytes = 0;
    if (keep && PyArg_ParseTuple(args, "O!O!:table", &PyList_Type, &headings, &PyList_Type, &rows)) {
        stoke_table *made = table_in(headings, rows, keep);
        FILE *out = made ? open_memstream(&text, &bytes) : NULL;
        if (out) {
            stoke_table_print(made, out);
            if (fclose(out))
                PyErr_NoMemory();
            else
                result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace");
        } else if (made) {
            PyErr_NoMemory();
        }
        stoke_table_destroy(&made);
    }
    free(text);
    Py_XDECREF(keep);
    return result;
}

PyMethodDef py_texts_functions[] = {
    { "lr_chart", lr_chart, METH_VARARGS,
      "lr_chart(rates, losses, smooth, suggested, svg) -> str: SVG, or characters for a terminal." },
    { "table", table, METH_VARARGS, "table(headings, rows) -> str: as the command sets its tables." },
    { 0 },
};
