/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_search: the search of findbatch.h, with a Python function that runs the trials.
 */
#include <stdio.h>
#include <string.h>

#include <stoke/tools/findbatch.h>

#include "python/src/values.h"

#define FIELD(field, kind) PY_FIELD(stoke_batch_params, field, kind)
static const py_field search_params[] = {
    FIELD(memory, PY_U64),        FIELD(context, PY_U64),  FIELD(margin, PY_REAL),
    FIELD(margin_bytes, PY_U64),  FIELD(multiple, PY_U32), FIELD(largest, PY_U32),
    FIELD(largest_said, PY_BOOL), FIELD(near, PY_REAL),    FIELD(target_busy, PY_REAL),
    FIELD(accumulate, PY_U32),    FIELD(world, PY_U32),
};
#undef FIELD
#define FIELD(field, kind) PY_FIELD(stoke_trial, field, kind)
/* What is told in the end; but for the first two, what the function returns. */
static const py_field trial_fields[] = {
    FIELD(batch, PY_U32),    FIELD(with_loader, PY_BOOL), FIELD(allocated, PY_U64),  FIELD(reserved, PY_U64),
    FIELD(step_ms, PY_REAL), FIELD(step_low, PY_REAL),    FIELD(step_high, PY_REAL), FIELD(busy, PY_REAL),
    FIELD(wait_ms, PY_REAL), FIELD(message, PY_TEXT),     FIELD(outcome, PY_OTHER),
};
#undef FIELD
enum { ASKED = 2, RETURNED = sizeof trial_fields / sizeof *trial_fields - ASKED };
#define FIELD(field, kind) PY_FIELD(stoke_batch_result, field, kind)
static const py_field result_fields[] = {
    FIELD(too_busy, PY_BOOL),    FIELD(batch, PY_U32),          FIELD(largest_ok, PY_U32),
    FIELD(smallest_oom, PY_U32), FIELD(linear, PY_BOOL),        FIELD(memory0, PY_REAL),
    FIELD(memory1, PY_REAL),     FIELD(memory_r2, PY_REAL),     FIELD(timed, PY_BOOL),
    FIELD(time0, PY_REAL),       FIELD(time1, PY_REAL),         FIELD(budget, PY_U64),
    FIELD(images_s, PY_REAL),    FIELD(best_images_s, PY_REAL), FIELD(largest_fit, PY_U32),
    FIELD(busy, PY_REAL),        FIELD(why, PY_TEXT),           FIELD(next, PY_TEXT),
};
#undef FIELD

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
        PyErr_Format(PyExc_ValueError, "a trial cannot end as %R", end);
        return -1;
    }
    if (!PyArg_ParseTuple(end, "iKKp;an outcome is a name or (status, kills before, kills after, timed out)",
                          &status, &before, &after, &timed_out))
        return -1;
    trial->outcome = stoke_outcome_of(status, before, after, timed_out, trial->message);
    return 0;
}

static int message_in(stoke_trial *trial, PyObject *text)
{
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
    if (!bytes) return -1;
    snprintf(trial->message, sizeof trial->message, "%s", PyBytes_AsString(bytes));
    Py_DECREF(bytes);
    return 0;
}

static int trial_in(stoke_trial *trial, PyObject *dict)
{
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "a trial returns a dict");
        return -1;
    }
    PyObject *message = PyDict_GetItemString(dict, "message"), *end = PyDict_GetItemString(dict, "outcome");
    if (!end) {
        PyErr_SetString(PyExc_TypeError, "a trial returns its outcome");
        return -1;
    }
    if ((message && message_in(trial, message)) || outcome_in(trial, end)) return -1;
    return py_fields_in(trial, trial_fields + ASKED, RETURNED, dict, NULL);
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

static PyObject *trials_out(const stoke_batch_result *found)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < found->n_trials; i++) {
        const stoke_trial *trial = &found->trial[i];
        if (py_push(list, py_with(py_out(trial, trial_fields), "outcome",
                                  py_words(stoke_outcome_name(trial->outcome)))))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *result_out(const stoke_batch_result *found)
{
    PyObject *dict = py_with(py_out(found, result_fields), "bound", py_words(stoke_bound_name(found->bound)));
    return py_with(dict, "trials", trials_out(found));
}

static PyObject *batch_search(PyObject *module, PyObject *args)
{
    PyObject *dict, *run;
    const char *journal, *key;
    if (!PyArg_ParseTuple(args, "O!Ozz:batch_search", &PyDict_Type, &dict, &run, &journal, &key)) return NULL;
    stoke_batch_params params = stoke_batch_defaults();
    if (py_in(&params, search_params, dict, NULL)) return NULL;
    stoke_batch_result *found = PyMem_Malloc(sizeof *found);
    if (!found) return PyErr_NoMemory();
    stoke_error error = { 0 };
    int r;
    PY_UNLOCKED(r = stoke_batch_search(found, &params, run_trial, run, journal, key, &error));
    PyObject *result = NULL;
    if (PyErr_Occurred())
        ; /* of a trial */
    else
        result = r ? py_raise(r, error.message) : result_out(found);
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
