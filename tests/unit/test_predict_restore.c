/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures restored tile by tile, against one pass of a network that was opened for the whole picture; and
 * networks that change their size.
 */
#include "tests/unit/fixture_predict.h"

#include "src/base/mem.h"
#include "src/pix/pix.h"
#include "src/train/predict.h"
#include <stoke/tools/net.h>

enum { BLOCKS = 2, REACH = 2 + 2 * BLOCKS, TILE = 2 * REACH + 20 };

static const char *write_restorer(void **state, const char *name, const char *model, uint32_t scale)
{
    const char *folder = unit_path(state, name);
    stoke_net_params params = stoke_net_defaults();
    stoke_net *net;
    stoke_net_tensor t;
    params.model = model;
    params.task = STOKE_TASK_RESTORE;
    params.scale = scale;
    params.base_channels = 12; /* no whole vectors */
    if (strcmp(model, "resnet") == 0) params.num_blocks = BLOCKS;
    params.height = params.width = SIDE;
    params.training = 0;
    params.threads = 2;
    OK(stoke_net_open(&net, &params, &err));
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++) /* biases that borders show */
        for (size_t k = 0; t.dims == 1 && k < t.count; k++) t.values[k] += 0.2f * (float)noise(i * 65536 + k);
    stoke_net_touched(net);
    OK(stoke_net_save(net, folder, 0, &err));
    stoke_net_close(&net);
    return folder;
}

static stoke_predictor *open_predictor(const char *folder, uint32_t height, uint32_t width,
                                       const stoke_predict_params *like)
{
    stoke_predict_params params = like ? *like : settings(folder, STOKE_PREDICT_AUTO);
    stoke_predictor *p;
    params.weights = folder;
    params.size[0] = height, params.size[1] = width;
    OK(stoke_predictor_open(&p, &params, &err));
    return p;
}

/* Planes of the whole picture in one pass, as the header says they are. */
static float *whole(const char *folder, const stoke_image *image, int precision, int mirrored)
{
    const size_t pixels = (size_t)image->width * image->height;
    stoke_net_params params = stoke_net_defaults();
    stoke_logits out;
    stoke_net *net;
    float *row = malloc(3 * pixels * sizeof *row);
    params.weights = folder;
    params.height = image->height, params.width = image->width;
    params.training = 0;
    params.threads = 1;
    params.precision = precision;
    OK(stoke_net_open(&net, &params, &err));
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < pixels; i++) {
            const size_t x = i % image->width, y = i / image->width;
            const size_t at = (y * image->width + (mirrored ? image->width - 1 - x : x)) * 3 + c;
            row[c * pixels + i] = image->depth == 1 ? (float)(((const uint8_t *)image->data)[at] / 255.0)
                                                    : (float)(((const uint16_t *)image->data)[at] / 65535.0);
        }
    const stoke_net_batch batch = {
        .count = 1, .images = row, .layout = STOKE_LAYOUT_CHW, .image_row_floats = 3 * pixels
    };
    OK(stoke_net_forward(net, &batch, &out, &err));
    const size_t all = (size_t)out.height * out.width;
    float *planes = malloc(3 * all * sizeof *planes);
    for (size_t i = 0; i < all; i++)
        for (size_t c = 0; c < 3; c++) {
            const size_t x = i % out.width;
            planes[c * all + i - x + (mirrored ? out.width - 1 - x : x)] = out.data[i * out.stride + c];
        }
    stoke_net_close(&net);
    free(row);
    return planes;
}

static void check_bytes(const stoke_image *restored, const float *planes)
{
    const size_t all = (size_t)restored->width * restored->height;
    for (size_t i = 0; i < 3 * all; i++) {
        const double v = fmin(fmax((double)(planes[i % 3 * all + i / 3] * 255), 0), 255);
        assert_int_equal(((const uint8_t *)restored->data)[i], (int)nearbyint(v));
    }
}

typedef struct answer {
    stoke_image restored;
    float *planes;
    size_t bytes; /* of the planes */
    stoke_prediction about;
} answer;

