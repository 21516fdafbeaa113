/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share: the decoder, one decode call ("job"), and the step from stored samples
 * to the pixels of the two purposes.
 *
 * The way of a call: decoder.c finds the format by its first bytes and hands the job to that format's
 * decode(). It reads the header, fills job->info and calls stk_codec_job_begin (limits, region); then
 * stk_codec_job_place says where the pixels go; then it writes exactly job->box, in stored orientation, to
 * job->image. decoder.c turns the result upright when asked to.
 */
#ifndef STOKE_SRC_CODEC_CODEC_H
#define STOKE_SRC_CODEC_CODEC_H

#include <stoke/tools/image.h>
#include <string.h>

#include "src/base/mem.h"

struct libdeflate_decompressor;
typedef struct stk_codec_jpeg_state stk_codec_jpeg_state;

struct stoke_decoder {
    stk_mem_buffer pixels;      /* the result in stored orientation, unless it goes to the caller's target */
    stk_mem_buffer oriented;    /* the result turned upright */
    stk_mem_buffer rows;        /* samples as a library gives them, before conversion */
    stk_mem_buffer packed;      /* PNG: IDAT chunks joined; JPEG: the file cut down to a region */
    stk_codec_jpeg_state *jpeg; /* error handling and state of jpeg.c, made at the first JPEG */
    struct libdeflate_decompressor *inflate;
};

typedef struct stk_codec_job {
    stoke_decoder *decoder;
    const uint8_t *bytes;
    size_t size;
    const stoke_decode_params *params;
    stoke_error *err;
    stoke_image_info info;
    uint8_t orientation; /* to be applied to job->image at the end; 1 = nothing to do */
    stoke_box box;       /* wanted part, in stored pixels */
    stoke_image image;   /* where the format writes it */
} stk_codec_job;

/* One format of formats.def. Neither function is called unless matches() said yes. */
typedef struct stk_codec {
    int (*matches)(const uint8_t *bytes, size_t size);
    int (*probe)(stk_codec_job *job); /* fills job->info; there are no params */
    int (*decode)(stk_codec_job *job);
    stoke_format_library library;   /* without its version */
    void (*version)(char text[32]); /* NULL: the library does not tell */
} stk_codec;

#define STOKE_FORMAT(id, codec, extensions) extern const stk_codec stk_codec_##codec;
#include <stoke/formats.def>
#undef STOKE_FORMAT
/* Of a file with these first bytes, 16 of them if it has as many, and the extension such files get; "" and
 * STOKE_FORMAT_UNKNOWN: no picture. */
stoke_format stk_codec_recognize(const uint8_t *bytes, size_t size, char extension[8]);

void stk_jpeg_destroy(stk_codec_jpeg_state *jpeg); /* accepts NULL */
uint64_t stk_jpeg_memory(const stk_codec_jpeg_state *jpeg);

/* A number of 1 to 4 bytes. */
static inline uint32_t stk_read_bytes(const uint8_t *p, unsigned n, int big)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < n; i++) v |= (uint32_t)p[i] << 8 * (big ? n - 1 - i : i);
    return v;
}

/* Checks job->info against max_pixels and the region against the picture; sets orientation and box. */
int stk_codec_job_begin(stk_codec_job *job);
/* Chooses job->image for a result of this shape: the target when it fits exactly, else the decoder's buffer.
 */
int stk_codec_job_place(stk_codec_job *job, uint32_t width, uint32_t height, uint8_t channels, uint8_t depth);
/* Row y of job->image. */
static inline uint8_t *stk_codec_job_row(const stk_codec_job *job, uint32_t y)
{
    return (uint8_t *)job->image.data + (size_t)y * job->image.stride;
}
int stk_check_pixels(uint32_t width, uint32_t height, uint64_t limit, stoke_error *err);

/* png.c: chunks of a PNG file, as far as they matter for the pixels. */
enum { STK_PNG_SIGNATURE = 8, STK_PNG_FRAME = 12 }; /* frame: length, type and CRC around the data */
enum { STK_MAX_DEFLATE_RATIO = 1032 };              /* deflate's densest code is 258 bytes for two bits */
typedef struct stk_codec_png_chunk {
    const uint8_t *type, *data;
    size_t size;
} stk_codec_png_chunk;
static inline uint32_t stk_big32(const uint8_t *p)
{
    return stk_read_bytes(p, 4, 1);
}
static inline int stk_png_is(const stk_codec_png_chunk *chunk, const char *type)
{
    return memcmp(chunk->type, type, 4) == 0;
}
/* Samples of a pixel by colour type (0: there is none), and how they lie. */
typedef struct stk_codec_png_kind {
    uint8_t samples, layout;
} stk_codec_png_kind;
extern const stk_codec_png_kind stk_png_kinds[7];
struct spng_ihdr;
/* The header of an ordinary file. 0: it is none, or its checksum is wrong: let libspng say. */
int stk_png_header(const stk_codec_png_chunk *chunk, struct spng_ihdr *ihdr);
/* The next critical chunk or tRNS at or behind *at, all of it inside the file; moves *at behind it. 0 = no
 * more. */
