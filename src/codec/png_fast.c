/* SPDX-License-Identifier: Apache-2.0
 *
 * The short way for plain PNG: 8 bits, not interlaced, no transparency, which is what masks and most images
 * of training sets are. libdeflate inflates the joined IDAT chunks in one go, and SSE2 undoes the filters.
 *
 * It accepts only files that libspng would decode to the same pixels, and decides nothing else: whatever
 * is odd (an unusual chunk, a wrong checksum, too little or too much data) is left to libspng, so every
 * error message has one origin.
 */
#include "src/codec/codec.h"

#include <libdeflate.h>
#include <string.h>

#include "src/base/error.h"

typedef struct plain_png {
    uint32_t width, height;
    unsigned samples;
    stk_codec_layout layout;
    const uint8_t *plte;
    size_t plte_size;
    const uint8_t *data; /* the zlib stream: inside the file, or joined in the decoder's buffer */
    size_t data_size;
} plain_png;

/* The next chunk that matters, if its checksum is right. */
static int next_chunk(const stk_codec_job *job, size_t *at, stk_codec_png_chunk *c)
{
    return stk_png_next_chunk(job->bytes, job->size, at, c) && stk_png_crc_is_right(c);
}

static int read_header(const stk_codec_png_chunk *c, plain_png *png)
{
    static const struct {
        uint8_t samples, layout;
    } kinds[7] = { { 1, STK_GREY },       { 0, 0 }, { 3, STK_RGB }, { 1, STK_PALETTE },
                   { 2, STK_GREY_ALPHA }, { 0, 0 }, { 4, STK_RGBA } };
    if (!stk_png_is(c, "IHDR") || c->size != 13) return 0;
    png->width = stk_big32(c->data);
    png->height = stk_big32(c->data + 4);
    /* bit depth 8; compression, filter and interlace method 0 */
    if (c->data[8] != 8 || c->data[9] > 6 || c->data[10] || c->data[11] || c->data[12]) return 0;
    png->samples = kinds[c->data[9]].samples;
    png->layout = kinds[c->data[9]].layout;
    return png->samples && png->width && png->height && png->width <= INT32_MAX && png->height <= INT32_MAX;
}

/* All IDAT chunks: one is used where it lies, several are joined. `at` points behind the first one. */
static int gather(const stk_codec_job *job, size_t at, const stk_codec_png_chunk *first, plain_png *png)
{
    png->data = first->data;
    png->data_size = first->size;
    size_t ahead = at;
    stk_codec_png_chunk c;
    if (!next_chunk(job, &ahead, &c)) return 0;
    if (!stk_png_is(&c, "IDAT")) return 1;
    /* All of them together are smaller than the rest of the file. */
    uint8_t *joined =
        stk_buffer_reserve(&job->decoder->packed, job->size - (size_t)(first->data - job->bytes));
    if (!joined) return 0;
    memcpy(joined, first->data, first->size);
    do {
        memcpy(joined + png->data_size, c.data, c.size);
        png->data_size += c.size;
        if (!next_chunk(job, &ahead, &c)) return 0;
    } while (stk_png_is(&c, "IDAT") && c.size);
    png->data = joined;
    return !stk_png_is(&c, "IDAT");
}

static int parse(const stk_codec_job *job, plain_png *png)
{
    size_t at = STK_PNG_SIGNATURE;
    stk_codec_png_chunk c;
    if (!next_chunk(job, &at, &c) || !read_header(&c, png)) return 0;
    while (next_chunk(job, &at, &c)) {
        if (stk_png_is(&c, "IDAT"))
            return (png->layout != STK_PALETTE || png->plte) && c.size && gather(job, at, &c, png);
        if (stk_png_is(&c, "PLTE")) {
            if (png->layout != STK_PALETTE || png->plte || !c.size || c.size % 3 || c.size > 768) return 0;
            png->plte = c.data;
            png->plte_size = c.size;
        } else {
            return 0; /* tRNS among others */
        }
    }
    return 0;
}

static void plan_conversion(const stk_codec_job *job, const plain_png *png, stk_codec_convert *c)
{
    *c = (stk_codec_convert){ .layout = png->layout, .bits = 8, .colours = (uint16_t)(png->plte_size / 3) };
    for (unsigned i = 0; i < c->colours; i++) {
        memcpy(c->palette[i], png->plte + i * 3, 3);
        c->palette[i][3] = 255;
    }
    stk_convert_plan(c, job->params);
}

/* The filtered picture in the decoder's buffer, with a row of zeros behind it; NULL = not for this path. */
static uint8_t *inflate_all(const stk_codec_job *job, const plain_png *png, size_t row)
{
    stoke_decoder *d = job->decoder;
    size_t total, room;
    if (!stk_mul(row, png->height, &total) || !stk_add(total, row, &room)) return NULL;
    /* More than deflate can make of these bytes: no reason to allocate. */
    if (total / STK_MAX_DEFLATE_RATIO > png->data_size) return NULL;
    if (!d->inflate) d->inflate = libdeflate_alloc_decompressor();
    uint8_t *all = d->inflate ? stk_buffer_reserve(&d->rows, room) : NULL;
    if (!all) return NULL;
    memset(all + total, 0, row);
    /* No place for the size: libdeflate then insists on exactly `total` bytes. */
    if (libdeflate_zlib_decompress(d->inflate, png->data, png->data_size, all, total, NULL) !=
        LIBDEFLATE_SUCCESS)
        return NULL;
    return all;
}

int stk_png_fast(stk_codec_job *job)
{
    plain_png png = { 0 };
    stk_codec_convert convert;
    if (!parse(job, &png)) return 0;
    job->info.width = png.width;
    job->info.height = png.height;
    int r = stk_codec_job_begin(job);
    if (r) return r;
    size_t row = 1 + (size_t)png.width * png.samples;
    uint8_t *all = inflate_all(job, &png, row);
    if (!all) return 0;
    plan_conversion(job, &png, &convert);
    r = stk_codec_job_place(job, job->box.width, job->box.height, convert.out_channels, convert.out_depth);
    if (r) return r;
    const uint8_t *prev = all + row * png.height; /* the zeros */
    for (uint32_t y = 0; y < job->box.y + job->box.height; y++) {
        uint8_t *line = all + row * y;
        if (!stk_unfilter(line[0], line + 1, prev, row - 1, png.samples)) return 0;
        prev = line + 1;
        if (y < job->box.y) continue;
        r = stk_convert_row(&convert, prev, job->box.x, job->box.width,
                            stk_codec_job_row(job, y - job->box.y), job->err);
        if (r) return r;
    }
    return 1;
}