static answer restore(stoke_predictor *p, const stoke_image *image)
{
    const uint32_t scale = stoke_predictor_about(p).plan->scale;
    const uint32_t width = image->width * scale, height = image->height * scale;
    answer a = { .restored = { malloc((size_t)width * height * 3), (size_t)width * 3, width, height, 3, 1 },
                 .bytes = (size_t)width * height * 3 * sizeof(float) };
    a.planes = malloc(a.bytes);
    OK(stoke_predictor_restore(p, image, &a.restored, a.planes, &a.about, NULL, NULL, &err));
    assert_int_equal(a.about.windows, stoke_predictor_plan(p, image->width, image->height).windows);
    check_bytes(&a.restored, a.planes);
    return a;
}

static void free_answer(answer *a)
{
    free(a->restored.data), free(a->planes);
}

static void assert_close(const answer *a, const float *wanted, double tolerance)
{
    const size_t width = a->restored.width, all = width * a->restored.height;
    for (size_t i = 0; i < 3 * all; i++)
        if (!(fabs((double)a->planes[i] - (double)wanted[i]) <= tolerance))
            fail_msg("plane %zu, (%zu, %zu) of %zu x %zu: %.9g, not %.9g", i / all, i % all % width,
                     i % all / width, width, all / width, (double)a->planes[i], (double)wanted[i]);
}

/* ---- tiles that know what they need to see ---- */

static void check_exact(stoke_predictor *p, const char *folder, int precision, double tolerance,
                        uint32_t width, uint32_t height, uint8_t depth)
{
    const stoke_image image = make_picture(width, height, depth);
    float *wanted = whole(folder, &image, precision, 0);
    answer a = restore(p, &image);
    assert_int_equal(a.about.windows == 1, width <= TILE && height <= TILE + 4);
    assert_close(&a, wanted, a.about.windows == 1 ? 0 : tolerance);
    free_answer(&a);
    free(wanted), free(image.data);
}

/* One pass over the whole to rounding, of any size, in both directions; a single tile is that pass. */
static void tiles_do_not_show(void **state)
{
    static const uint32_t sizes[][2] = { { 1, 1 },        { 2, 3 },    { TILE, TILE + 4 }, { TILE + 1, 5 },
                                         { 7, TILE + 5 }, { 97, 83 },  { 98, 81 },         { 99, 84 },
                                         { 100, 82 },     { 203, 37 }, { 31, 150 },        { TILE, 64 } };
    for (uint32_t scale = 1; scale <= 3; scale += scale) {
        const char *folder = write_restorer(state, scale == 1 ? "one" : "two", "resnet", scale);
        stoke_predict_params params = settings(folder, STOKE_PREDICT_SLIDE);
        params.threads = 1 + scale;
        stoke_predictor *p = open_predictor(folder, TILE + 4, TILE, &params);
        assert_int_equal(stoke_predictor_about(p).plan->reach, REACH);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (!UNIT_SANITIZED || i < 6)
                check_exact(p, folder, STOKE_PRECISION_FP32, 2e-6, sizes[i][0], sizes[i][1], 1 + i % 3 / 2);
        stoke_predictor_close(&p);
    }
}

static void tiles_do_not_show_in_16_bits(void **state)
{
    const char *folder = write_restorer(state, "net", "resnet", 2);
    for (int precision = STOKE_PRECISION_BF16; precision <= STOKE_PRECISION_FP16; precision++) {
        stoke_predict_params params = settings(folder, STOKE_PREDICT_AUTO);
        params.precision = precision;
        stoke_predictor *p = open_predictor(folder, TILE + 4, TILE, &params);
        check_exact(p, folder, precision, 1e-2, 75, 62, 1);
        stoke_predictor_close(&p);
    }
}

static void mirror_images_are_averaged(void **state)
{
    const char *folder = write_restorer(state, "net", "resnet", 2);
    const stoke_image image = make_picture(93, 70, 1);
    stoke_predict_params params = settings(folder, STOKE_PREDICT_AUTO);
    params.flip = 1;
    stoke_predictor *p = open_predictor(folder, TILE, TILE, &params);
    float *own = whole(folder, &image, STOKE_PRECISION_FP32, 0);
    float *other = whole(folder, &image, STOKE_PRECISION_FP32, 1);
    answer a = restore(p, &image);
    for (size_t i = 0; i < a.bytes / sizeof(float); i++) own[i] = 0.5f * (own[i] + other[i]);
    assert_close(&a, own, 2e-6);
    free_answer(&a);
    free(own), free(other), free(image.data);
    stoke_predictor_close(&p);
}

/* ---- tiles that are blended ---- */

