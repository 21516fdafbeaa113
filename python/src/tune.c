/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice: machine, estimate, recommend, check, optimize; a batch by trials (findbatch.h).
 */
#include <stdio.h>

#include <stoke/tools/findbatch.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/net.h>
#include <stoke/tools/output.h>
#include <stoke/tools/preflight.h>
#include <stoke/tools/optimize.h>

#include "python/src/values.h"

/* ---- machine ---- */

static const py_field machine_fields[] = { PY_FIELDS(stoke_machine_facts, cpu, usable, memory_bytes,
                                                     available_bytes, limit_bytes, shm_bytes) };

static PyObject *machine(PyObject *module, PyObject *nothing)
{
    stoke_machine_facts facts;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_machine_probe(&facts, 0, NULL, &error));
    return error.code ? py_raise(&error) : py_out(&facts, machine_fields);
}

static PyObject *cores(PyObject *module, PyObject *nothing)
{
    return PyLong_FromUnsignedLong(stoke_machine_cores().usable);
}

/* What is wrong here is never a sample: a table has no such row, a text is no settings file. Where nothing is
 * read, what was not found is a name. */
static PyObject *fail_at(stoke_error *error, int reads_files)
{
    if (error->code == STOKE_E_UNSUPPORTED || error->code == STOKE_E_FORMAT ||
        (error->code == STOKE_E_NOTFOUND && !reads_files))
        error->code = STOKE_E_INVALID;
    return py_raise(error);
}

/* ---- memory ---- */

static const py_field estimate_params[] = {
    PY_FIELDS(stoke_estimate_params, model, batch, height, width, classes),
    PY_FIELD_AS(stoke_estimate_params, precision, PY_INT),
    PY_FIELD_AS(stoke_estimate_params, optimizer, PY_INT),
    PY_FIELDS(stoke_estimate_params, freeze_encoder, average, prefetch, base_channels, num_blocks)
};
static const py_field estimate_fields[] = { PY_FIELDS(stoke_estimate, total, low, high, allocated,
                                                      reserved_low, reserved_high, card, parameters),
                                            PY_FIELD_AS(stoke_estimate, source, PY_SOURCE) };

static PyObject *estimate_out(const stoke_estimate *estimate, uint32_t largest, stoke_engine engine,
                              const stoke_estimate_params *params)
{
    PyObject *dict = py_out(estimate, estimate_fields), *terms = PyDict_New();
    for (int k = 0; terms && k < STOKE_TERMS; k++)
        terms = py_with(terms, stoke_memory_term_name(k), PyLong_FromUnsignedLongLong(estimate->bytes[k]));
    /* For people: what was asked, and what it comes to. */
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out) stoke_estimate_subject(out, estimate, params);
    dict = py_with(dict, "subject", py_written(out, &text, &bytes));
    out = open_memstream(&text, &bytes);
    if (out) stoke_estimate_verdict(out, estimate, engine, params);
    if (out && engine == STOKE_ENGINE_TORCH) {
        fputc('\n', out);
        stoke_estimate_levels(out, estimate);
    }
    dict = py_with(dict, "verdict", py_written(out, &text, &bytes));
    dict = py_with(dict, "bytes", terms);
    dict = py_with(dict, "dominant", py_words(stoke_memory_term_name(estimate->dominant)));
    return py_with(dict, "largest_batch", PyLong_FromUnsignedLong(largest));
}

/* What a term of `bytes` is. */
static PyObject *term_meanings(PyObject *module, PyObject *nothing)
{
    PyObject *dict = PyDict_New();
    for (int k = 0; dict && k < STOKE_TERMS; k++)
        dict = py_with(dict, stoke_memory_term_name(k), py_words(stoke_memory_term_meaning(k)));
    return dict;
}

static PyObject *estimate_config(PyObject *module, PyObject *args)
{
    static const char *const names[] = { "model", "batch_size", "image_size", "classes", "precision" };
    const char *path, *model;
    if (!PyArg_ParseTuple(args, "yz:estimate_config", &path, &model)) return NULL;
    stoke_estimate_params params = stoke_estimate_defaults();
    stoke_error error = { 0 };
    unsigned assumed = 0;
    char name[32];
    params.model = model;
    PY_UNLOCKED(error.code = stoke_estimate_config(&params, path, name, &assumed, &error));
    if (error.code) return fail_at(&error, 1);
    PyObject *list = PyList_New(0);
    for (unsigned i = 0; list && i < sizeof names / sizeof *names; i++)
        if (assumed >> i & 1) py_add(&list, py_words(names[i]));
    return py_with(py_out(&params, estimate_params), "assumed", list);
}

static PyObject *precision(PyObject *module, PyObject *args)
{
    const char *word;
    return PyArg_ParseTuple(args, "s:precision", &word) ? PyLong_FromLong(stoke_precision_named(word)) : NULL;
}

