/* SPDX-License-Identifier: Apache-2.0
 *
 * Photometric steps against their formulas in doubles. Differences are in levels (0..255).
 */
#include "tests/unit/fixture_color.h"

#include "kernels/color_math.h"

static const uint32_t sizes[][2] = { { 1, 1 }, { 1, 37 },  { 37, 1 }, { 3, 3 },   { 2, 5 },
                                     { 8, 4 }, { 33, 17 }, { 64, 9 }, { 131, 70 } };
enum { SIZES = sizeof sizes / sizeof *sizes };

static stoke_color_step tone(stoke_color_kind kind, double a, double b)
{
    return (stoke_color_step){ .kind = kind, .a = (float)a, .b = (float)b };
}

static stoke_color_step blur(double sigma, uint32_t n)
{
    return (stoke_color_step){ .kind = STOKE_COLOR_BLUR, .a = (float)sigma, .n = n };
}

static stoke_color_step random_tone(stoke_color_kind kind)
{
    switch (kind) {
    case STOKE_COLOR_HUE: return tone(kind, uniform(-0.5, 0.5), 0);
    case STOKE_COLOR_GAMMA: return tone(kind, uniform(0.3, 3), uniform(0.5, 1.5));
    default: return tone(kind, uniform(0, 2), 0);
    }
}

/* Every size and depth with random parameters; prints the largest difference and holds it to `limit`. */
static void hold(const char *name, stoke_color_kind kind, double limit)
{
    double most = 0;
    seed_random(2000 + kind);
    for (int i = 0; i < SIZES; i++)
        for (unsigned depth = 1; depth <= 2; depth++)
            for (int round = 0; round < 8; round++) {
                stoke_image image = random_picture(sizes[i][0], sizes[i][1], depth);
                const stoke_color_step t = random_tone(kind);
                most = fmax(most, worst(&image, &t, 1));
                free(image.data);
            }
    print_message("# %s: largest difference %.2e of 255\n", name, most);
    assert_true(most <= limit);
}

/* Limits are a few float rounding errors of the formula at 255 (1.5e-5 each); contrast may be off by the
 * quantised mean (2^-13) as well. */
static void test_brightness(void **state)
{
    hold("brightness", STOKE_COLOR_BRIGHTNESS, 4e-5);
}

static void test_contrast(void **state)
{
    hold("contrast", STOKE_COLOR_CONTRAST, 2e-4);
}

static void test_saturation(void **state)
{
    hold("saturation", STOKE_COLOR_SATURATION, 1e-4);
}

static void test_hue(void **state)
{
    hold("hue", STOKE_COLOR_HUE, 5e-4);
}

static void test_gamma(void **state)
{
    hold("gamma", STOKE_COLOR_GAMMA, 5e-4);
}

/* The corners of hue: whole and half turns, primary colours, grey. */
static void test_hue_corners(void **state)
{
    stoke_image image = make_picture(27, 1, 1);
    for (uint32_t i = 0; i < 27; i++)
        for (uint32_t c = 0; c < 3; c++)
            put(&image, i * 3 + c, (c == 0 ? i % 3 : c == 1 ? i / 3 % 3 : i / 9) * 255 / 2);
    for (int i = -12; i <= 12; i++) {
        const stoke_color_step t = tone(STOKE_COLOR_HUE, i / 24.0, 0);
        assert_true(worst(&image, &t, 1) <= 1e-4);
    }
    free(image.data);
}

/* ---- blur ---- */

static void test_blur_against_direct_convolution(void **state)
{
    double most = 0;
    seed_random(7);
    for (int i = 0; i < SIZES; i++)
        for (uint32_t n = 3; n <= 31; n += n < 9 ? 2 : 22)
            for (unsigned depth = 1; depth <= 2; depth++) {
                stoke_image image = random_picture(sizes[i][0], sizes[i][1], depth);
                const stoke_color_step t = blur(uniform(0.2, 6), n);
                most = fmax(most, worst(&image, &t, 1));
                free(image.data);
            }
    print_message("# blur: largest difference %.2e of 255\n", most);
    assert_true(most <= 2e-4);
}

static void test_constant_stays_constant(void **state)
{
    stoke_image image = make_picture(40, 20, 1);
    for (uint32_t v = 0; v <= 255; v += 15) {
        memset(image.data, (int)v, samples(&image));
        const stoke_color_step t[2] = { blur(uniform(0.2, 6), 3 + 2 * below(15)), blur(1, 3) };
        float *got = touched_floats(&image, t, 2);
        for (size_t i = 0; i < samples(&image); i++) assert_true(fabs((double)got[i] - v) <= 4e-7 * 255);
        stk_free(got);
    }
    free(image.data);
}

