/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cache/entry_read.h"

#include <string.h>

#include "src/cache/label_codec.h"

static int fits(const stoke_image *target, const stoke_image *image)
{
    return target && target->data && target->width == image->width && target->height == image->height &&
           target->channels == image->channels && target->depth == image->depth &&
           target->stride == image->stride;
}

/* The place of a picture: its target, or the buffer, if that stays within what is left of the limit. */
static int place_picture(stoke_image *image, const stoke_image *target, stk_mem_buffer *buffer,
                         uint64_t *left)
{
    const uint64_t bytes = (uint64_t)image->stride * image->height;
    if (fits(target, image)) {
        image->data = target->data;
        return 1;
    }
    if (bytes > *left) return 0;
    *left -= bytes;
    image->data = stk_buffer_reserve(buffer, (size_t)bytes);
    return image->data != NULL;
}

static int place_mask(const stk_entry_goal *goal, const stk_entry_header *header, uint64_t *left,
                      stoke_image *mask)
{
    *mask = stk_entry_mask(header, NULL);
    return !header->mask_depth || place_picture(mask, goal->mask_target, &goal->bench->ids, left);
}

static uint64_t limit_of(const stk_entry_goal *goal)
{
    return goal->bench->limit ? goal->bench->limit : UINT64_MAX;
}

/* Where the packed mask goes, once there is a place for everything; NULL: there is none. */
static void *place_all(const stk_entry_goal *goal, const stk_entry_header *header, stk_cache_hit *out)
{
    uint64_t left = limit_of(goal);
    if (header->mask_bytes > left) return NULL;
    left -= header->mask_bytes;
    out->image = stk_entry_image(header, NULL);
    if (!place_picture(&out->image, goal->image_target, &goal->bench->pixels, &left) ||
        !place_mask(goal, header, &left, &out->mask))
        return NULL;
    return stk_buffer_reserve(&goal->bench->file, (size_t)header->mask_bytes);
}

static int unpack(const stk_entry_header *header, const void *packed, stk_cache_hit *out)
{
    out->source_width = header->source_width;
    out->source_height = header->source_height;
    return !header->mask_depth ||
           stk_labels_unpack(packed, (size_t)header->mask_bytes, &out->mask, NULL) == STOKE_OK;
}

stk_entry_result stk_entry_read(const stk_entry_source *source, stk_cache_key key, const stk_entry_goal *goal,
                                stk_entry_header *header, const void **packed, stk_cache_hit *out)
{
    struct iovec head = { header, sizeof *header };
    *out = (stk_cache_hit){ 0 };
    if (source->bytes < sizeof *header || !source->read(source->context, &head, 1, 0) ||
        !stk_entry_header_good(header, key, source->bytes))
        return STK_ENTRY_DAMAGED;
    void *code = place_all(goal, header, out);
    if (!code) return STK_ENTRY_NONE;
    struct iovec body[2] = { { out->image.data, stk_entry_image_bytes(header) },
                             { code, (size_t)header->mask_bytes } };
    if (!source->read(source->context, body, header->mask_bytes ? 2 : 1, sizeof *header) ||
        !stk_entry_body_good(header, out->image.data, code))
        return STK_ENTRY_DAMAGED;
    *packed = code;
    /* Behind a good checksum a code that does not unpack was made by someone else. */
    return unpack(header, code, out) ? STK_ENTRY_FOUND : STK_ENTRY_DAMAGED;
}

int stk_entry_lend(const stk_entry_header *header, const void *pixels, const void *packed,
                   const stk_entry_goal *goal, stk_cache_hit *out)
{
    uint64_t left = limit_of(goal);
    *out = (stk_cache_hit){ .image = stk_entry_image(header, (void *)pixels) };
    if (fits(goal->image_target, &out->image)) {
        memcpy(goal->image_target->data, pixels, stk_entry_image_bytes(header));
        out->image.data = goal->image_target->data;
    }
    return place_mask(goal, header, &left, &out->mask) && unpack(header, packed, out);
}
