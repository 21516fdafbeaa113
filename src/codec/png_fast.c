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
#include <spng.h>
#include <string.h>

/* Undoing the row filters of PNG (W3C PNG, section 9): C reference, and SSE2 where it pays. SSE2 is part of
 * every x86-64, so there is no dispatch.
 */

enum { NONE, SUB, UP, AVERAGE, PAETH };

static uint8_t paeth(int a, int b, int c)
{
    int pa = b - c, pb = a - c, pc = pa + pb;
    pa = pa < 0 ? -pa : pa;
    pb = pb < 0 ? -pb : pb;
    pc = pc < 0 ? -pc : pc;
    /* Ties go to a, then b; written so that compilers use conditional moves: mask edges make branches a
     * lottery. */
    int best = pa <= pb ? a : b, least = pa <= pb ? pa : pb;
    return (uint8_t)(least <= pc ? best : c);
}

static void sub_c(uint8_t *row, size_t n, unsigned bpp)
{
    for (size_t i = bpp; i < n; i++) row[i] = (uint8_t)(row[i] + row[i - bpp]);
}

static void up_c(uint8_t *row, const uint8_t *prev, size_t n)
{
    for (size_t i = 0; i < n; i++) row[i] = (uint8_t)(row[i] + prev[i]);
}

static void average_c(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    for (size_t i = 0; i < n && i < bpp; i++) row[i] = (uint8_t)(row[i] + prev[i] / 2);
    for (size_t i = bpp; i < n; i++) row[i] = (uint8_t)(row[i] + (row[i - bpp] + prev[i]) / 2);
}

static void paeth_c(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    for (size_t i = 0; i < n && i < bpp; i++) row[i] = (uint8_t)(row[i] + prev[i]);
    for (size_t i = bpp; i < n; i++) row[i] = (uint8_t)(row[i] + paeth(row[i - bpp], prev[i], prev[i - bpp]));
}

/* One byte per pixel: left and upper left stay in registers. */
static void average_1(uint8_t *row, const uint8_t *prev, size_t n)
{
    unsigned a = 0;
    for (size_t i = 0; i < n; i++) row[i] = (uint8_t)(a = (row[i] + (a + prev[i]) / 2) & 255);
}

typedef struct corner {
    uint8_t a, c; /* left, upper left */
} corner;

static corner paeth_1_part(uint8_t *row, const uint8_t *prev, size_t n, corner at)
{
    int a = at.a, c = at.c;
    for (size_t i = 0; i < n; i++) {
        int b = prev[i];
        a = (row[i] + paeth(a, b, c)) & 255;
        c = b;
        row[i] = (uint8_t)a;
    }
    return (corner){ (uint8_t)a, (uint8_t)c };
}

int stk_unfilter_c(uint8_t type, uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    switch (type) {
    case NONE: return 1;
    case SUB: sub_c(row, n, bpp); return 1;
    case UP: up_c(row, prev, n); return 1;
    case AVERAGE: average_c(row, prev, n, bpp); return 1;
    case PAETH: paeth_c(row, prev, n, bpp); return 1;
    default: return 0;
    }
}

#if defined(__SSE2__)
#include <emmintrin.h>

static void up_sse2(uint8_t *row, const uint8_t *prev, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i r = _mm_loadu_si128((const void *)(row + i)), p = _mm_loadu_si128((const void *)(prev + i));
        _mm_storeu_si128((void *)(row + i), _mm_add_epi8(r, p));
    }
    up_c(row + i, prev + i, n - i);
}

/* A running sum of 16 bytes in four shifted additions. */
static void sub_1_sse2(uint8_t *row, size_t n)
{
    size_t i = 0;
    __m128i carry = _mm_setzero_si128();
    for (; i + 16 <= n; i += 16) {
        __m128i r = _mm_loadu_si128((const void *)(row + i));
        r = _mm_add_epi8(r, _mm_slli_si128(r, 1));
        r = _mm_add_epi8(r, _mm_slli_si128(r, 2));
        r = _mm_add_epi8(r, _mm_slli_si128(r, 4));
        r = _mm_add_epi8(r, _mm_slli_si128(r, 8));
        r = _mm_add_epi8(r, carry);
        _mm_storeu_si128((void *)(row + i), r);
        /* The last byte to all 16 places. */
        __m128i last = _mm_srli_si128(r, 15);
        last = _mm_unpacklo_epi8(last, last);
        carry = _mm_shuffle_epi32(_mm_shufflelo_epi16(last, 0), 0);
    }
    unsigned a = i ? row[i - 1] : 0;
    for (; i < n; i++) row[i] = (uint8_t)(a = (a + row[i]) & 255);
}

static inline int all_equal(__m128i v, uint8_t value)
{
    return _mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8((char)value))) == 0xffff;
}

/* Label maps are filtered to long runs of zeros (98 % of the bytes of CamVid's), and with zeros the guess
 * needs no step by step: where left equals upper left it is the pixel above, and that makes them equal again;
 * where upper equals upper left it is the left one. Decoding a 512 x 512 mask: 0.39 -> 0.17 ms.
 */
