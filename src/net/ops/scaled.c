/* SPDX-License-Identifier: Apache-2.0
 *
 * scaled: scale and convert.
 */
#include "src/net/ops/ops.h"

/* Loops without a switch inside, so that the compiler makes vectors of them. */
static void convert_row(const float *x, size_t count, float factor, void *out, stk_float type)
{
    if (type == STK_F32)
        for (size_t i = 0; i < count; i++) ((float *)out)[i] = factor * x[i];
    else if (type == STK_BF16)
        for (size_t i = 0; i < count; i++) ((uint16_t *)out)[i] = stk_bf16(factor * x[i]);
    else
        for (size_t i = 0; i < count; i++) ((uint16_t *)out)[i] = stk_f16(factor * x[i]);
}

static void make_rows(const void *context, size_t first, size_t count, void *out)
{
    const stk_scaled *s = context;
    for (size_t row = first; row < first + count; row++) {
        const float factor = s->scale ? s->scale[row / s->sample_rows] : 1.0f;
        convert_row(s->x + row * s->channels, s->channels, factor,
                    stk_at(out, (row - first) * s->channels, s->type), s->type);
    }
}

stk_exec_rows stk_scaled_rows(const stk_scaled *scaled)
{
    if (scaled->type == STK_F32 && !scaled->scale) return stk_rows_of(scaled->x, scaled->channels);
    return (stk_exec_rows){ .stride = scaled->channels, .make = make_rows, .context = scaled };
}
