/* SPDX-License-Identifier: Apache-2.0
 *
 * CLAHE against a plain implementation of OpenCV's algorithm: one channel, the padded picture made for real,
 * every step its own loop. By hand, the chain was also set beside cv2 4.12.0 and 5.0.0: 200 random grey
 * pictures of 1 to 200 pixels a side, 1 to 16 tiles, limits 0 to 40, not one sample different.
 */
#include "tests/unit/fixture_color.h"

static uint8_t rounded(float v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : rintf(v));
}

typedef struct gray_picture {
    uint8_t *v;
    int width, height;
} gray_picture;

/* Right and below, mirrored without the edge. */
static gray_picture padded(const gray_picture *in, int tiles)
{
    const int whole = in->width % tiles == 0 && in->height % tiles == 0;
    gray_picture out = { NULL, in->width + (whole ? 0 : tiles - in->width % tiles),
                         in->height + (whole ? 0 : tiles - in->height % tiles) };
    out.v = malloc((size_t)out.width * (size_t)out.height);
    assert_non_null(out.v);
    for (int y = 0; y < out.height; y++)
        for (int x = 0; x < out.width; x++)
            out.v[y * out.width + x] =
                in->v[real_reflect(y, in->height) * in->width + real_reflect(x, in->width)];
    return out;
}

static void table_of(const gray_picture *p, int left, int top, int width, int height, double clip,
                     uint8_t table[256])
{
    int count[256] = { 0 };
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) count[p->v[(top + y) * p->width + left + x]]++;
    if (clip > 0) {
        int limit = (int)(clip * (width * height) / 256), excess = 0;
        if (limit < 1) limit = 1;
        for (int i = 0; i < 256; i++)
            if (count[i] > limit) {
                excess += count[i] - limit;
                count[i] = limit;
            }
        for (int i = 0; i < 256; i++) count[i] += excess / 256;
        int residual = excess % 256;
        if (residual) {
            const int step = 256 / residual > 1 ? 256 / residual : 1;
            for (int i = 0; i < 256 && residual > 0; i += step, residual--) count[i]++;
        }
    }
    const float scale = 255.0f / (float)(width * height);
    int sum = 0;
    for (int i = 0; i < 256; i++) {
        sum += count[i];
        table[i] = rounded((float)sum * scale);
    }
}

static void plain_clahe(const gray_picture *in, double clip, int tiles, uint8_t *out)
{
    gray_picture p = padded(in, tiles);
    const int tw = p.width / tiles, th = p.height / tiles;
    uint8_t(*table)[256] = malloc(sizeof *table * (size_t)(tiles * tiles));
    assert_non_null(table);
    for (int j = 0; j < tiles; j++)
        for (int i = 0; i < tiles; i++) table_of(&p, i * tw, j * th, tw, th, clip, table[j * tiles + i]);
    const float inverse_w = 1.0f / (float)tw, inverse_h = 1.0f / (float)th;
    for (int y = 0; y < in->height; y++)
        for (int x = 0; x < in->width; x++) {
            const float fx = (float)x * inverse_w - 0.5f, fy = (float)y * inverse_h - 0.5f;
            const int x1 = (int)floorf(fx), y1 = (int)floorf(fy);
            const float ax = fx - (float)x1, ay = fy - (float)y1;
            const int l = x1 < 0 ? 0 : x1, r = x1 + 1 >= tiles ? tiles - 1 : x1 + 1;
            const int t = y1 < 0 ? 0 : y1, b = y1 + 1 >= tiles ? tiles - 1 : y1 + 1;
            const int v = in->v[y * in->width + x];
            const float up = (float)table[t * tiles + l][v] * (1 - ax) + (float)table[t * tiles + r][v] * ax;
            const float down =
                (float)table[b * tiles + l][v] * (1 - ax) + (float)table[b * tiles + r][v] * ax;
            out[y * in->width + x] = rounded(up * (1 - ay) + down * ay);
        }
    free(table);
    free(p.v);
}

/* A slope with noise: histograms with a shape. */
static gray_picture slope(int width, int height)
{
    gray_picture p = { malloc((size_t)(width * height)), width, height };
    assert_non_null(p.v);
    const int base = (int)below(200), spread = 1 + (int)below(56);
    for (int i = 0; i < width * height; i++)
        p.v[i] = (uint8_t)((base + i % width / 4 + (int)below((uint32_t)spread)) % 256);
    return p;
}

static stoke_image colour_of(const gray_picture *p, unsigned depth)
{
    const stoke_image image = make_picture((uint32_t)p->width, (uint32_t)p->height, depth);
    for (size_t i = 0; i < samples(&image); i++) put(&image, i, p->v[i / 3] * (depth == 1 ? 1u : 257u));
    return image;
}

