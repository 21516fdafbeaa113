/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension stokehold._stoke: the library's objects as Python objects, and nothing else. Every file adds
 * its types or functions to the module by a py_add_ function (module.c calls them).
 *
 *   errors.c    status codes -> exceptions of stokehold._errors
 *   settings.c  a dict of texts -> stoke_data_params, by the option tables
 *   pinned.c    _stoke.Pinned: where pinned memory comes from
 *   hold.c      who keeps memory alive: counts that need no GIL
 *   array.c     _stoke.Array: a view of such memory; dlpack.c gives it to others
 *   engine.c    a data set with its loader, closed safely while batches are out; engine_device.c: the same
 * with batches on a device; no Python inside batch.c     _stoke.Batch: one batch of an engine or of rows
 *   loader.c    _stoke.Loader: an engine
 *   picture.c   Loader.show
 *   pixels.c    an object of Python -> stoke_pixels
 *   rows.c      _stoke.Rows: batches from pictures in memory
 *   device_rows.c  _stoke.DeviceRows: the same where a batch lies on a device
 *   order.c     which sample stands where
 *   values.c    structs <-> dicts, by tables of fields
 *   records.c   records of steps, from dicts; attribution.c: what they tell
 *   learn.c     a curve of the loss judged; a settings file as texts
 *   tune.c      estimate, recommend, check, optimize; search.c: a batch by trials; watch.c: _stoke.Monitor
 *
 * Limited API of CPython 3.9. Only <stoke/...> of the library is used. Rule for locks: nobody waits for the
 * GIL while holding one.
 */
#ifndef STOKE_PYTHON_SRC_EXTENSION_H
#define STOKE_PYTHON_SRC_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stoke/common.h>

/* Adds a type made from `spec` to the module, and returns it (borrowed from the module) or NULL. */
PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec);

/* Py_tp_new of types that only the extension makes. */
PyObject *py_not_callable(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* Each returns 0, or -1 with an exception set. */
int py_add_errors(PyObject *module);
int py_add_settings(PyObject *module);
int py_add_pinned(PyObject *module);
int py_add_array(PyObject *module);
int py_add_batch(PyObject *module);
int py_add_loader(PyObject *module);
int py_add_rows(PyObject *module);
int py_add_device_rows(PyObject *module);
int py_add_order(PyObject *module);
int py_add_attribution(PyObject *module);
int py_add_tune(PyObject *module);
int py_add_search(PyObject *module);
int py_add_learn(PyObject *module);
int py_add_texts(PyObject *module);
int py_add_watch(PyObject *module);

/* errors.c: sets the exception that stands for a status; returns NULL, so that callers can return it. */
PyObject *py_raise(int status, const char *message);

#endif
