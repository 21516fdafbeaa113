/* SPDX-License-Identifier: Apache-2.0
 *
 * A chart as SVG: no script, no font of its own, no ids (several may stand in one page). Colours are CSS
 * variables of the element, with a second set for dark mode.
 *
 *   title
 *   - name  - name                legend, where there is more than one series
 *   y label
 *   |  curves          marks
 *   +---------
 *          x label
 */
#include "src/report/chart.h"

#include <inttypes.h>
#include <math.h>

#include "src/base/error.h"
#include "src/base/utf8.h"

enum {
    MARGIN = 14,
    TITLE_LINE = 26,
    LEGEND_LINE = 20,
    LABEL_LINE = 28,      /* the y label, above the frame */
    BELOW = 46,           /* the frame: tick labels, x label */
    LETTER = 7,           /* width of a letter of 12 px, on the wide side */
    MANY = 2000,          /* values beyond which a series is thinned: two per pixel of the frame */
    POINTS_AT_MOST = 400, /* marks beyond it would be a caterpillar */
    COLOURS = 6,
    BLEED = 5 /* curves may run this far over the frame: half a mark */
};

/* Colours by Okabe and Ito, whom colour-blind people can follow, brightened for dark paper. */
static const char style[] =
    "<style>.stk-chart{--paper:#fff;--ink:#1c202a;--faded:#686f7d;--rule:#e3e6ec;--frame:#b9bfca;"
    "--s0:#0b6bcb;--s1:#d1495b;--s2:#00876c;--s3:#c77700;--s4:#8b4fc4;--s5:#4c5b70;"
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:12px}"
    "@media (prefers-color-scheme:dark){.stk-chart{--paper:#171a21;--ink:#e8eaf0;--faded:#9aa2b1;"
    "--rule:#2a2f3a;--frame:#4a5160;--s0:#5aa9ff;--s1:#ff7b8b;--s2:#3ecfa8;--s3:#ffb347;--s4:#c597ff;"
    "--s5:#a8b3c7}}"
    "@media print{.stk-chart{--paper:#fff;--ink:#000;--faded:#444;--rule:#ddd;--frame:#888;--s0:#0b6bcb;"
    "--s1:#d1495b;--s2:#00876c;--s3:#c77700;--s4:#8b4fc4;--s5:#4c5b70}}"
    ".stk-chart text{fill:var(--ink)}.stk-chart .t{font-size:15px;font-weight:600}"
    ".stk-chart .f{fill:var(--faded)}.stk-chart .g{stroke:var(--rule);stroke-width:1}"
    ".stk-chart .x{stroke:var(--frame);stroke-width:1}"
    ".stk-chart .m{stroke:var(--faded);stroke-width:1;stroke-dasharray:4 3}"
    ".stk-chart path{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
    ".stk-chart path.a{stroke-width:1;opacity:.5}"
    "</style>\n";

typedef struct frame {
    const stoke_chart *chart;
    FILE *out;
    stk_axis x, y;
    double left, top, width, height; /* of the area of the curves */
    int legend_lines;
} frame;

/* ---- numbers and text ---- */

/* A coordinate, to a tenth of a pixel. */
static const char *at(double value, char text[32])
{
    return stk_text_fixed(value, 1, text, 32);
}

static size_t letters(const char *text)
{
    size_t n = 0;
    for (; text && *text; n++) stk_utf8_next(&text);
    return n;
}

static void put_text(const frame *f, double x, double y, const char *anchor, const char *class,
                     const char *text)
{
    char a[32], b[32];
    if (!text || !*text) return;
    fprintf(f->out, "<text x=\"%s\" y=\"%s\" text-anchor=\"%s\"%s%s%s>", at(x, a), at(y, b), anchor,
            class ? " class=\"" : "", class ? class : "", class ? "\"" : "");
    stk_html_text(f->out, text);
    fputs("</text>\n", f->out);
}

static void put_line(const frame *f, const char *class, double x1, double y1, double x2, double y2)
{
    char a[32], b[32], c[32], d[32];
    fprintf(f->out, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n", class, at(x1, a),
            at(y1, b), at(x2, c), at(y2, d));
}

/* ---- legend ---- */

/* Faint series stand behind another of their name as a rule: only what is named is listed. */
static int is_listed(const stoke_series *s)
{
    return s->name && *s->name;
}

/* The colour of a series: a faint one has that of the next, whose raw values it shows. */
static unsigned colour_of(const stoke_chart *chart, size_t index)
{
    unsigned strong = 0;
    for (size_t i = 0; i < index; i++) strong += !chart->series[i].faint;
    return strong % COLOURS;
}