static void test_gray_is_bit_exact(void **state)
{
    seed_random(31);
    for (int round = 0; round < 150; round++) {
        const int tiles = 1 + (int)below(round % 3 ? 9 : 32);
        gray_picture p = round < 20 ? slope(tiles * (1 + (int)below(6)), tiles * (1 + (int)below(6)))
                                    : slope(1 + (int)below(90), 1 + (int)below(90));
        const stoke_color_step t = { .kind = STOKE_COLOR_CLAHE,
                                     .n = (uint32_t)tiles,
                                     .a = round % 10 ? (float)below(160) / 4 : 0 };
        uint8_t *want = malloc((size_t)(p.width * p.height));
        assert_non_null(want);
        plain_clahe(&p, t.a, tiles, want);
        for (unsigned depth = 1; depth <= 2; depth++) {
            stoke_image image = colour_of(&p, depth);
            uint8_t *got = touched(&image, &t, 1, STOKE_DTYPE_U8, STOKE_LAYOUT_HWC, STOKE_NORMALIZE_NONE);
            for (size_t i = 0; i < samples(&image); i++)
                if (got[i] != want[i / 3])
                    fail_msg("round %d: sample %zu is %u, not %u", round, i, got[i], want[i / 3]);
            stk_free(got);
            free(image.data);
        }
        free(want);
        free(p.v);
    }
}

/* Colour: all three samples move by the same, the change of luma, unless an end of the range stops them. */
static void test_colour_moves_as_one(void **state)
{
    seed_random(37);
    for (unsigned depth = 1; depth <= 2; depth++) {
        const int32_t step = depth == 1 ? 1 : 257, most = 255 * step;
        stoke_image image = random_picture(61, 47, depth);
        gray_picture luma = { malloc(61 * 47), 61, 47 };
        assert_non_null(luma.v);
        for (size_t i = 0; i < 61 * 47; i++) {
            const uint64_t y = (19595ull * at(&image, i * 3) + 38470ull * at(&image, i * 3 + 1) +
                                7471ull * at(&image, i * 3 + 2) + 32768) >>
                               16;
            luma.v[i] = (uint8_t)(depth == 1 ? y : (y + 128) / 257);
        }
        uint8_t want[61 * 47];
        plain_clahe(&luma, 3, 4, want);
        const stoke_color_step t = { .kind = STOKE_COLOR_CLAHE, .n = 4, .a = 3 };
        float *got = touched_floats(&image, &t, 1);
        for (size_t i = 0; i < samples(&image); i++) {
            int32_t v = (int32_t)at(&image, i) + (want[i / 3] - luma.v[i / 3]) * step;
            v = v < 0 ? 0 : v > most ? most : v;
            assert_true(fabs((double)got[i] - (double)v / step) <= 2e-5);
        }
        stk_free(got);
        free(luma.v);
        free(image.data);
    }
}

/* Steps before and after: rounded to the depth in between, and the mean of a contrast sees what CLAHE made.
 */
static void test_chain_around(void **state)
{
    seed_random(41);
    stoke_image image = random_picture(50, 40, 1);
    const stoke_color_step t[] = {
        { .kind = STOKE_COLOR_BLUR, .n = 3, .a = 1 },  { .kind = STOKE_COLOR_CLAHE, .n = 3, .a = 2 },
        { .kind = STOKE_COLOR_CONTRAST, .a = 1.25f },  { .kind = STOKE_COLOR_BLUR, .n = 5, .a = 1 },
        { .kind = STOKE_COLOR_CLAHE, .n = 8, .a = 4 }, { .kind = STOKE_COLOR_CONTRAST, .a = 0.5f }
    };
    float *got = touched_floats(&image, t, 6);
    stoke_image now = image;
    for (int i = 0; i < 5; i += i == 0 ? 2 : 3) { /* what lies between: 0-1, 2-4 */
        const uint32_t n = i == 0 ? 2 : 3;
        uint8_t *next = touched(&now, t + i, n, STOKE_DTYPE_U8, STOKE_LAYOUT_HWC, STOKE_NORMALIZE_NONE);
        if (now.data != image.data) stk_free(now.data);
        now.data = next;
    }
    float *want = touched_floats(&now, t + 5, 1);
    assert_memory_equal(got, want, samples(&image) * sizeof(float));
    stk_free(want);
    stk_free(got);
    stk_free(now.data);
    free(image.data);
}

UNIT_GROUP(color_clahe)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gray_is_bit_exact),
        cmocka_unit_test(test_colour_moves_as_one),
        cmocka_unit_test(test_chain_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
