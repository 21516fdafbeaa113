/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole picture from a file, for `verify` and the class-balanced weights. (The loader has its own way,
 * which decodes only what a plan asks for.) One reader per thread.
 */
#ifndef STOKE_SRC_SOURCE_READER_H
#define STOKE_SRC_SOURCE_READER_H

#include "src/base/mem.h"
#include <stoke/dataset.h>
#include <stoke/tools/labels.h>

typedef struct stk_reader {
    stoke_decoder *decoder;
    stk_mem_buffer file, ids, head;
    size_t file_bytes; /* of the file read last */
} stk_reader;

/* As a crew starts and ends its members, which begin with a reader; context is not looked at. */
int stk_reader_start(void *context, void *member, stoke_error *err); /* a zeroed struct */
void stk_reader_finish(void *context, void *member);                 /* accepts one that was not started */

/* The image (of 1 or 2 bytes per value, as the file has it) or the mask of a sample, and their headers.
 * Pixels stay valid until the reader is used again. Messages give the reason only, without the path. */
int stk_reader_image(stk_reader *reader, const stoke_data_params *params, const stoke_sample *sample,
                     stoke_image_info *info, stoke_image *image, stoke_error *err);
/* Widens low..high by the values of a picture of 2 bytes; others are left out. */
void stk_image_values(const stoke_image *image, uint32_t *low, uint32_t *high);
/* A mask as class ids, one channel of stoke_labels_depth bytes. info is set as soon as the header was read,
 * also where the labels are refused; width 0: it was not. */
int stk_reader_mask(stk_reader *reader, const stoke_data_params *params, const stoke_labels *labels,
                    const stoke_sample *sample, stoke_image_info *info, stoke_image *ids, stoke_error *err);

/* The label map that params ask for. */
int stk_labels_of(stoke_labels **out, const stoke_data_params *params, stoke_error *err);

/* How masks are decoded for such a map: as integers, or, for a colour table, as a colour picture, so that
 * palette files show their colours. */
stoke_purpose stk_mask_purpose(const stoke_labels *labels);

#endif
