/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of fitted samples: what decoding and fitting gave, kept so that later epochs skip both.
 *
 * An entry is one file, FOLDER/ab/abcdef....stk, named by its key (content of image and mask files + all
 * settings that shape the pixels). It is written beside and renamed, never changed; header and body carry
 * XXH3 checksums that are compared at every read, so a torn, cut or altered file is noticed, removed and made
 * again, never used. No fsync: the checksum makes it unnecessary. Several processes may use one folder: who
 * comes second finds the entry or writes the same bytes.
 *
 * Samples are visited once per epoch in random order, so which entries stay does not matter and eviction
 * would only cost: the first ones to come stay until the budget is full, in memory first, then on disk.
 */
#ifndef STOKE_SRC_CACHE_CACHE_H
#define STOKE_SRC_CACHE_CACHE_H

#include <stoke/image.h>

#include "src/base/mem.h"

typedef struct stk_cache stk_cache;

typedef struct stk_cache_key {
    uint64_t word[2];
} stk_cache_key;

typedef struct stk_cache_settings {
    const char *folder;   /* NULL or "": memory only */
    uint64_t disk_budget; /* bytes of all entries in the folder, other processes' included; 0 = no limit */
    uint64_t ram_budget;  /* bytes kept in memory; 0 = none */
} stk_cache_settings;

/* Creates the folder when missing. */
int stk_cache_open(stk_cache **out, const stk_cache_settings *settings, stoke_error *err);
void stk_cache_close(stk_cache **cache);

/* What an entry holds. `image` 3 channels, `mask` 1 channel of class ids (data NULL: the sample has none). */
typedef struct stk_cached {
    stoke_image image, mask;
} stk_cached;

/* Scratch of one worker for reading entries; zeroed = empty. */
typedef struct stk_cache_bench {
    stk_buffer file, pixels, ids;
} stk_cache_bench;
void stk_cache_bench_free(stk_cache_bench *bench);
uint64_t stk_cache_bench_memory(const stk_cache_bench *bench);

/* 1 and the sample, or 0 when there is no (good) entry. Views stay valid until the bench is used again. When
 * image_target.data (mask_target.data) is set and the entry has that size, depth and a packed stride, pixels
 * go straight there: the u8 batch row. Thread-safe. */
int stk_cache_get(stk_cache *cache, stk_cache_key key, stk_cache_bench *bench,
                  const stoke_image *image_target, const stoke_image *mask_target, stk_cached *out);

/* Keeps a sample if the budgets allow. Never an error for the caller: when the disk is full or not writable,
 * the cache stops writing and stk_cache_warning has the reason. Thread-safe. */
void stk_cache_put(stk_cache *cache, stk_cache_key key, stk_cache_bench *bench, const stk_cached *sample);

typedef struct stk_cache_stats {
    uint64_t hits_ram, hits_disk, misses, stored, damaged;
    uint64_t ram_bytes, disk_bytes;
} stk_cache_stats;
void stk_cache_stats_get(const stk_cache *cache, stk_cache_stats *stats);
/* Why writing stopped; NULL while it goes on. */
const char *stk_cache_warning(const stk_cache *cache);

#endif
