/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: a few lines of the small map per task, a block of channels at a time. Backward looks for the maximum
 * again: four reads cost less than an index per element kept from forward.
 */
#include "src/net/ops/ops.h"

#include "src/net/ops/blocks.h"

enum { WINDOW = 4 };

typedef struct job {
    const stk_pool *shape;
    const void *large, *d_small;
    void *small, *d_large;
    int add;
} job;

/* First elements of a window's pixels, in the order in which the first maximum is looked for. */
typedef struct window {
    size_t at[WINDOW];
} window;

static window window_at(const stk_pool *s, size_t image, size_t y, size_t x)
{
    const size_t first = ((image * s->height + 2 * y) * s->width + 2 * x) * s->large_stride;
    const size_t line = s->width * s->large_stride;
    return (window){ { first, first + s->large_stride, first + line, first + line + s->large_stride } };
}

/* Whether `a` takes the place of the maximum so far: as PyTorch, the last of several NaN does. */
static inline int beats(float a, float best)
{
    return a > best || a != a;
}

static void forward_pixel(const job *j, const window *w, size_t small)
{
    const stk_pool *s = j->shape;
    float best[STK_BLOCK], other[STK_BLOCK];
    for (size_t c = 0; c < s->channels; c += STK_BLOCK) {
        const size_t count = s->channels - c < STK_BLOCK ? s->channels - c : STK_BLOCK;
        stk_block_load(j->large, w->at[0] + c, count, s->type, best);
        for (int k = 1; k < WINDOW; k++) {
            stk_block_load(j->large, w->at[k] + c, count, s->type, other);
            for (size_t i = 0; i < count; i++) best[i] = beats(other[i], best[i]) ? other[i] : best[i];
        }
        stk_block_store(best, count, j->small, small + c, s->type, 0);
    }
}

static void backward_pixel(const job *j, const window *w, size_t small)
{
    const stk_pool *s = j->shape;
    float best[STK_BLOCK], other[STK_BLOCK], d[STK_BLOCK], part[STK_BLOCK];
    int32_t place[STK_BLOCK];
    for (size_t c = 0; c < s->channels; c += STK_BLOCK) {
        const size_t count = s->channels - c < STK_BLOCK ? s->channels - c : STK_BLOCK;
        stk_block_load(j->large, w->at[0] + c, count, s->type, best);
        memset(place, 0, count * sizeof *place);
        for (int k = 1; k < WINDOW; k++) {
            stk_block_load(j->large, w->at[k] + c, count, s->type, other);
            for (size_t i = 0; i < count; i++) {
                const int better = beats(other[i], best[i]);
                best[i] = better ? other[i] : best[i];
                place[i] = better ? k : place[i];
            }
        }
        stk_block_load(j->d_small, small + c, count, s->type, d);
        for (int k = 0; k < WINDOW; k++) {
            for (size_t i = 0; i < count; i++) part[i] = place[i] == k ? d[i] : 0;
            stk_block_store(part, count, j->d_large, w->at[k] + c, s->type, j->add);
        }
    }
}

static void clear_pixels(const job *j, size_t first, size_t count)
{
    const stk_pool *s = j->shape;
    for (size_t i = 0; i < count; i++)
        memset(stk_at(j->d_large, first + i * s->large_stride, s->type), 0,
               s->channels * stk_float_bytes(s->type));
}

/* What no window covers, of the two lines of the large map above line `y` of the small one, and below the
 * last. */
static void clear_rest(const job *j, size_t image, size_t y)
{
    const stk_pool *s = j->shape;
    const size_t line = s->width * s->large_stride, first = (image * s->height + 2 * y) * line;
    for (size_t i = 0; i < 2 && s->width % 2; i++)
        clear_pixels(j, first + i * line + (s->width - 1) * s->large_stride, 1);
    if (s->height % 2 && y + 1 == s->height / 2) clear_pixels(j, first + 2 * line, s->width);
}

static uint32_t lines_of(const stk_pool *s)
{
    return stk_block_lines((size_t)2 * s->width * s->channels);
}

static void pool_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const stk_pool *s = j->shape;
    const size_t height = s->height / 2, width = s->width / 2, lines = s->batch * height;
    const size_t first = (size_t)task * lines_of(s);
    const size_t end = first + lines_of(s) < lines ? first + lines_of(s) : lines;
    for (size_t line = first; line < end; line++) {
        for (size_t x = 0; x < width; x++) {
            const window w = window_at(s, line / height, line % height, x);
            (j->d_large ? backward_pixel : forward_pixel)(j, &w, (line * width + x) * s->small_stride);
        }
        if (j->d_large && !j->add) clear_rest(j, line / height, line % height);
    }
}

static void pool_all(const stk_exec *run, const job *j)
{
    const stk_pool *s = j->shape;
    const size_t lines = (size_t)s->batch * (s->height / 2);
    stk_threadpool_run(run->pool, pool_task, j, (uint32_t)((lines + lines_of(s) - 1) / lines_of(s)));
}

void stk_pool_forward(const stk_exec *run, const stk_pool *shape, const void *large, void *small)
{
    pool_all(run, &(job){ .shape = shape, .large = large, .small = small });
}

void stk_pool_backward(const stk_exec *run, const stk_pool *shape, const void *large, const void *d_small,
                       void *d_large, int add)
{
    pool_all(run,
             &(job){ .shape = shape, .large = large, .d_small = d_small, .d_large = d_large, .add = add });
}
