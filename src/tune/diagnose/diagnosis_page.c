/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis as one page that needs nothing else: verdict, bars, timeline, tables. No script, no address
 * outside; it follows light and dark mode and prints.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/report/chart.h"
#include "src/tune/diagnose/diagnose.h"

/* Where the time of a step goes, as bars.
 *
 *   title
 *   verdict
 *   # computing  # decoding  # copying ...
 *   now, measured     ████████▒▒▒▒▒▒▒▒▒░░░░░░  351 ms   28 % busy
 *   workers=2         ████████▒▒▒▒▒▒           190 ms   52 %       predicted; the mark is what verify
 * measured all of them       █████████                102 ms   98 % 0        100       200  ms a step step by
 * step      ||||||||||||||||||||||| */

enum {
    WIDTH = 1200,
    MARGIN = 16,
    LEFT = 300,  /* names */
    RIGHT = 190, /* figures */
    ROW = 30,
    BAR = 20,
    LEGEND_LINE = 22,
    COLUMNS_HIGH = 170,
    COLUMNS_MOST = 240, /* steps side by side; of more, the mean of several */
    BELOW = 44,
};

/* Of all causes: input in blue, violet and their kin, copies in orange, the host in red, the rest in grey.
 * The stages look as in the timeline. */
static const char *const fills[STOKE_IDLES] = {
    [STOKE_IDLE_EPOCH_START] = "#00a3b5", [STOKE_IDLE_ORDER] = "#7da7d9",
    [STOKE_IDLE_CONTENTION] = "#e05aa8",  [STOKE_IDLE_FILES] = "#5f7186",
    [STOKE_IDLE_DECODE] = "var(--s0)",    [STOKE_IDLE_FIT] = "#4f9fe8",
    [STOKE_IDLE_AUGMENT] = "var(--s4)",   [STOKE_IDLE_COLLATE] = "#b59be0",
    [STOKE_IDLE_READ] = "var(--s5)",      [STOKE_IDLE_WINDOW] = "#9fb8c8",
    [STOKE_IDLE_PIN] = "#e6a860",         [STOKE_IDLE_HOST] = "var(--s1)",
    [STOKE_IDLE_COPY_QUEUE] = "#efc08a",  [STOKE_IDLE_COPY] = "var(--s3)",
    [STOKE_IDLE_LAUNCH] = "#a0a6b0",      [STOKE_IDLE_INSIDE] = "#c3c8d0",
    [STOKE_IDLE_UNKNOWN] = "#d8dbe0",
};
static const char computing[] = "var(--s2)";

typedef struct bars {
    FILE *out;
    const stk_diagnose_whole *d;
    const char *title;
    double most_ms; /* at the right end */
} bars;

/* ---- pieces ---- */

static double per_step_ms(const stoke_attribution *a, uint64_t ns)
{
    return (double)ns / (double)a->steps / 1e6;
}

static void put_piece(FILE *out, double x, double y, double width, double height, const char *fill,
                      const char *what, double ms, int pale)
{
    if (width < 0.05 || height < 0.05) return;
    stk_html_print(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" style=\"fill:%s\"", x, y,
                   width, height, fill);
    fputs(pale ? " opacity=\"0.55\"" : "", out);
    stk_html_print(out, "><title>%s: %.2f ms</title></rect>\n", what, ms);
}

static double wide(const bars *b, double ms)
{
    return ms / b->most_ms * (WIDTH - LEFT - RIGHT);
}

static void put_figures(const bars *b, double y, double ms, double busy)
{
    char text[64], figure[32];
    snprintf(text, sizeof text, "%s ms a step, %.0f %% busy",
             stk_text_fixed(ms, ms < 10 ? 2 : 1, figure, sizeof figure), 100 * busy);
    stk_svg_text(b->out, WIDTH - MARGIN, y + BAR - 5, "end", NULL, text);
}

/* ---- rows ---- */

