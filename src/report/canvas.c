/* SPDX-License-Identifier: Apache-2.0 */
#include "src/report/canvas.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/utf8.h"

/* ---- letters of 5 x 7 pixels ---- */

/* A small bitmap font: printable ASCII, 5 wide, 7 high and one row for descenders. Drawn for this project; a
 * picture of a few labels needs no font library. */

/* One byte per row from the top, bit 4 is the left column. */
static const uint8_t rows[95][STK_GLYPH_HEIGHT] = {
    /* clang-format off */
    { 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00 }, /* space */
    { 0x04, 0x04, 0x04, 0x04, 0x04, 0x00, 0x04, 0x00 }, /* ! */
    { 0x0a, 0x0a, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00 }, /* " */
    { 0x0a, 0x0a, 0x1f, 0x0a, 0x1f, 0x0a, 0x0a, 0x00 }, /* # */
    { 0x04, 0x0f, 0x14, 0x0e, 0x05, 0x1e, 0x04, 0x00 }, /* $ */
    { 0x19, 0x19, 0x02, 0x04, 0x08, 0x13, 0x13, 0x00 }, /* % */
    { 0x0c, 0x12, 0x14, 0x08, 0x15, 0x12, 0x0d, 0x00 }, /* & */
    { 0x04, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00 }, /* ' */
    { 0x02, 0x04, 0x08, 0x08, 0x08, 0x04, 0x02, 0x00 }, /* ( */
    { 0x08, 0x04, 0x02, 0x02, 0x02, 0x04, 0x08, 0x00 }, /* ) */
    { 0x00, 0x04, 0x15, 0x0e, 0x15, 0x04, 0x00, 0x00 }, /* * */
    { 0x00, 0x04, 0x04, 0x1f, 0x04, 0x04, 0x00, 0x00 }, /* + */
    { 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x04, 0x08 }, /* , */
    { 0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00, 0x00 }, /* - */
    { 0x00, 0x00, 0x00, 0x00, 0x00, 0x06, 0x06, 0x00 }, /* . */
    { 0x00, 0x01, 0x02, 0x04, 0x08, 0x10, 0x00, 0x00 }, /* / */
    { 0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e, 0x00 }, /* 0 */
    { 0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e, 0x00 }, /* 1 */
    { 0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f, 0x00 }, /* 2 */
    { 0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e, 0x00 }, /* 3 */
    { 0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02, 0x00 }, /* 4 */
    { 0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e, 0x00 }, /* 5 */
    { 0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e, 0x00 }, /* 6 */
    { 0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08, 0x00 }, /* 7 */
    { 0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e, 0x00 }, /* 8 */
    { 0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c, 0x00 }, /* 9 */
    { 0x00, 0x06, 0x06, 0x00, 0x06, 0x06, 0x00, 0x00 }, /* : */
    { 0x00, 0x06, 0x06, 0x00, 0x06, 0x06, 0x02, 0x04 }, /* ; */
    { 0x02, 0x04, 0x08, 0x10, 0x08, 0x04, 0x02, 0x00 }, /* < */
    { 0x00, 0x00, 0x1f, 0x00, 0x1f, 0x00, 0x00, 0x00 }, /* = */
    { 0x08, 0x04, 0x02, 0x01, 0x02, 0x04, 0x08, 0x00 }, /* > */
    { 0x0e, 0x11, 0x01, 0x02, 0x04, 0x00, 0x04, 0x00 }, /* ? */
    { 0x0e, 0x11, 0x17, 0x15, 0x17, 0x10, 0x0e, 0x00 }, /* @ */
    { 0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11, 0x00 }, /* A */
    { 0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e, 0x00 }, /* B */
    { 0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e, 0x00 }, /* C */
    { 0x1e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1e, 0x00 }, /* D */
    { 0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f, 0x00 }, /* E */
    { 0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10, 0x00 }, /* F */
    { 0x0e, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0f, 0x00 }, /* G */
    { 0x11, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11, 0x00 }, /* H */
    { 0x0e, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e, 0x00 }, /* I */
    { 0x07, 0x02, 0x02, 0x02, 0x02, 0x12, 0x0c, 0x00 }, /* J */
    { 0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11, 0x00 }, /* K */
    { 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1f, 0x00 }, /* L */
    { 0x11, 0x1b, 0x15, 0x15, 0x11, 0x11, 0x11, 0x00 }, /* M */
    { 0x11, 0x19, 0x19, 0x15, 0x13, 0x13, 0x11, 0x00 }, /* N */
    { 0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e, 0x00 }, /* O */
    { 0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10, 0x00 }, /* P */
    { 0x0e, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0d, 0x00 }, /* Q */
    { 0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11, 0x00 }, /* R */
    { 0x0f, 0x10, 0x10, 0x0e, 0x01, 0x01, 0x1e, 0x00 }, /* S */
    { 0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x00 }, /* T */
    { 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e, 0x00 }, /* U */
    { 0x11, 0x11, 0x11, 0x11, 0x0a, 0x0a, 0x04, 0x00 }, /* V */
    { 0x11, 0x11, 0x11, 0x15, 0x15, 0x1b, 0x11, 0x00 }, /* W */
    { 0x11, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0x11, 0x00 }, /* X */
    { 0x11, 0x11, 0x11, 0x0a, 0x04, 0x04, 0x04, 0x00 }, /* Y */
    { 0x1f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1f, 0x00 }, /* Z */
    { 0x0e, 0x08, 0x08, 0x08, 0x08, 0x08, 0x0e, 0x00 }, /* [ */
    { 0x00, 0x10, 0x08, 0x04, 0x02, 0x01, 0x00, 0x00 }, /* backslash */
    { 0x0e, 0x02, 0x02, 0x02, 0x02, 0x02, 0x0e, 0x00 }, /* ] */
    { 0x04, 0x0a, 0x11, 0x00, 0x00, 0x00, 0x00, 0x00 }, /* ^ */
    { 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f }, /* _ */
    { 0x08, 0x04, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00 }, /* ` */
    { 0x00, 0x00, 0x0e, 0x01, 0x0f, 0x11, 0x0f, 0x00 }, /* a */
    { 0x10, 0x10, 0x1e, 0x11, 0x11, 0x11, 0x1e, 0x00 }, /* b */
    { 0x00, 0x00, 0x0e, 0x10, 0x10, 0x11, 0x0e, 0x00 }, /* c */
    { 0x01, 0x01, 0x0f, 0x11, 0x11, 0x11, 0x0f, 0x00 }, /* d */
    { 0x00, 0x00, 0x0e, 0x11, 0x1f, 0x10, 0x0e, 0x00 }, /* e */
    { 0x06, 0x09, 0x08, 0x1c, 0x08, 0x08, 0x08, 0x00 }, /* f */
    { 0x00, 0x00, 0x0f, 0x11, 0x11, 0x0f, 0x01, 0x0e }, /* g */
    { 0x10, 0x10, 0x1e, 0x11, 0x11, 0x11, 0x11, 0x00 }, /* h */
    { 0x04, 0x00, 0x0c, 0x04, 0x04, 0x04, 0x0e, 0x00 }, /* i */
    { 0x02, 0x00, 0x06, 0x02, 0x02, 0x02, 0x12, 0x0c }, /* j */
    { 0x10, 0x10, 0x12, 0x14, 0x18, 0x14, 0x12, 0x00 }, /* k */
    { 0x0c, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e, 0x00 }, /* l */
    { 0x00, 0x00, 0x1a, 0x15, 0x15, 0x15, 0x15, 0x00 }, /* m */
    { 0x00, 0x00, 0x1e, 0x11, 0x11, 0x11, 0x11, 0x00 }, /* n */
    { 0x00, 0x00, 0x0e, 0x11, 0x11, 0x11, 0x0e, 0x00 }, /* o */
    { 0x00, 0x00, 0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10 }, /* p */
    { 0x00, 0x00, 0x0f, 0x11, 0x11, 0x0f, 0x01, 0x01 }, /* q */
    { 0x00, 0x00, 0x16, 0x19, 0x10, 0x10, 0x10, 0x00 }, /* r */
    { 0x00, 0x00, 0x0f, 0x10, 0x0e, 0x01, 0x1e, 0x00 }, /* s */
    { 0x08, 0x08, 0x1c, 0x08, 0x08, 0x09, 0x06, 0x00 }, /* t */
    { 0x00, 0x00, 0x11, 0x11, 0x11, 0x13, 0x0d, 0x00 }, /* u */
    { 0x00, 0x00, 0x11, 0x11, 0x11, 0x0a, 0x04, 0x00 }, /* v */
    { 0x00, 0x00, 0x11, 0x15, 0x15, 0x15, 0x0a, 0x00 }, /* w */
    { 0x00, 0x00, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0x00 }, /* x */
    { 0x00, 0x00, 0x11, 0x11, 0x11, 0x0f, 0x01, 0x0e }, /* y */
    { 0x00, 0x00, 0x1f, 0x02, 0x04, 0x08, 0x1f, 0x00 }, /* z */
    { 0x03, 0x04, 0x04, 0x08, 0x04, 0x04, 0x03, 0x00 }, /* { */
    { 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x00 }, /* | */
    { 0x18, 0x04, 0x04, 0x02, 0x04, 0x04, 0x18, 0x00 }, /* } */
    { 0x00, 0x00, 0x09, 0x15, 0x12, 0x00, 0x00, 0x00 }, /* ~ */
    /* clang-format on */
};

