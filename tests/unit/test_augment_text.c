/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines as text: lists, presets, YAML files, what is wrong with them and where.
 */
#include "tests/unit/fixture_augment.h"

#include "src/augment/pipeline.h"
#include <stoke/data.h>
#include <stoke/tools/augment.h>

/* The pipeline's own text makes the same pipeline: same text, same plans. */
static void assert_round_trip(const char *spec)
{
    stoke_pipeline *first = make(spec), *second = make(stoke_pipeline_text(first));
    assert_string_equal(stoke_pipeline_text(second), stoke_pipeline_text(first));
    for (uint64_t i = 0; i < 50; i++) {
        const stoke_augment_plan a = plan_of(first, i, 300, 200, 64, 64),
                                 b = plan_of(second, i, 300, 200, 64, 64);
        assert_memory_equal(&a, &b, sizeof a);
    }
    stoke_pipeline_destroy(&first);
    stoke_pipeline_destroy(&second);
}

static void texts_read_back(void **state)
{
    static const char *const specs[] = {
        "random_crop,hflip(p=0.3),rotate(degrees=-10..10)",
        "hflip(p=0.1,swap=2-3,4-5,7-8),vflip",
        "rotate(degrees=5..20),rotate(degrees=-20..-5),rotate(degrees=3..3),rotate(degrees=0)",
        "scale(factor=0.33333333333333331..1.1000000000000001)",
        "foreground_crop(background=)",
        "foreground_crop(background=0,1,255)",
        "erasing(value=1,2,3,mask=ignore),normalize(mean=0,std=1)",
        "erasing(value=1, 2 ,3),normalize(mean=0.5, 0.5, 0.5,std= 1 )",
        "hflip(swap=2-3, 4-5),foreground_crop(background=0, 255)",
        "standard,mixup,cutmix",
        "none",
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) assert_round_trip(specs[i]);
    stoke_op_info op;
    for (size_t i = 0; stoke_op_at(i, &op); i++) assert_round_trip(op.name);
    stoke_preset_info preset;
    for (size_t i = 0; stoke_preset_at(i, &preset); i++) assert_round_trip(preset.name);
}

