/* SPDX-License-Identifier: Apache-2.0
 *
 * The control points are drawn when a plan begins; a row is then made in two steps: the four rows of control
 * points it depends on are weighted into one, and every cell of that one is a cubic in x, computed by
 * Horner's rule. A row costs per pixel three multiplications and additions for each direction, which
 * compilers vectorise, and depends on no other row.
 *
 * The arithmetic is the devices' too: kernels/spline.h.
 */
#include "src/pix/warp.h"

#include "kernels/spline.h"
#include "src/base/error.h"
#include "src/base/rng.h"
#include "src/pix/pix_table.h"

/* What the buffers hold, in this order.
 *   control   x of the control points, row after row; y of them; place of every column in its cell (0 <= t <
 * 1); first column of every cell and, at the end, the width shift     displacement of the row in x; in y; the
 * weighted row of control points: x; y */
typedef struct parts {
    float *x, *y, *t;
    uint32_t *first;
    int32_t *shift_x, *shift_y;
    float *line_x, *line_y;
} parts;

static size_t control_bytes(uint64_t columns, uint64_t rows, uint32_t width)
{
    return (2 * columns * rows + width + columns) * 4;
}

static size_t shift_bytes(uint64_t columns, uint32_t width)
{
    return (2 * (size_t)width + 2 * columns) * 4;
}

static parts parts_of(const stk_pix_warper *w)
{
    const size_t points = (size_t)w->columns * w->rows;
    parts p = { .x = w->control.data, .shift_x = w->shift.data };
    p.y = p.x + points;
    p.t = p.y + points;
    p.first = (uint32_t *)(p.t + w->width);
    p.shift_y = p.shift_x + w->width;
    p.line_x = (float *)(p.shift_y + w->width);
    p.line_y = p.line_x + w->columns;
    return p;
}

/* A cubic depends on four control points: a line of cells has three points more than cells. */
uint64_t stk_elastic_points(uint32_t size, float step)
{
    float t;
    return (uint64_t)k_spline_cell(size - 1, step, &t) + 4;
}

uint64_t stk_warp_scratch(uint32_t out_width, uint32_t out_height)
{
    if (!out_width || !out_height) return 0;
    const uint64_t columns = stk_elastic_points(out_width, STK_ELASTIC_STEP_MIN),
                   rows = stk_elastic_points(out_height, STK_ELASTIC_STEP_MIN);
    return (uint64_t)control_bytes(columns, rows, out_width) + shift_bytes(columns, out_width);
}

static void draw_points(const stk_pix_warper *w, const parts *p)
{
    for (uint32_t row = 0; row < w->rows; row++) {
        for (uint32_t column = 0; column < w->columns; column++) {
            const size_t at = (size_t)row * w->columns + column;
            const stk_rng r = stk_philox(w->plan->elastic_key, stk_pair(row, column), 0, 0, 0);
            p->x[at] = k_spline_point(r.word[0], w->plan->elastic_alpha);
            p->y[at] = k_spline_point(r.word[1], w->plan->elastic_alpha);
        }
    }
}

/* Cell of a column or row of the output. */
static uint32_t cell_of(const stk_pix_warper *w, uint32_t at, float *t)
{
    const float step = w->plan->elastic_step;
    return k_spline_cell(stk_elastic_place(at, w->scale), w->scale < 2 ? step : step * (2 * (float)w->scale),
                         t);
}

static uint64_t points_along(const stk_pix_warper *w, uint32_t size)
{
    float t;
    return (uint64_t)cell_of(w, size - 1, &t) + 4;
}

static void divide_columns(const stk_pix_warper *w, const parts *p)
{
    uint32_t next = 0; /* cell whose first column is looked for */
    for (uint32_t j = 0; j < w->width; j++) {
        const uint32_t cell = cell_of(w, j, &p->t[j]);
        while (next <= cell) p->first[next++] = j;
    }
    p->first[next] = w->width;
}

int stk_elastic_check(const stoke_augment_plan *plan, stoke_error *err)
{
    /* written so that NaN fails too */
    if (!(plan->elastic_step >= STK_ELASTIC_STEP_MIN && plan->elastic_step <= 1e9f))
        return stk_fail(err, STOKE_E_INVALID, "elastic: control points must be at least %g pixels apart",
                        (double)STK_ELASTIC_STEP_MIN);
    if (!(plan->elastic_alpha >= 0 && plan->elastic_alpha <= STK_ELASTIC_ALPHA_MAX))
        return stk_fail(err, STOKE_E_INVALID, "elastic: a displacement must be between 0 and %g pixels",
                        (double)STK_ELASTIC_ALPHA_MAX);
    return STOKE_OK;
}

int stk_elastic_begin(stk_pix_warper *w, stoke_error *err)
{
    const stoke_augment_plan *plan = w->plan;
    w->columns = w->rows = 0;
    w->shift_row = 0;
    const int r = stk_elastic_check(plan, err);
    if (r) return r;
    const uint64_t columns = points_along(w, w->width), rows = points_along(w, w->height);
    if (!stk_buffer_reserve(&w->control, control_bytes(columns, rows, w->width)) ||
        !stk_buffer_reserve(&w->shift, shift_bytes(columns, w->width)))
        return stk_fail(err, STOKE_E_NOMEM, "elastic: no memory for %llu control points",
                        (unsigned long long)(columns * rows));
    w->columns = (uint32_t)columns;
    w->rows = (uint32_t)rows;
    const parts p = parts_of(w);
    draw_points(w, &p);
    divide_columns(w, &p);
    return STOKE_OK;
}

/* The four rows of points from `points` on, weighted. */
static void weigh_rows(float *line, const float *points, size_t columns, const float weight[4])
{
    const float *a = points, *b = a + columns, *c = b + columns, *d = c + columns;
    for (size_t k = 0; k < columns; k++) line[k] = k_spline_weigh(weight, a[k], b[k], c[k], d[k]);
}

static stk_pix_cubic cubic_of(const float p[4], int32_t limit)
{
    stk_pix_cubic cubic = { .limit = limit };
    k_spline_cubic(cubic.a, p);
    return cubic;
}

void stk_elastic_row(stk_pix_warper *w, uint32_t y)
{
    if (w->shift_row == (uint64_t)y + 1) return;
    w->shift_row = (uint64_t)y + 1;
    const stk_pix_table *table = stk_pix();
    const parts p = parts_of(w);
    float ty, weight[4];
    const size_t above = (size_t)cell_of(w, y, &ty) * w->columns;
    k_spline_weights(weight, ty);
    weigh_rows(p.line_x, p.x + above, w->columns, weight);
    weigh_rows(p.line_y, p.y + above, w->columns, weight);
    const int32_t limit = stk_elastic_limit(w->plan);
    for (uint32_t cell = 0; cell + 3 < w->columns; cell++) {
        const uint32_t first = p.first[cell], n = p.first[cell + 1] - first;
        const stk_pix_cubic right = cubic_of(p.line_x + cell, limit), down = cubic_of(p.line_y + cell, limit);
        table->cubic(p.shift_x + first, p.t + first, n, &right);
        table->cubic(p.shift_y + first, p.t + first, n, &down);
    }
}