int stk_glyph_bit(unsigned char c, int x, int y)
{
    if (x < 0 || y < 0 || x >= STK_GLYPH_WIDTH || y >= STK_GLYPH_HEIGHT) return 0;
    if (c < 32 || c > 126) c = '?';
    return rows[c - 32][y] >> (STK_GLYPH_WIDTH - 1 - x) & 1;
}

/* ---- drawing ---- */

int stk_canvas_create(stk_canvas *canvas, uint64_t width, uint64_t height, stk_canvas_color color,
                      stoke_error *err)
{
    *canvas = (stk_canvas){ 0 };
    if (!width || !height || width > UINT32_MAX || height > UINT32_MAX || width * height > UINT64_C(1) << 28)
        return stk_fail(err, STOKE_E_LIMIT,
                        "a picture of %llu x %llu pixels is too large: take fewer or smaller tiles",
                        (unsigned long long)width, (unsigned long long)height);
    canvas->pixels = stk_alloc((size_t)(width * height * 3));
    if (!canvas->pixels) return stk_fail(err, STOKE_E_NOMEM, "out of memory for a picture");
    canvas->width = (uint32_t)width;
    canvas->height = (uint32_t)height;
    stk_canvas_fill(canvas, 0, 0, canvas->width, canvas->height, color);
    return STOKE_OK;
}

