/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans carried out: what comes out of a loader against what the op says, computed here in the plainest way.
 */
#include "tests/unit/fixture_taken.h"

enum { SIDE = 32, ROWS = 8 };

/* Square PNG pairs of the output's size, in order: what no op does is copied. */
static stoke_data_params square(void **state)
{
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    for (uint32_t i = 0; i < ROWS; i++) pairs_write_one(state, i, "png", SIDE, SIDE);
    stoke_data_params params = pairs_params(state);
    params.order = STOKE_ORDER_SEQUENTIAL;
    params.workers = 0;
    params.dtype = STOKE_IMAGE_DTYPE_U8;
    params.layout = STOKE_LAYOUT_HWC;
    return params;
}

typedef struct point {
    uint32_t x, y;
} point;
typedef point map_fn(point p);

static point mirror_x(point p)
{
    return (point){ SIDE - 1 - p.x, p.y };
}
static point mirror_y(point p)
{
    return (point){ p.x, SIDE - 1 - p.y };
}
static point half_turn(point p)
{
    return (point){ SIDE - 1 - p.x, SIDE - 1 - p.y };
}
static point same(point p)
{
    return p;
}
/* Counter-clockwise: the top right corner comes to the top left. */
static point quarter_turn(point p)
{
    return (point){ SIDE - 1 - p.y, p.x };
}

static void expect_mapped(const stoke_data_params *params, const char *augment, map_fn *source)
{
    taken *plain = taken_with(params, "none"), *made = taken_with(params, augment);
    assert_int_equal(made->rows, ROWS);
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t y = 0; y < SIDE; y++)
            for (uint32_t x = 0; x < SIDE; x++) {
                const point from = source((point){ x, y });
                for (uint32_t c = 0; c < 3; c++)
                    assert_true(taken_value(made, row, x, y, c) ==
                                taken_value(plain, row, from.x, from.y, c));
                assert_int_equal(taken_id(made, row, x, y), taken_id(plain, row, from.x, from.y));
            }
    taken_free(plain);
    taken_free(made);
}

static void flips_and_turns_move_pixels_and_change_none(void **state)
{
    static const struct {
        const char *augment;
        map_fn *source;
    } cases[] = {
        { "hflip(p=1)", mirror_x },
        { "vflip(p=1)", mirror_y },
        { "hflip(p=1),vflip(p=1)", half_turn },
        { "hflip(p=1),hflip(p=1)", same },
        { "vflip(p=1),vflip(p=1)", same },
        { "rotate(p=1,degrees=90..90)", quarter_turn },
        { "affine(p=1,degrees=90..90,scale=1..1,translate_x=0..0,translate_y=0..0,shear=0..0,shear_y=0..0)",
          quarter_turn },
        { "rotate(p=1,degrees=90..90),rotate(p=1,degrees=90..90)", half_turn },
        { "rotate(p=1,degrees=180..180),hflip(p=1),vflip(p=1)", same },
        { "rotate(p=1,degrees=37..37),rotate(p=1,degrees=-37..-37)", same },
        { "hflip(p=1),brightness(p=1,factor=1..1)", mirror_x },
        { "vflip(p=1),brightness(p=1,factor=1..1)", mirror_y },
        { "hflip(p=1),vflip(p=1),contrast(p=1,factor=1..1)", half_turn },
        { "rotate(p=1,degrees=90..90),brightness(p=1,factor=1..1)", quarter_turn },
        { "rotate(p=1,degrees=90..90),contrast(p=1,factor=1..1)", quarter_turn },
    };
    const stoke_data_params params = square(state);
    for (int dtype = 0; dtype < 4; dtype += 3) /* f32, u8 */
        for (int layout = 0; layout < 2; layout++)
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                stoke_data_params p = params;
                p.dtype = dtype;
                p.layout = layout;
                p.mask_dtype = (int)(i % 5);
                expect_mapped(&p, cases[i].augment, cases[i].source);
            }
}

