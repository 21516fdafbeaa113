/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels and class ids into the row of a batch, in one pass: convert, normalise, place, mirror, fill.
 */
#include "src/pix/pix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "kernels/half.h"
#include "src/pix/pix_table.h"

/* Windows for 16-bit (medical, microscopy) pictures: the interesting values rarely fill 0..65535. */

enum { VALUES = 65536 };

/* A number that is followed by `end`. strtod takes "inf", "nan" and hexadecimal too; the range check refuses
 * the first two. */
static int parse_bound(const char **text, int percentile, char end, double *value)
{
    if (percentile && *(*text)++ != 'p') return 0;
    char *rest;
    *value = strtod(*text, &rest);
    if (rest == *text || *rest != end) return 0;
    *text = rest + 1;
    return *value >= 0 && *value <= (percentile ? 100.0 : 65535.0);
}

int stk_window_parse(const char *text, stk_pix_window *window, stoke_error *err)
{
    *window = (stk_pix_window){ .mode = STK_WINDOW_NONE };
    if (!text || !strcmp(text, "none")) return STOKE_OK;
    const int percentile = text[0] == 'p';
    const char *p = text;
    stk_pix_window parsed = { .mode = percentile ? STK_WINDOW_PERCENTILE : STK_WINDOW_RANGE };
    if (!parse_bound(&p, percentile, ':', &parsed.lo) || !parse_bound(&p, percentile, 0, &parsed.hi) ||
        parsed.lo >= parsed.hi)
        return stk_fail(
            err, STOKE_E_INVALID,
            "window \"%s\": not none, LO:HI with 0 <= LO < HI <= 65535, or pLO:pHI with percentiles 0..100",
            text);
    *window = parsed;
    return STOKE_OK;
}

static uint16_t *row_of(const stoke_image *image, uint32_t y)
{
    return (uint16_t *)((uint8_t *)image->data + y * image->stride);
}

static void count_values(const stoke_image *image, uint32_t *histogram)
{
    const size_t samples = (size_t)image->width * image->channels;
    memset(histogram, 0, VALUES * sizeof *histogram);
    for (uint32_t y = 0; y < image->height; y++)
        for (size_t i = 0; i < samples; i++) histogram[row_of(image, y)[i]]++;
}

/* Value of the sample with this rank, counted from 0, if all were sorted. */
static double ranked(const uint32_t *histogram, uint64_t rank)
{
    uint64_t below = 0;
    uint32_t value = 0;
    while (value < VALUES - 1 && (below += histogram[value]) <= rank) value++;
    return value;
}

/* NumPy's "linear": between the two samples around rank p / 100 * (n - 1); from the nearer side, as NumPy
 * does it. */
static double percentile_of(const uint32_t *histogram, uint64_t n, double p)
{
    const double position = p / 100.0 * (double)(n - 1), whole = floor(position), part = position - whole;
    const double a = ranked(histogram, (uint64_t)whole);
    const double b = part > 0 ? ranked(histogram, (uint64_t)whole + 1) : a;
    return part < 0.5 ? a + (b - a) * part : b - (b - a) * (1 - part);
}

void stk_window_apply(const stk_pix_window *window, const stoke_image *image, uint32_t *histogram)
{
    if (window->mode == STK_WINDOW_NONE || image->depth != 2) return;
    const size_t samples = (size_t)image->width * image->channels;
    double lo = window->lo, hi = window->hi;
    if (window->mode == STK_WINDOW_PERCENTILE) {
        count_values(image, histogram);
        lo = percentile_of(histogram, (uint64_t)samples * image->height, window->lo);
        hi = percentile_of(histogram, (uint64_t)samples * image->height, window->hi);
    }
    /* From here on the counters are no longer needed: their memory becomes the table value -> stretched
     * value. An even picture (lo == hi) becomes black, with what lies above it white. */
    uint32_t *stretched = histogram;
    for (uint32_t v = 0; v < VALUES; v++)
        stretched[v] = v <= lo ? 0 : v >= hi ? 65535 : (uint32_t)((v - lo) * 65535.0 / (hi - lo) + 0.5);
    for (uint32_t y = 0; y < image->height; y++)
        for (size_t i = 0; i < samples; i++) row_of(image, y)[i] = (uint16_t)stretched[row_of(image, y)[i]];
}

/* Mirrored rows go through a buffer of this many pixels, so that mirroring needs no second set of kernels: 3
 * KB stay in the first level cache. */
enum { CHUNK = 512 };

/* ---- how a value becomes an element ---- */

/* lut[c][v] is v * a + b rounded once. To compute it in floats, a and b are split: the high parts are
 * multiples of a power of two so coarse that v * high + high_bias is exact for v <= 255; the low parts are
 * what is left, 2^-15 of it and less. Their rounding is then too small to matter when the two halves are
 * added, which rounds once. 2 products and 3 sums; test_pix tries all v. */
