/* SPDX-License-Identifier: Apache-2.0
 *
 * An open-addressing table of pointers under one lock, held for a lookup (about 50 ns) and never while pixels
 * are copied.
 */
#include "src/cache/ram.h"

#include <pthread.h>
#include <string.h>

enum { FIRST_SLOTS = 256, ALIGNMENT = 64 };

struct stk_ram {
    pthread_mutex_t lock;
    stk_ram_entry **slots;
    size_t mask, used;
    uint64_t bytes, budget;
};

/* Keys are hashes: their bits are as good an index as any. At most half of the slots are used. */
static stk_ram_entry **find_slot(const stk_ram *ram, const uint64_t key[2])
{
    size_t i = key[0] & ram->mask;
    for (;; i = (i + 1) & ram->mask) {
        const stk_ram_entry *e = ram->slots[i];
        if (!e || (e->header.key[0] == key[0] && e->header.key[1] == key[1])) return &ram->slots[i];
    }
}

stk_ram *stk_ram_create(uint64_t budget)
{
    stk_ram *ram = stk_calloc(1, sizeof *ram);
    if (!ram) return NULL;
    ram->slots = stk_calloc(FIRST_SLOTS, sizeof *ram->slots);
    if (!ram->slots) {
        stk_free(ram);
        return NULL;
    }
    ram->mask = FIRST_SLOTS - 1;
    ram->budget = budget;
    pthread_mutex_init(&ram->lock, NULL);
    return ram;
}

void stk_ram_destroy(stk_ram **pointer)
{
    stk_ram *ram = *pointer;
    if (!ram) return;
    *pointer = NULL;
    for (size_t i = 0; i <= ram->mask; i++) stk_free(ram->slots[i]);
    pthread_mutex_destroy(&ram->lock);
    stk_free(ram->slots);
    stk_free(ram);
}

const stk_ram_entry *stk_ram_find(stk_ram *ram, stk_cache_key key)
{
    pthread_mutex_lock(&ram->lock);
    const stk_ram_entry *entry = *find_slot(ram, key.word);
    pthread_mutex_unlock(&ram->lock);
    return entry;
}

/* What an entry takes with its place in the table (two pointers: half of the slots are empty). */
static uint64_t cost(uint64_t entry_bytes)
{
    return entry_bytes + sizeof(stk_ram_entry) + ALIGNMENT + 2 * sizeof(void *);
}

int stk_ram_has_room(stk_ram *ram, uint64_t bytes)
{
    pthread_mutex_lock(&ram->lock);
    const int r = ram->budget - ram->bytes >= cost(bytes);
    pthread_mutex_unlock(&ram->lock);
    return r;
}

static int grow(stk_ram *ram)
{
    if (ram->used * 2 <= ram->mask) return 1;
    const stk_ram old = *ram;
    stk_ram_entry **fresh = stk_calloc((old.mask + 1) * 2, sizeof *fresh);
    if (!fresh) return 0;
    ram->slots = fresh;
    ram->mask = old.mask * 2 + 1;
    for (size_t i = 0; i <= old.mask; i++)
        if (old.slots[i]) *find_slot(ram, old.slots[i]->header.key) = old.slots[i];
    stk_free(old.slots);
    return 1;
}

/* Takes the room before memory is taken and pixels are copied, so that threads together stay in the budget.
 */
static int take_room(stk_ram *ram, uint64_t bytes)
{
    pthread_mutex_lock(&ram->lock);
    const int r = ram->budget - ram->bytes >= bytes;
    if (r) ram->bytes += bytes;
    pthread_mutex_unlock(&ram->lock);
    return r;
}

int stk_ram_keep(stk_ram *ram, const stk_entry_header *header, const void *pixels, const void *packed)
{
    const size_t image_bytes = stk_entry_image_bytes(header);
    const uint64_t bytes = cost(stk_entry_bytes(header));
    if (!take_room(ram, bytes)) return 0;
    const size_t head = (sizeof(stk_ram_entry) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    stk_ram_entry *entry = stk_alloc_aligned(head + image_bytes + (size_t)header->mask_bytes, ALIGNMENT);
    if (entry) {
        uint8_t *body = (uint8_t *)entry + head;
        *entry = (stk_ram_entry){ *header, body, body + image_bytes };
        memcpy(body, pixels, image_bytes);
        if (header->mask_bytes) memcpy(body + image_bytes, packed, (size_t)header->mask_bytes);
    }
    pthread_mutex_lock(&ram->lock);
    stk_ram_entry **slot = entry && grow(ram) ? find_slot(ram, header->key) : NULL;
    const int kept = slot && !*slot;
    if (kept) {
        *slot = entry;
        ram->used++;
    } else {
        ram->bytes -= bytes;
    }
    pthread_mutex_unlock(&ram->lock);
    if (!kept) stk_free(entry);
    return kept;
}

uint64_t stk_ram_bytes(stk_ram *ram)
{
    pthread_mutex_lock(&ram->lock);
    const uint64_t bytes = ram->bytes;
    pthread_mutex_unlock(&ram->lock);
    return bytes;
}
