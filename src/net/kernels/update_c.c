/* SPDX-License-Identifier: Apache-2.0
 *
 * update: the reference in C. The order of operations is torch.optim's (2.13, one tensor at a time).
 */
#include <math.h>

#include "src/net/kernels/net_table.h"

static double squares(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)values[i] * values[i];
    return sum;
}

static void average_of(const stk_update_step *step, const stk_update_chunk *chunk, size_t i)
{
    if (chunk->average) chunk->average[i] = step->keep * chunk->average[i] + step->take * chunk->values[i];
}

static void adamw(const stk_update_step *step, const stk_update_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        const float g = step->factor * chunk->gradients[i];
        const float m = chunk->first[i] + step->rest1 * (g - chunk->first[i]);
        const float v = step->beta2 * chunk->second[i] + step->rest2 * g * g;
        const float divisor = sqrtf(v) * step->root + step->eps;
        chunk->first[i] = m;
        chunk->second[i] = v;
        chunk->values[i] = step->decay * chunk->values[i] - step->rate * (m / divisor);
        average_of(step, chunk, i);
    }
}

static void sgd(const stk_update_step *step, const stk_update_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        float g = step->factor * chunk->gradients[i] + step->decay * chunk->values[i];
        if (chunk->first) {
            const float momentum = step->beta1 * chunk->first[i] + g;
            chunk->first[i] = momentum;
            g = step->nesterov ? g + step->beta1 * momentum : momentum;
        }
        chunk->values[i] -= step->lr * g;
        average_of(step, chunk, i);
    }
}

void stk_update_fill_c(stk_update_table *table)
{
    *table = (stk_update_table){ .squares = squares, .adamw = adamw, .sgd = sgd };
}
