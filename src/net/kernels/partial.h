/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over chunks of rows: every chunk writes its own row of run->partial, and here they are added up in the
 * order of the chunks, whatever threads made them.
 */
#ifndef STOKE_SRC_NET_KERNELS_PARTIAL_H
#define STOKE_SRC_NET_KERNELS_PARTIAL_H

#include <stddef.h>

/* Row 0 becomes the sum of all rows. */
static inline void stk_partial_fold(float *partial, size_t chunks, size_t floats)
{
    for (size_t k = 1; k < chunks; k++)
        for (size_t i = 0; i < floats; i++) partial[i] += partial[k * floats + i];
}

/* out[i * step] = or += sum[i]; out NULL: not wanted. */
static inline void stk_partial_give(const float *sum, size_t count, float *out, size_t step, int accumulate)
{
    if (!out) return;
    for (size_t i = 0; i < count; i++) out[i * step] = accumulate ? out[i * step] + sum[i] : sum[i];
}

#endif
