/* SPDX-License-Identifier: Apache-2.0
 *
 * Patches of feature maps and pictures as rows of a matrix, and the way back. Both move memory more than they
 * compute: plain C, whole kernel lines at a time.
 */
#include "src/net/conv.h"

#include <string.h>

/* `count` elements of `from`, turned into `to`. */
static void copy(void *out, const void *in, size_t count, stk_float from, stk_float to)
{
    if (from == to)
        memcpy(out, in, count * stk_float_bytes(to));
    else
        for (size_t i = 0; i < count; i++) stk_put(out, i, stk_get(in, i, from), to);
}

/* Columns first .. end of a kernel line that begins at column x of the source lie inside it. */
typedef struct inside {
    uint32_t first, end;
} inside;

static inside clip(const stk_patches *p, int64_t x)
{
    int64_t first = x < 0 ? -x : 0, end = p->width - x;
    if (first > p->kernel) first = p->kernel;
    if (end > p->kernel) end = p->kernel;
    return (inside){ (uint32_t)first, (uint32_t)(end < first ? first : end) };
}

/* A kernel line of channels that lie in planes: pixel by pixel. */
static void planar_line(const stk_patches *p, const float *source, inside in, void *out)
{
    const size_t plane = (size_t)p->height * p->width;
    for (uint32_t x = in.first; x < in.end; x++)
        for (uint32_t c = 0; c < p->channels; c++)
            stk_put(out, (size_t)x * p->channels + c, source[c * plane + x - in.first], p->out);
}

/* The same for three channels of f32, what nearly every picture is: the loop above is 3 times slower. */
static void planar_line_rgb(const stk_patches *p, const float *source, inside in, float *out)
{
    const size_t plane = (size_t)p->height * p->width;
    const float *r = source, *g = r + plane, *b = g + plane;
    out += (size_t)in.first * 3;
    for (uint32_t x = in.first; x < in.end; x++, out += 3) {
        out[0] = *r++;
        out[1] = *g++;
        out[2] = *b++;
    }
}

/* The line of a patch that begins at column x, line y of the source; what lies outside is 0. */
static void kernel_line(const stk_patches *p, size_t sample, int64_t y, int64_t x, void *out)
{
    const size_t bytes = stk_float_bytes(p->out), channels = p->channels;
    const inside in = y < 0 || y >= p->height ? (inside){ p->kernel, p->kernel } : clip(p, x);
    memset(out, 0, in.first * channels * bytes);
    memset(stk_at(out, in.end * channels, p->out), 0, (p->kernel - in.end) * channels * bytes);
    if (in.first == in.end) return;
    const size_t pixel = (size_t)y * p->width + (size_t)(x + in.first);
    if (!p->planar) {
        const void *from = stk_at(p->source, sample * p->sample_stride + pixel * channels, p->type);
        copy(stk_at(out, in.first * channels, p->out), from, (in.end - in.first) * channels, p->type, p->out);
    } else {
        const float *from = (const float *)p->source + sample * p->sample_stride + pixel;
        if (channels == 3 && p->out == STK_F32)
            planar_line_rgb(p, from, in, out);
        else
            planar_line(p, from, in, out);
    }
}

static void make_rows(const void *context, size_t first, size_t count, void *out)
{
    const stk_patches *p = context;
    const size_t line = (size_t)p->kernel * p->channels, tokens = (size_t)p->out_height * p->out_width;
    for (size_t i = 0; i < count; i++) {
        const size_t token = (first + i) % tokens;
        const int64_t y = (int64_t)(token / p->out_width * p->stride) - p->padding;
        const int64_t x = (int64_t)(token % p->out_width * p->stride) - p->padding;
        for (uint32_t ky = 0; ky < p->kernel; ky++)
            kernel_line(p, (first + i) / tokens, y + ky, x, stk_at(out, (i * p->kernel + ky) * line, p->out));
    }
}

stk_rows stk_patches_rows(const stk_patches *patches)
{
    return (stk_rows){ .stride = (size_t)patches->kernel * patches->kernel * patches->channels,
                       .make = make_rows,
                       .context = patches };
}

typedef struct job {
    const stk_patches *patches;
    const void *d_rows;
    size_t stride;
    void *dx;
    stk_float type; /* of dx */
    int add;
    uint32_t lines; /* of dx, per task */
} job;