static void photometric_ops_leave_masks_alone(void **state)
{
    const stoke_data_params params = square(state);
    static const char *const touched[] = {
        "brightness(p=1,factor=1.3..1.4)",
        "color_jitter(p=1),gaussian_blur(p=1),gaussian_noise(p=1),gamma(p=1,gamma=0.5..0.6),clahe(p=1)",
        "erasing(p=1,mask=keep)",
    };
    for (size_t i = 0; i < sizeof touched / sizeof *touched; i++) {
        char both[512];
        snprintf(both, sizeof both, "rotate(p=1,degrees=15),hflip,%s", touched[i]);
        taken *geometry = taken_with(&params, "rotate(p=1,degrees=15),hflip"),
              *all = taken_with(&params, both);
        assert_memory_equal(all->masks, geometry->masks, ROWS * all->shape.mask_row_bytes);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_memory_not_equal(taken_image(all, row), taken_image(geometry, row),
                                    all->shape.image_row_bytes);
        taken_free(geometry);
        taken_free(all);
    }
}

/* Whatever happens to a picture, its ids stay ids. */
static void labels_stay_labels(void **state)
{
    stoke_data_params params = square(state);
    params.size[0] = 28;
    params.size[1] = 24;
    static const char *const lists[] = { "light",
                                         "crop",
                                         "standard",
                                         "strong",
                                         "face",
                                         "medical",
                                         "elastic(p=1,alpha=8..8,sigma=4..4)",
                                         "random_resized_crop,rotate(p=1,degrees=180),cutmix(p=1)" };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        params.mask_dtype = (int)(i % 5);
        params.ignore_index = i % 2 ? 255 : 77;
        /* the preset for faces exchanges ids up to 8 */
        params.classes = strcmp(lists[i], "face") ? PAIRS_CLASSES : 19;
        taken *t = taken_with(&params, lists[i]);
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t y = 0; y < 28; y++)
                for (uint32_t x = 0; x < 24; x++) {
                    const int64_t id = taken_id(t, row, x, y);
                    if (id != params.ignore_index) assert_in_range(id, 0, params.classes - 1);
                }
        taken_free(t);
    }
}

/* Turned by 45 degrees the corners look outside: black and ignore, with masks and without, also when
 * ignore_index has two bytes. */
static void what_is_turned_in_is_ignored(void **state)
{
    stoke_data_params params = square(state);
    for (int kind = 0; kind < 4; kind++) {
        stoke_data_params p = params;
        p.ignore_index = kind & 1 ? 300 : 255;
        char images[4200];
        if (kind & 2) { /* without masks */
            snprintf(images, sizeof images, "%s/images", params.data);
            p.data = NULL;
            p.images = images;
        }
        taken *t = taken_with(&p, "rotate(p=1,degrees=45..45)");
        for (uint32_t row = 0; row < ROWS; row++) {
            for (uint32_t corner = 0; corner < 4; corner++) {
                const uint32_t x = corner & 1 ? SIDE - 1 : 0, y = corner & 2 ? SIDE - 1 : 0;
                assert_int_equal(taken_id(t, row, x, y), p.ignore_index);
                for (uint32_t c = 0; c < 3; c++) assert_true(taken_value(t, row, x, y, c) == 0);
            }
            const int64_t centre = taken_id(t, row, SIDE / 2, SIDE / 2);
            if (kind & 2)
                assert_int_equal(centre, 0);
            else
                assert_in_range(centre, 0, PAIRS_CLASSES - 1);
        }
        taken_free(t);
    }
}

/* Ids of one and of two bytes. */
static void mirrored_faces_swap_left_and_right(void **state)
{
    stoke_data_params params = square(state);
    for (int wide = 0; wide < 2; wide++) {
        params.classes = wide ? 300 : PAIRS_CLASSES;
        params.ignore_index = wide ? 65535 : 255;
        taken *plain = taken_with(&params, "none");
        taken *swapped = taken_with(&params, "hflip(p=1,swap=1-2)");
        taken *twice = taken_with(&params, "hflip(p=1,swap=1-2),hflip(p=1,swap=1-2)");
        assert_int_equal(plain->shape.mask_dtype, wide ? STOKE_DTYPE_U16 : STOKE_DTYPE_U8);
        static const int64_t other[PAIRS_CLASSES] = { 0, 2, 1, 3, 4 };
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t y = 0; y < SIDE; y++)
                for (uint32_t x = 0; x < SIDE; x++)
                    assert_int_equal(taken_id(swapped, row, x, y),
                                     other[taken_id(plain, row, SIDE - 1 - x, y)]);
        taken_equal(plain, twice);
        taken_free(plain);
        taken_free(swapped);
        taken_free(twice);
    }
}

