/* SPDX-License-Identifier: Apache-2.0
 *
 * Letters of pictures: FreeType draws them from fonts of the system, where both are there. ASCII is from a
 * font whose letters are all as wide as the bitmap font's (font.c), which takes its place where there is
 * none: no text is laid out differently. Of other letters, any font that has them; without one such a letter
 * is '?'.
 *
 * FreeType is loaded when the first letter comes. STOKE_FONT names the file for letters beyond ASCII; "none"
 * leaves it all out: pictures that are the same on every machine.
 */
#ifndef STOKE_SRC_REPORT_TYPEFACE_H
#define STOKE_SRC_REPORT_TYPEFACE_H

#include "src/report/canvas.h"

/* What a letter beyond ASCII takes of a line, in pixels of the bitmap font; 0: it cannot be drawn. Any
 * thread. */
unsigned stk_typeface_advance(uint32_t code);

/* Draws a letter in a box as high as the bitmap font's; returns 0 where there is no font for it. Any thread.
 */
int stk_typeface_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t code, unsigned scale,
                      stk_canvas_color color);

#endif
