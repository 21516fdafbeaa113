/* SPDX-License-Identifier: Apache-2.0
 *
 * The module stokehold._stoke: what its files add, put together.
 */
#include "python/src/extension.h"

PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type) return NULL;
    const char *name = strrchr(spec->name, '.') + 1;
    if (PyModule_AddObject(module, name, type)) { /* takes the reference only when it succeeds */
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

PyObject *py_not_callable(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyErr_SetString(PyExc_TypeError, "only stokehold makes objects of this type");
    return NULL;
}

static PyObject *version(PyObject *module, PyObject *nothing)
{
    return PyUnicode_FromString(stoke_version());
}

static PyMethodDef functions[] = {
    { "version", version, METH_NOARGS, "version() -> str: of the library, such as '0.1.0'." },
    { 0 },
};

/* Types live in static variables, since a method cannot find its module before CPython 3.11's limited API:
 * one interpreter of a process may have them. */
static int fill(PyObject *module)
{
    static int filled;
    if (filled) {
        PyErr_SetString(PyExc_ImportError, "stokehold can be imported by one interpreter of a process only");
        return -1;
    }
    filled = 1;
    int (*const parts[])(PyObject *) = { py_add_errors, py_add_settings,    py_add_pinned, py_add_array,
                                         py_add_batch,  py_add_loader,      py_add_rows,   py_add_device_rows,
                                         py_add_order,  py_add_attribution, py_add_tune,   py_add_search,
                                         py_add_learn,  py_add_texts,       py_add_watch };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](module)) return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = { { Py_mod_exec, fill }, { 0 } };

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_stoke",
    .m_doc = "The C side of stokehold; use the classes of the package.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__stoke(void);

PyMODINIT_FUNC PyInit__stoke(void)
{
    return PyModuleDef_Init(&definition);
}
