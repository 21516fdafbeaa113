/* SPDX-License-Identifier: Apache-2.0
 *
 * From status codes to exceptions. The classes stand in stokehold/_errors.py, where people read them.
 */
#include "python/src/extension.h"

static PyObject *from_status; /* stokehold._errors.from_status(message, code, name) -> exception */

PyObject *py_raise(int status, const char *message)
{
    /* A path may hold bytes that are no UTF-8: the message must come all the same. */
    PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "backslashreplace");
    PyObject *error =
        text ? PyObject_CallFunction(from_status, "Ois", text, status, stoke_status_name(status)) : NULL;
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(text);
    return NULL;
}

int py_add_errors(PyObject *module)
{
    PyObject *errors = PyImport_ImportModule("stokehold._errors");
    if (!errors) return -1;
    from_status = PyObject_GetAttrString(errors, "from_status");
    Py_DECREF(errors);
    return from_status ? 0 : -1;
}
