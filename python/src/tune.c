/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice: machine, estimate, recommend, check, optimize.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* For people: what was asked, and what it comes to. Returns dict, or NULL with an exception set. */
static PyObject *words_out(PyObject *dict, const stoke_estimate *estimate, stoke_engine engine,
                           const stoke_estimate_params *params)
{
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
    return py_with(dict, "verdict", py_written(out, &text, &bytes));
}

static PyObject *estimate_out(const stoke_estimate *estimate, uint32_t largest, stoke_engine engine,
                              const stoke_estimate_params *params)
{
    PyObject *dict = py_out(estimate, estimate_fields), *terms = PyDict_New();
    for (int k = 0; terms && k < STOKE_TERMS; k++)
        terms = py_with(terms, stoke_memory_term_name(k), PyLong_FromUnsignedLongLong(estimate->bytes[k]));
    dict = words_out(dict, estimate, engine, params);
    dict = py_with(dict, "bytes", terms);
    dict = py_with(dict, "dominant", py_words(stoke_memory_term_name(estimate->dominant)));
    return py_with(dict, "largest_batch", PyLong_FromUnsignedLong(largest));
}

/* The names of what was assumed. */
static PyObject *assumed_out(unsigned assumed)
{
    static const char *const names[] = { "model", "batch_size", "image_size", "classes", "precision" };
    PyObject *list = PyList_New(0);
    for (unsigned i = 0; list && i < sizeof names / sizeof *names; i++)
        if (assumed >> i & 1 && py_push(list, py_words(names[i]))) Py_CLEAR(list);
    return list;
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
    const char *path, *model;
    if (!PyArg_ParseTuple(args, "yz:estimate_config", &path, &model)) return NULL;
    stoke_estimate_params params = stoke_estimate_defaults();
    stoke_error error = { 0 };
    unsigned assumed = 0;
    char name[32];
    params.model = model;
    PY_UNLOCKED(error.code = stoke_estimate_config(&params, path, name, &assumed, &error));
    if (error.code) return fail_at(&error, 1);
    return py_with(py_out(&params, estimate_params), "assumed", assumed_out(assumed));
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

static PyObject *advice_out(const stoke_advice *advice)
{
    return Py_BuildValue("{s:s,s:K,s:N,s:N,s:s}", "subject", advice->subject, "memory",
                         (unsigned long long)advice->memory, "lines",
                         recommendations_out(advice->line, advice->n), "expected",
                         recommendations_out(advice->expected, advice->n_expected), "remark", advice->remark);
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
    return error.code ? fail_at(&error, 0) : advice_out(&advice);
}

/* ---- before a training starts ---- */

static const py_field check_params[] = { PY_FIELDS(stoke_preflight_params, config, data, model, classes,
                                                   ranks) };

static PyObject *lines_out(const stoke_preflight *preflight)
{
    PyObject *list = PyList_New(0);
    const stoke_preflight_line *line = preflight->line;
    for (size_t i = 0; list && i < preflight->n; i++, line++)
        py_add(&list,
               Py_BuildValue("(ssssNN)", line->key, line->title, stoke_verdict_name(line->verdict),
                             stoke_source_name(line->source), py_words(line->figure), py_words(line->fix)));
    return list;
}

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
    PyObject *result = Py_BuildValue(
        "{s:N,s:s,s:s,s:s}", "lines", lines_out(preflight), "dialect", preflight->dialect, "engine",
        preflight->engine == STOKE_ENGINE_TORCH ? "torch" : "native", "no_card", preflight->no_card);
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
    { "machine", machine, METH_NOARGS, "machine() -> dict: processor and memory, (value, source) each." },
    { "estimate_config", estimate_config, METH_VARARGS,
      "estimate_config(path, model) -> dict: parameters of `estimate`, and `assumed`." },
    { "term_meanings", term_meanings, METH_NOARGS, "term_meanings() -> dict: what a term of bytes is." },
    { "precision", precision, METH_VARARGS, "precision(word) -> int, -1 where it is none." },
    { "estimate", estimate, METH_VARARGS, "estimate(params, torch, memory, spare) -> dict." },
    { "recommend", recommend, METH_VARARGS, "recommend(params) -> dict." },
    { "check", check, METH_VARARGS, "check(params) -> dict." },
    { "optimize", optimize, METH_VARARGS, "optimize(params, target, force) -> dict; the file is written." },
    { 0 },
};
