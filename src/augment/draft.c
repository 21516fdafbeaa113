/* SPDX-License-Identifier: Apache-2.0
 *
 * Composing maps, and settling them into a plan.
 */
#include "src/augment/op.h"

#include <math.h>
#include <string.h>

#include "src/base/exact_math.h"

static const int64_t ONE = INT64_C(1) << 32; /* 1 in 32.32 */

/* Coordinates stay below this in size, so that products and differences of 32.32 numbers fit 64 bits. */
static const double FARTHEST = 536870912.0; /* 2^29 pixels */

void stk_draft_begin(stk_draft *draft, const stoke_draw *draw, stoke_augment_plan *plan)
{
    memset(plan, 0, sizeof *plan); /* padding too: plans are compared and hashed as bytes */
    *draft = (stk_draft){
        .draw = draw,
        .plan = plan,
        .map = { 1, 0, 0, 0, 1, 0 },
        .part = { 0, 0, draw->source_width, draw->source_height },
        /* A fit that changes no size is a window on the source at its origin. */
        .at_own_scale = draw->source_width == draw->out_width && draw->source_height == draw->out_height,
    };
}

void stk_draft_window(stk_draft *draft, int64_t x, int64_t y)
{
    draft->at_own_scale = 1;
    draft->window_x = x;
    draft->window_y = y;
}

void stk_draft_part(stk_draft *draft, stoke_box part)
{
    draft->at_own_scale = 0;
    draft->part = part;
}

void stk_draft_map(stk_draft *draft, const double step[6])
{
    double before[6];
    memcpy(before, draft->map, sizeof before);
    for (int row = 0; row < 6; row += 3) {
        const double a = before[row], b = before[row + 1];
        draft->map[row] = a * step[0] + b * step[3];
        draft->map[row + 1] = a * step[1] + b * step[4];
        draft->map[row + 2] = a * step[2] + b * step[5] + before[row + 2];
    }
}

void stk_draft_about_center(stk_draft *draft, const double linear[4], double shift_x, double shift_y)
{
    const double cx = (draft->draw->out_width - 1.0) / 2, cy = (draft->draw->out_height - 1.0) / 2;
    const double x = cx + shift_x, y = cy + shift_y;
    const double step[6] = { linear[0], linear[1], cx - (linear[0] * x + linear[1] * y),
                             linear[2], linear[3], cy - (linear[2] * x + linear[3] * y) };
    stk_draft_map(draft, step);
}

stoke_color_step *stk_draft_color(stk_draft *draft, stoke_color_kind kind)
{
    const int full = draft->plan->n_color_steps == STOKE_PLAN_COLOR_STEPS;
    stoke_color_step *step = full ? &draft->beyond : &draft->plan->color[draft->plan->n_color_steps++];
    step->kind = kind;
    return step;
}

static int64_t to_fixed(double value)
{
    return (int64_t)floor(value * 4294967296.0 + 0.5);
}

/* One coordinate over the output lies between the values at the corners. */
typedef struct span {
    int64_t low, high;
} span;

static span span_of(const int64_t row[3], uint32_t width, uint32_t height)
{
    const int64_t across = row[0] * (int64_t)(width - 1), down = row[1] * (int64_t)(height - 1);
    return (span){ row[2] + (across < 0 ? across : 0) + (down < 0 ? down : 0),
                   row[2] + (across > 0 ? across : 0) + (down > 0 ? down : 0) };
}

static int is_near(const double row[3], uint32_t width, uint32_t height)
{
    return fabs(row[2]) + fabs(row[0] * width) + fabs(row[1] * height) < FARTHEST;
}

/* The map in 32.32. One that is too wild for 64 bits (a picture shrunk to a millionth by many ops) shows
 * nothing: every pixel looks at one place outside. */
static void fix_map(const stk_draft *draft, int64_t matrix[6])
{
    const uint32_t width = draft->draw->out_width, height = draft->draw->out_height;
    const int good = is_near(draft->map, width, height) && is_near(draft->map + 3, width, height);
    for (int i = 0; i < 6; i++) matrix[i] = good ? to_fixed(draft->map[i]) : 0;
    if (!good) matrix[2] = matrix[5] = -to_fixed(FARTHEST);
}

