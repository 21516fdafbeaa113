/* SPDX-License-Identifier: Apache-2.0
 *
 * _stoke.DeviceRows: batches that are on a device already, augmented there (<stoke/tools/device_rows.h>).
 *
 * Results in memory of ours are held by a count that is no lease: the host has waited for them, so nobody has
 * to put streams in order.
 */
#ifndef STOKE_PYTHON_SRC_DEVICE_ROWS_H
#define STOKE_PYTHON_SRC_DEVICE_ROWS_H

#include "python/src/array.h"

/* Whether a hold is that of such a result; else it is a lease (engine.h). */
int py_result_is(const stoke_hold *hold);
/* May wait. As stoke_lease_fetch. */
int py_result_fetch(stoke_hold *hold, const void *array, void *to, size_t bytes, stoke_error *err);

#endif