static void split(stk_pix_writer *writer, int i)
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

/* Everything that follows from scale and bias. The tables hold what the kernels compute, so that there is one
 * answer for any normalisation; test_pix checks that for the usual ones it is the value rounded once. */
static void tabulate(stk_pix_writer *writer)
{
    for (int i = 0; i < 24; i++) split(writer, i);
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) {
            const float high = (float)v * writer->high[c] + writer->high_bias[c];
            const float low = (float)v * writer->low[c] + writer->low_bias[c];
            const float value = high + low;
            writer->lut[c][v] = value;
            writer->lut16[c][v] = writer->dtype == STOKE_DTYPE_BF16 ? k_bf16(value) : k_f16(value);
        }
        writer->fill[c] = writer->lut[c][0];
    }
}

void stk_writer_normalize(stk_pix_writer *writer, const double mean[3], const double deviation[3])
{
    for (int c = 0; c < 3; c++) {
        writer->scale[c] = 1.0 / deviation[c];
        writer->bias[c] = -mean[c] / deviation[c];
    }
    tabulate(writer);
}

void stk_writer_init(stk_pix_writer *writer, stoke_dtype dtype, stoke_layout layout,
                     stoke_normalize normalize)
{
    static const double mean[3] = { 0.485, 0.456, 0.406 }, deviation[3] = { 0.229, 0.224, 0.225 };
    *writer = (stk_pix_writer){ .dtype = dtype, .layout = layout };
    for (int c = 0; c < 3; c++) writer->scale[c] = normalize == STOKE_NORMALIZE_UNIT ? 1.0 : 255.0;
    if (normalize == STOKE_NORMALIZE_IMAGENET)
        stk_writer_normalize(writer, mean, deviation);
    else
        tabulate(writer);
}

/* ---- placement ---- */

/* The part of an axis that the source covers, after mirroring: [start, start + length) of `out`. */
typedef struct span {
    size_t start, length;
} span;

/* A source that hangs over the edge is cut: the plan never asks for it, and it costs nothing to be safe. */
static span place(uint32_t length, uint32_t out, uint32_t at, int mirrored)
{
    span s = { 0 };
    if (at >= out) return s;
    s.length = length < out - at ? length : out - at;
    s.start = mirrored ? out - at - s.length : at;
    return s;
}

/* Row i of those that are seen, counted from the top of the output. */
static const uint8_t *source_row(const stoke_image *src, span rows, size_t i, int mirrored)
{
    return (const uint8_t *)src->data + (mirrored ? rows.length - 1 - i : i) * src->stride;
}

/* Asks for a row that will be read backwards. Hardware follows that only after a few misses, and starts again
 * with every row: the stage `write` of hflip(p=1), 512 x 512, took 0.43 times as long as the decoding, and
 * takes 0.29-0.32 when rows are asked for one, two or four before their turn. */
static void fetch_mirrored(const stoke_image *src, span rows, size_t i, int mirrored, size_t bytes)
{
    enum { AHEAD = 2, LINE = 64 };
    if (rows.length - i <= AHEAD) return;
    const uint8_t *row = source_row(src, rows, i + AHEAD, mirrored);
    for (size_t at = 0; at < bytes; at += LINE) __builtin_prefetch(row + at);
}

/* ---- images ---- */

typedef struct target {
    uint8_t *row; /* the batch row */
    size_t width, height, element;
    const stk_pix_writer *writer;
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
            const uint16_t bits = t->writer->dtype == STOKE_DTYPE_F16 ? k_f16(fill) : k_bf16(fill);
            for (size_t i = 0; i < n; i++) ((uint16_t *)out)[i * step] = bits;
        }
    }
}

static void write_row(const target *t, stk_write_fn *write, stk_reverse_fn *reverse, const uint8_t *src,
                      size_t pixel, span s, size_t y)
{
    const size_t plane = t->width * t->height;
    if (!reverse) {
        write(t->writer, element_at(t, 0, y, s.start), plane, src, s.length);
        return;
    }
    _Alignas(32) uint8_t chunk[CHUNK * 6];
    for (size_t done = 0, n; done < s.length; done += n) {
        n = s.length - done < CHUNK ? s.length - done : CHUNK;
        reverse(chunk, src + (s.length - done - n) * pixel, n);
        write(t->writer, element_at(t, 0, y, s.start + done), plane, chunk, n);
    }
}

static stk_write_fn *write_fn(const stk_pix_writer *writer, uint8_t depth)
{
    const stk_pix_table *pix = stk_pix();
    return (depth == 1 ? pix->write_u8 : pix->write_u16)[writer->dtype][writer->layout];
}

