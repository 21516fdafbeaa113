/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a cache and its files. Everything is done below an open folder (openat): names are short, and
 * the working directory may change.
 */
#ifndef STOKE_SRC_CACHE_DISK_H
#define STOKE_SRC_CACHE_DISK_H

#include "src/cache/entry_read.h"

typedef struct stk_disk stk_disk;

int stk_disk_open(stk_disk **out, const char *folder, uint64_t budget, stoke_error *err);
void stk_disk_close(stk_disk **disk);
stk_memo *stk_disk_memo(stk_disk *disk);

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
