/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cache/entry.h"

#include <stddef.h>
#include <string.h>
#include <xxhash.h>
#include <stoke/tools/image.h>

#include "src/base/error.h"

enum { VERSION = 1 };
#define MAGIC UINT32_C(0x636b7473) /* "stkc" */

size_t stk_entry_image_bytes(const stk_entry_header *header)
{
    return stoke_image_bytes(header->width, header->height, 3, (uint8_t)header->image_depth);
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

/* 1 when a header is whole, belongs to the key and describes exactly file_bytes bytes. All sizes are then
 * safe to use: nothing is larger than the file itself, but for the mask, which has at most 2/3 of the image's
 * bytes when unpacked. */
static int entry_header_good(const stk_entry_header *header, stk_cache_key key, uint64_t file_bytes)
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

/* An entry's image at the given place. */
static stoke_image entry_image(const stk_entry_header *header, void *pixels)
{
    const uint8_t depth = (uint8_t)header->image_depth;
    return (
        stoke_image){ pixels, (size_t)header->width * 3 * depth, header->width, header->height, 3, depth };
}

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
    const uint8_t depth = (uint8_t)header->mask_depth;
    *mask = (stoke_image){ 0 };
    if (!depth) return 1;
    *mask = (stoke_image){ NULL, (size_t)header->width * depth, header->width, header->height, 1, depth };
    return place_picture(mask, goal->mask_target, &goal->bench->ids, left);
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
    out->image = entry_image(header, NULL);
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
        !entry_header_good(header, key, source->bytes))
        return STK_ENTRY_DAMAGED;
    void *code = place_all(goal, header, out);
    if (!code) return STK_ENTRY_NONE;
    struct iovec body[2] = { { out->image.data, stk_entry_image_bytes(header) },
                             { code, (size_t)header->mask_bytes } };
    if (!source->read(source->context, body, header->mask_bytes ? 2 : 1, sizeof *header) ||
        XXH3_64bits(out->image.data, stk_entry_image_bytes(header)) != header->image_hash ||
        XXH3_64bits(code, (size_t)header->mask_bytes) != header->mask_hash)
        return STK_ENTRY_DAMAGED;
    *packed = code;
    /* Behind a good checksum a code that does not unpack was made by someone else. */
    return unpack(header, code, out) ? STK_ENTRY_FOUND : STK_ENTRY_DAMAGED;
}

int stk_entry_lend(const stk_entry_header *header, const void *pixels, const void *packed,
                   const stk_entry_goal *goal, stk_cache_hit *out)
{
    uint64_t left = limit_of(goal);
    *out = (stk_cache_hit){ .image = entry_image(header, (void *)pixels) };
    if (fits(goal->image_target, &out->image)) {
        memcpy(goal->image_target->data, pixels, stk_entry_image_bytes(header));
        out->image.data = goal->image_target->data;
    }
    return place_mask(goal, header, &left, &out->mask) && unpack(header, packed, out);
}

/* The packed form: one byte for the kind, then
 *
 *   RAW   the rows as they are, packed
 *   RUNS  per row: 0 = the row equals the one above; otherwise runs until the row is full, each a length (7
 *         bits a byte, low bits first, high bit = more follow) and an id (1 or 2 bytes, native order)
 *
 * RUNS is used only when it takes at most a quarter of RAW. That is not for the sake of space: a run costs
 * 2-4 ns to unpack whatever its length, so this rule keeps the average run of an 8-bit map above 8 pixels and
 * the worst 512 x 512 map under 0.1 ms (0.084 measured by test_label_codec); noise is copied as it is.
 */

enum {
    KIND_RAW = 0,
    KIND_RUNS = 1,
    LENGTH_BYTES = 5, /* of a run's length at most: 32 bits */
    SHRINK = 4,       /* RUNS must be this much smaller than RAW */
    STEP = 16         /* bytes stored at once: nearly every run of a photograph's mask fits 1 to 4 of them */
};

static size_t raw_bytes(const stoke_image *map)
{
    return (size_t)map->width * map->height * map->depth;
}

size_t stk_labels_pack_bound(uint32_t width, uint32_t height, uint8_t depth)
{
    const size_t bytes = stoke_image_bytes(width, height, 1, depth);
    return bytes ? bytes + 1 : 0;
}

/* An id, eight bytes of it. */
static inline uint64_t spread(const uint8_t *id, size_t depth)
{
    uint16_t wide;
    if (depth == 1) return *id * UINT64_C(0x0101010101010101);
    memcpy(&wide, id, 2);
    return wide * UINT64_C(0x0001000100010001);
}

/* ---- packing ---- */

/* Bytes from `p` on (at most up to `end`) that repeat the id at p; a multiple of depth. */
static inline size_t run_bytes(const uint8_t *p, const uint8_t *end, size_t depth)
{
    const uint64_t pattern = spread(p, depth);
    const uint8_t *q = p + depth;
    for (uint64_t word; end - q >= 8; q += 8) {
        memcpy(&word, q, 8);
        if (word != pattern) break;
    }
    while (q < end && !memcmp(q, p, depth)) q += depth;
    return (size_t)(q - p);
}

