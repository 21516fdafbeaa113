/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a dataset, for the files that fill it.
 */
#ifndef STOKE_SRC_SOURCE_DATASET_INTERNAL_H
#define STOKE_SRC_SOURCE_DATASET_INTERNAL_H

#include "src/source/scan.h"
#include "src/base/string_arena.h"
#include <stoke/dataset.h>

struct stoke_dataset {
    stk_string_arena arena; /* all names, paths and details */
    stoke_sample *samples;
    size_t count, capacity;
    stoke_note *notes;
    size_t n_notes, notes_capacity;
    uint64_t fingerprint;
    int has_masks;
    int prefixed;           /* names begin with "train/", "val/" or "test/", the parts they come from */
    stk_scan_unread unread; /* pictures beside the samples that no decoder reads */
    const char *test;       /* the images of a test part that was left alone; NULL: there is none */
};

/* All keep the strings they are given: these must live in the arena or be constants. */
int stk_dataset_add(stoke_dataset *dataset, const char *name, const char *image, const char *mask,
                    stoke_error *err);
int stk_dataset_add_sample(stoke_dataset *dataset, const stoke_sample *sample, stoke_error *err);
int stk_dataset_remark(stoke_dataset *dataset, stoke_note_kind kind, const char *path, const char *detail,
                       stoke_error *err);
int stk_dataset_no_memory(stoke_error *err);

/* Sorts samples[from..] by name. Those that share a name are noted and left out. */
int stk_dataset_settle(stoke_dataset *dataset, size_t from, stoke_error *err);

#endif
