/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run takes the values in its masks for, and how classes are weighted.
 */
#include "tests/unit/fixture_resolve.h"

/* ---- classes ---- */

static void classes_from_values(void **state)
{
    static const struct {
        uint16_t values[24];
        uint32_t n, classes;
        const char *map, *sentence;
    } cases[] = {
        { { 0, 1, 2, 3, 4 }, 5, 5, "identity", "5 classes, from the values 0 to 4" },
        { { 0, 1, 255 }, 3, 2, "identity", "2 classes, from the values 0 to 1 in the masks; 255 is ignored" },
        { { 0, 2, 3, 5 }, 4, 6, "identity", "of which 2 occur in none" },
        { { 1, 2, 3 }, 3, 4, "identity", "of which 1 occurs in none" },
        { { 0, 255 }, 2, 2, "0:0,255:1", "hold 0 and 255: taken for 2 classes" },
        { { 0, 127, 255 }, 3, 3, "0:0,127:1,255:2", "hold 0, 127 and 255: taken for 3 classes" },
        { { 0, 85, 170, 255 }, 4, 4, "0:0,85:1,170:2,255:3", "taken for 4 classes" },
        { { 0, 38, 75 }, 3, 3, "0:0,38:1,75:2", "0, 38 and 75, which are taken for classes 0 to 2" },
        { { 0, 38, 75, 255 }, 4, 3, "0:0,38:1,75:2", "255 has no class" },
        { { 0, 300, 900 }, 3, 3, "0:0,300:1,900:2", "0, 300 and 900" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settling_write(state, 6, cases[i].values, cases[i].n);
        const stoke_data_params data = settling_plain(state);
        const stoke_train_params params = stoke_train_defaults();
        stk_setup setup = settling_make(&data, &params);
        assert_int_equal(setup.classes, cases[i].classes);
        assert_int_equal(setup.train.classes, cases[i].classes);
        assert_int_equal(setup.net.classes, cases[i].classes);
        assert_string_equal(setup.train.label_map, cases[i].map);
        assert_string_equal(setup.val.label_map, cases[i].map);
        settling_said(cases[i].sentence);
        stk_setup_free(&setup);
    }
}

static void senseless_masks_are_refused(void **state)
{
    static const uint16_t zero[] = { 0 }, none[] = { 255 }, objects[] = { 0, 1, 400 };
    const stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    uint16_t many[256], heights[1024];
    settling_write(state, 6, zero, 1);
    settling_refused(&data, &params, STOKE_E_LABEL, "nothing but 0");
    settling_write(state, 6, none, 1);
    settling_refused(&data, &params, STOKE_E_LABEL,
                     "nothing but 255, which stands for pixels without a class");
    settling_write(state, 6, objects, 3);
    stk_setup setup = settling_make(&data, &params);
    settling_said("classes 0 to 2");
    stk_setup_free(&setup);
    for (uint32_t i = 0; i < 32; i++) many[i] = (uint16_t)(i * 7);
    settling_write(state, 6, many, 32); /* a row each: 32 is all a mask of 32 rows has */
    setup = settling_make(&data, &params);
    assert_int_equal(setup.classes, 32);
    stk_setup_free(&setup);
    /* more than that, in its own mask */
    for (uint32_t i = 0; i < 1024; i++) heights[i] = (uint16_t)(i * 40);
    const stoke_image mask = { heights, 64, 32, 32, 1, 2 };
    assert_int_equal(stoke_image_write_png(unit_path(state, "masks/v3.png"), &mask, NULL), 0);
    settling_refused(&data, &params, STOKE_E_LABEL, "too many and too far apart");
    for (uint32_t i = 0; i < 1024; i++) heights[i] = (uint16_t)(i * 3 / 4);
    assert_int_equal(stoke_image_write_png(unit_path(state, "masks/v3.png"), &mask, NULL), 0);
    settling_refused(&data, &params, STOKE_E_LABEL, "values up to 767: if these are classes");
}

/* What is given is not asked of the masks, but 0 and 255 with two classes is a slip. */
static void given_classes_stand(void **state)
{
    static const uint16_t binary[] = { 0, 255 }, three[] = { 0, 1, 2 };
    stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    settling_write(state, 6, three, 3);
    data.classes = 7;
    stk_setup setup = settling_make(&data, &params);
    assert_int_equal(setup.classes, 7);
    assert_string_equal(setup.train.label_map, "identity");
    stk_setup_free(&setup);
    settling_write(state, 6, binary, 2);
    data.classes = 2;
    setup = settling_make(&data, &params);
    assert_string_equal(setup.train.label_map, "0:0,255:1");
    settling_said("if 255 means no class here");
    stk_setup_free(&setup);
    data.label_map = "0:0,255:ignore";
    setup = settling_make(&data, &params);
    assert_string_equal(setup.train.label_map, "0:0,255:ignore");
    stk_setup_free(&setup);
    /* one logit: the masks have two values all the same */
    data.label_map = "identity";
    data.classes = 1;
    setup = settling_make(&data, &params);
    assert_int_equal(setup.classes, 1);
    assert_int_equal(setup.net.classes, 1);
    assert_int_equal(setup.train.classes, 2);
    assert_string_equal(setup.train.label_map, "0:0,255:1");
    stk_setup_free(&setup);
    stoke_train_params weighted = params;
    weighted.class_weights = "balanced";
    settling_refused(&data, &weighted, STOKE_E_INVALID, "with `classes` 1 there is nothing to weigh");
}

/* More than validation counts: said before anything is read, not at the first evaluation. */
static void too_many_classes_to_validate(void **state)
{
    static const uint16_t three[] = { 0, 1, 2 };
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    settling_write(state, 6, three, 3);
    data.classes = STOKE_CONFUSION_CLASSES + 1;
    settling_refused(&data, &params, STOKE_E_LIMIT, "4097 classes");
    assert_int_equal(settling_ears.calls, 0);
    params.eval_every = 0;
    stk_setup setup = settling_make(&data, &params);
    assert_int_equal(setup.classes, STOKE_CONFUSION_CLASSES + 1);
    stk_setup_free(&setup);
    data.classes = STOKE_CONFUSION_CLASSES;
    params.eval_every = -1;
    setup = settling_make(&data, &params);
    stk_setup_free(&setup);
}

static void write_colored(void **state, const char *path)
{
    uint8_t rgb[32 * 32 * 3];
    for (uint32_t i = 0; i < 32 * 32; i++) {
        rgb[3 * i] = i < 512 ? 128 : 0;
        rgb[3 * i + 1] = 64;
        rgb[3 * i + 2] = i < 512 ? 7 : 200;
    }
    const stoke_image image = { rgb, 96, 32, 32, 3, 1 };
    assert_int_equal(stoke_image_write_png(unit_path(state, path), &image, NULL), 0);
}

static void colors_need_a_file(void **state)
{
    static const uint16_t values[] = { 0, 1 };
    stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    settling_write(state, 6, values, 2);
    write_colored(state, "masks/v2.png"); /* one is enough */
    settling_refused(&data, &params, STOKE_E_LABEL, "is a colour picture");
    settling_refused(&data, &params, STOKE_E_LABEL, "Colours of this mask: 128 64 7; 0 64 200");
    static const char file[] = "128 64 7 road\n0 64 200 lake\n1 2 3 ignore\n9 9 9\n";
    unit_write(unit_path(state, "colors.txt"), file, strlen(file));
    char path[4096];
    snprintf(path, sizeof path, "%s", unit_path(state, "colors.txt"));
    data.label_map = path;
    stk_setup setup = settling_make(&data, &params);
    memset(path, 'x', 8);               /* the setup has its own */
    assert_int_equal(setup.classes, 4); /* the fourth line is class 3 */
    assert_string_equal(setup.class_names[0], "road");
    assert_string_equal(setup.class_names[1], "lake");
    assert_null(setup.class_names[3]);
    assert_ptr_equal(setup.net.class_names, setup.class_names);
    settling_said("4 classes, from `label_map`");
    stk_setup_free(&setup);
}

static void jpeg_masks_are_refused(void **state)
{
    static const uint16_t values[] = { 0, 1 };
    uint8_t noise[32 * 32];
    const stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    settling_write(state, 6, values, 2);
    for (uint32_t i = 0; i < sizeof noise; i++) noise[i] = i / 3 % 5 ? 0 : 90;
    const stoke_image mask = { noise, 32, 32, 32, 1, 1 };
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "masks/v%d.png", i);
        unlink(unit_path(state, name));
        snprintf(name, sizeof name, "masks/v%d.jpg", i);
        assert_int_equal(stoke_image_write_jpeg(unit_path(state, name), &mask, 80, NULL), 0);
    }
    settling_refused(&data, &params, STOKE_E_LABEL, "masks are JPEG files");
}

