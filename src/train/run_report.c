/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke_run_report: the log in, curves and page out, each file whole or as it was.
 */
#include "src/train/run_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/codec/write.h"
#include "src/report/chart.h"
#include <stoke/tools/chart.h>
#include <stoke/tools/metrics.h>
#include <stoke/tools/output.h>
#include <stoke/tools/terminal.h>
#include <stoke/tools/train.h>

/* ---- pictures ---- */

/* Pictures inside report.html, as data: addresses. Small PNG files go in as they are; a large one
 * (photographs compress badly) as a JPEG of the same size, a fifth of the bytes. */

enum {
    FILE_BYTES = 64 << 20, /* of a picture at most */
    SMALL = 300 << 10,     /* that goes in as it is */
    QUALITY = 88,
    PIXELS = 1 << 26
};

/* 1: a path below the folder, as the journal writes them. The log may come from anywhere, and the report must
 * not carry files away with it. */
static int is_below(const char *path)
{
    if (!*path || *path == '/') return 0;
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/')) return 0;
    return 1;
}

static void embed(FILE *out, const char *type, const void *bytes, size_t size)
{
    fprintf(out, "data:image/%s;base64,", type);
    stk_html_base64(out, bytes, size);
}

/* The picture as a JPEG by way of a file without a name; 0: it could not be made. */
static int embed_as_jpeg(FILE *out, const void *png, size_t size)
{
    stoke_decoder *decoder = NULL;
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image image;
    stk_mem_buffer bytes = { 0 };
    FILE *file = NULL;
    int done = 0;
    params.max_pixels = PIXELS;
    if (!stoke_decoder_create(&decoder, NULL) &&
        !stoke_decoder_decode(decoder, png, size, &params, &image, NULL) && (file = tmpfile()) &&
        !stk_jpeg_write(file, "picture", &image, QUALITY, 0, NULL)) {
        const long length = ftell(file);
        rewind(file);
        done = length > 0 && stk_buffer_reserve(&bytes, (size_t)length) &&
               fread(bytes.data, 1, (size_t)length, file) == (size_t)length;
        if (done) embed(out, "jpeg", bytes.data, (size_t)length);
    }
    if (file) fclose(file);
    stk_buffer_free(&bytes);
    stoke_decoder_destroy(&decoder);
    return done;
}

/* One picture with its caption. */
static void put_picture(const stk_run_page *page, const stk_json *eval, const char *which)
{
    const char *relative = stk_run_text(eval, "picture");
    char path[4096];
    stk_mem_buffer bytes = { 0 };
    size_t size = 0;
    if (!relative || !is_below(relative)) return;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", page->folder, relative) >= sizeof path) return;
    const int there = !stk_file_read(path, FILE_BYTES, &bytes, &size, NULL) && size > 8 &&
                      !memcmp(bytes.data, "\x89PNG\r\n\x1a\n", 8);
    stk_html_print(page->out, "<figure><figcaption>The %s evaluation: step %" PRIu64 ", ", which,
                   stk_run_uint(eval, "step"));
    if (page->curves->task == STOKE_TASK_RESTORE)
        stk_html_print(page->out, "PSNR %.2f dB</figcaption>\n", stk_run_real(eval, eval->values, "psnr"));
    else
        stk_html_print(page->out, "mIoU %.3f</figcaption>\n", stk_run_real(eval, eval->values, "miou"));
    if (there) {
        fprintf(page->out, "<img alt=\"Predictions of the %s evaluation\" src=\"", which);
        if (size <= SMALL || !embed_as_jpeg(page->out, bytes.data, size))
            embed(page->out, "png", bytes.data, size);
        fputs("\">", page->out);
    } else {
        stk_html_print(page->out, "<p class=\"note\">The picture is gone: %s</p>", relative);
    }
    fputs("</figure>\n", page->out);
    stk_buffer_free(&bytes);
}

