/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels and class ids into the row of a batch, in one pass: convert, normalise, place, mirror, fill.
 */
#include "src/pix/pix.h"

#include <math.h>
#include <string.h>

#include "src/pix/half.h"
#include "src/pix/pix_table.h"

/* Mirrored rows go through a buffer of this many pixels, so that mirroring needs no second set of kernels: 3
 * KB stay in the first level cache. */
enum { CHUNK = 512 };

/* ---- how a value becomes an element ---- */

/* lut[c][v] is v * a + b rounded once. To compute it in floats, a and b are split: the high parts are
 * multiples of a power of two so coarse that v * high + high_bias is exact for v <= 255; the low parts are
 * what is left, 2^-15 of it and less. Their rounding is then too small to matter when the two halves are
 * added, which rounds once. 2 products and 3 sums; test_pix tries all v. */
static void split(stk_writer *writer, int i)
{
    const double a = writer->scale[i % 3] / 255.0, b = writer->bias[i % 3];
    int exponent;
    frexp(fmax(255.0 * fabs(a), fabs(b)), &exponent);
    const double grid = ldexp(1.0, exponent - 24);
    writer->high[i] = (float)(rint(a / grid) * grid);
    writer->high_bias[i] = (float)(rint(b / grid) * grid);
    writer->low[i] = (float)(a - writer->high[i]);
    writer->low_bias[i] = (float)(b - writer->high_bias[i]);
}

void stk_writer_init(stk_writer *writer, stoke_dtype dtype, stoke_layout layout, stoke_normalize normalize)
{
    static const double mean[3] = { 0.485, 0.456, 0.406 }, deviation[3] = { 0.229, 0.224, 0.225 };
    *writer = (stk_writer){ .dtype = dtype, .layout = layout };
    for (int c = 0; c < 3; c++) {
        const int imagenet = normalize == STOKE_NORMALIZE_IMAGENET;
        writer->scale[c] = imagenet ? 1.0 / deviation[c] : normalize == STOKE_NORMALIZE_UNIT ? 1.0 : 255.0;
        writer->bias[c] = imagenet ? -mean[c] / deviation[c] : 0.0;
        for (int v = 0; v < 256; v++) {
            double value = v; /* none: as it is */
            if (normalize == STOKE_NORMALIZE_UNIT) value = v / 255.0;
            if (imagenet) value = (v / 255.0 - mean[c]) / deviation[c];
            writer->lut[c][v] = (float)value;
            writer->lut16[c][v] = dtype == STOKE_DTYPE_BF16 ? stk_bf16((float)value) : stk_f16((float)value);
        }
        writer->fill[c] = writer->lut[c][0];
    }
    for (int i = 0; i < 24; i++) split(writer, i);
}

/* ---- placement ---- */

/* The part of a row that the source covers, after mirroring: [left, left + width) of out_width. */
typedef struct span {
    size_t left, width;
} span;

/* A source that hangs over the edge is cut: the plan never asks for it, and it costs nothing to be safe. */
static span place(uint32_t width, uint32_t out_width, uint32_t x, int hflip)
{
    span s = { 0 };
    if (x >= out_width) return s;
    s.width = width < out_width - x ? width : out_width - x;
    s.left = hflip ? out_width - x - s.width : x;
    return s;
}

static const uint8_t *source_row(const stoke_image *src, uint32_t y)
{
    return (const uint8_t *)src->data + (size_t)y * src->stride;
}

/* ---- images ---- */

typedef struct target {
    uint8_t *row; /* the batch row */
    size_t width, height, element;
    const stk_writer *writer;
} target;

static uint8_t *element_at(const target *t, size_t channel, size_t y, size_t x)
{
    const size_t at = t->writer->layout == STOKE_LAYOUT_CHW ? (channel * t->height + y) * t->width + x
                                                            : (y * t->width + x) * 3 + channel;
    return t->row + at * t->element;
}

/* `n` pixels from (x, y) on become fill; they may run over the end of a row into the next. */
static void fill_pixels(const target *t, size_t y, size_t x, size_t n)
{
    const size_t step = t->writer->layout == STOKE_LAYOUT_CHW ? 1 : 3;
    for (size_t c = 0; c < 3 && n; c++) {
        const float fill = t->writer->fill[c];
        void *out = element_at(t, c, y, x);
        if (t->writer->dtype == STOKE_DTYPE_U8) {
            for (size_t i = 0; i < n; i++) ((uint8_t *)out)[i * step] = 0;
        } else if (t->writer->dtype == STOKE_DTYPE_F32) {
            for (size_t i = 0; i < n; i++) ((float *)out)[i * step] = fill;
        } else {
            const uint16_t bits = t->writer->dtype == STOKE_DTYPE_F16 ? stk_f16(fill) : stk_bf16(fill);
            for (size_t i = 0; i < n; i++) ((uint16_t *)out)[i * step] = bits;
        }
    }
}

