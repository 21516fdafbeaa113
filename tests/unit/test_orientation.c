/* SPDX-License-Identifier: Apache-2.0
 *
 * Photographs with a stored orientation (EXIF): which way up they come out beside their masks.
 */
#include <stoke/tools/dataset.h>
#include "tests/unit/fixture_pictures.h"
#include "tests/unit/fixture_resolve.h"

#include "src/train/predict.h"

enum { W = 48, H = 32, COUNT = 4 }; /* as stored: lying */

/* images/sN.jpg of W x H that says `orientation`, and masks/sN.png of mask_w x mask_h. */
static void write_pair(void **state, uint32_t i, uint8_t orientation, uint32_t mask_w, uint32_t mask_h)
{
    dice d = { .seed = i + 1 };
    uint8_t *samples = make_samples(W, H, 3, &d), *ids = calloc(mask_w, mask_h);
    const bytes plain = make_jpeg(samples, W, H, (jpeg_kind){ .channels = 3, .h = 2, .v = 2 });
    const bytes file = with_exif(plain, orientation, i & 1);
    char name[64];
    for (uint32_t k = 0; k < mask_w * mask_h; k++) ids[k] = (uint8_t)(k / mask_w / 8 % PAIRS_CLASSES);
    const stoke_image mask = { ids, mask_w, mask_w, mask_h, 1, 1 };
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    snprintf(name, sizeof name, "images/s%u.jpg", i);
    unit_write(unit_path(state, name), file.data, file.size);
    snprintf(name, sizeof name, "masks/s%u.png", i);
    assert_int_equal(stoke_image_write_png(unit_path(state, name), &mask, NULL), 0);
    free(samples);
    free(ids);
    free(plain.data);
    free(file.data);
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("'%s' is not in: %s", part, text);
}

static stoke_data_params params_of(void **state, int orientation)
{
    stoke_data_params params = pairs_params(state);
    params.orientation = orientation;
    params.order = STOKE_ORDER_SEQUENTIAL;
    params.policy = STOKE_POLICY_STOP;
    params.batch = 1;
    return params;
}

static void expect_same(void **state, int one, int other, int same)
{
    static const char *const augments[] = { "none", "crop" };
    for (int k = 0; k < 2; k++) {
        pairs_digest a[COUNT + 1], b[COUNT + 1];
        stoke_data_params first = params_of(state, one), second = params_of(state, other);
        first.augment = second.augment = augments[k];
        assert_int_equal(pairs_epoch(&first, a, COUNT + 1), COUNT);
        assert_int_equal(pairs_epoch(&second, b, COUNT + 1), COUNT);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(!memcmp(a[i].digest, b[i].digest, sizeof a[i].digest), same);
    }
}

