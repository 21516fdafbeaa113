/* SPDX-License-Identifier: Apache-2.0
 *
 * Noise: every normal number against Box and Muller in doubles, and the field as a whole against the normal
 * distribution. Statistics are of one fixed key, so they cannot fail by chance; limits are four standard
 * errors.
 */
#include "tests/unit/fixture_color.h"

#include "kernels/color_math.h"

enum { WIDTH = 512, HEIGHT = 512, COUNT = WIDTH * HEIGHT };

/* The three planes of N(0,1), taken out of a black picture with noise of mean 127.5 and deviation 16: the
 * ends are eight deviations away. */
static float *field(uint64_t key)
{
    stoke_image image = make_picture(WIDTH, HEIGHT, 1);
    memset(image.data, 0, samples(&image));
    const stoke_color_step t = { .kind = STOKE_COLOR_NOISE, .a = 16 / 255.0f, .b = 0.5f, .key = key };
    float *v = touched(&image, &t, 1, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, STOKE_NORMALIZE_NONE);
    for (size_t i = 0; i < samples(&image); i++) v[i] = (v[i] - 127.5f) / 16;
    free(image.data);
    return v;
}

/* All 65536 radii and all 65536 angles. */
static void test_normals_are_box_muller(void **state)
{
    double most = 0;
    for (uint32_t i = 0; i < 2 * 65536; i++) {
        const uint32_t word =
            i < 65536 ? i << 16 | (i * 40503 & 0xffff) : i * 2654435761u << 16 | (i & 0xffff);
        const double radius = sqrt(-2 * log((abs((int16_t)(word >> 16) * 2 + 1)) / 65536.0));
        /* The sign of the upper half is the half of the circle, the lower -90 to 90 degrees around its
         * middle.
         */
        const double angle = (word >> 31) * M_PI + (int16_t)(word | 1) / 32768.0 * (M_PI / 2);
        const float length = k_normal_radius(word, 1);
        const float got[2] = { k_first_normal(word, length), k_second_normal(word, length) };
        most = fmax(most, fmax(fabs(got[0] - radius * cos(angle)), fabs(got[1] - radius * sin(angle))));
    }
    print_message("# largest difference %.2e of a standard deviation\n", most);
    assert_true(most <= 1e-4);
}

/* A sample of the field is the normal its place says: the layout is pinned. */
static void test_layout_is_pinned(void **state)
{
    const uint64_t key = UINT64_C(0x0123456789abcdef);
    float *v = field(key);
    seed_random(43);
    for (int i = 0; i < 1000; i++) {
        const uint32_t x = below(WIDTH), y = below(HEIGHT), c = below(3);
        const uint32_t counter[4] = { y, c, 0, 0 };
        const uint32_t keys[2] = { (uint32_t)key, (uint32_t)(key >> 32) };
        const stk_rng random = stk_philox_block(counter, keys);
        const uint32_t word = k_noise_word(x / 16 * 8 + x % 8, random.word);
        const float radius = k_normal_radius(word, 1);
        const float normal = x / 8 % 2 ? k_second_normal(word, radius) : k_first_normal(word, radius);
        const float got = v[((size_t)c * HEIGHT + y) * WIDTH + x];
        assert_true(fabsf(got - normal) <= 2e-6f);
    }
    stk_free(v);
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void test_moments_and_distribution(void **state)
{
    for (uint64_t key = 1; key <= 3; key++) {
        float *v = field(key);
        const double n = 3.0 * COUNT;
        double m1 = 0, m2 = 0, m3 = 0, m4 = 0, ks = 0;
        for (size_t i = 0; i < 3 * COUNT; i++) {
            const double x = v[i];
            m1 += x / n, m2 += x * x / n, m3 += x * x * x / n, m4 += x * x * x * x / n;
        }
        qsort(v, 3 * COUNT, sizeof *v, ascending);
        for (size_t i = 0; i < 3 * COUNT; i++) {
            const double p = 0.5 * erfc(-v[i] / sqrt(2));
            ks = fmax(ks, fmax(fabs(p - (double)i / n), fabs(p - (double)(i + 1) / n)));
        }
        print_message(
            "# key %llu: mean %.5f variance %.5f skew %.5f kurtosis %.5f KS %.2f / sqrt(n), %.3f .. %.3f\n",
            (unsigned long long)key, m1, m2, m3, m4, ks * sqrt(n), (double)v[0], (double)v[3 * COUNT - 1]);
        assert_true(fabs(m1) <= 4 / sqrt(n));
        assert_true(fabs(m2 - 1) <= 4 * sqrt(2 / n));
        assert_true(fabs(m3) <= 4 * sqrt(15 / n));
        assert_true(fabs(m4 - 3) <= 4 * sqrt(96 / n));
        assert_true(ks * sqrt(n) <= 1.95); /* p = 0.001 */
        stk_free(v);
    }
}

/* Mean product of samples so far apart: columns, rows, planes. */
static double correlation(const float *v, const float *w, uint32_t dx, uint32_t dy)
{
    double sum = 0;
    for (uint32_t y = 0; y + dy < HEIGHT; y++)
        for (uint32_t x = 0; x + dx < WIDTH; x++) sum += v[y * WIDTH + x] * w[(y + dy) * WIDTH + x + dx];
    return sum / ((double)(HEIGHT - dy) * (WIDTH - dx));
}

static void test_samples_do_not_know_each_other(void **state)
{
    float *v = field(99), *other = field(100);
    const double limit = 4.5 / sqrt((double)COUNT * 0.87); /* 40 figures, the farthest of 448 columns */
    double most = 0;
    static const uint32_t apart[] = { 0, 1, 2, 7, 8, 9, 16, 63, 64 };
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0; i < 9; i++)
            for (size_t c = 0; c < 3; c++) {
                if (c || i || j)
                    most = fmax(most, fabs(correlation(v, v + c * COUNT, apart[i], (uint32_t)j)));
                if (c == 0) most = fmax(most, fabs(correlation(v, other, apart[i], (uint32_t)j)));
            }
    print_message("# largest correlation %.5f, limit %.5f\n", most, limit);
    assert_true(most <= limit);
    /* Both of a pair share a radius: their squares must not show it. */
    double squares = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        if (i / 8 % 2 == 0) squares += (v[i] * v[i] - 1) * (v[i + 8] * v[i + 8] - 1) / (COUNT / 2);
    assert_true(fabs(squares) <= 4 * 2 / sqrt(COUNT / 2));
    stk_free(v);
    stk_free(other);
}

