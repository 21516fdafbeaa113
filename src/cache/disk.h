/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a cache and its files. Everything is done below an open folder (openat): names are short, and
 * the working directory may change.
 */
#ifndef STOKE_SRC_CACHE_DISK_H
#define STOKE_SRC_CACHE_DISK_H

#include "src/cache/entry.h"

typedef struct stk_disk stk_disk;

int stk_disk_open(stk_disk **out, const char *folder, uint64_t budget, stoke_error *err);
void stk_disk_close(stk_disk **disk);
stk_memo *stk_disk_memo(stk_disk *disk);

/* Where the bytes of an entry go: found by the caller once the header is known. */
typedef struct stk_disk_places {
    void *pixels, *packed;
} stk_disk_places;
/* 0: no, there is no memory or it is too large. */
typedef int (*stk_disk_place_fn)(void *context, const stk_entry_header *header, stk_disk_places *places);

typedef enum stk_disk_result {
    STK_DISK_NONE,   /* no such entry, or no place for it */
    STK_DISK_FOUND,  /* header and body are good */
    STK_DISK_DAMAGED /* was not what it should be; see stk_disk_remove */
} stk_disk_result;
stk_disk_result stk_disk_read(stk_disk *disk, stk_cache_key key, stk_disk_place_fn place, void *context,
                              stk_entry_header *header);
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
