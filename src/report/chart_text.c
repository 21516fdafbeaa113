/* SPDX-License-Identifier: Apache-2.0
 *
 * A chart as characters: braille, 2 x 4 dots each.
 *
 *   title
 *   2.0 |  dots
 *   1.0 |
 *       +-------
 *       0   50  100   x label
 *   name  name
 *   : 3e-4 text of a mark
 */
#include "src/report/chart.h"

#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/terminal.h"

enum { LEAST_COLUMNS = 30, LEAST_ROWS = 8, MOST = 1000 };

/* Dots of a braille character by row and column. */
enum { ACROSS = 2, DOWN = 4 };
static const uint8_t dots[DOWN][ACROSS] = { { 1, 8 }, { 2, 16 }, { 4, 32 }, { 64, 128 } };

typedef struct sheet {
    const stoke_chart *chart;
    FILE *out;
    stk_chart_axis x, y;
    uint32_t gutter;      /* letters of the longest y label */
    uint32_t width, rows; /* of the area of the curves, in characters */
    uint8_t *cells;       /* dots of each character */
} sheet;

/* ---- drawing into cells ---- */

static void set_dot(sheet *s, long x, long y)
{
    if (x < 0 || y < 0 || x >= (long)(s->width * ACROSS) || y >= (long)(s->rows * DOWN)) return;
    s->cells[(size_t)(y / DOWN) * s->width + (size_t)(x / ACROSS)] |= dots[y % DOWN][x % ACROSS];
}

/* Where a value lies, in dots; 0: it has no place. Beyond the edges is far enough. */
static int dot_of(const sheet *s, double x, double y, double *px, double *py)
{
    const double fx = stk_chart_axis_at(&s->x, x), fy = stk_chart_axis_at(&s->y, y);
    if (isnan(fx) || isnan(fy)) return 0;
    *px = fx * (s->width * ACROSS - 1);
    *py = fmin(fmax(1 - fy, -2), 3) * (s->rows * DOWN - 1);
    return 1;
}

static void draw_series(sheet *s, const stoke_series *series)
{
    double x0 = 0, y0 = 0, x1, y1;
    int before = 0;
    for (size_t i = 0; i < series->count; i++) {
        const int now = dot_of(s, series->x[i], series->y[i], &x1, &y1);
        if (now) {
            /* At most a few thousand dots: both ends lie within three heights of the sheet. */
            const long n = before ? lround(fmax(fabs(x1 - x0), fabs(y1 - y0))) : 0;
            for (long k = n ? 1 : 0; k <= n; k++) {
                const double t = n ? (double)k / (double)n : 1;
                set_dot(s, lround(before ? x0 + (x1 - x0) * t : x1),
                        lround(before ? y0 + (y1 - y0) * t : y1));
            }
            x0 = x1;
            y0 = y1;
        }
        before = now;
    }
}

/* Raw values behind a curve would hide it here: faint series are drawn only when there is nothing else. */
static int is_drawn(const stoke_chart *chart, const stoke_series *series)
{
    if (!series->faint) return 1;
    for (size_t i = 0; i < chart->n_series; i++)
        if (!chart->series[i].faint) return 0;
    return 1;
}

/* ---- writing ---- */

/* Text of at most `most` columns, without what a terminal would obey; returns how many were written. */
static uint32_t put_plain(FILE *out, const char *text, uint32_t most)
{
    uint32_t used = 0;
    char shown[STK_SHOWN];
    for (size_t n; text && (n = stk_terminal_next(&text, shown));) {
        const uint32_t columns = (uint32_t)stk_terminal_columns_of(shown, n);
        if (used + columns > most) break;
        fwrite(shown, 1, n, out);
        used += columns;
    }
    return used;
}

/* The label of the tick that falls into this line, or "". */
static const char *label_of_row(const sheet *s, uint32_t row)
{
    for (size_t i = 0; i < s->y.count; i++) {
        const double y = (1 - stk_chart_axis_at(&s->y, s->y.tick[i])) * (s->rows * DOWN - 1);
        if (lround(y) / DOWN == (long)row) return s->y.label[i];
    }
    return "";
}

static int is_marked(const sheet *s, uint32_t column)
{
    for (size_t i = 0; i < s->chart->n_marks; i++) {
        const double place = stk_chart_axis_at(&s->x, s->chart->marks[i].x);
        if (!isnan(place) && lround(place * (s->width - 1)) == (long)column) return 1;
    }
    return 0;
}

static void put_cell(const sheet *s, uint32_t row, uint32_t column)
{
    const uint8_t cell = s->cells[(size_t)row * s->width + column];
    if (!cell && is_marked(s, column))
        fputs("\xe2\x94\x8a", s->out);
    else if (!cell)
        fputc(' ', s->out);
    else
        fprintf(s->out, "\xe2%c%c", 0xa0 + (cell >> 6), 0x80 + (cell & 63)); /* U+2800 + dots */
}

static void put_area(const sheet *s)
{
    for (uint32_t row = 0; row < s->rows; row++) {
        const char *label = label_of_row(s, row);
        fprintf(s->out, "%*s %s", (int)s->gutter, label, *label ? "\xe2\x94\xa4" : "\xe2\x94\x82");
        uint32_t end = s->width;
        while (end && !s->cells[(size_t)row * s->width + end - 1] && !is_marked(s, end - 1)) end--;
        for (uint32_t column = 0; column < end; column++) put_cell(s, row, column);
        fputc('\n', s->out);
    }
}

