/* SPDX-License-Identifier: Apache-2.0
 *
 * The distance of two maps of features: a few thousand pixels per task, a block of channels at a time.
 */
#include "src/net/ops/ops.h"

#include "src/net/ops/blocks.h"

typedef struct job {
    stoke_loss_kind kind;
    const stk_feature_shape *shape;
    const stk_map *a, *b, *d_a;
    float scale;
    int add;
    double *sums; /* per task */
} job;

static uint32_t tasks_of(const stk_feature_shape *shape)
{
    const size_t each = stk_block_lines(shape->channels);
    return (uint32_t)((shape->pixels + each - 1) / each);
}

static void distance_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const size_t channels = j->shape->channels, pixels = j->shape->pixels;
    const size_t each = stk_block_lines(channels), first = task * each;
    const size_t end = first + each < pixels ? first + each : pixels;
    float d[STK_BLOCK], b[STK_BLOCK];
    stk_block_sums sums = { { 0 } };
    for (size_t pixel = first; pixel < end; pixel++)
        for (size_t c = 0; c < channels; c += STK_BLOCK) {
            const size_t count = channels - c < STK_BLOCK ? channels - c : STK_BLOCK;
            stk_block_load(j->a->data, pixel * j->a->stride + c, count, j->a->type, d);
            stk_block_load(j->b->data, pixel * j->b->stride + c, count, j->b->type, b);
            for (size_t i = 0; i < count; i++) d[i] -= b[i];
            stk_block_distance(j->kind, d, count, j->scale, &sums);
            if (j->d_a)
                stk_block_store(d, count, j->d_a->data, pixel * j->d_a->stride + c, j->d_a->type, j->add);
        }
    j->sums[task] = stk_block_total(&sums);
}

void stk_feature_distance(const stk_exec *run, stoke_loss_kind kind, const stk_feature_shape *shape,
                          const stk_map *a, const stk_map *b, float factor, double *loss, const stk_map *d_a,
                          int add)
{
    const double count = (double)shape->pixels * shape->channels;
    const job j = { .kind = kind,
                    .shape = shape,
                    .a = a,
                    .b = b,
                    .d_a = d_a,
                    .scale = (float)(factor / count),
                    .add = add,
                    .sums = (double *)(void *)run->partial };
    const uint32_t tasks = tasks_of(shape);
    stk_threadpool_run(run->pool, distance_task, &j, tasks);
    double sum = 0;
    for (uint32_t task = 0; task < tasks; task++) sum += j.sums[task];
    *loss = sum / count;
}

stk_exec_need stk_feature_distance_need(const stk_exec *run, const stk_feature_shape *shape)
{
    (void)run;
    return (stk_exec_need){ .partial = tasks_of(shape) * (sizeof(double) / sizeof(float)) };
}
