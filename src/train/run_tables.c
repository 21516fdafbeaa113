/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of report.html: where time went, scores per class, confusion, worst pictures.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "src/base/mem.h"
#include "src/report/chart.h"
#include "src/train/run_report.h"
#include <stoke/tools/report.h>
#include <stoke/tools/metrics.h>

enum {
    MOST_ROWS = 512, /* classes in the table; more make a page nobody reads */
    NUMBERED = 24,   /* classes up to which cells of the matrix have numbers */
    MATRIX = 64,     /* classes of a matrix in the log */
    WORST_SHOWN = 16
};

const stk_json *stk_run_shown(const stk_run_log *log)
{
    return log->best.values ? &log->best : log->last.values ? &log->last : NULL;
}

/* ---- small things ---- */

static const stk_json_value *member(const stk_json *json, const char *key)
{
    return json && json->values ? stk_json_find(json, json->values, key) : NULL;
}

/* Name of a class: the log's, or its number. Returns `text` or the log's own. */
static const char *run_class(const stk_run_log *log, uint32_t id, char text[32])
{
    const stk_json_value *name = stk_json_first(&log->start, member(&log->start, "names"));
    for (uint32_t i = 0; name && i < id; i++) name = stk_json_next(&log->start, name);
    if (name && name->kind == STK_JSON_STRING && *stk_json_text(&log->start, name))
        return stk_json_text(&log->start, name);
    snprintf(text, 32, "class %" PRIu32, id);
    return text;
}

/* ---- time ---- */

void stk_run_table_time(const stk_run_page *page)
{
    const stk_run_log *log = page->log;
    FILE *out = page->out;
    const double booked = log->step_seconds + log->eval_seconds + log->save_seconds;
    const struct {
        const char *name, *color;
        double seconds;
    } parts[] = {
        { "training steps", "--s0", log->step_seconds - log->data_seconds },
        { "waiting for data", "--s1", log->data_seconds },
        { "evaluation", "--s2", log->eval_seconds },
        { "checkpoints", "--s3", log->save_seconds },
        { "opening, drawing, the rest", "--s5", log->t > booked ? log->t - booked : 0 },
    };
    const double all = log->t > booked ? log->t : booked;
    if (!(all > 0)) return;
    fputs("<section><h2>Where time went</h2>\n<div class=\"stack\">", out);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        stk_html_print(out, "<span style=\"width:%.2f%%;background:var(%s)\"></span>",
                       100 * parts[i].seconds / all, parts[i].color);
    fputs("</div>\n<table class=\"narrow\"><tbody>\n", out);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char text[32];
        stk_html_print(out,
                       "<tr><td><span class=\"swatch\" style=\"background:var(%s)\"></span>%s</td><td "
                       "class=\"n\">%s</td><td class=\"n\">%.1f %%</td></tr>\n",
                       parts[i].color, parts[i].name, stoke_text_seconds(parts[i].seconds, text, sizeof text),
                       100 * parts[i].seconds / all);
    }
    fputs("</tbody></table></section>\n", out);
}

/* ---- classes ---- */

/* Walks an array of numbers; NaN where it has null, or ends. */
typedef struct walk {
    const stk_json *json;
    const stk_json_value *at;
} walk;

static walk walk_along(const stk_json *json, const char *key)
{
    return (walk){ json, json && json->values ? stk_json_first(json, member(json, key)) : NULL };
}

static double walk_on(walk *w)
{
    double value = NAN;
    if (!w->at) return value;
    stk_json_real(w->json, w->at, &value);
    w->at = stk_json_next(w->json, w->at);
    return value;
}

/* A score with its bar, or "n/a" without. */
static void put_score(FILE *out, double value, int barred)
{
    const int known = value >= 0 && value <= 1;
    stk_html_print(out, "<td class=\"n\">%.3f</td>", known ? value : NAN);
    if (barred)
        stk_html_print(out, "<td class=\"bar\"><span style=\"width:%.1f%%\"></span></td>",
                       known ? 100 * value : 0);
}

/* Pixels of the truth per class; NULL when the log has no matrix (or no memory for the sums). */
static double *truth_shares(const stk_json *json, uint32_t classes)
{
    const stk_json_value *row = stk_json_first(json, member(json, "confusion"));
    double *shares = row ? stk_calloc(classes, sizeof *shares) : NULL, all = 0;
    for (uint32_t i = 0; shares && row && i < classes; i++, row = stk_json_next(json, row)) {
        for (const stk_json_value *v = stk_json_first(json, row); v; v = stk_json_next(json, v)) {
            double count = 0;
            stk_json_real(json, v, &count);
            shares[i] += count;
        }
        all += shares[i];
    }
    for (uint32_t i = 0; shares && i < classes; i++) shares[i] = all > 0 ? shares[i] / all : NAN;
    return shares;
}

