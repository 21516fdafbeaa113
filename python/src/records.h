/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of steps (stoke_step_record) from Python.
 */
#ifndef STOKE_PYTHON_SRC_RECORDS_H
#define STOKE_PYTHON_SRC_RECORDS_H

#include <stoke/tools/diagnose.h>

#include "python/src/extension.h"

typedef struct py_records {
    stoke_step_record *at;
    size_t n;
} py_records;

/* From a list of dicts: names of the struct's fields, and "making": {name of a part: (wall, cpu, queued)} in
 * ns. What a dict lacks is 0, not known. -1 with an exception set. Free with PyMem_Free. */
int py_records_read(py_records *records, PyObject *list);

#endif
