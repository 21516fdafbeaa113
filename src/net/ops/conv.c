/* SPDX-License-Identifier: Apache-2.0
 *
 * Patches of feature maps and pictures as rows of a matrix, and the way back, whole kernel lines at a time
 * where they lie so in memory.
 */
#include "src/net/ops/ops.h"

#include <string.h>

#include "src/net/kernels/net_table.h"

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

static inside clip(const stk_conv_patches *p, int64_t x)
{
    int64_t first = x < 0 ? -x : 0, end = p->width - x;
    if (first > p->kernel) first = p->kernel;
    if (end > p->kernel) end = p->kernel;
    return (inside){ (uint32_t)first, (uint32_t)(end < first ? first : end) };
}

/* The part inside of a line of a patch: pixels of line y from column x on. */
static void copy_pixels(const stk_conv_patches *p, size_t sample, size_t y, size_t x, uint32_t pixels,
                        void *out)
{
    const size_t pixel = y * p->width + x, base = sample * p->sample_stride, channels = p->channels;
    if (!p->planar) {
        copy(out, stk_at(p->source, base + pixel * channels, p->type), pixels * channels, p->type, p->out);
        return;
    }
    const float *from = (const float *)p->source + base + pixel;
    const size_t plane = (size_t)p->height * p->width;
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < channels; c++) stk_put(out, i * channels + c, from[c * plane + i], p->out);
}

/* The line of a patch that begins at column x, line y of the source; what lies outside is 0. */
static void border_line(const stk_conv_patches *p, size_t sample, int64_t y, int64_t x, void *out)
{
    const size_t pixel = p->channels * stk_float_bytes(p->out);
    const inside in = y < 0 || y >= p->height ? (inside){ p->kernel, p->kernel } : clip(p, x);
    memset(out, 0, in.first * pixel);
    memset((unsigned char *)out + in.end * pixel, 0, (p->kernel - in.end) * pixel);
    if (in.first < in.end)
        copy_pixels(p, sample, (size_t)y, (size_t)(x + in.first), in.end - in.first,
                    (unsigned char *)out + in.first * pixel);
}

static void make_row(const stk_conv_patches *p, const stk_conv_table *table, size_t row, unsigned char *out)
{
    const size_t tokens = (size_t)p->out_height * p->out_width, sample = row / tokens, token = row % tokens;
    const size_t line = p->kernel * p->channels * stk_float_bytes(p->out);
    const int64_t y = (int64_t)(token / p->out_width * p->stride) - p->padding;
    const int64_t x = (int64_t)(token % p->out_width * p->stride) - p->padding;
    const int within = y >= 0 && x >= 0 && y + p->kernel <= p->height && x + p->kernel <= p->width;
    if (within && p->planar && p->channels == 3) {
        const size_t at = sample * p->sample_stride + (size_t)y * p->width + (size_t)x;
        table->patch_rgb(out, p->out, (const float *)p->source + at, (size_t)p->height * p->width, p->width,
                         p->kernel);
        return;
    }
    for (uint32_t ky = 0; ky < p->kernel; ky++, out += line) {
        if (within)
            copy_pixels(p, sample, (size_t)y + ky, (size_t)x, p->kernel, out);
        else
            border_line(p, sample, y + ky, x, out);
    }
}

/* The table is not handed to makers of rows; the one in use will do, as all give the same bits. */
static void make_rows(const void *context, size_t first, size_t count, void *out)
{
    const stk_conv_patches *p = context;
    const stk_conv_table *table = &stk_net_table_get()->conv;
    const size_t bytes = (size_t)p->kernel * p->kernel * p->channels * stk_float_bytes(p->out);
    for (size_t i = 0; i < count; i++) make_row(p, table, first + i, (unsigned char *)out + i * bytes);
}

stk_exec_rows stk_patches_rows(const stk_conv_patches *patches)
{
    return (stk_exec_rows){ .stride = (size_t)patches->kernel * patches->kernel * patches->channels,
                            .make = make_rows,
                            .context = patches };
}

typedef struct job {
    const stk_conv_table *table;
    const stk_conv_patches *patches;
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

/* Arrays added at a time: SegFormer's kernels overlap by 4 at most. Were there more, a 16-bit dx would be
 * rounded in between. */
enum { MOST = 64 };

/* `count` elements of dx, beginning at element `at`: all taps that meet the first of them, and for the others
 * what follows in the kernel. */
static void sum_taps(const job *j, size_t sample, taps ys, taps xs, size_t at, size_t count)
{
    const stk_conv_patches *p = j->patches;
    const void *in[MOST];
    uint32_t n = 0;
    int add = j->add;
    void *dx = stk_at(j->dx, at, j->type);
    for (uint32_t a = 0; a < ys.count; a++) {
        for (uint32_t b = 0; b < xs.count; b++) {
            const size_t row = (sample * p->out_height + ys.out - a) * p->out_width + xs.out - b;
            const size_t tap = (size_t)(ys.tap + a * p->stride) * p->kernel + xs.tap + b * p->stride;
            if (n == MOST) {
                j->table->sum(dx, j->type, in, n, p->out, count, add);
                n = 0;
                add = 1;
            }
            in[n++] = stk_at(j->d_rows, row * j->stride + tap * p->channels, p->out);
        }
    }
    if (n || !add) j->table->sum(dx, j->type, in, n, p->out, count, add);
}

/* A line of dx. Kernels that do not overlap are met by one tap each, and what follows in the kernel follows
 * in the line: then a kernel's line is added at once, else token by token. */
static void backward_line(const job *j, size_t sample, uint32_t y)
{
    const stk_conv_patches *p = j->patches;
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

void stk_patches_backward(const stk_exec *run, const stk_conv_patches *patches, const void *d_rows,
                          size_t stride, void *dx, stk_float dx_type, int add)
{
    /* Enough elements to outweigh the handing out of a task, some 10 us. */
    const size_t line = (size_t)patches->width * patches->channels, enough = 16384;
    const size_t lines = (size_t)patches->batch * patches->height;
    const job j = { .table = &run->table->conv,
                    .patches = patches,
                    .d_rows = d_rows,
                    .stride = stride,
                    .dx = dx,
                    .type = dx_type,
                    .add = add,
                    .lines = line < enough ? (uint32_t)(enough / line) : 1 };
    stk_threadpool_run(run->pool, backward_task, &j, (uint32_t)((lines + j.lines - 1) / j.lines));
}