/* Draws the legend (draw 0: only counts); returns its lines. */
static int put_legend(const frame *f, int draw)
{
    const stoke_chart *c = f->chart;
    double x = MARGIN;
    size_t listed = 0;
    int lines = 1;
    for (size_t i = 0; i < c->n_series; i++) listed += (size_t)is_listed(&c->series[i]);
    if (listed < 2) return 0;
    for (size_t i = 0; i < c->n_series; i++) {
        const stoke_series *s = &c->series[i];
        if (!is_listed(s)) continue;
        const double width = 26 + (double)letters(s->name) * LETTER + 16;
        if (x > MARGIN && x + width > c->width - MARGIN) {
            x = MARGIN;
            lines++;
        }
        const double y = MARGIN + (c->title ? TITLE_LINE : 0) + LEGEND_LINE * lines - 6;
        if (draw) {
            char a[32], b[32];
            fprintf(f->out, "<path%s style=\"stroke:var(--s%u)\" d=\"M%s %sh18\"/>\n",
                    s->faint ? " class=\"a\"" : "", colour_of(c, i), at(x, a), at(y - 4, b));
            put_text(f, x + 24, y, "start", NULL, s->name);
        }
        x += width;
    }
    return lines;
}

/* ---- curves ---- */

static double screen_x(const frame *f, double value)
{
    return BLEED + stk_axis_place(&f->x, value) * f->width;
}

/* Values far outside of a bound that was asked for: near enough outside, and few digits. */
static double screen_y(const frame *f, double value)
{
    const double y = BLEED + (1 - stk_axis_place(&f->y, value)) * f->height;
    return y < -1e4 ? -1e4 : y > 1e4 ? 1e4 : y;
}

typedef struct pen {
    const frame *f;
    int down; /* the last value had a place */
} pen;

static void draw_to(pen *p, double x, double y)
{
    const double px = screen_x(p->f, x), py = screen_y(p->f, y);
    char a[32], b[32];
    if (isnan(px) || isnan(py)) {
        p->down = 0;
        return;
    }
    /* "h0": a value alone between gaps is a dot. */
    fprintf(p->f->out, p->down ? "L%s %s" : "M%s %sh0", at(px, a), at(py, b));
    p->down = 1;
}

static int has_point(const frame *f, const stoke_series *s, size_t i)
{
    return !isnan(stk_axis_place(&f->x, s->x[i])) && !isnan(stk_axis_place(&f->y, s->y[i]));
}

/* Of the values from .. to the least and the largest, in their order: peaks stay whatever the thinning. A
 * stretch without any is a gap. */
static void draw_extremes(pen *p, const stoke_series *s, size_t from, size_t to)
{
    size_t low = to, high = to;
    for (size_t i = from; i < to; i++) {
        if (!has_point(p->f, s, i)) continue;
        if (low == to || s->y[i] < s->y[low]) low = i;
        if (high == to || s->y[i] > s->y[high]) high = i;
    }
    if (low == to) {
        p->down = 0;
        return;
    }
    const size_t first = low < high ? low : high, second = low < high ? high : low;
    draw_to(p, s->x[first], s->y[first]);
    if (second != first) draw_to(p, s->x[second], s->y[second]);
}

static void put_curve(const frame *f, size_t index)
{
    const stoke_series *s = &f->chart->series[index];
    pen p = { f, 0 };
    if (!s->count) return;
    fprintf(f->out, "<path%s style=\"stroke:var(--s%u)\" d=\"", s->faint ? " class=\"a\"" : "",
            colour_of(f->chart, index));
    if (s->count <= MANY) {
        for (size_t i = 0; i < s->count; i++) draw_to(&p, s->x[i], s->y[i]);
    } else {
        const size_t stretches = MANY / 2;
        for (size_t k = 0; k < stretches; k++)
            draw_extremes(&p, s, (size_t)((double)s->count * (double)k / (double)stretches),
                          (size_t)((double)s->count * (double)(k + 1) / (double)stretches));
    }
    fputs("\"/>\n", f->out);
}

/* Marks at values, which say their value to a resting pointer. */
static void put_points(const frame *f, size_t index)
{
    const stoke_series *s = &f->chart->series[index];
    if (!s->points || s->count > POINTS_AT_MOST) return;
    for (size_t i = 0; i < s->count; i++) {
        char a[32], b[32];
        if (!has_point(f, s, i)) continue;
        fprintf(f->out, "<circle cx=\"%s\" cy=\"%s\" r=\"3\" style=\"fill:var(--s%u)\"><title>",
                at(screen_x(f, s->x[i]), a), at(screen_y(f, s->y[i]), b), colour_of(f->chart, index));
        stk_html_text(f->out, s->name);
        fprintf(f->out, "%s%s", s->name && *s->name ? " " : "", stk_text_brief(s->y[i], a, sizeof a));
        fprintf(f->out, " at %s</title></circle>\n", stk_text_brief(s->x[i], b, sizeof b));
    }
}

