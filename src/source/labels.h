/* SPDX-License-Identifier: Apache-2.0
 *
 * What other rooms see of a label map beyond <stoke/labels.h>.
 */
#ifndef STOKE_SRC_SOURCE_LABELS_H
#define STOKE_SRC_SOURCE_LABELS_H

#include <stoke/labels.h>

enum { STK_LABEL_VALUES = 65536 };

/* 128-bit digest of what the map does, however it was written: two maps that give other ids, or refuse other
 * values, have other digests. */
void stk_labels_digest(const stoke_labels *labels, uint64_t digest[2]);

/* One more than the largest id that the map can give, ignore_index aside; 0: it gives no other, or (`keeps`
 * without a number of classes) the masks have to tell. */
uint32_t stk_labels_classes(const stoke_labels *labels);
/* 1: a list that leaves values it does not name as they are ("11:255,*"). */
int stk_labels_keep(const stoke_labels *labels);
/* Whether each value of a mask (two bytes each, one channel) is a class of a map without colours: the first
 * that is none is STOKE_E_LABEL, as stoke_labels_apply says it. Takes no memory. */
int stk_labels_check(const stoke_labels *labels, const stoke_image *values, stoke_error *err);

#endif
