/* SPDX-License-Identifier: Apache-2.0
 *
 * What `pack` will write, settled before it writes: every sample's files opened once, its key, its shard.
 */
#ifndef STOKE_SRC_SOURCE_PACK_PLAN_H
#define STOKE_SRC_SOURCE_PACK_PLAN_H

#include "src/base/string_arena.h"
#include <stoke/tools/pack.h>

enum { STK_PACK_EXTENSION = 8, STK_PACK_NAME = 128 };

/* A file as it was when the plan was made. */
typedef struct stk_pack_file {
    uint64_t bytes;
    int64_t mtime_ns;
    char extension[STK_PACK_EXTENSION]; /* small letters */
} stk_pack_file;

typedef struct stk_pack_item {
    uint64_t id;
    const char *key;
    stk_pack_file image, mask; /* mask.extension "": there is none */
} stk_pack_item;

typedef struct stk_pack_shard {
    char name[STK_PACK_NAME];
    size_t first, count; /* items */
    uint64_t bytes;      /* of the archive */
    uint64_t sources;    /* hash of names, sizes and times of its samples' files */
} stk_pack_shard;

typedef struct stk_pack_plan {
    const stoke_dataset *dataset;
    stk_pack_item *items;
    size_t count, capacity;
    stk_pack_shard *shards;
    size_t n_shards, shards_capacity;
    uint64_t bytes;      /* of all shards */
    stoke_bad_file *bad; /* left out; for the report, which takes them over */
    size_t n_bad, bad_capacity;
    stk_string_arena keys;
} stk_pack_plan;

/* Opens every file of the set. progress is asked now and then whether to go on. */
int stk_pack_plan_make(stk_pack_plan *plan, const stoke_dataset *dataset, const stoke_pack_params *params,
                       stoke_progress_fn progress, void *context, stoke_error *err);
void stk_pack_plan_free(stk_pack_plan *plan); /* accepts a zeroed struct */

/* Name of a member: KEY.jpg or KEY.mask.png. 0 when it is too long for an archive. */
int stk_pack_member(const stk_pack_item *item, int mask, char *name, size_t size);

/* Opens a sample's file for reading and looks at it: a descriptor, or -1 with the reason, without the path,
 * in err. */
int stk_pack_open(const stoke_blob *blob, const char *shown, stk_pack_file *file, stoke_error *err);

#endif