/* Masks drawn on what people saw: every pair used to be bad. */
static void masks_of_the_upright_picture(void **state)
{
    for (uint32_t i = 0; i < COUNT; i++) write_pair(state, i, (uint8_t)(5 + i), H, W);
    assert_int_equal(stoke_data_defaults().orientation, STOKE_ORIENTATION_AUTO);
    expect_same(state, STOKE_ORIENTATION_AUTO, STOKE_ORIENTATION_APPLY, 1);
    /* The size of a batch that names none is that of the first picture, upright. */
    stoke_data_params params = params_of(state, STOKE_ORIENTATION_AUTO);
    stoke_dataset *dataset;
    stoke_loader *loader;
    const stoke_batch *batch;
    params.size[0] = params.size[1] = 0;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    assert_int_equal(stoke_loader_next(loader, &batch), 0);
    assert_int_equal(batch->height, W);
    assert_int_equal(batch->width, H);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* Masks made from the stored pixels, and those that fit both ways, give the bytes they always gave. */
static void masks_of_the_stored_picture(void **state)
{
    for (uint32_t i = 0; i < COUNT; i++) write_pair(state, i, (uint8_t)(i < 2 ? 5 + i : 1 + i), W, H);
    expect_same(state, STOKE_ORIENTATION_AUTO, STOKE_ORIENTATION_IGNORE, 1);
}

/* One set may have both. */
static void each_by_its_own_mask(void **state)
{
    write_pair(state, 0, 6, W, H);
    write_pair(state, 1, 6, H, W);
    write_pair(state, 2, 1, W, H);
    write_pair(state, 3, 3, W, H);
    pairs_digest all[COUNT + 1], other[COUNT + 1];
    stoke_data_params params = params_of(state, STOKE_ORIENTATION_AUTO), strict = params;
    assert_int_equal(pairs_epoch(&params, all, COUNT + 1), COUNT);
    strict.policy = STOKE_POLICY_SKIP;
    strict.max_bad = "100%";
    strict.orientation = STOKE_ORIENTATION_IGNORE;
    assert_int_equal(pairs_epoch(&strict, other, COUNT + 1), COUNT - 1); /* s1 is bad then */
    assert_memory_equal(all[0].digest, other[0].digest, 16);
    assert_memory_equal(all[2].digest, other[1].digest, 16);
    assert_memory_equal(all[3].digest, other[2].digest, 16);
}

static const stoke_bad_file *verify(const stoke_data_params *params, stoke_verify_report *report)
{
    stoke_dataset *dataset;
    assert_int_equal(stoke_dataset_open(&dataset, params, NULL), 0);
    assert_int_equal(stoke_verify(dataset, params, 1, NULL, NULL, report, NULL), 0);
    stoke_dataset_close(&dataset);
    return report->bad;
}

/* Who asked for it otherwise is told what would help. */
static void the_reason_names_the_setting(void **state)
{
    stoke_verify_report report;
    write_pair(state, 0, 6, H, W);
    write_pair(state, 1, 8, W, H);
    stoke_data_params params = params_of(state, STOKE_ORIENTATION_IGNORE);
    const stoke_bad_file *bad = verify(&params, &report);
    assert_int_equal(report.n_bad, 1);
    assert_contains(bad[0].reason, "the mask is 48x32 (height x width), its image is 32x48; turned by the "
                                   "orientation stored in it (EXIF) the image has the mask's size: "
                                   "`orientation` apply");
    stoke_verify_report_free(&report);
    params.orientation = STOKE_ORIENTATION_APPLY;
    bad = verify(&params, &report);
    assert_int_equal(report.n_bad, 1);
    assert_contains(bad[0].reason, "as it is stored the image has the mask's size: `orientation` ignore");
    stoke_verify_report_free(&report);
    params.orientation = STOKE_ORIENTATION_AUTO;
    verify(&params, &report);
    assert_int_equal(report.n_bad, 0);
    assert_int_equal(report.max_height, W); /* as decoded: one of them stands */
    stoke_verify_report_free(&report);
}

/* Nothing says which way up a picture was meant but itself: people see it upright. A mask does. */
static void pictures_to_predict_are_upright(void **state)
{
    static const struct {
        int orientation, with_mask;
        uint32_t width;
    } cases[] = { { STOKE_ORIENTATION_AUTO, 0, H },
                  { STOKE_ORIENTATION_AUTO, 1, W },
                  { STOKE_ORIENTATION_IGNORE, 0, W },
                  { STOKE_ORIENTATION_APPLY, 1, H } };
    write_pair(state, 0, 6, W, H);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_data_params params = params_of(state, cases[i].orientation);
        stoke_dataset *dataset;
        stk_loader_config pictures;
        stk_picture_reader reader = { .config = &pictures };
        stoke_image image;
        assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
        stoke_sample sample = stoke_dataset_sample(dataset, 0);
        if (!cases[i].with_mask) sample.mask_path = NULL;
        assert_int_equal(stk_pictures_config(&pictures, &params, 32, 32, NULL), 0);
        assert_int_equal(stk_scratch_create(&reader.scratch, NULL), 0);
        assert_int_equal(stk_picture_read(&reader, &sample, NULL), 0);
        const uint32_t width = reader.ctx.width, height = reader.ctx.height;
        assert_int_equal(width, cases[i].width);
        assert_int_equal(stk_picture_decode(&reader, width, height, &image, NULL), 0);
        assert_int_equal(image.width, cases[i].width);
        assert_int_equal(stk_picture_turned(&reader), cases[i].width == H ? 1 : -1);
        stk_scratch_destroy(&reader.scratch);
        stk_loader_config_destroy(&pictures);
        stoke_dataset_close(&dataset);
    }
}

/* Before the first step: which way up, the size that follows, and masks of another size. */
static void training_looks_at_all_headers(void **state)
{
    const stoke_train_params train = stoke_train_defaults();
    for (uint32_t i = 0; i < 8; i++) write_pair(state, i, 6, H, W);
    stoke_data_params params = settling_plain(state);
    stk_setup setup = settling_make(&params, &train);
    settling_said("8 images are turned upright by the stored orientation");
    settling_said("64x32 (height x width): they are 48x32");
    assert_int_equal(setup.train.orientation, STOKE_ORIENTATION_AUTO);
    stk_setup_free(&setup);
    /* As stored: what the network then predicts is to lie the same way. */
    for (uint32_t i = 0; i < 8; i++) write_pair(state, i, 6, W, H);
    setup = settling_make(&params, &train);
    settling_said("8 images have an orientation (EXIF) that the masks do not follow");
    assert_int_equal(setup.train.orientation, STOKE_ORIENTATION_IGNORE);
    stk_setup_free(&setup);
    for (uint32_t i = 0; i < 8; i++) write_pair(state, i, 3, W, H);
    setup = settling_make(&params, &train);
    settling_said("no mask tells by its size");
    stk_setup_free(&setup);
    for (uint32_t i = 0; i < 8; i += 2) write_pair(state, i, 1, W - 1, H);
    settling_refused(&params, &train, STOKE_E_SIZE,
                     "masks have another size than their image, and `max_bad` allows 1");
    params.max_bad = "100%";
    setup = settling_make(&params, &train);
    settling_said("another size than their image and cannot be used, the first: ");
    stk_setup_free(&setup);
}

