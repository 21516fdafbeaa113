/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of the batch norm: what batches say of their channels, joined, and what the passes over the
 * large map take from that. One batch alone is a list of one. Batches are always joined in the order of the
 * list, in doubles, so that whoever has the same list gets the same bits.
 */
#include "src/net/segformer/segformer_head.h"

#include <math.h>

/* Channels of a task. */
enum { CHANNELS = 32 };

size_t stk_segformer_head_moments(const stk_segformer_head *head)
{
    return 1 + 2 * (size_t)head->size;
}

typedef struct norm_job {
    const stk_segformer_head *head;
    stk_segformer_head_room_map *map;
    const double *batches;
    uint32_t count; /* of them */
    float keep;
} norm_job;

static stk_head_moments joined(const norm_job *job, size_t c)
{
    const size_t size = job->head->size, stride = stk_segformer_head_moments(job->head);
    stk_head_moments all = { 0 };
    for (uint32_t i = 0; i < job->count; i++) {
        const double *batch = job->batches + i * stride;
        const stk_head_moments one = { batch[0], batch[1 + c], batch[1 + size + c] };
        if (one.count == 0) continue; /* nothing was left of it */
        all = all.count == 0 ? one : stk_head_moments_join(all, one);
    }
    return all;
}

static void normalise_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const norm_job *job = context;
    const stk_segformer_head *head = job->head;
    for (size_t c = task * (size_t)CHANNELS; c < (task + 1) * (size_t)CHANNELS; c++) {
        const stk_head_moments all = joined(job, c);
        const double variance = all.squares / all.count, rstd = 1 / sqrt(variance + 1e-5);
        job->map->mean[c] = (float)all.mean;
        job->map->rstd[c] = (float)rstd;
        job->map->scale[c] = (float)(head->norm_gamma[c] * rstd * job->keep);
        job->map->shift[c] = head->norm_beta[c] * job->keep;
        head->batch_mean[c] = all.mean;
        head->batch_variance[c] = all.squares / (all.count > 1 ? all.count - 1 : 1);
    }
}

void stk_segformer_head_normalise(const stk_exec *run, const stk_segformer_head *head, const double *moments,
                                  uint32_t count)
{
    const norm_job job = { .head = head,
                           .map = stk_segformer_head_map(head),
                           .batches = moments,
                           .count = count,
                           .keep = stk_segformer_head_norm_of(head).keep };
    job.map->rows = 0;
    for (uint32_t i = 0; i < count; i++) job.map->rows += moments[i * stk_segformer_head_moments(head)];
    stk_threadpool_run(run->pool, normalise_task, &job, head->size / CHANNELS);
}

stk_head_norm stk_segformer_head_norm_of(const stk_segformer_head *head)
{
    const stk_segformer_head_room_map *map = stk_segformer_head_map(head);
    const float dropped = roundf(head->dropout * 65536); /* of 2^16 values; the factor is for this share */
    return (stk_head_norm){ .size = head->size,
                            .mean = map->mean,
                            .scale = map->scale,
                            .shift = map->shift,
                            .seed = head->seed,
                            .threshold = (uint32_t)dropped,
                            .keep = dropped < 65536 ? 65536 / (65536 - dropped) : 0 };
}

/* What dy needs of all rows: dy = gain (g - g_mean) - slope (y - mean). */
static void slopes_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const norm_job *job = context;
    const stk_segformer_head *head = job->head;
    stk_segformer_head_room_map *map = job->map;
    const size_t size = head->size;
    for (size_t c = task * (size_t)CHANNELS; c < (task + 1) * (size_t)CHANNELS; c++) {
        const double rstd = map->rstd[c], rows = map->rows;
        double g = 0, g_off = 0;
        for (uint32_t i = 0; i < job->count; i++) {
            g += job->batches[2 * size * i + c];
            g_off += job->batches[2 * size * i + size + c];
        }
        map->gain[c] = (float)(head->norm_gamma[c] * rstd);
        map->g_mean[c] = (float)(g / rows);
        map->slope[c] = (float)(head->norm_gamma[c] * rstd * rstd * rstd * g_off / rows);
    }
}

void stk_segformer_head_slopes(const stk_exec *run, const stk_segformer_head *head, const double *sums,
                               uint32_t count)
{
    const norm_job job = {
        .head = head, .map = stk_segformer_head_map(head), .batches = sums, .count = count
    };
    stk_threadpool_run(run->pool, slopes_task, &job, head->size / CHANNELS);
}
