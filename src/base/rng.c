/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/rng.h"

#include <Random123/philox.h>

stk_rng stk_philox_block(const uint32_t counter[4], const uint32_t key[2])
{
    philox4x32_ctr_t c = { { counter[0], counter[1], counter[2], counter[3] } };
    philox4x32_key_t k = { { key[0], key[1] } };
    philox4x32_ctr_t r = philox4x32(c, k);
    return (stk_rng){ { r.v[0], r.v[1], r.v[2], r.v[3] } };
}

stk_rng stk_philox(uint64_t seed, uint64_t position, uint64_t epoch, uint32_t stream, uint32_t draw)
{
    const uint32_t counter[4] = { (uint32_t)position, (uint32_t)(position >> 32),
                                  (uint32_t)epoch ^ (uint32_t)(epoch >> 32), stream << 16 | (draw & 0xffff) };
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    return stk_philox_block(counter, key);
}
