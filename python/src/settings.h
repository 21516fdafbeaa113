/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings given in Python, as the library takes them.
 */
#ifndef STOKE_PYTHON_SRC_SETTINGS_H
#define STOKE_PYTHON_SRC_SETTINGS_H

#include <stoke/upload.h>

#include "python/src/extension.h"

typedef struct py_settings {
    stoke_data_params params;
    stoke_upload_params upload; /* for who sends batches to a device */
    PyObject *texts;            /* a list of bytes that the strings of params lie in ... */
    stoke_option_storage *file; /* ... or this, of those that come from a file */
} py_settings;

/* What holds where nobody says anything (a dict of names and texts, or NULL), then the file of settings
 * `config` (None: none) and then another such dict: names of the option table or what PyTorch calls them. -1
 * with an exception set: TypeError for a name that is none, with the one that was probably meant. */
int py_settings_read(py_settings *settings, PyObject *defaults, PyObject *config, PyObject *dict);
/* The same for the settings of an upload: placement and depth. */
int py_settings_read_feed(py_settings *settings, PyObject *dict);
/* A text as bytes that live as long as the settings; NULL with an exception set. Paths come as the file
 * system has them. */
const char *py_settings_keep(py_settings *settings, PyObject *text);
void py_settings_free(py_settings *settings);

/* Whether a pipeline (its text) makes batches with two masks. */
int py_pipeline_mixes_up(const char *text);

#endif
