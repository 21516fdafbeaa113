/* SPDX-License-Identifier: Apache-2.0
 *
 * What the values in the masks mean: judged in one place, for training, which settles its classes by it, and
 * for `verify`, which tells it. Where the user said it (`classes`, `label_map`) that stands; else:
 *
 *   0, 1, 2, ... k          k + 1 classes; gaps of rare classes are filled
 *   0, 255 and the like     evenly spread over a byte, drawn to be looked at: classes in that order
 *   0, 38, 75               few and far apart: classes in that order
 *   colours, JPEG, nothing  an error that says what to do
 *
 * ignore_index is no class, unless the values are spread evenly up to it.
 */
#ifndef STOKE_SRC_SOURCE_MASK_RULES_H
#define STOKE_SRC_SOURCE_MASK_RULES_H

#include <stoke/dataset.h>
#include <stoke/image.h>

#include "src/base/error.h"
#include "src/base/remarks.h"

/* How often every class occurs, in pixels and in samples. Fixed size (1.7 MB), one per thread. */

enum { STK_TALLY_IDS = 65536 };

typedef struct stk_mask_tally {
    uint64_t pixels[STK_TALLY_IDS], samples[STK_TALLY_IDS];
    uint64_t stamp[STK_TALLY_IDS]; /* the sample in which an id was last seen */
    uint64_t sample;
    uint16_t seen[STK_TALLY_IDS]; /* ids of the last mask, in order of appearance */
    uint32_t n_seen;
} stk_mask_tally;

/* Adds a mask of class ids (1 channel, u8 or u16). */
void stk_tally_add(stk_mask_tally *tally, const stoke_image *ids);
/* Adds the sums of another tally. */
void stk_tally_merge(stk_mask_tally *tally, const stk_mask_tally *other);

enum { STK_JUDGE_MAP = 32 * 12 }; /* the longest label map that is made up */

/* What was seen in the masks. */
typedef struct stk_mask_values {
    const stk_mask_tally
        *counts[2];   /* pixels by value, as the files have it; the second (of another set) may be NULL */
    const char *path; /* of a mask, to name one */
    const char *jpeg; /* of one that is a JPEG file; NULL: none is */
    uint32_t names;   /* of classes that are known; 0: none */
    int names_found;  /* nobody asked for them: they may belong to something else */
} stk_mask_values;

/* What is to be set. */
typedef struct stk_mask_rules {
    int64_t classes, ignore_index;
    char label_map[STK_JUDGE_MAP]; /* "": values are classes */
} stk_mask_rules;

/* Of masks whose label map is identity: what `classes`, `label_map` and `ignore_index` come to, and a
 * sentence for everything that was chosen or is odd. STOKE_E_LABEL: nothing can be learned from such masks;
 * the message says why and what to do. */
int stk_judge_values(const stoke_data_params *params, const stk_mask_values *values, stk_say_fn *say,
                     void *context, stk_mask_rules *judgement, stoke_error *err);

/* Of masks whose map says what some values are and keeps the others (11:255,*): values are by class already,
 * and only how many classes there are is open. */
int stk_judge_range(const stoke_data_params *params, const stk_mask_values *values, stk_say_fn *say,
                    void *context, stk_mask_rules *judgement, stoke_error *err);

/* The usual ignore_index is a class like any other where there are more than 255: another is chosen. For
 * every label map. */
void stk_judge_ignore(const stoke_data_params *params, int64_t classes, stk_say_fn *say, void *context,
                      int64_t *ignore_index);
/* 1 when ignore_index, left at 255, is among the classes. */
int stk_ignores_a_class(const stoke_data_params *params);

/* More than half is ignored and a class is missing: hardly meant. counts: by class. */
void stk_judge_ignored(const stoke_data_params *params, const stk_mask_tally *const counts[2],
                       stk_say_fn *say, void *context);

/* STOKE_E_LABEL for a mask that is a colour picture: lists its colours and the lines to write. */
int stk_judge_colors(const stoke_data_params *params, const stoke_sample *sample, stoke_error *err);

/* By its header: colours that are no palette of integers. */
int stk_mask_is_colored(const stoke_image_info *mask);

int stk_is_identity(const char *label_map);

#endif
