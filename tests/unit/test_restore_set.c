/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of images and targets: where they are found, how they pair, what is refused, what verify says.
 */
#include "tests/unit/unit.h"

#include <stoke/dataset.h>
#include <stoke/tools/dataset.h>
#include <stoke/tools/tools.h>

/* Makes empty files, names separated by blanks. */
static void touch(void **state, const char *names)
{
    char copy[4096], *rest = copy, *name;
    snprintf(copy, sizeof copy, "%s", names);
    while ((name = strsep(&rest, " ")))
        if (*name) unit_write(unit_path(state, name), "", 0);
}

static stoke_dataset *open_good(const stoke_data_params *params)
{
    stoke_dataset *dataset;
    stoke_error err = { 0 };
    if (stoke_dataset_open(&dataset, params, &err)) fail_msg("%s", err.message);
    return dataset;
}

static void expect_error(const stoke_data_params *params, int code, const char *part)
{
    stoke_dataset *dataset;
    stoke_error err = { 0 };
    assert_int_equal(stoke_dataset_open(&dataset, params, &err), code);
    if (!strstr(err.message, part)) fail_msg("`%s` is not in `%s`", part, err.message);
}

/* Image and target of all samples without the test's folder: "a/1.png>b/1.png ...". A set of masks has a |
 * there. */
static const char *pairs_of(void **state, const stoke_data_params *params)
{
    static char text[4096];
    const size_t root = strlen(unit_folder(state)) + 1;
    stoke_dataset *dataset = open_good(params);
    text[0] = 0;
    for (uint64_t i = 0; i < stoke_dataset_count(dataset); i++) {
        const stoke_sample s = stoke_dataset_sample(dataset, i);
        const int restores = stoke_dataset_has_targets(dataset);
        assert_int_equal(restores, s.target_path != NULL);
        assert_true(!restores || (!s.mask_path && !stoke_dataset_has_masks(dataset)));
        const char *other = restores ? s.target_path : s.mask_path;
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s%s%s", i ? " " : "", s.image_path + root,
                 restores ? ">" : "|", other ? other + root : "-");
    }
    stoke_dataset_close(&dataset);
    return text;
}

/* ---- layouts ---- */

