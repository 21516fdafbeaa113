/* SPDX-License-Identifier: Apache-2.0
 *
 * Names are those of the option table, and the ones that people bring from PyTorch. Texts are read by the
 * table's own parser, so that a setting means the same in Python, in YAML and on the command line.
 */

#include <stdio.h>
#include <string.h>

#include <stoke/tools/train.h>
#include <stoke/tools/data.h>
#include <stoke/tools/upload.h>

#include "python/src/values.h"

/* clang-format off: one line each */
static const struct {
    const char *name, *stands_for; /* NULL: always so, or of no meaning here; accepted and left alone */
} aliases[] = {
    { "batch_size", "batch" },         { "image_size", "size" }, { "num_workers", "workers" },
    { "prefetch_factor", "prefetch" }, { "shuffle", "order" },   { "persistent_workers", NULL },
};
/* clang-format on */
enum { ALIASES = sizeof aliases / sizeof *aliases };

/* What differs from the table: a module leaves no file in the folder it is used in unless it is told to. */
static const char quarantine_name[] = "quarantine", quarantine_default[] = "";

/* Of `shuffle`, which PyTorch has as a bool. */
static const char *value_for(const char *name, const char *value)
{
    if (strcmp(name, "shuffle")) return value;
    return !strcmp(value, "true") ? "shuffle" : !strcmp(value, "false") ? "sequential" : value;
}

static int raise_option(const stoke_error *error)
{
    if (error->code != STOKE_E_NOTFOUND) return py_check(error);
    return py_refuse(PyExc_TypeError, "%s", error->message);
}

/* "batch: '0' is out of range" about batch_size. */
static void name_as_given(stoke_error *error, const char *name, const char *given)
{
    const size_t length = strlen(name);
    if (strncmp(error->message, name, length) || error->message[length] != ':') return;
    char rest[sizeof error->message];
    snprintf(rest, sizeof rest, "%s", error->message + length);
    snprintf(error->message, sizeof error->message, "%s%s", given, rest);
}

static int set(py_settings *settings, const char *given, const char *value)
{
    int alias = ALIASES - 1;
    while (alias >= 0 && strcmp(aliases[alias].name, given)) alias--;
    if (alias >= 0 && !aliases[alias].stands_for) return 0;
    /* An alias is resolved before the tables see it: the second group is only looked through for near names,
     * so that aliases are offered to somebody who misspelt one. */
    stoke_option more[ALIASES];
    for (int i = 0; i < ALIASES; i++)
        more[i] = (stoke_option){ .name = aliases[i].name, .type = STOKE_OPT_STRING };
    const stoke_option_group groups[] = { stoke_data_options(&settings->params),
                                          { "aliases", more, ALIASES, NULL } };
    stoke_error error = { 0 };
    const char *name = alias >= 0 ? aliases[alias].stands_for : given;
    error.code = stoke_options_set(groups, 2, name, value_for(given, value), &error);
    if (error.code && alias >= 0) name_as_given(&error, name, given);
    return raise_option(&error);
}

const char *py_settings_keep(py_settings *settings, PyObject *text)
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(text, &bytes)) return NULL;
    const char *chars = PyBytes_AsString(bytes);
    return py_push(settings->texts, bytes) ? NULL : chars;
}

/* batch and batch_size at once: nobody can tell which was meant. */
static int check_twice(PyObject *dict)
{
    for (int i = 0; i < ALIASES; i++) {
        PyObject *a = PyDict_GetItemString(dict, aliases[i].name);
        PyObject *b = aliases[i].stands_for ? PyDict_GetItemString(dict, aliases[i].stands_for) : NULL;
        if (!a || !b) continue;
        return py_refuse(PyExc_TypeError, "%s and %s are the same setting: give one of them", aliases[i].name,
                         aliases[i].stands_for);
    }
    return 0;
}

/* A file may hold the settings of training too: they are read, and left. */
static int read_file(py_settings *settings, PyObject *config)
{
    const char *path = py_settings_keep(settings, config);
    if (!path) return -1;
    stoke_train_params training = stoke_train_defaults();
    char remarks[4096];
    const stoke_option_group groups[] = { stoke_data_options(&settings->params),
                                          stoke_upload_options(&settings->upload) };
    const stoke_option_group known = stoke_train_options(&training);
    static const char *const also[] = { "pin_memory", NULL }; /* by the Python side */
    stoke_config_use use = { .groups = groups,
                             .n_groups = 2,
                             .known = &known,
                             .n_known = 1,
                             .also = also,
                             .remarks = remarks,
                             .remarks_size = sizeof remarks };
    stoke_error error = { 0 };
    stoke_yaml *yaml = NULL;
    error.code = stoke_config_open(&yaml, path, &error);
    if (!error.code) error.code = stoke_config_apply(yaml, &use, &settings->params, &settings->file, &error);
    stoke_yaml_close(&yaml);
    if (py_check(&error)) return -1;
    const size_t length = strlen(remarks);
    if (!length) return 0;
    /* Without the newline of the last one. A long value is cut at a byte, in the middle of a letter too. */
    PyObject *words = PyUnicode_DecodeUTF8(remarks, (Py_ssize_t)length - 1, "replace");
    const int warned = words ? PyErr_WarnFormat(PyExc_UserWarning, 1, "%U", words) : -1;
    Py_XDECREF(words);
    return warned;
}

