/* SPDX-License-Identifier: Apache-2.0
 *
 * The JPEG writer on an open stream.
 */
#ifndef STOKE_SRC_CODEC_WRITE_JPEG_H
#define STOKE_SRC_CODEC_WRITE_JPEG_H

#include <stdio.h>
#include <stoke/image.h>

/* As stoke_image_write_jpeg; `shown` is the file's name in messages. A failed write leaves ferror(stream) and
 * returns STOKE_E_IO. */
int stk_jpeg_write(FILE *stream, const char *shown, const stoke_image *image, int quality, stoke_error *err);

#endif
