/* SPDX-License-Identifier: Apache-2.0
 *
 * Contrast limited adaptive histogram equalisation, in place, of the lightness.
 */
#ifndef STOKE_SRC_PIX_CLAHE_H
#define STOKE_SRC_PIX_CLAHE_H

#include <stoke/image.h>

/* Bytes of scratch for n x n tiles. */
static inline size_t stk_clahe_bytes(uint32_t tiles)
{
    return (size_t)tiles * tiles * 256;
}

/* Equalises the luma Y of `picture` (3 channels, u8 or u16) as OpenCV's createCLAHE(clip, (tiles, tiles))
 * would, and moves R, G and B by the change of Y, clamped. On a grey u8 picture that is OpenCV's result bit
 * for bit. clip 0 = no limit. `lut` = stk_clahe_bytes(tiles). */
void stk_clahe(const stoke_image *picture, float clip, uint32_t tiles, uint8_t *lut);

#endif
