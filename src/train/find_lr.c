/* SPDX-License-Identifier: Apache-2.0
 *
 * The sweep: steps as the run would take them, at a rate that grows by one factor from step to step.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/exact_math.h"
#include "src/base/mem.h"
#include "src/loader/loader.h"
#include "src/train/checkpoint.h"
#include "src/train/evaluate.h"
#include "src/train/setup.h"
#include "src/train/train_memory.h"
#include <stoke/tools/findlr.h>

/* ---- judging the curve ---- */

enum {
    FEWEST = 20, /* points: with less, a window on either side leaves nothing to choose from */
    MEDIAN = 2,  /* points on either side: of five in a row two may be far off */
    WINDOW = 20, /* the line through a point is fitted to a twentieth of the curve on either side of it */
};
static const double KEEP = 0.98;             /* of the average that is shown while the sweep runs, per step */
static const double TOO_HIGH = 4;            /* times the lowest smoothed loss: no use to go on */
static const double LEAST_DROP = 0.05;       /* below, the curve says nothing */
static const double HALF = 0.5, FLOOR = 0.9; /* of the fall; beyond the second come noise and the lowest */
static const double RISE = 0.25;             /* of the fall, lost again: the curve has turned */

/* Limits of a confidence: the fall; the rates from half of the fall to the lowest, as a factor; noise of the
 * smoothed curve, as a share of the fall. */
typedef struct limits {
    double drop, apart, noise;
} limits;
static const limits high = { 0.2, 10, 0.03 }, medium = { LEAST_DROP, 30, 0.1 };

stoke_lr_end stoke_lr_watch_next(stoke_lr_watch *w, double loss)
{
    if (!isfinite(loss)) return STOKE_LR_END_NOT_FINITE;
    const int first = !(w->share > 0);
    w->sum = KEEP * w->sum + (1 - KEEP) * loss;
    w->share = KEEP * w->share + (1 - KEEP);
    w->smooth = w->sum / w->share;
    if (first || w->smooth < w->lowest) w->lowest = w->smooth;
    return w->smooth > TOO_HIGH * w->lowest ? STOKE_LR_END_ROSE : STOKE_LR_END_WHOLE;
}

/* ---- smoothing ---- */

