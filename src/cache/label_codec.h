/* SPDX-License-Identifier: Apache-2.0
 *
 * Class ids, packed without loss: label maps are mostly long runs and rows that repeat the row above, so a
 * run code shrinks them 20 to 100 times and unpacks at the speed of memset. A map that does not shrink is
 * stored as it is. Lossy or predictive image codecs have no business here: an id is a name, not a quantity.
 */
#ifndef STOKE_SRC_CACHE_LABEL_CODEC_H
#define STOKE_SRC_CACHE_LABEL_CODEC_H

#include <stoke/image.h>

/* Most bytes a map can take when packed. */
size_t stk_labels_pack_bound(uint32_t width, uint32_t height, uint8_t depth);
/* Packs a 1-channel map; returns the bytes used (<= bound). */
size_t stk_labels_pack(const stoke_image *map, uint8_t *packed);
/* Fills `map` (size and depth known, any stride). STOKE_E_FORMAT unless exactly `bytes` bytes describe
 * exactly this map; never reads or writes outside. */
int stk_labels_unpack(const uint8_t *packed, size_t bytes, const stoke_image *map, stoke_error *err);

#endif
