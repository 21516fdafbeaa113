/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the two passes of a resize.
 */
#include <stdio.h>

#include "src/pix/pix_table.h"
#include "src/pix/check/check.h"

enum {
    TAPS_MAX = 1024
}; /* a vertical pass depends on at most 2 * in / out + 1 rows; shapes below keep to it */

typedef struct resize_state {
    stk_pix_axis_store axis;
    size_t src_stride, dst_stride; /* horizontal */
    uint32_t rows;
    size_t samples; /* vertical: of a row */
    uint32_t y;
    const void *row[TAPS_MAX];
} resize_state;

/* Sizes of one call: in -> out pixels. skip_first and skip_last leave out outputs at the ends of a horizontal
 * axis, as strips of a large picture do. */
typedef struct sizes {
    uint32_t in, out, rows, pad, skip_first, skip_last;
} sizes;

static sizes random_sizes(stk_kernel_check_random *r)
{
    sizes s = { .in = stk_kernel_check_size(r, 400),
                .out = stk_kernel_check_size(r, 400),
                .rows = stk_kernel_check_size(r, 9),
                .pad = stk_kernel_check_below(r, 20) };
    if (stk_kernel_check_below(r, 2)) s.skip_first = stk_kernel_check_below(r, s.out);
    if (stk_kernel_check_below(r, 2)) s.skip_last = stk_kernel_check_below(r, s.out - s.skip_first);
    return s;
}

static void shape_horizontal(stk_kernel_check_call *call, resize_state *state, const sizes *s)
{
    const size_t channels = call->check->channels, depth = call->check->depth;
    stk_pix_resize_axis *axis = &state->axis.axis;
    axis->out -= s->skip_first + s->skip_last;
    axis->start += s->skip_first;
    axis->count += s->skip_first;
    if (axis->weight) axis->weight += (size_t)s->skip_first * axis->taps;
    if (axis->weight_f) axis->weight_f += (size_t)s->skip_first * axis->taps;
    const size_t row = s->in * channels * depth;
    call->out_align = depth == 1 ? 1 : sizeof(float); /* u16 rows become floats */
    state->rows = s->rows;
    state->src_stride = row + s->pad * depth;
    state->dst_stride = (axis->out * channels + s->pad) * call->out_align;
    call->source[0].bytes = (s->rows - 1) * state->src_stride + row;
    call->out_bytes = s->rows * state->dst_stride;
    call->pixels = (uint64_t)axis->out * s->rows;
}

static void shape_vertical(stk_kernel_check_call *call, resize_state *state, const sizes *s,
                           stk_kernel_check_random *random)
{
    const size_t depth = call->check->depth, sample = depth == 1 ? 1 : sizeof(float);
    state->samples = random ? s->rows * 7u + s->pad : 512 * 3;
    state->y = random ? stk_kernel_check_below(random, s->out) : s->out / 2;
    call->source[0].bytes = state->axis.axis.most * state->samples * sample;
    call->out_align = depth;
    call->out_bytes = state->samples * depth;
    call->pixels = state->samples / call->check->channels;
}

static int shape(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    const stk_kernel_check *check = call->check;
    /* The bench halves: 64 rows of 1024 pixels, or one row of 512 RGB pixels out of four. */
    const sizes s = random ? random_sizes(random) : (sizes){ .in = 1024, .out = 512, .rows = 64 };
    resize_state *state = call->state;
    if (!stk_axis_build(&state->axis, s.in, s.out, (uint8_t)check->depth)) return 0;
    call->buffer = state->axis.buffer;
    if (check->kind == STK_CHECK_resize_h)
        shape_horizontal(call, state, &s);
    else
        shape_vertical(call, state, &s, random);
    snprintf(call->text, sizeof call->text, "%u to %u pixels without %u + %u, %u rows, pad %u",
             (unsigned)s.in, (unsigned)s.out, (unsigned)s.skip_first, (unsigned)s.skip_last, (unsigned)s.rows,
             (unsigned)s.pad);
    return 1;
}

static void fill(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    resize_state *state = call->state;
    const size_t bytes = call->source[0].bytes;
    uint8_t *data = call->source[0].data;
    if (call->check->kind == STK_CHECK_resize_h || call->check->depth == 1)
        stk_kernel_check_fill(data, bytes, random);
    else /* the horizontal pass of u16 pixels leaves floats */
        stk_kernel_check_fill_floats((float *)(void *)data, bytes / sizeof(float), 65535, random);
    if (call->check->kind == STK_CHECK_resize_h) return;
    const stk_pix_resize_axis *axis = &state->axis.axis;
    for (uint32_t k = 0; k < axis->count[state->y]; k++) state->row[k] = data + k * (bytes / axis->most);
}

static void invoke(const stk_pix_table *table, const stk_kernel_check_call *call, uint8_t *out)
{
    const resize_state *s = call->state;
    stk_kernel_check_fn *f = stk_kernel_check_entry(table, call->check);
    if (call->check->kind == STK_CHECK_resize_h)
        ((stk_resize_h_fn *)f)(out, s->dst_stride, call->source[0].data, s->src_stride, s->rows,
                               &s->axis.axis);
    else
        ((stk_resize_v_fn *)f)(out, s->row, s->samples, &s->axis.axis, s->y);
}

const stk_kernel_check_family stk_kernel_checks_resize = { sizeof(resize_state), shape, fill, invoke };
