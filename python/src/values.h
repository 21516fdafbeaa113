/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's structs as dicts, and dicts as structs, by tables of fields: one line for each.
 */
#ifndef STOKE_PYTHON_SRC_VALUES_H
#define STOKE_PYTHON_SRC_VALUES_H

#include <stddef.h>

#include <stoke/tools/monitor.h>

#include "python/src/extension.h"

typedef enum py_kind {
    PY_U64,
    PY_U32,
    PY_INT,
    PY_BOOL,   /* an int that is 0 or 1 */
    PY_REAL,   /* NaN is None */
    PY_TEXT,   /* char[]; in, it is left to the caller */
    PY_NAME,   /* const char *, NULL is None */
    PY_SOURCE, /* an int, by its name; out only, as are: */
    PY_FIGURE, /* stoke_figure: (value, source), n/a is None */
    PY_SPREAD, /* stoke_spread: (mean, p5, p95, peak) */
    PY_OTHER   /* in and out, it is left to the caller */
} py_kind;

typedef struct py_field {
    const char *name; /* of a field inside another struct what is behind the dot */
    py_kind kind;
    size_t offset;
} py_field;
/* clang-format off: it takes the # for a directive */
#define PY_FIELD(type, field, kind)                                                                          \
    {                                                                                                        \
#field, kind, offsetof(type, field)                                                                  \
    }
/* clang-format on */

/* A new dict of a table's fields, or NULL with an exception set. */
#define py_out(from, fields) py_fields_out(from, fields, sizeof(fields) / sizeof *(fields))
PyObject *py_fields_out(const void *from, const py_field *fields, size_t n);
/* Sets the fields that `dict` has; numbers and names only. A name that is no field is a TypeError. The texts
 * of names lie in objects of `keep`, a list. */
#define py_in(to, fields, dict, keep) py_fields_in(to, fields, sizeof(fields) / sizeof *(fields), dict, keep)
int py_fields_in(void *to, const py_field *fields, size_t n, PyObject *dict, PyObject *keep);

/* `dict` with `value` under `name`; takes both references. Where one is NULL or it fails, NULL with an
 * exception set. */
PyObject *py_with(PyObject *dict, const char *name, PyObject *value);
/* Appends to a list and drops the reference to `value`; NULL passes an exception on. Returns 0 or -1. */
int py_push(PyObject *list, PyObject *value);
/* Any bytes the library may put into a message or a path; NULL is None. */
PyObject *py_words(const char *text);
/* Numbers of a list, for free(); NULL with an exception set. */
double *py_reals(PyObject *list);

#endif