/* 1 when a coordinate only runs forwards or backwards over whole pixels; *start is then the least one. */
static int is_step(int64_t along, int64_t across, int64_t offset, uint32_t length, int64_t *start)
{
    if (across != 0 || (along != ONE && along != -ONE) || offset % ONE != 0) return 0;
    *start = offset / ONE - (along < 0 ? (int64_t)length - 1 : 0);
    return 1;
}

/* The part of a window of `length` at `start` that lies in the source: where it begins there and in the
 * window. 0 when there is none. */
static int cut_axis(int64_t start, uint32_t length, uint32_t source, uint32_t *from, uint32_t *size,
                    uint32_t *place)
{
    const int64_t first = start > 0 ? start : 0;
    const int64_t end = start + length < source ? start + length : source;
    if (first >= end) return 0;
    *from = (uint32_t)first;
    *size = (uint32_t)(end - first);
    *place = (uint32_t)(first - start);
    return 1;
}

/* Flips and shifts by whole pixels need no resampling. 0 when there is more to do. */
static int settle_plain(const stk_draft *draft, const int64_t m[6])
{
    const stoke_draw *draw = draft->draw;
    stoke_augment_plan *plan = draft->plan;
    int64_t x, y;
    if (plan->elastic_alpha > 0 || !is_step(m[0], m[1], m[2], draw->out_width, &x) ||
        !is_step(m[4], m[3], m[5], draw->out_height, &y))
        return 0;
    if (draft->at_own_scale) {
        stoke_box box;
        if (!cut_axis(draft->window_x + x, draw->out_width, draw->source_width, &box.x, &box.width,
                      &plan->place_x) ||
            !cut_axis(draft->window_y + y, draw->out_height, draw->source_height, &box.y, &box.height,
                      &plan->place_y))
            return 0;
        plan->box = box;
        plan->width = box.width;
        plan->height = box.height;
    } else {
        if (x != 0 || y != 0) return 0; /* a shifted fitted picture: there is no place left of the output */
        plan->box = draft->part;
        plan->width = draw->out_width;
        plan->height = draw->out_height;
    }
    plan->hflip = m[0] < 0;
    plan->vflip = m[4] < 0;
    return 1;
}

/* The pixels of one axis of the source that sampling can touch: the two taps of bilinear interpolation after
 * its rounding to 1/256 (warp.h), which hold the nearest one too, and `margin` more. At least one pixel, even
 * when all of them lie outside. */
static void touched(span s, int64_t window, int64_t margin, uint32_t source, uint32_t *from, uint32_t *size)
{
    const int64_t half = ONE >> 9, last = (int64_t)source - 1;
    int64_t low = ((s.low + half) >> 32) + window - margin;
    int64_t high = ((s.high + half) >> 32) + 1 + window + margin;
    low = low < 0 ? 0 : low > last ? last : low;
    high = high < 0 ? 0 : high > last ? last : high;
    *from = (uint32_t)low;
    *size = (uint32_t)(high - low + 1);
}

/* How many more pixels of one axis a target's pixels can touch: their centres begin up to half an output
 * pixel before that of the first one, and end as far behind the last. */
static int64_t reach(const int64_t row[3], uint32_t scale)
{
    const int64_t across = row[0] < 0 ? -row[0] : row[0], down = row[1] < 0 ? -row[1] : row[1];
    return scale > 1 ? ((across + down) / 2 + ONE - 1) >> 32 : 0;
}

