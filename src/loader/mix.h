/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a finished batch, mixed with each other: MixUp and CutMix.
 *
 * Every row is mixed with the row before it (row 0 with the last), both as they are before any mixing. The
 * plan of a row says how; which row stands before it follows from its place in the batch. Both are the same
 * for any number of workers, ranks and any point of resumption, since a batch is always the same run of
 * global positions (order.h), and so are the bytes. Under policy skip the gaps are closed first: which rows
 * are bad is a property of the files.
 */
#ifndef STOKE_SRC_LOADER_MIX_H
#define STOKE_SRC_LOADER_MIX_H

#include "src/base/mem.h"
#include "src/loader/slots.h"

/* Mixes rows 0 .. batch.count-1 by slot->mix and fills masks_b and lambda where the slot has them. `copy`
 * keeps one row meanwhile. A batch of one row stays as it is. */
int stk_slot_mix(stk_slot *slot, stk_mem_buffer *copy, stoke_error *err);
/* What `copy` will hold. */
uint64_t stk_mix_scratch(const stoke_batch *shape);

#endif