static void put_measured(const bars *b, double y)
{
    const stoke_attribution *a = &b->d->out.attribution;
    double x = LEFT, ms = per_step_ms(a, a->busy_ns);
    stk_svg_text(b->out, LEFT - 10, y + BAR - 5, "end", "h", "now, measured");
    put_piece(b->out, x, y, wide(b, ms), BAR, computing, "computing", ms, 0);
    x += wide(b, ms);
    for (int k = 0; k < STOKE_IDLES; k++) {
        ms = per_step_ms(a, a->idle[k]);
        put_piece(b->out, x, y, wide(b, ms), BAR, fills[k], stoke_idle_name(k), ms, 0);
        x += wide(b, ms);
    }
    put_figures(b, y, per_step_ms(a, a->elapsed_ns), (double)a->busy_ns / (double)a->elapsed_ns);
}

/* measured_busy NaN: was not verified. */
static void put_forecast(const bars *b, double y, const char *name, const stoke_forecast *f,
                         double measured_busy)
{
    const double busy = f->busy * f->step_ms;
    const int known = f->limit >= 0 && f->limit < STOKE_IDLES;
    stk_svg_text(b->out, LEFT - 10, y + BAR - 5, "end", NULL, name);
    put_piece(b->out, LEFT, y, wide(b, busy), BAR, computing, "computing, predicted", busy, 1);
    put_piece(b->out, LEFT + wide(b, busy), y, wide(b, f->step_ms - busy), BAR,
              known ? fills[f->limit] : "var(--frame)",
              known ? stoke_idle_meaning(f->limit) : "waiting, predicted", f->step_ms - busy, 1);
    stk_svg_line(b->out, "x", LEFT + wide(b, f->low_ms), y + BAR / 2.0, LEFT + wide(b, f->high_ms),
                 y + BAR / 2.0);
    if (measured_busy > 0) {
        const double x = LEFT + wide(b, fmin(busy / measured_busy, b->most_ms));
        stk_svg_line(b->out, "k", x, y - 3, x, y + BAR + 3);
    }
    put_figures(b, y, f->step_ms, f->busy);
}

/* Every fix that applies in its order, then all of them. draw 0: only counts the rows and finds the longest.
 */
static int put_rows(bars *b, double y, int draw)
{
    const stoke_fixes *fixes = &b->d->out.fixes;
    const stoke_attribution *a = &b->d->out.attribution;
    int rows = 1;
    b->most_ms = draw ? b->most_ms : per_step_ms(a, a->elapsed_ns);
    if (draw) put_measured(b, y);
    for (int i = 0; i < STOKE_CAUSES; i++) {
        const stoke_fix *fix = &fixes->fix[i];
        if (!fix->applies) continue;
        if (draw)
            put_forecast(b, y + ROW * rows, fix->change, &fix->alone,
                         fix->measured.pairs ? fix->measured.busy : NAN);
        else
            b->most_ms = fmax(b->most_ms, fix->alone.step_ms);
        rows++;
    }
    if (rows == 1) return rows;
    if (draw)
        put_forecast(b, y + ROW * rows, "all of them", &fixes->together,
                     fixes->measured.pairs ? fixes->measured.busy : NAN);
    return rows + 1;
}

/* ---- step by step ---- */

/* Steps first .. last - 1 as one column: their mean. */
static void put_column(const bars *b, size_t first, size_t last, double x, double width, double top,
                       double scale)
{
    const stk_diagnose_run *run = &b->d->run;
    const double n = (double)(last - first), bottom = top + COLUMNS_HIGH;
    double busy = 0, y = bottom;
    for (size_t i = first; i < last; i++) busy += (double)run->records[run->from + i].busy_ns / 1e6;
    put_piece(b->out, x, y - busy / n * scale, width, busy / n * scale, computing, "computing", busy / n, 0);
    y -= busy / n * scale;
    for (int k = 0; k < STOKE_IDLES; k++) {
        double ms = 0;
        for (size_t i = first; i < last; i++) ms += (double)b->d->per_step[i][k] / 1e6;
        y -= ms / n * scale;
        put_piece(b->out, x, y, width, ms / n * scale, fills[k], stoke_idle_name(k), ms / n, 0);
    }
}

