/* SPDX-License-Identifier: Apache-2.0
 *
 * The module stokehold._stoke: what its files have, put together. The classes of its exceptions stand in
 * stokehold/_errors.py, where people read them.
 */
#include "python/src/extension.h"

static PyObject *from_status; /* stokehold._errors.from_status(message, code, name) -> exception */

PyObject *py_raise(const stoke_error *error)
{
    /* A path may hold bytes that are no UTF-8: the message must come all the same. */
    PyObject *text =
        PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "backslashreplace");
    const char *name = stoke_status_name(error->code);
    PyObject *raised = text ? PyObject_CallFunction(from_status, "Nis", text, error->code, name) : NULL;
    if (raised) PyErr_SetObject((PyObject *)Py_TYPE(raised), raised);
    Py_XDECREF(raised);
    return NULL;
}

int py_check(const stoke_error *error)
{
    if (error->code) py_raise(error);
    return error->code ? -1 : 0;
}

PyObject *py_none(const stoke_error *error)
{
    if (error->code) return py_raise(error);
    Py_RETURN_NONE;
}

int py_no_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

int py_refuse(PyObject *exception, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyErr_FormatV(exception, format, args);
    va_end(args);
    return -1;
}

PyObject *py_not_callable(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return PyErr_Format(PyExc_TypeError, "only stokehold makes objects of this type");
}

void py_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *version(PyObject *module, PyObject *nothing)
{
    return PyUnicode_FromString(stoke_version());
}

static PyMethodDef own_functions[] = {
    { "version", version, METH_NOARGS, "version() -> str: of the library, such as '0.1.0'." },
    { 0 },
};

static PyMethodDef *const functions[] = {
    own_functions,     py_settings_functions, py_order_functions, py_attribution_functions,
    py_tune_functions, py_learn_functions,
};

/* Types live in static variables, since a method cannot find its module before CPython 3.11's limited API:
 * one interpreter of a process may have them. */
PyTypeObject *py_pinned_type, *py_array_type, *py_batch_type;
static const struct {
    PyType_Spec *spec;
    PyTypeObject **type; /* where others of the extension look for it; borrowed from the module */
} types[] = {
    { &py_pinned_spec, &py_pinned_type },
    { &py_array_spec, &py_array_type },
    { &py_batch_spec, &py_batch_type },
    { &py_loader_spec, NULL },
    { &py_rows_spec, NULL },
    { &py_device_rows_spec, NULL },
    { &py_monitor_spec, NULL },
};

static int fill(PyObject *module)
{
    if (from_status)
        return py_refuse(PyExc_ImportError, "stokehold can be imported by one interpreter of a process only");
    PyObject *errors = PyImport_ImportModule("stokehold._errors");
    from_status = errors ? PyObject_GetAttrString(errors, "from_status") : NULL;
    Py_XDECREF(errors);
    if (!from_status) return -1;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (PyModule_AddFunctions(module, functions[i])) return -1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        PyObject *type = PyType_FromSpec(types[i].spec);
        /* PyModule_AddObject takes the reference only when it succeeds. */
        if (!type || PyModule_AddObject(module, strrchr(types[i].spec->name, '.') + 1, type)) {
            Py_XDECREF(type);
            return -1;
        }
        if (types[i].type) *types[i].type = (PyTypeObject *)type;
    }
    return 0;
}

static PyModuleDef_Slot slots[] = { { Py_mod_exec, fill }, { 0 } };

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_stoke",
    .m_doc = "The C side of stokehold; use the classes of the package.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__stoke(void);

PyMODINIT_FUNC PyInit__stoke(void)
{
    return PyModuleDef_Init(&definition);
}