/* ---- around the curves ---- */

static void put_axes(const frame *f)
{
    const double bottom = f->top + f->height;
    for (size_t i = 0; i < f->y.count; i++) {
        const double y = bottom - stk_axis_place(&f->y, f->y.tick[i]) * f->height;
        put_line(f, "g", f->left, y, f->left + f->width, y);
        put_text(f, f->left - 7, y + 4, "end", "f", f->y.label[i]);
    }
    for (size_t i = 0; i < f->x.count; i++) {
        const double x = f->left + stk_axis_place(&f->x, f->x.tick[i]) * f->width;
        put_line(f, "x", x, bottom, x, bottom + 4);
        put_text(f, x, bottom + 17, "middle", "f", f->x.label[i]);
    }
    put_line(f, "x", f->left, bottom, f->left + f->width, bottom);
    put_text(f, f->left + f->width / 2, bottom + 36, "middle", "f", f->chart->x_label);
    put_text(f, MARGIN, f->top - 13, "start", "f", f->chart->y_label);
}

/* Texts in turn one line lower, so that marks side by side can be read. */
static void put_marks(const frame *f)
{
    for (size_t i = 0; i < f->chart->n_marks; i++) {
        const stoke_mark *mark = &f->chart->marks[i];
        const double place = stk_axis_place(&f->x, mark->x), x = f->left + place * f->width;
        if (isnan(place)) continue;
        const int left = x + 8 + (double)letters(mark->text) * LETTER > f->left + f->width;
        put_line(f, "m", x, f->top, x, f->top + f->height);
        put_text(f, left ? x - 5 : x + 5, f->top + 12 + (double)(i % 4) * 15, left ? "end" : "start", NULL,
                 mark->text);
    }
}

static void measure(frame *f)
{
    const stoke_chart *c = f->chart;
    size_t longest = 1;
    f->legend_lines = put_legend(f, 0);
    f->top = MARGIN + (c->title ? TITLE_LINE : 0) + LEGEND_LINE * f->legend_lines +
             (c->y_label && *c->y_label ? LABEL_LINE : 12);
    f->height = c->height - f->top - BELOW;
    if (f->height < 40) f->height = 40; /* a long legend in a small chart runs over its edge */
    stk_chart_axes(c, c->width / 90, (unsigned)(f->height / 45), &f->x, &f->y);
    for (size_t i = 0; i < f->y.count; i++)
        if (letters(f->y.label[i]) > longest) longest = letters(f->y.label[i]);
    f->left = MARGIN + (double)longest * LETTER + 8;
    f->width = c->width - f->left - MARGIN - 6;
}

static int has_values(const frame *f)
{
    for (size_t s = 0; s < f->chart->n_series; s++)
        for (size_t i = 0; i < f->chart->series[s].count; i++)
            if (has_point(f, &f->chart->series[s], i)) return 1;
    return 0;
}

int stoke_chart_svg(const stoke_chart *chart, FILE *out, stoke_error *err)
{
    stoke_chart c;
    const int status = stk_chart_take(&c, chart, err);
    if (status) return status;
    frame f = { .chart = &c, .out = out };
    char a[32], b[32], w[32], h[32];
    measure(&f);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"stk-chart\" viewBox=\"0 0 %" PRIu32 " %" PRIu32
            "\" width=\"%" PRIu32 "\" height=\"%" PRIu32 "\" role=\"img\" aria-label=\"",
            c.width, c.height, c.width, c.height);
    stk_html_text(out, c.title ? c.title : "chart");
    fputs("\">\n", out);
    fputs(style, out);
    fputs("<rect width=\"100%\" height=\"100%\" style=\"fill:var(--paper)\"/>\n", out);
    put_text(&f, MARGIN, MARGIN + 13, "start", "t", c.title);
    put_legend(&f, 1);
    put_axes(&f);
    /* An inner element cuts curves at its edges. */
    fprintf(out, "<svg x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\">\n", at(f.left - BLEED, a),
            at(f.top - BLEED, b), at(f.width + 2 * BLEED, w), at(f.height + 2 * BLEED, h));
    for (int strong = 0; strong < 2; strong++)
        for (size_t i = 0; i < c.n_series; i++)
            if (strong == !c.series[i].faint) put_curve(&f, i);
    for (size_t i = 0; i < c.n_series; i++) put_points(&f, i);
    fputs("</svg>\n", out);
    put_marks(&f);
    if (!has_values(&f))
        put_text(&f, f.left + f.width / 2, f.top + f.height / 2, "middle", "f", "no values yet");
    fputs("</svg>\n", out);
    return STOKE_OK;
}
