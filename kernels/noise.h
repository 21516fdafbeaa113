/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of the rows of noise: ten rounds of Philox once a row and channel, not once a pixel.
 */
#ifndef STOKE_KERNELS_NOISE_H
#define STOKE_KERNELS_NOISE_H

#include "kernels/philox.h"
#include "kernels/tables.h"

/* x: rows of the output, y: channels, z: steps of the whole batch, shape.count of them. Gray noise takes the
 * key of channel 0 for all. */
K_KERNEL noise_keys(K_GLOBAL k_u32 *keys, K_GLOBAL const k_step *steps, const k_shape shape K_ID)
{
    const k_u32 y = k_at(0), channel = k_at(1), i = k_at(2);
    if (y >= shape.height || channel >= 3 || i >= shape.count || steps[i].kind != K_NOISE) return;
    const k_random random = k_philox_block(y, channel, 0, 0, steps[i].key[0], steps[i].key[1]);
    K_GLOBAL k_u32 *key = keys + steps[i].keys + ((k_u64)y * 3 + channel) * 2;
    key[0] = random.word[0];
    key[1] = random.word[1];
}

#endif
