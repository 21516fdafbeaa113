/* SPDX-License-Identifier: Apache-2.0
 *
 * Where images and masks lie below the root of a set (params.data): the folder names people use.
 */
#ifndef STOKE_SRC_SOURCE_LAYOUT_H
#define STOKE_SRC_SOURCE_LAYOUT_H

#include "src/base/string_arena.h"
#include <stoke/data.h>

/* A pair of folders. A set with its own split has two of them. */
typedef struct stk_layout_part {
    const char *images, *masks;             /* masks NULL: zeros */
    const char *prefix;                     /* of sample names: "", "train/", "val/" or "test/" */
    const char *image_suffix, *mask_suffix; /* what `auto` means here; NULL = nothing special */
    stoke_split split;                      /* ALL: no ready-made split */
    int bare;                               /* pictures found in the root itself: are they all images? */
} stk_layout_part;

enum { STK_MAX_PARTS = 2, STK_SPLITS = STOKE_SPLIT_TEST + 1 };

/* Finds the parts of the set below `root`; strings go to the arena. Order: train before val. Errors:
 * STOKE_E_NOTFOUND with what was looked for, STOKE_E_INVALID when two layouts fit. */
int stk_layout_find(const char *root, stk_string_arena *arena, stk_layout_part parts[STK_MAX_PARTS],
                    size_t *n_parts, stoke_error *err);
/* The part to test on, which the others leave alone. STOKE_E_NOTFOUND: there is none. */
int stk_layout_find_test(const char *root, stk_string_arena *arena, stk_layout_part *part, stoke_error *err);

#endif
