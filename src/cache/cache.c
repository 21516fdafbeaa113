/* SPDX-License-Identifier: Apache-2.0
 *
 * The two tiers together.
 */
#include "src/cache/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>
#include <stoke/tools/image.h>

#include "src/base/error.h"
#include "src/cache/layout.h"
#include "src/cache/entry.h"

/* Entries in memory, up to a budget. Once kept, an entry stays where it is and is never changed until the
 * end: readers use it without a copy and without a lock.
 */

typedef struct ram_entry {
    stk_entry_header header;
    const uint8_t *pixels, *packed;
} ram_entry;

/* An open-addressing table of pointers under one lock, held for a lookup (about 50 ns) and never while pixels
 * are copied.
 */

enum { FIRST_SLOTS = 256, ALIGNMENT = 64 };

typedef struct ram_tier {
    pthread_mutex_t lock;
    ram_entry **slots; /* NULL: nothing is kept, and the budget is 0 */
    size_t mask, used;
    uint64_t bytes, budget;
} ram_tier;

/* Keys are hashes: their bits are as good an index as any. At most half of the slots are used. */
static ram_entry **find_slot(const ram_tier *ram, const uint64_t key[2])
{
    size_t i = key[0] & ram->mask;
    for (;; i = (i + 1) & ram->mask) {
        const ram_entry *e = ram->slots[i];
        if (!e || (e->header.key[0] == key[0] && e->header.key[1] == key[1])) return &ram->slots[i];
    }
}

/* What an entry takes with its place in the table (two pointers: half of the slots are empty). */
static uint64_t cost(uint64_t entry_bytes)
{
    return entry_bytes + sizeof(ram_entry) + ALIGNMENT + 2 * sizeof(void *);
}

/* 1 when there is room for an entry of so many bytes. take: it is the caller's from now on; taken before
 * memory is taken and pixels are copied, so that threads together stay in the budget. */
static int ram_room(ram_tier *ram, uint64_t bytes, int take)
{
    pthread_mutex_lock(&ram->lock);
    const int r = ram->budget - ram->bytes >= cost(bytes);
    if (r && take) ram->bytes += cost(bytes);
    pthread_mutex_unlock(&ram->lock);
    return r;
}

static int grow(ram_tier *ram)
{
    if (ram->used * 2 <= ram->mask) return 1;
    const ram_tier old = *ram;
    ram_entry **fresh = stk_calloc((old.mask + 1) * 2, sizeof *fresh);
    if (!fresh) return 0;
    ram->slots = fresh;
    ram->mask = old.mask * 2 + 1;
    for (size_t i = 0; i <= old.mask; i++)
        if (old.slots[i]) *find_slot(ram, old.slots[i]->header.key) = old.slots[i];
    stk_free(old.slots);
    return 1;
}

