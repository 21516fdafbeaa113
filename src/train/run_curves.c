/* SPDX-License-Identifier: Apache-2.0
 *
 * The four curves of a run, from its log.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <stoke/tools/output.h>
#include <stoke/tools/metrics.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/report/chart.h"
#include "src/train/run_report.h"

const char *const stk_curve_files[STK_CURVES + 1] = { "loss.svg", "miou.svg", "lr.svg", "speed.svg" };

enum {
    STEP_ARRAYS = 6,
    EVAL_ARRAYS = 2 + STOKE_SCORES,
    ROUGH = 20, /* logged steps from which on raw values are noise to look through */
    FEW = 60    /* evaluations that get a mark each */
};

/* A moving average over about a fifteenth of the run, without the pull of an arbitrary start: the first
 * values weigh what they weigh. Gaps are passed over. */
static void smoothen(const double *raw, double *smooth, size_t count)
{
    const double keep = fmax(0, 1 - 2 / ((double)count / 15 + 1.5)); /* of few values the last alone counts */
    double sum = 0, weight = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(raw[i])) {
            sum = sum * keep + raw[i];
            weight = weight * keep + 1;
        }
        smooth[i] = weight > 0 && isfinite(raw[i]) ? sum / weight : NAN;
    }
}

static void fill(stk_run_curves *c, const stk_run_log *log)
{
    for (size_t i = 0; i < c->steps; i++) {
        const stk_log_step_note *s = &log->steps[i];
        const int timed = s->seconds > 0;
        c->step[i] = (double)s->step;
        c->loss[i] = s->loss;
        c->lr[i] = s->lr;
        c->speed[i] = timed ? (double)s->images / s->seconds : NAN;
        c->wait[i] = timed ? 100 * s->data_seconds / s->seconds : NAN;
    }
    smoothen(c->loss, c->smooth, c->steps);
    for (size_t i = 0; i < c->evals; i++) {
        const stk_run_eval *e = &log->evals[i];
        c->eval_step[i] = (double)e->step;
        c->eval_loss[i] = e->loss;
        for (int k = 0; k < STOKE_SCORES; k++) c->score[k][i] = e->score[k];
    }
    c->best_step = NAN;
    if (log->best.values) {
        char number[32];
        c->best_step = (double)stk_run_uint(&log->best, "step");
        stk_text_fixed(stk_run_real(&log->best, log->best.values, "miou"), 3, number, sizeof number);
        snprintf(c->best_text, sizeof c->best_text, "best: mIoU %s", number);
    }
}

int stk_curves_make(stk_run_curves *curves, const stk_run_log *log, stoke_error *err)
{
    *curves = (stk_run_curves){ .steps = log->n_steps, .evals = log->n_evals };
    const size_t n = log->n_steps, m = log->n_evals;
    double *p = curves->block = stk_calloc(n * STEP_ARRAYS + m * EVAL_ARRAYS + 1, sizeof *p);
    if (!p) return stk_fail(err, STOKE_E_NOMEM, "no memory for the curves of a run");
    double **const by_step[STEP_ARRAYS] = { &curves->step, &curves->loss,  &curves->smooth,
                                            &curves->lr,   &curves->speed, &curves->wait };
    for (size_t i = 0; i < STEP_ARRAYS; i++, p += n) *by_step[i] = p;
    curves->eval_step = p;
    curves->eval_loss = p + m;
    for (size_t i = 0; i < STOKE_SCORES; i++) curves->score[i] = p + (2 + i) * m;
    fill(curves, log);
    return STOKE_OK;
}

void stk_curves_free(stk_run_curves *curves)
{
    stk_free(curves->block);
    *curves = (stk_run_curves){ 0 };
}

/* ---- as charts ---- */

static stoke_series along_steps(const stk_run_curves *c, const char *name, const double *y)
{
    return (stoke_series){ .name = name, .x = c->step, .y = y, .count = c->steps, .points = c->steps == 1 };
}

