/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension stokehold._stoke: the library's objects as Python objects, and nothing else. module.c puts
 * together the types and functions of the others, and turns status codes into exceptions.
 *
 *   settings.c  a dict of texts -> stoke_data_params, by the option tables
 *   pinned.c    _stoke.Pinned: where pinned memory comes from
 *   array.c     _stoke.Array: a view of memory that somebody holds; dlpack.c gives it to others
 *   batch.c     _stoke.Batch: one batch of a loader or of rows
 *   loader.c    _stoke.Loader: a data set with its loader
 *   pixels.c    an object of Python -> stoke_pixels
 *   rows.c      _stoke.Rows: batches from pictures in memory
 *   device_rows.c  _stoke.DeviceRows: the same where a batch lies on a device
 *   order.c     which sample stands where
 *   values.c    structs <-> dicts, by tables of fields
 *   attribution.c  what records of steps tell
 *   learn.c     a curve of the loss judged and drawn; a table; a settings file as texts
 *   tune.c      estimate, recommend, check, optimize, a batch by trials; watch.c: _stoke.Monitor
 *
 * Limited API of CPython 3.9. Only <stoke/...> of the library is used. Rule for locks: nobody waits for the
 * GIL while holding one.
 */
#ifndef STOKE_PYTHON_SRC_EXTENSION_H
#define STOKE_PYTHON_SRC_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stoke/data.h>
#include <stoke/loader.h>
#include <stoke/tools/lease.h>
#include <stoke/tools/rows.h>
#include <stoke/upload.h>

/* Calls the library without the GIL: whatever may wait. */
#define PY_UNLOCKED(...)                                                                                     \
    do {                                                                                                     \
        Py_BEGIN_ALLOW_THREADS __VA_ARGS__;                                                                  \
        Py_END_ALLOW_THREADS                                                                                 \
    } while (0)

extern PyMethodDef py_settings_functions[], py_order_functions[], py_attribution_functions[],
    py_tune_functions[], py_learn_functions[];
extern PyType_Spec py_pinned_spec, py_array_spec, py_batch_spec, py_loader_spec, py_rows_spec,
    py_device_rows_spec, py_monitor_spec;
extern PyTypeObject *py_pinned_type, *py_array_type, *py_batch_type;

/* Py_tp_new of types that only the extension makes. */
PyObject *py_not_callable(PyTypeObject *type, PyObject *args, PyObject *kwargs);
/* The end of each Py_tp_dealloc. */
void py_free(PyObject *object);

/* What a call of the library returned is put into error.code, which these read. Sets the exception that
 * stands for it; returns NULL, so that callers can return it. */
PyObject *py_raise(const stoke_error *error);
/* 0 for STOKE_OK, else -1 with that exception set. */
int py_check(const stoke_error *error);
/* None for STOKE_OK, else NULL with it set. */
PyObject *py_none(const stoke_error *error);
/* -1 with MemoryError set. */
int py_no_memory(void);
/* -1 with an exception set, as PyErr_Format does it. */
int py_refuse(PyObject *exception, const char *format, ...);

/* ---- array.c: _stoke.Array: a view of memory that somebody holds, for NumPy (__array_struct__,
 * __array_interface__) and for everybody who reads DLPack. Never a copy unless one is asked for. On a device,
 * what holds the memory is a lease (lease.h), and who takes a capsule says on which stream it will work:
 * DLPack's protocol, in which the producer sees to it that this stream waits for the data. ---- */

enum { PY_VIEW_DIMS = 4 };

/* DLPack's numbers of kinds of devices. */
enum { PY_DEVICE_CPU = 1, PY_DEVICE_CUDA = 2, PY_DEVICE_OPENCL = 4 };

typedef struct py_place {
    int32_t device, id;
} py_place;
static const py_place py_on_cpu = { PY_DEVICE_CPU, 0 };

/* Dense memory, in whatever order of dimensions. */
typedef struct py_view {
    void *data; /* on a device an address there, or a cl_mem */
    int32_t dims;
    int64_t shape[PY_VIEW_DIMS], strides[PY_VIEW_DIMS]; /* in elements */
    stoke_dtype dtype;
    py_place place;
} py_view;