static double longest_step(const stk_diagnose_whole *d, size_t each)
{
    const size_t n = (size_t)d->out.attribution.steps;
    double most = 0;
    for (size_t first = 0; first < n; first += each) {
        const size_t last = first + each < n ? first + each : n;
        double ms = 0;
        for (size_t i = first; i < last; i++) {
            ms += (double)d->run.records[d->run.from + i].busy_ns / 1e6;
            for (int k = 0; k < STOKE_IDLES; k++) ms += (double)d->per_step[i][k] / 1e6;
        }
        most = fmax(most, ms / (double)(last - first));
    }
    return most > 0 ? most : 1;
}

static void put_columns(const bars *b, double top)
{
    const size_t n = (size_t)b->d->out.attribution.steps, each = (n + COLUMNS_MOST - 1) / COLUMNS_MOST;
    const size_t columns = (n + each - 1) / each;
    const double most = longest_step(b->d, each), width = (WIDTH - LEFT - RIGHT) / (double)columns;
    char text[96], figure[32];
    snprintf(text, sizeof text, each > 1 ? "%zu steps, %zu to a column" : "%zu steps, one by one", n, each);
    stk_svg_text(b->out, LEFT - 10, top + 14, "end", "h", "measured");
    stk_svg_text(b->out, LEFT - 10, top + 32, "end", "f", text);
    stk_svg_line(b->out, "g", LEFT, top, WIDTH - RIGHT, top);
    stk_svg_line(b->out, "x", LEFT, top + COLUMNS_HIGH, WIDTH - RIGHT, top + COLUMNS_HIGH);
    snprintf(text, sizeof text, "%s ms", stk_text_fixed(most, most < 10 ? 2 : 1, figure, sizeof figure));
    stk_svg_text(b->out, WIDTH - RIGHT + 8, top + 5, "start", "f", text);
    stk_svg_text(b->out, WIDTH - RIGHT + 8, top + COLUMNS_HIGH + 4, "start", "f", "0");
    for (size_t i = 0; i < columns; i++)
        put_column(b, i * each, (i + 1) * each < n ? (i + 1) * each : n, LEFT + width * (double)i,
                   width > 3 ? width - 1 : width, top, COLUMNS_HIGH / most);
}

/* ---- around them ---- */

/* Causes that took a thousandth of the time or limit a forecast. draw 0: only counts the lines. */
static int put_legend(const bars *b, double y, int draw)
{
    const stoke_attribution *a = &b->d->out.attribution;
    double x = MARGIN;
    int lines = 1;
    for (int k = -1; k < STOKE_IDLES; k++) {
        if (k >= 0 && a->idle[k] < a->elapsed_ns / 1000) continue;
        char text[96], figure[32];
        const uint64_t ns = k < 0 ? a->busy_ns : a->idle[k];
        snprintf(text, sizeof text, "%s %s ms", k < 0 ? "computing" : stoke_idle_name(k),
                 stk_text_fixed(per_step_ms(a, ns), per_step_ms(a, ns) < 10 ? 2 : 1, figure, sizeof figure));
        const double width = 20 + (double)stk_svg_letters(text) * STK_SVG_LETTER + 14;
        if (x > MARGIN && x + width > WIDTH - MARGIN) {
            x = MARGIN;
            lines++;
        }
        if (draw) {
            stk_html_print(b->out,
                           "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" style=\"fill:%s\"/>\n", x,
                           y + LEGEND_LINE * (lines - 1) - 10, k < 0 ? computing : fills[k]);
            stk_svg_text(b->out, x + 18, y + LEGEND_LINE * (lines - 1), "start", NULL, text);
        }
        x += width;
    }
    return lines;
}

