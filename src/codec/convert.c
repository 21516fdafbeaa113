/* SPDX-License-Identifier: Apache-2.0
 *
 * From samples as stored to the pixels of the two purposes (image: RGB; mask: integers). Formulas are those
 * of Pillow so that exact mode can be compared bit by bit: 16 bits become 8 by taking the high byte, CMYK is
 * c' = (255 - c)(255 - k)/255 rounded, premultiplied colour is c * 255 / a cut off.
 */
#include "src/codec/codec.h"

#include <string.h>

#include "src/base/error.h"

/* Pixels handled at a time when samples must be unpacked first: small enough for the stack and the L1 cache.
 */
enum { CHUNK = 512 };

static unsigned samples_of(stk_codec_layout layout)
{
    switch (layout) {
    case STK_GREY:
    case STK_PALETTE: return 1;
    case STK_GREY_ALPHA:
    case STK_PALETTE_ALPHA: return 2;
    case STK_RGB: return 3;
    default: return 4;
    }
}

static int is_palette(const stk_codec_convert *c)
{
    return c->layout == STK_PALETTE || c->layout == STK_PALETTE_ALPHA;
}

void stk_convert_plan(stk_codec_convert *c, const stoke_decode_params *params)
{
    c->mask = params->purpose == STOKE_PURPOSE_MASK;
    c->composite = !c->mask && params->alpha == STOKE_ALPHA_COMPOSITE;
    memcpy(c->background, params->background, sizeof c->background);
    int single = c->layout == STK_GREY || c->layout == STK_GREY_ALPHA || is_palette(c);
    c->out_channels = c->mask && single ? 1 : 3;
    c->out_depth = c->bits == 16 && (c->mask || params->keep16) ? 2 : 1;
    if (!c->stride) c->stride = (uint8_t)samples_of(c->layout);
}

/* Of values in [0, max], rounded. */
static uint32_t blend(uint32_t over, uint32_t under, uint32_t alpha, uint32_t max)
{
    return (uint32_t)(((uint64_t)over * alpha + (uint64_t)under * (max - alpha) + max / 2) / max);
}

static uint32_t unpremultiply(uint32_t value, uint32_t alpha, uint32_t max)
{
    if (!alpha) return 0;
    uint32_t v = (uint32_t)((uint64_t)value * max / alpha);
    return v < max ? v : max;
}

/* Alpha of a pixel in the range of its samples. */
static uint32_t alpha_of(const stk_codec_convert *c, const uint32_t s[4], uint32_t max)
{
    if (c->layout == STK_PALETTE) return c->palette[s[0]][3];
    if (c->layout == STK_GREY_ALPHA || c->layout == STK_PALETTE_ALPHA) return s[1];
    if (c->layout == STK_RGBA) return s[3];
    if (!c->has_key) return max;
    int grey = c->layout == STK_GREY;
    return s[0] == c->key[0] && (grey || (s[1] == c->key[1] && s[2] == c->key[2])) ? 0 : max;
}

/* One pixel, any layout: the reference that the short cuts below must agree with. */
static void pixel(const stk_codec_convert *c, uint32_t s[4], uint32_t out[3])
{
    uint32_t max = c->bits != 16 ? 255 : c->twelve ? 4095 : 65535, alpha = alpha_of(c, s, max);
    if (c->invert)
        for (int i = 0; i < 4; i++) s[i] = max - s[i];
    if (c->bits == 16 && c->out_depth == 1) {
        unsigned drop = c->twelve ? 4 : 8;
        for (int i = 0; i < 4; i++) s[i] >>= drop;
        alpha >>= drop;
        max = 255;
    }
    switch (c->layout) {
    case STK_GREY:
    case STK_GREY_ALPHA: out[0] = out[1] = out[2] = s[0]; break;
    case STK_PALETTE:
    case STK_PALETTE_ALPHA:
        for (int i = 0; i < 3; i++) out[i] = c->palette[s[0]][i];
        break;
    case STK_CMYK:
        for (int i = 0; i < 3; i++) out[i] = max - s[3] - blend(s[i], 0, max - s[3], max);
        break;
    default: memcpy(out, s, 3 * sizeof *out);
    }
    if (c->premultiplied)
        for (int i = 0; i < 3; i++) out[i] = unpremultiply(out[i], alpha, max);
    if (c->composite)
        for (int i = 0; i < 3; i++) out[i] = blend(out[i], c->background[i] * (max / 255), alpha, max);
}

