/* SPDX-License-Identifier: Apache-2.0
 *
 * Why training is unstable: the course of the loss and of the gradients by the log, step against step and
 * with medians, so that noise is not taken for a jump; then what is behind it as a rule.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/train/setup.h"
#include "src/tune/why/why.h"
#include "src/tune/decide/decide.h"

enum { WINDOW = 16, WINDOW_LEAST = 6 };
/* A jump stands out of the last lines by 6 of their deviations (1.4826 times the median one) and by half of
 * their median: of 1000 lines of even noise none does. */
static const double DEVIATIONS = 6 * 1.4826, RISE = 0.5;

/* What the lines of steps say. */
typedef struct course {
    const stk_why_evidence *e;
    size_t n;                        /* lines */
    size_t holes, jumps;             /* lines with a loss that is not finite; that jumps */
    uint64_t first_hole, first_jump; /* their steps */
    double worst, worst_from;        /* the highest jump, and the median before it */
    double first, last;              /* median losses of the first and last quarter; NaN = too few lines */
    double norm50, norm95, clipped;  /* of gradients; NaN = none; clipped: share beyond clip_norm */
    double lr, scale_first, scale_last;
    int unsteady; /* holes or jumps: what explains them is worth a word */
} course;

/* ---- figures ---- */

/* Sorts; NaN of nothing. */
static double quantile(double *values, size_t n, double q)
{
    if (!n) return NAN;
    stk_sort_reals(values, n);
    return values[(size_t)(q * (double)(n - 1) + 0.5)];
}

typedef enum field { LOSS, NORM } field;

/* The finite values of a field of lines [from, to) into `values`. */
static size_t collect(const stk_run_log *log, size_t from, size_t to, field which, double *values)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        const double value = which == LOSS ? log->steps[i].loss : log->steps[i].gradient_norm;
        if (isfinite(value)) values[n++] = value;
    }
    return n;
}

static void find_jumps(course *c, const stk_run_log *log)
{
    double window[WINDOW], sorted[WINDOW];
    size_t filled = 0;
    for (size_t i = 0; i < log->n_steps; i++) {
        const double loss = log->steps[i].loss;
        if (!isfinite(loss)) {
            if (!c->holes++) c->first_hole = log->steps[i].step;
            continue;
        }
        const size_t n = filled < WINDOW ? filled : WINDOW;
        memcpy(sorted, window, n * sizeof *window);
        const double median = quantile(sorted, n, 0.5);
        for (size_t k = 0; k < n; k++) sorted[k] = fabs(window[k] - median);
        const double deviation = quantile(sorted, n, 0.5);
        if (n >= WINDOW_LEAST && loss > median + fmax(DEVIATIONS * deviation, RISE * fabs(median))) {
            if (!c->jumps++) c->first_jump = log->steps[i].step;
            if (c->jumps == 1 || loss > c->worst) c->worst = loss, c->worst_from = median;
        }
        window[filled++ % WINDOW] = loss;
    }
}

static void measure(course *c, const stk_why_evidence *e)
{
    const stk_run_log *log = &e->log;
    const double clip = e->config.train.clip_norm;
    double *values = log->n_steps ? stk_calloc(log->n_steps, sizeof *values) : NULL;
    *c = (course){ .e = e, .n = log->n_steps, .first = NAN, .last = NAN, .norm50 = NAN, .norm95 = NAN };
    if (!values) return;
    const size_t quarter = c->n / 4;
    find_jumps(c, log);
    c->unsteady = c->holes || c->jumps;
    if (quarter >= 3) {
        c->first = quantile(values, collect(log, 0, quarter, LOSS, values), 0.5);
        c->last = quantile(values, collect(log, c->n - quarter, c->n, LOSS, values), 0.5);
    }
    const size_t norms = collect(log, 0, c->n, NORM, values);
    c->norm50 = quantile(values, norms, 0.5);
    c->norm95 = quantile(values, norms, 0.95);
    size_t over = 0;
    for (size_t i = 0; i < norms; i++) over += clip > 0 && values[i] > clip;
    c->clipped = norms ? (double)over / (double)norms : 0;
    for (size_t i = 0; i < c->n; i++) c->lr = fmax(c->lr, log->steps[i].lr);
    c->scale_first = log->steps[0].loss_scale;
    c->scale_last = log->steps[c->n - 1].loss_scale;
    stk_free(values);
}

/* ---- the loss ---- */

/* Of what the file says; else of the highest that was in force. */
static void lower_rate(const course *c, stoke_reason *r, double factor)
{
    const double lr = c->e->config.train.lr;
    STK_SAY(r->remedy, "%s --lr %.2g", stk_train_again(c->e).text, (lr > 0 ? lr : c->lr) * factor);
}

