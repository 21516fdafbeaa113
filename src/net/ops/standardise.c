/* SPDX-License-Identifier: Apache-2.0
 *
 * standardise: some lines of a picture per task.
 */
#include "src/net/ops/ops.h"

#include "src/net/ops/blocks.h"

enum { CHANNELS = 3 };

/* ImageNet's, of red, green and blue. */
static const float MEAN[CHANNELS] = { 0.485f, 0.456f, 0.406f };
static const float DEVIATION[CHANNELS] = { 0.229f, 0.224f, 0.225f };

typedef struct forward_job {
    stk_conv3_map map;
    const stk_conv3_source *x;
    float *y;
    size_t lines; /* per task, of all samples */
} forward_job;

static void forward_line(const forward_job *j, size_t line)
{
    const stk_conv3_source *x = j->x;
    const size_t width = j->map.width, plane = x->planar ? width * j->map.height : 1;
    const size_t step = x->planar ? 1 : x->stride;
    const float *in = (const float *)x->data + line / j->map.height * x->sample_stride +
                      line % j->map.height * width * step;
    float *out = j->y + line * width * CHANNELS;
    for (size_t c = 0; c < CHANNELS; c++)
        for (size_t i = 0; i < width; i++)
            out[i * CHANNELS + c] = (in[i * step + c * plane] - MEAN[c]) / DEVIATION[c];
}

static void forward_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const forward_job *j = context;
    const size_t all = (size_t)j->map.batch * j->map.height;
    for (size_t line = task * j->lines; line < all && line < (task + 1) * j->lines; line++)
        forward_line(j, line);
}

void stk_standardise(const stk_exec *run, stk_conv3_map map, const stk_conv3_source *x, float *y)
{
    const forward_job j = {
        .map = map, .x = x, .y = y, .lines = stk_block_lines((size_t)map.width * CHANNELS)
    };
    const size_t all = (size_t)map.batch * map.height;
    stk_threadpool_run(run->pool, forward_task, &j, (uint32_t)((all + j.lines - 1) / j.lines));
}

typedef struct backward_job {
    size_t pixels, dx_stride;
    const float *dy;
    float *dx;
} backward_job;

static void backward_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const backward_job *j = context;
    const size_t each = stk_block_lines(CHANNELS), first = task * each;
    const size_t end = first + each < j->pixels ? first + each : j->pixels;
    for (size_t i = first; i < end; i++)
        for (size_t c = 0; c < CHANNELS; c++)
            j->dx[i * j->dx_stride + c] += j->dy[i * CHANNELS + c] / DEVIATION[c];
}

void stk_standardise_backward(const stk_exec *run, size_t pixels, const float *dy, float *dx,
                              size_t dx_stride)
{
    const backward_job j = { pixels, dx_stride, dy, dx };
    const size_t each = stk_block_lines(CHANNELS);
    stk_threadpool_run(run->pool, backward_task, &j, (uint32_t)((pixels + each - 1) / each));
}
