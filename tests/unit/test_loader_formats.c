/* SPDX-License-Identifier: Apache-2.0
 *
 * Unusual pairs through the whole way: 16-bit windows, colour masks, 16-bit class ids, grey images, weighted
 * orders.
 */
#include "tests/unit/fixture_pairs.h"

enum { W = 40, H = 24 };

typedef struct reading {
    stoke_dataset *dataset;
    stoke_loader *loader;
    const stoke_batch *batch;
} reading;

/* Opens and takes the first batch. */
static reading read_first(const stoke_data_params *params)
{
    reading r = { 0 };
    stoke_error err = { 0 };
    if (stoke_dataset_open(&r.dataset, params, &err)) fail_msg("%s", err.message);
    if (stoke_loader_create(&r.loader, r.dataset, params, NULL, &err)) fail_msg("%s", err.message);
    if (stoke_loader_next(r.loader, &r.batch)) fail_msg("%s", stoke_loader_error(r.loader));
    return r;
}

static void end(reading *r)
{
    stoke_loader_destroy(&r->loader);
    stoke_dataset_close(&r->dataset);
}

static stoke_data_params params_of(void **state)
{
    stoke_data_params params = pairs_params(state);
    params.size[0] = H;
    params.size[1] = W;
    params.order = STOKE_ORDER_SEQUENTIAL;
    params.batch = 1;
    return params;
}

static void write_png(void **state, const char *name, void *data, uint8_t channels, uint8_t depth)
{
    const stoke_image image = { data, (size_t)W * channels * depth, W, H, channels, depth };
    stoke_error err = { 0 };
    char folder[64];
    snprintf(folder, sizeof folder, "%.*s", (int)(strchr(name, '/') - name), name);
    mkdir(unit_path(state, folder), 0777);
    if (stoke_image_write_png(unit_path(state, name), &image, &err)) fail_msg("%s", err.message);
}

static void windows_stretch_16_bit_images(void **state)
{
    static uint16_t grey[W * H];
    for (int i = 0; i < W * H; i++) grey[i] = (uint16_t)(1000 + i * 3);
    write_png(state, "images/a.png", grey, 1, 2);
    stoke_data_params params = params_of(state);
    static const struct {
        const char *window;
        double lo, hi;
    } cases[] = { { "none", 0, 65535 },
                  { "1000:3000", 1000, 3000 },
                  { "p0:p100", 1000, 1000 + (W * H - 1) * 3 } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int crop = 0; crop < 2;
             crop++) { /* percentiles are those of the whole picture, also in a crop */
            params.window = cases[k].window;
            params.augment = crop ? "crop" : "none";
            params.size[1] = crop ? W / 2 : W;
            reading r = read_first(&params);
            stoke_pipeline *pipeline;
            stoke_augment_plan plan;
            assert_int_equal(stoke_pipeline_create(&pipeline, params.augment, NULL), 0);
            stoke_pipeline_draw(pipeline, &(stoke_draw){ 0, 0, 0, W, H, params.size[1], H, NULL, 0 }, &plan);
            stoke_pipeline_destroy(&pipeline);
            const float *plane = r.batch->images;
            for (uint32_t y = 0; y < H; y++)
                for (uint32_t x = 0; x < params.size[1]; x++) {
                    const uint32_t from = plan.box.x + (plan.hflip ? params.size[1] - 1 - x : x);
                    double v = (grey[y * W + from] - cases[k].lo) / (cases[k].hi - cases[k].lo);
                    v = v < 0 ? 0 : v > 1 ? 1 : v;
                    for (uint32_t c = 0; c < 3; c++) {
                        const float got = plane[(c * H + y) * params.size[1] + x];
                        if (got - v > 1e-5 || v - got > 1e-5)
                            fail_msg("%s at %u,%u: %.7f, expected %.7f", cases[k].window, x, y, got, v);
                    }
                }
            end(&r);
        }
}

