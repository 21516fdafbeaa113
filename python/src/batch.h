/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Batch: a batch that somebody holds, with its arrays.
 */
#ifndef STOKE_PYTHON_SRC_BATCH_H
#define STOKE_PYTHON_SRC_BATCH_H

#include <stoke/loader.h>

#include "python/src/array.h"

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

#endif