/* A picture of a tile's size is one pass; of a larger one each pixel lies between what the tiles over it say.
 * Tiles of 64 over 109 + 3 pixels begin at 0 and 48: the seam is the 16 pixels that both see. */
static void a_unet_is_blended(void **state)
{
    enum { WIDE = 109, HIGH = 50, STARTS = 2, NEXT = 48 };
    const char *folder = write_restorer(state, "net", "unet", 1);
    stoke_predictor *p = open_predictor(folder, 64, 64, NULL);
    const stoke_image square = make_picture(48, 64, 1), image = make_picture(WIDE, HIGH, 1);
    float *wanted = whole(folder, &square, STOKE_PRECISION_FP32, 0), *tile[STARTS];
    answer a = restore(p, &square);
    assert_int_equal(a.about.windows, 1);
    assert_memory_equal(a.planes, wanted, a.bytes);
    free_answer(&a);
    a = restore(p, &image);
    assert_int_equal(a.about.windows, STARTS);
    for (uint32_t t = 0; t < STARTS; t++) { /* with the mirror image beyond the picture */
        stoke_image part = make_picture(64, 64, 1);
        for (uint32_t y = 0; y < 64; y++)
            for (uint32_t x = 0; x < 64; x++) {
                uint32_t line = y, column = t * NEXT + x;
                if (line >= HIGH) line = 2 * (HIGH - 1) - line;
                if (column >= WIDE) column = 2 * (WIDE - 1) - column;
                memcpy((uint8_t *)part.data + 3 * (y * 64 + x),
                       (const uint8_t *)image.data + 3 * (line * WIDE + column), 3);
            }
        tile[t] = whole(folder, &part, STOKE_PRECISION_FP32, 0);
        free(part.data);
    }
    for (size_t c = 0; c < 3; c++)
        for (uint32_t y = 0; y < HIGH; y++)
            for (uint32_t x = 0; x < WIDE; x++) {
                const double right = fmin(fmax(((double)x - NEXT + 0.5) / 16, 0), 1);
                const double left_value = x < 64 ? (double)tile[0][(c * 64 + y) * 64 + x] : 0;
                const double right_value = x >= NEXT ? (double)tile[1][(c * 64 + y) * 64 + x - NEXT] : 0;
                const double value = (1 - right) * left_value + right * right_value;
                const double got = (double)a.planes[(c * HIGH + y) * WIDE + x];
                if (!(fabs(got - value) < 1e-6)) fail_msg("(%u, %u): %.9g, not %.9g", x, y, got, value);
            }
    free_answer(&a);
    for (uint32_t t = 0; t < STARTS; t++) free(tile[t]);
    free(wanted), free(square.data), free(image.data);
    stoke_predictor_close(&p);
}

/* Where every tile says the same, so does the blend, however many there are in both directions. */
static void blends_add_up_to_one(void **state)
{
    static const uint32_t sizes[][2] = { { 1, 1 }, { 400, 65 }, { 81, 333 }, { 129, 130 }, { 113, 17 } };
    const char *folder = unit_path(state, "net");
    stoke_net_params params = stoke_net_defaults();
    stoke_net_tensor t;
    stoke_net *net;
    params.model = "unet";
    params.task = STOKE_TASK_RESTORE;
    params.base_channels = 4;
    params.height = params.width = 64;
    params.training = 0;
    OK(stoke_net_open(&net, &params, &err));
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++)
        for (size_t k = 0; strncmp(t.name, "tail.", 5) == 0 && k < t.count; k++)
            t.values[k] = t.dims == 1 ? 0.25f * (float)(k + 1) : 0;
    stoke_net_touched(net);
    OK(stoke_net_save(net, folder, 0, &err));
    stoke_net_close(&net);
    stoke_predictor *p = open_predictor(folder, 64, 80, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const stoke_image image = make_picture(sizes[i][0], sizes[i][1], 1);
        answer a = restore(p, &image);
        const size_t pixels = (size_t)image.width * image.height;
        for (size_t k = 0; k < 3 * pixels; k++)
            assert_true(fabsf(a.planes[k] - 0.25f * (float)(k / pixels + 1)) < 1e-6f);
        free_answer(&a);
        free(image.data);
    }
    stoke_predictor_close(&p);
}

/* ---- what is refused ---- */

static int stop_at_third(void *context, uint64_t done, uint64_t total)
{
    *(uint64_t *)context = total;
    return done >= 3;
}

