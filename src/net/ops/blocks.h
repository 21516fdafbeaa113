/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps as blocks of floats, for operations that are plain arithmetic on each element: what they do is written
 * once for the three types, in loops that compilers make vectors of.
 */
#ifndef STOKE_SRC_NET_OPS_BLOCKS_H
#define STOKE_SRC_NET_OPS_BLOCKS_H

#include <math.h>
#include <string.h>

#include <stoke/net.h>

#include "src/net/kernels/floats.h"

enum {
    STK_BLOCK = 256,     /* floats: the four blocks of a pool are 4 KB, an eighth of the first cache */
    STK_BLOCK_LANES = 8, /* that sums are taken in */
    /* Elements of a task: 4 channels of 128 x 128 pixels, about 50 us, so that handing it out is nothing. */
    STK_BLOCK_TASK = 1 << 16
};

static inline void stk_block_load(const void *array, size_t first, size_t count, stk_float type, float *block)
{
    if (type == STK_F32)
        memcpy(block, (const float *)array + first, count * sizeof *block);
    else if (type == STK_BF16)
        for (size_t i = 0; i < count; i++) block[i] = stk_get(array, first + i, STK_BF16);
    else
        for (size_t i = 0; i < count; i++) block[i] = stk_get(array, first + i, STK_F16);
}

/* = or, with add, += (the sum is rounded to the type). */
static inline void stk_block_store(const float *block, size_t count, void *array, size_t first,
                                   stk_float type, int add)
{
    float sum[STK_BLOCK];
    if (add) {
        stk_block_load(array, first, count, type, sum);
        for (size_t i = 0; i < count; i++) sum[i] += block[i];
        block = sum;
    }
    if (type == STK_F32)
        memcpy((float *)array + first, block, count * sizeof *block);
    else if (type == STK_BF16)
        for (size_t i = 0; i < count; i++) stk_put(array, first + i, block[i], STK_BF16);
    else
        for (size_t i = 0; i < count; i++) stk_put(array, first + i, block[i], STK_F16);
}

/* Lines of `elements` each that make a task. */
static inline uint32_t stk_block_lines(size_t elements)
{
    return elements < STK_BLOCK_TASK ? (uint32_t)(STK_BLOCK_TASK / elements) : 1;
}

/* ---- distances ---- */

/* Sums of one task. */
typedef struct stk_block_sums {
    double lane[STK_BLOCK_LANES];
} stk_block_sums;

static inline void stk_block_add(stk_block_sums *sums, const float *terms, size_t count)
{
    size_t i = 0;
    for (; i + STK_BLOCK_LANES <= count; i += STK_BLOCK_LANES)
        for (size_t l = 0; l < STK_BLOCK_LANES; l++) sums->lane[l] += (double)terms[i + l];
    for (size_t l = 0; i < count; i++, l++) sums->lane[l] += (double)terms[i];
}

static inline double stk_block_total(const stk_block_sums *sums)
{
    double total = 0;
    for (size_t l = 0; l < STK_BLOCK_LANES; l++) total += sums->lane[l];
    return total;
}

/* Epsilon of Charbonnier's distance, squared. */
#define STK_BLOCK_EPSILON2 1e-6f

/* Adds the distances of `count` differences, which become `scale` times the slopes there. Where the
 * difference is NaN so is the slope; |d| has none at 0, and gets 0. */
static inline void stk_block_distance(stoke_loss_kind kind, float *d, size_t count, float scale,
                                      stk_block_sums *sums)
{
    float terms[STK_BLOCK];
    if (kind == STOKE_LOSS_L1)
        for (size_t i = 0; i < count; i++) {
            const float sign = (float)((d[i] > 0) - (d[i] < 0));
            terms[i] = fabsf(d[i]);
            d[i] = scale * (sign + 0 * d[i]); /* no branch, so that it becomes vectors; NaN stays */
        }
    else if (kind == STOKE_LOSS_CHARBONNIER)
        for (size_t i = 0; i < count; i++) {
            terms[i] = sqrtf(d[i] * d[i] + STK_BLOCK_EPSILON2);
            d[i] = scale * (d[i] / terms[i]);
        }
    else
        for (size_t i = 0; i < count; i++) {
            terms[i] = d[i] * d[i];
            d[i] = 2 * scale * d[i];
        }
    stk_block_add(sums, terms, count);
}

#endif
