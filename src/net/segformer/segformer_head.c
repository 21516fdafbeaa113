/* SPDX-License-Identifier: Apache-2.0
 *
 * The decode head forward. In training two passes over the large map: lines of y with the moments of their
 * channels, then blocks of rows through batch norm, ReLU, dropout and classifier. In inference the batch norm
 * is in the weights, so one pass goes from the features to the logits and y is never stored.
 *
 * Milliseconds of one core with AVX2 in f32, products + the rest (4x256x256 with 19 classes, 2x512x512 with
 * 150; the machine was busy, so these are upper bounds):
 *                     b0 4x256    b0 2x512    b2 4x256
 *   forward            9 +  6     41 + 10     47 + 19
 *   backward          20 +  9     90 + 17    127 + 27
 * An unfused trial spent 28 ms of two cores outside of products in the first.
 */
#include "src/net/segformer/segformer_head.h"

#include <math.h>

#include "src/net/kernels/net_table.h"

/* Blocks of rows a task takes through the classifier. */
enum { TASK_BLOCKS = 4 };

typedef struct forward_job {
    const stk_exec *run;
    const stk_segformer_head *head;
    stk_segformer_head_room_map *map;
    const void *features; /* of stage 1 */
    unsigned char *y;     /* NULL in inference */
    float *logits;
    uint32_t lines, strips; /* lines of a strip; strips of a picture */
    stk_head_norm norm;
} forward_job;

/* Lines of a strip: at least 256 rows, so that moments are few, and the shift of one serves them all. */
static uint32_t strip_lines(const stk_segformer_head *head)
{
    const uint32_t lines = (256 + head->width[0] - 1) / head->width[0];
    return lines < head->height[0] ? lines : head->height[0];
}

static size_t lower_width(const stk_segformer_head *head)
{
    return (size_t)head->width[1] + head->width[2] + head->width[3];
}

stk_exec_need stk_segformer_head_forward_need(const stk_exec *run, const stk_segformer_head *head)
{
    const size_t size = head->size, width = head->width[0];
    const size_t line = (width + lower_width(head)) * size * sizeof(float);
    const size_t out = width * size * stk_float_bytes(run->type);
    const size_t block = stk_segformer_head_block(head) * size * stk_float_bytes(run->type);
    const size_t strips = (size_t)head->batch * stk_segformer_head_strips(head, strip_lines(head));
    return (stk_exec_need){ line + out > block ? line + out : block, strips * 3 * size };
}

/* ---- lines of y ---- */

/* The product of stage 1 and the smaller maps at the height of line h, in scratch. */
static stk_head_line prepare_line(const forward_job *job, uint32_t picture, uint32_t h, float *scratch)
{
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t size = head->size, width = head->width[0], channels = head->channels[0];
    const size_t row = ((size_t)picture * head->height[0] + h) * width;
    stk_head_line line = { .size = head->size, .width = head->width[0], .base = scratch };
    stk_linear_forward_rows(run, &job->map->stage[0], width, stk_at(job->features, row * channels, run->type),
                            channels, &(stk_linear_finish){ .type = STK_F32 }, scratch, size);
    scratch += width * size;
    for (int s = 0; s < STK_SMALLER; s++) {
        const stk_head_tap tap = job->map->down[s].taps[h];
        const size_t count = head->width[s + 1] * size, lines = (size_t)picture * head->height[s + 1];
        run->table->head.mix[run->type](
            count, stk_at(job->map->z[s], (lines + tap.a) * count, run->type), tap.a_weight,
            stk_at(job->map->z[s], (lines + tap.b) * count, run->type), tap.b_weight, scratch);
        line.low[s] = scratch;
        line.across[s] = &job->map->across[s];
        scratch += count;
    }
    return line;
}

static void lines_task(const void *context, uint32_t task, uint32_t thread)
{
    const forward_job *job = context;
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t size = head->size, width = head->width[0];
    const uint32_t picture = task / job->strips, from = task % job->strips * job->lines;
    float *scratch = stk_exec_scratch(run, thread);
    void *r = scratch + (width + lower_width(head)) * size;
    for (uint32_t h = from; h < from + job->lines && h < head->height[0]; h++) {
        const stk_head_line line = prepare_line(job, picture, h, scratch);
        const size_t row = ((size_t)picture * head->height[0] + h) * width;
        if (head->training) {
            run->table->head.line[run->type](&line, h == from, run->partial + task * 3 * size,
                                             stk_at(job->y, row * size, run->type));
        } else {
            const size_t stride = stk_logits_stride(head->classes);
            run->table->head.line_relu[run->type](&line, r);
            stk_linear_forward_rows(run, &job->map->classifier, width, r, size,
                                    &(stk_linear_finish){ .type = STK_F32 }, job->logits + row * stride,
                                    stride);
        }
    }
}

