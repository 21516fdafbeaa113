/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of training: its choices are the enums', its names collide with none of the data path's, every
 * field is in it, and what it writes it reads back.
 */
#include "tests/unit/unit.h"

#include <stoke/tools/tools.h>

#include "src/base/option_table.h"

static const stoke_option *find(const stoke_option_group *group, const char *name)
{
    for (size_t i = 0; i < group->count; i++)
        if (!strcmp(group->options[i].name, name)) return &group->options[i];
    fail_msg("no option %s", name);
    return NULL;
}

static void choices_are_the_enums(void **state)
{
    static const struct {
        const char *name, *choice;
        int value;
    } cases[] = {
        { "precision", "fp32", STOKE_PRECISION_FP32 },
        { "precision", "bf16", STOKE_PRECISION_BF16 },
        { "precision", "fp16", STOKE_PRECISION_FP16 },
        { "precision", "auto", STOKE_PRECISION_AUTO },
        { "memory", "plain", STOKE_MEMORY_PLAIN },
        { "memory", "lean", STOKE_MEMORY_LEAN },
        { "memory", "min", STOKE_MEMORY_MIN },
        { "loss", "ce", STOKE_LOSS_CE },
        { "loss", "dice", STOKE_LOSS_DICE },
        { "loss", "ce_dice", STOKE_LOSS_CE_DICE },
        { "loss", "focal", STOKE_LOSS_FOCAL },
        { "loss", "l1", STOKE_LOSS_L1 },
        { "loss", "charbonnier", STOKE_LOSS_CHARBONNIER },
        { "loss", "mse", STOKE_LOSS_MSE },
        { "loss", "auto", STOKE_TRAIN_LOSS_AUTO },
        { "loss_mean", "batches", STOKE_LOSS_MEAN_BATCHES },
        { "loss_mean", "pixels", STOKE_LOSS_MEAN_PIXELS },
        { "optimizer", "adamw", STOKE_OPTIMIZER_ADAMW },
        { "optimizer", "sgd", STOKE_OPTIMIZER_SGD },
        { "schedule", "poly", STOKE_SCHEDULE_POLY },
        { "schedule", "cosine", STOKE_SCHEDULE_COSINE },
        { "schedule", "constant", STOKE_SCHEDULE_CONSTANT },
        { "metric", "miou", STOKE_METRIC_MIOU },
        { "metric", "f1", STOKE_METRIC_F1 },
        { "metric", "accuracy", STOKE_METRIC_ACCURACY },
        { "metric", "psnr", STOKE_METRIC_PSNR },
        { "metric", "ssim", STOKE_METRIC_SSIM },
        { "metric", "loss", STOKE_METRIC_LOSS },
    };
    stoke_train_params p = stoke_train_defaults();
    stoke_option_group group = stoke_train_options(&p);
    stoke_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int *field = (const int *)((const char *)&p + find(&group, cases[i].name)->offset);
        if (stoke_options_set(&group, 1, cases[i].name, cases[i].choice, &err)) fail_msg("%s", err.message);
        if (*field != cases[i].value) fail_msg("%s %s", cases[i].name, cases[i].choice);
    }
}

static void names_are_its_own(void **state)
{
    stoke_train_params train;
    stoke_data_params data;
    const stoke_option_group a = stoke_train_options(&train), b = stoke_data_options(&data);
    for (size_t i = 0; i < a.count; i++) {
        for (size_t j = 0; j < b.count; j++) assert_string_not_equal(a.options[i].name, b.options[j].name);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(a.options[i].name, a.options[j].name);
    }
}

static size_t field_bytes(stoke_option_type type)
{
    return type == STOKE_OPT_FLAG || type == STOKE_OPT_CHOICE ? sizeof(int) : 8;
}

/* Fields that no option fills would never be set by anyone: only struct_size and padding are left. */
static void every_field_is_in_it(void **state)
{
    stoke_train_params p;
    const stoke_option_group group = stoke_train_options(&p);
    unsigned char covered[sizeof p] = { 0 };
    memset(covered, 1, sizeof p.struct_size);
    for (size_t i = 0; i < group.count; i++) {
        const size_t bytes = field_bytes(group.options[i].type);
        for (size_t b = 0; b < bytes; b++) {
            assert_int_equal(covered[group.options[i].offset + b], 0); /* no two share a field */
            covered[group.options[i].offset + b] = 1;
        }
    }
    size_t gap = 0;
    for (size_t i = 0; i < sizeof p; i++) {
        gap = covered[i] ? 0 : gap + 1;
        if (gap >= 8 || (gap == 4 && (i + 1) % 8)) fail_msg("nothing fills byte %zu", i);
    }
}

static void defaults_are_allowed(void **state)
{
    stoke_train_params p = stoke_train_defaults();
    const stoke_option_group group = stoke_train_options(&p);
    stoke_error err = { 0 };
    if (stk_options_check(&group, &err)) fail_msg("%s", err.message);
    for (size_t i = 0; i < group.count; i++) {
        const stoke_option *o = &group.options[i];
        stk_option_value value;
        if (o->default_text &&
            stk_option_assign((stk_option_hit){ o, &value }, o->name, o->default_text, &err))
            fail_msg("%s", err.message);
        assert_non_null(o->help);
        assert_int_not_equal(o->help[strlen(o->help) - 1], '.');
    }
    assert_int_equal(p.epochs, 50);
    assert_int_equal(p.precision, STOKE_PRECISION_AUTO);
    assert_int_equal(p.eval_every, -1);
    assert_true(p.lr == 0 && p.head_lr == 0);
    assert_null(p.model);
    assert_string_equal(p.class_weights, "none");
    assert_true(p.pictures && p.tensorboard && !p.force);
}