static void colour_masks_become_classes(void **state)
{
    static const uint8_t colours[3][3] = { { 0, 0, 0 }, { 128, 64, 128 }, { 250, 170, 30 } };
    static uint8_t rgb[W * H * 3], image[W * H * 3];
    for (int i = 0; i < W * H; i++) memcpy(rgb + i * 3, colours[i / 5 % 3], 3);
    write_png(state, "images/a.png", image, 3, 1);
    write_png(state, "masks/a.png", rgb, 3, 1);
    const char *table = "# R G B id name\n0 0 0 0 void\n128 64 128 ignore\n250 170 30 7 light\n";
    unit_write(unit_path(state, "colours.txt"), table, strlen(table));
    stoke_data_params params = params_of(state);
    params.label_map = unit_path(state, "colours.txt");
    params.classes = 8;
    reading r = read_first(&params);
    static const int classes[3] = { 0, 255, 7 };
    for (int i = 0; i < W * H; i++)
        assert_int_equal(((const uint8_t *)r.batch->masks)[i], classes[i / 5 % 3]);
    end(&r);
}

static void many_classes_take_16_bits(void **state)
{
    static uint16_t ids[W * H];
    static uint8_t image[W * H * 3];
    for (int i = 0; i < W * H; i++) ids[i] = (uint16_t)(i % 600);
    write_png(state, "images/a.png", image, 3, 1);
    write_png(state, "masks/a.png", ids, 1, 2);
    stoke_data_params params = params_of(state);
    params.classes = 600;
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err;
    /* class 255 is a class: left at its default, ignore_index would take it out of every mask */
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "255 is one of them"));
    assert_non_null(strstr(err.message, "`ignore_index` 65535"));
    stoke_dataset_close(&dataset);
    params.ignore_index = 65535;
    reading r = read_first(&params);
    assert_int_equal(r.batch->mask_dtype, STOKE_DTYPE_U16);
    assert_memory_equal(r.batch->masks, ids, sizeof ids);
    end(&r);
    params.mask_dtype = STOKE_MASK_DTYPE_U8;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, &err), STOKE_E_INVALID);
    stoke_dataset_close(&dataset);
}

static void label_maps_translate_values(void **state)
{
    static uint8_t image[W * H], ids[W * H];
    for (int i = 0; i < W * H; i++) ids[i] = i % 7 ? 255 : 0;
    write_png(state, "images/a.png", image, 1, 1);
    write_png(state, "masks/a.png", ids, 1, 1);
    stoke_data_params params = params_of(state);
    params.classes = 2;
    params.label_map = "0:0,255:1";
    reading r = read_first(&params);
    for (int i = 0; i < W * H; i++) assert_int_equal(((const uint8_t *)r.batch->masks)[i], i % 7 != 0);
    end(&r);
}

/* Class 4 is in one sample of twelve; a balanced order shows it far more often, and the same for any workers.
 */
static void balanced_order_prefers_rare_classes(void **state)
{
    static uint8_t image[W * H], ids[W * H];
    for (int s = 0; s < 12; s++) {
        char name[32];
        snprintf(name, sizeof name, "images/%d.png", s);
        write_png(state, name, image, 1, 1);
        memset(ids, s == 5 ? 4 : 0, sizeof ids);
        snprintf(name, sizeof name, "masks/%d.png", s);
        write_png(state, name, ids, 1, 1);
    }
    stoke_data_params params = params_of(state);
    params.order = STOKE_ORDER_BALANCED;
    params.batch = 4;
    unsigned rare = 0, all = 0;
    pairs_digest digest[2][8];
    for (int workers = 0; workers < 2; workers++) {
        params.workers = workers * 2;
        assert_int_equal(pairs_epoch(&params, digest[workers], 8), 3);
    }
    for (int i = 0; i < 3; i++) assert_memory_equal(digest[0][i].digest, digest[1][i].digest, 16);
    for (params.epoch = 0; params.epoch < 40; params.epoch++) {
        reading r = read_first(&params);
        for (uint32_t i = 0; i < r.batch->count; i++) rare += r.batch->ids[i] == 5, all++;
        end(&r);
    }
    assert_in_range(rare, all * 3 / 10,
                    all * 7 / 10); /* half is expected: two classes, one sample or eleven */
}

UNIT_GROUP(loader_formats)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(windows_stretch_16_bit_images),
        unit_test_with_folder(colour_masks_become_classes),
        unit_test_with_folder(many_classes_take_16_bits),
        unit_test_with_folder(label_maps_translate_values),
        unit_test_with_folder(balanced_order_prefers_rare_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
