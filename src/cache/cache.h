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

/* Which content a file had: a cache hit then costs two stat calls instead of reading both source files to
 * find the key. A file is known by everything stat says about it (identity); one that was written to, moved
 * or replaced has another identity and is read again. */

/* XXH3-128 of a file's bytes. */
typedef struct stk_cache_digest {
    uint64_t word[2];
} stk_cache_digest;

stk_cache_digest stk_digest_of(const void *bytes, size_t size);

typedef struct stk_cache_identity {
    uint64_t device, inode, mtime_ns, ctime_ns;
    uint64_t file_size;    /* of the whole file */
    uint64_t offset, size; /* the part that is looked at */
} stk_cache_identity;

/* 0 when the file cannot be looked at. */
int stk_identity_of(const stoke_blob *blob, stk_cache_identity *identity);
int stk_identity_equal(const stk_cache_identity *a, const stk_cache_identity *b);

typedef struct stk_memo stk_memo;

/* `folder` is an open folder whose file "memo" has the records of earlier runs, or -1: memory only. `alone`:
 * no other process uses the folder, a file that has grown too large or is damaged may be written again.
 * `writable` 0: nothing is added to the file. */
int stk_memo_open(stk_memo **out, int folder, int alone, int writable, stoke_error *err);
void stk_memo_close(stk_memo **memo);

/* Takes over what the bytes of such a file say, stepping over what is no record. 1 when they are nothing but
 * records, none of them twice. Not thread-safe; nor is stk_memo_file. */
int stk_memo_take(stk_memo *memo, const void *file, size_t size);
/* The file that says all a memo knows: its size, and its bytes where `to` is not NULL. */
size_t stk_memo_file(const stk_memo *memo, void *to);

/* Makes room for `files` more, so that steady work allocates nothing. Returns 0 for want of memory. */
int stk_memo_reserve(stk_memo *memo, uint64_t files);

uint64_t stk_memo_memory(stk_memo *memo);
/* The same of one that knows so many files and no others. */
uint64_t stk_memo_bytes(uint64_t files);

/* 1 and the digest when the identity is known. Thread-safe, as is add. */
int stk_memo_find(stk_memo *memo, const stk_cache_identity *identity, stk_cache_digest *digest);
/* Remembers what was read from a file that had this identity before and after reading. A file changed less
 * than 3 s ago is not remembered: time stamps are coarse (4 ms on ext4, 2 s on FAT), and a second change
 * within one tick would not show. */
void stk_memo_add(stk_memo *memo, const stk_cache_identity *identity, const stk_cache_digest *digest);

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
    uint64_t damaged;
    /* disk: with a budget, all entries of the folder; without, those added since the first of the processes
     * that use it now opened it. */
    uint64_t ram_bytes, disk_bytes;
} stk_cache_stats;
void stk_cache_stats_get(const stk_cache *cache, stk_cache_stats *stats);
/* Why writing stopped; NULL while it goes on. */
const char *stk_cache_warning(const stk_cache *cache);

#endif