/* Each of a dict, by `set` or `set_feed`. */
static int set_all(py_settings *settings, PyObject *dict,
                   int (*one)(py_settings *, const char *, const char *))
{
    Py_ssize_t at = 0;
    PyObject *name, *value;
    while (PyDict_Next(dict, &at, &name, &value)) {
        const char *name_text = py_settings_keep(settings, name), *text = py_settings_keep(settings, value);
        if (!name_text || !text || one(settings, name_text, text)) return -1;
    }
    return 0;
}

int py_settings_read(py_settings *settings, PyObject *defaults, PyObject *config, PyObject *dict)
{
    *settings = (py_settings){ .params = stoke_data_defaults(),
                               .upload = stoke_upload_defaults(),
                               .texts = PyList_New(0) };
    /* The host augments unless told otherwise: what auto would measure takes a step's time, which nobody
     * knows here, and a compiler for the device's kernels, which pip does not bring. */
    settings->upload.placement = STOKE_PLACEMENT_HOST;
    if (!settings->texts || check_twice(dict)) return -1;
    if (set(settings, quarantine_name, quarantine_default)) return -1;
    if (defaults && set_all(settings, defaults, set)) return -1;
    if (config != Py_None && read_file(settings, config)) return -1;
    return set_all(settings, dict, set);
}

static int set_feed(py_settings *settings, const char *name, const char *value)
{
    const stoke_option_group group = stoke_upload_options(&settings->upload);
    stoke_error error = { 0 };
    error.code = stoke_options_set(&group, 1, name, value, &error);
    return raise_option(&error);
}

int py_settings_read_feed(py_settings *settings, PyObject *dict)
{
    return set_all(settings, dict, set_feed);
}

void py_settings_free(py_settings *settings)
{
    Py_CLEAR(settings->texts);
    stoke_options_free_storage(&settings->file);
}

/* What mixup needs from the loss. The pipeline says it in its text: ops by name, parameters in parentheses.
 */
int py_pipeline_mixes_up(const char *text)
{
    for (const char *at = text; (at = strstr(at, "mixup")); at++)
        if (at == text || at[-1] == ',') return 1;
    return 0;
}

/* ---- what there is, for stubs, docstrings and the tests that compare them ---- */

static PyObject *describe(const stoke_option *option)
{
    const char *value = !strcmp(option->name, quarantine_name) ? quarantine_default : option->default_text;
    static const char *const types[] = {
        [STOKE_OPT_FLAG] = "flag",     [STOKE_OPT_INT] = "int",           [STOKE_OPT_REAL] = "real",
        [STOKE_OPT_STRING] = "string", [STOKE_OPT_CHOICE] = "choice",     [STOKE_OPT_BYTES] = "bytes",
        [STOKE_OPT_SIZE] = "size",     [STOKE_OPT_AUTO_INT] = "auto_int", [STOKE_OPT_RANGE] = "range",
        [STOKE_OPT_SPREAD] = "spread",
    };
    const char *choices = option->type == STOKE_OPT_CHOICE ? option->choices : NULL;
    return Py_BuildValue("{s:s,s:s,s:N,s:N,s:s}", "name", option->name, "type", types[option->type],
                         "default", py_words(value), "choices", py_words(choices), "help", option->help);
}

static PyObject *options(PyObject *module, PyObject *nothing)
{
    stoke_data_params params;
    const stoke_option_group group = stoke_data_options(&params);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < group.count; i++) py_add(&list, describe(&group.options[i]));
    return list;
}

static PyObject *option_aliases(PyObject *module, PyObject *nothing)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < ALIASES; i++)
        dict = py_with(dict, aliases[i].name, py_words(aliases[i].stands_for));
    return dict;
}

PyMethodDef py_settings_functions[] = {
    { "options", options, METH_NOARGS, "options() -> list of dict: the table of the settings of data." },
    { "aliases", option_aliases, METH_NOARGS,
      "aliases() -> dict: other names of settings; None: accepted and of no effect." },
    { 0 },
};