static void texts_are_short(void **state)
{
    static const struct {
        const char *spec, *text;
    } cases[] = {
        { "random_crop,hflip(p=0.3),rotate(degrees=-10..10)",
          "random_crop,hflip(p=0.3),rotate(p=0.5,degrees=10)" },
        { " random_crop , hflip( p = 0.3 , swap = 2-3,4-5 ) ", "random_crop,hflip(p=0.3,swap=2-3,4-5)" },
        { "rotate(degrees=5,10)", "rotate(p=0.5,degrees=5..10)" },
        { "rotate(degrees=5)", "rotate(p=0.5,degrees=5)" },
        { "scale(factor=2)", "scale(p=0.5,factor=2)" },
        { "hflip()", "hflip(p=0.5)" },
        { "light,vflip(p=1)", "hflip(p=0.5),vflip(p=1)" },
        { "none,hflip", "hflip(p=0.5)" },
        { "random_resized_crop", "random_resized_crop(scale=0.08..1,ratio=0.75..1.3333)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_pipeline *pipeline = make(cases[i].spec);
        assert_string_equal(stoke_pipeline_text(pipeline), cases[i].text);
        stoke_pipeline_destroy(&pipeline);
    }
}

/* The usual chain, as it is described, to the letter. */
static void standard_is_what_was_asked_for(void **state)
{
    stoke_pipeline *pipeline = make("standard");
    assert_string_equal(
        stoke_pipeline_text(pipeline),
        "hflip(p=0.5),rotate(p=0.6,degrees=20),scale(p=0.6,factor=0.8..1.2),"
        "color_jitter(p=0.5,brightness=0.3,contrast=0.2,saturation=0.2,hue=0.1),"
        "gaussian_blur(p=0.3,kernel=3,sigma=0.1..2),gaussian_noise(p=0.3,mean=0,std=0.03,gray=false)");
    stoke_pipeline_destroy(&pipeline);
}

static void assert_refused(const char *spec, const char *expected, int code)
{
    stoke_pipeline *pipeline;
    stoke_error err = { 0 };
    const int r = stoke_pipeline_create(&pipeline, spec, &err);
    if (!r || !strstr(err.message, expected))
        fail_msg("%s: %d \"%s\", not \"%s\"", spec, r, err.message, expected);
    if (code) assert_int_equal(r, code);
    assert_null(pipeline);
    assert_int_equal(stoke_pipeline_create(&pipeline, spec, NULL),
                     r); /* a caller who does not want to know why */
}

static void wrong_lists_are_refused(void **state)
{
    static const struct {
        const char *spec, *expected;
        int code;
    } cases[] = {
        { "ligth", "augment: no op or preset is called \"ligth\": did you mean light?", STOKE_E_NOTFOUND },
        { "hflip,spin", "no op or preset is called \"spin\"; there are the ops hflip, vflip",
          STOKE_E_NOTFOUND },
        { "spin", "mixup, cutmix, and the presets none, light, crop, standard, strong", STOKE_E_NOTFOUND },
        { "rotate,strongg", "no op or preset is called \"strongg\": did you mean strong?", STOKE_E_NOTFOUND },
        { "roate(p=1)", "\"roate\": did you mean rotate?", STOKE_E_NOTFOUND },
        { "hflip(p=2)", "hflip: p: '2' is out of range (0 to 1)", STOKE_E_INVALID },
        { "hflip(q=1)", "hflip: unknown setting 'q'", STOKE_E_NOTFOUND },
        { "rotate(angle=1)", "rotate: unknown setting 'angle': it has p, degrees", STOKE_E_NOTFOUND },
        { "rotate(degree=1)", "rotate: unknown setting 'degree': did you mean degrees?", STOKE_E_NOTFOUND },
        { "random_crop(size=1)", "random_crop: unknown setting 'size': it has none", STOKE_E_NOTFOUND },
        { "hflip(p=0.5,p=1)", "hflip: p is set twice", STOKE_E_INVALID },
        { "hflip(p=1", "not closed", STOKE_E_FORMAT },
        { "hflip(p)", "expected name=value at \"p)\"", STOKE_E_FORMAT },
        { "hflip(p=1))", "expected a comma at \")\"", STOKE_E_FORMAT },
        { "hflip,,vflip", "expected an op at \",vflip\"", STOKE_E_FORMAT },
        { "hflip,", "expected an op at \"the end\"", STOKE_E_FORMAT },
        { "standard(p=1)", "standard is a preset and takes no settings", STOKE_E_INVALID },
        { "hflip(swap=2-2)", "class 2 stands there twice", STOKE_E_INVALID },
        { "hflip(swap=2-3,4-3)", "class 3 stands there twice", STOKE_E_INVALID },
        { "hflip(swap=2-65536)", "'65536' is not a class id from 0 to 65535", STOKE_E_INVALID },
        { "hflip(swap=2)", "'2' is not a pair of classes", STOKE_E_INVALID },
        { "hflip(swap=2-3, ,4-5)", "'' is not a pair of classes", STOKE_E_INVALID },
        { "normalize(mean=1 2)", "'1 2' is not a number", STOKE_E_INVALID },
        { "hflip(swap=2-3-4)", "'3-4' is not a class id", STOKE_E_INVALID },
        { "hflip(swap=2-3),hflip(swap=4-5)", "an op before sets swap to other pairs", STOKE_E_INVALID },
        { "hflip(swap=2-3,4-5),hflip(swap=2-3)", "an op before sets swap to other pairs", STOKE_E_INVALID },
        { "foreground_crop(background=a)", "'a' is not a class id", STOKE_E_INVALID },
        { "rotate(degrees=10..-10)", "ends before it begins", STOKE_E_INVALID },
        { "rotate(degrees=-10)", "ends before it begins", STOKE_E_INVALID },
        { "rotate(degrees=1..2..3)", "not a range such as", STOKE_E_INVALID },
        { "rotate(degrees=a)", "neither a number nor a range", STOKE_E_INVALID },
        { "scale(factor=0..1)", "out of range (0.05 to 20)", STOKE_E_INVALID },
        { "gaussian_blur(kernel=4)", "kernel: 4 is even", STOKE_E_INVALID },
        { "erasing(value=1,2)", "has 2 values, not 1 or 3", STOKE_E_INVALID },
        { "erasing(value=256)", "'256' is not a number from 0 to 255", STOKE_E_INVALID },
        { "erasing(mask=drop)", "not one of keep or ignore", STOKE_E_INVALID },
        { "normalize(std=0)", "'0' is not a number from 0.0001 to 1000", STOKE_E_INVALID },
        { "normalize,hflip", "hflip after normalize", STOKE_E_INVALID },
        { "normalize,normalize", "normalize after normalize", STOKE_E_INVALID },
        { "random_crop,hflip,center_crop", "random_crop and center_crop: only one op", STOKE_E_INVALID },
        { "crop,random_resized_crop", "random_crop and random_resized_crop: only one op", STOKE_E_INVALID },
        { "elastic,elastic", "elastic stands there twice", STOKE_E_INVALID },
        { "no/such/file.yaml", "no/such/file.yaml", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].spec, cases[i].expected, cases[i].code);
}

/* Repeats an op with commas in between. */
static const char *repeat(const char *op, int times, char *text, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < times; i++) n += (size_t)snprintf(text + n, size - n, "%s%s", i ? "," : "", op);
    return text;
}

