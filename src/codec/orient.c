/* SPDX-License-Identifier: Apache-2.0
 *
 * EXIF orientation: finding it and applying it.
 *
 * Orientations 1..8 are all combinations of three switches (upright pixel (x, y) from stored pixel):
 *   swap    5 6 7 8   x and y change places
 *   flip_x  2 3 7 8   the stored x runs backwards
 *   flip_y  3 4 6 7   the stored y runs backwards
 */
#include "src/codec/codec.h"

#include <string.h>

#include <libdeflate.h>

static int flips_x(uint8_t o)
{
    return o == 2 || o == 3 || o == 7 || o == 8;
}
static int flips_y(uint8_t o)
{
    return o == 3 || o == 4 || o == 6 || o == 7;
}

stoke_box stk_orient_box(stoke_box box, uint8_t orientation, uint32_t stored_width, uint32_t stored_height)
{
    if (stk_orientation_swaps(orientation)) box = (stoke_box){ box.y, box.x, box.height, box.width };
    if (flips_x(orientation)) box.x = stored_width - box.x - box.width;
    if (flips_y(orientation)) box.y = stored_height - box.y - box.height;
    return box;
}

/* `pixel` is a constant at each call, so that the copy becomes one or two moves. */
static inline void copy_pixels(const uint8_t *in, ptrdiff_t step_x, ptrdiff_t step_y, const stoke_image *out,
                               size_t pixel)
{
    for (uint32_t y = 0; y < out->height; y++) {
        const uint8_t *from = in + (ptrdiff_t)y * step_y;
        uint8_t *to = (uint8_t *)out->data + y * out->stride;
        for (uint32_t x = 0; x < out->width; x++, from += step_x, to += pixel) memcpy(to, from, pixel);
    }
}

void stk_orient_apply(const stoke_image *in, uint8_t orientation, const stoke_image *out)
{
    size_t pixel = (size_t)in->channels * in->depth;
    ptrdiff_t right = (ptrdiff_t)pixel, down = (ptrdiff_t)in->stride;
    const uint8_t *origin = in->data;
    if (flips_x(orientation)) origin += (size_t)(in->width - 1) * pixel, right = -right;
    if (flips_y(orientation)) origin += (size_t)(in->height - 1) * in->stride, down = -down;
    ptrdiff_t step_x = stk_orientation_swaps(orientation) ? down : right;
    ptrdiff_t step_y = stk_orientation_swaps(orientation) ? right : down;
    switch (pixel) {
    case 1: copy_pixels(origin, step_x, step_y, out, 1); break;
    case 2: copy_pixels(origin, step_x, step_y, out, 2); break;
    case 3: copy_pixels(origin, step_x, step_y, out, 3); break;
    default: copy_pixels(origin, step_x, step_y, out, 6); break;
    }
}

/* EXIF data is a small TIFF file; the orientation is tag 0x112 (a SHORT) of its first directory. */
uint8_t stk_orientation_from_exif(const uint8_t *tiff, size_t size)
{
    enum { ENTRY = 12, TAG_ORIENTATION = 0x112, TYPE_SHORT = 3 };
    if (size >= 6 && memcmp(tiff, "Exif\0\0", 6) == 0) tiff += 6, size -= 6;
    if (size < 8 || (memcmp(tiff, "II*\0", 4) != 0 && memcmp(tiff, "MM\0*", 4) != 0)) return 1;
    int big = tiff[0] == 'M';
    size_t at = stk_read_bytes(tiff + 4, 4, big);
    if (at > size - 2) return 1;
    size_t entries = stk_read_bytes(tiff + at, 2, big);
    at += 2;
    for (size_t i = 0; i < entries && size - at >= ENTRY; i++, at += ENTRY) {
        const uint8_t *entry = tiff + at;
        if (stk_read_bytes(entry, 2, big) != TAG_ORIENTATION) continue;
        uint32_t value = stk_read_bytes(entry + 8, 2, big);
        int usable =
            stk_read_bytes(entry + 2, 2, big) == TYPE_SHORT && stk_read_bytes(entry + 4, 4, big) == 1;
        return usable && value >= 1 && value <= 8 ? (uint8_t)value : 1;
    }
    return 1;
}

/* The first APP1 segment that starts with "Exif", as Pillow takes it. */
uint8_t stk_orientation_from_jpeg(const uint8_t *bytes, size_t size)
{
    enum { SOI = 0xD8, RST0 = 0xD0, EOI = 0xD9, SOS = 0xDA, APP1 = 0xE1, TEM = 0x01 };
    size_t at = 0;
    while (size - at >= 2) {
        if (bytes[at] != 0xFF || bytes[at + 1] == 0xFF) {
            at++;
            continue;
        }
        uint8_t marker = bytes[at + 1];
        at += 2;
        if (marker == SOS || marker == EOI) break;
        if (marker == SOI || marker == TEM || marker == 0 || (marker >= RST0 && marker < SOI)) continue;
        if (size - at < 2) break;
        size_t length = stk_read_bytes(bytes + at, 2, 1);
        if (length < 2 || length > size - at) break;
        if (marker == APP1 && length >= 8 && memcmp(bytes + at + 2, "Exif\0", 5) == 0)
            return stk_orientation_from_exif(bytes + at + 2, length - 2);
        at += length;
    }
    return 1;
}

/* The eXIf chunk, before or after the pixels. */
uint8_t stk_orientation_from_png(const uint8_t *bytes, size_t size)
{
    enum { SIGNATURE = 8, FRAME = 12 }; /* length, type and CRC around each chunk's data */
    for (size_t at = SIGNATURE; at <= size && size - at >= FRAME;) {
        size_t length = stk_read_bytes(bytes + at, 4, 1);
        if (length > size - at - FRAME) break;
        if (memcmp(bytes + at + 4, "eXIf", 4) == 0) return stk_orientation_from_exif(bytes + at + 8, length);
        at += FRAME + length;
    }
    return 1;
}

/* Pixels may look like a chunk's name; its checksum then does not fit. */
uint8_t stk_orientation_from_png_end(const uint8_t *bytes, size_t size)
{
    enum { SIZE = 4, TYPE = 4, SUM = 4 };
    const uint8_t *end = bytes + size, *found = bytes;
    while (found < end && (found = memmem(found, (size_t)(end - found), "eXIf", TYPE))) {
        const size_t rest = (size_t)(end - found),
                     length = found - bytes >= SIZE ? stk_read_bytes(found - SIZE, 4, 1) : SIZE_MAX;
        if (rest >= TYPE + SUM && length <= rest - TYPE - SUM &&
            libdeflate_crc32(0, found, TYPE + length) == stk_read_bytes(found + TYPE + length, 4, 1))
            return stk_orientation_from_exif(found + TYPE, length);
        found++;
    }
    return 1;
}
