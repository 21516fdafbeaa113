/* SPDX-License-Identifier: Apache-2.0
 *
 * The border of filters: mirrored without its edge (reflect-101), for any distance.
 */
#ifndef STOKE_KERNELS_REFLECT_H
#define STOKE_KERNELS_REFLECT_H

#include "kernels/compat.h"

/* Where `at` (may be negative or past the end) falls in 0 .. size - 1; ... 2 1 | 0 1 2 3 | 2 1 0 1 ... */
K_FN k_u32 k_reflect(k_i64 at, k_u32 size)
{
    if (at >= 0 && at < size) return (k_u32)at; /* nearly always: spares a division */
    if (size == 1) return 0;
    const k_i64 period = 2 * (k_i64)size - 2;
    at %= period;
    if (at < 0) at += period;
    return (k_u32)(at < size ? at : period - at);
}

#endif