/* Types of elements as NumPy and DLPack name them; pictures have one of the first PY_PICTURE_TYPES. */
typedef struct py_element {
    stoke_dtype dtype;
    const char *numpy; /* NULL: it has none */
    uint8_t code, bits;
} py_element;
enum { PY_PICTURE_TYPES = 6, PY_TYPES = 8 };
extern const py_element py_elements[PY_TYPES];
const py_element *py_element_of(stoke_dtype dtype);

/* On the processor, in C order; channels_last (four dimensions, given as N, C, H, W) lies in memory as N, H,
 * W, C. */
py_view py_view_of(void *data, stoke_dtype dtype, int32_t dims, const int64_t *shape, int channels_last);
size_t py_view_bytes(const py_view *view);

/* A new array with its own count on `hold`; NULL with an exception set. */
PyObject *py_array_new(stoke_hold *hold, const py_view *view);
/* View and hold (borrowed) of an array; 0 with TypeError set when the object is none. */
int py_array_get(PyObject *object, py_view *view, stoke_hold **hold);

/* Drops a count, the GIL held. The last one of a batch on a device may wait for it: other threads run
 * meanwhile. */
void py_let_go(stoke_hold *hold, py_place place);

/* dlpack.c: a capsule, "dltensor" or (versioned) "dltensor_versioned", with its own count on `hold`. */
PyObject *py_dlpack_capsule(stoke_hold *hold, const py_view *view, int versioned, int copied);

/* device_rows.c: whether a hold is that of a result of _stoke.DeviceRows; else it is a lease (lease.h).
 * Results in memory of ours are held by a count that is no lease: the host has waited for them, so nobody has
 * to put streams in order. */
int py_result_is(const stoke_hold *hold);
/* May wait. As stoke_lease_fetch. */
int py_result_fetch(stoke_hold *hold, const void *array, void *to, size_t bytes, stoke_error *err);

/* ---- batch.c: _stoke.Batch: a batch that somebody holds, with its arrays. ---- */

/* `rows` and all it points to live as long as `hold`, whose count of the caller is taken over, also when this
 * fails. channels_last: images of layout hwc are shown as N, C, H, W, the way PyTorch names what lies in
 * memory as N, H, W, C. `place` is where images and masks are; elsewhere than on the processor, `hold` is a
 * lease (lease.h). */
PyObject *py_batch_new(stoke_hold *hold, const stoke_batch *rows, int channels_last, py_place place);
/* Views of n images or masks at `data`, which lie as those of a batch do. */
py_view py_view_of_images(const stoke_batch *like, void *data, uint32_t n, int channels_last);
py_view py_view_of_masks(const stoke_batch *like, void *data, uint32_t n);
/* What keeps a batch alive (borrowed); NULL with TypeError set when the object is none. */
stoke_hold *py_batch_hold(PyObject *object);

/* ---- pinned.c: _stoke.Pinned: where pinned memory for batches comes from: a CUDA device by its driver, or a
 * function of Python (torch's allocator). Batches outlive loaders, and what they lie in goes with the last of
 * them, in any thread: so the source has its own count. ---- */

typedef struct py_pinned {
    stoke_hold hold; /* first */
    stoke_allocator allocator;
} py_pinned;

/* Opens a device by its name. 0, or -1 with an exception set. */
int py_device_open(stoke_device **device, PyObject *name);
/* The source behind a _stoke.Pinned, with a count for the caller; *out is NULL for None. 0, or -1 with
 * TypeError set. */
int py_pinned_get(PyObject *object, py_pinned **out);
/* After STOKE_E_NOMEM of somebody who used the allocator: sets the exception that says why there was no such
 * memory and returns 1; 0 when that was not the reason. The GIL held. */
int py_pinned_raise(py_pinned *pinned);

/* ---- pixels.c: Pictures of other people's libraries, where they lie. ---- */

typedef struct py_pixels {
    stoke_pixels pixels;
    PyObject *owner; /* what keeps them alive, besides the object itself */
} py_pixels;

/* Pixels of anything with __array_interface__ (NumPy, PIL) or __dlpack__ (torch and others, on the
 * processor): H x W, H x W x C, or C x H x W where channels_first is set. -1 with an exception set. */
int py_pixels_take(py_pixels *taken, PyObject *object, int channels_first);
void py_pixels_drop(py_pixels *taken);

/* ---- settings.c: Settings given in Python, as the library takes them. ---- */

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