/* A swap of ids that no mask can hold, or of a class with an id that is none, is a mistake in the settings.
 */
static void swapped_classes_must_exist(void **state)
{
    static const struct {
        const char *list, *expected; /* NULL: allowed */
        int64_t classes, ignore;
    } cases[] = {
        { "hflip(swap=1-256)", "classes 1 and 256", PAIRS_CLASSES, 255 },
        { "face", "4 and 5 change places in a mirror image, but 5 is no class here", PAIRS_CLASSES, 255 },
        { "hflip(swap=9-1)", "but 9 is no class here", PAIRS_CLASSES, 255 },
        { "hflip(swap=1-255)", "but 255 is no class here", 0, 255 },
        { "hflip(swap=1-2,7-8)", NULL, PAIRS_CLASSES, 255 }, /* a data set without ears */
        { "hflip(swap=1-255)", NULL, 0, -1 },
    };
    stoke_data_params params = square(state);
    stoke_dataset *dataset;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_loader *loader;
        stoke_error err = { 0 };
        params.augment = cases[i].list;
        params.classes = cases[i].classes;
        params.ignore_index = cases[i].ignore;
        const int r = stoke_loader_create(&loader, dataset, &params, NULL, &err);
        assert_int_equal(r, cases[i].expected ? STOKE_E_INVALID : STOKE_OK);
        if (r && !strstr(err.message, cases[i].expected)) fail_msg("%s", err.message);
        stoke_loader_destroy(&loader);
    }
    stoke_dataset_close(&dataset);
}

/* The box an op paints over: the same for the image (fill) and, when asked for, the mask (ignore). */
static void erased_boxes_are_ignored_on_request(void **state)
{
    const stoke_data_params params = square(state);
    taken *plain = taken_with(&params, "none");
    taken *ignored = taken_with(&params, "erasing(p=1,value=10,20,30,mask=ignore)");
    stoke_pipeline *pipeline;
    assert_int_equal(stoke_pipeline_create(&pipeline, "erasing(p=1,value=10,20,30,mask=ignore)", NULL), 0);
    for (uint32_t row = 0; row < ROWS; row++) {
        const stoke_draw draw = { 0, 0, row, SIDE, SIDE, SIDE, SIDE, NULL, 0 };
        stoke_augment_plan plan;
        stoke_pipeline_draw(pipeline, &draw, &plan);
        assert_int_equal(plan.n_color_steps, 1);
        const stoke_box box = plan.color[0].box;
        assert_true(box.width > 0 && box.height > 0);
        for (uint32_t y = 0; y < SIDE; y++)
            for (uint32_t x = 0; x < SIDE; x++) {
                const int inside = x - box.x < box.width && y - box.y < box.height;
                assert_int_equal(taken_id(ignored, row, x, y), inside ? 255 : taken_id(plain, row, x, y));
                for (uint32_t c = 0; c < 3; c++)
                    assert_true(taken_value(ignored, row, x, y, c) ==
                                (inside ? 10.0 * (c + 1) : taken_value(plain, row, x, y, c)));
            }
    }
    stoke_pipeline_destroy(&pipeline);
    taken_free(plain);
    taken_free(ignored);
}

/* Masks of 96 x 80 with two lonely pixels, of classes 3 and 4; image pixels say where they come from. */
static void write_lonely(void **state, uint32_t i, int empty)
{
    enum { W = 96, H = 80 };
    static uint8_t rgb[W * H * 3], ids[W * H];
    memset(ids, i % 2 ? 0 : 1, sizeof ids); /* background */
    for (uint32_t k = 0; k < W * H; k++) {
        rgb[k * 3] = (uint8_t)(k % W);
        rgb[k * 3 + 1] = (uint8_t)(k / W);
        rgb[k * 3 + 2] = (uint8_t)i;
    }
    for (uint32_t k = 0; k < W; k++) ids[k] = 255;
    if (!empty) {
        ids[(5 + 7 * i) * W + 90 - 9 * i] = 3;
        ids[(75 - 6 * i) * W + 3 + 11 * i] = 4;
    }
    const stoke_image image = { rgb, W * 3, W, H, 3, 1 }, mask = { ids, W, W, H, 1, 1 };
    char name[64];
    snprintf(name, sizeof name, "images/s%u.png", i);
    assert_int_equal(stoke_image_write_png(unit_path(state, name), &image, NULL), 0);
    snprintf(name, sizeof name, "masks/s%u.png", i);
    assert_int_equal(stoke_image_write_png(unit_path(state, name), &mask, NULL), 0);
}