/* ---- erase ---- */

static void test_erase_is_exact(void **state)
{
    seed_random(11);
    for (int round = 0; round < 200; round++) {
        stoke_image image = random_picture(1 + below(40), 1 + below(40), 1);
        stoke_color_step t = { .kind = STOKE_COLOR_ERASE, .fill = { 1, 128, 255, 0 } };
        t.box = (stoke_box){ below(45), below(45), below(50), below(50) };
        if (round == 0) t.box = (stoke_box){ 0, 0, UINT32_MAX, UINT32_MAX };
        assert_true(worst(&image, &t, 1) == 0);
        free(image.data);
    }
}

/* ---- chains ---- */

/* All 24 orders of the colour jitter, then with a blur in every gap. Hue amplifies nothing, but a contrast of
 * 2 after a saturation of 2 makes errors four times as large. */
static void test_jitter_in_all_orders(void **state)
{
    static const stoke_color_kind kinds[4] = { STOKE_COLOR_BRIGHTNESS, STOKE_COLOR_CONTRAST,
                                               STOKE_COLOR_SATURATION, STOKE_COLOR_HUE };
    double most = 0;
    seed_random(13);
    for (int order = 0; order < 256; order++) {
        const int pick[4] = { order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6 };
        if ((1 << pick[0] | 1 << pick[1] | 1 << pick[2] | 1 << pick[3]) != 15) continue;
        stoke_image image = random_picture(1 + below(50), 1 + below(50), 1 + order % 2);
        stoke_color_step t[5];
        for (int i = 0; i < 4; i++) t[i] = random_tone(kinds[pick[i]]);
        most = fmax(most, worst(&image, t, 4));
        for (int gap = 0; gap <= 4; gap++) {
            for (int i = 0; i < 5; i++)
                t[i] = i == gap ? blur(1.5, 5) : random_tone(kinds[pick[i - (i > gap)]]);
            most = fmax(most, worst(&image, t, 5));
        }
        free(image.data);
    }
    print_message("# chains: largest difference %.2e of 255\n", most);
    assert_true(most <= 1e-3);
}

static void test_many_blurs(void **state)
{
    seed_random(17);
    for (int i = 0; i < SIZES; i++) {
        stoke_image image = random_picture(sizes[i][0], sizes[i][1], 1);
        const stoke_color_step t[] = { blur(1, 3),   tone(STOKE_COLOR_CONTRAST, 1.5, 0), blur(2, 9),
                                       blur(0.7, 5), tone(STOKE_COLOR_GAMMA, 0.7, 1),    blur(9, 31) };
        assert_true(worst(&image, t, 6) <= 1e-3);
        free(image.data);
    }
}

/* The mean is the rounded quotient, also where the guess in floats falls on the wrong side of a whole number.
 */
static void test_mean_is_a_whole_division(void **state)
{
    enum { MOST = 255 * 4096 };
    seed_random(23);
    for (int i = 0; i < 200000; i++) {
        const uint64_t pixels = 1 + below(1u << (1 + i % 31)), steps = i % 3 ? below(MOST) : MOST - below(4);
        /* The last sum that rounds to `steps`, the first of the next, and one between. */
        const uint64_t edge = steps * pixels + pixels - 1 - pixels / 2;
        const uint64_t sum = edge + (i % 5 == 0) - (i % 5 > 2 ? below((uint32_t)pixels) : 0);
        const uint64_t want = (sum + pixels / 2) / pixels;
        assert_true(k_mean_gray(sum, pixels) == (float)want / 4096);
    }
}

/* The sum behind the mean of a contrast step is one of integers: cut anywhere, it is the same. */
static void test_gray_sum_can_be_cut(void **state)
{
    enum { MOST = 20000 };
    float *row = malloc(3 * MOST * sizeof *row);
    assert_non_null(row);
    seed_random(19);
    for (int i = 0; i < 3 * MOST; i++) row[i] = (float)uniform(0, 255.0001);
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        stk_pix_table pix;
        stk_pix_table_fill(&pix, (stk_cpu_level)level);
        for (int round = 0; round < 50; round++) {
            const uint32_t n = 1 + below(round ? 3000 : MOST), cut = below(n + 1);
            const uint64_t whole = pix.gray_sum(row, MOST, n);
            assert_true(whole == pix.gray_sum(row, MOST, cut) + pix.gray_sum(row + cut, MOST, n - cut));
            double mean = 0;
            for (uint32_t i = 0; i < n; i++)
                mean += real_gray((double[3]){ row[i], row[MOST + i], row[2 * MOST + i] }) / n;
            assert_true(fabs((double)whole / 4096 / n - mean) <= 1.0 / 8192 + 1e-5);
        }
    }
    free(row);
}

