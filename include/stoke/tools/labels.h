/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/labels.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_LABELS_H
#define STOKE_TOOLS_LABELS_H

#include <stoke/labels.h>

/* Bytes per class id the map can produce: 1 (ids <= 255) or 2. With identity and classes 0 it is 1. */
STOKE_API uint8_t stoke_labels_depth(const stoke_labels *labels);

/* 1 when the map is a colour table: masks are then decoded as colour pictures (a palette shows its colours).
 */
STOKE_API int stoke_labels_are_colors(const stoke_labels *labels);

/* The way back: what a mask file has for a class. The lowest value; of a colour table the lowest
 * colour. 0: none means this class, or the map is of the other kind. */
STOKE_API int stoke_labels_value(const stoke_labels *labels, uint32_t id, uint16_t *value);

#endif
