/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss of restored pictures. A task is some lines of one sample; a line is done channel by channel in
 * blocks of pixels, so that neither the layout of the target nor the padding of the output reaches the
 * arithmetic.
 */
#include "src/net/ops/ops.h"

#include "src/net/ops/blocks.h"

typedef struct job {
    stoke_loss_kind kind;
    const stk_pixel_shape *shape;
    const float *output;
    const stk_pixel_target *target;
    float scale;
    float *d_output;
    double *sums; /* per task */
} job;

static uint32_t lines_of(const stk_pixel_shape *shape)
{
    return stk_block_lines((size_t)shape->width * shape->channels);
}

/* Tasks of a sample. */
static uint32_t strips_of(const stk_pixel_shape *shape)
{
    return (shape->height + lines_of(shape) - 1) / lines_of(shape);
}

/* Elements of the target from pixel to pixel and from channel to channel. */
static size_t pixel_step(const job *j)
{
    return j->target->planar ? 1 : j->shape->channels;
}

static size_t channel_step(const job *j)
{
    return j->target->planar ? (size_t)j->shape->height * j->shape->width : 1;
}

/* Pixels first .. first + count of a sample, where `output` and `target` begin. */
static void do_pixels(const job *j, const float *output, const float *target, float *d_output, size_t count,
                      stk_block_sums *sums)
{
    const size_t stride = j->shape->stride, channels = j->shape->channels;
    const size_t step = pixel_step(j), next = channel_step(j);
    float d[STK_BLOCK];
    for (size_t c = 0; c < channels; c++) {
        for (size_t i = 0; i < count; i++) d[i] = output[i * stride + c] - target[i * step + c * next];
        stk_block_distance(j->kind, d, count, j->scale, sums);
        if (!d_output) continue;
        for (size_t i = 0; i < count; i++) d_output[i * stride + c] = d[i];
    }
    if (!d_output || stride == channels) return;
    for (size_t i = 0; i < count; i++)
        memset(d_output + i * stride + channels, 0, (stride - channels) * sizeof *d_output);
}

static void loss_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const stk_pixel_shape *shape = j->shape;
    const uint32_t strips = strips_of(shape), lines = lines_of(shape);
    const size_t sample = task / strips, line = (size_t)(task % strips) * lines;
    const size_t first = line * shape->width;
    const size_t pixels = (size_t)shape->height * shape->width;
    const size_t end = line + lines < shape->height ? first + (size_t)lines * shape->width : pixels;
    const float *target = j->target->data + sample * j->target->sample_stride;
    stk_block_sums sums = { { 0 } };
    for (size_t at = first; at < end; at += STK_BLOCK) {
        const size_t element = (sample * pixels + at) * shape->stride;
        do_pixels(j, j->output + element, target + at * pixel_step(j),
                  j->d_output ? j->d_output + element : NULL, end - at < STK_BLOCK ? end - at : STK_BLOCK,
                  &sums);
    }
    j->sums[task] = stk_block_total(&sums);
}

void stk_pixel_loss(const stk_exec *run, stoke_loss_kind kind, const stk_pixel_shape *shape,
                    const float *output, const stk_pixel_target *target, float factor, double *loss,
                    float *d_output)
{
    const double count = (double)shape->batch * shape->height * shape->width * shape->channels;
    const job j = { .kind = kind,
                    .shape = shape,
                    .output = output,
                    .target = target,
                    .scale = (float)(factor / count),
                    .d_output = d_output,
                    .sums = (double *)(void *)run->partial };
    const uint32_t tasks = shape->batch * strips_of(shape);
    stk_threadpool_run(run->pool, loss_task, &j, tasks);
    double sum = 0;
    for (uint32_t task = 0; task < tasks; task++) sum += j.sums[task];
    *loss = sum / count;
}

stk_exec_need stk_pixel_loss_need(const stk_exec *run, const stk_pixel_shape *shape)
{
    (void)run;
    const size_t tasks = (size_t)shape->batch * strips_of(shape);
    return (stk_exec_need){ .partial = tasks * (sizeof(double) / sizeof(float)) };
}
