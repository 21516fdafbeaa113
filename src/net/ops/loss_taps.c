/* SPDX-License-Identifier: Apache-2.0
 *
 * The places of bilinear interpolation, align_corners = false.
 */
#include "src/net/ops/ops.h"

#include <math.h>

#include "src/net/kernels/net_table.h"

/* As torch, in f32; but beyond the last element the pair is the last two with a share of 1 instead of the
 * last one twice, so that the second of a pair is always the next. */
uint32_t stk_loss_tap(uint32_t at, uint32_t in, uint32_t out, float *share)
{
    *share = 0;
    if (in == 1) return 0;
    const float place = fmaxf((float)in / (float)out * ((float)at + 0.5f) - 0.5f, 0);
    uint32_t first = (uint32_t)place;
    *share = place - (float)first;
    if (first >= in - 1) {
        first = in - 2;
        *share = 1;
    }
    return first;
}

size_t stk_loss_columns_padded(const stk_loss_shape *shape)
{
    return ((size_t)shape->width + STK_LOSS_MOST_LANES - 1) / STK_LOSS_MOST_LANES * STK_LOSS_MOST_LANES;
}

size_t stk_loss_room(const stk_loss_shape *shape)
{
    return 4 * (stk_loss_pairs(shape) + 1 + (size_t)shape->height + 2 * stk_loss_columns_padded(shape));
}

stk_loss_taps stk_loss_taps_in(const stk_loss_shape *shape, const void *room)
{
    const uint32_t *at = room;
    stk_loss_taps taps;
    taps.start = at;
    at += stk_loss_pairs(shape) + 1;
    taps.line_share = (const float *)at;
    at += shape->height;
    taps.column_first = at;
    at += stk_loss_columns_padded(shape);
    taps.column_share = (const float *)at;
    return taps;
}

void stk_loss_bind(const stk_loss_shape *shape, void *room)
{
    const uint32_t pairs = stk_loss_pairs(shape);
    const size_t columns = stk_loss_columns_padded(shape);
    uint32_t *start = room;
    float *line_share = (float *)(start + pairs + 1);
    uint32_t *column_first = (uint32_t *)(line_share + shape->height);
    float *column_share = (float *)(column_first + columns);
    uint32_t pair = 0;
    start[0] = 0;
    for (uint32_t i = 0; i < shape->height; i++) {
        const uint32_t first = stk_loss_tap(i, shape->in_height, shape->height, &line_share[i]);
        while (pair < first) start[++pair] = i;
    }
    while (pair < pairs) start[++pair] = shape->height;
    for (uint32_t i = 0; i < columns; i++)
        column_first[i] = stk_loss_tap(i < shape->width ? i : shape->width - 1, shape->in_width, shape->width,
                                       &column_share[i]);
}
