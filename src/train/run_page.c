/* SPDX-License-Identifier: Apache-2.0
 *
 * report.html: one file that needs nothing else. No script, no address outside; it follows light and dark
 * mode and prints.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/net/network.h"
#include "src/report/chart.h"
#include "src/train/run_report.h"
#include <stoke/tools/report.h>
#include <stoke/tools/metrics.h>
#include <stoke/tools/terminal.h>

/* The variables of colours are those of the charts (chart_svg.c), so that a part of the time has the colour
 * of its curve. */
static const char style[] =
    ":root{color-scheme:light dark;--back:#f4f5f8;--paper:#fff;--ink:#1c202a;--faded:#5f6675;--rule:#e3e6ec;"
    "--deep:8,80,160;--s0:#0b6bcb;--s1:#d1495b;--s2:#00876c;--s3:#c77700;--s5:#9aa3b2}\n"
    "@media (prefers-color-scheme:dark){:root{--back:#0f1116;--paper:#171a21;--ink:#e8eaf0;--faded:#9aa2b1;"
    "--rule:#2a2f3a;--deep:64,140,235;--s0:#5aa9ff;--s1:#ff7b8b;--s2:#3ecfa8;--s3:#ffb347;--s5:#6b7485}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\n"
    "main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}h1{font-size:28px;margin:0 0 4px;"
    "overflow-wrap:anywhere}h2{font-size:18px;margin:0 0 12px}.sub,.note{color:var(--faded);margin:0 0 12px}"
    ".note{font-size:13px}table+.note{margin:12px 0 0}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:20px 0}"
    ".card{background:var(--paper);border-radius:10px;padding:14px 16px}.card "
    "b{display:block;font-size:22px;white-space:nowrap;"
    "line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums}.card span{color:var(--faded);"
    "font-size:13px}\n"
    "section{background:var(--paper);border-radius:10px;padding:18px 20px;margin:16px 0}"
    ".curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));gap:16px;margin:"
    "16px 0}"
    ".curves>svg{width:100%;height:auto;background:var(--paper);border-radius:10px}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px}table.narrow{width:auto;min-width:50%}"
    "th{text-align:left;font-weight:600;color:var(--faded);font-size:13px}td,th{padding:4px 12px 4px 0;"
    "border-bottom:1px solid "
    "var(--rule)}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".file{overflow-wrap:anywhere}.bar{width:26%;min-width:70px}.bar span{display:block;height:10px;"
    "border-radius:3px;background:var(--s0)}.narrow .bar{width:120px}\n"
    ".swatch{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:8px;"
    "border:1px solid rgba(128,128,128,.5);vertical-align:-1px}"
    ".stack{display:flex;height:22px;border-radius:6px;overflow:hidden;margin:0 0 12px}.stack "
    "span{min-width:1px}\n"
    ".scroll{overflow-x:auto}.matrix{width:auto;font-size:13px;border-spacing:1px;border-collapse:separate}"
    ".matrix "
    "td{border:0;padding:0;width:38px;height:30px;text-align:center;font-variant-numeric:tabular-nums;"
    "background:rgba(var(--deep),var(--v,0));border-radius:2px}.matrix thead td,.matrix "
    ".none{background:none}"
    ".matrix .none{background:var(--rule)}.matrix .deep{color:#fff}.matrix th{border:0;padding:0 8px 0 0;"
    "text-align:right;white-space:nowrap;max-width:180px;overflow:hidden;text-overflow:ellipsis}"
    ".matrix thead th{vertical-align:bottom;padding:0 0 6px;text-align:center}.matrix thead span{"
    "writing-mode:vertical-rl;transform:rotate(180deg);max-height:150px;overflow:hidden}"
    ".matrix.small td{width:14px;min-width:14px;height:14px}.matrix.small{font-size:10px;line-height:13px}\n"
    ".figures{display:grid;grid-template-columns:1fr 1fr;gap:16px}.figures "
    "figure:first-child{grid-column:1/3}"
    "figure{margin:0}figcaption{margin:0 0 6px;font-weight:600}img{max-width:100%;height:auto;"
    "border-radius:6px;display:block}ul{margin:0;padding-left:20px}li{margin:2px 0}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:3px 18px;margin:0}dt{color:var(--faded)}"
    "dd{margin:0;overflow-wrap:anywhere}"
    "pre{margin:14px 0 0;font:12.5px/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans "
    "Mono',monospace;"
    "column-width:330px;column-gap:24px;white-space:pre-wrap;overflow-wrap:anywhere}"
    "footer{color:var(--faded);font-size:13px;margin-top:20px}\n"
    "@media print{:root{--back:#fff;--paper:#fff;--ink:#000;--faded:#444;--rule:#ccc;--deep:8,80,160;"
    "--s0:#0b6bcb;--s1:#d1495b;--s2:#00876c;--s3:#c77700;--s5:#9aa3b2;color-scheme:light}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}main{max-width:none;padding:0}"
    "section,.card{border:1px solid var(--rule)}section,figure,.curves>svg,tr{break-inside:avoid}"
    ".curves{grid-template-columns:1fr 1fr}}\n";

enum { CURVE_WIDTH = 540 }; /* two side by side, letters at their size */

enum {
    MOST_ROWS = 512, /* classes in the table; more make a page nobody reads */
    NUMBERED = 24,   /* classes up to which cells of the matrix have numbers */
    WORST_SHOWN = 16
};

/* The evaluation that is shown in full: the best one, or the last when none is marked. NULL: none at all. */
static const stk_json *shown_of(const stk_run_log *log)
{
    return log->best.values ? &log->best : log->last.values ? &log->last : NULL;
}

/* ---- small things ---- */

static void put_card(FILE *out, const char *value, const char *label)
{
    stk_html_print(out, "<div class=\"card\"><b>%s</b><span>%s</span></div>\n", value, label);
}

/* Settings stand in backquotes. One without a partner is only a character. */
static void put_sentence(FILE *out, const char *text)
{
    for (const char *open; (open = strchr(text, '`')) && strchr(open + 1, '`');) {
        const char *close = strchr(open + 1, '`');
        stk_html_bytes(out, text, (size_t)(open - text));
        fputs("<code>", out);
        stk_html_bytes(out, open + 1, (size_t)(close - open - 1));
        fputs("</code>", out);
        text = close + 1;
    }
    stk_html_text(out, text);
}

/* ---- head ---- */

static int is_done(const stk_run_log *log)
{
    return log->why[0] != 0;
}

static void put_status(const stk_run_page *page)
{
    const stk_run_log *log = page->log;
    const uint64_t steps = stk_run_uint(&log->start, "steps");
    fprintf(page->out, "<p class=\"sub\">%s step %" PRIu64, is_done(log) ? "Ended at" : "Not ended: at",
            log->step);
    if (steps) fprintf(page->out, " of %" PRIu64, steps);
    if (is_done(log)) {
        fputs(": ", page->out);
        put_sentence(page->out, log->why);
    } else {
        fputs(" when this page was made. Either it is still going, or it was stopped from outside and "
              "<code>stoke train --resume</code> goes on with it",
              page->out);
    }
    if (log->sessions > 1) fprintf(page->out, " (session %" PRIu64 ")", log->sessions);
    fputs(".</p>\n", page->out);
}

/* Of a log that may come from anywhere. */
static const char *family_of(const char *model)
{
    stk_network_config config;
    return model && !stk_network_find(&config, model, 1, NULL) ? config.network->family : "model";
}

static void put_head(const stk_run_page *page)
{
    const stk_json *start = &page->log->start;
    const char *model = stk_run_text(start, "model"), *data = stk_run_text(start, "data");
    FILE *out = page->out;
    stk_html_begin(out, page->name, ": report of a training", style);
    stk_html_print(out, "<header><h1>%s</h1>\n", page->name);
    if (model && page->curves->task == STOKE_TASK_RESTORE)
        stk_html_print(out, "<p class=\"sub\">%s %s%s%s: %s to train, %" PRIu64 " to validate</p>\n",
                       family_of(model), model, data ? " on " : "", data ? data : "",
                       STOKE_COUNT(stk_run_uint(start, "train_samples"), "image"),
                       stk_run_uint(start, "val_samples"));
    else if (model)
        stk_html_print(out, "<p class=\"sub\">%s %s%s%s: %s, %s to train, %" PRIu64 " to validate</p>\n",
                       family_of(model), model, data ? " on " : "", data ? data : "",
                       STOKE_COUNT(stk_run_uint(start, "classes"), "class"),
                       STOKE_COUNT(stk_run_uint(start, "train_samples"), "image"),
                       stk_run_uint(start, "val_samples"));
    put_status(page);
    fputs("</header>\n", out);
}

/* ---- headline numbers ---- */

/* The first card: the score that tells most, and whose step it is. */
static void put_first_card(const stk_run_page *page, const stk_json *shown, const char *value, int first)
{
    const char *metric = stk_run_text(&page->log->start, "metric"), *title = stoke_score_at(first)->title;
    char label[96];
    if (metric && page->log->best.values && strcmp(metric, stoke_score_at(first)->name) != 0)
        snprintf(label, sizeof label, "%s at step %" PRIu64 ", the best by %.24s", title,
                 stk_run_uint(shown, "step"), metric);
    else
        snprintf(label, sizeof label, "%s %s, at step %" PRIu64, page->log->best.values ? "best" : "last",
                 title, stk_run_uint(shown, "step"));
    put_card(page->out, value, label);
}

static void put_restored_cards(const stk_run_page *page)
{
    const stk_json *shown = shown_of(page->log);
    char value[32];
    if (!shown) return;
    const double psnr = stk_run_real(shown, shown->values, "psnr");
    stk_text_fixed(psnr, 2, value, sizeof value);
    if (isfinite(psnr)) strcat(value, " dB");
    put_first_card(page, shown, value, STOKE_METRIC_PSNR);
    stk_text_fixed(stk_run_real(shown, shown->values, "ssim"), 4, value, sizeof value);
    put_card(page->out, value, "SSIM there");
    const double before = stk_run_real(shown, shown->values, "input_psnr");
    if (isfinite(before)) {
        char label[96];
        snprintf(value, sizeof value, "%+.2f dB", psnr - before);
        snprintf(label, sizeof label, "over the pictures as they came, %.2f dB", before);
        put_card(page->out, value, label);
    }
}

static void put_score_cards(const stk_run_page *page)
{
    const stk_json *shown = shown_of(page->log);
    char value[32];
    if (!shown) return;
    stk_text_fixed(stk_run_real(shown, shown->values, "miou"), 3, value, sizeof value);
    put_first_card(page, shown, value, STOKE_METRIC_MIOU);
    stk_text_fixed(stk_run_real(shown, shown->values, "f1_macro"), 3, value, sizeof value);
    put_card(page->out, value, "F1 (macro) there");
    const double accuracy = 100 * stk_run_real(shown, shown->values, "pixel_accuracy");
    stk_text_fixed(accuracy, 1, value, sizeof value);
    if (isfinite(accuracy)) strcat(value, " %");
    put_card(page->out, value, "of the pixels right");
}

static void put_cards(const stk_run_page *page)
{
    const stk_run_log *log = page->log;
    char value[48];
    fputs("<div class=\"cards\">\n", page->out);
    if (page->curves->task == STOKE_TASK_RESTORE)
        put_restored_cards(page);
    else
        put_score_cards(page);
    if (!log->n_evals && log->n_steps) {
        stk_text_fixed(page->curves->smooth[log->n_steps - 1], 3, value, sizeof value);
        put_card(page->out, value, is_done(log) ? "training loss at the end" : "training loss so far");
    }
    put_card(page->out, stoke_text_seconds(log->t, value, sizeof value), "in all");
    if (log->step_seconds > 0) {
        stk_text_brief((double)log->images / log->step_seconds, value, sizeof value);
        put_card(page->out, value, "images per second, training");
        stk_text_fixed(100 * log->data_seconds / log->step_seconds, 1, value, sizeof value - 3);
        strcat(value, " %");
        put_card(page->out, value, "of it waiting for data");
    }
    fputs("</div>\n", page->out);
}

/* ---- remarks ---- */

/* What begins a sentence of the list; *any: one was written. */
static FILE *remark(const stk_run_page *page, int *any)
{
    fputs((*any)++ ? "</li>\n<li>" : "<section><h2>Remarks</h2>\n<ul><li>", page->out);
    return page->out;
}

static void put_remarks(const stk_run_page *page)
{
    const stk_run_log *log = page->log;
    int any = 0;
    size_t holes = 0;
    for (size_t i = 0; i < log->n_steps; i++) holes += !isfinite(log->steps[i].loss);
    if (!log->evaluations)
        fputs(stk_run_uint(&log->start, "val_samples")
                  ? "No evaluation yet: there are no scores, and no network is known to be the best."
                  : "The run has no validation images: nothing tells how good the network is on what it has "
                    "not seen. <code>--val-split 0.2</code> keeps a fifth of the images for that.",
              remark(page, &any));
    if (holes)
        fprintf(remark(page, &any),
                "The loss of %zu logged step%s was not a number. A lower learning rate "
                "(<code>stoke find-lr</code>) or <code>--clip-norm 1</code> helps as a rule.",
                holes, holes == 1 ? "" : "s");
    if (log->skipped)
        fprintf(remark(page, &any), "%" PRIu64 " step%s skipped because of gradients that were not finite.",
                log->skipped, log->skipped == 1 ? " was" : "s were");
    const stk_json *shown = shown_of(log);
    const stk_json_value *average = shown ? stk_json_find(shown, shown->values, "average") : NULL;
    if (average && average->kind == STK_JSON_TRUE)
        fputs(
            "Scores, and the network in <code>best/</code>, are those of the moving average of the weights.",
            remark(page, &any));
    if (log->step_seconds > 10 && log->data_seconds > 0.1 * log->step_seconds)
        stk_html_print(
            remark(page, &any),
            "%.0f %% of the time of steps was spent waiting for data: more <code>--workers</code>, "
            "a <code>--cache</code> or smaller files would make the run faster.",
            100 * log->data_seconds / log->step_seconds);
    if (log->damaged)
        fprintf(remark(page, &any),
                "%" PRIu64 " of %" PRIu64 " lines of log.jsonl are damaged and were passed over.",
                log->damaged, log->lines);
    for (size_t i = 0; i < log->n_remarks; i++) put_sentence(remark(page, &any), log->remarks[i]);
    if (any) fputs("</li></ul></section>\n", page->out);
}

/* ---- tables: where time went, scores per class, confusion, worst pictures ---- */

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

static void put_time(const stk_run_page *page)
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

/* ---- ranks ---- */

enum { RANKS_SHOWN = 64 };

/* Of several processes: where the time of each went, and who held up the others. */
static void put_ranks(const stk_run_page *page)
{
    const stoke_run_ranks *ranks = &page->log->ranks;
    FILE *out = page->out;
    if (!ranks->steps || !(ranks->seconds > 0)) return;
    stk_html_print(
        out,
        "<section><h2>Ranks</h2>\n<p class=\"sub\">%s.</p>\n<table><thead><tr><th>rank</th><th>host"
        "</th><th class=\"n\">compute</th><th class=\"n\">data</th><th class=\"n\">others</th><th "
        "class=\"n\">exchange</th><th class=\"n\">rest</th><th class=\"n\">last</th><th "
        "class=\"n\">cost</th><th class=\"n\">memory</th></tr></thead><tbody>\n",
        ranks->verdict);
    for (uint32_t q = 0; q < ranks->world && q < RANKS_SHOWN; q++) {
        const stoke_run_rank *r = &ranks->rank[q];
        const double shares[] = { r->compute, r->data,
                                  r->others,  r->exchange,
                                  r->rest,    ranks->seconds * (double)r->last / (double)ranks->steps,
                                  r->cost };
        stk_html_print(out, "<tr><td>%u</td><td class=\"file\">%s</td>", (unsigned)q, r->host);
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
            stk_html_print(out, "<td class=\"n\">%.1f %%</td>", 100 * shares[i] / ranks->seconds);
        stk_html_print(out, "<td class=\"n\">%s</td></tr>\n", STOKE_MEMORY((double)r->resident));
    }
    fputs("</tbody></table>\n<p class=\"note\">Shares of the time of the last session's steps, by each "
          "rank's own "
          "clock. others: waiting for them; last: steps in which it came last; cost: how much later than the "
          "second latest. <code>stoke diagnose RUN</code> says why.</p></section>\n",
          out);
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

/* The matrix as size * size counts, NULL when it is not square or too large. */
static double *matrix_of(const stk_json *json, uint32_t *size)
{
    const stk_json_value *matrix = member(json, "confusion"), *row;
    if (!matrix || matrix->kind != STK_JSON_ARRAY || !matrix->count || matrix->count > STK_LOG_MATRIX)
        return NULL;
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

static void put_classes(const stk_run_page *page)
{
    const stk_json *shown = shown_of(page->log), *last = &page->log->last;
    const stk_json_value *all = member(shown, "iou");
    FILE *out = page->out;
    if (!all || !all->count) return;
    const uint32_t classes = all->count;
    const int both = stk_run_uint(shown, "step") != stk_run_uint(last, "step");
    walk iou = walk_along(shown, "iou"), f1 = walk_along(shown, "f1"), now = walk_along(last, "iou");
    uint32_t size = 0;
    double *counts = matrix_of(shown, &size), all_pixels = 0;
    const int shares = counts && size == classes; /* of pixels of the truth */
    for (size_t i = 0; shares && i < (size_t)size * size; i++) all_pixels += counts[i];
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
        double pixels = 0;
        for (uint32_t k = 0; shares && k < size; k++) pixels += counts[(size_t)i * size + k];
        if (shares)
            stk_html_print(out, "<td class=\"n\">%.1f %%</td>",
                           all_pixels > 0 ? 100 * (pixels / all_pixels) : NAN);
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
    stk_free(counts);
}

/* ---- confusion ---- */

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

static void put_confusion(const stk_run_page *page)
{
    const stk_json *shown = shown_of(page->log);
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

static void put_worst(const stk_run_page *page)
{
    const stk_json *json = shown_of(page->log);
    const stk_json_value *at = stk_json_first(json, member(json, "worst"));
    const int restore = page->curves->task == STOKE_TASK_RESTORE;
    FILE *out = page->out;
    if (!json || !at) return;
    fprintf(out,
            "<section><h2>Worst images</h2>\n<p class=\"note\">Of the validation set, each image by itself: "
            "the first place "
            "to look for wrong %s.</p>\n<table "
            "class=\"narrow\"><thead><tr><th>image</th>%s</tr></thead><tbody>\n",
            restore ? "targets" : "masks",
            restore ? "<th class=\"n\">SSIM</th><th></th><th class=\"n\">PSNR</th>"
                    : "<th class=\"n\">mIoU</th><th></th><th class=\"n\">pixel accuracy</th>");
    for (int n = 0; at && n < WORST_SHOWN; n++, at = stk_json_next(json, at)) {
        const char *name = stk_json_text(json, stk_json_find(json, at, "name"));
        stk_html_print(out, "<tr><td class=\"file\">%s</td>", name ? name : "n/a");
        put_score(out, stk_run_real(json, at, restore ? "ssim" : "miou"), 1);
        if (restore)
            stk_html_print(out, "<td class=\"n\">%.2f dB</td>", stk_run_real(json, at, "psnr"));
        else
            put_score(out, stk_run_real(json, at, "accuracy"), 0);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></section>\n", out);
}

/* ---- settings ---- */

static void put_term(FILE *out, const char *term, const char *text)
{
    if (text && *text) stk_html_print(out, "<dt>%s</dt><dd>%s</dd>\n", term, text);
}

static void put_machine(const stk_run_page *page)
{
    const stk_json *start = &page->log->start;
    const stk_json_value *size = stk_json_find(start, start->values, "size");
    const char *cpu = stk_run_text(start, "cpu");
    FILE *out = page->out;
    double height = NAN, width = NAN;
    const double million = (double)stk_run_uint(start, "parameters") / 1e6;
    char parameters[32];
    if (!start->values) return;
    if (stk_json_real(start, stk_json_first(start, size), &height))
        stk_json_real(start, stk_json_next(start, stk_json_first(start, size)), &width);
    stk_html_print(out,
                   "<dl>\n<dt>network</dt><dd>%s %s, %s million parameters, %s</dd>\n"
                   "<dt>images</dt><dd>%.0f x %.0f pixels, batches of %" PRIu64 "%s</dd>\n"
                   "<dt>length</dt><dd>%s, %" PRIu64 " per epoch</dd>\n",
                   family_of(stk_run_text(start, "model")), stk_run_text(start, "model"),
                   stk_text_fixed(million,
                                  million < 0.01 ? 4
                                  : million < 1  ? 2
                                                 : 1,
                                  parameters, sizeof parameters),
                   stk_run_text(start, "precision"), height, width, stk_run_uint(start, "batch"),
                   stk_run_uint(start, "accumulate") > 1 ? ", several per step" : "",
                   STOKE_COUNT(stk_run_uint(start, "steps"), "step"), stk_run_uint(start, "steps_per_epoch"));
    put_term(out, "processor", stk_run_text(start, "machine"));
    stk_html_print(out, "<dt>of it</dt><dd>%s, %s</dd>\n",
                   STOKE_COUNT(stk_run_uint(start, "threads"), "thread"), cpu);
    put_term(out, "begun", stk_run_text(start, "time"));
    put_term(out, "stoke", stk_run_text(start, "version"));
    fputs("</dl>\n", out);
}

/* config.yaml without its comments: what was set, not what could be. */
static void put_settings_file(const stk_run_page *page)
{
    char path[4096];
    stk_mem_buffer bytes = { 0 };
    size_t size = 0;
    if ((size_t)snprintf(path, sizeof path, "%s/config.yaml", page->folder) >= sizeof path) return;
    if (stk_file_read(path, 1 << 20, &bytes, &size, NULL) == STOKE_OK) {
        const char *text = bytes.data, *end = text + size;
        fputs("<pre>", page->out);
        while (text < end) {
            char line[1024];
            const char *stop = memchr(text, '\n', (size_t)(end - text));
            const size_t length = (size_t)((stop ? stop : end) - text);
            snprintf(line, sizeof line, "%.*s", length < sizeof line ? (int)length : (int)sizeof line - 1,
                     text);
            if (line[strspn(line, " \t\r")] && line[strspn(line, " \t")] != '#')
                stk_html_print(page->out, "%s\n", line);
            text += length + 1;
        }
        fputs("</pre>\n", page->out);
    }
    stk_buffer_free(&bytes);
}

/* ---- all of it ---- */

int stk_run_page_write(const stk_run_page *page, stoke_error *err)
{
    FILE *out = page->out;
    int r = STOKE_OK;
    put_head(page);
    put_cards(page);
    put_remarks(page);
    fputs("<div class=\"curves\">\n", out);
    for (int i = 0; i < STK_CURVES && !r; i++)
        if (i != STK_CURVE_SCORES || page->curves->evals)
            r = stk_curve_write(page->curves, i, CURVE_WIDTH, out, err);
    fputs("</div>\n", out);
    if (r) return r;
    put_classes(page);
    put_confusion(page);
    stk_run_pictures(page);
    put_worst(page);
    put_time(page);
    put_ranks(page);
    fputs("<section><h2>Settings and machine</h2>\n", out);
    put_machine(page);
    put_settings_file(page);
    fputs("</section>\n<footer>Made by <code>stoke report</code> from log.jsonl; metrics.csv has the scores "
          "as a table, "
          "curves/ the charts as files.</footer>\n</main></body></html>\n",
          out);
    return STOKE_OK;
}