void stk_canvas_free(stk_canvas *canvas)
{
    stk_free(canvas->pixels);
    *canvas = (stk_canvas){ 0 };
}

stoke_image stk_canvas_image(const stk_canvas *canvas)
{
    return (stoke_image){ .data = canvas->pixels,
                          .stride = (size_t)canvas->width * 3,
                          .width = canvas->width,
                          .height = canvas->height,
                          .channels = 3,
                          .depth = 1 };
}

static uint8_t *pixel_at(const stk_canvas *canvas, uint32_t x, uint32_t y)
{
    return canvas->pixels + ((size_t)y * canvas->width + x) * 3;
}

/* End of a span that starts inside, cut at the edge. */
static uint32_t span_end(uint32_t start, uint32_t length, uint32_t edge)
{
    return start >= edge ? start : length > edge - start ? edge : start + length;
}

void stk_canvas_fill(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                     stk_canvas_color color)
{
    uint32_t right = span_end(x, width, canvas->width), bottom = span_end(y, height, canvas->height);
    for (uint32_t row = y; row < bottom; row++) {
        uint8_t *p = pixel_at(canvas, x, row);
        for (uint32_t column = x; column < right; column++, p += 3) {
            p[0] = color.r;
            p[1] = color.g;
            p[2] = color.b;
        }
    }
}

static uint8_t mix(unsigned from, unsigned to, unsigned alpha)
{
    return (uint8_t)((from * (256 - alpha) + to * alpha + 128) >> 8);
}

void stk_canvas_blend(stk_canvas *canvas, uint32_t x, uint32_t y, stk_canvas_color color, unsigned alpha)
{
    if (x >= canvas->width || y >= canvas->height) return;
    uint8_t *p = pixel_at(canvas, x, y);
    p[0] = mix(p[0], color.r, alpha);
    p[1] = mix(p[1], color.g, alpha);
    p[2] = mix(p[2], color.b, alpha);
}

/* The part of source pixel `s` that lies under target pixel `t`: both axes are cut into source * target
 * units, a source pixel is `target` units long and a target pixel `source` units. All whole numbers. */
static uint64_t overlap(uint64_t s, uint64_t t, uint64_t source, uint64_t target)
{
    uint64_t from = s * target > t * source ? s * target : t * source;
    uint64_t s_end = (s + 1) * target, t_end = (t + 1) * source;
    return (s_end < t_end ? s_end : t_end) - from;
}