/* ---- nothing to do ---- */

static void test_identity_is_the_plain_writer(void **state)
{
    const stoke_color_step idle[] = { tone(STOKE_COLOR_BRIGHTNESS, 1, 0),
                                      tone(STOKE_COLOR_CONTRAST, 1, 0),
                                      tone(STOKE_COLOR_SATURATION, 1, 0),
                                      tone(STOKE_COLOR_HUE, 0, 0),
                                      tone(STOKE_COLOR_GAMMA, 1, 1),
                                      blur(3, 1),
                                      blur(0.05, 5),
                                      tone(STOKE_COLOR_NOISE, 0, 0),
                                      { .kind = STOKE_COLOR_ERASE, .box = { 90, 0, 5, 5 } } };
    /* Changes nothing either, but is not skipped: whole samples go through planes and come out as the table
     * of the writer has them. */
    stoke_image image8 = random_picture(90, 20, 1), image16 = random_picture(90, 20, 2);
    stoke_color_step late = { .kind = STOKE_COLOR_ERASE, .box = { 0, 0, 1, 1 } };
    for (int c = 0; c < 3; c++) late.fill[c] = (uint8_t)at(&image8, (size_t)c);
    for (int kind = 0; kind < 4 * 2 * 3 * 2; kind++) {
        const stoke_dtype dtype = kind & 3;
        const stoke_layout layout = kind >> 2 & 1;
        const stoke_normalize normalize = kind / 8 % 3;
        stoke_image *image = kind / 24 ? &image16 : &image8;
        stk_pix_writer writer;
        stk_writer_init(&writer, dtype, layout, normalize);
        const size_t bytes = samples(image) * stk_element_bytes(dtype);
        void *want = stk_alloc_aligned(bytes, 64);
        stk_write_image(&writer, image, want, image->width, image->height, 0, 0, 0);
        void *got = touched(image, idle, sizeof idle / sizeof *idle, dtype, layout, normalize);
        assert_memory_equal(got, want, bytes);
        stk_free(got);
        if (image->depth == 1) {
            got = touched(image, &late, 1, dtype, layout, normalize);
            assert_memory_equal(got, want, bytes);
            stk_free(got);
        }
        stk_free(want);
    }
    free(image8.data);
    free(image16.data);
}

/* A 16-bit picture of whole levels is the 8-bit picture. */
static void test_whole_levels_of_16_bits(void **state)
{
    stoke_image narrow = make_picture(256, 1, 1), wide = make_picture(256, 1, 2);
    for (uint32_t i = 0; i < 768; i++) {
        put(&narrow, i, i % 256);
        put(&wide, i, i % 256 * 257);
    }
    const stoke_color_step t = tone(STOKE_COLOR_BRIGHTNESS, 0.9, 0);
    float *a = touched_floats(&narrow, &t, 1), *b = touched_floats(&wide, &t, 1);
    assert_memory_equal(a, b, 768 * sizeof(float));
    stk_free(a);
    stk_free(b);
    free(narrow.data);
    free(wide.data);
}

/* ---- refusals and memory ---- */