static void settle_warp(const stk_draft *draft, const int64_t m[6])
{
    const stoke_draw *draw = draft->draw;
    stoke_augment_plan *plan = draft->plan;
    plan->place_x = plan->place_y = 0;
    plan->warp = 1;
    memcpy(plan->matrix, m, sizeof plan->matrix);
    if (!draft->at_own_scale) {
        plan->box = draft->part;
        plan->width = draw->out_width;
        plan->height = draw->out_height;
        return;
    }
    /* Displacements are weighted means of control points, none larger than alpha; one more pixel covers
     * their rounding to 1/65536. */
    const int64_t margin = plan->elastic_alpha > 0 ? (int64_t)ceil(plan->elastic_alpha) + 1 : 0;
    const int64_t finer[2] = { reach(m, draw->scale), reach(m + 3, draw->scale) };
    touched(span_of(m, draw->out_width, draw->out_height), draft->window_x, margin + finer[0],
            draw->source_width, &plan->box.x, &plan->box.width);
    touched(span_of(m + 3, draw->out_width, draw->out_height), draft->window_y, margin + finer[1],
            draw->source_height, &plan->box.y, &plan->box.height);
    plan->width = plan->box.width;
    plan->height = plan->box.height;
    plan->matrix[2] += (draft->window_x - (int64_t)plan->box.x) * ONE;
    plan->matrix[5] += (draft->window_y - (int64_t)plan->box.y) * ONE;
}

void stk_draft_settle(stk_draft *draft)
{
    int64_t matrix[6];
    fix_map(draft, matrix);
    if (!settle_plain(draft, matrix)) settle_warp(draft, matrix);
}

static stoke_box enlarged(const stoke_box *box, uint32_t scale)
{
    return (stoke_box){ box->x * scale, box->y * scale, box->width * scale, box->height * scale };
}

/* x' = s * x + (s - 1) / 2 on both sides of the map, since the centre of a pixel is that of s x s finer ones.
 * A map that is too wild for 64 bits goes on showing nothing. */
static void enlarge_map(int64_t row[3], uint32_t scale)
{
    const __int128 most = (__int128)1 << 62, turned = (__int128)ONE - row[0] - row[1];
    const __int128 at = (__int128)scale * row[2] + (scale - 1) * turned / 2;
    row[2] = (int64_t)(at > most ? most : at < -most ? -most : at);
}

void stk_plan_enlarge(stoke_augment_plan *plan, uint32_t scale, int colors)
{
    if (!colors) plan->n_color_steps = 0;
    if (scale < 2) return;
    plan->box = enlarged(&plan->box, scale);
    plan->width *= scale;
    plan->height *= scale;
    plan->place_x *= scale;
    plan->place_y *= scale;
    plan->elastic_alpha *= (float)scale;
    if (plan->warp) {
        enlarge_map(plan->matrix, scale);
        enlarge_map(plan->matrix + 3, scale);
    }
    plan->mix_box = enlarged(&plan->mix_box, scale);
    for (uint32_t i = 0; i < plan->n_color_steps; i++)
        plan->color[i].box = enlarged(&plan->color[i].box, scale);
}

int stk_random_rectangle(const stk_op_random *random, uint32_t first_draw, const double scale[2],
                         const double ratio[2], const uint32_t whole[2], uint32_t slack, uint32_t start[2],
                         uint32_t size[2])
{
    const double log_ratio[2] = { stk_log(ratio[0]), stk_log(ratio[1]) };
    const double area = (double)whole[0] * whole[1];
    for (uint32_t attempt = 0; attempt < 10; attempt++) {
        const stk_rng r = stk_op_draw(random, first_draw + attempt);
        const double share = stk_op_uniform(scale, r.word[0]) * area;
        const double aspect = stk_exp(stk_op_uniform(log_ratio, r.word[1]));
        const double side[2] = { floor(sqrt(share * aspect) + 0.5), floor(sqrt(share / aspect) + 0.5) };
        if (side[0] < 1 || side[1] < 1 || side[0] + slack > whole[0] || side[1] + slack > whole[1]) continue;
        for (int i = 0; i < 2; i++) {
            size[i] = (uint32_t)side[i];
            /* 32 random bits over at most 2^32 places: a bias of one part in 2^32 / places, which no picture
             * is large enough to show. */
            start[i] = (uint32_t)stk_below(stk_pair(r.word[2 + i], 0), whole[i] - size[i] + 1ull);
        }
        return 1;
    }
    return 0;
}
