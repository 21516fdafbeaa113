/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/image.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_IMAGE_H
#define STOKE_TOOLS_IMAGE_H

#include <stoke/image.h>

/* Bytes needed for the pixels of such an image, rows packed. 0 when the product overflows size_t. */
STOKE_API size_t stoke_image_bytes(uint32_t width, uint32_t height, uint8_t channels, uint8_t depth);

/* Bytes of scratch the decoder holds now. */
STOKE_API uint64_t stoke_decoder_memory(const stoke_decoder *decoder);

/* stoke_image_write_png for a picture that was drawn, not data: with STOKE_OUTPUT_MARK as its "Comment", see
 * output.h. */
STOKE_API int stoke_image_write_drawing(const char *path, const stoke_image *image, stoke_error *err);

/* True when the file name's extension is one the library reads (case-insensitive). */
STOKE_API int stoke_format_known_extension(const char *path);

/* A mask that viewers show in colours: 1 channel u8 whose values index `colors` (1 .. 256) entries of R, G,
 * B. STOKE_E_INVALID: a value has no colour. */
STOKE_API int stoke_image_write_png_indexed(const char *path, const stoke_image *image,
                                            const uint8_t (*palette)[3], uint32_t colors, stoke_error *err);

/* "jpeg", "png", "webp", "tiff" or "unknown". */
STOKE_API const char *stoke_format_name(stoke_format format);

/* The library that reads a format: its name in JSON and for people, and which version is loaded. */
typedef struct stoke_format_library {
    const char *key, *name;
    char version[32];
} stoke_format_library;
/* 0: the library does not tell its version (libjpeg). */
STOKE_API int stoke_format_library_of(stoke_format format, stoke_format_library *library);

#endif
