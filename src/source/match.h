/* SPDX-License-Identifier: Apache-2.0
 *
 * Which mask belongs to which image.
 */
#ifndef STOKE_SRC_SOURCE_MATCH_H
#define STOKE_SRC_SOURCE_MATCH_H

#include "src/source/dataset_internal.h"
#include "src/source/layout.h"

/* Reads the folders of a part and adds its samples, sorted. `image_suffix` and `mask_suffix` are the user's
 * ("auto" or an exact text). STOKE_E_NOTFOUND when nothing matches; the message shows a stem of each side. */
int stk_match_part(stoke_dataset *dataset, const stk_layout_part *part, const char *image_suffix,
                   const char *mask_suffix, stoke_error *err);

#endif
