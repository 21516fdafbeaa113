/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's structs as dicts, and dicts as structs, by tables of fields: one line for each.
 */
#ifndef STOKE_PYTHON_SRC_VALUES_H
#define STOKE_PYTHON_SRC_VALUES_H

#include <stddef.h>
#include <stdio.h>

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
/* It takes the # for a directive. */
/* clang-format off */
#define PY_FIELD_AS(type, field, kind) { #field, kind, offsetof(type, field) }
#define PY_FIELD(type, field)                                                                                \
    PY_FIELD_AS(type, field, _Generic(((type *)0)->field, uint64_t: PY_U64, uint32_t: PY_U32, int: PY_BOOL,  \
        double: PY_REAL, char *: PY_TEXT, const char *: PY_NAME, stoke_figure: PY_FIGURE,                    \
        stoke_spread: PY_SPREAD))
/* Up to eight fields of a struct, whose types say their kinds; an int is a flag, unless PY_FIELD_AS says what
 * else it is. */
#define PY_FIELDS(type, ...)                                                                                 \
    PY_NINTH(__VA_ARGS__, PY_8, PY_7, PY_6, PY_5, PY_4, PY_3, PY_2, PY_1, none)(type, __VA_ARGS__)
#define PY_NINTH(a, b, c, d, e, f, g, h, ninth, ...) ninth
#define PY_1(type, field)      PY_FIELD(type, field)
#define PY_2(type, field, ...) PY_FIELD(type, field), PY_1(type, __VA_ARGS__)
#define PY_3(type, field, ...) PY_FIELD(type, field), PY_2(type, __VA_ARGS__)
#define PY_4(type, field, ...) PY_FIELD(type, field), PY_3(type, __VA_ARGS__)
#define PY_5(type, field, ...) PY_FIELD(type, field), PY_4(type, __VA_ARGS__)
#define PY_6(type, field, ...) PY_FIELD(type, field), PY_5(type, __VA_ARGS__)
#define PY_7(type, field, ...) PY_FIELD(type, field), PY_6(type, __VA_ARGS__)
#define PY_8(type, field, ...) PY_FIELD(type, field), PY_7(type, __VA_ARGS__)
/* clang-format on */

/* A new dict of a table's fields, or NULL with an exception set. */
#define py_out(from, fields) py_fields_out(from, fields, sizeof(fields) / sizeof *(fields))
PyObject *py_fields_out(const void *from, const py_field *fields, size_t n);
/* Sets the fields that `dict` has; numbers and names only. A name that is no field is a TypeError. Texts
 * become bytes in `dict`, where the struct points to them. */
#define py_in(to, fields, dict) py_fields_in(to, fields, sizeof(fields) / sizeof *(fields), dict)
int py_fields_in(void *to, const py_field *fields, size_t n, PyObject *dict);

/* `dict` with `value` under `name`; takes both references. Where one is NULL or it fails, NULL with an
 * exception set. */
PyObject *py_with(PyObject *dict, const char *name, PyObject *value);
/* Appends to a list and drops the reference to `value`; NULL passes an exception on. Returns 0 or -1. */
int py_push(PyObject *list, PyObject *value);
/* The same in a loop over what a list is made of: where it fails, *list becomes NULL. */
void py_add(PyObject **list, PyObject *value);
/* Any bytes the library may put into a message or a path; NULL is None. */
PyObject *py_words(const char *text);
/* Closes what open_memstream gave (NULL: nothing) and frees the text, which is returned as a str; NULL with
 * an exception set. */
PyObject *py_written(FILE *out, char **text, const size_t *bytes);
/* Numbers of a list, for free(); NULL with an exception set. */
double *py_reals(PyObject *list);

#endif
