/* SPDX-License-Identifier: Apache-2.0
 *
 * update in vectors. Memory is the limit: 28 bytes per parameter for AdamW, 36 with the average.
 */
#include "src/net/kernels/simd.h"
#include "src/net/kernels/net_table.h"

static double squares(const float *values, size_t count)
{
    vd sum[4] = { vd_zero(), vd_zero(), vd_zero(), vd_zero() };
    double lanes[STK_LANES / 2], total = 0;
    size_t i = 0;
    for (; i + 2 * STK_LANES <= count; i += 2 * STK_LANES) {
        vd_add_squares(sum, v_load(values + i));
        vd_add_squares(sum + 2, v_load(values + i + STK_LANES));
    }
    for (; i < count; i += STK_LANES) vd_add_squares(sum, v_get_part(values, i, count - i, STK_F32));
    for (int k = 0; k < 4; k++) {
        vd_store(lanes, sum[k]);
        for (int l = 0; l < STK_LANES / 2; l++) total += lanes[l];
    }
    return total;
}

/* Elements i .. i + count, count <= STK_LANES. */
STK_INLINE void average_of(const stk_update_step *step, const stk_update_chunk *chunk, size_t i, size_t count,
                           vf value)
{
    if (!chunk->average) return;
    const vf old = v_mul(v_set(step->keep), v_get_part(chunk->average, i, count, STK_F32));
    v_put_part(chunk->average, i, count, v_fma(v_set(step->take), value, old), STK_F32);
}

STK_INLINE void adamw_at(const stk_update_step *step, const stk_update_chunk *chunk, size_t i, size_t count)
{
    const vf g = v_mul(v_set(step->factor), v_get_part(chunk->gradients, i, count, STK_F32));
    vf m = v_get_part(chunk->first, i, count, STK_F32), v = v_get_part(chunk->second, i, count, STK_F32);
    m = v_fma(v_set(step->rest1), v_sub(g, m), m);
    v = v_fma(v_mul(v_set(step->rest2), g), g, v_mul(v_set(step->beta2), v));
    const vf divisor = v_fma(v_sqrt(v), v_set(step->root), v_set(step->eps));
    vf value = v_mul(v_set(step->decay), v_get_part(chunk->values, i, count, STK_F32));
    value = v_fnma(v_set(step->rate), v_div(m, divisor), value);
    v_put_part(chunk->first, i, count, m, STK_F32);
    v_put_part(chunk->second, i, count, v, STK_F32);
    v_put_part(chunk->values, i, count, value, STK_F32);
    average_of(step, chunk, i, count, value);
}

static void adamw(const stk_update_step *step, const stk_update_chunk *chunk)
{
    const stk_update_step s = *step; /* in registers: stores of floats might change the original */
    const stk_update_chunk c = *chunk;
    size_t i = 0;
    for (; i + STK_LANES <= c.count; i += STK_LANES) adamw_at(&s, &c, i, STK_LANES);
    if (i < c.count) adamw_at(&s, &c, i, c.count - i);
}

STK_INLINE void sgd_at(const stk_update_step *step, const stk_update_chunk *chunk, size_t i, size_t count)
{
    vf value = v_get_part(chunk->values, i, count, STK_F32);
    vf g = v_mul(v_set(step->factor), v_get_part(chunk->gradients, i, count, STK_F32));
    g = v_fma(v_set(step->decay), value, g);
    if (chunk->first) {
        const vf m = v_fma(v_set(step->beta1), v_get_part(chunk->first, i, count, STK_F32), g);
        v_put_part(chunk->first, i, count, m, STK_F32);
        g = step->nesterov ? v_fma(v_set(step->beta1), m, g) : m;
    }
    value = v_fnma(v_set(step->lr), g, value);
    v_put_part(chunk->values, i, count, value, STK_F32);
    average_of(step, chunk, i, count, value);
}

static void sgd(const stk_update_step *step, const stk_update_chunk *chunk)
{
    const stk_update_step s = *step;
    const stk_update_chunk c = *chunk;
    size_t i = 0;
    for (; i + STK_LANES <= c.count; i += STK_LANES) sgd_at(&s, &c, i, STK_LANES);
    if (i < c.count) sgd_at(&s, &c, i, c.count - i);
}

void STK_SIMD(stk_update_fill)(stk_update_table *table)
{
    *table = (stk_update_table){ .squares = squares, .adamw = adamw, .sgd = sgd };
}