static void not_finite(const course *c, stoke_answer *a)
{
    stoke_reason *r = stk_reason_add(a, c->n ? c->holes > 0 : -1, 1, NULL);
    STK_SAY(r->cause, "the loss is not a number%s", c->holes ? ", so nothing is learned any more" : "");
    if (!c->n)
        STK_SAY(r->evidence, "no step was logged yet");
    else if (c->holes)
        STK_SAY(r->evidence, "log.jsonl: %zu of %zu lines, the first at step %" PRIu64, c->holes, c->n,
                c->first_hole);
    else
        STK_SAY(r->evidence, "log.jsonl: all of %zu lines are finite", c->n);
    if (r->found == 1) lower_rate(c, r, 0.1);
}

static void jumping(const course *c, stoke_answer *a)
{
    if (c->n <= WINDOW_LEAST) return;
    stoke_reason *r = stk_reason_add(a, c->jumps > 0, 0.8, "the loss jumps");
    if (c->jumps)
        STK_SAY(r->evidence,
                "log.jsonl: %zu of %zu lines, the first at step %" PRIu64
                "; the highest is %.3g, where the median before it is %.3g",
                c->jumps, c->n, c->first_jump, c->worst, c->worst_from);
    else
        STK_SAY(r->evidence,
                "log.jsonl: none of %zu lines stands out of the %d before it by 6 deviations and by half",
                c->n, WINDOW);
    if (r->found) lower_rate(c, r, 0.3);
}

static void standing_still(const course *c, stoke_answer *a)
{
    if (isnan(c->first) || isnan(c->last)) return;
    stoke_reason *r = stk_reason_add(a, c->last > 0.98 * c->first, 0.7, "the loss does not fall");
    STK_SAY(r->evidence, "log.jsonl: median %.3g in the first quarter of the lines, %.3g in the last",
            c->first, c->last);
    if (r->found && c->e->has_config)
        STK_SAY(r->remedy, "stoke find-lr --config %s", c->e->config.config);
    else if (r->found)
        STK_SAY(r->remedy, "stoke find-lr DIR");
}

/* Not unstable, but often taken for it: said as what it is. */
static void overfitting(const course *c, stoke_answer *a)
{
    const stk_run_log *log = &c->e->log;
    size_t best = 0;
    if (log->n_evals < 4 || isnan(c->first) || isnan(c->last)) return;
    for (size_t i = 1; i < log->n_evals; i++)
        if (log->evals[i].loss < log->evals[best].loss) best = i;
    const stk_run_eval *lowest = &log->evals[best], *last = &log->evals[log->n_evals - 1];
    const int grows = last->loss > 1.1 * lowest->loss && lowest->step < log->step - log->step / 4;
    stoke_reason *r = stk_reason_add(a, grows && c->last < c->first, 0.6,
                                     "it overfits: what was seen is learned, what was not gets worse");
    STK_SAY(r->evidence,
            "log.jsonl: loss on val %.3g at step %" PRIu64 ", %.3g at step %" PRIu64
            "; that of training %.3g at first, %.3g now",
            lowest->loss, lowest->step, last->loss, last->step, c->first, c->last);
    if (r->found)
        STK_SAY(r->remedy, "%s --augment strong --patience 5   best/ has the network of the best evaluation",
                stk_train_again(c->e).text);
}

/* ---- what is behind it ---- */

static void gradients(const course *c, stoke_answer *a)
{
    const double clip = c->e->config.train.clip_norm;
    if (isnan(c->norm50)) return;
    const int spikes = c->norm95 > 10 * c->norm50;
    stoke_reason *r = stk_reason_add(a, c->e->has_config && clip <= 0 && (spikes || c->unsteady), 0.75,
                                     "large gradients are not clipped");
    STK_SAY(r->evidence,
            "log.jsonl: norm %.3g in the middle, %.3g at 95 %%; clip_norm %g cut %.0f %% of the lines",
            c->norm50, c->norm95, clip, 100 * c->clipped);
    if (r->found)
        STK_SAY(r->remedy, "%s --clip-norm %.2g", stk_train_again(c->e).text,
                c->norm50 > 0 ? c->norm50 : 1.0);
}

static void loss_scale(const course *c, stoke_answer *a)
{
    const stk_run_log *log = &c->e->log;
    const int half = c->e->config.precision == STOKE_PRECISION_FP16;
    if (!c->n) return;
    const int falls = half && c->scale_last < c->scale_first / 8;
    const int skips = log->skipped > 1 + log->step / 50;
    stoke_reason *r = stk_reason_add(a, falls || skips, 0.85, NULL);
    STK_SAY(r->cause, "gradients overflow%s, and their steps are left out", half ? " in fp16" : "");
    STK_SAY(r->evidence,
            "log.jsonl: %" PRIu64 " of %" PRIu64 " steps skipped; loss scale %g at first, %g at last",
            log->skipped, log->step, c->scale_first, c->scale_last);
    if (r->found && half)
        STK_SAY(r->remedy, "%s --precision auto", stk_train_again(c->e).text);
    else if (r->found)
        lower_rate(c, r, 0.1);
}

