/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures that prove that they are ours: a comment within them holds a hash of all their other bytes. One
 * that somebody changed, even with a program that keeps comments, or put there in its place, has none that
 * fits. (A list beside the pictures would say nothing about those of a run that was killed.)
 */
#ifndef STOKE_SRC_CODEC_WRITE_H
#define STOKE_SRC_CODEC_WRITE_H

#include <stdio.h>
#include <stoke/image.h>

/* The comment before its hash is known. */
#define STK_SEAL_TEXT   "Drawn by Stokehold, which may replace it while it is unchanged: "
#define STK_SEAL_DIGITS "0000000000000000"

/* As stoke_image_write_png and stoke_image_write_jpeg, sealed. */
int stk_sealed_write_png(const char *path, const stoke_image *image, stoke_error *err);
int stk_sealed_write_jpeg(const char *path, const stoke_image *image, int quality, stoke_error *err);

/* 1: the file is as one of them wrote it, to the byte. */
int stk_sealed(const char *path);

/* The JPEG writer on an open stream. */

/* As stoke_image_write_jpeg; `shown` is the file's name in messages. sealed: with room for the hash. A failed
 * write leaves ferror(stream) and returns STOKE_E_IO. */
int stk_jpeg_write(FILE *stream, const char *shown, const stoke_image *image, int quality, int sealed,
                   stoke_error *err);

#endif