void stk_write_image(const stk_pix_writer *writer, const stoke_image *src, void *row, uint32_t out_width,
                     uint32_t out_height, uint32_t x, uint32_t y, int mirror)
{
    const stk_pix_table *pix = stk_pix();
    const target t = { row, out_width, out_height, stk_element_bytes(writer->dtype), writer };
    stk_write_fn *write = write_fn(writer, src->depth);
    stk_reverse_fn *reverse = !(mirror & STK_MIRROR_H) ? NULL
                              : src->depth == 1        ? pix->reverse_3
                                                       : pix->reverse_6;
    const span s = place(src->width, out_width, x, mirror & STK_MIRROR_H);
    const span rows = place(src->height, out_height, y, mirror & STK_MIRROR_V);
    const size_t right = s.start + s.length, below = rows.start + rows.length;
    const size_t pixel = 3u * src->depth;

    fill_pixels(&t, 0, 0, rows.start * out_width);
    /* Full rows without gaps, the usual case of a picture resized to fit: one long row. */
    const int whole = !mirror && s.length == out_width && src->stride == s.length * pixel;
    if (whole)
        write(writer, element_at(&t, 0, rows.start, 0), (size_t)out_width * out_height, src->data,
              rows.length * s.length);
    for (size_t i = 0; i < rows.length && !whole; i++) {
        if (reverse) fetch_mirrored(src, rows, i, mirror & STK_MIRROR_V, s.length * pixel);
        fill_pixels(&t, rows.start + i, 0, s.start);
        write_row(&t, write, reverse, source_row(src, rows, i, mirror & STK_MIRROR_V), pixel, s,
                  rows.start + i);
        fill_pixels(&t, rows.start + i, right, out_width - right);
    }
    fill_pixels(&t, below, 0, (out_height - below) * out_width);
}

void stk_write_image_line(const stk_pix_writer *writer, const void *pixels, uint8_t depth, void *row,
                          uint32_t out_width, uint32_t out_height, uint32_t y)
{
    const target t = { row, out_width, out_height, stk_element_bytes(writer->dtype), writer };
    write_fn(writer, depth)(writer, element_at(&t, 0, y, 0), (size_t)out_width * out_height, pixels,
                            out_width);
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

static stk_widen_fn *widen_fn(stoke_dtype dtype, uint8_t depth)
{
    const stk_pix_table *pix = stk_pix();
    return (depth == 1 ? pix->widen_u8 : pix->widen_u16)[dtype];
}

void stk_write_mask(const stoke_image *src, stoke_dtype dtype, void *row, uint32_t out_width,
                    uint32_t out_height, uint32_t x, uint32_t y, int mirror, uint32_t fill)
{
    const stk_pix_table *pix = stk_pix();
    stk_widen_fn *widen = widen_fn(dtype, src->depth);
    stk_reverse_fn *reverse = !(mirror & STK_MIRROR_H) ? NULL
                              : src->depth == 1        ? pix->reverse_1
                                                       : pix->reverse_2;
    const size_t element = stk_element_bytes(dtype);
    const span s = place(src->width, out_width, x, mirror & STK_MIRROR_H);
    const span rows = place(src->height, out_height, y, mirror & STK_MIRROR_V);
    const size_t right = s.start + s.length, below = rows.start + rows.length;

    fill_ids(dtype, row, 0, rows.start * out_width, fill);
    for (size_t i = 0; i < rows.length; i++) {
        const size_t at = (rows.start + i) * out_width;
        if (reverse) fetch_mirrored(src, rows, i, mirror & STK_MIRROR_V, s.length * src->depth);
        fill_ids(dtype, row, at, s.start, fill);
        widen_row(widen, reverse, (uint8_t *)row + (at + s.start) * element, element,
                  source_row(src, rows, i, mirror & STK_MIRROR_V), src->depth, s.length);
        fill_ids(dtype, row, at + right, out_width - right, fill);
    }
    fill_ids(dtype, row, below * out_width, (out_height - below) * out_width, fill);
}

void stk_write_mask_line(const void *ids, uint8_t depth, stoke_dtype dtype, void *row, uint32_t out_width,
                         uint32_t y)
{
    uint8_t *out = (uint8_t *)row + (size_t)y * out_width * stk_element_bytes(dtype);
    widen_fn(dtype, depth)(out, ids, out_width);
}

void stk_fill_mask_box(stoke_dtype dtype, void *row, uint32_t out_width, const stoke_box *box, uint32_t fill)
{
    for (uint32_t y = box->y; y < box->y + box->height; y++)
        fill_ids(dtype, row, (size_t)y * out_width + box->x, box->width, fill);
}
