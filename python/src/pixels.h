/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures of other people's libraries, where they lie.
 */
#ifndef STOKE_PYTHON_SRC_PIXELS_H
#define STOKE_PYTHON_SRC_PIXELS_H

#include <stoke/tools/rows.h>

#include "python/src/extension.h"

typedef struct py_pixels {
    stoke_pixels pixels;
    PyObject *owner; /* what keeps them alive, besides the object itself */
} py_pixels;

/* Pixels of anything with __array_interface__ (NumPy, PIL) or __dlpack__ (torch and others, on the
 * processor): H x W, H x W x C, or C x H x W where channels_first is set. -1 with an exception set. */
int py_pixels_take(py_pixels *taken, PyObject *object, int channels_first);
void py_pixels_drop(py_pixels *taken);

#endif