/* The outputs along one axis whose kernel meets position `at`: tap `tap` of output `out`, then every further
 * one has `stride` taps more and is the output before; `count` of them. */
typedef struct taps {
    uint32_t out, tap, count;
} taps;

static taps taps_of(uint32_t at, uint32_t kernel, uint32_t stride, uint32_t padding, uint32_t outs)
{
    uint32_t out = (at + padding) / stride, tap = (at + padding) % stride;
    if (out >= outs) { /* a kernel larger than its stride goes on beyond the last output's beginning */
        tap += (out - (outs - 1)) * stride;
        out = outs - 1;
    }
    if (tap >= kernel) return (taps){ 0 };
    const uint32_t further = (kernel - 1 - tap) / stride;
    return (taps){ out, tap, 1 + (further < out ? further : out) };
}

/* Elements summed at a time, in f32 whatever their type: 1 KB, always in the first cache. */
enum { BLOCK = 256 };

static void add_block(float *sum, const void *in, size_t count, stk_float type)
{
    if (type == STK_F32)
        for (size_t i = 0; i < count; i++) sum[i] += ((const float *)in)[i];
    else
        for (size_t i = 0; i < count; i++) sum[i] += stk_get(in, i, type);
}

/* `count` elements of dx, beginning at element `at`: all taps that meet the first of them, and for the others
 * what follows in the kernel. */
static void sum_taps(const job *j, size_t sample, taps ys, taps xs, size_t at, size_t count)
{
    const stk_patches *p = j->patches;
    const size_t outs = (size_t)p->out_height * p->out_width;
    float sum[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t n = count - done < BLOCK ? count - done : BLOCK;
        memset(sum, 0, n * sizeof *sum);
        for (uint32_t a = 0; a < ys.count; a++) {
            for (uint32_t b = 0; b < xs.count; b++) {
                const size_t token = (size_t)(ys.out - a) * p->out_width + (xs.out - b);
                const size_t tap = (size_t)(ys.tap + a * p->stride) * p->kernel + xs.tap + b * p->stride;
                const size_t from = (sample * outs + token) * j->stride + tap * p->channels + done;
                add_block(sum, stk_at(j->d_rows, from, p->out), n, p->out);
            }
        }
        if (j->add) add_block(sum, stk_at(j->dx, at + done, j->type), n, j->type);
        copy(stk_at(j->dx, at + done, j->type), sum, n, STK_F32, j->type);
    }
}

/* A line of dx. Kernels that do not overlap are met by one tap each, and what follows in the kernel follows
 * in the line: then a kernel's line is added at once, else token by token. */
static void backward_line(const job *j, size_t sample, uint32_t y)
{
    const stk_patches *p = j->patches;
    const taps ys = taps_of(y, p->kernel, p->stride, p->padding, p->out_height);
    const size_t line = (sample * p->height + y) * p->width * p->channels;
    for (uint32_t x = 0, run = 1; x < p->width; x += run) {
        const taps xs = taps_of(x, p->kernel, p->stride, p->padding, p->out_width);
        run = xs.count && p->kernel <= p->stride ? p->kernel - xs.tap : 1;
        if (run > p->width - x) run = p->width - x;
        sum_taps(j, sample, ys, xs, line + (size_t)x * p->channels, (size_t)run * p->channels);
    }
}

static void backward_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const size_t lines = (size_t)j->patches->batch * j->patches->height;
    for (size_t line = (size_t)task * j->lines; line < lines && line < ((size_t)task + 1) * j->lines; line++)
        backward_line(j, line / j->patches->height, (uint32_t)(line % j->patches->height));
}

void stk_patches_backward(const stk_run *run, const stk_patches *patches, const void *d_rows, size_t stride,
                          void *dx, stk_float dx_type, int add)
{
    /* Enough elements to outweigh the handing out of a task, some 10 us. */
    const size_t line = (size_t)patches->width * patches->channels, enough = 16384;
    const size_t lines = (size_t)patches->batch * patches->height;
    const job j = {
        patches, d_rows, stride, dx, dx_type, add, line < enough ? (uint32_t)(enough / line) : 1
    };
    stk_team_run(run->team, backward_task, &j, (uint32_t)((lines + j.lines - 1) / j.lines));
}
