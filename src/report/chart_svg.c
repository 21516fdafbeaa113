/* SPDX-License-Identifier: Apache-2.0
 *
 * A chart as SVG.
 *
 *   title
 *   - name  - name                legend, where there is more than one series
 *   y label
 *   |  curves          marks
 *   +---------
 *          x label
 */
#include "src/report/chart.h"

#include <math.h>

enum {
    MARGIN = 14,
    TITLE_LINE = 26,
    LEGEND_LINE = 20,
    LABEL_LINE = 28,      /* the y label, above the frame */
    BELOW = 46,           /* the frame: tick labels, x label */
    MANY = 2000,          /* values beyond which a series is thinned: two per pixel of the frame */
    POINTS_AT_MOST = 400, /* marks beyond it would be a caterpillar */
    BLEED = 5             /* curves may run this far over the frame: half a mark */
};

typedef struct frame {
    const stoke_chart *chart;
    FILE *out;
    stk_chart_axis x, y;
    double left, top, width, height; /* of the area of the curves */
    int legend_lines;
} frame;

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
    return strong % STK_SVG_COLOURS;
}

static void begin_path(const frame *f, size_t index)
{
    fprintf(f->out, "<path%s style=\"stroke:var(--s%u)\" d=\"",
            f->chart->series[index].faint ? " class=\"a\"" : "", colour_of(f->chart, index));
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
        const double width = 26 + (double)stk_svg_letters(s->name) * STK_SVG_LETTER + 16;
        if (x > MARGIN && x + width > c->width - MARGIN) {
            x = MARGIN;
            lines++;
        }
        const double y = MARGIN + (c->title ? TITLE_LINE : 0) + LEGEND_LINE * lines - 6;
        if (draw) {
            begin_path(f, i);
            stk_html_print(f->out, "M%.1f %.1fh18\"/>\n", x, y - 4);
            stk_svg_text(f->out, x + 24, y, "start", NULL, s->name);
        }
        x += width;
    }
    return lines;
}

/* ---- curves ---- */

static double screen_x(const frame *f, double value)
{
    return BLEED + stk_chart_axis_at(&f->x, value) * f->width;
}

/* Values far outside of a bound that was asked for: near enough outside, and few digits. */
static double screen_y(const frame *f, double value)
{
    const double y = BLEED + (1 - stk_chart_axis_at(&f->y, value)) * f->height;
    return y < -1e4 ? -1e4 : y > 1e4 ? 1e4 : y;
}

typedef struct pen {
    const frame *f;
    int down; /* the last value had a place */
} pen;

static void draw_to(pen *p, double x, double y)
{
    const double px = screen_x(p->f, x), py = screen_y(p->f, y);
    const int there = !isnan(px) && !isnan(py);
    /* "h0": a value alone between gaps is a dot. */
    if (there) stk_html_print(p->f->out, p->down ? "L%.1f %.1f" : "M%.1f %.1fh0", px, py);
    p->down = there;
}

static int has_point(const frame *f, const stoke_series *s, size_t i)
{
    return !isnan(stk_chart_axis_at(&f->x, s->x[i])) && !isnan(stk_chart_axis_at(&f->y, s->y[i]));
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
    begin_path(f, index);
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
        char y[32], x[32];
        if (!has_point(f, s, i)) continue;
        stk_html_print(f->out,
                       "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" style=\"fill:var(--s%u)\"><title>%s%s%s at "
                       "%s</title></circle>\n",
                       screen_x(f, s->x[i]), screen_y(f, s->y[i]), colour_of(f->chart, index), s->name,
                       is_listed(s) ? " " : "", stk_text_brief(s->y[i], y, sizeof y),
                       stk_text_brief(s->x[i], x, sizeof x));
    }
}

/* ---- around the curves ---- */