void stk_run_table_classes(const stk_run_page *page)
{
    const stk_json *shown = stk_run_shown(page->log), *last = &page->log->last;
    const stk_json_value *all = member(shown, "iou");
    FILE *out = page->out;
    if (!all || !all->count) return;
    const uint32_t classes = all->count;
    const int both = stk_run_uint(shown, "step") != stk_run_uint(last, "step");
    walk iou = walk_along(shown, "iou"), f1 = walk_along(shown, "f1"), now = walk_along(last, "iou");
    double *shares = truth_shares(shown, classes);
    fprintf(out,
            "<section><h2>Classes</h2>\n<table><thead><tr><th>class</th>%s<th class=\"n\">IoU%s</th><th></th>"
            "%s<th class=\"n\">F1%s</th></tr></thead><tbody>\n",
            shares ? "<th class=\"n\">share of pixels</th>" : "", both ? ", best" : "",
            both ? "<th class=\"n\">IoU, last</th><th></th>" : "", both ? ", best" : "");
    for (uint32_t i = 0; i < classes && i < MOST_ROWS; i++) {
        char text[32];
        uint8_t rgb[3];
        stoke_class_color(i, rgb);
        fprintf(out, "<tr><td><span class=\"swatch\" style=\"background:#%02x%02x%02x\"></span>", rgb[0],
                rgb[1], rgb[2]);
        stk_html_print(out, "%s</td>", run_class(page->log, i, text));
        if (shares) stk_html_print(out, "<td class=\"n\">%.1f %%</td>", 100 * shares[i]);
        put_score(out, walk_on(&iou), 1);
        if (both) put_score(out, walk_on(&now), 1);
        put_score(out, walk_on(&f1), 0);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
    if (classes > MOST_ROWS)
        fprintf(out, "<p class=\"note\">The first %d of %" PRIu32 " classes; metrics.csv has them all.</p>\n",
                MOST_ROWS, classes);
    stk_html_print(out, "<p class=\"note\">%s</p></section>\n", stoke_scores_convention());
    stk_free(shares);
}

/* ---- confusion ---- */

/* The matrix as size * size counts, NULL when it is not square or too large. */
static double *matrix_of(const stk_json *json, uint32_t *size)
{
    const stk_json_value *matrix = member(json, "confusion"), *row;
    if (!matrix || matrix->kind != STK_JSON_ARRAY || !matrix->count || matrix->count > MATRIX) return NULL;
    *size = matrix->count;
    double *counts = stk_calloc((size_t)*size * *size, sizeof *counts), *p = counts;
    for (row = stk_json_first(json, matrix); counts && row; row = stk_json_next(json, row)) {
        if (row->kind != STK_JSON_ARRAY || row->count != *size) {
            stk_free(counts);
            return NULL;
        }
        for (const stk_json_value *v = stk_json_first(json, row); v; v = stk_json_next(json, v), p++)
            if (!stk_json_real(json, v, p) || *p < 0 || *p > 1e18) *p = 0;
    }
    return counts;
}

static void put_matrix_row(const stk_run_page *page, const double *counts, uint32_t size, uint32_t truth)
{
    FILE *out = page->out;
    char text[32], name[32];
    double sum = 0;
    for (uint32_t i = 0; i < size; i++) sum += counts[i];
    stk_html_print(out, "<tr><th scope=\"row\">%s</th>", run_class(page->log, truth, text));
    for (uint32_t i = 0; i < size; i++) {
        const double share = sum > 0 ? counts[i] / sum : NAN, percent = floor(100 * share + 0.5);
        /* The square root lifts small mistakes to where they can be seen. */
        fputs("<td", out);
        if (isnan(share)) {
            fputs(" class=\"none\"", out);
        } else if (share > 0.0005) {
            fputs(share > 0.3 ? " class=\"deep\"" : "", out);
            stk_html_print(out, " style=\"--v:%.2f\" title=\"%s taken for %s: %.1f %%\"", sqrt(share),
                           run_class(page->log, truth, text), run_class(page->log, i, name), 100 * share);
        }
        fputc('>', out);
        if (size <= NUMBERED && percent >= 1) stk_html_print(out, "%.0f", percent);
        fputs("</td>", out);
    }
    fputs("</tr>\n", out);
}

void stk_run_table_confusion(const stk_run_page *page)
{
    const stk_json *shown = stk_run_shown(page->log);
    FILE *out = page->out;
    uint32_t size = 0;
    double *counts = shown ? matrix_of(shown, &size) : NULL;
    if (!counts) return;
    fputs("<section><h2>Confusion</h2>\n<p class=\"note\">Rows are the truth, columns the prediction. Each "
          "row adds up to "
          "100 %: where the pixels of a class went.</p>\n<div class=\"scroll\"><table class=\"matrix",
          out);
    fputs(size > NUMBERED ? " small\"><thead><tr><td></td>" : "\"><thead><tr><td></td>", out);
    for (uint32_t i = 0; i < size; i++) {
        char text[32];
        stk_html_print(out, "<th scope=\"col\"><span>%s</span></th>", run_class(page->log, i, text));
    }
    fputs("</tr></thead><tbody>\n", out);
    for (uint32_t i = 0; i < size; i++) put_matrix_row(page, counts + (size_t)i * size, size, i);
    fputs("</tbody></table></div></section>\n", out);
    stk_free(counts);
}

/* ---- worst pictures ---- */

void stk_run_table_worst(const stk_run_page *page)
{
    const stk_json *json = stk_run_shown(page->log);
    const stk_json_value *at = stk_json_first(json, member(json, "worst"));
    FILE *out = page->out;
    if (!json || !at) return;
    fputs("<section><h2>Worst images</h2>\n<p class=\"note\">Of the validation set, each image by itself: "
          "the first place "
          "to look for wrong masks.</p>\n<table class=\"narrow\"><thead><tr><th>image</th><th "
          "class=\"n\">mIoU</th>"
          "<th></th><th class=\"n\">pixel accuracy</th></tr></thead><tbody>\n",
          out);
    for (int n = 0; at && n < WORST_SHOWN; n++, at = stk_json_next(json, at)) {
        const char *name = stk_json_text(json, stk_json_find(json, at, "name"));
        stk_html_print(out, "<tr><td class=\"file\">%s</td>", name ? name : "n/a");
        put_score(out, stk_run_real(json, at, "miou"), 1);
        put_score(out, stk_run_real(json, at, "accuracy"), 0);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></section>\n", out);
}