/* alone: with the verdict, as a picture that nothing stands around. */
static void diagnosis_bars(const stk_diagnose_whole *d, FILE *out, const char *title, int alone)
{
    bars b = { .out = out, .d = d, .title = title && *title ? title : "where the time of a step goes" };
    stk_chart_axis axis;
    char verdict[512] = "", remark[256];
    if (alone) stoke_diagnosis_verdict(&d->out, verdict, sizeof verdict);
    const double legend = MARGIN + (alone ? 60 : 40), top = legend + LEGEND_LINE * put_legend(&b, 0, 0);
    const double bottom = top + ROW * put_rows(&b, 0, 0), columns = bottom + 44;
    if (!(b.most_ms > 0)) b.most_ms = 1;
    stk_svg_begin(out, WIDTH, (uint32_t)(columns + COLUMNS_HIGH + BELOW), b.title);
    fputs("<style>.stk-chart .h{font-weight:600}.stk-chart .k{stroke:var(--ink);stroke-width:2}</style>\n",
          out);
    stk_svg_text(out, MARGIN, MARGIN + 14, "start", "t", b.title);
    stk_svg_text(out, MARGIN, MARGIN + 34, "start", NULL, verdict);
    put_legend(&b, legend, 1);
    stk_axis_make(&axis, 0, b.most_ms, 0, 8);
    for (size_t i = 0; i < axis.count; i++) {
        const double x = LEFT + stk_chart_axis_at(&axis, axis.tick[i]) * (WIDTH - LEFT - RIGHT);
        stk_svg_line(out, "g", x, top - 4, x, bottom);
        stk_svg_text(out, x, bottom + 16, "middle", "f", axis.label[i]);
    }
    stk_svg_text(out, LEFT - 10, bottom + 16, "end", "f", "ms a step");
    put_rows(&b, top, 1);
    put_columns(&b, columns);
    snprintf(remark, sizeof remark, "pale: predicted, the thin line its 90 %% interval%s. %s",
             d->out.fixes.measured.pairs ? "; dark mark: measured in turns" : "",
             d->emulated ? "Times of the device are emulated: a model's, not measured." : "");
    stk_svg_text(out, MARGIN, columns + COLUMNS_HIGH + 32, "start", "f", remark);
    stk_svg_end(out);
}

int stoke_diagnosis_write_bars(const stoke_diagnosis *diagnosis, const char *path, const char *title,
                               stoke_error *err)
{
    stoke_output file;
    const int r = stoke_output_open(&file, path, err);
    if (r) return r;
    diagnosis_bars((const stk_diagnose_whole *)diagnosis, file.stream, title, 1);
    return stoke_output_commit(&file, err);
}

enum { TIMELINE_LIMIT = 64 << 20 };

static const char style[] =
    ":root{color-scheme:light "
    "dark;--back:#f4f5f8;--paper:#fff;--ink:#1c202a;--faded:#5f6675;--rule:#e3e6ec}\n"
    "@media (prefers-color-scheme:dark){:root{--back:#0f1116;--paper:#171a21;--ink:#e8eaf0;--faded:#9aa2b1;"
    "--rule:#2a2f3a}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\n"
    "main{max-width:1260px;margin:0 auto;padding:28px 20px 60px}h1{font-size:26px;margin:0 0 4px;"
    "overflow-wrap:anywhere}h2{font-size:18px;margin:0 0 12px}.verdict{font-size:19px;margin:0 0 8px}"
    ".note{color:var(--faded);font-size:13px;margin:12px 0 0}\n"
    "section{background:var(--paper);border-radius:10px;padding:18px 20px;margin:16px 0;overflow-x:auto}"
    "section>svg,section>img{width:100%;height:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px}"
    "th{text-align:left;font-weight:600;color:var(--faded);font-size:13px}"
    "td,th{padding:4px 14px 4px 0;border-bottom:1px solid var(--rule);vertical-align:top}"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.off td{color:var(--faded)}\n"
    "tfoot td{font-weight:600}\n";

typedef struct page {
    FILE *out;
    const stk_diagnose_whole *d;
    const char *source; /* of the device's times */
} page;

/* ---- cells ---- */

static void put_text(const page *p, const char *text)
{
    stk_html_print(p->out, "<td>%s</td>", text);
}

static void put_number(const page *p, double value, int decimals, const char *unit)
{
    char text[32];
    stk_text_fixed(value, decimals, text, sizeof text);
    fprintf(p->out, "<td class=\"n\">%s%s</td>", text, isfinite(value) ? unit : "");
}