static void put_x_axis(const sheet *s)
{
    uint32_t done = 0;
    fprintf(s->out, "%*s", (int)(s->gutter + 1), "");
    fputs("\xe2\x94\x94", s->out);
    for (uint32_t i = 0; i < s->width; i++) fputs("\xe2\x94\x80", s->out);
    fputc('\n', s->out);
    fprintf(s->out, "%*s", (int)(s->gutter + 2), "");
    for (size_t i = 0; i < s->x.count; i++) {
        const uint32_t length = (uint32_t)strlen(s->x.label[i]);
        const long middle = lround(stk_chart_axis_at(&s->x, s->x.tick[i]) * (s->width - 1));
        long start = middle - (long)length / 2;
        if (start + (long)length > (long)s->width) start = (long)s->width - (long)length;
        if (start < 0) start = 0;
        if (done && start < (long)done + 2) continue; /* no room beside the one before */
        fprintf(s->out, "%*s", (int)((uint32_t)start - done), "");
        fputs(s->x.label[i], s->out);
        done = (uint32_t)start + length;
    }
    fputc('\n', s->out);
}

/* Series that are drawn and have a name. */
static size_t named_series(const stoke_chart *chart)
{
    size_t n = 0;
    for (size_t i = 0; i < chart->n_series; i++)
        n += chart->series[i].name && *chart->series[i].name && is_drawn(chart, &chart->series[i]);
    return n;
}

/* Curves have no signs: their names say at least what is drawn. */
static void put_legend(const sheet *s)
{
    const uint32_t end = s->gutter + 2 + s->width;
    uint32_t used = s->gutter + 2;
    fprintf(s->out, "%*s", (int)used, "");
    for (size_t i = 0, k = 0; i < s->chart->n_series; i++) {
        const stoke_series *series = &s->chart->series[i];
        if (!is_drawn(s->chart, series)) continue;
        k++;
        if (!series->name || !*series->name || used + 6 > end) continue;
        if (k > 1) fputs("\xc2\xb7 ", s->out);
        used += 2 + put_plain(s->out, series->name, end - used - 2);
        fputc(' ', s->out);
        used++;
    }
    fputc('\n', s->out);
}

static void put_marks(const sheet *s)
{
    const uint32_t end = s->gutter + 2 + s->width;
    uint32_t used = s->gutter + 2;
    fprintf(s->out, "%*s", (int)used, "");
    for (size_t i = 0; i < s->chart->n_marks && used + 16 < end; i++) {
        char number[32];
        stk_text_brief(s->chart->marks[i].x, number, sizeof number);
        fprintf(s->out, "\xe2\x94\x8a %s ", number);
        used += 3 + (uint32_t)strlen(number);
        used += put_plain(s->out, s->chart->marks[i].text, end > used + 2 ? end - used - 2 : 0);
        fputs("  ", s->out);
        used += 2;
    }
    fputc('\n', s->out);
}

static int has_text(const char *text)
{
    return text && *text;
}

static void put_title(const sheet *s)
{
    const uint32_t most = s->gutter + 2 + s->width;
    const uint32_t used = put_plain(s->out, s->chart->title, most);
    if (has_text(s->chart->y_label) && used + 8 < most) {
        if (used) fputs("  ", s->out);
        fputc('[', s->out);
        put_plain(s->out, s->chart->y_label, most - used - 4);
        fputc(']', s->out);
    }
    fputc('\n', s->out);
}

/* ---- all of it ---- */

static void measure(sheet *s, uint32_t columns, uint32_t rows)
{
    const stoke_chart *c = s->chart;
    uint32_t around = 2; /* the axis and its labels */
    around += has_text(c->title) || has_text(c->y_label);
    around += has_text(c->x_label);
    around += named_series(c) > 1;
    around += c->n_marks > 0;
    s->rows = rows - around;
    stk_chart_axes(c, columns / 10, s->rows / 3 > 2 ? s->rows / 3 : 2, &s->x, &s->y);
    for (size_t i = 0; i < s->y.count; i++)
        if (strlen(s->y.label[i]) > s->gutter) s->gutter = (uint32_t)strlen(s->y.label[i]);
    s->width = columns - s->gutter - 2;
}

static void put_all(const sheet *s)
{
    const stoke_chart *c = s->chart;
    if (has_text(c->title) || has_text(c->y_label)) put_title(s);
    put_area(s);
    put_x_axis(s);
    if (has_text(c->x_label)) {
        fprintf(s->out, "%*s", (int)(s->gutter + 2), "");
        put_plain(s->out, c->x_label, s->width);
        fputc('\n', s->out);
    }
    if (named_series(c) > 1) put_legend(s);
    if (c->n_marks) put_marks(s);
}

int stoke_chart_text(const stoke_chart *chart, uint32_t columns, uint32_t rows, FILE *out, stoke_error *err)
{
    stoke_chart c;
    const int status = stk_chart_take(&c, chart, err);
    if (status) return status;
    if (columns < LEAST_COLUMNS || rows < LEAST_ROWS || columns > MOST || rows > MOST)
        return stk_fail(err, STOKE_E_INVALID,
                        "a chart of %u x %u characters: %d x %d is the least, %d x %d the most",
                        (unsigned)columns, (unsigned)rows, LEAST_COLUMNS, LEAST_ROWS, MOST, MOST);
    sheet s = { .chart = &c, .out = out };
    measure(&s, columns, rows);
    s.cells = stk_calloc((size_t)s.width * s.rows, 1);
    if (!s.cells) return stk_fail(err, STOKE_E_NOMEM, "out of memory for a chart");
    for (size_t i = 0; i < c.n_series; i++)
        if (is_drawn(&c, &c.series[i])) draw_series(&s, &c.series[i]);
    put_all(&s);
    stk_free(s.cells);
    return STOKE_OK;
}