/* Copies an entry. 1 when it is kept; 0 when it was there already, has no room or there is no memory. */
static int ram_keep(ram_tier *ram, const stk_entry_header *header, const void *pixels, const void *packed)
{
    const size_t image_bytes = stk_entry_image_bytes(header);
    const uint64_t bytes = stk_entry_bytes(header);
    if (!ram_room(ram, bytes, 1)) return 0;
    const size_t head = (sizeof(ram_entry) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    ram_entry *entry = stk_alloc_aligned(head + image_bytes + (size_t)header->mask_bytes, ALIGNMENT);
    if (entry) {
        uint8_t *body = (uint8_t *)entry + head;
        *entry = (ram_entry){ *header, body, body + image_bytes };
        memcpy(body, pixels, image_bytes);
        if (header->mask_bytes) memcpy(body + image_bytes, packed, (size_t)header->mask_bytes);
    }
    pthread_mutex_lock(&ram->lock);
    ram_entry **slot = entry && grow(ram) ? find_slot(ram, header->key) : NULL;
    const int kept = slot && !*slot;
    if (kept) {
        *slot = entry;
        ram->used++;
    } else {
        ram->bytes -= cost(bytes);
    }
    pthread_mutex_unlock(&ram->lock);
    if (!kept) stk_free(entry);
    return kept;
}

struct stk_cache {
    stk_disk *disk; /* NULL: memory only */
    ram_tier ram;
    stk_memo *memo;
    _Atomic uint64_t damaged;
};

stk_cache_key stk_cache_key_make(const stk_cache_digest *image, const stk_cache_digest *mask,
                                 const char *transform)
{
    /* The settings by their digest: a fixed number of words, so that no two inputs can read the same. */
    const stk_cache_digest settings = stk_digest_of(transform, strlen(transform));
    const uint64_t words[] = { image->word[0],           image->word[1],           mask != NULL,
                               mask ? mask->word[0] : 0, mask ? mask->word[1] : 0, settings.word[0],
                               settings.word[1] };
    const XXH128_hash_t hash = XXH3_128bits(words, sizeof words);
    return (stk_cache_key){ { hash.low64, hash.high64 } };
}

int stk_cache_open(stk_cache **out, const stk_cache_settings *settings, stoke_error *err)
{
    *out = NULL;
    stk_cache *cache = stk_calloc(1, sizeof *cache);
    if (!cache) return stk_fail(err, STOKE_E_NOMEM, "no memory for the cache");
    int r = STOKE_OK;
    if (settings->folder && *settings->folder)
        r = stk_disk_open(&cache->disk, settings->folder, settings->disk_budget, &cache->memo, err);
    else
        r = stk_memo_open(&cache->memo, -1, 0, 0, err);
    pthread_mutex_init(&cache->ram.lock, NULL);
    if (!r && settings->ram_budget) {
        cache->ram.slots = stk_calloc(FIRST_SLOTS, sizeof *cache->ram.slots);
        cache->ram.mask = FIRST_SLOTS - 1;
        cache->ram.budget = settings->ram_budget;
        if (!cache->ram.slots) r = stk_fail(err, STOKE_E_NOMEM, "no memory for the cache");
    }
    if (r)
        stk_cache_close(&cache);
    else
        *out = cache;
    return r;
}

void stk_cache_close(stk_cache **pointer)
{
    stk_cache *cache = *pointer;
    if (!cache) return;
    *pointer = NULL;
    for (size_t i = 0; cache->ram.slots && i <= cache->ram.mask; i++) stk_free(cache->ram.slots[i]);
    stk_free(cache->ram.slots);
    pthread_mutex_destroy(&cache->ram.lock);
    stk_memo_close(&cache->memo);
    stk_disk_close(&cache->disk);
    stk_free(cache);
}

stk_memo *stk_cache_memo(stk_cache *cache)
{
    return cache->memo;
}

void stk_cache_scratch_free(stk_cache_scratch *bench)
{
    stk_buffer_free(&bench->file);
    stk_buffer_free(&bench->pixels);
    stk_buffer_free(&bench->ids);
}

uint64_t stk_cache_scratch_memory(const stk_cache_scratch *bench)
{
    return bench->file.capacity + bench->pixels.capacity + bench->ids.capacity;
}

/* ---- get ---- */

void stk_cache_drop(stk_cache *cache, stk_cache_key key)
{
    atomic_fetch_add(&cache->damaged, 1);
    if (cache->disk) stk_disk_remove(cache->disk, key);
}

static int get_disk(stk_cache *cache, stk_cache_key key, const stk_entry_goal *goal, stk_cache_hit *out)
{
    stk_entry_header header;
    const void *packed;
    if (!cache->disk) return 0;
    const stk_entry_result result = stk_disk_read(cache->disk, key, goal, &header, &packed, out);
    if (result == STK_ENTRY_DAMAGED) stk_cache_drop(cache, key);
    if (result != STK_ENTRY_FOUND) return 0;
    const uint64_t bytes = stk_entry_bytes(&header);
    if (ram_room(&cache->ram, bytes, 0) && stk_disk_has_room(cache->disk, bytes))
        ram_keep(&cache->ram, &header, out->image.data, packed);
    return 1;
}

int stk_cache_get(stk_cache *cache, stk_cache_key key, stk_cache_scratch *bench,
                  const stoke_image *image_target, const stoke_image *mask_target, stk_cache_hit *out)
{
    const stk_entry_goal goal = { bench, image_target, mask_target };
    const ram_entry *entry = NULL; /* valid until the end */
    if (cache->ram.slots) {
        pthread_mutex_lock(&cache->ram.lock);
        entry = *find_slot(&cache->ram, key.word);
        pthread_mutex_unlock(&cache->ram.lock);
    }
    if (!entry || !stk_entry_lend(&entry->header, entry->pixels, entry->packed, &goal, out))
        return get_disk(cache, key, &goal, out);
    out->from_ram = 1;
    return 1;
}

/* ---- put ---- */

/* The pixels without gaps between rows; NULL for want of memory. */
static const void *packed_pixels(const stoke_image *image, stk_mem_buffer *buffer)
{
    const size_t row_bytes = (size_t)image->width * image->channels * image->depth;
    if (image->stride == row_bytes) return image->data;
    uint8_t *rows = stk_buffer_reserve(buffer, row_bytes * image->height);
    if (rows) stk_copy_rows(rows, row_bytes, image->data, image->stride, row_bytes, image->height);
    return rows;
}

static int storable(const stk_cache_hit *sample)
{
    const stoke_image *image = &sample->image, *mask = &sample->mask;
    if (!image->data || !image->width || !image->height || image->channels != 3 || !sample->source_width ||
        !sample->source_height)
        return 0;
    return !mask->data ||
           (mask->channels == 1 && mask->width == image->width && mask->height == image->height);
}

int stk_cache_has_room(stk_cache *cache, uint64_t image_bytes)
{
    const uint64_t least = sizeof(stk_entry_header) + image_bytes;
    return (cache->disk && stk_disk_has_room(cache->disk, least)) || ram_room(&cache->ram, least, 0);
}

int stk_cache_put(stk_cache *cache, stk_cache_key key, stk_cache_scratch *bench, const stk_cache_hit *sample)
{
    if (!storable(sample)) return 0;
    const stoke_image *image = &sample->image, *mask = &sample->mask;
    /* Asked before the work of packing and hashing: with full budgets that would be for nothing. */
    if (!stk_cache_has_room(cache, stoke_image_bytes(image->width, image->height, 3, image->depth))) return 0;
    const void *pixels = packed_pixels(image, &bench->pixels);
    uint8_t *packed = NULL;
    size_t packed_bytes = 0;
    if (mask->data) {
        packed =
            stk_buffer_reserve(&bench->file, stk_labels_pack_bound(mask->width, mask->height, mask->depth));
        if (packed) packed_bytes = stk_labels_pack(mask, packed);
    }
    if (!pixels || (mask->data && !packed)) return 0;
    const stk_entry_header header = stk_entry_describe(key, sample, pixels, packed, packed_bytes);
    return (cache->disk && stk_disk_write(cache->disk, key, &header, pixels, packed)) ||
           ram_keep(&cache->ram, &header, pixels, packed);
}

/* ---- what became of it ---- */

void stk_cache_stats_get(const stk_cache *cache, stk_cache_stats *stats)
{
    ram_tier *ram = (ram_tier *)&cache->ram; /* a lock is no part of the value */
    pthread_mutex_lock(&ram->lock);
    *stats = (stk_cache_stats){
        .damaged = atomic_load(&cache->damaged),
        .ram_bytes = ram->bytes,
        .disk_bytes = cache->disk ? stk_disk_bytes(cache->disk) : 0,
    };
    pthread_mutex_unlock(&ram->lock);
}

const char *stk_cache_warning(const stk_cache *cache)
{
    return cache->disk ? stk_disk_warning(cache->disk) : NULL;
}
