/* SPDX-License-Identifier: Apache-2.0
 *
 * Why training is unstable: the course of the loss and of the gradients by the log, step against step and
 * with medians, so that noise is not taken for a jump; then what is behind it as a rule.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
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
static stk_preflight_command lower_rate(const course *c, double factor)
{
    const double lr = c->e->config.train.lr;
    return stk_with(stk_train_again(c->e), " --lr %.2g", (lr > 0 ? lr : c->lr) * factor);
}

static stk_preflight_command find_rate(const course *c)
{
    if (!c->e->has_config) return STK_REMEDY("stoke find-lr DIR");
    return STK_REMEDY("stoke find-lr --config %s", c->e->config.config);
}

static void not_finite(const course *c, stoke_answer *a)
{
    static const char cause[] = "the loss is not a number";
    if (!c->n)
        stk_reason(a, -1, 1, cause, NULL, "no step was logged yet");
    else if (!c->holes)
        stk_reason(a, 0, 1, cause, NULL, "log.jsonl: all of %zu lines are finite", c->n);
    else
        stk_reason(a, 1, 1, "the loss is not a number, so nothing is learned any more",
                   lower_rate(c, 0.1).text, "log.jsonl: %zu of %zu lines, the first at step %" PRIu64,
                   c->holes, c->n, c->first_hole);
}

static void jumping(const course *c, stoke_answer *a)
{
    static const char cause[] = "the loss jumps";
    if (c->n <= WINDOW_LEAST) return;
    if (c->jumps)
        stk_reason(a, 1, 0.8, cause, lower_rate(c, 0.3).text,
                   "log.jsonl: %zu of %zu lines, the first at step %" PRIu64
                   "; the highest is %.3g, where the median before it is %.3g",
                   c->jumps, c->n, c->first_jump, c->worst, c->worst_from);
    else
        stk_reason(a, 0, 0.8, cause, NULL,
                   "log.jsonl: none of %zu lines stands out of the %d before it by 6 deviations and by half",
                   c->n, WINDOW);
}

static void standing_still(const course *c, stoke_answer *a)
{
    if (isnan(c->first) || isnan(c->last)) return;
    stk_reason(a, c->last > 0.98 * c->first, 0.7, "the loss does not fall", find_rate(c).text,
               "log.jsonl: median %.3g in the first quarter of the lines, %.3g in the last", c->first,
               c->last);
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
    stk_reason(
        a, grows && c->last < c->first, 0.6, "it overfits: what was seen is learned, what was not gets worse",
        STK_AGAIN(c->e, " --augment strong --patience 5   best/ has the network of the best evaluation"),
        "log.jsonl: loss on val %.3g at step %" PRIu64 ", %.3g at step %" PRIu64
        "; that of training %.3g at first, %.3g now",
        lowest->loss, lowest->step, last->loss, last->step, c->first, c->last);
}

/* ---- what is behind it ---- */

static void gradients(const course *c, stoke_answer *a)
{
    const double clip = c->e->config.train.clip_norm;
    if (isnan(c->norm50)) return;
    const int spikes = c->norm95 > 10 * c->norm50;
    stk_reason(a, c->e->has_config && clip <= 0 && (spikes || c->unsteady), 0.75,
               "large gradients are not clipped",
               STK_AGAIN(c->e, " --clip-norm %.2g", c->norm50 > 0 ? c->norm50 : 1.0),
               "log.jsonl: norm %.3g in the middle, %.3g at 95 %%; clip_norm %g cut %.0f %% of the lines",
               c->norm50, c->norm95, clip, 100 * c->clipped);
}

static void loss_scale(const course *c, stoke_answer *a)
{
    const stk_run_log *log = &c->e->log;
    const int half = c->e->config.train.precision == STOKE_PRECISION_FP16;
    if (!c->n) return;
    const int falls = half && c->scale_last < c->scale_first / 8;
    const int skips = log->skipped > 1 + log->step / 50;
    stk_reason(a, falls || skips, 0.85,
               half ? "gradients overflow in fp16, and their steps are left out"
                    : "gradients overflow, and their steps are left out",
               half ? STK_AGAIN(c->e, " --precision auto") : lower_rate(c, 0.1).text,
               "log.jsonl: %" PRIu64 " of %" PRIu64 " steps skipped; loss scale %g at first, %g at last",
               log->skipped, log->step, c->scale_first, c->scale_last);
}

static void learning_rate(const course *c, stoke_answer *a)
{
    const stoke_train_params *p = &c->e->config.train;
    const double usual = stk_usual_rate(p);
    if (!c->n || !c->e->has_config || c->lr <= 0) return;
    const int trouble = c->unsteady || c->last > 0.98 * c->first;
    stk_reason(a, trouble && c->lr > 5 * usual, 0.9, "the learning rate is high", find_rate(c).text,
               "log.jsonl: %.2g at its highest; usual for %s and %s weights: %.2g [table]", c->lr,
               p->optimizer == STOKE_OPTIMIZER_SGD ? "sgd" : "adamw",
               p->pretrained ? "pretrained" : "untrained", usual);
}

static void warm_up(const course *c, stoke_answer *a)
{
    const double warmup = c->e->config.train.warmup, steps = (double)stk_run_uint(&c->e->log.start, "steps");
    if (!c->n || !c->e->has_config || steps < 1) return;
    const double length = warmup < 1 ? warmup * steps : warmup;
    const uint64_t early = (uint64_t)(steps / 5);
    const int at_once = (c->holes && c->first_hole <= early) || (c->jumps && c->first_jump <= early);
    stk_reason(a, at_once && length < 0.01 * steps, 0.8, "the learning rate begins at its height",
               STK_AGAIN(c->e, " --warmup 0.1"),
               "warm-up of %.0f of %.0f steps; trouble in the first fifth: %s", length, steps,
               at_once ? "yes" : "no");
}

static void small_steps(const course *c, stoke_answer *a)
{
    const uint64_t batch = stk_run_uint(&c->e->log.start, "batch");
    const uint64_t times = stk_run_uint(&c->e->log.start, "accumulate");
    const uint64_t seen = batch * (times ? times : 1);
    if (!c->n || !batch || batch > 1 << 20 || times > 1 << 20) return;
    stk_reason(a, c->jumps && seen < 4, 0.5, "a step sees too few pictures to go by",
               STK_AGAIN(c->e, " --accumulate %" PRIu64, (8 + batch - 1) / batch),
               "log.jsonl: batch %" PRIu64 " x accumulate %" PRIu64 " = %" PRIu64, batch, times ? times : 1,
               seen);
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
    stk_reason(a, said != NULL, 0.4, "something is odd about the labels",
               STK_REMEDY("stoke verify %s", c->e->config.data_name).text, "log.jsonl: %.290s",
               said ? said : "no remark about them");
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
    stk_reason(a, never > 0, 0.3, "some classes are never found",
               STK_AGAIN(c->e, " --class-weights balanced"),
               "log.jsonl, last evaluation: IoU 0 for %zu of %zu classes; %zu are in no picture", never, all,
               absent);
}

void stk_why_unstable(stoke_answer *a, const stk_why_evidence *e)
{
    course c;
    if (e->state == STK_RUN_NONE) {
        stk_why_settings(a, e);
        stk_reason(a, -1, 0, "the loss is not a number, jumps or does not fall",
                   "stoke why unstable --run RUN", "only the log of a run tells");
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
