/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding in a test: files that must decode, files that must not, regions against cuts of the whole.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_DECODE_H
#define STOKE_TESTS_UNIT_FIXTURE_DECODE_H

#include "tests/unit/fixture_pictures.h"

#include "src/codec/codec.h"

static const uint64_t seed = 20260719;
static stoke_error err;

static inline stoke_decoder *new_decoder(void)
{
    stoke_decoder *d;
    assert_int_equal(stoke_decoder_create(&d, &err), STOKE_OK);
    return d;
}

static inline void decode_ok(stoke_decoder *d, bytes file, const stoke_decode_params *params,
                             stoke_image *out)
{
    memset(&err, 0, sizeof err);
    int r = stoke_decoder_decode(d, file.data, file.size, params, out, &err);
    if (r != STOKE_OK) fail_msg("%s: %s", stoke_status_name(r), err.message);
}

static inline void decode_fails(stoke_decoder *d, bytes file, const stoke_decode_params *params, int code,
                                const char *words)
{
    stoke_image out;
    memset(&err, 0, sizeof err);
    int r = stoke_decoder_decode(d, file.data, file.size, params, &out, &err);
    if (r != code || !strstr(err.message, words))
        fail_msg("expected %s '%s', got %s '%s'", stoke_status_name(code), words, stoke_status_name(r),
                 err.message);
}

/* A copy that outlives the decoder's next call. */
static inline stoke_image keep(const stoke_image *image)
{
    stoke_image copy = *image;
    copy.stride = (size_t)image->width * image->channels * image->depth;
    copy.data = malloc(copy.stride * image->height);
    for (uint32_t y = 0; y < image->height; y++)
        memcpy((uint8_t *)copy.data + y * copy.stride, (uint8_t *)image->data + y * image->stride,
               copy.stride);
    return copy;
}

static const uint8_t *at(const stoke_image *image, uint32_t x, uint32_t y)
{
    return (const uint8_t *)image->data + y * image->stride + (size_t)x * image->channels * image->depth;
}

static inline void assert_is_cut(const stoke_image *part, const stoke_image *whole, stoke_box box,
                                 const char *what)
{
    assert_int_equal(part->width, box.width);
    assert_int_equal(part->height, box.height);
    assert_int_equal(part->channels, whole->channels);
    assert_int_equal(part->depth, whole->depth);
    for (uint32_t y = 0; y < box.height; y++)
        if (memcmp(at(part, 0, y), at(whole, box.x, box.y + y),
                   (size_t)box.width * part->channels * part->depth) != 0)
            fail_msg("%s: row %u of %ux%u at %u,%u (of %ux%u) is not the cut", what, y, box.width, box.height,
                     box.x, box.y, whole->width, whole->height);
}

static inline stoke_box random_box(dice *luck, uint32_t width, uint32_t height)
{
    stoke_box box = { roll(luck, width), roll(luck, height), 0, 0 };
    box.width = 1 + roll(luck, width - box.x);
    box.height = 1 + roll(luck, height - box.y);
    return box;
}

static inline void regions_equal_cuts(stoke_decoder *d, bytes file, stoke_decode_params params, int boxes,
                                      dice *luck, const char *what)
{
    stoke_image out;
    params.region = (stoke_box){ 0 };
    decode_ok(d, file, &params, &out);
    stoke_image whole = keep(&out);
    for (int i = 0; i < boxes; i++) {
        params.region = random_box(luck, whole.width, whole.height);
        decode_ok(d, file, &params, &out);
        assert_is_cut(&out, &whole, params.region, what);
    }
    free(whole.data);
}

static const struct {
    const char *name;
    jpeg_kind kind;
} jpegs[] = {
    { "4:4:4", { 3, 1, 1, 0, JCS_UNKNOWN, 0 } },
    { "4:2:2", { 3, 2, 1, 0, JCS_UNKNOWN, 0 } },
    { "4:2:0", { 3, 2, 2, 0, JCS_UNKNOWN, 0 } },
    { "4:4:0", { 3, 1, 2, 0, JCS_UNKNOWN, 0 } },
    { "4:1:1", { 3, 4, 1, 0, JCS_UNKNOWN, 0 } },
    { "4:1:0", { 3, 4, 2, 0, JCS_UNKNOWN, 0 } },
    { "4:2:0 with restarts", { 3, 2, 2, 0, JCS_UNKNOWN, 3 } },
    { "progressive 4:4:4", { 3, 1, 1, 1, JCS_UNKNOWN, 0 } },
    { "progressive 4:2:0", { 3, 2, 2, 1, JCS_UNKNOWN, 0 } },
    { "one scan per component 4:2:0", { 3, 2, 2, 2, JCS_UNKNOWN, 0 } },
    { "grey", { 1, 1, 1, 0, JCS_UNKNOWN, 0 } },
    { "grey progressive", { 1, 1, 1, 1, JCS_UNKNOWN, 0 } },
    { "RGB", { 3, 1, 1, 0, JCS_RGB, 0 } },
    { "CMYK", { 4, 1, 1, 0, JCS_CMYK, 0 } },
    { "YCCK", { 4, 2, 2, 0, JCS_YCCK, 0 } },
};
enum { JPEGS = sizeof jpegs / sizeof *jpegs };

#endif
