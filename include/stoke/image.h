/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels, and how they get out of files: JPEG, PNG, WebP, TIFF.
 *
 * Two purposes, two rules. An *image* becomes three interleaved channels, u8 or (for 16-bit files, on
 * request) u16: grey is copied to R, G and B, palettes are looked up, CMYK is converted, alpha is dropped
 * or composited. A *mask* keeps its integers: grey samples as stored (1, 2 and 4 bits are NOT scaled up),
 * palette files give the index. Only a mask that is a colour picture (RGB) gives three channels, to
 * be turned into class ids by a colour table (labels.h).
 */
#ifndef STOKE_IMAGE_H
#define STOKE_IMAGE_H

#include <stoke/common.h>

/* A view of interleaved pixels. Does not own `data`. */
typedef struct stoke_image {
    void *data;
    size_t stride; /* bytes from one row to the next, >= width * channels * depth */
    uint32_t width, height;
    uint8_t channels; /* 1 or 3 */
    uint8_t depth;    /* bytes per sample: 1 (u8) or 2 (u16, native endian) */
} stoke_image;

typedef enum stoke_format {
    STOKE_FORMAT_UNKNOWN = 0,
#define STOKE_FORMAT(id, codec, extensions) STOKE_FORMAT_##id,
#include <stoke/formats.def>
#undef STOKE_FORMAT
    STOKE_FORMATS
} stoke_format;

/* What the header says, before anything large is allocated. */
typedef struct stoke_image_info {
    stoke_format format;
    uint32_t width, height; /* as stored; orientation not applied */
    uint8_t channels;       /* as stored: 1 grey or palette, 2 grey+alpha, 3, 4 */
    uint8_t bits;           /* per sample as stored: 1, 2, 4, 8, 12, 16, 32 */
    uint8_t palette;        /* 1: samples are palette indices */
    uint8_t alpha;          /* 1: has an alpha channel or transparent colour */
    uint8_t progressive;    /* 1: progressive JPEG, interlaced PNG */
    uint8_t orientation;    /* EXIF / TIFF orientation 1..8; 1 when absent or nonsense */
    uint64_t scratch_bytes; /* estimate of what the decoder itself needs besides the output pixels */
} stoke_image_info;

typedef enum stoke_purpose { STOKE_PURPOSE_IMAGE = 0, STOKE_PURPOSE_MASK = 1 } stoke_purpose;
/* auto is for who has the pair (data.h): a decoder, which sees one file, takes ignore or apply. */
typedef enum stoke_orientation {
    STOKE_ORIENTATION_IGNORE = 0,
    STOKE_ORIENTATION_APPLY = 1,
    STOKE_ORIENTATION_AUTO = 2
} stoke_orientation;
typedef enum stoke_alpha { STOKE_ALPHA_DROP = 0, STOKE_ALPHA_COMPOSITE = 1 } stoke_alpha;
/* exact: the pixels Pillow gives. fast: JPEG may be decoded at 1/2, 1/4, 1/8 scale in the DCT domain. */
typedef enum stoke_decode_mode { STOKE_DECODE_EXACT = 0, STOKE_DECODE_FAST = 1 } stoke_decode_mode;

/* A rectangle in source pixels. */
typedef struct stoke_box {
    uint32_t x, y, width, height;
} stoke_box;

typedef struct stoke_decode_params {
    uint32_t struct_size;
    stoke_purpose purpose;
    stoke_orientation orientation; /* ignore */
    stoke_alpha alpha;             /* drop; composite = over `background` */
    uint8_t background[3];         /* 0,0,0 */
    uint8_t keep16;      /* 0: 16-bit images come out as the high byte; 1: as u16. Masks always keep u16. */
    uint64_t max_pixels; /* 178956970 (2^31/12, Pillow's bomb limit); refused before allocation */
    /* The part that is needed, in oriented source pixels; width 0 = all. The decoder returns exactly this
     * part (bit-equal to cutting it out of the full decode); formats that can, decode little else. */
    stoke_box region;
    /* Fast mode: the caller will shrink region to about this size; 0 = no shrinking. The decoder may return
     * a picture reduced by d = 2, 4 or 8 that is still at least this large: region's size divided by d,
     * rounded up, where pixel (i, j) stands for the d x d source pixels at (region.x + i d, region.y + j d).
     * Only images in JPEG are reduced, and only if region begins on a multiple of d and ends on one or at the
     * edge of the picture; otherwise the result has the region's own size. */
    uint32_t fast_width, fast_height;
    stoke_decode_mode mode;
    /* Optional place for the pixels (e.g. the row of a batch). Used when the result fits its width, height,
     * channels and depth exactly; otherwise, and when data is NULL, pixels stay in the decoder's buffer. */
    stoke_image target;
} stoke_decode_params;

STOKE_API stoke_decode_params stoke_decode_defaults(void);

/* A decoder owns its scratch memory and keeps it between calls: steady work allocates nothing of its own.
 * Not thread-safe: one decoder per thread. */
typedef struct stoke_decoder stoke_decoder;

STOKE_API int stoke_decoder_create(stoke_decoder **out, stoke_error *err);
STOKE_API void stoke_decoder_destroy(stoke_decoder **decoder);

/* Reads the header only. Errors: STOKE_E_FORMAT, STOKE_E_UNSUPPORTED. Messages do not name a file:
 * the decoder never knew it; the caller puts the name in front. */
STOKE_API int stoke_decoder_probe(stoke_decoder *decoder, const void *bytes, size_t size,
                                  stoke_image_info *info, stoke_error *err);

/* Decodes into params->target or the decoder's buffer; `out` is a view, valid until the decoder is used
 * again. A file that ends early or is damaged is an error, never grey filling. */
STOKE_API int stoke_decoder_decode(stoke_decoder *decoder, const void *bytes, size_t size,
                                   const stoke_decode_params *params, stoke_image *out, stoke_error *err);

/* Writers, for synthetic data and pictures. The file appears whole or not at all (temp, fsync, rename).
 * PNG: 1 or 3 channels, u8 or u16. JPEG: 1 or 3 channels u8, quality 1..100, 4:2:0 for colour. */
STOKE_API int stoke_image_write_png(const char *path, const stoke_image *image, stoke_error *err);
STOKE_API int stoke_image_write_jpeg(const char *path, const stoke_image *image, int quality,
                                     stoke_error *err);

#endif