int stk_png_next_chunk(const uint8_t *bytes, size_t size, size_t *at, stk_codec_png_chunk *chunk);
int stk_png_crc_is_right(const stk_codec_png_chunk *chunk);

/* png_fast.c: 1 = decoded, 0 = not a file for this path (nothing decided: ask libspng), < 0 = error. */
int stk_png_fast(stk_codec_job *job);
/* Undoes one PNG row filter in place; prev is the row above, already undone (zeros for the first row).
 * Returns 0 for an unknown filter type. bpp = bytes per pixel, 1..8. */
int stk_unfilter(uint8_t type, uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp);
int stk_unfilter_c(uint8_t type, uint8_t *row, const uint8_t *prev, size_t n, unsigned bpp);

/* orient.c: orientation 1..8 found in ... , 1 when absent or nonsense. */
uint8_t stk_orientation_from_exif(const uint8_t *tiff, size_t size);
uint8_t stk_orientation_from_jpeg(const uint8_t *bytes, size_t size);
uint8_t stk_orientation_from_png(const uint8_t *bytes, size_t size);
/* The same from the last bytes of a file, of which the first may lie within the pixels. */
uint8_t stk_orientation_from_png_end(const uint8_t *bytes, size_t size);
static inline int stk_orientation_swaps(uint8_t orientation)
{
    return orientation >= 5;
}
/* Where a box of the upright picture lies in a stored picture of this size. */
stoke_box stk_orient_box(stoke_box box, uint8_t orientation, uint32_t stored_width, uint32_t stored_height);
/* out must have the upright shape and the same channels and depth. */
void stk_orient_apply(const stoke_image *in, uint8_t orientation, const stoke_image *out);

/* convert.c: how stored samples lie in a row. */
typedef enum stk_codec_layout {
    STK_GREY,
    STK_GREY_ALPHA,
    STK_RGB,
    STK_RGBA,
    STK_PALETTE,
    STK_PALETTE_ALPHA, /* index, alpha */
    STK_CMYK
} stk_codec_layout;

typedef struct stk_codec_convert {
    stk_codec_layout layout;
    uint8_t bits;   /* 1, 2, 4 (grey or palette, packed, high bit first), 8, 16 (native endian) */
    uint8_t twelve; /* the 16-bit samples hold 12 bits, unscaled */
    uint8_t stride; /* samples from pixel to pixel; >= what the layout needs (extra samples are skipped) */
    uint8_t invert; /* stored value v means max - v (min-is-white, Adobe CMYK) */
    uint8_t premultiplied; /* colour was multiplied by alpha */
    uint8_t has_key;       /* pixels equal to key[] are transparent (PNG tRNS of grey and RGB) */
    uint16_t key[3];
    uint16_t colours; /* entries of palette */
    uint8_t palette[256][4];
    /* Filled by stk_convert_plan. */
    uint8_t out_channels, out_depth, composite, mask;
    uint8_t background[3];
} stk_codec_convert;

/* Decides channels and depth of the result. */
void stk_convert_plan(stk_codec_convert *convert, const stoke_decode_params *params);
/* Converts `width` pixels of a stored row, starting at pixel x0. STOKE_E_FORMAT for an index beyond the
 * palette. */
int stk_convert_row(const stk_codec_convert *convert, const void *in, uint32_t x0, uint32_t width, void *out,
                    stoke_error *err);

/* The box of a whole stored picture, rows `stride` bytes apart, to job->image. */
int stk_codec_job_convert(stk_codec_job *job, const stk_codec_convert *convert, const uint8_t *stored,
                          size_t stride);

/* A JPEG cut down to the MCUs around a region, without decoding it. See jpeg_trim.c. */

/* Tables for passing over codes, kept from file to file: most files carry the same ones. About 70 KB. */
typedef struct stk_jpeg_trimmer stk_jpeg_trimmer;

extern const size_t stk_jpeg_trimmer_bytes; /* of one; zeroed is empty */

typedef struct stk_jpeg_trimmed {
    const uint8_t *bytes; /* a JPEG file inside the scratch buffer */
    size_t size;
    stoke_box box; /* where the region lies in it */
} stk_jpeg_trimmed;

/* 1 = the small file's pixels in trimmed->box are those of `box` in the file, decoded with fancy upsampling.
 * 0 = not a file for this way, or damaged, or no memory (nothing decided: ask libjpeg). Of the file only what
 * comes before the region's last MCU is looked at. */
int stk_jpeg_trim(stk_jpeg_trimmer *trimmer, stk_mem_buffer *scratch, const uint8_t *bytes, size_t size,
                  stoke_box box, stk_jpeg_trimmed *trimmed);

#endif
