/* SPDX-License-Identifier: Apache-2.0
 *
 * The border of filters: mirrored without its edge (reflect-101), for any distance.
 */
#ifndef STOKE_SRC_PIX_REFLECT_H
#define STOKE_SRC_PIX_REFLECT_H

#include <stdint.h>

/* Where `at` (may be negative or past the end) falls in 0 .. size - 1; ... 2 1 | 0 1 2 3 | 2 1 0 1 ... */
static inline uint32_t stk_reflect(int64_t at, uint32_t size)
{
    if (at >= 0 && at < size) return (uint32_t)at; /* nearly always: spares a division */
    if (size == 1) return 0;
    const int64_t period = 2 * (int64_t)size - 2;
    at %= period;
    if (at < 0) at += period;
    return (uint32_t)(at < size ? at : period - at);
}

#endif
