/* SPDX-License-Identifier: Apache-2.0
 *
 * The names in the folder of a cache: what is found under another name is not ours and stays.
 *
 *   .stokehold             the marker
 *   memo, usage            see memo.c and layout.c; both begin with a magic number
 *   ab/ab0123....stk       an entry: 32 hexadecimal digits, the first two are its folder's name
 *   tmp/PID-N-HASH         an entry being written
 */
#ifndef STOKE_SRC_CACHE_LAYOUT_H
#define STOKE_SRC_CACHE_LAYOUT_H

#include <dirent.h>
#include <pthread.h>
#include <stdint.h>

#include "src/base/ours.h"
#include "src/cache/entry.h"

/* "stkmemo1" and "skusage1", as bytes in the order of this machine. */
#define STK_MEMO_MAGIC  UINT64_C(0x316f6d656d6b7473)
#define STK_USAGE_MAGIC UINT64_C(0x3165676173756b73)

extern const stk_ours_kind stk_cache_kind;

/* A folder below an open one; NULL when there is none, or it is a link. */
DIR *stk_cache_below(int folder, const char *name);

int stk_cache_is_entry(const char *folder_name, const char *name);
int stk_cache_is_temporary(const char *name);

/* How many bytes the entries of a folder take, counted by all processes that use it together; and whether a
 * process is the only one.
 */

typedef struct stk_cache_usage {
    int fd; /* of FOLDER/usage */
    pthread_mutex_t lock;
} stk_cache_usage;

/* Opens the file "usage" in an open folder. 1: no other process uses the folder, and none comes in before
 * stk_usage_ready is called. 0: others do. -errno: the file cannot be opened or locked;
 * -EEXIST: what is there under that name is not ours. */
int stk_usage_open(stk_cache_usage *usage, int folder);
void stk_usage_ready(stk_cache_usage *usage);
void stk_usage_close(stk_cache_usage *usage); /* accepts one whose open failed */

/* The count. It is known once somebody has added up the folder (set) and the record is whole; adding to an
 * unknown one counts from 0. */
uint64_t stk_usage_bytes(stk_cache_usage *usage, int *known); /* known may be NULL */
void stk_usage_set(stk_cache_usage *usage, uint64_t bytes, int known);

/* Takes room under the budget (0 = no limit): 1, or 0 when there is not enough. */
int stk_usage_take(stk_cache_usage *usage, uint64_t bytes, uint64_t budget);
void stk_usage_give(stk_cache_usage *usage, uint64_t bytes);

/* The folder of a cache and its files. Everything is done below an open folder (openat): names are short, and
 * the working directory may change.
 */

typedef struct stk_disk stk_disk;

/* *memo is what earlier runs knew; close it first, in any case. */
int stk_disk_open(stk_disk **out, const char *folder, uint64_t budget, stk_memo **memo, stoke_error *err);
void stk_disk_close(stk_disk **disk);

/* One that is damaged: see stk_disk_remove. */
stk_entry_result stk_disk_read(stk_disk *disk, stk_cache_key key, const stk_entry_goal *goal,
                               stk_entry_header *header, const void **packed, stk_cache_hit *out);
/* Removes the file of a key: it is damaged. */
void stk_disk_remove(stk_disk *disk, stk_cache_key key);

/* 1 when an entry of so many bytes would be taken. */
int stk_disk_has_room(stk_disk *disk, uint64_t bytes);
/* 1 when the entry is in the folder afterwards. */
int stk_disk_write(stk_disk *disk, stk_cache_key key, const stk_entry_header *header, const void *pixels,
                   const void *packed);

uint64_t stk_disk_bytes(stk_disk *disk);
const char *stk_disk_warning(const stk_disk *disk); /* why nothing more is written; NULL: it is */

#endif