static void write_row(const target *t, stk_write_fn *write, stk_reverse_fn *reverse, const uint8_t *src,
                      size_t pixel, span s, size_t y)
{
    const size_t plane = t->width * t->height;
    if (!reverse) {
        write(t->writer, element_at(t, 0, y, s.left), plane, src, s.width);
        return;
    }
    _Alignas(32) uint8_t chunk[CHUNK * 6];
    for (size_t done = 0, n; done < s.width; done += n) {
        n = s.width - done < CHUNK ? s.width - done : CHUNK;
        reverse(chunk, src + (s.width - done - n) * pixel, n);
        write(t->writer, element_at(t, 0, y, s.left + done), plane, chunk, n);
    }
}

void stk_write_image(const stk_writer *writer, const stoke_image *src, void *row, uint32_t out_width,
                     uint32_t out_height, uint32_t x, uint32_t y, int hflip)
{
    const stk_pix_table *pix = stk_pix();
    const target t = { row, out_width, out_height, stk_element_bytes(writer->dtype), writer };
    stk_write_fn *write = (src->depth == 1 ? pix->write_u8 : pix->write_u16)[writer->dtype][writer->layout];
    stk_reverse_fn *reverse = !hflip ? NULL : src->depth == 1 ? pix->reverse_3 : pix->reverse_6;
    const span s = place(src->width, out_width, x, hflip);
    const uint32_t top = y < out_height ? y : out_height;
    const uint32_t rows = src->height < out_height - top ? src->height : out_height - top;
    const size_t right = s.left + s.width;

    fill_pixels(&t, 0, 0, (size_t)top * out_width);
    /* Full rows without gaps, the usual case of a picture resized to fit: one long row. */
    const int whole = !reverse && s.width == out_width && src->stride == s.width * 3 * src->depth;
    if (whole)
        write(writer, element_at(&t, 0, top, 0), (size_t)out_width * out_height, src->data, rows * s.width);
    for (uint32_t i = 0; i < rows && !whole; i++) {
        fill_pixels(&t, top + i, 0, s.left);
        write_row(&t, write, reverse, source_row(src, i), 3u * src->depth, s, top + i);
        fill_pixels(&t, top + i, right, out_width - right);
    }
    fill_pixels(&t, top + rows, 0, (size_t)(out_height - top - rows) * out_width);
}

/* ---- masks ---- */

static void fill_ids(stoke_dtype dtype, uint8_t *row, size_t first, size_t n, uint32_t fill)
{
    void *out = row + first * stk_element_bytes(dtype);
    for (size_t i = 0; i < n; i++) {
        if (dtype == STOKE_DTYPE_U8)
            ((uint8_t *)out)[i] = (uint8_t)fill;
        else if (dtype == STOKE_DTYPE_U16)
            ((uint16_t *)out)[i] = (uint16_t)fill;
        else if (dtype == STOKE_DTYPE_I32)
            ((int32_t *)out)[i] = (int32_t)fill;
        else
            ((int64_t *)out)[i] = (int32_t)fill; /* -1 passed as uint32_t stays -1 */
    }
}

static void widen_row(stk_widen_fn *widen, stk_reverse_fn *reverse, uint8_t *out, size_t element,
                      const uint8_t *src, size_t depth, size_t width)
{
    if (!reverse) {
        widen(out, src, width);
        return;
    }
    _Alignas(32) uint8_t chunk[CHUNK * 2];
    for (size_t done = 0, n; done < width; done += n) {
        n = width - done < CHUNK ? width - done : CHUNK;
        reverse(chunk, src + (width - done - n) * depth, n);
        widen(out + done * element, chunk, n);
    }
}

void stk_write_mask(const stoke_image *src, stoke_dtype dtype, void *row, uint32_t out_width,
                    uint32_t out_height, uint32_t x, uint32_t y, int hflip, uint32_t fill)
{
    const stk_pix_table *pix = stk_pix();
    stk_widen_fn *widen = (src->depth == 1 ? pix->widen_u8 : pix->widen_u16)[dtype];
    stk_reverse_fn *reverse = !hflip ? NULL : src->depth == 1 ? pix->reverse_1 : pix->reverse_2;
    const size_t element = stk_element_bytes(dtype);
    const span s = place(src->width, out_width, x, hflip);
    const uint32_t top = y < out_height ? y : out_height;
    const uint32_t rows = src->height < out_height - top ? src->height : out_height - top;
    const size_t right = s.left + s.width;

    fill_ids(dtype, row, 0, (size_t)top * out_width, fill);
    for (uint32_t i = 0; i < rows; i++) {
        const size_t at = (size_t)(top + i) * out_width;
        fill_ids(dtype, row, at, s.left, fill);
        widen_row(widen, reverse, (uint8_t *)row + (at + s.left) * element, element, source_row(src, i),
                  src->depth, s.width);
        fill_ids(dtype, row, at + right, out_width - right, fill);
    }
    fill_ids(dtype, row, (size_t)(top + rows) * out_width, (size_t)(out_height - top - rows) * out_width,
             fill);
}
