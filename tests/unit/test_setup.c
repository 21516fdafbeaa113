/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run settles from its data, and what it says about it; the settled run as YAML and as an identity.
 */
#include "tests/unit/pairs.h"

#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/train/setup.h"

/* What was said, and how often progress was heard of. */
typedef struct heard {
    char text[8192];
    unsigned calls;
    uint64_t done, total;
    int cancel;
} heard;

static void say(void *context, const char *sentence)
{
    heard *h = context;
    const size_t used = strlen(h->text);
    snprintf(h->text + used, sizeof h->text - used, "%s\n", sentence);
}

static int progress(void *context, uint64_t done, uint64_t total)
{
    heard *h = context;
    h->calls++;
    h->done = done;
    h->total = total;
    return h->cancel;
}

static heard ears;

/* Of the test's folder, everything chosen, but small. */
static stoke_data_params plain(void **state)
{
    stoke_data_params data = stoke_data_defaults();
    data.data = unit_folder(state);
    data.batch = -1;
    data.workers = 1;
    data.quarantine = "";
    return data;
}

static stk_setup make(const stoke_data_params *data, const stoke_train_params *params)
{
    stk_setup setup;
    stoke_error err = { 0 };
    ears = (heard){ 0 };
    if (stk_setup_make(&setup, data, params, say, progress, &ears, &err)) fail_msg("%s", err.message);
    return setup;
}

static void refused(const stoke_data_params *data, const stoke_train_params *params, int code,
                    const char *message)
{
    stk_setup setup;
    stoke_error err = { 0 };
    ears = (heard){ 0 };
    const int r = stk_setup_make(&setup, data, params, say, progress, &ears, &err);
    if (r != code || !strstr(err.message, message)) fail_msg("%d: %s", r, err.message);
    assert_null(setup.train_set);
    assert_null(setup.strings);
}

static void said(const char *part)
{
    if (!strstr(ears.text, part)) fail_msg("\"%s\" was not said, but:\n%s", part, ears.text);
}

static void not_said(const char *part)
{
    if (strstr(ears.text, part)) fail_msg("\"%s\" was said:\n%s", part, ears.text);
}

/* The same picture under several names. Copied: the library's writer waits for the disk each time. */
static void write_copies(void **state, const char *folder, const stoke_image *image, uint32_t count)
{
    char name[64];
    stk_buffer file = { 0 };
    size_t size;
    snprintf(name, sizeof name, "%s/v0.png", folder);
    assert_int_equal(stoke_image_write_png(unit_path(state, name), image, NULL), 0);
    assert_int_equal(stk_file_read(unit_path(state, name), 1 << 20, &file, &size, NULL), 0);
    for (uint32_t i = 1; i < count; i++) {
        snprintf(name, sizeof name, "%s/v%u.png", folder, i);
        unit_write(unit_path(state, name), file.data, size);
    }
    stk_buffer_free(&file);
}

/* `count` pictures of 32 x 32 whose masks have these values in stripes. */
static void write_values(void **state, uint32_t count, const uint16_t *values, uint32_t n)
{
    uint8_t rgb[32 * 32 * 3];
    uint16_t ids[32 * 32];
    int wide = 0;
    for (uint32_t i = 0; i < n; i++) wide |= values[i] > 255;
    for (uint32_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * 7);
    for (uint32_t i = 0; i < 32 * 32; i++)
        if (wide)
            ids[i] = values[i / 32 % n];
        else
            ((uint8_t *)ids)[i] = (uint8_t)values[i / 32 % n];
    const stoke_image image = { rgb, 96, 32, 32, 3, 1 };
    const stoke_image mask = { ids, wide ? 64 : 32, 32, 32, 1, wide ? 2 : 1 };
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    write_copies(state, "images", &image, count);
    write_copies(state, "masks", &mask, count);
}

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
        write_values(state, 6, cases[i].values, cases[i].n);
        const stoke_data_params data = plain(state);
        const stoke_train_params params = stoke_train_defaults();
        stk_setup setup = make(&data, &params);
        assert_int_equal(setup.classes, cases[i].classes);
        assert_int_equal(setup.train.classes, cases[i].classes);
        assert_int_equal(setup.net.classes, cases[i].classes);
        assert_string_equal(setup.train.label_map, cases[i].map);
        assert_string_equal(setup.val.label_map, cases[i].map);
        said(cases[i].sentence);
        stk_setup_free(&setup);
    }
}

