/* SPDX-License-Identifier: Apache-2.0
 *
 * From dicts to records of steps. Read once, when somebody asks for an attribution: nothing here runs while
 * a loop is watched.
 */
#include "python/src/records.h"

#include <string.h>
#include <stoke/tools/loader.h>

#include "python/src/values.h"

#define FIELD(field, kind) PY_FIELD(stoke_step_record, field, kind)

static const py_field fields[] = {
    FIELD(number, PY_U64),
    FIELD(epoch, PY_U64),
    FIELD(samples, PY_U32),
    FIELD(began, PY_U64),
    FIELD(first_of_epoch, PY_U32),
    FIELD(ready, PY_U64),
    FIELD(window_ns, PY_U64),
    FIELD(pin_start, PY_U64),
    FIELD(pin_end, PY_U64),
    FIELD(asked, PY_U64),
    FIELD(got, PY_U64),
    FIELD(sent, PY_U64),
    FIELD(launched, PY_U64),
    FIELD(copy_start, PY_U64),
    FIELD(copy_end, PY_U64),
    FIELD(copy_bytes, PY_U64),
    FIELD(augment_start, PY_U64),
    FIELD(augment_end, PY_U64),
    FIELD(start, PY_U64),
    FIELD(end, PY_U64),
    FIELD(busy_ns, PY_U64),
    FIELD(making, PY_OTHER),
};

static int read_making(stoke_step_record *record, PyObject *making)
{
    Py_ssize_t at = 0;
    PyObject *name, *times;
    while (PyDict_Next(making, &at, &name, &times)) {
        int k = 0;
        while (k < STOKE_WORK_KINDS && PyUnicode_CompareWithASCIIString(name, stoke_work_name(k))) k++;
        if (k == STOKE_WORK_KINDS) {
            PyErr_Format(PyExc_ValueError, "%R is no part of making a batch", name);
            return -1;
        }
        unsigned long long wall, cpu, queued;
        if (!PyArg_ParseTuple(times, "KKK;a part of making is (wall, cpu, queued)", &wall, &cpu, &queued))
            return -1;
        record->making[k] = (stoke_work_time){ wall, cpu, queued };
    }
    return 0;
}

static int read_one(stoke_step_record *record, PyObject *dict)
{
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "a record is a dict");
        return -1;
    }
    PyObject *making = PyDict_GetItemString(dict, "making");
    if (py_in(record, fields, dict, NULL)) return -1;
    return making ? read_making(record, making) : 0;
}

int py_records_read(py_records *records, PyObject *list)
{
    *records = (py_records){ 0 };
    const Py_ssize_t n = PyList_Size(list);
    if (n < 0) return -1;
    const size_t bytes =
        ((size_t)n + 1) * sizeof *records->at; /* never 0; n dicts of more bytes exist already */
    if (!(records->at = PyMem_Malloc(bytes))) return py_no_memory();
    memset(records->at, 0, bytes);
    records->n = (size_t)n;
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_one(&records->at[i], PyList_GetItem(list, i))) {
            PyMem_Free(records->at);
            records->at = NULL;
            return -1;
        }
    return 0;
}
