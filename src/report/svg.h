/* SPDX-License-Identifier: Apache-2.0
 *
 * What pictures in SVG share: one look, coordinates to a tenth of a pixel, text that is safe between tags.
 */
#ifndef STOKE_SRC_REPORT_SVG_H
#define STOKE_SRC_REPORT_SVG_H

#include <stdint.h>
#include <stdio.h>

enum {
    STK_SVG_LETTER = 7, /* width of a letter of 12 px, on the wide side */
    STK_SVG_COLOURS = 6 /* var(--s0) .. var(--s5) */
};

/* The opening <svg> with the style, and the paper. Classes: t title, f faded; lines g grid, x frame, m mark.
 * No ids: several may stand in one page. */
void stk_svg_begin(FILE *out, uint32_t width, uint32_t height, const char *label);
void stk_svg_end(FILE *out);

/* A coordinate, to a tenth of a pixel. Returns text. */
const char *stk_svg_at(double value, char text[32]);
/* class NULL: none; NULL and "" write nothing. anchor: start, middle, end. */
void stk_svg_text(FILE *out, double x, double y, const char *anchor, const char *class, const char *text);
void stk_svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2);
/* Letters of UTF-8; NULL has none. */
size_t stk_svg_letters(const char *text);

#endif