static void put_axes(const frame *f)
{
    const double bottom = f->top + f->height;
    for (size_t i = 0; i < f->y.count; i++) {
        const double y = bottom - stk_chart_axis_at(&f->y, f->y.tick[i]) * f->height;
        stk_svg_line(f->out, "g", f->left, y, f->left + f->width, y);
        stk_svg_text(f->out, f->left - 7, y + 4, "end", "f", f->y.label[i]);
    }
    for (size_t i = 0; i < f->x.count; i++) {
        const double x = f->left + stk_chart_axis_at(&f->x, f->x.tick[i]) * f->width;
        stk_svg_line(f->out, "x", x, bottom, x, bottom + 4);
        stk_svg_text(f->out, x, bottom + 17, "middle", "f", f->x.label[i]);
    }
    stk_svg_line(f->out, "x", f->left, bottom, f->left + f->width, bottom);
    stk_svg_text(f->out, f->left + f->width / 2, bottom + 36, "middle", "f", f->chart->x_label);
    stk_svg_text(f->out, MARGIN, f->top - 13, "start", "f", f->chart->y_label);
}

/* Whether a value lies where a text of one line would stand, which ends 4 below its y. */
static int is_taken(const frame *f, double from, double to, double y)
{
    for (size_t k = 0; k < f->chart->n_series; k++) {
        const stoke_series *s = &f->chart->series[k];
        for (size_t i = 0; i < s->count; i++) {
            const double px = f->left + stk_chart_axis_at(&f->x, s->x[i]) * f->width;
            const double py = f->top + f->height - stk_chart_axis_at(&f->y, s->y[i]) * f->height;
            if (px >= from && px <= to && py >= y - 14 && py <= y + 4) return 1;
        }
    }
    return 0;
}

/* Texts in turn one line lower, so that marks side by side can be read; above the lower edge where a curve is
 * at the upper one, as a score is at its best. */
static void put_marks(const frame *f)
{
    for (size_t i = 0; i < f->chart->n_marks; i++) {
        const stoke_mark *mark = &f->chart->marks[i];
        const double place = stk_chart_axis_at(&f->x, mark->x), x = f->left + place * f->width;
        if (isnan(place)) continue;
        const double wide = (double)stk_svg_letters(mark->text) * STK_SVG_LETTER, line = (double)(i % 4) * 15;
        const double high = f->top + 12 + line, low = f->top + f->height - 6 - line;
        const int left = x + 8 + wide > f->left + f->width;
        const double from = left ? x - 5 - wide : x, to = left ? x : x + 5 + wide;
        const double y = is_taken(f, from, to, high) && !is_taken(f, from, to, low) ? low : high;
        stk_svg_line(f->out, "m", x, f->top, x, f->top + f->height);
        stk_svg_text(f->out, left ? x - 5 : x + 5, y, left ? "end" : "start", "k",
                     mark->text); /* readable on top of a curve */
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
        if (stk_svg_letters(f->y.label[i]) > longest) longest = stk_svg_letters(f->y.label[i]);
    f->left = MARGIN + (double)longest * STK_SVG_LETTER + 8;
    f->width = c->width - f->left - MARGIN - 6;
}

int stoke_chart_svg(const stoke_chart *chart, FILE *out, stoke_error *err)
{
    stoke_chart c;
    const int status = stk_chart_take(&c, chart, err);
    if (status) return status;
    frame f = { .chart = &c, .out = out };
    measure(&f);
    stk_svg_begin(out, c.width, c.height, c.title ? c.title : "chart");
    stk_svg_text(out, MARGIN, MARGIN + 13, "start", "t", c.title);
    put_legend(&f, 1);
    put_axes(&f);
    /* An inner element cuts curves at its edges. */
    stk_html_print(out, "<svg x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">\n", f.left - BLEED,
                   f.top - BLEED, f.width + 2 * BLEED, f.height + 2 * BLEED);
    for (int strong = 0; strong < 2; strong++)
        for (size_t i = 0; i < c.n_series; i++)
            if (strong == !c.series[i].faint) put_curve(&f, i);
    for (size_t i = 0; i < c.n_series; i++) put_points(&f, i);
    fputs("</svg>\n", out);
    put_marks(&f);
    int any = 0;
    for (const stoke_series *s = c.series; s < c.series + c.n_series && !any; s++)
        for (size_t i = 0; i < s->count && !any; i++) any = has_point(&f, s, i);
    if (!any) stk_svg_text(out, f.left + f.width / 2, f.top + f.height / 2, "middle", "f", "no values yet");
    stk_svg_end(out);
    return STOKE_OK;
}