void stk_run_pictures(const stk_run_page *page)
{
    const stk_run_log *log = page->log;
    const struct {
        const stk_json *eval;
        const char *name;
    } wanted[] = { { &log->best, "best" }, { &log->last, "last" }, { &log->first, "first" } };
    int any = 0;
    for (size_t i = 0; i < 3; i++) any |= stk_run_text(wanted[i].eval, "picture") != NULL;
    if (!any) return;
    fputs("<section><h2>Predictions</h2>\n<div class=\"figures\">\n", page->out);
    for (size_t i = 0; i < 3; i++) {
        char which[32];
        int shown = !wanted[i].eval->values;
        snprintf(which, sizeof which, "%s", wanted[i].name);
        for (size_t k = 0; k < 3 && !shown; k++) {
            if (k == i || !wanted[k].eval->values ||
                stk_run_uint(wanted[k].eval, "step") != stk_run_uint(wanted[i].eval, "step"))
                continue;
            shown = k < i; /* the same evaluation has two names: one picture with both */
            const size_t used = strlen(which);
            snprintf(which + used, sizeof which - used, " and %s", wanted[k].name);
        }
        if (!shown) put_picture(page, wanted[i].eval, which);
    }
    fputs("</div></section>\n", page->out);
}

/* ---- curves ---- */

const char *const stk_curve_files[STK_CURVES + 2] = { "loss.svg", "miou.svg", "lr.svg", "speed.svg",
                                                      "psnr.svg" };

const char *stk_curve_file(int which, int task)
{
    return stk_curve_files[which == STK_CURVE_SCORES && task == STOKE_TASK_RESTORE ? STK_CURVES : which];
}

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