static void put_range(const page *p, double value, double low, double high)
{
    if (isfinite(value))
        stk_html_print(p->out, "<td class=\"n\">%.2f [%.2f, %.2f]</td>", value, low, high);
    else
        fputs("<td class=\"n\">n/a</td>", p->out);
}

static void put_measured_gain(const page *p, const stoke_fix_measured *m, double predicted)
{
    put_range(p, m->pairs ? m->gain_ms : NAN, m->low, m->high);
    put_number(p, m->pairs ? predicted - m->gain_ms : NAN, 2, "");
}

/* ---- tables ---- */

static void put_causes(const page *p)
{
    const stoke_attribution *a = &p->d->out.attribution;
    const double per_step = 1e-6 / (double)a->steps, share = 100.0 / (double)a->elapsed_ns;
    fputs(
        "<section><h2>Every idle moment has one cause</h2>\n<table><thead><tr><th>cause</th><th "
        "class=\"n\">ms a step</th><th class=\"n\">of the time</th><th>meanwhile</th></tr></thead><tbody>\n",
        p->out);
    for (int k = 0; k < STOKE_IDLES; k++) {
        if (!a->idle[k]) continue;
        fputs("<tr>", p->out);
        put_text(p, stoke_idle_name(k));
        put_number(p, (double)a->idle[k] * per_step, 3, "");
        put_number(p, (double)a->idle[k] * share, 1, " %");
        put_text(p, stoke_idle_meaning(k));
        fputs("</tr>\n", p->out);
    }
    fputs("</tbody><tfoot><tr><td>all of it</td>", p->out);
    put_number(p, (double)a->idle_ns * per_step, 3, "");
    put_number(p, (double)a->idle_ns * share, 1, " %");
    fprintf(p->out,
            "<td>measured over %" PRIu64 " steps; the causes sum to %" PRIu64
            " ns, all that was idle</td></tr>"
            "</tfoot></table></section>\n",
            a->steps, a->idle_ns);
}

static void put_fix(const page *p, const stoke_fix *fix, int verified)
{
    fprintf(p->out, "<tr%s>", fix->applies ? "" : " class=\"off\"");
    put_text(p, stoke_cause_name(fix->cause));
    put_text(p, fix->what);
    if (!fix->applies) {
        for (int i = 0; i < (verified ? 5 : 3); i++) fputs("<td class=\"n\">-</td>", p->out);
        fputs("</tr>\n", p->out);
        return;
    }
    put_range(p, fix->gain_ms, fix->gain_low, fix->gain_high);
    put_number(p, fix->order ? fix->marginal_ms : 0, 2, "");
    put_number(p, 100 * fix->alone.busy, 1, " %");
    if (verified) put_measured_gain(p, &fix->measured, fix->gain_ms);
    fputs("</tr>\n", p->out);
}

static void put_fixes(const page *p)
{
    const stoke_fixes *f = &p->d->out.fixes;
    const int verified = f->measured.pairs > 0;
    double alone = 0;
    fputs("<section><h2>What each change would give</h2>\n<table><thead><tr><th>cause</th><th>change</th>"
          "<th class=\"n\">alone, ms a step [90 %]</th><th class=\"n\">in sequence</th><th class=\"n\">busy "
          "then</th>",
          p->out);
    if (verified) fputs("<th class=\"n\">measured [90 %]</th><th class=\"n\">error</th>", p->out);
    fputs("</tr></thead><tbody>\n", p->out);
    for (int i = 0; i < STOKE_CAUSES; i++) {
        put_fix(p, &f->fix[i], verified);
        if (f->fix[i].applies) alone += fmax(0, f->fix[i].gain_ms);
    }
    fputs("</tbody><tfoot><tr><td>all of them</td><td></td>", p->out);
    put_number(p, f->gain_all_ms, 2, "");
    put_number(p, f->gain_all_ms, 2, "");
    put_number(p, 100 * f->together.busy, 1, " %");
    if (verified) put_measured_gain(p, &f->measured, f->gain_all_ms);
    fputs("</tr></tfoot></table>\n", p->out);
    stk_html_print(p->out,
                   "<p class=\"note\">Predicted from measured costs. They do not add: alone they sum to %.1f "
                   "ms, together they give %.1f ms.</p></section>\n",
                   alone, f->gain_all_ms);
}

