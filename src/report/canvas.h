/* SPDX-License-Identifier: Apache-2.0
 *
 * A picture in memory to draw on: boxes, scaled images, text. RGB u8.
 */
#ifndef STOKE_SRC_REPORT_CANVAS_H
#define STOKE_SRC_REPORT_CANVAS_H

#include <stoke/tools/report.h>

enum { STK_GLYPH_WIDTH = 5, STK_GLYPH_HEIGHT = 8, STK_GLYPH_ADVANCE = 6 };

typedef struct stk_canvas_color {
    uint8_t r, g, b;
} stk_canvas_color;

typedef struct stk_canvas {
    uint8_t *pixels; /* rows packed, 3 bytes per pixel */
    uint32_t width, height;
} stk_canvas;

/* The limit of 2^28 pixels (800 MB) is far beyond what a viewer opens. */
int stk_canvas_create(stk_canvas *canvas, uint64_t width, uint64_t height, stk_canvas_color color,
                      stoke_error *err);
void stk_canvas_free(stk_canvas *canvas);
stoke_image stk_canvas_image(const stk_canvas *canvas);

/* Everything drawn outside the canvas is dropped. */
void stk_canvas_fill(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                     stk_canvas_color color);
/* alpha 0 (nothing) .. 256 (the colour). */
void stk_canvas_blend(stk_canvas *canvas, uint32_t x, uint32_t y, stk_canvas_color color, unsigned alpha);
/* The image (3 channels u8), scaled to the box by averaging the source area of each pixel. */
void stk_canvas_blit(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                     const stoke_image *image);

/* Text with its top left corner at (x, y); `scale` pixels per font pixel, edges smoothed from 2 on. */
void stk_canvas_text(stk_canvas *canvas, uint32_t x, uint32_t y, const char *text, unsigned scale,
                     stk_canvas_color color);
uint32_t stk_text_width(const char *text, unsigned scale);
/* Copies text into `out`, which has room for `size` / STK_LETTER_BYTES letters; if wider than `width` pixels,
 * the middle becomes "..". Control characters and letters that cannot be drawn (typeface.c) become '?'. */
enum { STK_LETTER_BYTES = 4 }; /* fonts have letters of four bytes that are no wider than one of ASCII */
void stk_text_fit(const char *text, unsigned scale, uint32_t width, char *out, size_t size);

enum { STK_LINE_LETTERS = 511, STK_LINE_BYTES = STK_LINE_LETTERS * STK_LETTER_BYTES + 1 };
/* The next line of *text that is at most `width` pixels wide, broken after a space, comma or bracket where
 * there is one, and at newlines; moves *text on. 0 when nothing is left (or *text is NULL). Letters as
 * stk_text_fit makes them. */
int stk_text_line(const char **text, unsigned scale, uint64_t width, char line[STK_LINE_BYTES]);

/* One pixel of a glyph; 0 outside the cell. */
int stk_glyph_bit(unsigned char c, int x, int y);

/* ---- typeface.c ---- */

/* Letters of pictures: FreeType draws them from fonts of the system, where both are there. ASCII is from a
 * font whose letters are all as wide as the bitmap font's (canvas.c), which takes its place where there is
 * none: no text is laid out differently. Of other letters, any font that has them; without one such a letter
 * is '?'.
 *
 * FreeType is loaded when the first letter comes. STOKE_FONT names the file for letters beyond ASCII; "none"
 * leaves it all out: pictures that are the same on every machine. */

/* What a letter beyond ASCII takes of a line, in pixels of the bitmap font; 0: it cannot be drawn. Any
 * thread. */
unsigned stk_typeface_advance(uint32_t code);

/* Draws a letter in a box as high as the bitmap font's; returns 0 where there is no font for it. Any thread.
 */
int stk_typeface_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t code, unsigned scale,
                      stk_canvas_color color);

#endif
