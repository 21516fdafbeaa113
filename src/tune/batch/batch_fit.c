/* SPDX-License-Identifier: Apache-2.0
 *
 * Two lines through a handful of trials. Memory is fitted by plain least squares: what matters is the far
 * end. Times are fitted by relative error: a step of 10 ms must count as much as one of a second.
 */
#include "src/tune/batch/batch.h"

#include <math.h>

#include "src/tune/decide/decide.h"

static const double LINEAR_R2 = 0.98; /* below it the points are no line, whatever its slope */
static const double TIME_OFF = 0.05;  /* as much as the choice between two batches turns on */
static const double WIDE = 0.5;       /* between the quartiles of its steps, of their median */

typedef struct line {
    double at0, slope, r2; /* r2 is 0 where all values are the same */
} line;

typedef struct sums {
    double n, x, y, xx, xy, yy;
} sums;

static void add(sums *s, double x, double y, double weight)
{
    s->n += weight;
    s->x += weight * x;
    s->y += weight * y;
    s->xx += weight * x * x;
    s->xy += weight * x * y;
    s->yy += weight * y * y;
}

static line through(const sums *s)
{
    line l = { 0 };
    if (s->n <= 0) return l;
    const double xx = s->xx - s->x * s->x / s->n, yy = s->yy - s->y * s->y / s->n;
    const double xy = s->xy - s->x * s->y / s->n;
    if (xx > 0) l.slope = xy / xx;
    l.at0 = (s->y - l.slope * s->x) / s->n;
    if (xx > 0 && yy > 0) l.r2 = xy * xy / (xx * yy);
    return l;
}

static void fit_memory(stk_batch_fit *fit, const stoke_trial *trials, size_t n)
{
    sums s = { 0 };
    uint32_t first = 0, several = 0;
    for (size_t i = 0; i < n; i++) {
        const stoke_trial *t = &trials[i];
        if (t->outcome != STOKE_OUTCOME_OK || t->with_loader) continue;
        add(&s, t->batch, (double)t->reserved, 1);
        if (!first) first = t->batch;
        several |= t->batch != first;
    }
    const line l = several ? through(&s) : (line){ NAN, NAN, NAN };
    fit->memory0 = l.at0;
    fit->memory1 = l.slope;
    fit->memory_r2 = l.r2;
    fit->linear = l.slope > 0 && l.r2 > LINEAR_R2;
}

static double share_had(double had, double wanted)
{
    return wanted > 0 ? had / wanted : 1; /* NaN too: not known is not disturbed */
}

static void add_point(stk_batch_fit *fit, uint32_t batch, double ms)
{
    size_t i = fit->n_points;
    for (size_t k = 0; k < fit->n_points; k++)
        if (fit->point[k].batch == batch) {
            fit->point[k].ms = fmin(fit->point[k].ms, ms);
            return;
        }
    if (fit->n_points == STOKE_TRIALS) return;
    for (; i && fit->point[i - 1].batch > batch; i--) fit->point[i] = fit->point[i - 1];
    fit->point[i].batch = batch;
    fit->point[i].ms = ms;
    fit->n_points++;
}

static void fit_time(stk_batch_fit *fit, const stoke_trial *trials, size_t n)
{
    sums s = { 0 };
    for (size_t i = 0; i < n; i++) {
        const stoke_trial *t = &trials[i];
        if (t->outcome != STOKE_OUTCOME_OK || t->with_loader || !(t->step_ms > 0)) continue;
        add_point(fit, t->batch, t->step_ms);
        const double share = share_had(t->cores_had, t->cores_wanted);
        if (isnan(fit->cores_had) || share < share_had(fit->cores_had, fit->cores_wanted)) {
            fit->cores_had = t->cores_had;
            fit->cores_wanted = t->cores_wanted;
        }
        if (stk_decide_busy(t->cores_had, t->cores_wanted) || t->step_high - t->step_low > WIDE * t->step_ms)
            fit->disturbed = 1;
    }
    for (size_t i = 0; i < fit->n_points; i++) {
        const double ms = fit->point[i].ms;
        add(&s, fit->point[i].batch, ms, 1 / (ms * ms));
    }
    const line l = fit->n_points > 1 ? through(&s) : (line){ NAN, NAN, NAN };
    fit->time0 = l.at0;
    fit->time1 = l.slope;
    fit->timed = fit->n_points > 2 && l.slope > 0;
    for (size_t i = 0; i < fit->n_points; i++) {
        const double there = l.at0 + l.slope * fit->point[i].batch;
        if (fabs(there / fit->point[i].ms - 1) > TIME_OFF) fit->timed = 0;
    }
}

void stk_batch_fit_make(stk_batch_fit *fit, const stoke_trial *trials, size_t n)
{
    *fit = (stk_batch_fit){ .cores_wanted = NAN, .cores_had = NAN };
    fit_memory(fit, trials, n);
    fit_time(fit, trials, n);
}

uint32_t stk_batch_fit_largest(const stk_batch_fit *fit, uint64_t budget)
{
    if (!fit->linear) return 0;
    const double most = floor(((double)budget - fit->memory0) / fit->memory1);
    return most < 1 ? 0 : most < INT32_MAX ? (uint32_t)most : INT32_MAX;
}

/* Between the trials on both sides; beyond the last as the last two go on, but no cheaper than a sample costs
 * there: noise must not make a batch free. */
static double between(const stk_batch_fit *fit, uint32_t batch)
{
    size_t i = 0;
    const size_t n = fit->n_points;
    if (n == 1) return fit->point[0].ms * batch / fit->point[0].batch;
    while (i + 2 < n && fit->point[i + 1].batch < batch) i++;
    const double x0 = fit->point[i].batch, x1 = fit->point[i + 1].batch;
    const double y0 = fit->point[i].ms, y1 = fit->point[i + 1].ms;
    const double ms = y0 + (y1 - y0) * (batch - x0) / (x1 - x0);
    return batch <= x1 ? ms : fmax(ms, y1);
}

double stk_batch_fit_ms(const stk_batch_fit *fit, uint32_t batch)
{
    if (!fit->n_points) return NAN;
    return fit->timed ? fit->time0 + fit->time1 * batch : between(fit, batch);
}

double stk_batch_fit_rate(const stk_batch_fit *fit, uint32_t batch)
{
    return 1000.0 * batch / stk_batch_fit_ms(fit, batch);
}

uint32_t stk_batch_floor(uint32_t batch, uint32_t multiple)
{
    return batch < multiple ? batch : batch / multiple * multiple;
}

uint32_t stk_batch_fit_choose(const stk_batch_fit *fit, uint32_t most, uint32_t beyond, uint32_t multiple,
                              double near, double *best)
{
    const uint32_t step = most < multiple ? 1 : multiple;
    *best = fit->timed ? stk_batch_fit_rate(fit, beyond) : NAN;
    for (uint32_t b = step; b <= most; b += step) *best = fmax(*best, stk_batch_fit_rate(fit, b));
    for (uint32_t b = step; b <= most; b += step)
        if (stk_batch_fit_rate(fit, b) >= near * *best) return b;
    return stk_batch_floor(most, multiple);
}
