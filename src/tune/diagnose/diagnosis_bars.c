/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a step goes, as bars.
 *
 *   title
 *   verdict
 *   # computing  # decoding  # copying ...
 *   now, measured     ████████▒▒▒▒▒▒▒▒▒░░░░░░  351 ms   28 % busy
 *   workers=2         ████████▒▒▒▒▒▒           190 ms   52 %       predicted; the mark is what verify
 * measured all of them       █████████                102 ms   98 % 0        100       200  ms a step step by
 * step      |||||||||||||||||||||||
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/file.h"
#include "src/report/chart.h"
#include "src/tune/diagnose/diagnosis_draw.h"

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
    const stoke_diagnosis *d;
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
    char a[32], b[32], c[32], d[32], figure[32];
    if (width < 0.05 || height < 0.05) return;
    fprintf(out, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" style=\"fill:%s\"%s><title>",
            stk_svg_at(x, a), stk_svg_at(y, b), stk_svg_at(width, c), stk_svg_at(height, d), fill,
            pale ? " opacity=\"0.55\"" : "");
    stk_html_text(out, what);
    fprintf(out, ": %s ms</title></rect>\n", stk_text_fixed(ms, 2, figure, sizeof figure));
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
    const stoke_attribution *a = &b->d->attribution;
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
    const stoke_fixes *fixes = &b->d->fixes;
    const stoke_attribution *a = &b->d->attribution;
    int rows = 1;
    b->most_ms = draw ? b->most_ms : per_step_ms(a, a->elapsed_ns);
    if (draw) put_measured(b, y);
    for (int i = 0; i < STOKE_CAUSES; i++) {
        const stoke_fix *fix = &fixes->fix[i];
        if (!fix->applies) continue;
        if (draw)
            put_forecast(b, y + ROW * rows, fix->change, &fix->alone, fix->pairs ? fix->measured_busy : NAN);
        else
            b->most_ms = fmax(b->most_ms, fix->alone.step_ms);
        rows++;
    }
    if (rows == 1) return rows;
    if (draw)
        put_forecast(b, y + ROW * rows, "all of them", &fixes->together,
                     fixes->pairs ? fixes->measured_busy : NAN);
    return rows + 1;
}

static void put_axis(const bars *b, double top, double bottom)
{
    stk_chart_axis axis;
    stk_axis_make(&axis, 0, b->most_ms, 0, 8);
    for (size_t i = 0; i < axis.count; i++) {
        const double x = LEFT + stk_chart_axis_at(&axis, axis.tick[i]) * (WIDTH - LEFT - RIGHT);
        stk_svg_line(b->out, "g", x, top, x, bottom);
        stk_svg_text(b->out, x, bottom + 16, "middle", "f", axis.label[i]);
    }
    stk_svg_text(b->out, LEFT - 10, bottom + 16, "end", "f", "ms a step");
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

static double longest_step(const stoke_diagnosis *d, size_t each)
{
    const size_t n = (size_t)d->attribution.steps;
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
    const size_t n = (size_t)b->d->attribution.steps, each = (n + COLUMNS_MOST - 1) / COLUMNS_MOST;
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
    const stoke_attribution *a = &b->d->attribution;
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
            char at[32], top[32];
            fprintf(b->out, "<rect x=\"%s\" y=\"%s\" width=\"12\" height=\"12\" style=\"fill:%s\"/>\n",
                    stk_svg_at(x, at), stk_svg_at(y + LEGEND_LINE * (lines - 1) - 10, top),
                    k < 0 ? computing : fills[k]);
            stk_svg_text(b->out, x + 18, y + LEGEND_LINE * (lines - 1), "start", NULL, text);
        }
        x += width;
    }
    return lines;
}

static const char *remark_of(const stoke_diagnosis *d)
{
    return d->fixes.pairs ? "pale: predicted, the thin line its 90 % interval; dark mark: measured in turns"
                          : "pale: predicted, the thin line its 90 % interval";
}

void stk_diagnosis_bars(const stoke_diagnosis *d, FILE *out, const char *title, int alone)
{
    bars b = { .out = out, .d = d, .title = title && *title ? title : "where the time of a step goes" };
    char verdict[512] = "", remark[256];
    if (alone) stoke_diagnosis_verdict(d, verdict, sizeof verdict);
    const double legend = MARGIN + (alone ? 60 : 40), top = legend + LEGEND_LINE * put_legend(&b, 0, 0);
    const double bottom = top + ROW * put_rows(&b, 0, 0), columns = bottom + 44;
    if (!(b.most_ms > 0)) b.most_ms = 1;
    stk_svg_begin(out, WIDTH, (uint32_t)(columns + COLUMNS_HIGH + BELOW), b.title);
    fputs("<style>.stk-chart .h{font-weight:600}.stk-chart .k{stroke:var(--ink);stroke-width:2}</style>\n",
          out);
    stk_svg_text(out, MARGIN, MARGIN + 14, "start", "t", b.title);
    stk_svg_text(out, MARGIN, MARGIN + 34, "start", NULL, verdict);
    put_legend(&b, legend, 1);
    put_axis(&b, top - 4, bottom);
    put_rows(&b, top, 1);
    put_columns(&b, columns);
    snprintf(remark, sizeof remark, "%s. %s", remark_of(d),
             d->emulated ? "Times of the device are emulated: a model's, not measured." : "");
    stk_svg_text(out, MARGIN, columns + COLUMNS_HIGH + 32, "start", "f", remark);
    stk_svg_end(out);
}

int stoke_diagnosis_write_bars(const stoke_diagnosis *diagnosis, const char *path, const char *title,
                               stoke_error *err)
{
    stk_atomic_file file;
    const int r = stk_atomic_open(&file, path, err);
    if (r) return r;
    stk_diagnosis_bars(diagnosis, file.stream, title, 1);
    return stk_atomic_commit(&file, err);
}
