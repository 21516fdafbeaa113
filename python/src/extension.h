/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension stokehold._stoke: the library's objects as Python objects, and nothing else. module.c puts
 * together the types and functions of the others, and turns status codes into exceptions.
 *
 *   settings.c  a dict of texts -> stoke_data_params, by the option tables
 *   pinned.c    _stoke.Pinned: where pinned memory comes from
 *   array.c     _stoke.Array: a view of memory that somebody holds; dlpack.c gives it to others
 *   batch.c     _stoke.Batch: one batch of a loader or of rows
 *   loader.c    _stoke.Loader: a data set with its loader
 *   pixels.c    an object of Python -> stoke_pixels
 *   rows.c      _stoke.Rows: batches from pictures in memory
 *   device_rows.c  _stoke.DeviceRows: the same where a batch lies on a device
 *   order.c     which sample stands where
 *   values.c    structs <-> dicts, by tables of fields
 *   attribution.c  what records of steps tell
 *   learn.c     a curve of the loss judged and drawn; a table; a settings file as texts
 *   tune.c      estimate, recommend, check, optimize, a batch by trials; watch.c: _stoke.Monitor
 *
 * Limited API of CPython 3.9. Only <stoke/...> of the library is used. Rule for locks: nobody waits for the
 * GIL while holding one.
 */
#ifndef STOKE_PYTHON_SRC_EXTENSION_H
#define STOKE_PYTHON_SRC_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stoke/common.h>

/* Calls the library without the GIL: whatever may wait. */
#define PY_UNLOCKED(...)                                                                                     \
    do {                                                                                                     \
        Py_BEGIN_ALLOW_THREADS __VA_ARGS__;                                                                  \
        Py_END_ALLOW_THREADS                                                                                 \
    } while (0)

extern PyMethodDef py_settings_functions[], py_order_functions[], py_attribution_functions[],
    py_tune_functions[], py_learn_functions[];
extern PyType_Spec py_pinned_spec, py_array_spec, py_batch_spec, py_loader_spec, py_rows_spec,
    py_device_rows_spec, py_monitor_spec;
extern PyTypeObject *py_pinned_type, *py_array_type, *py_batch_type;

/* Py_tp_new of types that only the extension makes. */
PyObject *py_not_callable(PyTypeObject *type, PyObject *args, PyObject *kwargs);
/* The end of each Py_tp_dealloc. */
void py_free(PyObject *object);

/* What a call of the library returned is put into error.code, which these read. Sets the exception that
 * stands for it; returns NULL, so that callers can return it. */
PyObject *py_raise(const stoke_error *error);
/* 0 for STOKE_OK, else -1 with that exception set. */
int py_check(const stoke_error *error);
/* None for STOKE_OK, else NULL with it set. */
PyObject *py_none(const stoke_error *error);
/* -1 with MemoryError set. */
int py_no_memory(void);
/* -1 with an exception set, as PyErr_Format does it. */
int py_refuse(PyObject *exception, const char *format, ...);

#endif
