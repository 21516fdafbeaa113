/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.Batch: a lease, with its arrays.
 */
#ifndef STOKE_PYTHON_SRC_BATCH_H
#define STOKE_PYTHON_SRC_BATCH_H

#include "python/src/engine.h"
#include "python/src/extension.h"

/* Takes over the caller's count on the lease, also when it fails. channels_last: images of layout hwc are
 * shown as N, C, H, W, the way PyTorch names what lies in memory as N, H, W, C. */
PyObject *py_batch_new(py_lease *lease, int channels_last);

#endif