/* Two batches in five that happen to be easy, or hard, do not count. */
static double median_at(const stoke_lr_report *r, size_t at)
{
    double values[2 * MEDIAN + 1];
    size_t n = 0;
    for (size_t i = at < MEDIAN ? 0 : at - MEDIAN; i <= at + MEDIAN && i < r->count; i++) {
        size_t place = n++;
        while (place && values[place - 1] > r->points[i].loss) values[place] = values[place - 1], place--;
        values[place] = r->points[i].loss;
    }
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The line that fits best around a point, near ones counting more: (1 - d^3)^3. It looks to both sides. An
 * average of the past lags behind, and in a sweep that is a factor of the rate: with 0.98 per step it found
 * the lowest loss of 200 steps over CamVid at 0.071, where the losses have it at 0.0012. */
static double fit(const double *y, size_t count, size_t at, size_t reach)
{
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (size_t i = at < reach ? 0 : at - reach; i <= at + reach && i < count; i++) {
        const double x = (double)i - (double)at, d = fabs(x) / (double)(reach + 1), near = 1 - d * d * d;
        const double weight = near * near * near;
        w += weight;
        wx += weight * x;
        wy += weight * y[i];
        wxx += weight * x * x;
        wxy += weight * x * y[i];
    }
    return (wxx * wy - wx * wxy) / (w * wxx - wx * wx);
}

/* ---- reading ---- */

/* Where the fall ends: clipping may hold an explosion down, and the loss falls a second time. What came
 * before half of the way down was noise. */
static size_t turn(const stoke_lr_report *r, double begin)
{
    double lowest = begin, least = begin;
    for (size_t i = 0; i < r->count; i++) lowest = fmin(lowest, r->points[i].smooth);
    for (size_t i = 0; i < r->count; i++) {
        const double y = r->points[i].smooth, fall = begin - least;
        if (fall > HALF * (begin - lowest) && y > least + RISE * fall) return i;
        least = fmin(least, y);
    }
    return r->count;
}

/* Of the smoothed curve up to `low`, by what single losses are off. The weights of a window are worth about
 * 1.15 times its reach in points. */
static double noise_of(const stoke_lr_report *r, size_t low, size_t reach)
{
    double sum = 0;
    for (size_t i = 0; i <= low; i++) {
        const double off = r->points[i].loss - r->points[i].smooth;
        sum += off * off;
    }
    return sqrt(sum / (double)(low + 1) / (1.15 * (double)reach));
}

/* There is one. */
static size_t first_below(const stoke_lr_report *r, double level)
{
    size_t i = 0;
    while (r->points[i].smooth > level) i++;
    return i;
}

static void read_curve(stoke_lr_report *r, const double *steady, size_t reach)
{
    const size_t start = r->count / 10;
    double begin = 0;
    for (size_t i = 0; i < r->count; i++) r->points[i].smooth = fit(steady, r->count, i, reach);
    for (size_t i = 0; i < start; i++) begin += r->points[i].smooth;
    begin /= (double)start;
    const size_t end = turn(r, begin);
    size_t low = 0;
    for (size_t i = 0; i < end; i++)
        if (r->points[i].smooth < r->points[low].smooth) low = i;
    const double fall = begin - r->points[low].smooth;
    r->drop = begin > 0 ? fall / begin : NAN;
    if (!(fall > 0)) return;
    r->noise = noise_of(r, low, reach) / fall;
    r->half = r->points[first_below(r, begin - HALF * fall)].lr;
    r->floor = r->points[first_below(r, begin - FLOOR * fall)].lr;
    r->lowest = r->points[low].lr;
}

/* ---- the verdict ---- */

static int within(const stoke_lr_report *r, const limits *l)
{
    return r->drop >= l->drop && r->lowest <= l->apart * r->half && r->noise <= l->noise;
}

static void explain(stoke_lr_report *r)
{
    if (r->end != STOKE_LR_END_WHOLE && !(r->drop >= LEAST_DROP))
        snprintf(
            r->why, sizeof r->why,
            "the loss %s at a rate of %.2g before it had fallen: start the sweep lower, or look at the data",
            r->end == STOKE_LR_END_ROSE ? "rose fourfold" : "was no number any more", r->end_lr);
    else if (!(r->drop >= LEAST_DROP))
        snprintf(r->why, sizeof r->why,
                 "the loss fell by %.1f %% only (5 %% are needed to tell anything): end the sweep higher, or "
                 "give it more steps",
                 fmax(0, r->drop) * 100);
    else if (r->noise > medium.noise)
        snprintf(r->why, sizeof r->why,
                 "losses scatter: the smoothed curve is known to %.0f %% of its fall only: give the sweep "
                 "more steps, or a larger batch",
                 100 * r->noise);
    else
        snprintf(r->why, sizeof r->why,
                 "from where half of the fall is done to where the loss is lowest rates differ by a factor "
                 "of %.0f: give the sweep more steps, or a larger batch",
                 r->lowest / r->half);
}

static void verdict(stoke_lr_report *r)
{
    r->why[0] = 0;
    r->confidence = within(r, &high) ? STOKE_LR_HIGH : within(r, &medium) ? STOKE_LR_MEDIUM : STOKE_LR_LOW;
    /* The largest rates that still gain. Of 1e-4, 4e-4, 1e-3, 4e-3 and 1e-2, runs of 120 steps ended lowest
     * at 4e-3 and 1e-3 (0.868 and 0.882) over CamVid, and at 1e-3 over membranes; the lowest of the sweeps
     * lay at 1.2e-3 and 8e-4, and nine tenths of the fall were done at half of these. */
    r->from_curve = r->drop >= LEAST_DROP;
    if (r->from_curve) r->suggested = sqrt(r->floor * r->lowest);
    if (r->confidence == STOKE_LR_LOW) explain(r);
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
    r->half = r->floor = r->lowest = r->drop = r->noise = r->suggested = NAN;
    r->confidence = STOKE_LR_LOW;
    r->from_curve = 0;
    if (r->count < FEWEST) {
        for (size_t i = 0; i < r->count; i++) r->points[i].smooth = r->points[i].loss;
        snprintf(r->why, sizeof r->why, "the sweep came no further than %zu steps, to a rate of %.2g: %s",
                 r->count, r->end_lr,
                 r->end == STOKE_LR_END_WHOLE ? "take more" : "start it lower, or look at the data");
        return STOKE_OK;
    }
    double *steady = stk_alloc(r->count * sizeof *steady);
    if (!steady) return stk_fail(err, STOKE_E_NOMEM, "no memory to judge a curve of %zu points", r->count);
    for (size_t i = 0; i < r->count; i++) steady[i] = median_at(r, i);
    read_curve(r, steady, r->count / WINDOW > 3 ? r->count / WINDOW : 3);
    stk_free(steady);
    verdict(r);
    return STOKE_OK;
}

/* ---- the sweep ---- */

enum { MIN_STEPS = 100, MAX_STEPS = 10000 }; /* the judge looks at pairs of points: 50 ms for the most */

typedef struct sweep {
    stoke_net *net;
    stoke_loader *loader;
    const stoke_train_params *train;
    const stoke_find_lr_params *params;
    stoke_train_fn event;
    void *context;
    stoke_lr_report *report;
    double divisor; /* stk_setup_divisor */
    uint64_t epoch, images;
    uint64_t began_ns;
} sweep;

stoke_find_lr_params stoke_find_lr_defaults(void)
{
    return (stoke_find_lr_params){
        .struct_size = sizeof(stoke_find_lr_params), .low = 1e-6, .high = 1, .steps = 200
    };
}

void stoke_lr_report_free(stoke_lr_report *report)
{
    stk_free(report->points);
    *report = (stoke_lr_report){ 0 };
}

static int check_params(const stoke_find_lr_params *p, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_find_lr_defaults");
    if (!(p->low >= 1e-12 && p->high <= 1e3 && p->high >= 10 * p->low))
        return stk_fail(err, STOKE_E_INVALID,
                        "a sweep from %g to %g: 1e-12 to 1000 will do, the end ten times the start or more",
                        p->low, p->high);
    if (p->steps < MIN_STEPS || p->steps > MAX_STEPS)
        return stk_fail(err, STOKE_E_INVALID, "a sweep of %u steps: %d to %d will do", (unsigned)p->steps,
                        MIN_STEPS, MAX_STEPS);
    return STOKE_OK;
}

/* The next batch that holds something; epochs follow one another. */
static int next_batch(sweep *s, const stoke_batch **batch, stoke_error *err)
{
    for (int fresh = 0;;) {
        int status = stoke_loader_next(s->loader, batch);
        if (status == STOKE_E_END && fresh)
            return stk_fail(err, STOKE_E_NOTFOUND, "an epoch has no batch: fewer samples than one batch?");
        if (status == STOKE_E_END) {
            status = stoke_loader_set_epoch(s->loader, ++s->epoch);
            fresh = 1;
            if (!status) continue;
        }
        if (status) return stk_fail_again(err, status, stoke_loader_error(s->loader));
        if ((*batch)->count) return STOKE_OK;
        stoke_batch_release(s->loader, batch);
    }
}

/* One step; *loss is NaN when loss or gradients were no numbers. In fp16 an overflow alone is no such sign:
 * the scale is looked for. */
static int take_step(sweep *s, double lr, double *loss, stoke_error *err)
{
    const uint32_t batches = s->train->accumulate > 1 ? (uint32_t)s->train->accumulate : 1;
    double weight = 0;
    *loss = 0;
    for (uint32_t i = 0; i < batches; i++) {
        const stoke_batch *batch;
        double one = NAN;
        int status = next_batch(s, &batch, err);
        if (status) return status;
        const stoke_net_batch rows = stoke_net_batch_of(batch);
        s->images += batch->count;
        status = stoke_net_backward(s->net, &rows, batches, &one, err);
        stoke_batch_release(s->loader, &batch);
        if (status) return status;
        *loss += one / batches;
        weight += stoke_net_leaf_weight(s->net);
    }
    const double factor = stk_setup_factor(s->divisor, batches, weight);
    *loss *= factor;
    stoke_net_multiply(s->net, factor);
    stoke_step_report report = { 0 };
    const stoke_update update = stk_setup_update(s->train, lr, s->report->count);
    const int status = stoke_net_step(s->net, &update, &report, err);
    if (report.skipped && stoke_net_plan_used(s->net)->precision != STOKE_PRECISION_FP16) *loss = NAN;
    return status;
}

static int tell(const sweep *s, uint32_t done)
{
    const double seconds = (double)(stk_now_ns() - s->began_ns) / 1e9;
    const stoke_lr_point *last = &s->report->points[s->report->count - 1];
    const stoke_train_event event = {
        .kind = STOKE_TRAIN_STEP,
        .step = done,
        .steps = s->params->steps,
        .loss = last->smooth,
        .last_loss = last->loss,
        .lr = last->lr,
        .images_per_s = (double)s->images / seconds,
        .seconds_left = seconds / done * (s->params->steps - done),
    };
    return s->event && s->event(s->context, &event);
}

static int run(sweep *s, stoke_error *err)
{
    stoke_lr_report *r = s->report;
    const uint32_t steps = s->params->steps;
    stoke_lr_watch watch = { 0 };
    int status = stoke_loader_set_epoch(s->loader, 0);
    if (status) return stk_fail_again(err, status, stoke_loader_error(s->loader));
    for (uint32_t i = 0; i < steps; i++) {
        double loss;
        r->end_lr = s->params->low * stk_pow(s->params->high / s->params->low, (double)i / (steps - 1));
        status = take_step(s, r->end_lr, &loss, err);
        if (status) return status;
        r->end = stoke_lr_watch_next(&watch, loss);
        if (r->end == STOKE_LR_END_NOT_FINITE) return STOKE_OK;
        r->points[r->count++] = (stoke_lr_point){ r->end_lr, loss, watch.smooth };
        if (tell(s, i + 1)) return stk_fail(err, STOKE_E_CANCELLED, "interrupted");
        if (r->end == STOKE_LR_END_ROSE) return STOKE_OK;
    }
    return STOKE_OK;
}

/* Room for the curve, the sweep, the verdict. */
static int run_and_judge(sweep *s, stoke_error *err)
{
    stoke_lr_report *r = s->report;
    r->points = stk_calloc(s->params->steps, sizeof *r->points);
    if (!r->points)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a curve of %u points", s->params->steps);
    s->began_ns = stk_now_ns();
    int status = run(s, err);
    r->seconds = (double)(stk_now_ns() - s->began_ns) / 1e9;
    if (!status) status = stoke_lr_judge(r, err);
    /* What is usual, and well below where the loss exploded. */
    if (!status && isnan(r->suggested)) {
        const double usual = stk_usual_rate(s->train);
        r->suggested = r->end == STOKE_LR_END_WHOLE ? usual : fmin(usual, r->end_lr / 100);
    }
    if (status) stoke_lr_report_free(r);
    return status;
}

/* ---- from settings ---- */

static int notify(const sweep *s, stoke_train_event_kind kind, const char *text, uint64_t done,
                  uint64_t total)
{
    const stoke_train_event event = { .kind = kind, .text = text, .done = done, .total = total };
    return s->event && s->event(s->context, &event);
}

static void say(void *context, const char *sentence)
{
    notify(context, STOKE_TRAIN_REMARK, sentence, 0, 0);
}

static int settling(void *context, uint64_t done, uint64_t total)
{
    return notify(context, STOKE_TRAIN_SETTLING, NULL, done, total);
}

int stoke_find_lr(const stoke_data_params *data, const stoke_train_params *train,
                  const stoke_find_lr_params *params, stoke_train_fn event, void *context,
                  stoke_lr_report *report, stoke_error *err)
{
    sweep s = { .params = params, .event = event, .context = context, .report = report };
    stk_setup setup = { 0 };
    stk_train_memory memory;
    stoke_train_params own = *train;
    *report = (stoke_lr_report){ 0 };
    int status = check_params(params, err);
    if (status) return status;
    own.lr = params->high; /* a rate is what is looked for: none need be chosen, and none be remarked on */
    own.resume = NULL;
    own.batch_norm = STOKE_BATCH_NORM_LOCAL; /* it goes by one lane */
    status = stk_setup_make(&setup, data, &own, say, settling, &s, err);
    s.train = &setup.params;
    if (!status && !stk_quarantine_named(&setup.train)) setup.train.quarantine = ""; /* nothing is written */
    if (!status) stoke_dataset_close(&setup.val_set); /* nothing is validated */
    if (!status) status = stk_train_memory_make(&memory, &setup, 0, err);
    if (!status) { /* said before it is taken */
        char text[1024];
        report->memory = memory.sum;
        stoke_memory_text(&memory.sum, text, sizeof text);
        if (notify(&s, STOKE_TRAIN_READY, text, 0, 0))
            status = stk_fail(err, STOKE_E_CANCELLED, "interrupted");
    }
    if (!status) status = stoke_net_open(&s.net, &setup.net, err);
    s.divisor = stk_setup_divisor(&setup);
    if (!status) stoke_net_divide(s.net, s.divisor);
    for (size_t i = 0; !status && stoke_net_remark(s.net, i); i++) say(&s, stoke_net_remark(s.net, i));
    if (!status) {
        const stoke_data_params own_data = stk_part_data(&setup, 0);
        status = stk_loader_create_planned(&s.loader, setup.train_set, &own_data, &memory.train, err);
    }
    if (!status) status = run_and_judge(&s, err); /* what it leaves behind is closed: nothing to put back */
    stoke_loader_destroy(&s.loader);
    stoke_net_close(&s.net);
    stk_setup_free(&setup);
    return status;
}