static PyObject *estimate(PyObject *module, PyObject *args)
{
    PyObject *dict;
    int torch;
    unsigned long long memory, spare;
    if (!PyArg_ParseTuple(args, "O!pKK:estimate", &PyDict_Type, &dict, &torch, &memory, &spare)) return NULL;
    stoke_estimate_params params = stoke_estimate_defaults();
    params.classes = 0;
    if (py_in(&params, estimate_params, dict)) return NULL;
    if (!params.classes) params.classes = stoke_estimate_classes(params.model);
    const stoke_engine engine = torch ? STOKE_ENGINE_TORCH : STOKE_ENGINE_NATIVE;
    stoke_estimate result;
    stoke_error error = { 0 };
    uint32_t largest = 0;
    PY_UNLOCKED(error.code = stoke_estimate_make(&result, engine, &params, &error));
    if (!error.code && memory)
        PY_UNLOCKED(error.code = stoke_estimate_batch(engine, &params, memory, spare, 1, &largest, &error));
    return error.code ? fail_at(&error, 0) : estimate_out(&result, largest, engine, &params);
}

/* The card that is meant: the one found here (it stays in *gpu), where none is named. *elsewhere: one that is
 * named is not here, but in another machine. */
static int choose_card(const char **name, uint64_t *memory, int *elsewhere, stoke_gpu *gpu,
                       stoke_error *error)
{
    char why[256];
    int found;
    const int r = stoke_gpu_find(gpu, &found, why, sizeof why, error);
    if (r) return r;
    if (*name)
        *elsewhere = !found || !stoke_card_same(*name, gpu->name);
    else if (*memory)
        *elsewhere = !found;
    else if (found) {
        *name = gpu->name;
        *memory = (uint64_t)gpu->memory_total.value;
    }
    return STOKE_OK;
}

/* ---- settings to start from ---- */

static const py_field recommend_params[] = { PY_FIELDS(stoke_recommend_params, gpu, memory, task, cores,
                                                       ranks) };

static PyObject *recommendations_out(const stoke_recommendation *line, size_t n)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++, line++)
        py_add(&list,
               Py_BuildValue("(ssss)", line->key, line->value, stoke_source_name(line->source), line->why));
    return list;
}

static PyObject *recommend(PyObject *module, PyObject *args)
{
    PyObject *dict;
    stoke_recommend_params params = stoke_recommend_defaults();
    if (!PyArg_ParseTuple(args, "O!:recommend", &PyDict_Type, &dict) ||
        py_in(&params, recommend_params, dict))
        return NULL;
    stoke_advice advice;
    stoke_error error = { 0 };
    stoke_gpu gpu;
    const int given = PyDict_GetItemString(dict, "cores") != NULL;
    int elsewhere = 0;
    PY_UNLOCKED(error.code = choose_card(&params.gpu, &params.memory, &elsewhere, &gpu, &error));
    if (given)
        params.cores_source = STOKE_SOURCE_GIVEN;
    else if (elsewhere)
        params.cores_source = STOKE_SOURCE_NA;
    if (!error.code) PY_UNLOCKED(error.code = stoke_recommend(&advice, &params, &error));
    if (error.code) return fail_at(&error, 0);
    return Py_BuildValue("{s:s,s:K,s:N,s:N,s:s}", "subject", advice.subject, "memory",
                         (unsigned long long)advice.memory, "lines",
                         recommendations_out(advice.line, advice.n), "expected",
                         recommendations_out(advice.expected, advice.n_expected), "remark", advice.remark);
}

/* ---- before a training starts ---- */

static const py_field check_params[] = { PY_FIELDS(stoke_preflight_params, config, data, model, classes,
                                                   ranks) };

static PyObject *check(PyObject *module, PyObject *args)
{
    PyObject *dict;
    stoke_preflight_params params = stoke_preflight_defaults();
    if (!PyArg_ParseTuple(args, "O!:check", &PyDict_Type, &dict) || py_in(&params, check_params, dict))
        return NULL;
    stoke_preflight *preflight = NULL;
    stoke_error error = { 0 };
    PY_UNLOCKED(error.code = stoke_preflight_run(&preflight, &params, &error));
    if (error.code) return fail_at(&error, 1);
    PyObject *list = PyList_New(0);
    const stoke_preflight_line *line = preflight->line;
    for (size_t i = 0; list && i < preflight->n; i++, line++)
        py_add(&list,
               Py_BuildValue("(ssssNN)", line->key, line->title, stoke_verdict_name(line->verdict),
                             stoke_source_name(line->source), py_words(line->figure), py_words(line->fix)));
    PyObject *result = Py_BuildValue("{s:N,s:s,s:s,s:s}", "lines", list, "dialect", preflight->dialect,
                                     "engine", preflight->engine == STOKE_ENGINE_TORCH ? "torch" : "native",
                                     "no_card", preflight->no_card);
    stoke_preflight_destroy(&preflight);
    return result;
}