static void learning_rate(const course *c, stoke_answer *a)
{
    const stoke_train_params *p = &c->e->config.train;
    const double usual = stk_usual_rate(p);
    if (!c->n || !c->e->has_config || c->lr <= 0) return;
    const int trouble = c->unsteady || c->last > 0.98 * c->first;
    stoke_reason *r = stk_reason_add(a, trouble && c->lr > 5 * usual, 0.9, "the learning rate is high");
    STK_SAY(r->evidence, "log.jsonl: %.2g at its highest; usual for %s and %s weights: %.2g [table]", c->lr,
            p->optimizer == STOKE_OPTIMIZER_SGD ? "sgd" : "adamw", p->pretrained ? "pretrained" : "untrained",
            usual);
    if (r->found) STK_SAY(r->remedy, "stoke find-lr --config %s", c->e->config.config);
}

static void warm_up(const course *c, stoke_answer *a)
{
    const double warmup = c->e->config.train.warmup, steps = (double)stk_run_uint(&c->e->log.start, "steps");
    if (!c->n || !c->e->has_config || steps < 1) return;
    const double length = warmup < 1 ? warmup * steps : warmup;
    const uint64_t early = (uint64_t)(steps / 5);
    const int at_once = (c->holes && c->first_hole <= early) || (c->jumps && c->first_jump <= early);
    stoke_reason *r =
        stk_reason_add(a, at_once && length < 0.01 * steps, 0.8, "the learning rate begins at its height");
    STK_SAY(r->evidence, "warm-up of %.0f of %.0f steps; trouble in the first fifth: %s", length, steps,
            at_once ? "yes" : "no");
    if (r->found) STK_SAY(r->remedy, "%s --warmup 0.1", stk_train_again(c->e).text);
}

static void small_steps(const course *c, stoke_answer *a)
{
    const uint64_t batch = stk_run_uint(&c->e->log.start, "batch");
    const uint64_t times = stk_run_uint(&c->e->log.start, "accumulate");
    const uint64_t seen = batch * (times ? times : 1);
    if (!c->n || !batch || batch > 1 << 20 || times > 1 << 20) return;
    stoke_reason *r = stk_reason_add(a, c->jumps && seen < 4, 0.5, "a step sees too few pictures to go by");
    STK_SAY(r->evidence, "log.jsonl: batch %" PRIu64 " x accumulate %" PRIu64 " = %" PRIu64, batch,
            times ? times : 1, seen);
    if (r->found)
        STK_SAY(r->remedy, "%s --accumulate %" PRIu64, stk_train_again(c->e).text, (8 + batch - 1) / batch);
}

/* ---- labels ---- */

static void labels(const course *c, stoke_answer *a)
{
    static const char *const words[] = { "occur in none", "occurs in none", "cannot be used", ": bad files ",
                                         "means no class here" };
    const stk_run_log *log = &c->e->log;
    const char *said = NULL;
    for (size_t i = 0; !said && i < log->n_remarks; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (strstr(log->remarks[i], words[k])) said = log->remarks[i];
    stoke_reason *r = stk_reason_add(a, said != NULL, 0.4, "something is odd about the labels");
    STK_SAY(r->evidence, "log.jsonl: %.290s", said ? said : "no remark about them");
    if (said) STK_SAY(r->remedy, "stoke verify %s", c->e->config.data_name);
}

static void lost_classes(const course *c, stoke_answer *a)
{
    const stk_json *last = &c->e->log.last;
    const stk_json_value *iou = last->values ? stk_json_find(last, last->values, "iou") : NULL;
    size_t absent = 0, never = 0, all = 0;
    for (const stk_json_value *v = stk_json_first(last, iou); v; v = stk_json_next(last, v), all++) {
        double value;
        if (!stk_json_real(last, v, &value))
            absent++;
        else if (value <= 0)
            never++;
    }
    if (!all) return;
    stoke_reason *r = stk_reason_add(a, never > 0, 0.3, "some classes are never found");
    STK_SAY(r->evidence, "log.jsonl, last evaluation: IoU 0 for %zu of %zu classes; %zu are in no picture",
            never, all, absent);
    if (r->found) STK_SAY(r->remedy, "%s --class-weights balanced", stk_train_again(c->e).text);
}

void stk_why_unstable(stoke_answer *a, const stk_why_evidence *e)
{
    course c;
    if (e->state == STK_RUN_NONE) {
        stk_why_settings(a, e);
        stoke_reason *r = stk_reason_add(a, -1, 0, "the loss is not a number, jumps or does not fall");
        STK_SAY(r->evidence, "only the log of a run tells");
        STK_SAY(r->remedy, "stoke why unstable --run RUN");
        return;
    }
    measure(&c, e);
    not_finite(&c, a);
    loss_scale(&c, a);
    learning_rate(&c, a);
    jumping(&c, a);
    warm_up(&c, a);
    gradients(&c, a);
    standing_still(&c, a);
    overfitting(&c, a);
    small_steps(&c, a);
    labels(&c, a);
    lost_classes(&c, a);
}