int stk_curves_make(stk_run_curves *c, const stk_run_log *log, stoke_error *err)
{
    *c = (stk_run_curves){
        .task = stk_run_task(log), .steps = log->n_steps, .evals = log->n_evals, .best_step = NAN
    };
    const size_t n = log->n_steps, m = log->n_evals;
    double *p = c->block = stk_calloc(n * STEP_ARRAYS + m * EVAL_ARRAYS + 1, sizeof *p);
    if (!p) return stk_fail(err, STOKE_E_NOMEM, "no memory for the curves of a run");
    double **const by_step[STEP_ARRAYS] = { &c->step, &c->loss, &c->smooth, &c->lr, &c->speed, &c->wait };
    for (size_t i = 0; i < STEP_ARRAYS; i++, p += n) *by_step[i] = p;
    c->eval_step = p;
    c->eval_loss = p + m;
    for (size_t i = 0; i < STOKE_SCORES; i++) c->score[i] = p + (2 + i) * m;
    for (size_t i = 0; i < n; i++) {
        const stk_log_step_note *s = &log->steps[i];
        const int timed = s->seconds > 0;
        c->step[i] = (double)s->step;
        c->loss[i] = s->loss;
        c->lr[i] = s->lr;
        c->speed[i] = timed ? (double)s->images / s->seconds : NAN;
        c->wait[i] = timed ? 100 * s->data_seconds / s->seconds : NAN;
    }
    smoothen(c->loss, c->smooth, n);
    for (size_t i = 0; i < m; i++) {
        const stk_run_eval *e = &log->evals[i];
        c->eval_step[i] = (double)e->step;
        c->eval_loss[i] = e->loss;
        for (int k = 0; k < STOKE_SCORES; k++) c->score[k][i] = e->score[k];
    }
    if (!log->best.values) return STOKE_OK;
    char number[32];
    c->best_step = (double)stk_run_uint(&log->best, "step");
    if (c->task == STOKE_TASK_RESTORE) {
        stk_text_fixed(stk_run_real(&log->best, log->best.values, "psnr"), 2, number, sizeof number);
        snprintf(c->best_text, sizeof c->best_text, "best: PSNR %s dB", number);
    } else {
        stk_text_fixed(stk_run_real(&log->best, log->best.values, "miou"), 3, number, sizeof number);
        snprintf(c->best_text, sizeof c->best_text, "best: mIoU %s", number);
    }
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

/* The loss of few steps as it is; of many smoothed, with what was logged behind it. */
static size_t loss_series(const stk_run_curves *c, stoke_series series[3])
{
    size_t n = 0;
    if (c->steps >= ROUGH) {
        series[n] = along_steps(c, NULL, c->loss);
        series[n++].faint = 1;
        series[n++] = along_steps(c, "training (smoothed; as logged behind it)", c->smooth);
    } else {
        series[n++] = along_steps(c, "training", c->loss);
    }
    if (c->evals) series[n++] = along_evals(c, "validation", c->eval_loss);
    return n;
}

/* Two quantities with different units: two frames, one above the other. */
static int write_two(const stoke_chart chart[2], FILE *out, stoke_error *err)
{
    const uint32_t whole = chart[0].height + chart[1].height;
    fprintf(out,
            "<!-- " STOKE_OUTPUT_MARK " -->\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" width=\"%u\" height=\"%u\">\n",
            (unsigned)chart[0].width, (unsigned)whole, (unsigned)chart[0].width, (unsigned)whole);
    int r = stoke_chart_svg(&chart[0], out, err);
    fprintf(out, "<g transform=\"translate(0 %u)\">\n", (unsigned)chart[0].height);
    if (!r) r = stoke_chart_svg(&chart[1], out, err);
    fputs("</g>\n</svg>\n", out);
    return r;
}

/* One half of two frames. */
static stoke_chart half_of(stoke_chart chart, const char *title, const char *y_label, const stoke_series *y)
{
    chart.height /= 2;
    chart.title = title;
    chart.y_label = y_label;
    chart.series = y;
    chart.n_series = 1;
    return chart;
}

static int write_speed(const stk_run_curves *c, stoke_chart chart, FILE *out, stoke_error *err)
{
    const stoke_series speed = along_steps(c, "images per second", c->speed),
                       wait = along_steps(c, "waiting for data", c->wait);
    chart.y_min = 0;
    return write_two((stoke_chart[]){ half_of(chart, "Speed", "images/s", &speed),
                                      half_of(chart, "Waiting for data", "% of a step's time", &wait) },
                     out, err);
}

/* PSNR has no end, SSIM ends at 1. */
static int write_restored(const stk_run_curves *c, stoke_chart chart, FILE *out, stoke_error *err)
{
    const stoke_series psnr = along_evals(c, "PSNR", c->score[STOKE_METRIC_PSNR]),
                       ssim = along_evals(c, "SSIM", c->score[STOKE_METRIC_SSIM]);
    stoke_chart two[] = { half_of(chart, "Validation PSNR", "dB", &psnr),
                          half_of(chart, "Validation SSIM", "score, up to 1", &ssim) };
    two[0].n_marks = !isnan(c->best_step);
    two[1].y_max = 1;
    return write_two(two, out, err);
}

int stk_curve_write(const stk_run_curves *c, int which, uint32_t width, FILE *out, stoke_error *err)
{
    stoke_series series[STOKE_SCORES + 3];
    const stoke_mark best = { c->best_step, c->best_text };
    stoke_chart chart = stoke_chart_defaults();
    chart.width = width;
    chart.x_label = "step";
    chart.series = series;
    chart.marks = &best;
    if (which == STK_CURVE_SPEED) return write_speed(c, chart, out, err);
    if (which == STK_CURVE_SCORES && c->task == STOKE_TASK_RESTORE) return write_restored(c, chart, out, err);
    if (which == STK_CURVE_LOSS) {
        chart.title = "Loss";
        chart.n_series = loss_series(c, series);
    } else if (which == STK_CURVE_SCORES) {
        chart.title = "Validation scores";
        chart.y_label = "score, 0 to 1";
        chart.y_min = 0;
        chart.y_max = 1;
        for (int i = 0; i < STOKE_SCORES; i++)
            if (stoke_score_at(i)->charted && stoke_metric_fits(i, c->task))
                series[chart.n_series++] = along_evals(c, stoke_score_at(i)->title, c->score[i]);
    } else {
        chart.title = "Learning rate";
        chart.y_min = 0;
        series[chart.n_series++] = along_steps(c, "learning rate", c->lr);
    }
    chart.n_marks = which != STK_CURVE_LR && !isnan(c->best_step);
    return stoke_chart_svg(&chart, out, err);
}

/* ---- the report ---- */

enum { PATH = 4096 };

static int make_path(char path[PATH], const char *folder, const char *name, stoke_error *err)
{
    if ((size_t)snprintf(path, PATH, "%s/%s", folder, name) < PATH) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID, "%.200s...: the name of the folder is too long", folder);
}

