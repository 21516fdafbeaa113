/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_search: the search of findbatch.h, with a Python function that runs the trials.
 */
#include <stdio.h>
#include <string.h>

#include <stoke/tools/findbatch.h>

#include "python/src/values.h"

static const py_field search_params[] = { PY_FIELDS(stoke_batch_params, memory, margin, margin_bytes, largest,
                                                    largest_said, target_busy, accumulate) };
/* What is told in the end; but for the first two, what the function returns. */
static const py_field trial_fields[] = {
    PY_FIELDS(stoke_trial, batch, with_loader, allocated, reserved, step_ms, step_low, step_high, busy),
    PY_FIELDS(stoke_trial, wait_ms, message), PY_FIELD_AS(stoke_trial, outcome, PY_OTHER)
};
enum { ASKED = 2, RETURNED = sizeof trial_fields / sizeof *trial_fields - ASKED };
static const py_field result_fields[] = { PY_FIELDS(stoke_batch_result, too_busy, batch, largest_ok,
                                                    smallest_oom, linear, memory0, memory1, memory_r2),
                                          PY_FIELDS(stoke_batch_result, timed, time0, time1, budget, images_s,
                                                    best_images_s, largest_fit, busy),
                                          PY_FIELDS(stoke_batch_result, why, next) };

/* How a trial ended: the name of an outcome, or by its message ("ended") or its process (status). */
static int outcome_in(stoke_trial *trial, PyObject *end)
{
    int status, timed_out;
    unsigned long long before, after;
    if (PyUnicode_Check(end)) {
        for (int k = STOKE_OUTCOME_OK; k <= STOKE_OUTCOME_ERROR; k++)
            if (!PyUnicode_CompareWithASCIIString(end, stoke_outcome_name(k))) {
                trial->outcome = k;
                return 0;
            }
        return py_refuse(PyExc_ValueError, "a trial cannot end as %R", end);
    }
    if (!PyArg_ParseTuple(end, "iKKp;an outcome is a name or (status, kills before, kills after, timed out)",
                          &status, &before, &after, &timed_out))
        return -1;
    trial->outcome = stoke_outcome_of(status, before, after, timed_out, trial->message);
    return 0;
}

static int trial_in(stoke_trial *trial, PyObject *dict)
{
    if (!PyDict_Check(dict)) return py_refuse(PyExc_TypeError, "a trial returns a dict");
    PyObject *message = PyDict_GetItemString(dict, "message"), *end = PyDict_GetItemString(dict, "outcome");
    if (!end) return py_refuse(PyExc_TypeError, "a trial returns its outcome");
    if (message) {
        PyObject *bytes = PyUnicode_AsEncodedString(message, "utf-8", "replace");
        if (!bytes) return -1;
        snprintf(trial->message, sizeof trial->message, "%s", PyBytes_AsString(bytes));
        Py_DECREF(bytes);
    }
    if (outcome_in(trial, end)) return -1;
    return py_fields_in(trial, trial_fields + ASKED, RETURNED, dict);
}

/* The search runs without the GIL; a trial takes it. An exception stops the search and is passed on. */
static int run_trial(void *context, uint32_t batch, stoke_trial *trial, stoke_error *err)
{
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *dict =
        PyObject_CallFunction(context, "kO", (unsigned long)batch, trial->with_loader ? Py_True : Py_False);
    const int r = dict && !trial_in(trial, dict) ? STOKE_OK : STOKE_E_STATE;
    Py_XDECREF(dict);
    PyGILState_Release(state);
    return r;
}

static PyObject *result_out(const stoke_batch_result *found)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < found->n_trials; i++) {
        const stoke_trial *trial = &found->trial[i];
        py_add(&list,
               py_with(py_out(trial, trial_fields), "outcome", py_words(stoke_outcome_name(trial->outcome))));
    }
    PyObject *dict = py_with(py_out(found, result_fields), "bound", py_words(stoke_bound_name(found->bound)));
    return py_with(dict, "trials", list);
}

static PyObject *batch_search(PyObject *module, PyObject *args)
{
    PyObject *dict, *run;
    const char *journal, *key;
    if (!PyArg_ParseTuple(args, "O!Ozz:batch_search", &PyDict_Type, &dict, &run, &journal, &key)) return NULL;
    stoke_batch_params params = stoke_batch_defaults();
    if (py_in(&params, search_params, dict)) return NULL;
    stoke_batch_result *found = PyMem_Malloc(sizeof *found);
    if (!found) return PyErr_NoMemory();
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_batch_search(found, &params, run_trial, run, journal, key, &error));
    PyObject *result = NULL;
    if (PyErr_Occurred())
        ; /* of a trial */
    else
        result = error.code ? py_raise(&error) : result_out(found);
    PyMem_Free(found);
    return result;
}

static PyObject *oom_kills(PyObject *module, PyObject *nothing)
{
    return PyLong_FromUnsignedLongLong(stoke_oom_kills());
}

PyMethodDef py_search_functions[] = {
    { "batch_search", batch_search, METH_VARARGS,
      "batch_search(params, run(batch, with_loader) -> dict, journal, key) -> dict." },
    { "oom_kills", oom_kills, METH_NOARGS, "oom_kills() -> int: of the control group, so far." },
    { 0 },
};
