/* SPDX-License-Identifier: Apache-2.0
 *
 * Where pixels of the mask lie among the logits: what stk_loss_bind puts into its room.
 */
#ifndef STOKE_SRC_NET_OPS_LOSS_TAPS_H
#define STOKE_SRC_NET_OPS_LOSS_TAPS_H

#include "src/net/ops/loss.h"

typedef struct stk_loss_taps {
    const uint32_t *start;        /* [pairs + 1]: first line of the mask that lies in each pair */
    const float *line_share;      /* [height]: of the pair's lower line */
    const uint32_t *column_first; /* [columns] */
    const float *column_share;
} stk_loss_taps;

stk_loss_taps stk_loss_taps_in(const stk_loss_shape *shape, const void *room);

/* Element `at` of `out` is (1 - share) * element first + share * element first + 1 of `in`; returns first. */
uint32_t stk_loss_tap(uint32_t at, uint32_t in, uint32_t out, float *share);

/* Pairs of neighbouring lines of logits; one line alone makes a pair with itself. */
static inline uint32_t stk_loss_pairs(const stk_loss_shape *shape)
{
    return shape->in_height > 1 ? shape->in_height - 1 : 1;
}

/* Columns of the mask, padded to whole blocks of any table. The padding repeats the last column. */
size_t stk_loss_columns_padded(const stk_loss_shape *shape);

#endif