static int read_log(stk_run_log *log, const char *folder, stoke_error *err)
{
    char path[PATH];
    int r = make_path(path, folder, "log.jsonl", err);
    if (!r) r = stk_run_log_read(log, path, err);
    if (r == STOKE_E_NOTFOUND && !stoke_there(folder)) return stoke_run_missing(folder, err);
    if (r == STOKE_E_NOTFOUND)
        return stk_fail(err, r, "%s: no log.jsonl there: name the folder of a run, e.g. runs/NAME", folder);
    if (!r && log->lines == log->damaged)
        return stk_fail(err, STOKE_E_FORMAT, "%s: no line of it is one of a run's log%s", path,
                        log->lines ? "" : " (it is empty)");
    return r;
}

/* The curves, then the page. */
static int file_path(char path[PATH], const char *folder, int file, int task, stoke_error *err)
{
    char name[64] = "report.html";
    if (file < STK_CURVES) snprintf(name, sizeof name, "curves/%s", stk_curve_file(file, task));
    return make_path(path, folder, name, err);
}

/* All files before the first is written: one that somebody else wrote, or changed, stays. */
static int check_files(const char *folder, int task, int force, stoke_error *err)
{
    int r = STOKE_OK;
    for (int i = 0; i <= STK_CURVES && !r; i++) {
        char path[PATH];
        int replaces;
        r = file_path(path, folder, (i + STK_CURVES) % (STK_CURVES + 1), task, err); /* the page first */
        if (!r) r = stoke_output_check(path, force, &replaces, err);
        if (r == STOKE_E_STATE)
            return stk_fail(err, r,
                            "%s: was not drawn here, and is left as it is: move it away, or replace it: "
                            "stoke report %s --force",
                            path, STOKE_WORD(folder));
    }
    return r;
}

static int write_files(stk_run_page *page, stoke_error *err)
{
    char path[PATH];
    int r = make_path(path, page->folder, "curves", err);
    if (!r) r = stoke_make_folders(path, err);
    for (int i = 0; i <= STK_CURVES && !r; i++) {
        stoke_output file = { 0 };
        r = file_path(path, page->folder, i, page->curves->task, err);
        if (!r) r = stoke_output_open(&file, path, err);
        page->out = file.stream;
        if (!r)
            r = i < STK_CURVES
                    ? stk_curve_write(page->curves, i, stoke_chart_defaults().width, page->out, err)
                    : stk_run_page_write(page, err);
        if (!r) r = stoke_output_commit(&file, err);
        stoke_output_drop(&file);
    }
    return r;
}

int stoke_run_report(const char *folder, int force, stoke_error *err)
{
    stk_run_log log = { 0 };
    stk_run_curves curves = { 0 };
    char name[PATH];
    /* Its last part, without slashes behind it. */
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/') end--;
    size_t start = end;
    while (start && folder[start - 1] != '/') start--;
    if (start == end) start = 0; /* the root */
    snprintf(name, sizeof name, "%.*s", (int)(end - start), folder + start);
    if (!*folder) return stk_fail(err, STOKE_E_INVALID, "the name of the run's folder is empty");
    int r = read_log(&log, folder, err);
    if (!r) r = stk_curves_make(&curves, &log, err);
    if (!r) r = check_files(folder, curves.task, force, err);
    stk_run_page page = { .folder = folder, .name = name, .log = &log, .curves = &curves };
    if (!r) r = write_files(&page, err);
    stk_curves_free(&curves);
    stk_run_log_free(&log);
    return r;
}
