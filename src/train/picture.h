/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures from files, as the loader makes them: its own decoding, windows of 16-bit values and resize, so
 * that a network sees in prediction what it saw in validation. (Loader and network have types of the same
 * names: this header shows neither.)
 */
#ifndef STOKE_SRC_TRAIN_PICTURE_H
#define STOKE_SRC_TRAIN_PICTURE_H

#include <stoke/dataset.h>
#include <stoke/image.h>

#include "src/loader/scratch.h"

/* Settings, shared by all readers. */
typedef struct stk_pictures stk_pictures;
int stk_pictures_open(stk_pictures **out, const stoke_data_params *data, uint32_t height, uint32_t width,
                      stoke_error *err);
void stk_pictures_close(stk_pictures **pictures);
/* As if each of them were a sample. */
const stk_loader_config *stk_pictures_config(const stk_pictures *pictures);
/* 1: fitting may decode less than the whole (JPEG in mode fast); the pixels then differ a little. */
int stk_pictures_shrink(const stk_pictures *pictures);

/* One per thread. */
typedef struct stk_picture_reader stk_picture_reader;
int stk_picture_reader_create(stk_picture_reader **out, const stk_pictures *pictures, stoke_error *err);
void stk_picture_reader_destroy(stk_picture_reader **reader);

/* Bytes it keeps for the next file. */
uint64_t stk_picture_reader_memory(const stk_picture_reader *reader);
/* Gives them back; pixels it handed out are gone. */
int stk_picture_reader_renew(stk_picture_reader *reader, stoke_error *err);

/* Reads the file; *width and *height are those of the picture as it will be shown, orientation applied. The
 * message of a failure names the file. */
int stk_picture_read(stk_picture_reader *reader, const stoke_sample *file, uint32_t *width, uint32_t *height,
                     stoke_error *err);
/* What decoding it takes. */
stk_scratch_bytes stk_picture_need(const stk_picture_reader *reader);
/* Its stored orientation: 0: there is none, 1: applied, -1: left alone. */
int stk_picture_turned(const stk_picture_reader *reader);
/* Then: its pixels at its own size, or at that given to stk_pictures_open. The reader's until it is used
 * again. 3 channels, u8 or, from 16-bit files, u16. */
int stk_picture_whole(stk_picture_reader *reader, stoke_image *image, stoke_error *err);
int stk_picture_fitted(stk_picture_reader *reader, stoke_image *image, stoke_error *err);
/* The same from pixels one has. */
int stk_picture_fit(stk_picture_reader *reader, const stoke_image *whole, stoke_image *image,
                    stoke_error *err);

#endif