static void average_area(const stoke_image *image, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                         uint8_t *out)
{
    uint64_t sum[3] = { 0 }, total = (uint64_t)image->width * image->height;
    uint32_t x0 = (uint32_t)((uint64_t)x * image->width / width);
    uint32_t y0 = (uint32_t)((uint64_t)y * image->height / height);
    uint32_t x1 = (uint32_t)((((uint64_t)x + 1) * image->width + width - 1) / width);
    uint32_t y1 = (uint32_t)((((uint64_t)y + 1) * image->height + height - 1) / height);
    for (uint32_t sy = y0; sy < y1; sy++) {
        const uint8_t *p = (const uint8_t *)image->data + sy * image->stride + (size_t)x0 * 3;
        uint64_t wy = overlap(sy, y, image->height, height);
        for (uint32_t sx = x0; sx < x1; sx++, p += 3) {
            uint64_t weight = wy * overlap(sx, x, image->width, width);
            for (int c = 0; c < 3; c++) sum[c] += weight * p[c];
        }
    }
    for (int c = 0; c < 3; c++) out[c] = (uint8_t)((sum[c] + total / 2) / total);
}

void stk_canvas_blit(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                     const stoke_image *image)
{
    uint32_t right = span_end(x, width, canvas->width), bottom = span_end(y, height, canvas->height);
    for (uint32_t row = y; row < bottom; row++)
        for (uint32_t column = x; column < right; column++)
            average_area(image, column - x, row - y, width, height, pixel_at(canvas, column, row));
}

/* ---- text ---- */

enum { FINE = 4, FINE_WIDTH = STK_GLYPH_WIDTH * FINE, FINE_HEIGHT = STK_GLYPH_HEIGHT * FINE };

/* A bitmap with an empty border, so that neighbours need no tests. */
typedef struct bitmap {
    int width, height;
    uint8_t bit[FINE_HEIGHT + 2][FINE_WIDTH + 2];
} bitmap;

/* Doubles a bitmap the way Scale2x does: a new corner takes the colour of two equal neighbours when the other
 * two differ, which turns staircases into slopes and keeps right angles. */
static void double_size(const bitmap *in, bitmap *out)
{
    memset(out, 0, sizeof *out);
    out->width = in->width * 2;
    out->height = in->height * 2;
    for (int y = 1; y <= in->height; y++)
        for (int x = 1; x <= in->width; x++) {
            uint8_t e = in->bit[y][x], up = in->bit[y - 1][x], down = in->bit[y + 1][x];
            uint8_t left = in->bit[y][x - 1], right = in->bit[y][x + 1];
            uint8_t *a = &out->bit[2 * y - 1][2 * x - 1], *b = &out->bit[2 * y][2 * x - 1];
            int corners = up != down && left != right;
            a[0] = corners && left == up ? left : e;
            a[1] = corners && up == right ? right : e;
            b[0] = corners && left == down ? left : e;
            b[1] = corners && down == right ? right : e;
        }
}

/* Share of a target pixel the glyph covers, 0 .. 16: sixteen samples of the four times finer glyph. */
static unsigned coverage(const bitmap *glyph, unsigned x, unsigned y, unsigned scale)
{
    unsigned covered = 0;
    for (unsigned i = 0; i < FINE * FINE; i++)
        covered += glyph->bit[1 + (y * FINE + i / FINE) / scale][1 + (x * FINE + i % FINE) / scale];
    return covered;
}

static void draw_glyph(stk_canvas *canvas, uint32_t x, uint32_t y, unsigned char c, unsigned scale,
                       stk_canvas_color color)
{
    bitmap plain = { STK_GLYPH_WIDTH, STK_GLYPH_HEIGHT, { { 0 } } }, twice, glyph;
    for (int gy = 0; gy < STK_GLYPH_HEIGHT; gy++)
        for (int gx = 0; gx < STK_GLYPH_WIDTH; gx++)
            plain.bit[gy + 1][gx + 1] = (uint8_t)stk_glyph_bit(c, gx, gy);
    double_size(&plain, &twice);
    double_size(&twice, &glyph);
    for (unsigned gy = 0; gy < STK_GLYPH_HEIGHT * scale; gy++)
        for (unsigned gx = 0; gx < STK_GLYPH_WIDTH * scale; gx++) {
            unsigned alpha = scale > 1 ? coverage(&glyph, gx, gy, scale) * 16
                                       : 256 * (unsigned)stk_glyph_bit(c, (int)gx, (int)gy);
            if (alpha) stk_canvas_blend(canvas, x + gx, y + gy, color, alpha);
        }
}