static void senseless_masks_are_refused(void **state)
{
    static const uint16_t zero[] = { 0 }, none[] = { 255 }, objects[] = { 0, 1, 400 };
    const stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    uint16_t many[256], heights[1024];
    write_values(state, 6, zero, 1);
    refused(&data, &params, STOKE_E_LABEL, "nothing but 0");
    write_values(state, 6, none, 1);
    refused(&data, &params, STOKE_E_LABEL, "nothing but 255, which stands for pixels without a class");
    write_values(state, 6, objects, 3);
    stk_setup setup = make(&data, &params);
    said("classes 0 to 2");
    stk_setup_free(&setup);
    for (uint32_t i = 0; i < 32; i++) many[i] = (uint16_t)(i * 7);
    write_values(state, 6, many, 32); /* a row each: 32 is all a mask of 32 rows has */
    setup = make(&data, &params);
    assert_int_equal(setup.classes, 32);
    stk_setup_free(&setup);
    /* more than that, in a mask of its own */
    for (uint32_t i = 0; i < 1024; i++) heights[i] = (uint16_t)(i * 40);
    const stoke_image mask = { heights, 64, 32, 32, 1, 2 };
    assert_int_equal(stoke_image_write_png(unit_path(state, "masks/v3.png"), &mask, NULL), 0);
    refused(&data, &params, STOKE_E_LABEL, "too many and too far apart");
    for (uint32_t i = 0; i < 1024; i++) heights[i] = (uint16_t)(i * 3 / 4);
    assert_int_equal(stoke_image_write_png(unit_path(state, "masks/v3.png"), &mask, NULL), 0);
    refused(&data, &params, STOKE_E_LABEL, "values up to 767: if these are classes");
}

/* What is given is not asked of the masks, but 0 and 255 with two classes is a slip. */
static void given_classes_stand(void **state)
{
    static const uint16_t binary[] = { 0, 255 }, three[] = { 0, 1, 2 };
    stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    write_values(state, 6, three, 3);
    data.classes = 7;
    stk_setup setup = make(&data, &params);
    assert_int_equal(setup.classes, 7);
    assert_string_equal(setup.train.label_map, "identity");
    stk_setup_free(&setup);
    write_values(state, 6, binary, 2);
    data.classes = 2;
    setup = make(&data, &params);
    assert_string_equal(setup.train.label_map, "0:0,255:1");
    said("if 255 means no class here");
    stk_setup_free(&setup);
    data.label_map = "0:0,255:ignore";
    setup = make(&data, &params);
    assert_string_equal(setup.train.label_map, "0:0,255:ignore");
    stk_setup_free(&setup);
    /* one logit: the masks have two values all the same */
    data.label_map = "identity";
    data.classes = 1;
    setup = make(&data, &params);
    assert_int_equal(setup.classes, 1);
    assert_int_equal(setup.net.classes, 1);
    assert_int_equal(setup.train.classes, 2);
    assert_string_equal(setup.train.label_map, "0:0,255:1");
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
    stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    write_values(state, 6, values, 2);
    write_colored(state, "masks/v2.png"); /* one is enough */
    refused(&data, &params, STOKE_E_LABEL, "is a colour picture");
    refused(&data, &params, STOKE_E_LABEL, "Colours of this mask: 128 64 7; 0 64 200");
    static const char file[] = "128 64 7 road\n0 64 200 lake\n1 2 3 ignore\n9 9 9\n";
    unit_write(unit_path(state, "colors.txt"), file, strlen(file));
    char path[4096];
    snprintf(path, sizeof path, "%s", unit_path(state, "colors.txt"));
    data.label_map = path;
    stk_setup setup = make(&data, &params);
    memset(path, 'x', 8);               /* the setup has its own */
    assert_int_equal(setup.classes, 4); /* the fourth line is class 3 */
    assert_string_equal(setup.class_names[0], "road");
    assert_string_equal(setup.class_names[1], "lake");
    assert_null(setup.class_names[3]);
    assert_ptr_equal(setup.net.class_names, setup.class_names);
    said("4 classes, from `label_map`");
    stk_setup_free(&setup);
}

static void jpeg_masks_are_refused(void **state)
{
    static const uint16_t values[] = { 0, 1 };
    uint8_t noise[32 * 32];
    const stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    write_values(state, 6, values, 2);
    for (uint32_t i = 0; i < sizeof noise; i++) noise[i] = i / 3 % 5 ? 0 : 90;
    const stoke_image mask = { noise, 32, 32, 32, 1, 1 };
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "masks/v%d.png", i);
        unlink(unit_path(state, name));
        snprintf(name, sizeof name, "masks/v%d.jpg", i);
        assert_int_equal(stoke_image_write_jpeg(unit_path(state, name), &mask, 80, NULL), 0);
    }
    refused(&data, &params, STOKE_E_LABEL, "masks are JPEG files");
}

