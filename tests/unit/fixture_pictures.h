/* SPDX-License-Identifier: Apache-2.0
 *
 * Picture files made in memory for the codec tests, each by the reference library of its format.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_PICTURES_H
#define STOKE_TESTS_UNIT_FIXTURE_PICTURES_H

#include "tests/unit/unit.h"

#include <jpeglib.h>
#include <libdeflate.h>
#include <spng.h>

#include "src/base/rng.h"

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

/* Random numbers of a test: the next word of a seeded stream. */
typedef struct dice {
    uint64_t seed, count;
} dice;

static inline uint32_t roll(dice *d, uint32_t n)
{
    stk_rng r = stk_philox(d->seed, d->count++, 0, 0, 0);
    return (uint32_t)stk_below(stk_pair(r.word[0], r.word[1]), n);
}

/* Smooth waves, a hard edge and some noise: what upsampling and filters are sensitive to. */
static inline uint8_t *make_samples(uint32_t width, uint32_t height, unsigned channels, dice *d)
{
    uint8_t *p = malloc((size_t)width * height * channels + 1);
    unsigned a = 1 + roll(d, 7), b = 1 + roll(d, 7), edge = roll(d, width + height);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (unsigned c = 0; c < channels; c++) {
                unsigned v = x * a * (c + 1) + y * b + (x + y < edge ? 0 : 90) + (x * y * 7 + c * 31) % 23;
                p[((size_t)y * width + x) * channels + c] = (uint8_t)v;
            }
    return p;
}

typedef struct jpeg_kind {
    int channels;        /* 1, 3, 4 */
    int h, v;            /* sampling factors of the first component */
    int progressive;     /* 2 = baseline in one scan per component */
    J_COLOR_SPACE space; /* JCS_UNKNOWN = libjpeg's usual choice */
    int restart;
} jpeg_kind;

/* optimised: Huffman tables made for the picture. */
static inline bytes make_jpeg_with(const uint8_t *samples, uint32_t width, uint32_t height, jpeg_kind kind,
                                   int quality, int optimised)
{
    static const jpeg_scan_info each[3] = { { 1, { 0 }, 0, 63, 0, 0 },
                                            { 1, { 1 }, 0, 63, 0, 0 },
                                            { 1, { 2 }, 0, 63, 0, 0 } };
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long size = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &size);
    c.image_width = width;
    c.image_height = height;
    c.input_components = kind.channels;
    c.in_color_space = kind.channels == 1 ? JCS_GRAYSCALE : kind.channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    if (kind.space != JCS_UNKNOWN) jpeg_set_colorspace(&c, kind.space);
    jpeg_set_quality(&c, quality, TRUE);
    c.optimize_coding = optimised ? TRUE : FALSE;
    c.comp_info[0].h_samp_factor = kind.h;
    c.comp_info[0].v_samp_factor = kind.v;
    c.restart_interval = (unsigned)kind.restart;
    if (kind.progressive == 1) jpeg_simple_progression(&c);
    if (kind.progressive == 2) c.scan_info = each, c.num_scans = 3;
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < height) {
        JSAMPROW row =
            (JSAMPROW)(uintptr_t)(samples + (size_t)c.next_scanline * width * (unsigned)kind.channels);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return (bytes){ out, size };
}

static inline bytes make_jpeg(const uint8_t *samples, uint32_t width, uint32_t height, jpeg_kind kind)
{
    return make_jpeg_with(samples, width, height, kind, 85, 0);
}

/* An APP1 segment with an EXIF orientation, put behind the start marker. */
static inline bytes with_exif(bytes jpeg, uint8_t orientation, int big)
{
    uint8_t little_end[] = { 0xFF, 0xE1, 0, 34, 'E',         'x', 'i', 'f', 0,    0, 'I', 'I',
                             42,   0,    8, 0,  0,           0,   1,   0,   0x12, 1, 3,   0,
                             1,    0,    0, 0,  orientation, 0,   0,   0,   0,    0, 0,   0 };
    uint8_t big_end[] = {
        0xFF, 0xE1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M',         0, 42, 0, 0, 0, 8,
        0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   orientation, 0, 0,  0, 0, 0, 0
    };
    size_t n = sizeof little_end;
    bytes out = { malloc(jpeg.size + n), jpeg.size + n };
    memcpy(out.data, jpeg.data, 2);
    memcpy(out.data + 2, big ? big_end : little_end, n);
    memcpy(out.data + 2 + n, jpeg.data + 2, jpeg.size - 2);
    return out;
}

typedef struct png_kind {
    uint8_t colour_type, bits, interlaced;
    int filters; /* SPNG_FILTER_CHOICE_*; 0 = none */
    const struct spng_plte *palette;
    const struct spng_trns *transparency;
} png_kind;

static inline bytes make_png(const void *rows, size_t size, uint32_t width, uint32_t height, png_kind kind)
{
    spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
    struct spng_ihdr ihdr = { width, height, kind.bits, kind.colour_type, 0, 0, kind.interlaced };
    bytes out;
    int code;
    spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1);
    spng_set_option(ctx, SPNG_FILTER_CHOICE, kind.filters ? kind.filters : SPNG_DISABLE_FILTERING);
    assert_int_equal(spng_set_ihdr(ctx, &ihdr), 0);
    if (kind.palette) assert_int_equal(spng_set_plte(ctx, (struct spng_plte *)(uintptr_t)kind.palette), 0);
    if (kind.transparency)
        assert_int_equal(spng_set_trns(ctx, (struct spng_trns *)(uintptr_t)kind.transparency), 0);
    assert_int_equal(spng_encode_image(ctx, rows, size, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
    out.data = spng_get_png_buffer(ctx, &out.size, &code);
    assert_non_null(out.data);
    spng_ctx_free(ctx);
    return out;
}

/* The same file in IDAT chunks of at most `most` bytes, with an ancillary chunk in front if `text`. */
static inline void put_chunk(bytes *out, const char *type, const uint8_t *data, size_t size)
{
    uint8_t head[8] = { (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size };
    memcpy(head + 4, type, 4);
    out->data = realloc(out->data, out->size + size + 12);
    uint8_t *p = out->data + out->size;
    memcpy(p, head, 8);
    if (size) memcpy(p + 8, data, size);
    uint32_t crc = libdeflate_crc32(0, p + 4, size + 4);
    for (int i = 0; i < 4; i++) p[8 + size + i] = (uint8_t)(crc >> (24 - 8 * i));
    out->size += size + 12;
}

static inline uint32_t chunk_size(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline bytes rechunk(bytes png, size_t most, const char *extra)
{
    bytes out = { malloc(8), 8 };
    memcpy(out.data, png.data, 8);
    for (size_t at = 8; at + 12 <= png.size;) {
        size_t n = chunk_size(png.data + at);
        char type[5] = { 0 };
        memcpy(type, png.data + at + 4, 4);
        const uint8_t *data = png.data + at + 8;
        if (extra && strcmp(type, "IDAT") == 0) put_chunk(&out, extra, (const uint8_t *)"anything", 8);
        if (strcmp(type, "IDAT") == 0)
            for (size_t done = 0; done < n; done += most)
                put_chunk(&out, type, data + done, n - done < most ? n - done : most);
        else
            put_chunk(&out, type, data, n);
        at += n + 12;
    }
    return out;
}

#endif
