/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of fitted samples: what decoding and fitting gave, kept so that later epochs skip both.
 *
 * An entry is one file, FOLDER/ab/abcdef....stk, named by its key (content of image and mask files + all
 * settings that shape the pixels). It is written in FOLDER/tmp and renamed, never changed; header and body
 * carry XXH3 checksums that are compared at every read, so a torn, cut or altered file is noticed, removed
 * and made again, never used. No fsync: the checksum makes it unnecessary. Several processes may use one
 * folder: who comes second finds the entry or writes the same bytes.
 *
 * Samples are visited once per epoch in random order, so which entries stay does not matter and eviction
 * would only cost: the first ones to come stay until the budgets are full. A new entry goes to disk, where
 * the next run finds it, and to memory only when the disk does not take it; an entry read from disk is then
 * kept in memory too as long as the disk has room for the rest. So the two budgets add up.
 *
 *   entry.c   an entry as bytes, its checks, class ids packed; it becomes a sample
 *   disk.c    the folder, its files        layout.c   names in it, and its bytes, counted by all processes
 *   cache.c   entries in memory            memo.c     file -> digest of its content
 */
#ifndef STOKE_SRC_CACHE_CACHE_H
#define STOKE_SRC_CACHE_CACHE_H

#include <stoke/image.h>

#include "src/base/mem.h"
#include "src/cache/memo.h"

typedef struct stk_cache stk_cache;

typedef struct stk_cache_key {
    uint64_t word[2];
} stk_cache_key;

/* The key of a sample: what is in its files (mask NULL: none) and a text of all settings that shape the
 * pixels. Content, not names: the same pair in a folder, in a shard or elsewhere has the same key. */
stk_cache_key stk_cache_key_make(const stk_cache_digest *image, const stk_cache_digest *mask,
                                 const char *transform);

typedef struct stk_cache_settings {
    const char *folder; /* NULL or "": memory only */
    /* Bytes of all entries in the folder, other processes' included; 0 = no limit. Room is taken before an
     * entry is written, under a lock of the folder, so that processes together stay below it. */
    uint64_t disk_budget;
    uint64_t ram_budget; /* bytes kept in memory; 0 = none */
} stk_cache_settings;

/* Creates the folder when missing. One that exists but cannot be written is used for reading, with a warning.
 */
int stk_cache_open(stk_cache **out, const stk_cache_settings *settings, stoke_error *err);
void stk_cache_close(stk_cache **cache);

/* What is known about files; kept in the folder. */
stk_memo *stk_cache_memo(stk_cache *cache);

/* What an entry holds. `image` 3 channels, `mask` 1 channel of class ids and the size of the image (data
 * NULL: the sample has none). The size of the picture they come from: a draw depends on it. */
typedef struct stk_cache_hit {
    stoke_image image, mask;
    uint32_t source_width, source_height;
    int from_ram; /* set by stk_cache_get: 1 = it was in memory, 0 = on disk */
} stk_cache_hit;

/* Scratch of one worker for reading entries; zeroed = empty. */
typedef struct stk_cache_scratch {
    stk_mem_buffer file, pixels, ids;
    uint64_t limit; /* an entry for which all this would hold more bytes is no hit; 0 = none */
} stk_cache_scratch;
void stk_cache_scratch_free(stk_cache_scratch *bench);
uint64_t stk_cache_scratch_memory(const stk_cache_scratch *bench);

/* 1 and the sample, or 0 when there is no (good) entry. Views stay valid until the bench is used again. When
 * image_target->data (mask_target->data) is set and the entry has that size, depth and a packed stride,
 * pixels go straight there: the u8 batch row (whose content is undefined after a miss). Targets may be NULL.
 * Thread-safe. */
int stk_cache_get(stk_cache *cache, stk_cache_key key, stk_cache_scratch *bench,
                  const stoke_image *image_target, const stoke_image *mask_target, stk_cache_hit *out);

/* The entry just given is whole but not what such a key stands for: removes it. Only a forger makes those. */
void stk_cache_drop(stk_cache *cache, stk_cache_key key);

/* Whether an image of so many bytes would be kept; asked before making one only for that. */
int stk_cache_has_room(stk_cache *cache, uint64_t image_bytes);

/* Keeps a sample if the budgets allow. Never an error for the caller: when the disk is full or not writable,
 * the cache stops writing there and stk_cache_warning has the reason. 1 when the cache has it now.
 * Thread-safe.
 */
int stk_cache_put(stk_cache *cache, stk_cache_key key, stk_cache_scratch *bench, const stk_cache_hit *sample);

typedef struct stk_cache_stats {
    uint64_t hits_ram, hits_disk, misses, stored, damaged;
    /* disk: with a budget, all entries of the folder; without, those added since the first of the processes
     * that use it now opened it. */
    uint64_t ram_bytes, disk_bytes;
} stk_cache_stats;
void stk_cache_stats_get(const stk_cache *cache, stk_cache_stats *stats);
/* Why writing stopped; NULL while it goes on. */
const char *stk_cache_warning(const stk_cache *cache);

#endif