static void put_cost(const page *p, const char *what, double value, int decimals, const char *unit,
                     const char *source)
{
    fputs("<tr>", p->out);
    put_text(p, what);
    put_number(p, value, decimals, unit);
    put_text(p, isfinite(value) ? source : "n/a");
    fputs("</tr>\n", p->out);
}

static void put_costs(const page *p)
{
    const stoke_costs *c = &p->d->out.costs;
    const stoke_side *side = &c->side[p->d->setup.placement];
    double step = 0;
    for (size_t i = 0; i < c->n_steps; i++) step += c->step_ms[i] / (double)c->n_steps;
    fputs("<section><h2>Measured costs behind it</h2>\n<table><thead><tr><th>what</th><th class=\"n\">"
          "figure</th><th>source</th></tr></thead><tbody>\n",
          p->out);
    put_cost(p, "a step of the device", step, 2, " ms", p->source);
    put_cost(p, "copy of a batch, ordinary memory", side->pageable_ms, 2, " ms", p->source);
    put_cost(p, "copy of a batch, pinned memory", side->pinned_ms, 2, " ms", p->source);
    put_cost(p, "cores that workers could have", c->cores, 2, "", "measured during the run");
    put_cost(p, "the loop's own work, a step", c->host_ms, 3, " ms", "measured");
    put_cost(p, "launch, a step", c->launch_ms, 3, " ms", p->source);
    put_cost(p, "workers started again", c->restart_ms, 1, " ms", "measured");
    put_cost(p, "steps of an epoch", (double)c->steps_per_epoch, 0, "", "counted");
    fputs("</tbody></table></section>\n", p->out);
}

/* ---- the page ---- */

static int put_timeline(const page *p, const char *path, stoke_error *err)
{
    stk_mem_buffer buffer = { 0 };
    size_t size;
    if (!path) return STOKE_OK;
    const int r = stk_file_read(path, TIMELINE_LIMIT, &buffer, &size, err);
    if (!r) {
        fputs("<section><h2>The last steps</h2>\n<img alt=\"timeline\" src=\"data:image/svg+xml;base64,",
              p->out);
        stk_html_base64(p->out, buffer.data, size);
        fputs("\"></section>\n", p->out);
    }
    stk_buffer_free(&buffer);
    return r;
}

static int put_page(const page *p, const char *title, const char *timeline, stoke_error *err)
{
    char verdict[512], setup[256];
    stoke_diagnosis_verdict(&p->d->out, verdict, sizeof verdict);
    stoke_setup_text(&p->d->setup, setup, sizeof setup);
    stk_html_begin(p->out, title, "", style);
    stk_html_print(
        p->out,
        "<h1>%s</h1>\n<p class=\"verdict\">%s</p>\n<p class=\"note\">%s: %s. Times of the device are "
        "%s.</p>\n<section>",
        title, verdict, p->d->device, setup, p->source);
    diagnosis_bars(p->d, p->out, "Where the time of a step goes", 0);
    fputs("</section>\n", p->out);
    put_causes(p);
    put_fixes(p);
    const int r = put_timeline(p, timeline, err);
    put_costs(p);
    fputs("</main></body></html>\n", p->out);
    return r;
}

int stoke_diagnosis_write_html(const stoke_diagnosis *diagnosis, const char *path, const char *title,
                               const char *timeline, stoke_error *err)
{
    const stk_diagnose_whole *d = (const stk_diagnose_whole *)diagnosis;
    stoke_output file;
    int r = stoke_output_open(&file, path, err);
    if (r) return r;
    const page p = { file.stream, d, d->emulated ? "emulated" : "measured" };
    r = put_page(&p, title && *title ? title : "Diagnosis", timeline, err);
    if (r) {
        stoke_output_drop(&file);
        return r;
    }
    return stoke_output_commit(&file, err);
}
