/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry as bytes: header, pixels of the image (packed rows), class ids (stk_labels_pack). In native byte
 * order: a folder is shared by processes, not carried between kinds of machines; another order fails at the
 * magic number.
 */
#ifndef STOKE_SRC_CACHE_ENTRY_H
#define STOKE_SRC_CACHE_ENTRY_H

#include <stoke/image.h>
#include <sys/uio.h>

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
size_t stk_entry_bytes(const stk_entry_header *header);

/* `pixels` are the packed rows of sample->image, `packed` the mask. */
stk_entry_header stk_entry_describe(stk_cache_key key, const stk_cache_hit *sample, const void *pixels,
                                    const void *packed, size_t packed_bytes);

/* Sets the header's own checksum. */
void stk_entry_seal(stk_entry_header *header);

/* An entry becomes a sample: its bytes are checked before they are used, and go where the caller wants them.
 * Knows nothing of files, so that any bytes can be tried.
 */

/* Where the bytes of an entry come from. `read` fills all parts from `offset` on and may change their list; 1
 * when all of it was read. */
typedef struct stk_entry_source {
    int (*read)(const void *context, struct iovec *parts, int count, uint64_t offset);
    const void *context;
    uint64_t bytes;
} stk_entry_source;

/* Where the sample goes: the targets where they fit (NULL: none), else the bench. See stk_cache_get. */
typedef struct stk_entry_goal {
    stk_cache_scratch *bench;
    const stoke_image *image_target, *mask_target;
} stk_entry_goal;

typedef enum stk_entry_result {
    STK_ENTRY_NONE,   /* no such entry, or no place for it */
    STK_ENTRY_FOUND,  /* header and body are good */
    STK_ENTRY_DAMAGED /* was not what it should be */
} stk_entry_result;

/* `header` and `packed`, the mask as it is kept (in the bench), are set when the entry is found. */
stk_entry_result stk_entry_read(const stk_entry_source *source, stk_cache_key key, const stk_entry_goal *goal,
                                stk_entry_header *header, const void **packed, stk_cache_hit *out);

/* A good entry that is in memory: without an image target its own pixels are lent, and nobody writes through
 * that view. 0: no place for the mask, or it does not unpack. */
int stk_entry_lend(const stk_entry_header *header, const void *pixels, const void *packed,
                   const stk_entry_goal *goal, stk_cache_hit *out);

/* Class ids, packed without loss: label maps are mostly long runs and rows that repeat the row above, so a
 * run code shrinks them 20 to 100 times and unpacks at the speed of memset. A map that does not shrink is
 * stored as it is. Lossy or predictive image codecs have no business here: an id is a name, not a quantity.
 */

/* Most bytes a map can take when packed. */
size_t stk_labels_pack_bound(uint32_t width, uint32_t height, uint8_t depth);
/* Packs a 1-channel map; returns the bytes used (<= bound). */
size_t stk_labels_pack(const stoke_image *map, uint8_t *packed);
/* Fills `map` (size and depth known, any stride). STOKE_E_FORMAT unless exactly `bytes` bytes describe
 * exactly this map; never reads or writes outside. */
int stk_labels_unpack(const uint8_t *packed, size_t bytes, const stoke_image *map, stoke_error *err);

#endif