/* ---- statistics ---- */

typedef struct moments {
    double count, mean, squares; /* squares: of the distances from the mean, summed */
} moments;

/* Chan, Golub and LeVeque: the moments of two sets together. */
static moments moments_join(moments a, moments b)
{
    const double count = a.count + b.count, apart = b.mean - a.mean;
    return (moments){ count, a.mean + apart * b.count / count,
                      a.squares + b.squares + apart * apart * a.count * b.count / count };
}

/* 32 channels: the strips' moments in their order, then the running ones. */
static void statistics_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const forward_job *job = context;
    const stk_segformer_head *head = job->head;
    const size_t size = head->size, last_lines = head->height[0] - (job->strips - 1) * job->lines;
    for (size_t c = task * 32; c < task * 32 + 32; c++) {
        moments all = { 0 };
        for (size_t strip = 0; strip < (size_t)head->batch * job->strips; strip++) {
            const float *part = job->run->partial + strip * 3 * size + c;
            const size_t lines = (strip + 1) % job->strips ? job->lines : last_lines;
            const double count = (double)lines * head->width[0], sum = part[size];
            all = moments_join(all,
                               (moments){ count, part[0] + sum / count, part[2 * size] - sum * sum / count });
        }
        const double variance = all.squares / all.count, rstd = 1 / sqrt(variance + 1e-5);
        job->map->mean[c] = (float)all.mean;
        job->map->rstd[c] = (float)rstd;
        job->map->scale[c] = (float)(head->norm_gamma[c] * rstd * job->norm.keep);
        job->map->shift[c] = head->norm_beta[c] * job->norm.keep;
        const double unbiased = all.squares / (all.count > 1 ? all.count - 1 : 1);
        head->running_mean[c] += (float)(0.1 * (all.mean - head->running_mean[c]));
        head->running_variance[c] += (float)(0.1 * (unbiased - head->running_variance[c]));
    }
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

/* ---- from y to the logits ---- */

static void classify_task(const void *context, uint32_t task, uint32_t thread)
{
    const forward_job *job = context;
    const stk_exec *run = job->run;
    const stk_segformer_head *head = job->head;
    const size_t block = stk_segformer_head_block(head), all = stk_segformer_head_rows(head, 0);
    const size_t stride = stk_logits_stride(head->classes);
    void *r = stk_exec_scratch(run, thread);
    for (size_t k = 0; k < TASK_BLOCKS; k++) {
        const size_t row = (task * (size_t)TASK_BLOCKS + k) * block;
        if (row >= all) return;
        const size_t rows = all - row < block ? all - row : block;
        run->table->head.activate[run->type](&job->norm, row, rows,
                                             stk_at(job->y, row * head->size, run->type), r);
        stk_linear_forward_rows(run, &job->map->classifier, rows, r, head->size,
                                &(stk_linear_finish){ .type = STK_F32 }, job->logits + row * stride, stride);
    }
}

void stk_segformer_head_forward(const stk_exec *run, stk_segformer_head *head,
                                const void *const features[STK_STAGES], void *y, float *logits)
{
    stk_segformer_head_room_map *map = stk_segformer_head_map(head);
    for (int s = 0; s < STK_SMALLER; s++) {
        const stk_exec_rows x = stk_rows_of(features[s + 1], head->channels[s + 1]);
        stk_linear_forward(run, &map->stage[s + 1], stk_segformer_head_rows(head, s + 1), &x,
                           &(stk_linear_finish){ .type = run->type }, map->z[s], head->size);
    }
    const uint32_t lines = strip_lines(head);
    const forward_job job = { .run = run,
                              .head = head,
                              .map = map,
                              .features = features[0],
                              .y = y,
                              .logits = logits,
                              .lines = lines,
                              .strips = stk_segformer_head_strips(head, lines),
                              .norm = stk_segformer_head_norm_of(head) };
    stk_threadpool_run(run->pool, lines_task, &job, head->batch * job.strips);
    if (!head->training) return;
    stk_threadpool_run(run->pool, statistics_task, &job, head->size / 32);
    const size_t task_rows = stk_segformer_head_block(head) * TASK_BLOCKS;
    stk_threadpool_run(run->pool, classify_task, &job,
                       (uint32_t)((stk_segformer_head_rows(head, 0) + task_rows - 1) / task_rows));
}
