/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle: copies of single elements, a few lines of the narrow map per task.
 */
#include "src/net/ops/ops.h"

#include "src/net/ops/blocks.h"

typedef struct job {
    const stk_shuffle *shape;
    const void *from;
    void *to;
    int back; /* from the wide map to the narrow one */
} job;

/* One line of the narrow map and those of the wide one that belong to it; `narrow` and `wide` are their first
 * elements. `type`, which stands for all types of its size, and `back` are constants where this is inlined.
 */
static inline void move_line(const job *j, size_t narrow, size_t wide, stk_float type, int back)
{
    const stk_shuffle *s = j->shape;
    const size_t r = s->scale, bytes = stk_float_bytes(type);
    const size_t line = s->width * r * s->wide_stride;
    for (size_t x = 0; x < s->width; x++, narrow += s->narrow_stride, wide += r * s->wide_stride)
        for (size_t c = 0; c < s->channels; c++)
            for (size_t k = 0; k < r * r; k++) {
                const size_t there = wide + k / r * line + k % r * s->wide_stride + c;
                const size_t here = narrow + c * r * r + k;
                memcpy(stk_at(j->to, back ? here : there, type), stk_at(j->from, back ? there : here, type),
                       bytes);
            }
}

static void copy_line(const job *j, size_t narrow, size_t wide)
{
    const int small = j->shape->type != STK_F32;
    if (j->back && small)
        move_line(j, narrow, wide, STK_BF16, 1);
    else if (j->back)
        move_line(j, narrow, wide, STK_F32, 1);
    else if (small)
        move_line(j, narrow, wide, STK_BF16, 0);
    else
        move_line(j, narrow, wide, STK_F32, 0);
}

static uint32_t lines_of(const stk_shuffle *s)
{
    return stk_block_lines((size_t)s->width * s->channels * s->scale * s->scale);
}

static void move_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const stk_shuffle *s = j->shape;
    const size_t lines = (size_t)s->batch * s->height, first = (size_t)task * lines_of(s);
    const size_t end = first + lines_of(s) < lines ? first + lines_of(s) : lines;
    for (size_t line = first; line < end; line++)
        copy_line(j, line * s->width * s->narrow_stride,
                  line * s->width * s->scale * s->scale * s->wide_stride);
}

static void move_all(const stk_exec *run, const job *j)
{
    const size_t lines = (size_t)j->shape->batch * j->shape->height, each = lines_of(j->shape);
    stk_threadpool_run(run->pool, move_task, j, (uint32_t)((lines + each - 1) / each));
}

void stk_shuffle_forward(const stk_exec *run, const stk_shuffle *shape, const void *narrow, void *wide)
{
    move_all(run, &(job){ shape, narrow, wide, 0 });
}

void stk_shuffle_backward(const stk_exec *run, const stk_shuffle *shape, const void *d_wide, void *d_narrow)
{
    move_all(run, &(job){ shape, d_wide, d_narrow, 1 });
}
