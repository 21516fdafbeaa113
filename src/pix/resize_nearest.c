/* SPDX-License-Identifier: Apache-2.0
 *
 * Nearest-exact resize of class ids. Pillow's NEAREST and torch's "nearest-exact" mean the same index; they
 * compute it in floating point, which is off by one at some sizes when (i + 0.5) * in / out is close to a
 * whole number. Integers cannot be.
 */
#include "src/pix/pix.h"

#include <string.h>

/* Columns per strip: their source indices (2 KB) are made once and used for every row. */
enum { STRIP = 512 };

/* floor((2 i + 1) * in / (2 out)): below 2^65 only when in > 2^31, and pictures end at 2^31 - 1. */
static inline uint32_t source_index(uint32_t i, uint32_t in, uint32_t out)
{
    return (uint32_t)((2 * (uint64_t)i + 1) * in / (2 * (uint64_t)out));
}

static void pick_u8(uint8_t *dst, const uint8_t *src, const uint32_t *index, size_t n)
{
    for (size_t i = 0; i < n; i++) dst[i] = src[index[i]];
}

static void pick_u16(uint16_t *dst, const uint16_t *src, const uint32_t *index, size_t n)
{
    for (size_t i = 0; i < n; i++) dst[i] = src[index[i]];
}

void stk_resize_nearest(const stoke_image *src, const stoke_image *dst)
{
    uint32_t index[STRIP];
    for (uint32_t first = 0; first < dst->width; first += STRIP) {
        const uint32_t n = dst->width - first < STRIP ? dst->width - first : STRIP;
        for (uint32_t i = 0; i < n; i++) index[i] = source_index(first + i, src->width, dst->width);
        uint32_t last = UINT32_MAX;
        for (uint32_t y = 0; y < dst->height; y++) {
            const uint32_t from = source_index(y, src->height, dst->height);
            const uint8_t *in = (const uint8_t *)src->data + from * src->stride;
            uint8_t *out = (uint8_t *)dst->data + y * dst->stride + (size_t)first * dst->depth;
            if (from == last)
                memcpy(out, out - dst->stride, (size_t)n * dst->depth);
            else if (src->width == dst->width)
                memcpy(out, in + (size_t)first * dst->depth, (size_t)n * dst->depth);
            else if (dst->depth == 1)
                pick_u8(out, in, index, n);
            else
                pick_u16((uint16_t *)out, (const uint16_t *)in, index, n);
            last = from;
        }
    }
}