static void test_refusals(void **state)
{
    const stoke_color_step bad[] = { tone(STOKE_COLOR_KINDS, 1, 1),
                                     tone(STOKE_COLOR_BRIGHTNESS, NAN, 0),
                                     tone(STOKE_COLOR_NOISE, 0.1, INFINITY),
                                     { .kind = STOKE_COLOR_NOISE, .a = 0.1f, .n = 2 },
                                     tone(STOKE_COLOR_HUE, 0.51, 0),
                                     tone(STOKE_COLOR_GAMMA, 0, 1),
                                     blur(1, 4),
                                     blur(1, 33),
                                     blur(0, 3),
                                     { .kind = STOKE_COLOR_CLAHE, .a = 2 },
                                     { .kind = STOKE_COLOR_CLAHE, .a = 2, .n = 33 },
                                     { .kind = STOKE_COLOR_CLAHE, .a = -1, .n = 8 } };
    stoke_image image = random_picture(4, 4, 1);
    stk_color_rows source = rows_of(&image);
    stk_pix_writer writer;
    float out[48];
    stoke_error err = { 0 };
    stk_color_pass *color_pass = stk_color_pass_create();
    stk_writer_init(&writer, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, STOKE_NORMALIZE_UNIT);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(stk_color_write(color_pass, bad + i, 1, &source, &writer, out, &err),
                         STOKE_E_INVALID);
        assert_true(strlen(err.message) > 0);
    }
    stoke_color_step many[STOKE_PLAN_COLOR_STEPS + 1];
    for (int i = 0; i <= STOKE_PLAN_COLOR_STEPS; i++) many[i] = blur(1, 3);
    assert_int_equal(
        stk_color_write(color_pass, many, STOKE_PLAN_COLOR_STEPS + 1, &source, &writer, out, &err),
        STOKE_E_INVALID);
    assert_int_equal(stk_color_write(color_pass, many, STOKE_PLAN_COLOR_STEPS, &source, &writer, out, &err),
                     STOKE_OK);
    for (int i = 0; i < 5; i++) many[i] = blur(1, 31);
    assert_int_equal(stk_color_write(color_pass, many, 5, &source, &writer, out, &err), STOKE_E_INVALID);
    assert_int_equal(stk_color_write(color_pass, many, 4, &source, &writer, out, &err), STOKE_OK);
    source.height = 0;
    assert_int_equal(stk_color_write(color_pass, many, 1, &source, &writer, out, &err), STOKE_E_INVALID);
    source.height = 4;
    source.depth = 4;
    assert_int_equal(stk_color_write(color_pass, many, 1, &source, &writer, out, &err), STOKE_E_INVALID);
    stk_color_pass_destroy(&color_pass);
    stk_color_pass_destroy(&color_pass);
    free(image.data);
}

/* The worst chain there can be holds no more than the bound; the second time nothing is allocated; when
 * memory is short that is said. */
static void test_memory(void **state)
{
    stoke_color_step t[8];
    for (int i = 0; i < 4; i++) t[i] = blur(5, 31);
    t[4] = (stoke_color_step){ .kind = STOKE_COLOR_CLAHE, .a = 2, .n = STK_COLOR_TILES_MAX };
    for (unsigned depth = 1; depth <= 2; depth++) {
        stoke_image image = random_picture(70, 45, depth);
        stk_color_rows source = rows_of(&image);
        stk_pix_writer writer;
        stoke_error err = { 0 };
        uint16_t *out = malloc(samples(&image) * 2);
        stk_writer_init(&writer, STOKE_DTYPE_BF16, STOKE_LAYOUT_CHW, STOKE_NORMALIZE_UNIT);
        for (int64_t room = 0; room < 3; room++) {
            stk_color_pass *poor = stk_color_pass_create();
            stk_mem_fail_after(room);
            assert_int_equal(stk_color_write(poor, t, 5, &source, &writer, out, &err), STOKE_E_NOMEM);
            stk_mem_fail_after(-1);
            stk_color_pass_destroy(&poor);
        }
        stk_color_pass *color_pass = stk_color_pass_create();
        assert_int_equal(stk_color_write(color_pass, t, 5, &source, &writer, out, &err), STOKE_OK);
        assert_true(stk_color_pass_memory(color_pass) <= stk_color_scratch(70, 45, (uint8_t)depth));
        assert_true(stk_color_pass_memory(color_pass) > stk_color_scratch(70, 45, (uint8_t)depth) / 2);
        const uint64_t calls = stk_mem_count().calls;
        assert_int_equal(stk_color_write(color_pass, t, 5, &source, &writer, out, &err), STOKE_OK);
        assert_int_equal(stk_mem_count().calls, calls);
        stk_color_pass_destroy(&color_pass);
        free(out);
        free(image.data);
    }
    assert_true(stk_color_scratch(UINT32_MAX, UINT32_MAX, 2) == UINT64_MAX);
}

UNIT_GROUP(color)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brightness),
        cmocka_unit_test(test_contrast),
        cmocka_unit_test(test_saturation),
        cmocka_unit_test(test_hue),
        cmocka_unit_test(test_gamma),
        cmocka_unit_test(test_hue_corners),
        cmocka_unit_test(test_blur_against_direct_convolution),
        cmocka_unit_test(test_constant_stays_constant),
        cmocka_unit_test(test_erase_is_exact),
        cmocka_unit_test(test_jitter_in_all_orders),
        cmocka_unit_test(test_many_blurs),
        cmocka_unit_test(test_mean_is_a_whole_division),
        cmocka_unit_test(test_gray_sum_can_be_cut),
        cmocka_unit_test(test_identity_is_the_plain_writer),
        cmocka_unit_test(test_whole_levels_of_16_bits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
