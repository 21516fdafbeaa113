/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache files are anyone's: an entry of any bytes is found or damaged, costs no more than its bytes pay for,
 * and is the same sample wherever it goes. The checksums are set right first, so that what lies behind them
 * is reached; they are no defence against someone who can compute them. Real files are
 * tests/unit/test_cache.c's.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "src/cache/entry.h"

static const stk_cache_key key = { { 0x0102030405060708, 0x1112131415161718 } };

/* Checksums of whatever part of the body the header claims, as far as it is there. */
static void put_right(uint8_t *bytes, size_t size)
{
    stk_entry_header h;
    if (size < sizeof h) return;
    memcpy(&h, bytes, sizeof h);
    memcpy(h.key, key.word, sizeof h.key);
    const size_t body = size - sizeof h, mask = h.mask_bytes < body ? (size_t)h.mask_bytes : body;
    h.image_hash = XXH3_64bits(bytes + sizeof h, body - mask);
    h.mask_hash = XXH3_64bits(bytes + size - mask, mask);
    stk_entry_seal(&h);
    memcpy(bytes, &h, sizeof h);
}

/* Of a source whose length is right: what is asked for beyond it would be an overflow here. */
static int read_memory(const void *context, struct iovec *parts, int count, uint64_t offset)
{
    const uint8_t *bytes = context;
    for (int i = 0; i < count; offset += parts[i++].iov_len)
        if (parts[i].iov_len) memcpy(parts[i].iov_base, bytes + offset, parts[i].iov_len);
    return 1;
}

static size_t bytes_of(const stoke_image *image)
{
    return image->data ? image->stride * image->height : 0;
}

/* Once more, into targets of the size that was found. */
static void check_targets(const stk_entry_source *source, const stk_cache_hit *found)
{
    stk_cache_scratch bench = { 0 };
    stk_entry_header header;
    const void *packed;
    stk_cache_hit got;
    stoke_image image = found->image, mask = found->mask;
    image.data = malloc(bytes_of(&found->image));
    mask.data = mask.data ? malloc(bytes_of(&found->mask)) : NULL;
    const stk_entry_goal goal = { &bench, &image, &mask };
    if (stk_entry_read(source, key, &goal, &header, &packed, &got) != STK_ENTRY_FOUND) abort();
    if (got.image.data != image.data || got.mask.data != mask.data) abort();
    if (memcmp(image.data, found->image.data, bytes_of(&image))) abort();
    if (mask.data && memcmp(mask.data, found->mask.data, bytes_of(&mask))) abort();
    /* and out of memory, as entries that are kept there are lent */
    if (!stk_entry_lend(&header, found->image.data, packed, &goal, &got)) abort();
    if (mask.data && memcmp(mask.data, found->mask.data, bytes_of(&mask))) abort();
    stk_cache_scratch_free(&bench);
    free(image.data);
    free(mask.data);
}

FUZZ_TARGET(cache_entry)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, bytes, size);
    put_right(copy, size);
    stk_cache_scratch bench = { .limit = 1 << 24 };
    const stk_entry_source source = { read_memory, copy, size };
    const stk_entry_goal goal = { &bench, NULL, NULL };
    stk_entry_header header;
    const void *packed;
    stk_cache_hit got;
    const stk_entry_result result = stk_entry_read(&source, key, &goal, &header, &packed, &got);
    if (result == STK_ENTRY_NONE) abort(); /* there is room for whatever these bytes pay for */
    if (stk_cache_scratch_memory(&bench) > size * 2 + 256) abort();
    if (result == STK_ENTRY_FOUND) check_targets(&source, &got);
    stk_cache_scratch_free(&bench);
    free(copy);
    return 0;
}
