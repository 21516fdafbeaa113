/* SPDX-License-Identifier: Apache-2.0
 *
 * The module stokehold._command: the command inside this process, for processes that train together and talk
 * through torch.distributed. An extension of its own: the command links libraries that nobody else needs who
 * imports the package.
 *
 * The engine `c10d` is an object of Python (stokehold/_together.py has its class), whose methods the thread
 * of the library that owns the engine calls. The thread that runs the command has let go of the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/run.h"
#include <stoke/tools/comm.h>

/* PyBUF_WRITE, which the limited API has from 3.11 on. */
enum { WRITABLE = 0x200 };

static PyObject *together; /* the engine of the run; NULL before it */
static uint32_t ranks;     /* once it is open */

/* What was raised, as an error of the library. */
static int fail(stoke_error *err)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    err->code = PyErr_GivenExceptionMatches(type, PyExc_ImportError) ? STOKE_E_UNSUPPORTED : STOKE_E_IO;
    PyObject *text = value ? PyObject_Str(value) : NULL;
    PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace") : NULL;
    snprintf(err->message, sizeof err->message, "%s",
             bytes ? PyBytes_AsString(bytes) : "torch.distributed failed");
    PyErr_Clear();
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return err->code;
}

/* ---- the engine ---- */

/* The thread that makes all calls has one state of Python's from the first to the last: PyTorch 1.13 crashed
 * where each call had its own. */
static PyThreadState *state;

static void enter(void)
{
    PyEval_RestoreThread(state);
}

static void leave(void)
{
    state = PyEval_SaveThread();
}

static int together_open(void **self, stoke_comm_place *place, stoke_error *err)
{
    const char *host, *library;
    int r = STOKE_OK;
    PyGILState_Ensure(); /* not released: the thread ends with the process, or a little before */
    PyObject *said = PyObject_CallMethod(together, "open", NULL);
    *self = NULL;
    memset(place, 0, sizeof *place);
    if (said && PyArg_ParseTuple(said, "IIss", &place->rank, &place->world, &host, &library)) {
        snprintf(place->host, sizeof place->host, "%s", host);
        snprintf(place->library, sizeof place->library, "%s", library);
        ranks = place->world;
        *self = together;
    } else {
        r = fail(err);
    }
    Py_XDECREF(said);
    leave();
    return r;
}

/* [(rank, memory)] of the parts that have bytes; NULL with an exception set. */
static PyObject *list_of(const stoke_comm_part *parts)
{
    PyObject *list = PyList_New(0);
    for (uint32_t q = 0; list && q < ranks; q++) {
        if (!parts[q].bytes) continue;
        PyObject *memory = PyMemoryView_FromMemory(parts[q].data, (Py_ssize_t)parts[q].bytes, WRITABLE);
        PyObject *pair = memory ? Py_BuildValue("(IN)", q, memory) : NULL;
        if (!pair || PyList_Append(list, pair)) {
            Py_DECREF(list);
            list = NULL;
        }
        Py_XDECREF(pair);
    }
    return list;
}

static int together_exchange(void *self, const stoke_comm_part *send, const stoke_comm_part *recv,
                             void **ticket, stoke_error *err)
{
    enter();
    PyObject *goes = list_of(send), *comes = goes ? list_of(recv) : NULL;
    *ticket = comes ? PyObject_CallMethod(self, "exchange", "OO", goes, comes) : NULL;
    const int r = *ticket ? STOKE_OK : fail(err);
    Py_XDECREF(goes);
    Py_XDECREF(comes);
    leave();
    return r;
}

static int together_test(void *self, void *ticket, int *done, stoke_error *err)
{
    enter();
    PyObject *said = PyObject_CallMethod(self, "test", "O", (PyObject *)ticket);
    const int answer = said ? PyObject_IsTrue(said) : -1, r = answer < 0 ? fail(err) : STOKE_OK;
    *done = answer > 0;
    if (r || *done) Py_DECREF((PyObject *)ticket);
    Py_XDECREF(said);
    leave();
    return r;
}

static void together_missing(void *self, void *ticket, uint8_t *missing)
{
    enter();
    PyObject *list = PyObject_CallMethod(self, "missing", "O", (PyObject *)ticket);
    memset(missing, 0, ranks);
    for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++) {
        const unsigned long q = PyLong_AsUnsignedLong(PyList_GetItem(list, i));
        if (q < ranks) missing[q] = 1;
    }
    Py_XDECREF(list);
    PyErr_Clear();
    leave();
}

static void together_abort(void *self, int status)
{
    _exit(status);
}

static void together_close(void **self)
{
    enter();
    PyObject *said = PyObject_CallMethod(*self, "close", NULL);
    *self = NULL;
    Py_XDECREF(said);
    PyErr_Clear(); /* the run is over, and so are the others */
    leave();
}

static const stoke_comm_engine engine = {
    .abi = STOKE_COMM_ABI,
    .struct_size = sizeof engine,
    .name = "c10d",
    .open = together_open,
    .exchange = together_exchange,
    .test = together_test,
    .missing = together_missing,
    .abort = together_abort,
    .close = together_close,
};

/* ---- the module ---- */

enum { WORDS = 4096 };

static PyObject *run(PyObject *module, PyObject *args)
{
    static char *words[WORDS + 1];
    PyObject *list, *object;
    int count;
    if (!PyArg_ParseTuple(args, "O!O:run", &PyList_Type, &list, &object)) return NULL;
    if (PyList_Size(list) > WORDS) return PyErr_Format(PyExc_ValueError, "more than %d words", WORDS);
    for (count = 0; count < PyList_Size(list); count++)
        if (!(words[count] = PyBytes_AsString(PyList_GetItem(list, count)))) return NULL;
    Py_INCREF(list);
    Py_INCREF(object);
    together = object;
    stoke_comm_offer(&engine);
    /* Not back into Python: the thread of the library may hang in a call that keeps the GIL (PyTorch 1.13
     * waits for the others to join like that), and PyTorch's own threads need not be waited for. */
    PyEval_SaveThread();
    _exit(cli_main(count, words));
}

static PyMethodDef functions[] = {
    { "run", run, METH_VARARGS,
      "run(words: list[bytes], engine): the command, with whose status the process ends." },
    { 0 },
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_command",
    .m_doc = "The command inside this process; python -m stokehold uses it.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__command(void);

PyMODINIT_FUNC PyInit__command(void)
{
    return PyModule_Create(&definition);
}
