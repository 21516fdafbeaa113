/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes through the decoder: no crash, no hang, no memory beyond the limit; and where a picture comes
 * out, a region of it must be the cut of the whole.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <stoke/tools/image.h>

#include "src/codec/codec.h"

/* Choices come from the last bytes, which to the formats are data like any other: so plain picture files are
 * the corpus. */
typedef struct choices {
    uint32_t bits, x, y, width, height;
} choices;

static choices choose(const uint8_t *data, size_t size)
{
    uint8_t tail[9] = { 0 };
    size_t n = size < sizeof tail ? size : sizeof tail;
    if (n) memcpy(tail, data + size - n, n);
    return (choices){ tail[0], tail[1] | tail[2] << 8, tail[3] | tail[4] << 8, tail[5] | tail[6] << 8,
                      tail[7] | tail[8] << 8 };
}

static stoke_decode_params params_of(const choices *c)
{
    stoke_decode_params p = stoke_decode_defaults();
    p.max_pixels = 1 << 18;
    p.purpose = c->bits & 1 ? STOKE_PURPOSE_MASK : STOKE_PURPOSE_IMAGE;
    p.orientation = c->bits & 2 ? STOKE_ORIENTATION_APPLY : STOKE_ORIENTATION_IGNORE;
    p.alpha = c->bits & 4 ? STOKE_ALPHA_COMPOSITE : STOKE_ALPHA_DROP;
    p.keep16 = c->bits >> 3 & 1;
    return p;
}

/* The whole picture, kept in *copy (rows packed), or 0. */
static int decode_whole(stoke_decoder *d, const uint8_t *data, size_t size, const stoke_decode_params *p,
                        stoke_image *copy)
{
    stoke_error err;
    if (stoke_decoder_decode(d, data, size, p, copy, &err) != STOKE_OK) {
        insist(err.code < 0 && err.message[0]);
        return 0;
    }
    size_t bytes = stoke_image_bytes(copy->width, copy->height, copy->channels, copy->depth);
    insist(bytes > 0 && (uint64_t)copy->width * copy->height <= p->max_pixels);
    void *kept = malloc(bytes);
    insist(kept != NULL);
    copy->data = memcpy(kept, copy->data, bytes);
    return 1;
}

static void check_region(stoke_decoder *d, const uint8_t *data, size_t size, stoke_decode_params p,
                         stoke_box box, const stoke_image *whole)
{
    stoke_image part;
    p.region = box;
    insist(stoke_decoder_decode(d, data, size, &p, &part, NULL) == STOKE_OK);
    insist(part.width == box.width && part.height == box.height && part.channels == whole->channels);
    size_t pixel = (size_t)part.channels * part.depth;
    for (uint32_t y = 0; y < box.height; y++) {
        const uint8_t *want = (const uint8_t *)whole->data + (box.y + y) * whole->stride + box.x * pixel;
        insist(memcmp((const uint8_t *)part.data + y * part.stride, want, box.width * pixel) == 0);
    }
}

/* A region of any size, and a small one in its middle: JPEG takes another way for regions below half the
 * picture. */
static void check_regions(stoke_decoder *d, const uint8_t *data, size_t size, const stoke_decode_params *p,
                          const choices *c, const stoke_image *whole)
{
    stoke_box box = { c->x % whole->width, c->y % whole->height, 0, 0 };
    box.width = 1 + c->width % (whole->width - box.x);
    box.height = 1 + c->height % (whole->height - box.y);
    stoke_box small = { box.x + box.width / 3, box.y + box.height / 3, (box.width + 2) / 3,
                        (box.height + 2) / 3 };
    check_region(d, data, size, *p, box, whole);
    /* A used decoder leaves small files with new Huffman tables to libjpeg: a fresh one does not. */
    stoke_decoder *fresh;
    insist(stoke_decoder_create(&fresh, NULL) == STOKE_OK);
    check_region(fresh, data, size, *p, small, whole);
    stoke_decoder_destroy(&fresh);
}

FUZZ_TARGET(decode)
{
    /* Kept between inputs, so that what one file leaves behind meets the next. */
    static stoke_decoder *d;
    if (!d) insist(stoke_decoder_create(&d, NULL) == STOKE_OK);
    choices c = choose(bytes, size);
    stoke_decode_params p = params_of(&c);
    stoke_image_info info;
    stoke_image whole, part;
    int probed = stoke_decoder_probe(d, bytes, size, &info, NULL);
    if (decode_whole(d, bytes, size, &p, &whole)) {
        insist(probed == STOKE_OK);
        check_regions(d, bytes, size, &p, &c, &whole);
        free(whole.data);
    }
    p.mode = STOKE_DECODE_FAST;
    p.fast_width = 1 + c.width % 64;
    p.fast_height = 1 + c.height % 64;
    stoke_decoder_decode(d, bytes, size, &p, &part, NULL);
    return 0;
}