static void paeth_1_sse2(uint8_t *row, const uint8_t *prev, size_t n)
{
    corner at = { 0, 0 };
    for (size_t i = 0; i < n; i += 16) {
        const size_t block = n - i < 16 ? n - i : 16;
        if (block == 16 && all_equal(_mm_loadu_si128((const void *)(row + i)), 0)) {
            const __m128i above = _mm_loadu_si128((const void *)(prev + i));
            if (at.a == at.c) {
                _mm_storeu_si128((void *)(row + i), above);
                at.a = at.c = prev[i + 15];
                continue;
            }
            if (all_equal(above, at.c)) {
                _mm_storeu_si128((void *)(row + i), _mm_set1_epi8((char)at.a));
                continue;
            }
        }
        at = paeth_1_part(row + i, prev + i, block, at);
    }
}

/* A pixel of 3 or 4 bytes in a register. Four bytes are read where the row has them, which is one load; the
 * fourth of a 3-byte pixel is not stored again. */
static inline __m128i load_pixel(const uint8_t *p, size_t left, unsigned bpp)
{
    uint32_t v = 0;
    if (left >= 4)
        memcpy(&v, p, 4);
    else
        memcpy(&v, p, bpp);
    return _mm_cvtsi32_si128((int)v);
}

static inline void store_pixel(uint8_t *p, __m128i v, unsigned bpp)
{
    uint32_t word = (uint32_t)_mm_cvtsi128_si32(v);
    memcpy(p, &word, bpp);
}

static inline void sub_sse2(uint8_t *row, size_t n, unsigned bpp)
{
    __m128i a = _mm_setzero_si128();
    for (size_t i = 0; i < n; i += bpp) {
        a = _mm_add_epi8(a, load_pixel(row + i, n - i, bpp));
        store_pixel(row + i, a, bpp);
    }
}

static inline void average_sse2(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    __m128i a = _mm_setzero_si128();
    const __m128i one = _mm_set1_epi8(1);
    for (size_t i = 0; i < n; i += bpp) {
        __m128i b = load_pixel(prev + i, n - i, bpp), r = load_pixel(row + i, n - i, bpp);
        /* pavgb rounds up, the filter rounds down: take off the lost bit. */
        __m128i mean = _mm_sub_epi8(_mm_avg_epu8(a, b), _mm_and_si128(_mm_xor_si128(a, b), one));
        a = _mm_add_epi8(r, mean);
        store_pixel(row + i, a, bpp);
    }
}

static inline __m128i absolute(__m128i v)
{
    return _mm_max_epi16(v, _mm_sub_epi16(_mm_setzero_si128(), v));
}

static inline __m128i choose(__m128i mask, __m128i yes, __m128i no)
{
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

/* In 16-bit lanes, since the distances need nine bits. */
static inline void paeth_sse2(uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    const __m128i zero = _mm_setzero_si128(), low = _mm_set1_epi16(255);
    __m128i a = zero, c = zero;
    for (size_t i = 0; i < n; i += bpp) {
        __m128i b = _mm_unpacklo_epi8(load_pixel(prev + i, n - i, bpp), zero);
        __m128i r = _mm_unpacklo_epi8(load_pixel(row + i, n - i, bpp), zero);
        __m128i pa = _mm_sub_epi16(b, c), pb = _mm_sub_epi16(a, c), pc = absolute(_mm_add_epi16(pa, pb));
        pa = absolute(pa);
        pb = absolute(pb);
        __m128i least = _mm_min_epi16(pc, _mm_min_epi16(pa, pb));
        __m128i guess = choose(_mm_cmpeq_epi16(least, pa), a, choose(_mm_cmpeq_epi16(least, pb), b, c));
        a = _mm_and_si128(_mm_add_epi16(r, guess), low);
        c = b;
        store_pixel(row + i, _mm_packus_epi16(a, a), bpp);
    }
}

static inline void unfilter_pixels(uint8_t type, uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    if (type == SUB)
        sub_sse2(row, n, bpp);
    else if (type == AVERAGE)
        average_sse2(row, prev, n, bpp);
    else
        paeth_sse2(row, prev, n, bpp);
}

int stk_unfilter(uint8_t type, uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    if (type == UP)
        up_sse2(row, prev, n);
    else if (type < SUB || type > PAETH || (bpp != 1 && bpp != 3 && bpp != 4))
        return stk_unfilter_c(type, row, prev, n, bpp);
    else if (bpp == 3)
        unfilter_pixels(type, row, prev, n, 3);
    else if (bpp == 4)
        unfilter_pixels(type, row, prev, n, 4);
    else if (type == SUB)
        sub_1_sse2(row, n);
    else if (type == AVERAGE)
        average_1(row, prev, n);
    else
        paeth_1_sse2(row, prev, n);
    return 1;
}

#else

int stk_unfilter(uint8_t type, uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp)
{
    if (bpp == 1 && type == AVERAGE)
        average_1(row, prev, n);
    else if (bpp == 1 && type == PAETH)
        paeth_1_part(row, prev, n, (corner){ 0, 0 });
    else
        return stk_unfilter_c(type, row, prev, n, bpp);
    return 1;
}

#endif

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
    struct spng_ihdr ihdr;
    if (!stk_png_header(c, &ihdr) || ihdr.bit_depth != 8 || ihdr.interlace_method) return 0;
    png->width = ihdr.width;
    png->height = ihdr.height;
    png->samples = stk_png_kinds[ihdr.color_type].samples;
    png->layout = stk_png_kinds[ihdr.color_type].layout;
    return 1;
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
    if (!stk_png_next_chunk(job->bytes, job->size, &at, &c) || !read_header(&c, png)) return 0;
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