static void bad_masks_are_the_loaders(void **state)
{
    const stoke_train_params params = stoke_train_defaults();
    const stoke_data_params data = plain(state);
    pairs_write(state, 12, 40, 40);
    unit_write(unit_path(state, "masks/s1.png"), "no picture", 10);
    stk_setup setup = make(&data, &params);
    assert_int_equal(setup.classes, PAIRS_CLASSES);
    stk_setup_free(&setup);
    for (int i = 0; i < 12; i++) {
        char name[32];
        snprintf(name, sizeof name, "masks/s%d.png", i);
        unit_write(unit_path(state, name), "no picture", 10);
    }
    refused(&data, &params, STOKE_E_FORMAT, "no mask can be read. The first: ");
}

/* ---- weights ---- */

static void class_weights(void **state)
{
    static const uint16_t values[] = { 0, 0, 0, 1 };
    stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    write_values(state, 6, values, 4); /* 3/4 of class 0 */
    params.class_weights = "balanced";
    stk_setup setup = make(&data, &params);
    assert_string_equal(setup.params.class_weights, "0.666667,2");
    assert_true(setup.class_weights[0] == 0.666667f && setup.class_weights[1] == 2);
    assert_ptr_equal(setup.net.loss.class_weights, setup.class_weights);
    said("from 0.667 to 2");
    stk_setup_free(&setup);
    data.classes = 3; /* the third never occurs */
    setup = make(&data, &params);
    assert_string_equal(setup.params.class_weights, "0.666667,2,1");
    stk_setup_free(&setup);
    params.class_weights = "1, 2.5 ,0";
    setup = make(&data, &params);
    assert_true(setup.class_weights[0] == 1 && setup.class_weights[1] == 2.5f && setup.class_weights[2] == 0);
    stk_setup_free(&setup);
    params.class_weights = "none";
    setup = make(&data, &params);
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
        refused(&data, &params, STOKE_E_INVALID, wrong[i].message);
    }
}

/* Through a label map, and never without bounds. */
static void weights_are_bounded(void **state)
{
    uint16_t values[32] = { 0 };
    stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    write_values(state, 40, values, 32);
    uint8_t ids[32 * 32] = { 255, 255 }; /* two pixels of 40 x 1024 */
    const stoke_image mask = { ids, 32, 32, 32, 1, 1 };
    data.val_split = 0.01; /* a hash that keeps all for training is as good */
    params.eval_every = 0;
    assert_int_equal(stoke_image_write_png(unit_path(state, "masks/v7.png"), &mask, NULL), 0);
    params.class_weights = "balanced";
    stk_setup setup = make(&data, &params);
    assert_string_equal(setup.train.label_map, "0:0,255:1");
    assert_true(setup.class_weights[1] == 50);
    stk_setup_free(&setup);
}

/* ---- sets ---- */

static void keeps_a_part_for_validation(void **state)
{
    stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 30, 40, 40);
    stk_setup setup = make(&data, &params);
    const uint64_t train = stoke_dataset_count(setup.train_set), val = stoke_dataset_count(setup.val_set);
    assert_int_equal(train + val, 30);
    assert_in_range(val, 3, 15);
    assert_true(setup.train.val_split >= 0.2 && setup.train.val_split == setup.val.val_split);
    said("of 30 samples are kept for validation");
    for (uint64_t i = 0; i < train; i++)
        for (uint64_t j = 0; j < val; j++)
            assert_string_not_equal(stoke_dataset_sample(setup.train_set, i).name,
                                    stoke_dataset_sample(setup.val_set, j).name);
    stk_setup_free(&setup);
    data.val_split = 0.5;
    setup = make(&data, &params);
    assert_true(setup.val.val_split == 0.5);
    not_said("kept for validation");
    stk_setup_free(&setup);
}

/* Whatever the names are, the hash leaves something on both sides. */
static void small_sets_have_both_parts(void **state)
{
    stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    unsigned without = 0;
    for (int64_t seed = 0; seed < 40; seed++) {
        data.split_seed = seed;
        stk_setup setup = make(&data, &params);
        if (setup.val_set)
            assert_in_range(stoke_dataset_count(setup.val_set), 1, 3);
        else
            without++;
        stk_setup_free(&setup);
    }
    assert_in_range(without, 0, 4);
}

static void too_few_to_validate(void **state)
{
    const stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 4, 32, 32);
    stk_setup setup = make(&data, &params);
    assert_null(setup.val_set);
    assert_int_equal(stoke_dataset_count(setup.train_set), 4);
    assert_int_equal(setup.params.eval_every, 0);
    assert_int_equal(setup.train.batch, 4); /* not more than there are */
    said("All 4 samples are trained on and none validate");
    stk_setup_free(&setup);
}

