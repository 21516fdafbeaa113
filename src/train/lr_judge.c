/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a curve of the loss over a growing learning rate.
 */
#include "src/train/lr_judge.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include <stoke/findlr.h>

enum {
    FEWEST = 20, /* points: with less, a window on either side leaves nothing to choose from */
    SKIP = 10,   /* the first tenth: the average has seen too few losses there */
    WINDOW = 50, /* a slope is that of the line through a fiftieth of the points on either side */
};
static const double KEEP = 0.98;       /* of the average, per step */
static const double LEAST_DROP = 0.05; /* below, the curve says nothing */
static const double MOST_APART = 10;   /* the readings, as a factor */
static const double FLAT = 0.05;       /* of the whole drop: until then the curve counts as flat */

double stk_smooth_next(stk_smoothing *s, double loss)
{
    s->sum = KEEP * s->sum + (1 - KEEP) * loss;
    s->share = KEEP * s->share + (1 - KEEP);
    return s->sum / s->share;
}

/* Slope of the line that fits points at - reach .. at + reach best, over log(lr). One point's difference to
 * the next would follow single batches that happen to be easy: of one such, this takes a third. */
static double slope(const stoke_lr_point *points, size_t at, size_t reach)
{
    double x_mean = 0, y_mean = 0, above = 0, below = 0;
    const double n = (double)(2 * reach + 1);
    for (size_t i = at - reach; i <= at + reach; i++) {
        x_mean += log(points[i].lr) / n;
        y_mean += points[i].smooth / n;
    }
    for (size_t i = at - reach; i <= at + reach; i++) {
        const double x = log(points[i].lr) - x_mean;
        above += x * (points[i].smooth - y_mean);
        below += x * x;
    }
    return above / below;
}

static double steepest(const stoke_lr_report *r, size_t first)
{
    const size_t reach = r->count / WINDOW > 1 ? r->count / WINDOW : 1;
    double least = 0, lr = NAN;
    for (size_t i = first + reach; i + reach < r->count; i++) {
        const double s = slope(r->points, i, reach);
        if (s < least) {
            least = s;
            lr = r->points[i].lr;
        }
    }
    return lr;
}

static size_t lowest(const stoke_lr_report *r, size_t first)
{
    size_t at = first;
    for (size_t i = first; i < r->count; i++)
        if (r->points[i].smooth < r->points[at].smooth) at = i;
    return at;
}

/* The longest falling subsequence of the points first .. low that are below `level`; where the curve has not
 * begun to fall, every jitter of the average would be a part of it, and beyond its lowest point a second
 * fall, from an explosion that clipping held down. As many points as it has, back from its last one, are the
 * valley: what rose in between does not make it longer. */
static int valley(const stoke_lr_report *r, size_t first, size_t low, double level, double *lr)
{
    uint32_t *length = stk_alloc(r->count * sizeof *length);
    if (!length) return STOKE_E_NOMEM;
    size_t end = first;
    for (size_t i = first; i <= low; i++) {
        const double y = r->points[i].smooth;
        length[i] = y <= level;
        for (size_t j = first; j < i && length[i]; j++)
            if (length[j] >= length[i] && r->points[j].smooth > y) length[i] = length[j] + 1;
        if (length[i] > length[end]) end = i;
    }
    const size_t begin = end + 1 - (length[end] ? length[end] : 1);
    *lr = length[end] > 1 ? sqrt(r->points[begin].lr * r->points[end].lr) : NAN;
    stk_free(length);
    return STOKE_OK;
}

/* How the readings differ, as a factor; NaN when one is missing. */
static double apart(const stoke_lr_report *r)
{
    const double least = fmin(r->steepest, fmin(r->tenth, r->valley));
    const double most = fmax(r->steepest, fmax(r->tenth, r->valley));
    return isnan(r->steepest + r->tenth + r->valley) ? NAN : most / least;
}

static void verdict(stoke_lr_report *r)
{
    const double factor = apart(r);
    r->suggested = NAN;
    r->why[0] = 0;
    if (r->end != STOKE_LR_END_WHOLE && !(r->drop >= LEAST_DROP))
        snprintf(r->why, sizeof r->why,
                 "the loss %s at a rate of %.2g before it had fallen: start the sweep lower, or look at the "
                 "data",
                 r->end == STOKE_LR_END_ROSE ? "rose fourfold" : "was no number any more", r->end_lr);
    else if (!(r->drop >= LEAST_DROP))
        snprintf(r->why, sizeof r->why,
                 "the loss fell by %.1f %% only (5 %% are needed to tell anything): end the sweep higher, or "
                 "give it more steps",
                 r->drop * 100);
    else if (isnan(factor))
        snprintf(r->why, sizeof r->why,
                 "the curve has no stretch that falls: give the sweep more steps, or a larger batch");
    else if (factor > MOST_APART)
        snprintf(r->why, sizeof r->why,
                 "the three readings differ by a factor of %.0f (10 is the most that can be trusted): give "
                 "the sweep more steps, or a larger batch",
                 factor);
    else
        r->suggested = r->steepest;
}

/* Numbers that logarithms can be taken of, growing. */
static int check(const stoke_lr_report *r, stoke_error *err)
{
    if (r->count && !r->points) return stk_fail(err, STOKE_E_INVALID, "a curve without points");
    for (size_t i = 0; i < r->count; i++) {
        const stoke_lr_point *p = &r->points[i];
        if (!(p->lr >= DBL_MIN && p->lr <= DBL_MAX) || !isfinite(p->loss))
            return stk_fail(err, STOKE_E_INVALID, "point %zu of the curve: a rate of %g, a loss of %g", i,
                            p->lr, p->loss);
        if (i && !(p->lr > p[-1].lr))
            return stk_fail(err, STOKE_E_INVALID, "point %zu of the curve: the rate does not grow", i);
    }
    return STOKE_OK;
}

int stoke_lr_judge(stoke_lr_report *r, stoke_error *err)
{
    const int status = check(r, err);
    if (status) return status;
    stk_smoothing smoothing = { 0 };
    for (size_t i = 0; i < r->count; i++)
        r->points[i].smooth = stk_smooth_next(&smoothing, r->points[i].loss);
    r->steepest = r->tenth = r->valley = r->drop = r->suggested = NAN;
    if (r->count < FEWEST) {
        snprintf(r->why, sizeof r->why, "the sweep came no further than %zu steps, to a rate of %.2g: %s",
                 r->count, r->end_lr,
                 r->end == STOKE_LR_END_WHOLE ? "take more" : "start it lower, or look at the data");
        return STOKE_OK;
    }
    const size_t first = r->count / SKIP, low = lowest(r, first);
    const double begin = r->points[first].smooth, fall = begin - r->points[low].smooth;
    r->drop = begin > 0 ? fall / begin : NAN;
    r->steepest = steepest(r, first);
    r->tenth = r->points[low].lr / 10;
    if (valley(r, first, low, begin - FLAT * fall, &r->valley))
        return stk_fail(err, STOKE_E_NOMEM, "no memory to judge a curve of %zu points", r->count);
    verdict(r);
    return STOKE_OK;
}