static stoke_series along_evals(const stk_run_curves *c, const char *name, const double *y)
{
    return (stoke_series){
        .name = name, .x = c->eval_step, .y = y, .count = c->evals, .points = c->evals <= FEW
    };
}

static int write_chart(const stk_run_curves *c, const char *title, const char *unit,
                       const stoke_series *series, size_t n_series, int marked, stoke_chart chart, FILE *out,
                       stoke_error *err)
{
    const stoke_mark best = { c->best_step, c->best_text };
    chart.title = title;
    chart.x_label = "step";
    chart.y_label = unit;
    chart.series = series;
    chart.n_series = n_series;
    chart.marks = &best;
    chart.n_marks = marked && !isnan(c->best_step);
    return stoke_chart_svg(&chart, out, err);
}

static int write_loss(const stk_run_curves *c, stoke_chart chart, FILE *out, stoke_error *err)
{
    stoke_series series[3];
    size_t n = 0;
    if (c->steps >= ROUGH) {
        series[n] = along_steps(c, NULL, c->loss);
        series[n++].faint = 1;
        series[n++] = along_steps(c, "training (smoothed; as logged behind it)", c->smooth);
    } else {
        series[n++] = along_steps(c, "training", c->loss);
    }
    if (c->evals) series[n++] = along_evals(c, "validation", c->eval_loss);
    return write_chart(c, "Loss", NULL, series, n, 1, chart, out, err);
}

static int write_scores(const stk_run_curves *c, stoke_chart chart, FILE *out, stoke_error *err)
{
    stoke_series series[STOKE_SCORES];
    size_t n = 0;
    for (int i = 0; i < STOKE_SCORES; i++)
        if (stoke_score_at(i)->charted) series[n++] = along_evals(c, stoke_score_at(i)->title, c->score[i]);
    chart.y_min = 0;
    chart.y_max = 1;
    return write_chart(c, "Validation scores", "score, 0 to 1", series, n, 1, chart, out, err);
}

static int write_lr(const stk_run_curves *c, stoke_chart chart, FILE *out, stoke_error *err)
{
    const stoke_series series[] = { along_steps(c, "learning rate", c->lr) };
    chart.y_min = 0;
    return write_chart(c, "Learning rate", NULL, series, 1, 0, chart, out, err);
}

/* Two quantities with units of their own: two frames, one above the other. */
static int write_speed(const stk_run_curves *c, stoke_chart chart, FILE *out, stoke_error *err)
{
    const stoke_series speed[] = { along_steps(c, "images per second", c->speed) };
    const stoke_series wait[] = { along_steps(c, "waiting for data", c->wait) };
    const uint32_t whole = chart.height;
    chart.height = whole / 2;
    chart.y_min = 0;
    fprintf(out,
            "<!-- " STOKE_OUTPUT_MARK " -->\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" width=\"%u\" height=\"%u\">\n",
            (unsigned)chart.width, (unsigned)whole, (unsigned)chart.width, (unsigned)whole);
    int r = write_chart(c, "Speed", "images/s", speed, 1, 0, chart, out, err);
    fprintf(out, "<g transform=\"translate(0 %u)\">\n", (unsigned)chart.height);
    if (!r) r = write_chart(c, "Waiting for data", "% of a step's time", wait, 1, 0, chart, out, err);
    fputs("</g>\n</svg>\n", out);
    return r;
}

int stk_curve_write(const stk_run_curves *curves, int which, uint32_t width, FILE *out, stoke_error *err)
{
    stoke_chart chart = stoke_chart_defaults();
    chart.width = width;
    switch (which) {
    case STK_CURVE_LOSS: return write_loss(curves, chart, out, err);
    case STK_CURVE_SCORES: return write_scores(curves, chart, out, err);
    case STK_CURVE_LR: return write_lr(curves, chart, out, err);
    default: return write_speed(curves, chart, out, err);
    }
}
