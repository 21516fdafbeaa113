/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files of a sample say about each other by their headers alone: which way up the image is to be
 * taken, and whether both have one size.
 */
#ifndef STOKE_SRC_SOURCE_PAIRS_H
#define STOKE_SRC_SOURCE_PAIRS_H

#include "src/base/mem.h"
#include "src/base/error.h"
#include "src/base/remarks.h"
#include <stoke/dataset.h>
#include <stoke/image.h>

/* Whether the orientation stored in an image is applied. auto: where its mask has the size of the turned
 * image and not that of the stored one; `alone` is for an image without a mask (NULL). Never auto. */
stoke_orientation stk_orientation_for(stoke_orientation wanted, const stoke_image_info *image,
                                      const stoke_image_info *mask, stoke_orientation alone);
/* Of masks: they lie as they are stored unless orientations are to be applied. */
stoke_orientation stk_orientation_of_masks(stoke_orientation wanted);
/* Width and height as decoded with that orientation. */
void stk_size_shown(const stoke_image_info *info, stoke_orientation orientation, uint32_t *width,
                    uint32_t *height);

/* STOKE_E_SIZE with both sizes, where they differ as decoded; and with the setting that helps, if it is the
 * orientation. shown: the image's path, or NULL. */
int stk_pair_sizes(stoke_orientation wanted, const stoke_image_info *image, const stoke_image_info *mask,
                   const char *shown, stoke_error *err);

/* Task restore: pictures that have a target, and targets, are turned upright by what is stored in each,
 * unless they are to be taken as they are. */
stoke_orientation stk_orientation_of_pictures(stoke_orientation wanted);
/* STOKE_E_SIZE with both sizes (width, height, as decoded) where the target is not `scale` times its image;
 * and the scale that would fit, if there is one. shown: the image's path. */
int stk_target_size(const uint32_t image[2], const uint32_t target[2], uint32_t scale, const char *shown,
                    stoke_error *err);

/* How the pairs of a set lie to each other. */
typedef struct stk_pair_counts {
    uint64_t differ;  /* masks of another size than their image, targets that `scale` does not fit */
    uint64_t upright; /* images that are turned, since their mask has the size of the turned one */
    uint64_t stored;  /* that say they should be turned, with a mask of the size they are stored in */
    uint64_t either;  /* whose mask fits both ways, or that have none */
    uint64_t masks;   /* masks that have an orientation of their own */
} stk_pair_counts;
/* Counts one pair by its headers (mask NULL: none); returns stk_pair_sizes of it. */
int stk_pair_count(stk_pair_counts *counts, stoke_orientation wanted, const stoke_image_info *image,
                   const stoke_image_info *mask, stoke_error *err);
void stk_pair_counts_add(stk_pair_counts *sum, const stk_pair_counts *more);
/* Which setting `wanted` comes to for a whole set. Of auto: apply where some masks told that they were drawn
 * upright, none that it was not, and images are left whose mask cannot tell (half a turn, a mirror, a
 * square): who drew the ones drew the others. Masks with an orientation of their own would turn too: auto
 * stays. */
stoke_orientation stk_pair_settle(const stk_pair_counts *counts, stoke_orientation wanted);
/* What a person should know about orientations: nothing where no image has one. */
void stk_pair_remarks(const stk_pair_counts *counts, stoke_orientation wanted, stk_say_fn *say,
                      void *context);

/* The headers of a whole set, read by a few threads. */
typedef struct stk_pairs {
    uint32_t (*size)[2]; /* width and height of every image as decoded; 0: its header cannot be read */
    stk_pair_counts counts;
    uint64_t first_id; /* of the pairs that differ, */
    stoke_error first; /* and what is wrong with it; the message has its path */
} stk_pairs;
int stk_pairs_look(stk_pairs *pairs, const stoke_dataset *dataset, const stoke_data_params *params,
                   stoke_progress_fn progress, void *context, stoke_error *err);
void stk_pairs_free(stk_pairs *pairs); /* accepts a zeroed struct */

/* The header of a blob: its first bytes are read, all of it only where these do not have it (TIFF keeps its
 * directory at the end). 0: none that can be read. */
int stk_header_read(stoke_decoder *decoder, stk_mem_buffer *buffer, const stoke_blob *blob, uint64_t limit,
                    stoke_image_info *info);

#endif