/* ---- a settings file, changed ---- */

static const py_field optimize_params[] = { PY_FIELDS(stoke_optimize_params, config, gpu, memory, cores,
                                                      allow_model_scale, measured_batch, measured_why) };
static const py_field change_fields[] = { PY_FIELDS(stoke_change, setting, path, from, to, why, effect),
                                          PY_FIELD_AS(stoke_change, source, PY_SOURCE) };

static PyObject *optimization_out(const stoke_optimization *found, const char *written)
{
    PyObject *changes = PyList_New(0), *remarks = PyList_New(0);
    stoke_change change;
    const char *remark;
    for (size_t i = 0; changes && stoke_optimization_change(found, i, &change); i++)
        py_add(&changes, py_out(&change, change_fields));
    for (size_t i = 0; remarks && (remark = stoke_optimization_remark(found, i)); i++)
        py_add(&remarks, py_words(remark));
    return Py_BuildValue("{s:N,s:N,s:N}", "changes", changes, "remarks", remarks, "path", py_words(written));
}

static PyObject *optimize(PyObject *module, PyObject *args)
{
    PyObject *dict, *target;
    int force;
    if (!PyArg_ParseTuple(args, "O!Op:optimize", &PyDict_Type, &dict, &target, &force)) return NULL;
    stoke_optimize_params params = stoke_optimize_defaults();
    params.measured_source = STOKE_SOURCE_MEASURED;
    PyObject *bytes = NULL;
    if (py_in(&params, optimize_params, dict)) return NULL;
    if (target != Py_None && !PyUnicode_FSConverter(target, &bytes)) return NULL;
    const char *path = bytes ? PyBytes_AsString(bytes) : NULL;
    stoke_optimization *found = NULL;
    stoke_yaml_proof proof;
    stoke_error error = { 0 };
    stoke_gpu gpu;
    int replaces;
    PY_UNLOCKED(error.code = choose_card(&params.gpu, &params.memory, &params.elsewhere, &gpu, &error));
    if (!error.code) PY_UNLOCKED(error.code = stoke_optimize(&found, &params, &error));
    if (!error.code && !path) path = stoke_optimization_target(found);
    if (!error.code && !stoke_optimization_is_at(found, path)) {
        error.code = stoke_output_check(path, force, &replaces, &error);
        if (!error.code) PY_UNLOCKED(error.code = stoke_optimization_write(found, path, &proof, &error));
    }
    PyObject *result = error.code ? fail_at(&error, 1) : optimization_out(found, path);
    stoke_optimization_destroy(&found);
    Py_XDECREF(bytes);
    return result;
}

/* ---- a batch by trials, which a function of Python runs ---- */

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

/* ---- files ---- */

/* For what Python itself writes. */
static PyObject *check_output(PyObject *module, PyObject *args)
{
    const char *path;
    int force, replaces;
    stoke_error error = { 0 };
    if (!PyArg_ParseTuple(args, "yp:check_output", &path, &force)) return NULL;
    error.code = stoke_output_check(path, force, &replaces, &error);
    return py_none(&error);
}

PyMethodDef py_tune_functions[] = {
    { "check_output", check_output, METH_VARARGS,
      "check_output(path, force): raises where a file is that is not stokehold's own." },
    { "cores", cores, METH_NOARGS, "cores() -> int: those that this process may use." },
    { "machine", machine, METH_NOARGS, "machine() -> dict: processor and memory, (value, source) each." },
    { "estimate_config", estimate_config, METH_VARARGS,
      "estimate_config(path, model) -> dict: parameters of `estimate`, and `assumed`." },
    { "term_meanings", term_meanings, METH_NOARGS, "term_meanings() -> dict: what a term of bytes is." },
    { "precision", precision, METH_VARARGS, "precision(word) -> int, -1 where it is none." },
    { "estimate", estimate, METH_VARARGS, "estimate(params, torch, memory, spare) -> dict." },
    { "recommend", recommend, METH_VARARGS, "recommend(params) -> dict." },
    { "check", check, METH_VARARGS, "check(params) -> dict." },
    { "batch_search", batch_search, METH_VARARGS,
      "batch_search(params, run(batch, with_loader) -> dict, journal, key) -> dict." },
    { "oom_kills", oom_kills, METH_NOARGS, "oom_kills() -> int: of the control group, so far." },
    { "optimize", optimize, METH_VARARGS, "optimize(params, target, force) -> dict; the file is written." },
    { 0 },
};
