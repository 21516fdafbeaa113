/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of structs, to and from Python.
 */
#include "python/src/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

PyObject *py_words(const char *text)
{
    if (!text) Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

PyObject *py_with(PyObject *dict, const char *name, PyObject *value)
{
    if (dict && (!value || PyDict_SetItemString(dict, name, value))) Py_CLEAR(dict);
    Py_XDECREF(value);
    return dict;
}

int py_push(PyObject *list, PyObject *value)
{
    const int r = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return r;
}

void py_add(PyObject **list, PyObject *value)
{
    if (py_push(*list, value)) Py_CLEAR(*list);
}

PyObject *py_written(FILE *out, char **text, const size_t *bytes)
{
    PyObject *words = out && !fclose(out) ? PyUnicode_DecodeUTF8(*text, (Py_ssize_t)*bytes, "replace") : NULL;
    if (!words && !PyErr_Occurred()) PyErr_NoMemory();
    free(*text);
    *text = NULL;
    return words;
}

double *py_reals(PyObject *list)
{
    const size_t n = (size_t)PyList_Size(list);
    double *numbers = calloc(n + 1, sizeof *numbers);
    if (!numbers) return (double *)PyErr_NoMemory();
    for (size_t i = 0; i < n; i++) numbers[i] = PyFloat_AsDouble(PyList_GetItem(list, (Py_ssize_t)i));
    if (!PyErr_Occurred()) return numbers;
    free(numbers);
    return NULL;
}

static PyObject *figure_out(stoke_figure figure)
{
    if (figure.source == STOKE_SOURCE_NA) Py_RETURN_NONE;
    return Py_BuildValue("(ds)", figure.value, stoke_source_name(figure.source));
}

static PyObject *value_out(const void *at, py_kind kind)
{
    const stoke_spread *spread;
    switch (kind) {
    case PY_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    case PY_U32: return PyLong_FromUnsignedLong(*(const uint32_t *)at);
    case PY_INT: return PyLong_FromLong(*(const int *)at);
    case PY_BOOL: return PyBool_FromLong(*(const int *)at);
    case PY_REAL:
        return isnan(*(const double *)at) ? py_words(NULL) : PyFloat_FromDouble(*(const double *)at);
    case PY_TEXT: return py_words(at);
    case PY_NAME: return py_words(*(const char *const *)at);
    case PY_SOURCE: return py_words(stoke_source_name(*(const int *)at));
    case PY_FIGURE: return figure_out(*(const stoke_figure *)at);
    case PY_SPREAD:
        spread = at;
        return Py_BuildValue("(NNNN)", figure_out(spread->mean), figure_out(spread->p5),
                             figure_out(spread->p95), figure_out(spread->peak));
    case PY_OTHER: break;
    }
    return NULL;
}

/* Of a field inside another struct what is behind the dot. */
static const char *name_of(const py_field *field)
{
    const char *dot = strrchr(field->name, '.');
    return dot ? dot + 1 : field->name;
}

PyObject *py_fields_out(const void *from, const py_field *fields, size_t n)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < n; i++) {
        if (fields[i].kind == PY_OTHER) continue;
        dict = py_with(dict, name_of(&fields[i]),
                       value_out((const char *)from + fields[i].offset, fields[i].kind));
    }
    return dict;
}

static int value_in(void *at, const py_field *field, PyObject *value, PyObject *dict, PyObject *name)
{
    PyObject *bytes;
    unsigned long number;
    int r;
    switch (field->kind) {
    case PY_U64: *(uint64_t *)at = PyLong_AsUnsignedLongLong(value); break;
    case PY_U32:
        number = PyLong_AsUnsignedLong(value);
        *(uint32_t *)at = (uint32_t)number;
        if (!PyErr_Occurred() && number > UINT32_MAX)
            PyErr_Format(PyExc_OverflowError, "%s: %lu is too large", field->name, number);
        break;
    case PY_INT: *(int *)at = (int)PyLong_AsLong(value); break;
    case PY_BOOL: *(int *)at = PyObject_IsTrue(value); break;
    case PY_REAL: *(double *)at = value == Py_None ? NAN : PyFloat_AsDouble(value); break;
    case PY_NAME:
        *(const char **)at = NULL;
        if (value == Py_None) return 0;
        if (!PyUnicode_FSConverter(value, &bytes)) return -1;
        *(const char **)at = PyBytes_AsString(bytes);
        r = PyDict_SetItem(dict, name, bytes);
        Py_DECREF(bytes);
        return r;
    case PY_TEXT:
    case PY_OTHER: break;
    default: PyErr_Format(PyExc_TypeError, "%s cannot be set", field->name);
    }
    return PyErr_Occurred() ? -1 : 0;
}

int py_fields_in(void *to, const py_field *fields, size_t n, PyObject *dict)
{
    Py_ssize_t at = 0;
    PyObject *name, *value;
    while (PyDict_Next(dict, &at, &name, &value)) {
        size_t i = 0;
        while (i < n && PyUnicode_CompareWithASCIIString(name, name_of(&fields[i]))) i++;
        if (i == n) return py_refuse(PyExc_TypeError, "there is no %R here", name);
        if (value_in((char *)to + fields[i].offset, &fields[i], value, dict, name)) return -1;
    }
    return 0;
}
