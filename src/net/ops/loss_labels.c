/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading labels of any type: the loop has no branch on the values, so that compilers make vectors of it.
 */
#include "src/net/ops/ops.h"

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
