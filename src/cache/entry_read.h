/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry becomes a sample: its bytes are checked before they are used, and go where the caller wants them.
 * Knows nothing of files, so that any bytes can be tried.
 */
#ifndef STOKE_SRC_CACHE_ENTRY_READ_H
#define STOKE_SRC_CACHE_ENTRY_READ_H

#include <sys/uio.h>

#include "src/cache/entry.h"

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

#endif
