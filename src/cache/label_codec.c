/* SPDX-License-Identifier: Apache-2.0
 *
 * The packed form: one byte for the kind, then
 *
 *   RAW   the rows as they are, packed
 *   RUNS  per row: 0 = the row equals the one above; otherwise runs until the row is full, each a length (7
 *         bits a byte, low bits first, high bit = more follow) and an id (1 or 2 bytes, native order)
 *
 * RUNS is used only when it takes at most a quarter of RAW. That is not for the sake of space: a run costs
 * 2-4 ns to unpack whatever its length, so this rule keeps the average run of an 8-bit map above 8 pixels and
 * the worst 512 x 512 map under 0.1 ms (0.084 measured by test_label_codec); noise is copied as it is.
 */
#include "src/cache/label_codec.h"

#include <string.h>
#include <stoke/tools/image.h>

#include "src/base/error.h"

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
    for (uint32_t y = 0; y < map->height; y++)
        memcpy(packed + 1 + y * row_bytes, (const uint8_t *)map->data + y * map->stride, row_bytes);
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

static int unpack_raw(const uint8_t *p, size_t bytes, const stoke_image *map)
{
    const size_t row_bytes = (size_t)map->width * map->depth;
    if (bytes != raw_bytes(map)) return 0;
    if (map->stride == row_bytes) {
        memcpy(map->data, p, bytes);
        return 1;
    }
    for (uint32_t y = 0; y < map->height; y++)
        memcpy((uint8_t *)map->data + y * map->stride, p + y * row_bytes, row_bytes);
    return 1;
}

int stk_labels_unpack(const uint8_t *packed, size_t bytes, const stoke_image *map, stoke_error *err)
{
    int good = 0;
    if (bytes && packed[0] == KIND_RAW) good = unpack_raw(packed + 1, bytes - 1, map);
    if (bytes && packed[0] == KIND_RUNS) {
        const uint8_t *end = packed + bytes;
        good = end == (map->depth == 1 ? unpack_rows(packed + 1, end, map, 1)
                                       : unpack_rows(packed + 1, end, map, 2));
    }
    if (good) return STOKE_OK;
    return stk_fail(err, STOKE_E_FORMAT, "the packed class ids do not describe a map of %ux%u", map->width,
                    map->height);
}