static void foreground_crops_find_the_foreground(void **state)
{
    stoke_data_params params = square(state);
    for (uint32_t i = 0; i < ROWS; i++) write_lonely(state, i, 0);
    int seen[5] = { 0 };
    for (int epoch = 0; epoch < 8; epoch++) {
        params.epoch = epoch;
        params.mask_dtype = epoch % 5;
        params.classes = epoch % 3 ? PAIRS_CLASSES : 300;
        params.ignore_index = params.classes == 300 ? 65535 : 255;
        if (params.classes == 300 && params.mask_dtype == 1) params.mask_dtype = STOKE_MASK_DTYPE_AUTO;
        taken *t = taken_with(&params, "foreground_crop(p=1,background=0,1)");
        for (uint32_t row = 0; row < ROWS; row++) {
            int found = 0;
            for (uint32_t y = 0; y < SIDE; y++)
                for (uint32_t x = 0; x < SIDE; x++) {
                    const int64_t id = taken_id(t, row, x, y);
                    if (id == 3 || id == 4) found = 1, seen[id]++;
                }
            assert_true(found);
        }
        taken_free(t);
    }
    assert_true(seen[3] > 10 && seen[4] > 10); /* both classes, one pixel each, are looked at */
}

static void masks_without_foreground_keep_the_first_plan(void **state)
{
    const stoke_data_params params = square(state);
    for (uint32_t i = 0; i < ROWS; i++) write_lonely(state, i, 1);
    taken *wanted = taken_with(&params, "foreground_crop(p=1,background=0,1)");
    taken *plain = taken_with(&params, "foreground_crop(p=0)");
    taken_equal(wanted, plain);
    taken_free(wanted);
    taken_free(plain);
}

/* 16-bit samples of 257 v are the 8-bit ones of v, to more decimals: the same chain gives nearly the same. */
static void deep_pictures_take_the_same_way(void **state)
{
    stoke_data_params params = square(state);
    params.dtype = STOKE_IMAGE_DTYPE_F32;
    static const char *const lists[] = {
        "none",
        "hflip(p=1),vflip(p=1)",
        "rotate(p=1,degrees=25)",
        "rotate(p=1,degrees=25),color_jitter(p=1,hue=0)",
        "hflip(p=1),brightness(p=1)",
        "random_crop,gaussian_blur(p=1)",
        "vflip(p=1),gaussian_noise(p=1)",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        taken *shallow = taken_with(&params, lists[i]);
        for (uint32_t k = 0; k < ROWS; k++) {
            static uint16_t deep[SIDE * SIDE * 3];
            for (uint32_t at = 0; at < SIDE * SIDE * 3; at++)
                deep[at] = (uint16_t)(257 * pairs_value(k, at / 3 % SIDE, at / 3 / SIDE, at % 3));
            const stoke_image image = { deep, SIDE * 6, SIDE, SIDE, 3, 2 };
            char name[64];
            snprintf(name, sizeof name, "images/s%u.png", k);
            assert_int_equal(stoke_image_write_png(unit_path(state, name), &image, NULL), 0);
        }
        taken *deep = taken_with(&params, lists[i]);
        double worst = 0;
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t at = 0; at < SIDE * SIDE * 3; at++) {
                const double d =
                    ((float *)taken_image(shallow, row))[at] - ((float *)taken_image(deep, row))[at];
                worst = d > worst ? d : -d > worst ? -d : worst;
            }
        if (worst > 1.2 / 255) fail_msg("%s: %g steps of 8 bits apart", lists[i], worst * 255);
        assert_memory_equal(deep->masks, shallow->masks, ROWS * deep->shape.mask_row_bytes);
        taken_free(shallow);
        taken_free(deep);
        square(state); /* 8-bit files again */
    }
}