static void own_parts_are_used(void **state)
{
    stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 7, 32, 32);
    char command[512];
    snprintf(command, sizeof command,
             "cd %s && mkdir train trainannot val valannot && mv images/s[0-4].* train && mv images/* val && "
             "mv masks/s[0-4].* trainannot && mv masks/* valannot && rmdir images masks",
             unit_folder(state));
    assert_int_equal(system(command), 0);
    stk_setup setup = make(&data, &params);
    assert_int_equal(stoke_dataset_count(setup.train_set), 5);
    assert_int_equal(stoke_dataset_count(setup.val_set), 2);
    assert_true(setup.train.val_split == 0);
    stk_setup_free(&setup);
    /* without evaluation `split` means what it says */
    params.eval_every = 0;
    setup = make(&data, &params);
    assert_null(setup.val_set);
    assert_int_equal(stoke_dataset_count(setup.train_set), 7);
    stk_setup_free(&setup);
    data.split = STOKE_SPLIT_TRAIN;
    setup = make(&data, &params);
    assert_int_equal(stoke_dataset_count(setup.train_set), 5);
    stk_setup_free(&setup);
}

static void no_masks_no_training(void **state)
{
    stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    data.data = NULL;
    data.images = unit_path(state, "images");
    refused(&data, &params, STOKE_E_INVALID, "images and no masks");
    data.images = unit_path(state, "nowhere");
    refused(&data, &params, STOKE_E_NOTFOUND, "nowhere");
}

/* ---- size, batch, length, rates ---- */

static void size_from_pictures(void **state)
{
    static const struct {
        uint32_t width, height, size[2];
        const char *sentence;
    } cases[] = {
        { 56, 40, { 32, 64 }, "brought to 32x64 (height x width): they are 40x56" },
        { 64, 64, { 64, 64 }, "they are 64x64" },
        { 20, 20, { 32, 32 }, "they are 20x20" },
        { 1024, 700, { 352, 512 }, "they are 700x1024" },
    };
    stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pairs_write(state, 5, cases[i].width, cases[i].height);
        stk_setup setup = make(&data, &params);
        assert_memory_equal(setup.train.size, cases[i].size, sizeof cases[i].size);
        assert_memory_equal(setup.val.size, cases[i].size, sizeof cases[i].size);
        assert_int_equal(setup.net.height, cases[i].size[0]);
        assert_int_equal(setup.net.width, cases[i].size[1]);
        said(cases[i].sentence);
        stk_setup_free(&setup);
    }
    pairs_write_one(state, 0, "png", 96, 96);
    unlink(unit_path(state, "images/s0.jpg"));
    stk_setup setup = make(&data, &params);
    said("the one in the middle is 700x1024");
    stk_setup_free(&setup);
    data.size[0] = 40;
    data.size[1] = 50;
    setup = make(&data, &params);
    assert_int_equal(setup.net.width, 50);
    not_said("brought to");
    stk_setup_free(&setup);
}

static void batch_from_memory(void **state)
{
    stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 12, 32, 32);
    stk_setup setup = make(&data, &params);
    /* 32 x 32 fit 8 times wherever this test runs */
    assert_int_equal(setup.train.batch, 8);
    assert_int_equal(setup.net.batch, 8);
    said("Batches of 8: ");
    stk_setup_free(&setup);
    data.batch = 3;
    setup = make(&data, &params);
    assert_int_equal(setup.net.batch, 3);
    assert_int_equal(setup.val.batch, 3);
    not_said("Batches of");
    stk_setup_free(&setup);
    /* the largest network on the largest pictures: hardly a machine has room for 8, none for a batch of 0 */
    params.model = "b5";
    data.batch = -1;
    data.size[0] = data.size[1] = 8192;
    setup = make(&data, &params);
    assert_in_range(setup.train.batch, 1, 8);
    stk_setup_free(&setup);
}