static void usual_folders_are_found(void **state)
{
    static const struct {
        const char *files, *pairs;
    } cases[] = {
        { "images/1.png targets/1.jpg", "images/1.png>targets/1.jpg" },
        { "input/1.png target/1.png", "input/1.png>target/1.png" },
        { "noisy/1.png clean/1.png", "noisy/1.png>clean/1.png" },
        { "blur/1.png sharp/1.png", "blur/1.png>sharp/1.png" },
        { "low/1.png high/1.png", "low/1.png>high/1.png" },
        { "LR/1.png HR/1.png", "LR/1.png>HR/1.png" },
        { "lq/1.png gt/1.png", "lq/1.png>gt/1.png" },
        { "input/a_1.png target/a_1_gt.png", "input/a_1.png>target/a_1_gt.png" },
        { "train/input/1.png train/target/1.png val/input/2.png val/target/2.png",
          "train/input/1.png>train/target/1.png val/input/2.png>val/target/2.png" },
        { "input/train/1.png target/train/1.png input/val/2.png target/val/2.png",
          "input/train/1.png>target/train/1.png input/val/2.png>target/val/2.png" },
        { "train_noisy/1.png train_clean/1.png", "train_noisy/1.png>train_clean/1.png" },
        { "test/low/1.png test/high/1.png", "test/low/1.png>test/high/1.png" },
        /* masks come first, and targets before images alone */
        { "images/1.png masks/1.png targets/1.png", "images/1.png|masks/1.png" },
        { "1.png noisy/2.png clean/2.png", "noisy/2.png>clean/2.png" },
        { "images/1.png", "images/1.png|-" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *own;
        assert_int_equal(unit_folder_setup(&own), 0);
        touch(&own, cases[i].files);
        stoke_data_params params = stoke_data_defaults();
        params.data = unit_folder(&own);
        assert_string_equal(pairs_of(&own, &params), cases[i].pairs);
        unit_folder_teardown(&own);
    }
    (void)state;
}

static void a_task_decides(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    touch(state, "images/1.png masks/1.png targets/1.png");
    params.data = unit_folder(state);
    params.task = STOKE_TASK_RESTORE;
    assert_string_equal(pairs_of(state, &params), "images/1.png>targets/1.png");
    params.task = STOKE_TASK_SEGMENT;
    assert_string_equal(pairs_of(state, &params), "images/1.png|masks/1.png");
    touch(state, "low/1.png high/1.png");
    params.task = STOKE_TASK_RESTORE;
    expect_error(&params, STOKE_E_INVALID, "say which by images and targets");
}

static void test_parts_are_left_alone(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    touch(state, "train/input/1.png train/target/1.png test/input/2.png test/target/2.png");
    params.data = unit_folder(state);
    assert_string_equal(pairs_of(state, &params), "train/input/1.png>train/target/1.png");
    params.split = STOKE_SPLIT_TEST;
    assert_string_equal(pairs_of(state, &params), "test/input/2.png>test/target/2.png");
    params.task = STOKE_TASK_RESTORE;
    assert_string_equal(pairs_of(state, &params), "test/input/2.png>test/target/2.png");
    params.task = STOKE_TASK_SEGMENT;
    expect_error(&params, STOKE_E_NOTFOUND, "has no test part");
}

/* ---- pairing ---- */

static void named_folders_pair_by_stem(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    touch(state, "x/1.png x/2.png x/deep/3.png x/4.jpg y/1.tif y/deep/3_clean.png y/4.png y/5.png");
    params.images = unit_path(state, "x");
    params.targets = unit_path(state, "y");
    assert_string_equal(pairs_of(state, &params),
                        "x/1.png>y/1.tif x/4.jpg>y/4.png x/deep/3.png>y/deep/3_clean.png");
    stoke_dataset *dataset = open_good(&params);
    assert_int_equal(stoke_dataset_notes(dataset), 2);
    assert_string_equal(stoke_dataset_note(dataset, 0).detail, "no target has its stem");
    assert_non_null(strstr(stoke_dataset_note(dataset, 0).path, "x/2.png"));
    assert_string_equal(stoke_dataset_note(dataset, 1).detail, "no image has its stem");
    assert_non_null(strstr(stoke_dataset_note(dataset, 1).path, "y/5.png"));
    stoke_dataset_close(&dataset);
    params.targets = unit_path(state, "x");
    params.mask_suffix = "";
    expect_error(&params, STOKE_E_INVALID, "images and targets are one folder");
}

/* 0001x2.png beside 0001.png, as DIV2K has them. */
static void a_scale_in_names_is_a_suffix(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    touch(state, "LR/1x2.png LR/2x2.png HR/1.png HR/2.png same/1x2.png");
    params.data = unit_folder(state);
    expect_error(&params, STOKE_E_NOTFOUND, "stem of one: 1x2");
    params.scale = 2;
    assert_string_equal(pairs_of(state, &params), "LR/1x2.png>HR/1.png LR/2x2.png>HR/2.png");
    params.data = NULL;
    params.images = unit_path(state, "LR");
    params.targets = unit_path(state, "same");
    assert_string_equal(pairs_of(state, &params), "LR/1x2.png>same/1x2.png");
}

static void lists_have_targets(void **state)
{
    static const char good[] = "image,target\na/1.png,b/9.png\na/2.png,/c/2.png\n";
    static const char short_one[] = "a/1.png,b/1.png\na/2.png\n";
    stoke_data_params params = stoke_data_defaults();
    params.list = unit_path(state, "good.csv");
    unit_write(params.list, good, sizeof good - 1);
    params.task = STOKE_TASK_RESTORE;
    stoke_dataset *dataset = open_good(&params);
    assert_true(stoke_dataset_has_targets(dataset) && !stoke_dataset_has_masks(dataset));
    assert_string_equal(stoke_dataset_sample(dataset, 0).target_path, unit_path(state, "b/9.png"));
    assert_string_equal(stoke_dataset_sample(dataset, 1).target_path, "/c/2.png");
    assert_null(stoke_dataset_sample(dataset, 1).mask_path);
    stoke_dataset_close(&dataset);
    params.task = STOKE_TASK_AUTO; /* a list does not say: masks */
    dataset = open_good(&params);
    assert_true(stoke_dataset_has_masks(dataset) && !stoke_dataset_has_targets(dataset));
    stoke_dataset_close(&dataset);
    params.task = STOKE_TASK_RESTORE;
    params.list = unit_path(state, "short.csv");
    unit_write(params.list, short_one, sizeof short_one - 1);
    expect_error(&params, STOKE_E_FORMAT, "short.csv:2: no target path");
}

static void what_contradicts_is_refused(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    touch(state, "x/1.png y/1.png");
    params.images = unit_path(state, "x");
    params.task = STOKE_TASK_RESTORE;
    expect_error(&params, STOKE_E_INVALID, "`task` restore needs targets");
    params.masks = unit_path(state, "y");
    expect_error(&params, STOKE_E_INVALID, "masks are for task segment");
    params.targets = params.masks;
    expect_error(&params, STOKE_E_INVALID, "not both");
    params.masks = NULL;
    params.task = STOKE_TASK_SEGMENT;
    expect_error(&params, STOKE_E_INVALID, "targets are for task restore");
    params.task = 3;
    expect_error(&params, STOKE_E_INVALID, "task must be");
    params.task = STOKE_TASK_AUTO;
    params.scale = 5;
    expect_error(&params, STOKE_E_INVALID, "scale must be 1 to 4");
    params.scale = 2;
    params.targets = NULL;
    expect_error(&params, STOKE_E_INVALID, "`scale` 2 is that of targets");
    params = stoke_data_defaults();
    params.data = unit_path(state, "x");
    params.targets = unit_path(state, "y");
    expect_error(&params, STOKE_E_INVALID, "targets goes with images only");
    params.targets = NULL;
    params.task = STOKE_TASK_RESTORE;
    expect_error(&params, STOKE_E_NOTFOUND, "no images with targets found");
    params.split = STOKE_SPLIT_TEST;
    expect_error(&params, STOKE_E_NOTFOUND, "test/input with test/target");
}

static void shards_have_no_targets(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    touch(state, "set/000000.tar");
    params.data = unit_path(state, "set");
    params.task = STOKE_TASK_RESTORE;
    expect_error(&params, STOKE_E_UNSUPPORTED, "tar shards hold images and masks, and no targets");
}

/* ---- verify ---- */

static void write_gray(void **state, const char *name, uint32_t w, uint32_t h)
{
    uint8_t *pixels = calloc((size_t)w * h, 3);
    const stoke_image image = { pixels, (size_t)w * 3, w, h, 3, 1 };
    unit_write(unit_path(state, name), "", 0); /* makes the folder */
    assert_int_equal(stoke_image_write_png(unit_path(state, name), &image, NULL), 0);
    free(pixels);
}

static void verify_reads_both(void **state)
{
    write_gray(state, "low/1.png", 12, 10);
    write_gray(state, "high/1.png", 24, 20);
    write_gray(state, "low/2.png", 12, 10);
    write_gray(state, "high/2.png", 36, 30);
    write_gray(state, "low/3.png", 9, 9);
    unit_write(unit_path(state, "high/3.png"), "no picture", 10);
    unit_write(unit_path(state, "low/4.png"), "no picture", 10);
    write_gray(state, "high/4.png", 5, 5); /* of which nothing can be said */
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_folder(state);
    params.scale = 2;
    stoke_dataset *dataset = open_good(&params);
    stoke_verify_report report;
    assert_int_equal(stoke_verify(dataset, &params, 2, NULL, NULL, &report, NULL), 0);
    assert_int_equal(report.pairs, 4);
    assert_int_equal(report.ok, 1);
    assert_int_equal(report.n_bad, 3);
    assert_non_null(strstr(report.bad[0].path, "high/2.png"));
    assert_int_equal(report.bad[0].code, STOKE_E_SIZE);
    assert_non_null(strstr(report.bad[0].reason, "the target is 30x36 (height x width), its image "));
    assert_non_null(strstr(report.bad[0].reason, "low/2.png is 10x12; with `scale` 2 it has to be 20x24"));
    assert_non_null(strstr(report.bad[0].reason, "and `scale` 3 would fit"));
    assert_non_null(strstr(report.bad[1].path, "high/3.png"));
    assert_non_null(strstr(report.bad[2].path, "low/4.png"));
    assert_int_equal(report.n_remarks, 0);
    assert_int_equal(report.n_classes, 0);
    assert_null(report.refusal);
    assert_true(report.target_bytes > 0 && report.mask_bytes == 0);
    assert_int_equal(report.max_width, 12);
    stoke_verify_report_free(&report);
    stoke_dataset_close(&dataset);
}

UNIT_GROUP(restore_set)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_folders_are_found),
        unit_test_with_folder(a_task_decides),
        unit_test_with_folder(test_parts_are_left_alone),
        unit_test_with_folder(named_folders_pair_by_stem),
        unit_test_with_folder(a_scale_in_names_is_a_suffix),
        unit_test_with_folder(lists_have_targets),
        unit_test_with_folder(what_contradicts_is_refused),
        unit_test_with_folder(shards_have_no_targets),
        unit_test_with_folder(verify_reads_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