static void load(void **state, const char *text, stoke_data_params *data, stoke_train_params *train,
                 stoke_option_storage **storage)
{
    const char *path = unit_path(state, "train.yaml");
    stoke_error err;
    *data = stoke_data_defaults();
    *train = stoke_train_defaults();
    const stoke_option_group groups[] = { stoke_data_options(data), stoke_train_options(train) };
    unit_write(path, text, strlen(text));
    if (stoke_settings_load_yaml(groups, 2, data, path, storage, &err)) fail_msg("%s", err.message);
}

/* Flat, in sections, with lists: one file for data and training. */
static void one_file_for_both(void **state)
{
    static const char *const texts[] = {
        "size: 64\nbatch: auto\nmodel: b1\nepochs: 7\nclass_weights: 1,2.5,1\naugment: hflip(p=1)\n",
        "data:\n  size: 64\nloader: {batch: auto}\nmodel:\n  model: b1\ntrain:\n  epochs: 7\n"
        "  class_weights: [1, 2.5, 1]\naugment:\n  - hflip: {p: 1}\n",
        "data: {size: 64, batch: auto, augment: [hflip: {p: 1}]}\ntraining: {model: b1, epochs: 7, "
        "class-weights: [1, 2.5, 1]}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        stoke_data_params data;
        stoke_train_params train;
        stoke_option_storage *storage;
        load(state, texts[i], &data, &train, &storage);
        assert_int_equal(data.size[1], 64);
        assert_int_equal(data.batch, -1);
        assert_string_equal(data.augment, "hflip(p=1)");
        assert_string_equal(train.model, "b1");
        assert_int_equal(train.epochs, 7);
        assert_string_equal(train.class_weights, "1,2.5,1");
        stoke_options_free_storage(&storage);
    }
}

static void mistakes_name_the_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "epochs: 3\nlearning: 4\n", "t.yaml:2: unknown setting 'learning'" },
        { "train:\n  epochs: many\n", "t.yaml:2: epochs: 'many' is not a whole number" },
        { "train:\n  epochs: 3\nepochs: 4\n", "t.yaml:3: epochs is given twice" },
        { "epochs: [3]\n", "t.yaml:1: epochs: one value is expected" },
        { "class_weights: [1, [2]]\n", "t.yaml:1: class_weights: a list of plain values is expected" },
        { "class_weights: [1, '2,3']\n", "t.yaml:1: class_weights: a value of the list is more than one" },
        { "class_weights: [1, ~]\n", "t.yaml:1: class_weights: a value of the list is missing" },
        { "schedule: linear\n", "t.yaml:1: schedule: 'linear' is not one of poly, cosine or constant" },
        { "epochs: 3\naugment:\n  - roate\n", "t.yaml:3: no op or preset is called \"roate\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_data_params data = stoke_data_defaults();
        stoke_train_params train = stoke_train_defaults();
        const stoke_option_group groups[] = { stoke_data_options(&data), stoke_train_options(&train) };
        stoke_option_storage *storage;
        stoke_error err = { 0 };
        unit_write(unit_path(state, "t.yaml"), cases[i].text, strlen(cases[i].text));
        assert_int_not_equal(
            stoke_settings_load_yaml(groups, 2, &data, unit_path(state, "t.yaml"), &storage, &err), 0);
        assert_null(storage);
        if (!strstr(err.message, cases[i].message))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].message, err.message);
    }
    /* A list that would not fit is refused, not cut. */
    char *text = malloc(40000);
    strcpy(text, "class_weights: [1");
    while (strlen(text) < 39000) strcat(text, ", 1.25");
    strcat(text, "]\n");
    stoke_data_params data = stoke_data_defaults();
    stoke_train_params train = stoke_train_defaults();
    const stoke_option_group groups[] = { stoke_data_options(&data), stoke_train_options(&train) };
    stoke_option_storage *storage;
    unit_write(unit_path(state, "t.yaml"), text, strlen(text));
    assert_int_equal(stoke_settings_load_yaml(groups, 2, &data, unit_path(state, "t.yaml"), &storage, NULL),
                     STOKE_E_LIMIT);
    free(text);
}

/* A file of ops may be the file of the whole experiment. */
static void file_of_ops_may_hold_training(void **state)
{
    static const char text[] = "train:\n  lr: 0.1\nepochs: 3\naugment:\n  - hflip: {p: 1}\n";
    stoke_pipeline *pipeline;
    stoke_error err;
    unit_write(unit_path(state, "whole.yaml"), text, strlen(text));
    if (stoke_pipeline_create(&pipeline, unit_path(state, "whole.yaml"), &err)) fail_msg("%s", err.message);
    assert_string_equal(stoke_pipeline_text(pipeline), "hflip(p=1)");
    stoke_pipeline_destroy(&pipeline);
}

UNIT_GROUP(train_options)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_the_enums),
        cmocka_unit_test(names_are_its_own),
        cmocka_unit_test(every_field_is_in_it),
        cmocka_unit_test(defaults_are_allowed),
        unit_test_with_folder(one_file_for_both),
        unit_test_with_folder(mistakes_name_the_line),
        unit_test_with_folder(file_of_ops_may_hold_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