static inline uint8_t *put_run(uint8_t *out, size_t length, const uint8_t *id, size_t depth)
{
    for (; length > 127; length >>= 7) *out++ = (uint8_t)(length | 128);
    *out++ = (uint8_t)length;
    memcpy(out, id, depth);
    return out + depth;
}

/* NULL when the runs do not fit below `limit`. */
static inline uint8_t *pack_rows(const stoke_image *map, size_t depth, uint8_t *out, const uint8_t *limit)
{
    const size_t row_bytes = map->width * depth;
    const uint8_t *row = map->data, *above = NULL;
    for (uint32_t y = 0; y < map->height; y++, above = row, row += map->stride) {
        if (above && !memcmp(row, above, row_bytes)) {
            if (out >= limit) return NULL;
            *out++ = 0;
            continue;
        }
        for (const uint8_t *p = row, *end = row + row_bytes; p < end;) {
            if (limit - out < (ptrdiff_t)(LENGTH_BYTES + depth)) return NULL;
            const size_t bytes = run_bytes(p, end, depth);
            out = put_run(out, bytes / depth, p, depth);
            p += bytes;
        }
    }
    return out;
}

size_t stk_labels_pack(const stoke_image *map, uint8_t *packed)
{
    const size_t bytes = raw_bytes(map), row_bytes = (size_t)map->width * map->depth;
    const uint8_t *limit = packed + bytes / SHRINK;
    packed[0] = KIND_RUNS;
    uint8_t *end = NULL;
    if (bytes >= SHRINK)
        end = map->depth == 1 ? pack_rows(map, 1, packed + 1, limit) : pack_rows(map, 2, packed + 1, limit);
    if (end) return (size_t)(end - packed);
    packed[0] = KIND_RAW;
    stk_copy_rows(packed + 1, row_bytes, map->data, map->stride, row_bytes, map->height);
    return bytes + 1;
}

/* ---- unpacking ---- */

/* Fills `bytes` bytes with the pattern; may write on up to `room`, where nothing has been unpacked yet. */
static inline void fill(uint8_t *out, size_t bytes, size_t room, uint64_t pattern)
{
    size_t done = 0;
    if (room >= bytes + STEP - 1) {
        do {
            memcpy(out + done, &pattern, 8);
            memcpy(out + done + 8, &pattern, 8);
            done += STEP;
        } while (done < bytes);
        return;
    }
    for (; bytes - done >= 8; done += 8) memcpy(out + done, &pattern, 8);
    memcpy(out + done, &pattern, bytes - done);
}

/* A length of 1 .. most, or 0: cut off or out of range. */
static inline size_t get_length(const uint8_t **packed, const uint8_t *end, size_t most)
{
    const uint8_t *p = *packed;
    uint64_t length = 0;
    for (unsigned shift = 0; p < end && shift < 7 * LENGTH_BYTES; shift += 7) {
        const uint8_t byte = *p++;
        length |= (uint64_t)(byte & 127) << shift;
        if (byte & 128) continue;
        *packed = p;
        return length <= most ? (size_t)length : 0;
    }
    return 0;
}

/* One row of runs. What lies behind the row may be written on only as far as `room` says: the rest of a map
 * without gaps between rows, or nothing. Returns where the next row begins, NULL when the code is wrong. */
static inline const uint8_t *unpack_row(const uint8_t *p, const uint8_t *end, uint8_t *row, size_t width,
                                        size_t room, size_t depth)
{
    for (size_t x = 0; x < width;) {
        const size_t length = get_length(&p, end, width - x);
        if (!length || end - p < (ptrdiff_t)depth) return NULL;
        fill(row + x * depth, length * depth, room - x * depth, spread(p, depth));
        p += depth;
        x += length;
    }
    return p;
}

static inline const uint8_t *unpack_rows(const uint8_t *p, const uint8_t *end, const stoke_image *map,
                                         size_t depth)
{
    const size_t row_bytes = map->width * depth;
    const int gaps = map->stride != row_bytes;
    uint8_t *row = map->data;
    for (uint32_t y = 0; p && y < map->height; y++, row += map->stride) {
        if (p == end) return NULL;
        if (*p) {
            p = unpack_row(p, end, row, map->width, gaps ? row_bytes : (map->height - y) * row_bytes, depth);
            continue;
        }
        if (!y) return NULL; /* there is no row above */
        memcpy(row, row - map->stride, row_bytes);
        p++;
    }
    return p;
}

int stk_labels_unpack(const uint8_t *packed, size_t bytes, const stoke_image *map, stoke_error *err)
{
    const size_t row_bytes = (size_t)map->width * map->depth;
    int good = bytes && packed[0] == KIND_RAW && bytes - 1 == raw_bytes(map);
    if (good) stk_copy_rows(map->data, map->stride, packed + 1, row_bytes, row_bytes, map->height);
    if (bytes && packed[0] == KIND_RUNS) {
        const uint8_t *end = packed + bytes;
        good = end == (map->depth == 1 ? unpack_rows(packed + 1, end, map, 1)
                                       : unpack_rows(packed + 1, end, map, 2));
    }
    if (good) return STOKE_OK;
    return stk_fail(err, STOKE_E_FORMAT, "the packed class ids do not describe a map of %ux%u", map->width,
                    map->height);
}
