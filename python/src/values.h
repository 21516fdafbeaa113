/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's structs as dicts, and dicts as structs, by tables of fields: one line for each.
 */
#ifndef STOKE_PYTHON_SRC_VALUES_H
#define STOKE_PYTHON_SRC_VALUES_H

#include <stddef.h>

#include <stoke/tools/probe.h>

#include "python/src/extension.h"

typedef enum py_kind {
    PY_U64,
    PY_U32,
    PY_INT,
    PY_BOOL,  /* an int that is 0 or 1 */
    PY_REAL,  /* NaN is None */
    PY_TEXT,  /* char[] */
    PY_NAME,  /* const char *, NULL is None */
    PY_FIGURE /* stoke_figure: (value, source), n/a is None; out only */
} py_kind;

typedef struct py_field {
    const char *name;
    py_kind kind;
    size_t offset;
} py_field;
#define PY_FIELD(type, field, kind)                                                                          \
    {                                                                                                        \
#field, kind, offsetof(type, field)                                                                  \
    }

/* A new dict, or NULL with an exception set. */
PyObject *py_fields_out(const void *from, const py_field *fields, size_t n);
/* Sets the fields that `dict` has; numbers and names only. A name that is no field is a TypeError. The texts
 * of names lie in objects of `keep`, a list. */
int py_fields_in(void *to, const py_field *fields, size_t n, PyObject *dict, PyObject *keep);

PyObject *py_figure(stoke_figure figure);
/* Adds `value` under `name` and drops the reference to it; NULL passes an exception on. Returns 0 or -1. */
int py_put(PyObject *dict, const char *name, PyObject *value);
/* Appends and drops the reference; as py_put. */
int py_push(PyObject *list, PyObject *value);
/* Any bytes the library may put into a message or a path. */
PyObject *py_words(const char *text);

#endif
