/* SPDX-License-Identifier: Apache-2.0
 *
 * sum: pixels of two maps added up, a few thousand per task.
 */
#include "src/net/ops/ops.h"

#include "src/net/ops/blocks.h"

typedef struct job {
    size_t pixels;
    uint32_t channels;
    const stk_map *a, *b, *y;
} job;

static void sum_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const size_t each = stk_block_lines(j->channels), first = task * each;
    const size_t end = first + each < j->pixels ? first + each : j->pixels;
    float a[STK_BLOCK], b[STK_BLOCK];
    for (size_t pixel = first; pixel < end; pixel++)
        for (size_t c = 0; c < j->channels; c += STK_BLOCK) {
            const size_t count = j->channels - c < STK_BLOCK ? j->channels - c : STK_BLOCK;
            stk_block_load(j->a->data, pixel * j->a->stride + c, count, j->a->type, a);
            stk_block_load(j->b->data, pixel * j->b->stride + c, count, j->b->type, b);
            for (size_t i = 0; i < count; i++) a[i] += b[i];
            stk_block_store(a, count, j->y->data, pixel * j->y->stride + c, j->y->type, 0);
        }
}

void stk_sum(const stk_exec *run, size_t pixels, uint32_t channels, const stk_map *a, const stk_map *b,
             const stk_map *y)
{
    const job j = { pixels, channels, a, b, y };
    const size_t each = stk_block_lines(channels);
    stk_threadpool_run(run->pool, sum_task, &j, (uint32_t)((pixels + each - 1) / each));
}