/* Half a turn leaves the size: such a mask was drawn as those beside it that tell. */
static void masks_that_cannot_tell_follow_those_that_do(void **state)
{
    const stoke_train_params train = stoke_train_defaults();
    stoke_data_params params = settling_plain(state);
    stoke_orientation settled;
    stoke_dataset *dataset;
    char remarks[1024];
    for (uint32_t i = 0; i < 8; i++) write_pair(state, i, i < 4 ? 6 : 3, i < 4 ? H : W, i < 4 ? W : H);
    stk_setup setup = settling_make(&params, &train);
    settling_said("4 images have an orientation (EXIF) and a mask that fits both ways: taken upright");
    assert_int_equal(setup.train.orientation, STOKE_ORIENTATION_APPLY);
    assert_int_equal(setup.val.orientation, STOKE_ORIENTATION_APPLY);
    stk_setup_free(&setup);
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_dataset_orientation(dataset, &params, &settled, remarks, sizeof remarks, NULL), 0);
    assert_int_equal(settled, STOKE_ORIENTATION_APPLY);
    assert_contains(remarks, "4 images are turned upright");
    assert_contains(remarks, "taken upright like the others");
    stoke_dataset_close(&dataset);
    /* One that was drawn on the stored picture: every pair by itself again. */
    write_pair(state, 0, 6, W, H);
    setup = settling_make(&params, &train);
    settling_said("no mask tells by its size");
    assert_int_equal(setup.train.orientation, STOKE_ORIENTATION_AUTO);
    stk_setup_free(&setup);
}

enum { WIDE = 224, HIGH = 160 };

/* PNG may have it behind the pixels, beyond the bytes that are read of most files. */
static void write_late_pairs(void **state, uint32_t mask_w, uint32_t mask_h)
{
    enum { IEND = 12 };
    static const uint8_t exif[] = { 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                                    0,   1,   0,  0, 0, 6, 0, 0, 0, 0, 0,    0, 0 };
    uint8_t *noise = malloc(WIDE * HIGH * 3);
    dice d = { .seed = 9 };
    for (size_t k = 0; k < WIDE * HIGH * 3; k++) noise[k] = (uint8_t)roll(&d, 256);
    for (uint32_t i = 0; i < COUNT; i++) {
        char name[64];
        write_pair(state, i, 6, mask_w, mask_h);
        snprintf(name, sizeof name, "images/s%u.jpg", i);
        bytes file = make_png(noise, WIDE * HIGH * 3, WIDE, HIGH, (png_kind){ .colour_type = 2, .bits = 8 });
        file.size -= IEND;
        put_chunk(&file, "eXIf", exif, sizeof exif);
        assert_true(file.size > 80 * 1024);
        put_chunk(&file, "IEND", NULL, 0);
        unit_write(unit_path(state, name), file.data, file.size);
        free(file.data);
    }
    free(noise);
}

static void training_finds_what_is_behind_the_pixels(void **state)
{
    const stoke_train_params train = stoke_train_defaults();
    stoke_data_params params = settling_plain(state);
    write_late_pairs(state, HIGH, WIDE);
    stk_setup setup = settling_make(&params, &train);
    settling_said("4 images are turned upright by the stored orientation");
    settling_said("224x160 (height x width)");
    stk_setup_free(&setup);
}

/* Before the first step, not at the first batch. */
static void what_is_behind_the_pixels_can_turn_an_image_from_its_mask(void **state)
{
    const stoke_train_params train = stoke_train_defaults();
    stoke_data_params params = settling_plain(state);
    write_late_pairs(state, WIDE, HIGH);
    stk_setup setup = settling_make(&params, &train);
    settling_said("160x224 (height x width)");
    stk_setup_free(&setup);
    params.orientation = STOKE_ORIENTATION_APPLY;
    settling_refused(&params, &train, STOKE_E_SIZE, "as it is stored the image has the mask's size");
}

UNIT_GROUP(orientation)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(masks_of_the_upright_picture),
        unit_test_with_folder(masks_of_the_stored_picture),
        unit_test_with_folder(each_by_its_own_mask),
        unit_test_with_folder(the_reason_names_the_setting),
        unit_test_with_folder(training_looks_at_all_headers),
        unit_test_with_folder(masks_that_cannot_tell_follow_those_that_do),
        unit_test_with_folder(training_finds_what_is_behind_the_pixels),
        unit_test_with_folder(what_is_behind_the_pixels_can_turn_an_image_from_its_mask),
        unit_test_with_folder(pictures_to_predict_are_upright),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