static void what_is_refused(void **state)
{
    const char *folder = write_restorer(state, "net", "resnet", 2);
    stoke_predict_params params = settings(folder, STOKE_PREDICT_RESIZE);
    const stoke_image image = make_picture(100, 90, 1);
    stoke_image mask = make_mask(200, 180, 1), wrong = mask;
    stoke_predictor *p;
    assert_int_equal(stoke_predictor_open(&p, &params, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "resize"));
    params.mode = STOKE_PREDICT_AUTO;
    params.size[0] = params.size[1] = 2 * REACH + 7;
    assert_int_equal(stoke_predictor_open(&p, &params, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "20 x 20 at least"));
    p = open_predictor(folder, TILE, TILE, NULL);
    assert_int_equal(stoke_predictor_run(p, &image, &mask, NULL, NULL, NULL, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "stoke_predictor_restore"));
    assert_int_equal(stoke_predictor_restore(p, &image, &mask, NULL, NULL, NULL, NULL, &err), STOKE_E_SIZE);
    wrong = image;
    wrong.width = STK_PREDICT_SIDE / 2 + 1;
    assert_int_equal(stoke_predictor_restore(p, &wrong, NULL, NULL, NULL, NULL, NULL, &err), STOKE_E_LIMIT);
    wrong = image;
    wrong.channels = 1;
    assert_int_equal(stoke_predictor_restore(p, &wrong, NULL, NULL, NULL, NULL, NULL, &err), STOKE_E_INVALID);
    uint64_t total = 0;
    assert_int_equal(stoke_predictor_restore(p, &image, NULL, NULL, NULL, stop_at_third, &total, &err),
                     STOKE_E_CANCELLED);
    assert_true(total > 9);
    stoke_predictor_close(&p);
    p = open_predictor(write_network(state, "b0", CLASSES), 0, 0, NULL);
    assert_int_equal(stoke_predictor_restore(p, &image, NULL, NULL, NULL, NULL, NULL, &err), STOKE_E_INVALID);
    stoke_predictor_close(&p);
    free(image.data), free(mask.data);
}

/* ---- many files ---- */

typedef struct taken {
    stoke_image wanted[3];
    int count;
} taken;

static int take_restored(void *context, const stoke_predicted *predicted, stoke_error *error)
{
    taken *t = context;
    (void)error;
    const stoke_image *wanted = &t->wanted[predicted->index];
    assert_int_equal(predicted->status, STOKE_OK);
    assert_null(predicted->mask);
    assert_int_equal(predicted->restored->width, wanted->width);
    assert_int_equal(predicted->restored->height, wanted->height);
    assert_memory_equal(predicted->restored->data, wanted->data, wanted->stride * wanted->height);
    __atomic_add_fetch(&t->count, 1, __ATOMIC_RELAXED);
    return STOKE_OK;
}

static void files_are_restored(void **state)
{
    static const uint32_t sizes[][2] = { { 130, 60 }, { 5, 7 }, { 61, 62 } };
    const char *folder = write_restorer(state, "net", "resnet", 2);
    stoke_predictor *p = open_predictor(folder, TILE, TILE, NULL);
    const stoke_data_params data = stoke_data_defaults();
    stoke_sample files[3] = { { 0 } };
    taken t = { 0 };
    for (int i = 0; i < 3; i++) {
        const stoke_image image = make_picture(sizes[i][0], sizes[i][1], 1);
        char name[16];
        snprintf(name, sizeof name, "%d.png", i);
        const char *path = unit_path(state, name);
        files[i] =
            (stoke_sample){ .name = path, .image_path = path, .image = { .path = path, .size = UINT64_MAX } };
        OK(stoke_image_write_png(files[i].image_path, &image, &err));
        answer a = restore(p, &image);
        t.wanted[i] = a.restored;
        free(a.planes), free(image.data);
    }
    stoke_predict_job job = stoke_predict_job_defaults();
    stoke_predict_report report;
    job.files = files;
    job.count = 3;
    job.data = &data;
    job.predicted = take_restored;
    job.context = &t;
    OK(stoke_predict_files(p, &job, &report, &err));
    assert_int_equal(t.count, 3);
    assert_int_equal(report.done, 3);
    stoke_labels *labels;
    OK(stoke_labels_create(&labels, NULL, 0, -1, &err));
    job.labels = labels;
    assert_int_equal(stoke_predict_files(p, &job, &report, &err), STOKE_E_INVALID);
    stoke_labels_destroy(&labels);
    for (int i = 0; i < 3; i++) free(t.wanted[i].data);
    stoke_predictor_close(&p);
}