static void length_and_cadences(void **state)
{
    static const struct {
        int64_t epochs, steps, accumulate, batch, eval_every, log_every;
        uint64_t all, all_epochs, evaluate, log;
    } cases[] = {
        /* 10 samples train: 5 batches of 2 */
        { 50, 0, 1, 2, -1, -1, 250, 50, 50, 2 },
        { 4, 0, 1, 2, -1, -1, 20, 4, 20, 1 },
        { 4, 0, 2, 2, -1, -1, 10, 4, 10, 1 },
        { 1, 0, 9, 2, -1, -1, 1, 1, 1, 1 },
        { 50, 7, 1, 2, 3, 5, 7, 2, 3, 5 },
        { 50, 7, 3, 2, -1, -1, 7, 5, 7, 1 },
        { 1000, 0, 1, 1, -1, -1, 10000, 1000, 50, 20 },
    };
    stoke_data_params data = plain(state);
    pairs_write(state, 10, 32, 32);
    static const char list[] = "images/s0.jpg,masks/s0.png\nimages/s1.png,masks/s1.png\n";
    unit_write(unit_path(state, "list.csv"), list, strlen(list));
    data.split = STOKE_SPLIT_ALL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_train_params params = stoke_train_defaults();
        params.epochs = cases[i].epochs;
        params.steps = cases[i].steps;
        params.accumulate = cases[i].accumulate;
        params.log_every = cases[i].log_every;
        data.batch = cases[i].batch;
        /* all ten train: another set validates in other tests */
        params.eval_every = 0;
        stk_setup setup = make(&data, &params);
        assert_int_equal(setup.batches_per_epoch, cases[i].batch == 1 ? 10 : 5);
        assert_int_equal(setup.steps, cases[i].all);
        assert_int_equal(setup.epochs, cases[i].all_epochs);
        assert_int_equal(setup.params.log_every, cases[i].log);
        assert_int_equal(setup.params.save_every, -1); /* by the clock: the loop's */
        stk_setup_free(&setup);
        /* with validation the set is smaller, and only the cadence is looked at */
        params.eval_every = cases[i].eval_every;
        setup = make(&data, &params);
        assert_non_null(setup.val_set);
        const uint64_t evaluate =
            cases[i].evaluate < setup.steps || cases[i].eval_every > 0 ? cases[i].evaluate : setup.steps;
        assert_int_equal(setup.params.eval_every, evaluate);
        stk_setup_free(&setup);
    }
    stoke_train_params params = stoke_train_defaults();
    params.epochs = 1000000000;
    refused(&data, &params, STOKE_E_LIMIT, "at most 1000000000 will do");
    data.batch = 16;
    data.drop_last = 1;
    refused(&data, &params, STOKE_E_INVALID, "do not fill a batch of 16");
}

static void rates(void **state)
{
    const stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    stk_setup setup = make(&data, &params);
    assert_true(setup.params.lr == 1e-3 && setup.params.head_lr == 1);
    assert_string_equal(setup.params.model, "b0");
    said("Learning rate 0.001, times 1 for the head: usual for untrained weights.");
    stk_setup_free(&setup);
    params.optimizer = STOKE_OPTIMIZER_SGD;
    params.head_lr = 3;
    setup = make(&data, &params);
    assert_true(setup.params.lr == 0.01 && setup.params.head_lr == 3);
    said("times 3 for the head as set");
    stk_setup_free(&setup);
    params.lr = 0.5;
    setup = make(&data, &params);
    assert_true(setup.params.lr == 0.5);
    not_said("Learning rate");
    stk_setup_free(&setup);
}

/* Weights on disk say which network they are, and are gone on with gently. */
static void pretrained_weights(void **state)
{
    const stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    stoke_net_params small = stoke_net_defaults();
    stoke_net *net;
    stoke_error err;
    small.model = "b1";
    small.classes = PAIRS_CLASSES;
    small.height = small.width = 32;
    if (stoke_net_open(&net, &small, &err)) fail_msg("%s", err.message);
    assert_int_equal(stoke_net_save(net, unit_path(state, "weights"), 0, &err), 0);
    stoke_net_close(&net);
    params.pretrained = unit_path(state, "weights");
    stk_setup setup = make(&data, &params);
    assert_string_equal(setup.params.model, "b1");
    assert_string_equal(setup.net.weights, params.pretrained);
    assert_true(setup.params.lr == 6e-5 && setup.params.head_lr == 10);
    said("usual for pretrained weights");
    stk_setup_free(&setup);
    params.model = "b9";
    refused(&data, &params, STOKE_E_NOTFOUND, "no model is called");
    params.model = NULL;
    params.pretrained = unit_path(state, "nothing");
    refused(&data, &params, STOKE_E_NOTFOUND, "nothing");
}

/* ---- the rest ---- */

static void names(void **state)
{
    const stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 4, 32, 32);
    params.runs = unit_path(state, "runs");
    mkdir(params.runs, 0777);
    stk_setup setup = make(&data, &params);
    assert_int_equal(strlen(setup.params.name), strlen("b0-20261116-094312"));
    assert_memory_equal(setup.params.name, "b0-2", 4);
    stk_setup_free(&setup);
    /* whatever second it is, the folder is new */
    for (int i = 0; i < 3; i++) {
        char path[4400];
        setup = make(&data, &params);
        snprintf(path, sizeof path, "%s/%s", params.runs, setup.params.name);
        assert_int_equal(mkdir(path, 0777), 0);
        stk_setup_free(&setup);
    }
    params.name = "mine";
    setup = make(&data, &params);
    assert_string_equal(setup.params.name, "mine");
    stk_setup_free(&setup);
    static const char *const wrong[] = { "a/b", "", ".", ".." };
    for (size_t i = 0; i < 4; i++) {
        params.name = wrong[i];
        refused(&data, &params, STOKE_E_INVALID, "is not the name of a folder");
    }
}