static void any_row(const stk_codec_convert *c, const void *in, uint32_t width, void *out)
{
    unsigned samples = samples_of(c->layout), channels = c->out_channels;
    for (uint32_t x = 0; x < width; x++) {
        uint32_t s[4] = { 0 }, rgb[3];
        size_t at = (size_t)x * c->stride;
        for (unsigned i = 0; i < samples; i++)
            s[i] = c->bits == 16 ? ((const uint16_t *)in)[at + i] : ((const uint8_t *)in)[at + i];
        if (c->mask && is_palette(c))
            rgb[0] = s[0];
        else
            pixel(c, s, rgb);
        for (unsigned i = 0; i < channels; i++) {
            if (c->out_depth == 2)
                ((uint16_t *)out)[(size_t)x * channels + i] = (uint16_t)rgb[i];
            else
                ((uint8_t *)out)[(size_t)x * channels + i] = (uint8_t)rgb[i];
        }
    }
}

/* The common cases without per-pixel decisions. Returns 0 when the row is none of them. */
static int short_cut(const stk_codec_convert *c, const uint8_t *in, uint32_t width, uint8_t *out)
{
    unsigned samples = samples_of(c->layout);
    if (c->bits == 16 || c->invert || c->premultiplied || c->composite || c->stride != samples) return 0;
    if (samples == c->out_channels && (c->mask || c->layout != STK_PALETTE))
        memcpy(out, in, (size_t)width * samples);
    else if (c->layout == STK_GREY)
        for (uint32_t x = 0; x < width; x++, out += 3) out[0] = out[1] = out[2] = in[x];
    else if (c->layout == STK_RGBA)
        for (uint32_t x = 0; x < width; x++, in += 4, out += 3) {
            out[0] = in[0];
            out[1] = in[1];
            out[2] = in[2];
        }
    else if (c->layout == STK_PALETTE)
        for (uint32_t x = 0; x < width; x++, out += 3) memcpy(out, c->palette[in[x]], 3);
    else
        return 0;
    return 1;
}

/* Packed samples of 1, 2 or 4 bits to one per byte; grey of images is stretched to 0..255. */
static void unpack(const stk_codec_convert *c, const uint8_t *in, uint32_t x0, uint32_t width, uint8_t *out)
{
    unsigned bits = c->bits, max = (1u << bits) - 1;
    unsigned flip = c->invert ? max : 0, scale = c->mask || is_palette(c) ? 1 : 255 / max;
    for (uint32_t x = 0; x < width; x++) {
        size_t bit = (size_t)(x0 + x) * bits;
        unsigned v = (unsigned)in[bit >> 3] >> (8 - bits - (bit & 7)) & max;
        out[x] = (uint8_t)((v ^ flip) * scale);
    }
}

static int check_indices(const stk_codec_convert *c, const uint8_t *in, uint32_t width, stoke_error *err)
{
    unsigned highest = 0;
    for (uint32_t x = 0; x < width; x++)
        highest = in[(size_t)x * c->stride] > highest ? in[(size_t)x * c->stride] : highest;
    if (highest >= c->colours)
        return stk_fail(err, STOKE_E_FORMAT, "palette index %u, but the palette has %u colours", highest,
                        (unsigned)c->colours);
    return STOKE_OK;
}

static int convert_bytes(const stk_codec_convert *c, const uint8_t *in, uint32_t width, void *out,
                         stoke_error *err)
{
    if (!c->mask && is_palette(c) && c->colours < 256) {
        int r = check_indices(c, in, width, err);
        if (r) return r;
    }
    if (!short_cut(c, in, width, out)) any_row(c, in, width, out);
    return STOKE_OK;
}

int stk_convert_row(const stk_codec_convert *c, const void *in, uint32_t x0, uint32_t width, void *out,
                    stoke_error *err)
{
    if (c->bits >= 8) {
        size_t skip = (size_t)x0 * c->stride * (c->bits / 8);
        return convert_bytes(c, (const uint8_t *)in + skip, width, out, err);
    }
    /* Unpacked samples are plain bytes: the key is stretched like them, and inversion is done. */
    stk_codec_convert bytes = *c;
    unsigned scale = c->mask || is_palette(c) ? 1 : 255 / ((1u << c->bits) - 1);
    bytes.bits = 8;
    bytes.invert = 0;
    bytes.key[0] = (uint16_t)(c->key[0] * scale);
    uint8_t unpacked[CHUNK];
    for (uint32_t done = 0; done < width;) {
        uint32_t n = width - done < CHUNK ? width - done : CHUNK;
        unpack(c, in, x0 + done, n, unpacked);
        int r = convert_bytes(&bytes, unpacked, n, (uint8_t *)out + (size_t)done * c->out_channels, err);
        if (r) return r;
        done += n;
    }
    return STOKE_OK;
}
