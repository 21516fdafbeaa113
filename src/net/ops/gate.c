/* SPDX-License-Identifier: Apache-2.0
 *
 * gate: pixels of a gradient and of the map that a ReLU made, a few thousand per task.
 */
#include "src/net/ops/ops.h"

#include "src/net/ops/blocks.h"

typedef struct job {
    size_t pixels;
    uint32_t channels;
    const stk_map *y, *d;
} job;

static void gate_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const size_t each = stk_block_lines(j->channels), first = task * each;
    const size_t end = first + each < j->pixels ? first + each : j->pixels;
    float y[STK_BLOCK], d[STK_BLOCK];
    for (size_t pixel = first; pixel < end; pixel++)
        for (size_t c = 0; c < j->channels; c += STK_BLOCK) {
            const size_t count = j->channels - c < STK_BLOCK ? j->channels - c : STK_BLOCK;
            stk_block_load(j->y->data, pixel * j->y->stride + c, count, j->y->type, y);
            stk_block_load(j->d->data, pixel * j->d->stride + c, count, j->d->type, d);
            for (size_t i = 0; i < count; i++) d[i] = y[i] > 0 ? d[i] : 0;
            stk_block_store(d, count, j->d->data, pixel * j->d->stride + c, j->d->type, 0);
        }
}

void stk_gate(const stk_exec *run, size_t pixels, uint32_t channels, const stk_map *y, const stk_map *d)
{
    const job j = { pixels, channels, y, d };
    const size_t each = stk_block_lines(channels);
    stk_threadpool_run(run->pool, gate_task, &j, (uint32_t)((pixels + each - 1) / each));
}
