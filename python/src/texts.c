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

PyMethodDef py_texts_functions[] = {
    { "lr_chart", lr_chart, METH_VARARGS,
      "lr_chart(rates, losses, smooth, suggested, svg) -> str: SVG, or characters for a terminal." },
    { "table", table, METH_VARARGS,
      "table(columns, cells) -> str: as the command sets its tables; cells are bytes, the headings first." },
    { 0 },
};