/* Pixels of the bitmap font that a letter takes; *code becomes '?' where it cannot be drawn. */
static unsigned advance_of(uint32_t *code)
{
    unsigned advance = *code >= 0x20 && *code < 0x7f ? STK_GLYPH_ADVANCE : 0;
    if (!advance && *code > 0x7f && *code != STK_UTF8_BAD) advance = stk_typeface_advance(*code);
    if (!advance) *code = '?';
    return advance ? advance : STK_GLYPH_ADVANCE;
}

void stk_canvas_text(stk_canvas *canvas, uint32_t x, uint32_t y, const char *text, unsigned scale,
                     stk_canvas_color color)
{
    while (*text && x < canvas->width) {
        uint32_t code = stk_utf8_next(&text);
        const unsigned advance = advance_of(&code);
        if (!stk_typeface_draw(canvas, x, y, code, scale, color) && code < 0x80)
            draw_glyph(canvas, x, y, (unsigned char)code, scale, color);
        x += advance * scale;
    }
}

/* What a text takes of a line, with the gap behind its last letter. */
static size_t advance_sum(const char *text)
{
    size_t sum = 0;
    while (*text) {
        uint32_t code = stk_utf8_next(&text);
        sum += advance_of(&code);
    }
    return sum;
}

uint32_t stk_text_width(const char *text, unsigned scale)
{
    const size_t sum = advance_sum(text);
    return sum ? (uint32_t)(sum - 1) * scale : 0;
}

void stk_text_fit(const char *text, unsigned scale, uint32_t width, char *out, size_t size)
{
    const size_t all = advance_sum(text);
    size_t cells = (width / scale + 1) / STK_GLYPH_ADVANCE, n = 0, done = 0;
    if (cells > (size - 1) / STK_LETTER_BYTES) cells = (size - 1) / STK_LETTER_BYTES;
    /* The end of a file's name tells more than its middle: two thirds from the front, the rest from the end.
     */
    const int cut = all > cells * STK_GLYPH_ADVANCE;
    const size_t front = cut ? (cells > 2 ? (cells - 2) * 2 / 3 : 0) * STK_GLYPH_ADVANCE : all;
    int leaving = 0;
    size_t resume = all, kept = 0;
    while (*text) {
        const char *start = text;
        uint32_t code = stk_utf8_next(&text);
        const unsigned advance = advance_of(&code);
        if (cut && !leaving && done + advance > front) {
            leaving = 1;
            n += (size_t)snprintf(out + n, size - n, "%.*s", (int)(cells < 2 ? cells : 2), "..");
            resume = all - (cells > 2 ? (cells - 2) * STK_GLYPH_ADVANCE - kept : 0);
        }
        if (!leaving || done >= resume) {
            if (code == '?')
                out[n++] = '?';
            else
                memcpy(out + n, start, (size_t)(text - start)), n += (size_t)(text - start);
            kept += advance;
        }
        done += advance;
    }
    out[n] = 0;
}

/* Bytes of the next line: up to `letters` of them, whole code points. */
static size_t line_length(const char *text, size_t letters)
{
    size_t all = strlen(text), cut = 0;
    const char *newline = strchr(text, '\n');
    if (newline && (size_t)(newline - text) <= letters) return (size_t)(newline - text) + 1;
    if (all <= letters) return all;
    for (size_t i = 1; i <= letters; i++)
        if (text[i - 1] == ' ' || text[i - 1] == ',' || text[i - 1] == '(' || text[i] == ' ') cut = i;
    if (cut) return cut;
    while (letters > 1 && ((unsigned char)text[letters] & 0xc0) == 0x80) letters--;
    return letters;
}

int stk_text_line(const char **text, unsigned scale, uint64_t width, char line[STK_LINE_BYTES])
{
    uint64_t letters = (width / scale + 1) / STK_GLYPH_ADVANCE;
    char raw[STK_LINE_LETTERS + 1];
    if (!*text || !**text) return 0;
    if (letters > STK_LINE_LETTERS) letters = STK_LINE_LETTERS;
    const size_t length = line_length(*text, letters ? (size_t)letters : 1);
    size_t shown = length;
    while (shown && ((*text)[shown - 1] == ' ' || (*text)[shown - 1] == '\n')) shown--;
    memcpy(raw, *text, shown);
    raw[shown] = 0;
    stk_text_fit(raw, 1, UINT32_MAX / 2, line, STK_LINE_BYTES);
    *text += length;
    while (**text == ' ') ++*text;
    return 1;
}
