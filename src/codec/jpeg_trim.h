/* SPDX-License-Identifier: Apache-2.0
 *
 * A JPEG cut down to the MCUs around a region, without decoding it. See jpeg_trim.c.
 */
#ifndef STOKE_SRC_CODEC_JPEG_TRIM_H
#define STOKE_SRC_CODEC_JPEG_TRIM_H

#include <stoke/image.h>
#include "src/base/mem.h"

/* Tables for passing over codes, kept from file to file: most files carry the same ones. About 70 KB. */
typedef struct stk_jpeg_trimmer stk_jpeg_trimmer;

stk_jpeg_trimmer *stk_jpeg_trimmer_create(void);                   /* NULL = no memory */
void stk_jpeg_trimmer_destroy(stk_jpeg_trimmer *trimmer);          /* accepts NULL */
uint64_t stk_jpeg_trimmer_memory(const stk_jpeg_trimmer *trimmer); /* accepts NULL */

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
