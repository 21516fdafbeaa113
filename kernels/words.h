/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of words. Zeros, from which what is counted or summed up starts; and work for its own sake: what a
 * training step of so many milliseconds is made of in `bench device`.
 */
#ifndef STOKE_KERNELS_WORDS_H
#define STOKE_KERNELS_WORDS_H

#include "kernels/tables.h"

K_KERNEL clear(K_GLOBAL k_u32 *words, k_shape shape K_ID)
{
    const k_u32 i = k_at(0);
    if (i < shape.width) words[i] = 0;
}

/* Xorshift: every turn needs the one before and the result is kept, so no compiler can leave a turn out. */
K_KERNEL spin(K_GLOBAL k_u32 *words, k_shape shape K_ID)
{
    const k_u32 i = k_at(0);
    if (i >= shape.width) return;
    k_u32 word = words[i] | 1u; /* 0 would stay 0 */
    for (k_u32 turn = 0; turn < shape.round; turn++) {
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
    }
    words[i] = word;
}

#endif