/* The op's mean and deviation stand in the place of the setting's. */
static void the_pipeline_may_normalise(void **state)
{
    stoke_data_params params = square(state);
    taken *bytes = taken_with(&params, "none");
    params.dtype = STOKE_IMAGE_DTYPE_F32;
    params.normalize = STOKE_NORMALIZE_NONE;
    static const double mean[3] = { 0.1, 0.2, -0.3 }, deviation[3] = { 0.5, 2, 0.01 };
    static const char *const lists[] = {
        "normalize(mean=0.1,0.2,-0.3,std=0.5,2,0.01)",
        "brightness(p=1,factor=1..1),normalize(mean=0.1,0.2,-0.3,std=0.5,2,0.01)"
    };
    for (int i = 0; i < 2; i++) {
        taken *t = taken_with(&params, lists[i]);
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t k = 0; k < SIDE * SIDE * 3; k++) {
                const uint32_t x = k / 3 % SIDE, y = k / 3 / SIDE, c = k % 3;
                const double exact = (taken_value(bytes, row, x, y, c) / 255 - mean[c]) / deviation[c];
                const double error = taken_value(t, row, x, y, c) - exact;
                const double step = (exact < 0 ? -exact : exact) * 0x1p-23 + 1e-7;
                assert_true(error <= step && -error <= step);
            }
        taken_free(t);
    }
    taken_free(bytes);
}

/* Values that a half float cannot hold are refused before they become infinities. */
static void halves_do_not_overflow(void **state)
{
    static const struct {
        const char *list, *expected; /* NULL: fits */
        int dtype;                   /* 0 f32, 1 f16 */
    } cases[] = {
        { "normalize(mean=100,std=0.001)", "up to 100000, and dtype f16 ends at 65504", 1 },
        { "normalize(mean=0,0,-9,std=1,1,0.0001)", "up to 100000, and", 1 },
        { "normalize(mean=0,std=0.0001)", NULL, 1 },
        { "normalize(mean=100,std=0.001)", NULL, 0 },
    };
    stoke_data_params params = square(state);
    stoke_dataset *dataset;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_loader *loader;
        stoke_error err = { 0 };
        params.dtype = cases[i].dtype;
        params.augment = cases[i].list;
        const int r = stoke_loader_create(&loader, dataset, &params, NULL, &err);
        assert_int_equal(r, cases[i].expected ? STOKE_E_INVALID : STOKE_OK);
        if (r) assert_non_null(strstr(err.message, cases[i].expected));
        stoke_loader_destroy(&loader);
    }
    stoke_dataset_close(&dataset);
}

/* Without an ignore_index there is nothing that says "ignore": class 0 would be a wrong label. */
static void erasing_masks_takes_an_ignore_index(void **state)
{
    static const char *const lists[] = { "erasing(mask=ignore)", "strong", "erasing(mask=keep)" };
    stoke_data_params params = square(state);
    params.ignore_index = -1;
    stoke_dataset *dataset;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    for (int i = 0; i < 3; i++) {
        stoke_loader *loader;
        stoke_error err = { 0 };
        params.augment = lists[i];
        const int r = stoke_loader_create(&loader, dataset, &params, NULL, &err);
        assert_int_equal(r, i < 2 ? STOKE_E_INVALID : STOKE_OK);
        if (r) assert_non_null(strstr(err.message, "ignore_index is -1: set it (255), or use mask=keep"));
        stoke_loader_destroy(&loader);
    }
    stoke_dataset_close(&dataset);
}

UNIT_GROUP(exec)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(flips_and_turns_move_pixels_and_change_none),
        unit_test_with_folder(photometric_ops_leave_masks_alone),
        unit_test_with_folder(labels_stay_labels),
        unit_test_with_folder(what_is_turned_in_is_ignored),
        unit_test_with_folder(mirrored_faces_swap_left_and_right),
        unit_test_with_folder(swapped_classes_must_exist),
        unit_test_with_folder(erased_boxes_are_ignored_on_request),
        unit_test_with_folder(foreground_crops_find_the_foreground),
        unit_test_with_folder(masks_without_foreground_keep_the_first_plan),
        unit_test_with_folder(deep_pictures_take_the_same_way),
        unit_test_with_folder(the_pipeline_may_normalise),
        unit_test_with_folder(halves_do_not_overflow),
        unit_test_with_folder(erasing_masks_takes_an_ignore_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
