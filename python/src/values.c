/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of structs, to and from Python.
 */
#include "python/src/values.h"

#include <math.h>
#include <string.h>

PyObject *py_words(const char *text)
{
    if (!text) Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

int py_put(PyObject *dict, const char *name, PyObject *value)
{
    const int r = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return r;
}

int py_push(PyObject *list, PyObject *value)
{
    const int r = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return r;
}

static PyObject *real(double value)
{
    if (isnan(value)) Py_RETURN_NONE;
    return PyFloat_FromDouble(value);
}

PyObject *py_figure(stoke_figure figure)
{
    if (figure.source == STOKE_SOURCE_NA) Py_RETURN_NONE;
    return Py_BuildValue("(ds)", figure.value, stoke_source_name(figure.source));
}

static PyObject *value_out(const void *at, py_kind kind)
{
    switch (kind) {
    case PY_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    case PY_U32: return PyLong_FromUnsignedLong(*(const uint32_t *)at);
    case PY_INT: return PyLong_FromLong(*(const int *)at);
    case PY_BOOL: return PyBool_FromLong(*(const int *)at);
    case PY_REAL: return real(*(const double *)at);
    case PY_TEXT: return py_words(at);
    case PY_NAME: return py_words(*(const char *const *)at);
    case PY_FIGURE: return py_figure(*(const stoke_figure *)at);
    }
    return NULL;
}

PyObject *py_fields_out(const void *from, const py_field *fields, size_t n)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < n; i++)
        if (py_put(dict, fields[i].name, value_out((const char *)from + fields[i].offset, fields[i].kind)))
            Py_CLEAR(dict);
    return dict;
}

/* The bytes live as long as `keep` does. */
static int name_in(const char **at, PyObject *value, PyObject *keep)
{
    PyObject *bytes = NULL;
    if (value == Py_None) {
        *at = NULL;
        return 0;
    }
    if (!PyUnicode_FSConverter(value, &bytes)) return -1;
    *at = PyBytes_AsString(bytes);
    return py_push(keep, bytes);
}

static int u32_in(uint32_t *at, const char *name, PyObject *value)
{
    const unsigned long number = PyLong_AsUnsignedLong(value);
    if (PyErr_Occurred()) return -1;
    if (number > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%s: %lu is too large", name, number);
        return -1;
    }
    *at = (uint32_t)number;
    return 0;
}

static int value_in(void *at, const py_field *field, PyObject *value, PyObject *keep)
{
    switch (field->kind) {
    case PY_U64: *(uint64_t *)at = PyLong_AsUnsignedLongLong(value); break;
    case PY_U32: return u32_in(at, field->name, value);
    case PY_INT: *(int *)at = (int)PyLong_AsLong(value); break;
    case PY_BOOL: *(int *)at = PyObject_IsTrue(value); break;
    case PY_REAL: *(double *)at = value == Py_None ? NAN : PyFloat_AsDouble(value); break;
    case PY_NAME: return name_in(at, value, keep);
    default: PyErr_Format(PyExc_TypeError, "%s cannot be set", field->name);
    }
    return PyErr_Occurred() ? -1 : 0;
}

int py_fields_in(void *to, const py_field *fields, size_t n, PyObject *dict, PyObject *keep)
{
    Py_ssize_t at = 0;
    PyObject *name, *value;
    while (PyDict_Next(dict, &at, &name, &value)) {
        size_t i = 0;
        while (i < n && PyUnicode_CompareWithASCIIString(name, fields[i].name)) i++;
        if (i == n) {
            PyErr_Format(PyExc_TypeError, "there is no %R here", name);
            return -1;
        }
        if (value_in((char *)to + fields[i].offset, &fields[i], value, keep)) return -1;
    }
    return 0;
}
