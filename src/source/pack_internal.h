/* SPDX-License-Identifier: Apache-2.0
 *
 * What `pack` will write, settled before it writes: every sample's files opened once, its key, its shard.
 */
#ifndef STOKE_SRC_SOURCE_PACK_INTERNAL_H
#define STOKE_SRC_SOURCE_PACK_INTERNAL_H

#include <limits.h>
#include <stoke/tools/pack.h>

#include "src/base/mem.h"

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
    stk_pack_file file[2]; /* image, mask */
    unsigned files;        /* 1: there is no mask */
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
    struct stk_quarantine *quarantine; /* records them */
} stk_pack_plan;

/* The folder `pack` writes into: whose it is, what an earlier run left there, and the manifest that tells. */

typedef struct stk_pack_folder {
    const char *path;
    int fd;            /* holds the lock; -1 = not open */
    uint64_t replaced; /* shards that were removed for new ones */
} stk_pack_folder;

/* Makes the folder, locks it, and makes it fit for the plan: the manifest says what will be written, and no
 * shard is there that it does not describe. STOKE_E_STATE when another set, other settings or other sources
 * were packed here, or the folder is somebody else's; with force, what was packed here before is removed. A
 * file that stands under the name of such a shard and is not the one is never removed: STOKE_E_STATE. */
int stk_pack_folder_open(stk_pack_folder *folder, const stk_pack_plan *plan, const stoke_pack_params *params,
                         stoke_error *err);
void stk_pack_folder_close(stk_pack_folder *folder);

/* Path of a file in the folder; 0 when it is too long. */
int stk_pack_path(const stk_pack_folder *folder, const char *name, char path[PATH_MAX]);

#endif