/* The noise of a place is the same in a narrower and lower picture, and v + 255 (b + a N) is clamped. */
static void test_place_decides_and_ends_hold(void **state)
{
    float *v = field(5);
    const stoke_color_step t = { .kind = STOKE_COLOR_NOISE, .a = 0.5f, .b = -0.1f, .key = 5 };
    for (uint32_t width = 1; width < 200; width += 13) {
        stoke_image image = random_picture(width, 9, 1);
        float *got = touched_floats(&image, &t, 1);
        for (uint32_t i = 0; i < width * 9 * 3; i++) {
            const float normal = v[((size_t)(i % 3) * HEIGHT + i / 3 / width) * WIDTH + i / 3 % width];
            const double want = real_clamp(at(&image, i) + 255 * (-0.1 + 0.5 * normal));
            assert_true(fabs(got[i] - want) <= 5e-4); /* the field was taken out of 127.5 + 16 N */
        }
        stk_free(got);
        free(image.data);
    }
    stk_free(v);
}

/* n = 1 gives all planes the noise that n = 0 gives the first. */
static void test_gray_noise_keeps_gray(void **state)
{
    stoke_image image = random_picture(77, 9, 1);
    for (size_t i = 0; i < samples(&image); i++) put(&image, i, at(&image, i / 3 * 3));
    stoke_color_step t = { .kind = STOKE_COLOR_NOISE, .a = 0.1f, .b = 0.02f, .key = 5 };
    float *coloured = touched_floats(&image, &t, 1);
    t.n = 1;
    float *gray = touched_floats(&image, &t, 1);
    size_t differ = 0;
    for (size_t i = 0; i < samples(&image); i++) {
        assert_true(gray[i] == coloured[i / 3 * 3]);
        differ += coloured[i] != coloured[i / 3 * 3];
    }
    assert_true(differ > samples(&image) / 2);
    stk_free(coloured);
    stk_free(gray);
    free(image.data);
}

UNIT_GROUP(color_noise)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normals_are_box_muller),
        cmocka_unit_test(test_layout_is_pinned),
        cmocka_unit_test(test_moments_and_distribution),
        cmocka_unit_test(test_samples_do_not_know_each_other),
        cmocka_unit_test(test_place_decides_and_ends_hold),
        cmocka_unit_test(test_gray_noise_keeps_gray),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
