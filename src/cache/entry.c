/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cache/entry.h"

#include <stddef.h>
#include <xxhash.h>
#include <stoke/tools/image.h>

enum { VERSION = 1 };
#define MAGIC UINT32_C(0x636b7473) /* "stkc" */

size_t stk_entry_image_bytes(const stk_entry_header *header)
{
    return stoke_image_bytes(header->width, header->height, 3, (uint8_t)header->image_depth);
}

size_t stk_entry_ids_bytes(const stk_entry_header *header)
{
    return (size_t)header->width * header->height * header->mask_depth;
}

size_t stk_entry_bytes(const stk_entry_header *header)
{
    return sizeof *header + stk_entry_image_bytes(header) + (size_t)header->mask_bytes;
}

void stk_entry_seal(stk_entry_header *header)
{
    header->header_hash = XXH3_64bits(header, offsetof(stk_entry_header, header_hash));
}

stk_entry_header stk_entry_describe(stk_cache_key key, const stk_cache_hit *sample, const void *pixels,
                                    const void *packed, size_t packed_bytes)
{
    stk_entry_header header = {
        .magic = MAGIC,
        .version = VERSION,
        .key = { key.word[0], key.word[1] },
        .width = sample->image.width,
        .height = sample->image.height,
        .source_width = sample->source_width,
        .source_height = sample->source_height,
        .image_depth = sample->image.depth,
        .mask_depth = sample->mask.data ? sample->mask.depth : 0,
        .mask_bytes = packed_bytes,
    };
    header.image_hash = XXH3_64bits(pixels, stk_entry_image_bytes(&header));
    header.mask_hash = XXH3_64bits(packed, packed_bytes);
    stk_entry_seal(&header);
    return header;
}

int stk_entry_header_good(const stk_entry_header *header, stk_cache_key key, uint64_t file_bytes)
{
    if (header->magic != MAGIC || header->version != VERSION) return 0;
    if (header->header_hash != XXH3_64bits(header, offsetof(stk_entry_header, header_hash))) return 0;
    if (header->key[0] != key.word[0] || header->key[1] != key.word[1]) return 0;
    /* The hash is no secret: from here on the numbers may still be anyone's. */
    if (header->image_depth != 1 && header->image_depth != 2) return 0;
    if (header->mask_depth > 2 || !header->mask_depth != !header->mask_bytes) return 0;
    if (!header->width || !header->height || !header->source_width || !header->source_height) return 0;
    const size_t image_bytes = stk_entry_image_bytes(header);
    size_t bytes;
    return image_bytes && stk_add(image_bytes, sizeof *header, &bytes) &&
           stk_add(bytes, (size_t)header->mask_bytes, &bytes) && bytes == file_bytes;
}

int stk_entry_body_good(const stk_entry_header *header, const void *pixels, const void *packed)
{
    return XXH3_64bits(pixels, stk_entry_image_bytes(header)) == header->image_hash &&
           XXH3_64bits(packed, (size_t)header->mask_bytes) == header->mask_hash;
}

stoke_image stk_entry_image(const stk_entry_header *header, void *pixels)
{
    return (stoke_image){ pixels,
                          (size_t)header->width * 3 * header->image_depth,
                          header->width,
                          header->height,
                          3,
                          (uint8_t)header->image_depth };
}

stoke_image stk_entry_mask(const stk_entry_header *header, void *ids)
{
    if (!header->mask_depth) return (stoke_image){ 0 };
    return (stoke_image){ ids,
                          (size_t)header->width * header->mask_depth,
                          header->width,
                          header->height,
                          1,
                          (uint8_t)header->mask_depth };
}
