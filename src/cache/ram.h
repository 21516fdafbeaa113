/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries in memory, up to a budget. Once kept, an entry stays where it is and is never changed until the
 * end: readers use it without a copy and without a lock.
 */
#ifndef STOKE_SRC_CACHE_RAM_H
#define STOKE_SRC_CACHE_RAM_H

#include "src/cache/entry.h"

typedef struct stk_ram stk_ram;

typedef struct stk_ram_entry {
    stk_entry_header header;
    const uint8_t *pixels, *packed;
} stk_ram_entry;

stk_ram *stk_ram_create(uint64_t budget); /* NULL for want of memory */
void stk_ram_destroy(stk_ram **ram);

/* NULL when there is none. Valid until destroy. */
const stk_ram_entry *stk_ram_find(stk_ram *ram, stk_cache_key key);
/* 1 when an entry of so many bytes would fit. */
int stk_ram_has_room(stk_ram *ram, uint64_t bytes);
/* Copies an entry. 1 when it is kept; 0 when it was there already, has no room or there is no memory. */
int stk_ram_keep(stk_ram *ram, const stk_entry_header *header, const void *pixels, const void *packed);
uint64_t stk_ram_bytes(stk_ram *ram);

#endif