static void settings_of_the_network(void **state)
{
    stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 8, 32, 32);
    data.dtype = 1;
    data.layout = STOKE_LAYOUT_HWC;
    data.augment = "light";
    data.seed = 11;
    data.ignore_index = 250;
    data.cache_ram = 1001;
    params.average = 0.99;
    params.label_smoothing = 0.1;
    params.loss = STOKE_LOSS_FOCAL;
    params.threads = 2;
    stk_setup setup = make(&data, &params);
    said("as f32 in chw layout");
    for (int i = 0; i < 2; i++) {
        const stoke_data_params *p = i ? &setup.val : &setup.train;
        assert_int_equal(stoke_data_image_dtype(p), STOKE_DTYPE_F32);
        assert_int_equal(p->layout, STOKE_LAYOUT_CHW);
        assert_int_equal(p->normalize, STOKE_NORMALIZE_IMAGENET);
        assert_int_equal(p->split, i ? STOKE_SPLIT_VAL : STOKE_SPLIT_TRAIN);
        assert_int_equal(p->order, i ? STOKE_ORDER_SEQUENTIAL : STOKE_ORDER_SHUFFLE);
        assert_string_equal(p->augment, i ? "none" : "light");
    }
    assert_int_equal(setup.train.cache_ram + setup.val.cache_ram, 1001);
    assert_true(setup.train.cache_ram > setup.val.cache_ram);
    assert_int_equal(setup.net.seed, 11);
    assert_int_equal(setup.net.average, 1);
    assert_int_equal(setup.net.threads, 2);
    assert_int_equal(setup.net.training, 1);
    assert_int_equal(setup.net.loss.kind, STOKE_LOSS_FOCAL);
    assert_int_equal(setup.net.loss.ignore_index, 250);
    assert_true(setup.net.loss.label_smoothing == 0.1);
    assert_int_not_equal(setup.params.precision, STOKE_PRECISION_AUTO);
    stk_setup_free(&setup);
}

static void what_training_cannot_do(void **state)
{
    static const struct {
        const char *name, *value, *message;
    } cases[] = {
        { "epoch", "3", "`epochs` says how many" },
        { "world", "2", "training runs in one process" },
        { "split", "val", "training takes the train part" },
        { "weights", "w.csv", "has no effect without `order` weighted" },
        { "label_map", "0:x", "label_map" },
    };
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_data_params data = plain(state);
        const stoke_option_group group = stoke_data_options(&data);
        assert_int_equal(stoke_options_set(&group, 1, cases[i].name, cases[i].value, NULL), 0);
        refused(&data, &params, STOKE_E_INVALID, cases[i].message);
    }
    stoke_data_params data = plain(state);
    stoke_train_params wrong = params;
    wrong.struct_size = 4;
    refused(&data, &wrong, STOKE_E_INVALID, "stoke_train_defaults");
    wrong = params;
    wrong.epochs = 0;
    refused(&data, &wrong, STOKE_E_INVALID, "epochs: '0' is out of range");
}

static void progress_is_heard_and_may_stop(void **state)
{
    const stoke_data_params data = plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 20, 40, 40);
    stk_setup setup = make(&data, &params);
    assert_true(ears.calls > 0);
    assert_int_equal(ears.done, 20);
    assert_int_equal(ears.total, 20);
    stk_setup_free(&setup);
    stoke_error err;
    ears = (heard){ .cancel = 1 };
    /* with so few masks it may be asked only at the end, when there is nothing left to stop */
    const int r = stk_setup_make(&setup, &data, &params, say, progress, &ears, &err);
    assert_true(r == 0 || r == STOKE_E_CANCELLED);
    stk_setup_free(&setup);
    /* nobody listens */
    assert_int_equal(stk_setup_make(&setup, &data, &params, NULL, NULL, NULL, NULL), 0);
    stk_setup_free(&setup);
}

/* Every allocation may fail; what was made is freed (the sanitizers look). */
static void memory_may_run_out(void **state)
{
    stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    params.class_weights = "balanced";
    unsigned failures = 0;
    for (int64_t after = 0;; after += 1 + after / 16) {
        stk_setup setup;
        stoke_error err = { 0 };
        stk_mem_fail_after(after);
        const int r = stk_setup_make(&setup, &data, &params, NULL, NULL, NULL, &err);
        stk_mem_fail_after(-1);
        stk_setup_free(&setup);
        if (!r) break;
        failures++;
        assert_true(*err.message && after < 100000);
    }
    assert_true(failures > 20);
}