/* ---- networks that change their size ---- */

static void forward(stoke_net *net, const float *rows, stoke_logits *logits)
{
    const stoke_net_params *params = stoke_net_params_used(net);
    const size_t floats = 3 * (size_t)params->height * params->width;
    const stoke_net_batch batch = {
        .count = 2, .images = rows, .layout = STOKE_LAYOUT_CHW, .image_row_floats = floats
    };
    OK(stoke_net_forward(net, &batch, logits, &err));
}

static void a_network_changes_its_size(void **state)
{
    static const char *const models[] = { "b0", "resnet", "unet" };
    static const uint32_t sizes[][2] = { { 64, 48 }, { 32, 32 }, { 96, 128 }, { 64, 48 } };
    float *rows = malloc(2 * 3 * 96 * 128 * sizeof *rows);
    for (size_t i = 0; i < 2 * 3 * 96 * 128; i++) rows[i] = (float)noise(i);
    for (int m = 0; m < 3; m++) {
        stoke_net_params params = stoke_net_defaults();
        stoke_net *net, *other;
        stoke_logits got, wanted;
        params.weights = write_model(state, models[m], models[m], CLASSES);
        params.training = 0;
        params.batch = 2;
        params.height = params.width = SIDE;
        OK(stoke_net_open(&net, &params, &err));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            params.height = sizes[i][0], params.width = sizes[i][1];
            OK(stoke_net_open(&other, &params, &err));
            OK(stoke_net_resize(net, sizes[i][0], sizes[i][1], &err));
            forward(net, rows, &got);
            forward(other, rows, &wanted);
            assert_int_equal(got.height, wanted.height);
            const size_t pixels = 2 * (size_t)got.height * got.width;
            for (size_t k = 0; k < pixels; k++)
                assert_memory_equal(got.data + k * got.stride, wanted.data + k * got.stride,
                                    CLASSES * sizeof(float));
            stoke_net_close(&other);
        }
        stoke_net_close(&net);
    }
    free(rows);
}

/* Without memory for the larger size it keeps the one it has. */
static void a_network_keeps_its_size(void **state)
{
    static float rows[2 * 3 * SIDE * SIDE];
    stoke_net_params params = stoke_net_defaults();
    stoke_net *net;
    stoke_logits logits;
    params.weights = write_model(state, "net", "resnet", CLASSES);
    params.batch = 2;
    params.height = params.width = SIDE;
    OK(stoke_net_open(&net, &params, &err));
    assert_int_equal(stoke_net_resize(net, 32, 32, &err), STOKE_E_STATE);
    stoke_net_close(&net);
    params.training = 0;
    OK(stoke_net_open(&net, &params, &err));
    forward(net, rows, &logits);
    float first[CLASSES];
    memcpy(first, logits.data, sizeof first);
    assert_int_equal(stoke_net_resize(net, 0, 32, &err), STOKE_E_INVALID);
    int64_t after = 0;
    for (int status = -1; status; after++) {
        stk_mem_fail_after(after);
        status = stoke_net_resize(net, 256, 256, &err);
        stk_mem_fail_after(-1);
        if (!status) break;
        assert_int_equal(status, STOKE_E_NOMEM);
        if (stoke_net_params_used(net)->height != SIDE) fail_msg("after %lld", (long long)after);
        OK(stoke_net_resize(net, SIDE / 2, SIDE, &err)); /* where even the way back had no memory */
        OK(stoke_net_resize(net, SIDE, SIDE, &err));
        forward(net, rows, &logits);
        assert_memory_equal(logits.data, first, sizeof first);
    }
    assert_true(after > 1);
    stoke_net_close(&net);
}

UNIT_GROUP(predict_restore)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(tiles_do_not_show),
        unit_test_with_folder(tiles_do_not_show_in_16_bits),
        unit_test_with_folder(mirror_images_are_averaged),
        unit_test_with_folder(a_unet_is_blended),
        unit_test_with_folder(blends_add_up_to_one),
        unit_test_with_folder(what_is_refused),
        unit_test_with_folder(files_are_restored),
        unit_test_with_folder(a_network_changes_its_size),
        unit_test_with_folder(a_network_keeps_its_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
