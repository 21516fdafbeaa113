/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the warp's inner rows, affine and elastic, and of the elastic displacement.
 */
#include <stdio.h>

#include "src/pix/check/check.h"
#include "src/pix/pix_table.h"

enum source { PICTURE, SHIFT_X, SHIFT_Y };

typedef struct warp_state {
    uint32_t width, height, n;
    uint32_t lines; /* one below the other; the bench makes many of them, to move what it counts as moved */
    int elastic;
    size_t stride;
    uint64_t half;           /* what the entry adds to coordinates */
    uint64_t columns, rows;  /* where the sum may be: 32.32, exclusive */
    uint64_t x0, x1, y0, y1; /* of the first and the last pixel, half included */
    stk_pix_warp_line line;
} warp_state;

/* Below `end`, and now and then at one of the ends, where a read outside the picture would be. */
static uint64_t place(stk_kernel_check_random *r, uint64_t end)
{
    const uint32_t where = stk_kernel_check_below(r, 8);
    return where == 0 ? 0 : where == 1 ? end - 1 : stk_below(stk_kernel_check_draw(r), end);
}

/* From a to b in n - 1 steps, rounded towards zero, so never beyond b. */
static uint64_t step(uint64_t a, uint64_t b, uint32_t n)
{
    return n < 2 ? 0 : (uint64_t)(((int64_t)b - (int64_t)a) / (int64_t)(n - 1));
}

static int shape_cubic(stk_kernel_check_call *call, warp_state *s, stk_kernel_check_random *random)
{
    s->n = random ? stk_kernel_check_size(random, 100) : 32;
    call->source[0].bytes = s->n * sizeof(float);
    call->out_bytes = s->n * sizeof(int32_t);
    call->out_align = sizeof(int32_t);
    call->pixels = s->n;
    snprintf(call->text, sizeof call->text, "%u columns", (unsigned)s->n);
    return 1;
}

static int shape(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    const uint32_t channels = call->check->channels, depth = call->check->depth;
    warp_state *s = call->state;
    if (call->check->kind == STK_CHECK_cubic) return shape_cubic(call, s, random);
    const int image = channels == 3;
    s->half = image ? K_WARP_HALF_STEP : K_WARP_HALF_PIXEL;
    s->width = (image ? 2 : 0) + (random ? stk_kernel_check_size(random, 200) : 512);
    s->height = (image ? 1 : 0) + (random ? stk_kernel_check_size(random, 200) : 400);
    s->n = random ? stk_kernel_check_size(random, 200) : 512;
    s->lines = random ? 1 : 256;
    s->stride = (s->width * channels + (random ? stk_kernel_check_below(random, 20) : 0)) * depth;
    s->columns = (uint64_t)(s->width - (image ? 2 : 0)) << 32;
    s->rows = (uint64_t)(s->height - (image ? 1 : 0)) << 32;
    /* The bench walks as a picture turned by 15 degrees does. */
    s->x0 = random ? place(random, s->columns) : UINT64_C(5) << 32;
    s->x1 = random ? place(random, s->columns) : UINT64_C(499) << 32;
    s->y0 = random ? place(random, s->rows) : UINT64_C(5) << 32;
    s->y1 = random ? place(random, s->rows) : UINT64_C(137) << 32;
    call->source[PICTURE].bytes = (s->height - 1) * s->stride + (size_t)s->width * channels * depth;
    s->elastic = random && stk_kernel_check_below(random, 2);
    if (s->elastic) call->source[SHIFT_X].bytes = call->source[SHIFT_Y].bytes = s->n * sizeof(int32_t);
    call->out_bytes = (size_t)s->lines * s->n * channels * depth;
    call->out_align = depth;
    call->pixels = (uint64_t)s->lines * s->n;
    snprintf(
        call->text, sizeof call->text, "%u %s pixels of %u x %u, stride %zu, from %.3f %.3f to %.3f %.3f",
        (unsigned)s->n, s->elastic ? "elastic" : "affine", (unsigned)s->width, (unsigned)s->height, s->stride,
        (double)s->x0 * 0x1p-32, (double)s->y0 * 0x1p-32, (double)s->x1 * 0x1p-32, (double)s->y1 * 0x1p-32);
    return 1;
}

/* Displacements that move every pixel from where the line has it to anywhere below `end`. */
static void fill_shift(int32_t *shift, const warp_state *s, uint64_t start, uint64_t by, uint64_t end,
                       stk_kernel_check_random *random)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const int64_t from = (int64_t)(start + i * by), to = (int64_t)place(random, end);
        shift[i] = (int32_t)((to - from) / 65536); /* rounded towards `from`, which is inside too */
    }
}

static void fill(stk_kernel_check_call *call, stk_kernel_check_random *random)
{
    warp_state *s = call->state;
    if (call->check->kind == STK_CHECK_cubic) {
        stk_kernel_check_fill_floats((float *)(void *)call->source[0].data, s->n, 1, random);
        return;
    }
    stk_kernel_check_fill(call->source[PICTURE].data, call->source[PICTURE].bytes, random);
    s->line = (stk_pix_warp_line){ .x = s->x0 - s->half,
                                   .y = s->y0 - s->half,
                                   .dx = step(s->x0, s->x1, s->n),
                                   .dy = step(s->y0, s->y1, s->n) };
    if (!s->elastic) return;
    int32_t *x = (int32_t *)(void *)call->source[SHIFT_X].data,
            *y = (int32_t *)(void *)call->source[SHIFT_Y].data;
    fill_shift(x, s, s->x0, s->line.dx, s->columns, random);
    fill_shift(y, s, s->y0, s->line.dy, s->rows, random);
    s->line.shift_x = x;
    s->line.shift_y = y;
}

static void invoke(const stk_pix_table *table, const stk_kernel_check_call *call, uint8_t *out)
{
    const warp_state *s = call->state;
    stk_kernel_check_fn *f = stk_kernel_check_entry(table, call->check);
    if (call->check->kind == STK_CHECK_cubic) { /* within a pixel or so, and cut off at 2 / 3 of it */
        const stk_pix_cubic cubic = { { -40000.3f, 91000.7f, 70000.1f, -130000.9f }, 43690 };
        ((stk_cubic_fn *)f)((int32_t *)(void *)out, (const float *)(const void *)call->source[0].data, s->n,
                            &cubic);
        return;
    }
    stk_pix_warp_line line = s->line;
    for (uint32_t i = 0; i < s->lines; i++, line.y += UINT64_C(1) << 32)
        ((stk_warp_fn *)f)(out + call->out_bytes / s->lines * i, call->source[PICTURE].data, s->stride, &line,
                           s->n);
}

const stk_kernel_check_family stk_kernel_checks_warp = { sizeof(warp_state), shape, fill, invoke };
