/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/split.h"

#include <xxhash.h>

int stk_split_is_val(const char *name, size_t length, double part, int64_t seed)
{
    if (!(part > 0)) return 0;
    if (part >= 1) return 1;
    /* Exact for every double below 1: scaling by a power of two only moves the exponent. */
    return XXH3_64bits_withSeed(name, length, (uint64_t)seed) < (uint64_t)(part * 0x1p64);
}
