/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said about settings that are allowed and hardly meant, and that nothing is said about others.
 */
#include <stoke/tools/data.h>
#include <stoke/tools/loader.h>
#include "tests/unit/fixture_pairs.h"

enum { WIDTH = 48, HEIGHT = 40 };

/* The remarks about a set; what is said is in `text`. */
static size_t remarks(const stoke_data_params *params, char *text, size_t size)
{
    stoke_dataset *dataset;
    stoke_error err = { 0 };
    if (stoke_dataset_open(&dataset, params, &err)) fail_msg("%s", err.message);
    const size_t n = stoke_data_remarks(dataset, params, text, size);
    stoke_dataset_close(&dataset);
    return n;
}

static void odd_settings_are_remarked_on(void **state)
{
    static const struct {
        const char *augment;
        uint32_t height, width;
        int64_t batch, classes;
        const char *dtype, *expected; /* NULL: nothing to say */
    } cases[] = {
        { "none", 0, 0, 1, 0, "u8", NULL },
        { "strong", 0, 0, 4, 0, "f32", NULL }, /* its crop stretches: any size will do */
        { "crop", 0, 0, 4, 5, "u8",
          "random_crop cuts nothing: the output has the size of the samples, 40x48" },
        { "medical", HEIGHT, WIDTH, 4, 5, "u8", "foreground_crop cuts nothing" },
        { "crop", 32, 32, 4, 5, "u8", NULL },
        { "crop", HEIGHT, 32, 4, 5, "u8", NULL },
        { "center_crop", HEIGHT + 8, WIDTH + 8, 4, 5, "u8", NULL }, /* a little padding may be meant */
        { "center_crop", 80, 96, 4, 5, "u8",
          "center_crop: samples of about 40x48 fill 25 % of an output of 80x96, the rest is padding" },
        { "mixup", 32, 32, 1, 5, "f32", "mixup mixes a row with the one before it in the batch" },
        { "cutmix", 32, 32, 1, 5, "f32", "cutmix mixes a row" },
        { "mixup", 32, 32, 2, 5, "f32", NULL },
        { "normalize", 32, 32, 4, 5, "u8", "normalize has no effect with dtype u8" },
        { "normalize", 32, 32, 4, 5, "f16", NULL },
        { "face", 32, 32, 4, 0, "u8", "classes 2 and 3 change places in mirror images; set classes" },
        { "face", 32, 32, 4, 19, "u8", NULL },
    };
    pairs_write(state, 5, WIDTH, HEIGHT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        stoke_data_params params = pairs_params(state);
        const stoke_option_group group = stoke_data_options(&params);
        params.augment = cases[i].augment;
        params.size[0] = cases[i].height, params.size[1] = cases[i].width;
        params.batch = cases[i].batch;
        params.classes = cases[i].classes;
        assert_int_equal(stoke_options_set(&group, 1, "dtype", cases[i].dtype, NULL), 0);
        const size_t n = remarks(&params, text, sizeof text);
        if (n != (cases[i].expected != NULL) || (n && !strstr(text, cases[i].expected)))
            fail_msg("%s: %zu remarks: %s", cases[i].augment, n, text);
    }
}

/* One line each; what does not fit is counted and cut, and settings no loader takes have none. */
static void lines_end_and_fit(void **state)
{
    char text[1024], few[40];
    pairs_write(state, 2, WIDTH, HEIGHT);
    stoke_data_params params = pairs_params(state);
    params.augment = "crop,mixup";
    params.size[0] = params.size[1] = 0;
    params.batch = 1;
    assert_int_equal(remarks(&params, text, sizeof text), 2);
    size_t lines = 0;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 2);
    memset(few, 'x', sizeof few);
    assert_int_equal(remarks(&params, few, sizeof few), 2);
    assert_int_equal(few[sizeof few - 1], 0);
    assert_memory_equal(few, text, sizeof few - 1);
    assert_int_equal(remarks(&params, NULL, 0), 2);
    params.augment = "spin";
    assert_int_equal(remarks(&params, text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void write_deep(void **state, uint32_t i, uint16_t low, uint16_t high)
{
    uint16_t grey[16 * 16];
    char name[64];
    for (uint32_t k = 0; k < 256; k++) grey[k] = (uint16_t)(low + (high - low) * k / 255);
    const stoke_image image = { grey, 32, 16, 16, 1, 2 };
    snprintf(name, sizeof name, "images/d%u.png", i);
    assert_int_equal(stoke_image_write_png(unit_path(state, name), &image, NULL), 0);
}

/* 16 bits that use 11: said by the loader's side and by verify's, unless a window is set. */
static void small_ranges_of_16_bits_are_remarked_on(void **state)
{
    char text[1024], images[4200];
    mkdir(unit_path(state, "images"), 0777);
    write_deep(state, 0, 900, 2200);
    write_deep(state, 1, 800, 2100);
    stoke_data_params params = pairs_params(state);
    snprintf(images, sizeof images, "%s", unit_path(state, "images"));
    params.data = NULL;
    params.images = images;
    assert_int_equal(remarks(&params, text, sizeof text), 1);
    assert_non_null(
        strstr(text, "16-bit images with values 900 to 2200, 2 % of the range")); /* looks at few */
    stoke_dataset *dataset;
    stoke_verify_report report;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_verify(dataset, &params, 2, NULL, NULL, &report, NULL), 0);
    assert_int_equal(report.images16, 2);
    assert_int_equal(report.min_value16, 800);
    assert_int_equal(report.max_value16, 2200);
    stoke_verify_report_free(&report);
    stoke_dataset_close(&dataset);
    params.window = "p1:p99";
    assert_int_equal(remarks(&params, text, sizeof text), 0);
    params.window = "none";
    write_deep(state, 0, 0, 16384);
    assert_int_equal(remarks(&params, text, sizeof text), 0);
    write_deep(state, 0, 0, 16383);
    assert_int_equal(remarks(&params, text, sizeof text), 1);
}

UNIT_GROUP(remarks)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(odd_settings_are_remarked_on),
        unit_test_with_folder(lines_end_and_fit),
        unit_test_with_folder(small_ranges_of_16_bits_are_remarked_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