/* ---- as text ---- */

static char *yaml_of(const stk_setup *setup)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(stk_setup_write_yaml(setup, out), 0);
    fclose(out);
    return text;
}

/* What a run writes is read back to the same run. */
static void yaml_repeats_the_run(void **state)
{
    for (int variant = 0; variant < 4; variant++) {
        static const uint16_t binary[] = { 0, 255 };
        stoke_data_params data = plain(state);
        stoke_train_params params = stoke_train_defaults();
        if (variant & 1)
            write_values(state, 7, binary, 2);
        else
            pairs_write(state, 9, 40, 56);
        data.augment = "standard";
        data.cache_ram = 777;
        params.class_weights = variant & 1 ? "balanced" : "none";
        params.eval_every = variant == 2 ? 0 : -1;
        params.name = "first";
        params.stop_after = 3;
        data.classes = variant == 3;
        if (variant == 3) params.class_weights = "none";
        stk_setup setup = make(&data, &params);
        char *yaml = yaml_of(&setup), *identity = stk_setup_identity(&setup);
        unit_write(unit_path(state, "config.yaml"), yaml, strlen(yaml));
        stoke_data_params again = stoke_data_defaults();
        stoke_train_params again_params = stoke_train_defaults();
        const stoke_option_group groups[] = { stoke_data_options(&again),
                                              stoke_train_options(&again_params) };
        stoke_option_storage *storage;
        stoke_error err;
        if (stoke_settings_load_yaml(groups, 2, &again, unit_path(state, "config.yaml"), &storage, &err))
            fail_msg("%s", err.message);
        assert_null(again_params.name);
        assert_int_equal(again_params.stop_after, 0);
        assert_int_equal(again.cache_ram, 777);
        stk_setup second = make(&again, &again_params);
        char *second_yaml = yaml_of(&second), *second_identity = stk_setup_identity(&second);
        assert_string_equal(yaml, second_yaml);
        assert_string_equal(identity, second_identity);
        assert_int_equal(setup.classes, second.classes);
        if (stk_setup_same(identity, second_identity, &err)) fail_msg("%s", err.message);
        stk_setup_free(&setup);
        stk_setup_free(&second);
        stoke_options_free_storage(&storage);
        free(yaml);
        free(second_yaml);
        stk_free(identity);
        stk_free(second_identity);
    }
}

static char *identity_with(void **state, const char *name, const char *value)
{
    stoke_data_params data = plain(state);
    stoke_train_params params = stoke_train_defaults();
    const stoke_option_group groups[] = { stoke_data_options(&data), stoke_train_options(&params) };
    stoke_error err;
    data.size[0] = data.size[1] = 32;
    data.batch = 2;
    if (name && stoke_options_set(groups, 2, name, value, &err)) fail_msg("%s", err.message);
    stk_setup setup = make(&data, &params);
    char *identity = stk_setup_identity(&setup);
    assert_non_null(identity);
    stk_setup_free(&setup);
    return identity;
}

static void identity_tells_runs_apart(void **state)
{
    pairs_write(state, 10, 32, 32);
    static const char ops[] = "augment:\n  - hflip: {p: 1}\n";
    unit_write(unit_path(state, "ops.yaml"), ops, strlen(ops));
    static const struct {
        const char *name, *value, *difference; /* NULL: the same run */
    } cases[] = {
        { "lr", "0.002", "lr was 0.001 and is 0.002" },
        { "seed", "3", "seed was 0 and is 3" },
        { "batch", "3", "batch was 2 and is 3" },
        { "epochs", "60", "steps was 250 and is 300" },
        { "classes", "7", "classes was 5 and is 7" },
        { "model", "b1", "model was b0 and is b1" },
        { "augment", "hflip", "augment was none and is hflip(p=0.5)" },
        { "label_map", "0:0,1:1,2:2,3:3,4:3", "label_map was " },
        { "val_split", "0.4", "train_set was " },
        { "memory", "min", "memory was plain and is min" },
        { "loss", "dice", "loss was ce and is dice" },
        { "average", "0.9", "average was 0 and is 0.9" },
        { "workers", "3", NULL },
        { "prefetch", "5", NULL },
        { "threads", "1", NULL },
        { "cache_ram", "1M", NULL },
        { "eval_every", "7", NULL },
        { "log_every", "7", NULL },
        { "save_every", "7", NULL },
        { "stop_after", "7", NULL },
        { "patience", "7", NULL },
        { "name", "other", NULL },
        { "runs", "elsewhere", NULL },
        { "pictures", "no", NULL },
    };
    char *first = identity_with(state, NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_error err = { 0 };
        char *other = identity_with(state, cases[i].name, cases[i].value);
        const int r = stk_setup_same(first, other, &err);
        if (cases[i].difference ? r != STOKE_E_STATE || !strstr(err.message, cases[i].difference) : r)
            fail_msg("%s %s: %d %s", cases[i].name, cases[i].value, r, err.message);
        stk_free(other);
    }
    /* a file of ops counts by what is in it */
    char *listed = identity_with(state, "augment", "hflip(p=1)");
    char *filed = identity_with(state, "augment", unit_path(state, "ops.yaml"));
    assert_string_equal(listed, filed);
    stk_free(listed);
    stk_free(filed);
    stk_free(first);
}

