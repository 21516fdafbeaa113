/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry as bytes: header, pixels of the image (packed rows), class ids (label_codec.h). In native byte
 * order: a folder is shared by processes, not carried between kinds of machines; another order fails at the
 * magic number.
 */
#ifndef STOKE_SRC_CACHE_ENTRY_H
#define STOKE_SRC_CACHE_ENTRY_H

#include "src/cache/cache.h"

typedef struct stk_entry_header {
    uint32_t magic, version;
    uint64_t key[2];
    uint32_t width, height; /* of image and mask */
    uint32_t source_width, source_height;
    uint32_t image_depth, mask_depth; /* bytes per sample; mask 0 = none */
    uint64_t mask_bytes;              /* packed */
    uint64_t image_hash, mask_hash;   /* XXH3-64 of the bytes as stored */
    uint64_t header_hash;             /* of all before */
} stk_entry_header;

/* Bytes of the image's pixels, of the unpacked mask, and of the whole entry. Only of a good header. */
size_t stk_entry_image_bytes(const stk_entry_header *header);
size_t stk_entry_ids_bytes(const stk_entry_header *header);
size_t stk_entry_bytes(const stk_entry_header *header);

/* `pixels` are the packed rows of sample->image, `packed` the mask. */
stk_entry_header stk_entry_describe(stk_cache_key key, const stk_cache_hit *sample, const void *pixels,
                                    const void *packed, size_t packed_bytes);

/* Sets the header's own checksum. */
void stk_entry_seal(stk_entry_header *header);

/* 1 when a header is whole, belongs to the key and describes exactly file_bytes bytes. All sizes are then
 * safe to use: nothing is larger than the file itself, but for the mask, which has at most 2/3 of the image's
 * bytes when unpacked. */
int stk_entry_header_good(const stk_entry_header *header, stk_cache_key key, uint64_t file_bytes);
/* 1 when the body is the one the header was made for. */
int stk_entry_body_good(const stk_entry_header *header, const void *pixels, const void *packed);

/* Views of an entry's image and (empty) mask at the given places. */
stoke_image stk_entry_image(const stk_entry_header *header, void *pixels);
stoke_image stk_entry_mask(const stk_entry_header *header, void *ids);

#endif