static void bad_masks_are_the_loaders(void **state)
{
    const stoke_train_params params = stoke_train_defaults();
    const stoke_data_params data = settling_plain(state);
    pairs_write(state, 12, 40, 40);
    unit_write(unit_path(state, "masks/s1.png"), "no picture", 10);
    stk_setup setup = settling_make(&data, &params);
    assert_int_equal(setup.classes, PAIRS_CLASSES);
    settling_said("1 of 12 masks cannot be used, the first: ");
    settling_said("masks/s1.png: not a JPEG, PNG, WebP or TIFF file");
    stk_setup_free(&setup);
    for (int i = 0; i < 12; i++) {
        char name[32];
        snprintf(name, sizeof name, "masks/s%d.png", i);
        unit_write(unit_path(state, name), "no picture", 10);
    }
    settling_refused(&data, &params, STOKE_E_FORMAT, "no mask can be read. The first: ");
}

/* ---- weights ---- */

static void class_weights(void **state)
{
    static const uint16_t values[] = { 0, 0, 0, 1 };
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    settling_write(state, 6, values, 4); /* 3/4 of class 0 */
    params.class_weights = "balanced";
    stk_setup setup = settling_make(&data, &params);
    assert_string_equal(setup.params.class_weights, "0.666667,2");
    assert_true(setup.class_weights[0] == 0.666667f && setup.class_weights[1] == 2);
    assert_ptr_equal(setup.net.loss.class_weights, setup.class_weights);
    settling_said("from 0.667 to 2");
    stk_setup_free(&setup);
    data.classes = 3; /* the third never occurs */
    setup = settling_make(&data, &params);
    assert_string_equal(setup.params.class_weights, "0.666667,2,1");
    stk_setup_free(&setup);
    params.class_weights = "1, 2.5 ,0";
    setup = settling_make(&data, &params);
    assert_true(setup.class_weights[0] == 1 && setup.class_weights[1] == 2.5f && setup.class_weights[2] == 0);
    stk_setup_free(&setup);
    params.class_weights = "none";
    setup = settling_make(&data, &params);
    assert_null(setup.class_weights);
    assert_null(setup.net.loss.class_weights);
    stk_setup_free(&setup);
    static const struct {
        const char *text, *message;
    } wrong[] = {
        { "1,2", "has 2 numbers, and there are 3 classes" },
        { "1,2,3,4", "has 4 numbers" },
        { "1,,3", "neither none nor balanced" },
        { "1,-2,3", "neither none nor balanced" },
        { "balance", "neither none nor balanced" },
        { "0,0,0", "are all 0" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        params.class_weights = wrong[i].text;
        settling_refused(&data, &params, STOKE_E_INVALID, wrong[i].message);
    }
}

/* Through a label map, and never without bounds. */
static void weights_are_bounded(void **state)
{
    uint16_t values[32] = { 0 };
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    settling_write(state, 40, values, 32);
    uint8_t ids[32 * 32] = { 255, 255 }; /* two pixels of 40 x 1024 */
    const stoke_image mask = { ids, 32, 32, 32, 1, 1 };
    data.val_split = 0.01; /* a hash that keeps all for training is as good */
    params.eval_every = 0;
    assert_int_equal(stoke_image_write_png(unit_path(state, "masks/v7.png"), &mask, NULL), 0);
    params.class_weights = "balanced";
    stk_setup setup = settling_make(&data, &params);
    assert_string_equal(setup.train.label_map, "0:0,255:1");
    assert_true(setup.class_weights[1] == 50);
    stk_setup_free(&setup);
}

UNIT_GROUP(setup_classes)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(classes_from_values),       unit_test_with_folder(senseless_masks_are_refused),
        unit_test_with_folder(given_classes_stand),       unit_test_with_folder(too_many_classes_to_validate),
        unit_test_with_folder(colors_need_a_file),        unit_test_with_folder(jpeg_masks_are_refused),
        unit_test_with_folder(bad_masks_are_the_loaders), unit_test_with_folder(class_weights),
        unit_test_with_folder(weights_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