static void limits_are_kept_at_creation(void **state)
{
    char spec[4096], more[8192];
    stoke_pipeline *pipeline = make(repeat("color_jitter(p=1)", 8, spec, sizeof spec));
    const stoke_augment_plan plan = plan_of(pipeline, 1, 64, 64, 64, 64);
    assert_int_equal(plan.n_color_steps, STOKE_PLAN_COLOR_STEPS);
    stoke_pipeline_destroy(&pipeline);
    snprintf(more, sizeof more, "%s,gamma", spec);
    assert_refused(more, "gamma: the pipeline may change one sample's colours in more than 32 steps",
                   STOKE_E_LIMIT);
    pipeline = make(repeat("rotate", STK_PIPELINE_OPS, spec, sizeof spec));
    stoke_pipeline_destroy(&pipeline);
    assert_refused(repeat("rotate", STK_PIPELINE_OPS + 1, spec, sizeof spec), "more than 32 ops",
                   STOKE_E_LIMIT);
    pipeline = make(repeat("gaussian_blur(kernel=31)", 4, spec, sizeof spec));
    stoke_pipeline_destroy(&pipeline);
    assert_refused(repeat("gaussian_blur(kernel=31)", 5, spec, sizeof spec), "more than 124 rows",
                   STOKE_E_LIMIT);
    /* Text settings have a common store. */
    char pairs[1000];
    repeat("1-2", 240, pairs, sizeof pairs);
    snprintf(more, sizeof more, "hflip(swap=%s)", pairs);
    assert_refused(more, "stands there twice", STOKE_E_INVALID);
    memset(more, '1', sizeof more);
    memcpy(more, "hflip(swap=", 11);
    strcpy(more + sizeof more - 2, ")");
    assert_refused(more, "a value is too long", STOKE_E_LIMIT);
    memset(more, 'x', 100);
    more[100] = 0;
    assert_refused(more, "an op's name is too long", STOKE_E_LIMIT);
    strcpy(more + 100, "(p=1)");
    assert_refused(more, "an op's name is too long", STOKE_E_LIMIT);
}

/* The largest pipeline there can be fits its text. */
static void the_longest_text_fits(void **state)
{
    char spec[8192];
    repeat(
        "affine(degrees=-1.2345678901234567..1.2345678901234568,scale=1.2345678901234567..1.2345678901234569,"
        "shear=-1.2345678901234567..1.2345678901234569)",
        STK_PIPELINE_OPS, spec, sizeof spec);
    assert_round_trip(spec);
}

