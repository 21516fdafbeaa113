/* SPDX-License-Identifier: Apache-2.0
 *
 * Tar shards as a source: which files they are, and which of their members make samples.
 */
#ifndef STOKE_SRC_SOURCE_SHARDS_H
#define STOKE_SRC_SOURCE_SHARDS_H

#include "src/source/dataset_internal.h"
#include "src/source/layout.h"

typedef struct stk_shard {
    const char *path;
    stoke_split split; /* by its name: train-000000.tar, val-000000.tar */
} stk_shard;

typedef struct stk_shard_list {
    stk_shard *items; /* in natural order of their paths */
    size_t count, capacity;
} stk_shard_list;

/* What `data` names as shards: a file, a pattern such as "shards/train-{000000..000009}.tar", or a folder
 * with
 * *.tar in it and no images in folders of the usual names. None of these: no shards, and no error. Free with
 * stk_free(shards->items); paths go to the arena. */
int stk_shards_find(const char *data, stk_string_arena *arena, stk_shard_list *shards, stoke_error *err);

/* The shards as parts of a set (images = its first shard): train and val, or one part for all. */
int stk_shards_parts(const stk_shard_list *shards, stk_layout_part parts[STK_MAX_PARTS], size_t *n_parts,
                     stoke_error *err);

/* Reads the shards of a part and adds its samples, sorted. Sets dataset->has_masks. STOKE_E_NOTFOUND when
 * nothing makes a sample; the message shows what there is. */
int stk_shards_read(stoke_dataset *dataset, const stk_shard_list *shards, const stk_layout_part *part,
                    stoke_error *err);

/* The patterns: appends every path that `pattern` stands for. {000..123} counts, with the zeros of the first
 * number; {a,b} lists. */
int stk_shards_expand(const char *pattern, stk_string_arena *arena, stk_shard_list *shards, stoke_error *err);

#endif
