/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading labels of any type: the loop has no branch on the values, so that compilers make vectors of it.
 */
#include "src/net/ops/ops.h"

#include <math.h>

#include "src/net/kernels/net_table.h"

/* ---- labels ---- */

#define INLINE static inline __attribute__((always_inline))

INLINE int64_t value_at(stoke_dtype dtype, const void *mask, size_t i)
{
    switch (dtype) {
    case STOKE_DTYPE_U8: return ((const uint8_t *)mask)[i];
    case STOKE_DTYPE_U16: return ((const uint16_t *)mask)[i];
    case STOKE_DTYPE_I32: return ((const int32_t *)mask)[i];
    default: return ((const int64_t *)mask)[i];
    }
}

static uint64_t label_limit(const stk_label_rules *rules)
{
    return rules->classes == 1 ? 2 : rules->classes;
}

INLINE int counts(const stk_label_rules *rules, int64_t value)
{
    return (value != rules->ignore) & !((rules->classes == 1) & (value < 0));
}

/* Small types: all arithmetic in 32 bits. An ignore_index they cannot hold becomes one they do not have. */
INLINE int read_small(stoke_dtype dtype, const stk_label_rules *rules, const void *mask, size_t first,
                      size_t count, int32_t *labels)
{
    const int32_t ignore = rules->ignore < 0 || rules->ignore > 65535 ? -1 : (int32_t)rules->ignore;
    const int32_t limit = (int32_t)label_limit(rules);
    int32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        const int32_t value = (int32_t)value_at(dtype, mask, first + i), counted = value != ignore;
        bad |= counted & (value >= limit);
        labels[i] = value | (counted - 1);
    }
    return !bad;
}

INLINE int read_large(stoke_dtype dtype, const stk_label_rules *rules, const void *mask, size_t first,
                      size_t count, int32_t *labels)
{
    const uint64_t limit = label_limit(rules);
    int bad = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t value = value_at(dtype, mask, first + i);
        const int counted = counts(rules, value);
        bad |= counted & ((uint64_t)value >= limit);
        labels[i] = counted ? (int32_t)value : -1;
    }
    return !bad;
}

int stk_labels_read(const stk_label_rules *rules, const void *mask, size_t first, size_t count,
                    int32_t *labels)
{
    switch (rules->dtype) {
    case STOKE_DTYPE_U8: return read_small(STOKE_DTYPE_U8, rules, mask, first, count, labels);
    case STOKE_DTYPE_U16: return read_small(STOKE_DTYPE_U16, rules, mask, first, count, labels);
    case STOKE_DTYPE_I32: return read_large(STOKE_DTYPE_I32, rules, mask, first, count, labels);
    default: return read_large(STOKE_DTYPE_I64, rules, mask, first, count, labels);
    }
}

size_t stk_labels_bad(const stk_label_rules *rules, const void *mask, size_t first, size_t count,
                      int64_t *value)
{
    for (size_t i = 0; i < count; i++) {
        *value = value_at(rules->dtype, mask, first + i);
        if (counts(rules, *value) && (uint64_t)*value >= label_limit(rules)) return i;
    }
    return count;
}

/* ---- taps ---- */

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
