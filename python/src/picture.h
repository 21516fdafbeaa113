/* SPDX-License-Identifier: Apache-2.0
 *
 * A picture of what a loader delivers.
 */
#ifndef STOKE_PYTHON_SRC_PICTURE_H
#define STOKE_PYTHON_SRC_PICTURE_H

#include <stoke/tools/lease.h>

/* Writes a PNG of the first `count` samples of an epoch, each beside itself with its mask laid over. By a
 * second loader, so that the one at work is not disturbed. May wait. */
int py_picture_write(const stoke_lender *lender, const char *path, uint32_t count, uint64_t epoch,
                     uint32_t columns, uint32_t tile, stoke_error *err);

#endif
