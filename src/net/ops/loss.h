/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss at the resolution of the masks, from logits at a quarter of it: rows are interpolated (bilinear,
 * align_corners = false), turned into probabilities, compared and their gradients scattered back a line at a
 * time. Logits in full resolution never exist.
 *
 * Every task covers whole lines of one sample by the shape alone; sums are in double, in the order of the
 * tasks.
 */
#ifndef STOKE_SRC_NET_OPS_LOSS_H
#define STOKE_SRC_NET_OPS_LOSS_H

#include <stoke/data.h>
#include <stoke/net.h>

#include "src/net/exec.h"

typedef struct stk_loss_shape {
    uint32_t batch, classes;
    uint32_t in_height, in_width; /* of the logits */
    uint32_t height, width;       /* of the masks */
} stk_loss_shape;

/* Masks as the loader delivers them: u8, u16, i32 or i64; `row_bytes` from sample to sample. */
typedef struct stk_loss_truth {
    const void *masks, *masks_b; /* masks_b NULL: not mixed */
    const float *lambda;         /* with masks_b: share of `masks` per sample */
    stoke_dtype dtype;
    size_t row_bytes;
} stk_loss_truth;

/* room: stk_loss_room bytes in the arena (tables of taps). */
size_t stk_loss_room(const stk_loss_shape *shape);
void stk_loss_bind(const stk_loss_shape *shape, void *room);
/* *loss, and d_logits = factor * d loss / d logits (f32, stride stk_logits_stride, columns beyond `classes`
 * zero); d_logits NULL: the loss only. With no pixel that counts the loss is 0 and so is its gradient.
 * STOKE_E_LABEL: a mask holds a value that is neither a class nor ignore_index; the message has it. */
int stk_loss(const stk_exec *run, const stoke_loss *settings, const stk_loss_shape *shape, const void *room,
             const float *logits, const stk_loss_truth *truth, float factor, double *loss, float *d_logits,
             stoke_error *err);
/* The class of every pixel at the resolution of the shape, [batch][height][width] u16: argmax of the
 * interpolated logits, lowest class at a tie (1 class: 1 where the logit is > 0). */
void stk_classes_of(const stk_exec *run, const stk_loss_shape *shape, const void *room, const float *logits,
                    uint16_t *labels);
stk_exec_need stk_loss_need(const stk_exec *run, const stk_loss_shape *shape);

#endif