static void yaml_gives_order_and_settings(void **state)
{
    static const struct {
        const char *yaml, *text;
    } cases[] = {
        { "augment:\n  - center_crop\n  - hflip: {p: 1}\n", "center_crop,hflip(p=1)" },
        { "augment:\n  - rotate: {degrees: [-10, 10], p: 0.5}\n", "rotate(p=0.5,degrees=10)" },
        { "augment:\n  - rotate: {degrees: 5..7}\n", "rotate(p=0.5,degrees=5..7)" },
        { "augment:\n  - rotate:\n      degrees:\n        - 5\n        - 7\n", "rotate(p=0.5,degrees=5..7)" },
        { "augment:\n  - hflip: {swap: [2-3, 4-5]}\n", "hflip(p=0.5,swap=2-3,4-5)" },
        { "augment:\n  - normalize: {mean: [0.1, 0.2, 0.3], std: 1}\n", "normalize(mean=0.1,0.2,0.3,std=1)" },
        { "augment:\n  - light\n  - vflip: {}\n", "hflip(p=0.5),vflip(p=0.5)" },
        { "augment: []\n", "none" },
        { "augment:\n  - hflip: {swap: [[2, 3], [4, 5]]}\n", "hflip(p=0.5,swap=2-3,4-5)" },
        { "augment:\n  - hflip:\n      swap:\n      - [2, 3]\n      - 4-5\n", "hflip(p=0.5,swap=2-3,4-5)" },
        { "augment:\n  - hflip: {swap: \"2-3,4-5\"}\n", "hflip(p=0.5,swap=2-3,4-5)" },
        { "augment:\n  - hflip:\n  - vflip\n", "hflip(p=0.5),vflip(p=0.5)" },
        { "augment: light\n", "hflip(p=0.5)" },
        { "augment: \"center_crop,hflip(p=1)\"\n", "center_crop,hflip(p=1)" },
        /* One file for everything: other settings are passed over. */
        { "batch: 4\nsize: [1, {a: 2}]\naugment:\n  - hflip\nmemory-limit: 1G\n", "hflip(p=0.5)" },
        { "data:\n  data: here\n  augment:\n    - hflip\nloader: {batch: 3}\n", "hflip(p=0.5)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unit_write(unit_path(state, "p.yaml"), cases[i].yaml, strlen(cases[i].yaml));
        stoke_pipeline *pipeline = make(unit_path(state, "p.yaml"));
        assert_string_equal(stoke_pipeline_text(pipeline), cases[i].text);
        stoke_pipeline_destroy(&pipeline);
        assert_round_trip(unit_path(state, "p.yaml"));
    }
}

static void yaml_errors_have_lines(void **state)
{
    static const struct {
        const char *yaml, *expected;
    } cases[] = {
        { "augment:\n  - hflip\n  - spin\n", "p.yaml:3: no op or preset is called \"spin\"" },
        { "augment:\n  - hflip: {p: 2}\n", "p.yaml:2: hflip: p: '2' is out of range" },
        { "augment:\n  - hflip: {q: 1}\n", "p.yaml:2: hflip: unknown setting" },
        { "augment:\n  - hflip: 3\n", "p.yaml:2: expected the op's settings" },
        { "augment:\n  - hflip:\n      p: 1\n      swap: 2-2\n", "p.yaml:2: hflip: swap: class 2" },
        { "augment:\n  - rotate:\n      p: 1\n      degrees: [3, 1]\n", "p.yaml:4: rotate: degrees: '3,1'" },
        { "augment:\n  - rotate:\n      degrees: [3, [1]]\n", "p.yaml:3: expected a plain value, a list" },
        { "augment:\n  - rotate: {degrees: {low: 1}}\n", "p.yaml:2: expected a plain value or a list" },
        { "augment:\n  - rotate: {p: 1,\n      p: 0}\n", "p.yaml:3: rotate: p is set twice" },
        { "augment:\n  - random_crop\n  - hflip\n  - center_crop\n",
          "p.yaml:4: random_crop and center_crop" },
        { "augment:\n  - crop\n  - random_resized_crop: {scale: 0.5..1}\n",
          "p.yaml:3: random_crop and random_resized_crop" },
        { "augment:\n  - standard: {p: 1}\n", "p.yaml:2: standard is a preset and takes no settings" },
        { "augment:\n  - normalize\n  - hflip\n", "p.yaml:3: hflip after normalize" },
        { "- hflip\n", "p.yaml:1: expected \"augment:\"" },
        { "colours:\n  - hflip\n", "p.yaml:1: unknown setting 'colours'" },
        { "batch: 3\naugmnet:\n  - hflip\n", "p.yaml:2: unknown setting 'augmnet': did you mean augment?" },
        { "batch: 3\n", "p.yaml: no key \"augment\"" },
        { "augment:\n", "p.yaml:1: expected a list of ops or the name of a preset" },
        { "augment: {hflip: {p: 1}}\n", "p.yaml:1: expected a list of ops: each begins with" },
        { "augment: other.yaml\n", "p.yaml:1: a file of ops cannot name another file" },
        { "batch: 2\naugment: hflip,spin\n", "p.yaml:2: no op or preset is called \"spin\"" },
        { "augment: none\nbatch: 3\naugment: none\n", "p.yaml:3: augment is given twice" },
        { "data:\n  data:\n    augment: none\n", "p.yaml: no key" },
        { "augment:\n  - hflip:\n    p: 0.5\n", "p.yaml:3: indent \"p\" deeper than the name of the op" },
        { "augment:\n  - hflip: {p: 1}\n    vflip: {p: 1}\n", "p.yaml:3: one op per list item" },
        { "augment:\n  - hflip: {swap: 2-3,4-5}\n",
          "p.yaml:2: a value with commas is written in brackets or quotes" },
        { "augment:\n  - hflip: {swap: [[2, 3, 4]]}\n", "p.yaml:2: a pair has two values" },
        { "augment:\n  - hflip: {swap: [[2, [3]]]}\n", "p.yaml:2: expected a plain value, a list" },
        { "augment:\n  - hflip\n   - vflip\n",
          "p.yaml:2: this item and the next do not begin in the same column" },
        { "augment:\n  - hflip\n - vflip\n", "p.yaml:3: not valid YAML: did not find expected" },
        { "augment:\n  - hflip\n - vflip\n", "begin in the same column" },
        { "augment:\n\t- hflip\n",
          "p.yaml:2: not valid YAML: found character that cannot start any token; indent with blanks" },
        { "augment: &a\n  - *a\n", "p.yaml:2: aliases" },
        { "augment: [hflip\n", "p.yaml:2: " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unit_write(unit_path(state, "p.yaml"), cases[i].yaml, strlen(cases[i].yaml));
        assert_refused(unit_path(state, "p.yaml"), cases[i].expected, 0);
    }
    char yaml[2048];
    memset(yaml, '1', sizeof yaml);
    memcpy(yaml, "augment:\n  - hflip: {swap: ", 27);
    strcpy(yaml + sizeof yaml - 2, "}");
    unit_write(unit_path(state, "p.yaml"), yaml, strlen(yaml));
    assert_refused(unit_path(state, "p.yaml"), "p.yaml:2: this value is too long", STOKE_E_LIMIT);
}

/* stoke.yaml with a list of ops in it: the rest is read by the option table, the list becomes one line. */
static void settings_may_hold_the_list(void **state)
{
    static const struct {
        const char *yaml, *augment;
    } cases[] = {
        { "batch: 4\naugment:\n  - center_crop\n  - hflip: {p: 1}\nseed: 7\n", "center_crop,hflip(p=1)" },
        { "data: {batch: 4, augment: [light]}\nseed: 7\n", "hflip(p=0.5)" },
        { "batch: 4\naugment: []\nseed: 7\n", "none" },
        { "batch: 4\naugment: ~\nseed: 7\n", "none" },
        { "batch: 4\naugment: other.yaml\nseed: 7\n", "other.yaml" },
        { "batch: 4\naugment: light\nseed: 7\n", "light" },
    };
    stoke_option_storage *storage;
    stoke_error err = { 0 };
    const char *path = unit_path(state, "s.yaml");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_data_params params = stoke_data_defaults();
        unit_write(path, cases[i].yaml, strlen(cases[i].yaml));
        if (stoke_data_load_yaml(&params, path, &storage, &err)) fail_msg("%s", err.message);
        assert_string_equal(params.augment, cases[i].augment);
        assert_int_equal(params.batch, 4);
        assert_int_equal(params.seed, 7);
        stoke_options_free_storage(&storage);
    }
    static const struct {
        const char *yaml, *expected;
    } wrong[] = {
        { "batch: 4\naugment:\n  - hflip\n  - roate\n", "s.yaml:4: no op or preset is called \"roate\"" },
        { "batch: 4\naugment: {hflip: 1}\n", "s.yaml:2: augment: one value is expected" },
        { "batch: [4]\n", "s.yaml:1: batch: one value is expected" },
        { "augment: [hflip]\nbatch: 4\naugment: light\n", "s.yaml:3: augment is given twice" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        stoke_data_params params = stoke_data_defaults();
        unit_write(path, wrong[i].yaml, strlen(wrong[i].yaml));
        assert_int_not_equal(stoke_data_load_yaml(&params, path, &storage, &err), 0);
        if (!strstr(err.message, wrong[i].expected)) fail_msg("\"%s\"", err.message);
        assert_null(storage);
        assert_int_equal(params.batch, 8);
    }
    static const char *const nothing[] = { "", "# a comment\n", "--- ~\n", "{}\n" };
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        stoke_data_params params = stoke_data_defaults();
        unit_write(path, nothing[i], strlen(nothing[i]));
        assert_int_equal(stoke_data_load_yaml(&params, path, &storage, NULL), 0);
        stoke_options_free_storage(&storage);
    }
}

/* A name that is nearly one of ours, or one of another library. */
static void meant_names_are_found(void **state)
{
    static const struct {
        const char *typed, *meant; /* NULL: nothing is near */
    } cases[] = {
        { "roate", "rotate" },
        { "rotat", "rotate" },
        { "standrd", "standard" },
        { "HorizontalFlip", "hflip" },
        { "RandomHorizontalFlip", "hflip" },
        { "RandomVerticalFlip", "vflip" },
        { "RandomResizedCrop", "random_resized_crop" },
        { "RandomRotation", "rotate" },
        { "ColorJitter", "color_jitter" },
        { "CLAHE", "clahe" },
        { "GaussNoise", "gaussian_noise" },
        { "random-crop", "random_crop" },
        { "spin", NULL },
        { "", NULL },
        { "a_name_that_is_much_longer_than_any_name_of_an_op_can_be", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *meant = stoke_augment_nearest(cases[i].typed);
        if (!meant != !cases[i].meant || (meant && strcmp(meant, cases[i].meant) != 0))
            fail_msg("%s: %s", cases[i].typed, meant ? meant : "nothing");
    }
}

/* Tables are data: their defaults parse, their groups are the three, and every op and preset says what it is.
 */
static void the_tables_are_sound(void **state)
{
    stoke_op_info op;
    size_t n = 0;
    for (; stoke_op_at(n, &op); n++) {
        assert_true(op.name && op.summary && *op.summary && op.summary[strlen(op.summary) - 1] != '.');
        assert_true(!strcmp(op.group, "geometry") || !strcmp(op.group, "colour") || !strcmp(op.group, "mix"));
        double args[STK_OP_ARGS_BYTES / sizeof(double)];
        for (size_t k = 0; k < op.n_options; k++) {
            const stoke_option *option = &op.options[k];
            const stoke_option_group group = { op.name, option, 1, args };
            assert_true(option->offset < sizeof args && option->help && *option->help);
            if (option->default_text)
                assert_int_equal(stoke_options_set(&group, 1, option->name, option->default_text, NULL), 0);
        }
    }
#define STK_OP(name) +1
    const size_t ops = 0
#include "src/augment/ops.def"
        ;
#undef STK_OP
    assert_int_equal(n, ops);
    stoke_preset_info preset;
    for (n = 0; stoke_preset_at(n, &preset); n++) {
        assert_true(preset.name && *preset.summary && preset.list);
        stoke_pipeline *by_name = make(preset.name), *by_list = make(preset.list);
        assert_string_equal(stoke_pipeline_text(by_name), stoke_pipeline_text(by_list));
        stoke_pipeline_destroy(&by_name);
        stoke_pipeline_destroy(&by_list);
    }
    assert_int_equal(n, 7);
}

UNIT_GROUP(augment_text)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_read_back),
        cmocka_unit_test(texts_are_short),
        cmocka_unit_test(standard_is_what_was_asked_for),
        cmocka_unit_test(wrong_lists_are_refused),
        cmocka_unit_test(limits_are_kept_at_creation),
        cmocka_unit_test(the_longest_text_fits),
        unit_test_with_folder(yaml_gives_order_and_settings),
        unit_test_with_folder(yaml_errors_have_lines),
        unit_test_with_folder(settings_may_hold_the_list),
        cmocka_unit_test(meant_names_are_found),
        cmocka_unit_test(the_tables_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
