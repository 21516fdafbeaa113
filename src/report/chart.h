/* SPDX-License-Identifier: Apache-2.0
 *
 * What both kinds of chart share: axes with ticks, numbers as text, text between tags.
 */
#ifndef STOKE_SRC_REPORT_CHART_H
#define STOKE_SRC_REPORT_CHART_H

#include <stdio.h>

#include <stoke/tools/chart.h>

enum { STK_TICKS = 24, STK_TICK_TEXT = 24 };

typedef struct stk_chart_axis {
    double low, high; /* low < high, both finite; both > 0 when log */
    int log;
    size_t count;
    double tick[STK_TICKS]; /* ascending, within low .. high but for rounding */
    char label[STK_TICKS][STK_TICK_TEXT];
} stk_chart_axis;

/* Both axes of a chart around all its values. About `x_ticks` and `y_ticks` of them, at round numbers. */
void stk_chart_axes(const stoke_chart *chart, unsigned x_ticks, unsigned y_ticks, stk_chart_axis *x,
                    stk_chart_axis *y);
/* The axis alone; low and high may be anything, also equal or not finite. */
void stk_axis_make(stk_chart_axis *axis, double low, double high, int log, unsigned ticks);
/* 0 at low, 1 at high; NaN for what has no place on it (not finite, or <= 0 when log). */
double stk_chart_axis_at(const stk_chart_axis *axis, double value);

/* Checks what a caller may get wrong; fills *c from it. */
int stk_chart_take(stoke_chart *c, const stoke_chart *chart, stoke_error *err);

/* "0.50": so many decimals, a point in every locale; "n/a" for what is not finite. Returns text. */
const char *stk_text_fixed(double value, int decimals, char *text, size_t size);
/* About three digits: "0.834", "12.5", "1234", "6e-5". Returns text. */
const char *stk_text_brief(double value, char *text, size_t size);

/* Text between tags or in quotes: & < > " ' escaped; bytes that are not UTF-8 and control characters become
 * U+FFFD. NULL writes nothing. */
void stk_html_text(FILE *out, const char *text);
/* Its first bytes, which end between two characters. */
void stk_html_bytes(FILE *out, const char *text, size_t size);
/* fprintf of pages: %s is such text, %.1f has a point in every locale and is "n/a" for what is not finite;
 * %u, %lu, %d, %ld and %%. */
void stk_html_print(FILE *out, const char *format, ...) STOKE_PRINTF(2, 3);
/* A page up to what is in <main>; `about` stands behind the title, `css` is the style. */
void stk_html_begin(FILE *out, const char *title, const char *about, const char *css);
/* Bytes as base64, for data: addresses. */
void stk_html_base64(FILE *out, const void *bytes, size_t size);

/* ---- svg.c ---- */

/* What pictures in SVG share: one look, coordinates to a tenth of a pixel, text that is safe between tags. */

enum {
    STK_SVG_LETTER = 7, /* width of a letter of 12 px, on the wide side */
    STK_SVG_COLOURS = 6 /* var(--s0) .. var(--s5) */
};

/* The opening <svg> with the style, and the paper. Classes: t title, f faded; lines g grid, x frame, m mark.
 * No ids: several may stand in one page. */
void stk_svg_begin(FILE *out, uint32_t width, uint32_t height, const char *label);
void stk_svg_end(FILE *out);

/* class NULL: none; NULL and "" write nothing. anchor: start, middle, end. */
void stk_svg_text(FILE *out, double x, double y, const char *anchor, const char *class, const char *text);
void stk_svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2);
/* Letters of UTF-8; NULL has none. */
size_t stk_svg_letters(const char *text);

#endif