static void differences_are_counted(void **state)
{
    stoke_error err;
    assert_int_equal(stk_setup_same("", "", &err), 0);
    assert_int_equal(stk_setup_same("a=1\nb=2\n", "b=2\na=1", &err), 0);
    assert_int_equal(stk_setup_same("a=1\n", "a=1\nc=3\n", &err), STOKE_E_STATE);
    assert_string_equal(err.message, "c was not set and is 3");
    assert_int_equal(stk_setup_same("a=1\nc=3\n", "a=1\n", &err), STOKE_E_STATE);
    assert_string_equal(err.message, "c was 3 and is not set");
    assert_int_equal(
        stk_setup_same("a=1\nb=1\nc=1\nd=1\ne=1\nf=1\ng=1", "a=2\nb=2\nc=2\nd=2\ne=2\nf=2\ng=2", &err),
        STOKE_E_STATE);
    assert_non_null(strstr(err.message, "e was 1 and is 2; and 2 more"));
    /* hostile: no '=', endless names and values */
    char *wild = malloc(100001);
    memset(wild, 'x', 100000);
    wild[100000] = 0;
    assert_int_equal(stk_setup_same(wild, "a=1", &err), STOKE_E_STATE);
    wild[10] = '=';
    assert_int_equal(stk_setup_same(wild, "a=1", &err), STOKE_E_STATE);
    assert_int_equal(stk_setup_same("\n\n=\n", "a", &err), STOKE_E_STATE);
    free(wild);
}

/* ---- real sets ---- */

static void real_sets(void **state)
{
    const stoke_train_params params = stoke_train_defaults();
    stoke_data_params data = stoke_data_defaults();
    char root[4096];
    if (!unit_data("camvid") || !unit_data("membrane")) skip();
    data.batch = -1;
    snprintf(root, sizeof root, "%s", unit_data("camvid"));
    data.data = root;
    data.quarantine = "";
    stk_setup setup = make(&data, &params);
    assert_int_equal(setup.classes, 12);
    assert_string_equal(setup.train.label_map, "identity");
    assert_int_equal(setup.train.size[0], 352);
    assert_int_equal(setup.train.size[1], 480);
    assert_non_null(setup.val_set);
    said("12 classes, from the values 0 to 11");
    stk_setup_free(&setup);
    snprintf(root, sizeof root, "%s", unit_data("membrane"));
    setup = make(&data, &params);
    assert_int_equal(setup.classes, 2);
    assert_string_equal(setup.train.label_map, "0:0,255:1");
    assert_int_equal(setup.train.size[0], 512);
    stk_setup_free(&setup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(classes_from_values),
        unit_test_with_folder(senseless_masks_are_refused),
        unit_test_with_folder(given_classes_stand),
        unit_test_with_folder(colors_need_a_file),
        unit_test_with_folder(jpeg_masks_are_refused),
        unit_test_with_folder(bad_masks_are_the_loaders),
        unit_test_with_folder(class_weights),
        unit_test_with_folder(weights_are_bounded),
        unit_test_with_folder(keeps_a_part_for_validation),
        unit_test_with_folder(small_sets_have_both_parts),
        unit_test_with_folder(too_few_to_validate),
        unit_test_with_folder(own_parts_are_used),
        unit_test_with_folder(no_masks_no_training),
        unit_test_with_folder(size_from_pictures),
        unit_test_with_folder(batch_from_memory),
        unit_test_with_folder(length_and_cadences),
        unit_test_with_folder(rates),
        unit_test_with_folder(pretrained_weights),
        unit_test_with_folder(names),
        unit_test_with_folder(settings_of_the_network),
        unit_test_with_folder(what_training_cannot_do),
        unit_test_with_folder(progress_is_heard_and_may_stop),
        unit_test_with_folder(memory_may_run_out),
        unit_test_with_folder(yaml_repeats_the_run),
        unit_test_with_folder(identity_tells_runs_apart),
        cmocka_unit_test(differences_are_counted),
        cmocka_unit_test(real_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
