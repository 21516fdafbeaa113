/* SPDX-License-Identifier: Apache-2.0
 *
 * Zeros: what is counted or summed up starts from them.
 */
#ifndef STOKE_KERNELS_CLEAR_H
#define STOKE_KERNELS_CLEAR_H

#include "kernels/tables.h"

K_KERNEL clear(K_GLOBAL k_u32 *words, k_shape shape K_ID)
{
    const k_u32 i = k_at(0);
    if (i < shape.width) words[i] = 0;
}

#endif
