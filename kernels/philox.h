/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10: the same words as stk_philox_block (src/base/rng.h), which test_kernels compares.
 */
#ifndef STOKE_KERNELS_PHILOX_H
#define STOKE_KERNELS_PHILOX_H

#include "kernels/compat.h"

typedef struct k_random {
    k_u32 word[4];
} k_random;

K_FN k_random k_philox_block(k_u32 c0, k_u32 c1, k_u32 c2, k_u32 c3, k_u32 key0, k_u32 key1)
{
    k_random out;
    for (int round = 0; round < 10; round++) {
        const k_u64 a = (k_u64)0xd2511f53u * c0, b = (k_u64)0xcd9e8d57u * c2;
        c0 = (k_u32)(b >> 32) ^ c1 ^ key0;
        c1 = (k_u32)b;
        c2 = (k_u32)(a >> 32) ^ c3 ^ key1;
        c3 = (k_u32)a;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    out.word[0] = c0;
    out.word[1] = c1;
    out.word[2] = c2;
    out.word[3] = c3;
    return out;
}

#endif
