/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction against an oracle that takes the network's logits and does the rest its own way, in double:
 * every window over the whole picture, every pixel from its four neighbours, every probability from its
 * definition.
 */
#include <stoke/tools/predict.h>
#include "tests/unit/fixture_predict.h"

#include "src/base/mem.h"
#include "src/pix/pix.h"
#include "src/train/predict.h"

/* ---- the oracle ---- */

typedef struct oracle {
    stoke_net *net;
    uint32_t classes;
    uint32_t stride, unit, grid; /* of logits, of windows; logits along SIDE */
    int flip;
    const uint32_t (*swap)[2];
    size_t n_swap;
} oracle;

static oracle open_oracle(const char *folder)
{
    stoke_net_params params = stoke_net_defaults();
    oracle o = { 0 };
    params.weights = folder;
    params.height = params.width = SIDE;
    params.training = 0;
    params.threads = 2;
    params.precision = STOKE_PRECISION_FP32;
    OK(stoke_net_open(&o.net, &params, &err));
    const stoke_net_plan *plan = stoke_net_plan_used(o.net);
    o.classes = plan->classes;
    o.stride = plan->stride;
    o.unit = plan->stride > plan->side_multiple ? plan->stride : plan->side_multiple;
    o.grid = SIDE / o.stride;
    return o;
}

/* Logits of one picture of the network's size, [grid][grid][classes]. */
static void view_logits(const oracle *o, const stoke_image *pixels, int mirrored, double *out)
{
    const double mean[3] = { 0.485, 0.456, 0.406 }, deviation[3] = { 0.229, 0.224, 0.225 };
    static float row[3 * SIDE * SIDE];
    stoke_logits logits;
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const uint8_t *line = (const uint8_t *)pixels->data + (size_t)y * pixels->stride;
                const int from = 3 * (mirrored ? SIDE - 1 - x : x) + c;
                const double v = pixels->depth == 1 ? line[from] / 255.0
                                                    : ((const uint16_t *)(const void *)line)[from] / 65535.0;
                row[(c * SIDE + y) * SIDE + x] = (float)((v - mean[c]) / deviation[c]);
            }
    const stoke_net_batch batch = {
        .count = 1, .images = row, .layout = STOKE_LAYOUT_CHW, .image_row_floats = 3 * SIDE * SIDE
    };
    OK(stoke_net_forward(o->net, &batch, &logits, &err));
    for (uint32_t y = 0; y < o->grid; y++)
        for (uint32_t x = 0; x < o->grid; x++)
            for (uint32_t k = 0; k < o->classes; k++)
                out[(y * o->grid + x) * o->classes + k] =
                    logits.data[((size_t)y * o->grid + (mirrored ? o->grid - 1 - x : x)) * logits.stride + k];
}

static double probability(const double *logits, uint32_t classes, uint32_t k)
{
    double sum = 0;
    if (classes == 1) return 1 / (1 + exp(-logits[0]));
    for (uint32_t i = 0; i < classes; i++) sum += exp(logits[i] - logits[k]);
    return 1 / sum;
}

static uint32_t mirror_class(const oracle *o, uint32_t k)
{
    for (size_t i = 0; i < o->n_swap; i++) {
        if (o->swap[i][0] == k) return o->swap[i][1];
        if (o->swap[i][1] == k) return o->swap[i][0];
    }
    return k;
}

/* The same with the mirror image's probabilities averaged in. */
static void item_logits(const oracle *o, const stoke_image *pixels, double *out)
{
    view_logits(o, pixels, 0, out);
    if (!o->flip) return;
    double *other = malloc((size_t)o->grid * o->grid * o->classes * sizeof *other), both[CLASSES];
    view_logits(o, pixels, 1, other);
    for (size_t i = 0; i < (size_t)o->grid * o->grid; i++) {
        double *own = out + i * o->classes;
        for (uint32_t k = 0; k < o->classes; k++)
            both[k] = (probability(own, o->classes, k) +
                       probability(other + i * o->classes, o->classes, mirror_class(o, k))) /
                      2;
        for (uint32_t k = 0; k < o->classes; k++)
            own[k] = o->classes == 1 ? log(both[0] / (1 - both[0])) : log(both[k]);
    }
    free(other);
}

/* One pixel of a grid interpolated to height x width. */
static double between(const double *grid, uint32_t gh, uint32_t gw, uint32_t classes, double height,
                      double width, uint32_t y, uint32_t x, uint32_t k)
{
    double fy = (y + 0.5) * gh / height - 0.5, fx = (x + 0.5) * gw / width - 0.5;
    fy = fy < 0 ? 0 : fy;
    fx = fx < 0 ? 0 : fx;
    const uint32_t y0 = (uint32_t)fy, x0 = (uint32_t)fx;
    const uint32_t y1 = y0 + 1 < gh ? y0 + 1 : y0, x1 = x0 + 1 < gw ? x0 + 1 : x0;
    const double sy = fy - y0, sx = fx - x0;
#define AT(line, column) grid[((size_t)(line)*gw + (column)) * classes + k]
    return (1 - sy) * ((1 - sx) * AT(y0, x0) + sx * AT(y0, x1)) +
           sy * ((1 - sx) * AT(y1, x0) + sx * AT(y1, x1));
#undef AT
}

static uint32_t mask_at(const stoke_image *mask, uint32_t x, uint32_t y)
{
    const uint8_t *row = (const uint8_t *)mask->data + y * mask->stride;
    return mask->depth == 1 ? row[x] : ((const uint16_t *)(const void *)row)[x];
}

/* Every pixel has the class with the largest logit, up to rounding; and several classes occur. height and
 * width are those the grid stands for: the picture's, or more. */
static void assert_mask(const stoke_image *mask, const double *grid, uint32_t gh, uint32_t gw,
                        uint32_t classes, double height, double width)
{
    uint64_t seen[CLASSES + 1] = { 0 };
    uint32_t kinds = 0;
    for (uint32_t y = 0; y < mask->height; y++)
        for (uint32_t x = 0; x < mask->width; x++) {
            const uint32_t got = mask_at(mask, x, y);
            double most = -INFINITY, own = 0;
            if (classes == 1) {
                most = between(grid, gh, gw, 1, height, width, y, x, 0);
                assert_true(got <= 1);
                if (fabs(most) > 1e-4) assert_int_equal(got, most > 0);
                seen[got]++;
                continue;
            }
            assert_true(got < classes);
            for (uint32_t k = 0; k < classes; k++) {
                const double v = between(grid, gh, gw, classes, height, width, y, x, k);
                if (v > most) most = v;
                if (k == got) own = v;
            }
            if (own < most - 1e-4) fail_msg("(%u, %u): class %u has %g, another %g", x, y, got, own, most);
            seen[got]++;
        }
    for (uint32_t k = 0; k <= CLASSES; k++) kinds += seen[k] > 0;
    assert_true(kinds >= 2);
}

static double mean_confidence(const double *grid, size_t stride, size_t lines, size_t columns,
                              uint32_t classes)
{
    double sum = 0;
    for (size_t i = 0; i < lines * columns; i++) {
        const double *at = grid + (i / columns * stride + i % columns) * classes;
        double most = 0;
        for (uint32_t k = 0; k < classes; k++) most = fmax(most, probability(at, classes, k));
        if (classes == 1) most = fmax(most, 1 - most);
        sum += most;
    }
    return sum / (double)(lines * columns);
}

/* ... 2 1 | 0 1 2 | 1 0 1 ... by walking. */
static uint32_t walk(uint32_t at, uint32_t size)
{
    uint32_t place = 0;
    int step = 1;
    while (at--) {
        if (size == 1) return 0;
        if (place == size - 1) step = -1;
        if (place == 0 && step < 0) step = 1;
        place = (uint32_t)((int)place + step);
    }
    return place;
}

/* Logits of all windows over the whole picture, averaged; the size of the continued picture in *gh, *gw. */
static double *slide_oracle(const oracle *o, const stoke_image *image, double overlap, uint32_t *gh,
                            uint32_t *gw, uint64_t *windows)
{
    const uint32_t unit = o->unit;
    uint32_t height = (image->height + unit - 1) / unit * unit;
    uint32_t width = (image->width + unit - 1) / unit * unit;
    height = height < SIDE ? SIDE : height;
    width = width < SIDE ? SIDE : width;
    *gh = height / o->stride, *gw = width / o->stride, *windows = 0;
    double *sums = calloc((size_t)*gh * *gw * o->classes, sizeof *sums);
    double *counts = calloc((size_t)*gh * *gw, sizeof *counts);
    double *own = malloc((size_t)o->grid * o->grid * o->classes * sizeof *own);
    uint8_t *window = malloc(SIDE * SIDE * 3);
    const uint32_t step = (uint32_t)(SIDE * (1 - overlap)) / unit * unit;
    const stoke_image pixels = { window, SIDE * 3, SIDE, SIDE, 3, 1 };
    for (uint32_t top = 0, last_y = 0; !last_y; top += step)
        for (uint32_t left = 0, last_x = 0; !last_x; left += step) {
            const uint32_t y0 = top + SIDE < height ? top : height - SIDE;
            const uint32_t x0 = left + SIDE < width ? left : width - SIDE;
            last_y = top + SIDE >= height, last_x = left + SIDE >= width;
            for (uint32_t y = 0; y < SIDE; y++)
                for (uint32_t x = 0; x < SIDE; x++)
                    memcpy(window + (y * SIDE + x) * 3,
                           (uint8_t *)image->data + walk(y0 + y, image->height) * image->stride +
                               walk(x0 + x, image->width) * 3,
                           3);
            item_logits(o, &pixels, own);
            ++*windows;
            for (uint32_t y = 0; y < o->grid; y++)
                for (uint32_t x = 0; x < o->grid; x++) {
                    const size_t at = (size_t)(y0 / o->stride + y) * *gw + x0 / o->stride + x;
                    counts[at]++;
                    for (uint32_t k = 0; k < o->classes; k++)
                        sums[at * o->classes + k] += own[(y * o->grid + x) * o->classes + k];
                }
        }
    for (size_t i = 0; i < (size_t)*gh * *gw * o->classes; i++) sums[i] /= counts[i / o->classes];
    free(counts), free(own), free(window);
    return sums;
}

/* ---- tests ---- */

/* Of the network's own size nothing is left to do but what stoke_net_predict does; and a window over all of
 * it is the same. */
static void own_size_is_the_networks_answer(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    oracle o = open_oracle(folder);
    const stoke_image picture = make_picture(SIDE, SIDE, 1);
    stk_pix_writer writer;
    float *row = stk_alloc_aligned(3 * SIDE * SIDE * sizeof *row, 64);
    uint16_t *wanted = malloc(SIDE * SIDE * sizeof *wanted);
    stk_writer_init(&writer, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, STOKE_NORMALIZE_IMAGENET);
    stk_write_image(&writer, &picture, row, SIDE, SIDE, 0, 0, 0);
    const stoke_net_batch batch = {
        .count = 1, .images = row, .layout = STOKE_LAYOUT_CHW, .image_row_floats = 3 * SIDE * SIDE
    };
    OK(stoke_net_predict(o.net, &batch, wanted, &err));
    for (int mode = STOKE_PREDICT_AUTO; mode <= STOKE_PREDICT_SLIDE; mode++) {
        const stoke_predict_params params = settings(folder, mode);
        stoke_predictor *p;
        OK(stoke_predictor_open(&p, &params, &err));
        for (uint8_t depth = 1; depth <= 2; depth++) {
            stoke_prediction about;
            stoke_image mask = make_mask(SIDE, SIDE, depth);
            OK(stoke_predictor_run(p, &picture, &mask, &about, NULL, NULL, &err));
            for (uint32_t i = 0; i < SIDE * SIDE; i++)
                assert_int_equal(mask_at(&mask, i % SIDE, i / SIDE), wanted[i]);
            assert_int_equal(about.mode, mode == STOKE_PREDICT_SLIDE ? mode : STOKE_PREDICT_RESIZE);
            assert_int_equal(about.windows, 1);
            free(mask.data);
        }
        stoke_predictor_close(&p);
    }
    stk_free(row), free(wanted), free(picture.data);
    stoke_net_close(&o.net);
}

static void check_resized(const char *folder, const oracle *o, const char *augment, uint32_t width,
                          uint32_t height, uint8_t depth)
{
    stoke_predict_params params = settings(folder, STOKE_PREDICT_RESIZE);
    params.flip = o->flip;
    params.augment = augment;
    stoke_predictor *p;
    OK(stoke_predictor_open(&p, &params, &err));
    const stoke_image picture = make_picture(width, height, depth);
    stoke_image mask = make_mask(width, height, 1);
    stoke_image fitted = { malloc(SIDE * SIDE * 3 * depth), SIDE * 3 * depth, SIDE, SIDE, 3, depth };
    stk_pix_resizer *resizer = stk_resizer_create();
    stoke_prediction about;
    double *grid = malloc((size_t)o->grid * o->grid * o->classes * sizeof *grid);
    OK(stk_resize(resizer, &picture, &fitted, &err));
    item_logits(o, &fitted, grid);
    OK(stoke_predictor_run(p, &picture, &mask, &about, NULL, NULL, &err));
    assert_mask(&mask, grid, o->grid, o->grid, o->classes, height, width);
    assert_true(fabs(about.confidence - mean_confidence(grid, o->grid, o->grid, o->grid, o->classes)) < 1e-5);
    stk_resizer_destroy(&resizer);
    stoke_predictor_close(&p);
    free(picture.data), free(mask.data), free(fitted.data), free(grid);
}

static void resized_pictures(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    oracle o = open_oracle(folder);
    check_resized(folder, &o, NULL, 203, 97, 1);
    check_resized(folder, &o, NULL, 31, 40, 1);
    check_resized(folder, &o, NULL, 100, 81, 2);
    stoke_net_close(&o.net);
}

static void mirror_images(void **state)
{
    static const uint32_t pairs[][2] = { { 1, 3 } };
    const char *folder = write_network(state, "net", CLASSES);
    oracle o = open_oracle(folder);
    o.flip = 1;
    check_resized(folder, &o, NULL, 90, 71, 1);
    o.swap = pairs;
    o.n_swap = 1;
    check_resized(folder, &o, "hflip(p=0.5,swap=1-3,7-8)", 90, 71, 1);
    stoke_net_close(&o.net);
}

static void one_class(void **state)
{
    const char *folder = write_network(state, "net1", 1);
    oracle o = open_oracle(folder);
    for (o.flip = 0; o.flip < 2; o.flip++) check_resized(folder, &o, NULL, 90, 71, 1);
    stoke_net_close(&o.net);
}

static void check_windows(const char *folder, const oracle *o, uint32_t width, uint32_t height,
                          double overlap)
{
    stoke_predict_params params = settings(folder, STOKE_PREDICT_SLIDE);
    stoke_predictor *p;
    stoke_prediction about;
    uint32_t gh, gw;
    uint64_t windows;
    params.overlap = overlap;
    params.flip = o->flip;
    OK(stoke_predictor_open(&p, &params, &err));
    const stoke_image picture = make_picture(width, height, 1);
    stoke_image mask = make_mask(width, height, 1);
    double *grid = slide_oracle(o, &picture, overlap, &gh, &gw, &windows);
    OK(stoke_predictor_run(p, &picture, &mask, &about, NULL, NULL, &err));
    assert_int_equal(about.mode, STOKE_PREDICT_SLIDE);
    assert_int_equal(about.windows, windows);
    assert_int_equal(stoke_predictor_plan(p, width, height).windows, windows);
    assert_mask(&mask, grid, gh, gw, o->classes, gh * o->stride, gw * o->stride);
    const double sure = mean_confidence(grid, gw, (height + o->stride - 1) / o->stride,
                                        (width + o->stride - 1) / o->stride, o->classes);
    assert_true(fabs(about.confidence - sure) < 1e-5);
    stoke_predictor_close(&p);
    free(picture.data), free(mask.data), free(grid);
}

static void windows_over_pictures(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    oracle o = open_oracle(folder);
    check_windows(folder, &o, 40, 90, 0.5); /* narrower than a window */
    check_windows(folder, &o, 21, 9, 0.5);  /* many times smaller */
    if (!UNIT_SANITIZED) {
        check_windows(folder, &o, 110, 141, 0.5);
        check_windows(folder, &o, 130, 70, 0);
        check_windows(folder, &o, 141, 64, 0.75); /* up to 4 windows over each other */
    }
    o.flip = 1;
    check_windows(folder, &o, 99, 70, 0.5);
    stoke_net_close(&o.net);
}

/* Logits at full resolution, and windows that begin at multiples of 16. */
static void other_networks(void **state)
{
    static const char *const models[] = { "resnet", "unet" };
    for (int i = 0; i < 2; i++) {
        const char *folder = write_model(state, models[i], models[i], CLASSES);
        oracle o = open_oracle(folder);
        assert_int_equal(o.unit, i ? 16 : 1);
        check_resized(folder, &o, NULL, 103, 47, 1);
        check_windows(folder, &o, 21, 9, 0.5);
        check_windows(folder, &o, 110, 99, 0.3);
        o.flip = 1;
        check_windows(folder, &o, 99, 70, 0.5);
        stoke_net_close(&o.net);
    }
}

/* Neither how many windows go through the network at once nor the number of threads changes a bit. */
static void batches_do_not_show(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    const stoke_image picture = make_picture(150, 70, 1);
    stoke_image masks[3];
    double sure[3];
    for (uint32_t i = 0; i < 3; i++) {
        stoke_predict_params params = settings(folder, STOKE_PREDICT_SLIDE);
        stoke_predictor *p;
        stoke_prediction about;
        params.batch = 1 + 3 * i;
        params.threads = 1 + i;
        masks[i] = make_mask(150, 70, 1);
        OK(stoke_predictor_open(&p, &params, &err));
        OK(stoke_predictor_run(p, &picture, &masks[i], &about, NULL, NULL, &err));
        sure[i] = about.confidence;
        assert_memory_equal(masks[i].data, masks[0].data, 150 * 70);
        assert_true(sure[i] == sure[0]);
        stoke_predictor_close(&p);
    }
    for (int i = 0; i < 3; i++) free(masks[i].data);
    free(picture.data);
}

static int stop_at_third(void *context, uint64_t done, uint64_t total)
{
    *(uint64_t *)context = total;
    return done >= 3;
}

static void what_is_refused(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    stoke_predict_params params = settings(folder, STOKE_PREDICT_SLIDE);
    stoke_predictor *p;
    const stoke_image picture = make_picture(100, 80, 1);
    stoke_image mask = make_mask(100, 80, 1);
    params.size[0] = params.size[1] = 66;
    assert_int_equal(stoke_predictor_open(&p, &params, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "multiples of 4"));
    params.weights = write_model(state, "unet", "unet", CLASSES);
    assert_int_equal(stoke_predictor_open(&p, &params, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "multiples of 16"));
    params.weights = folder;
    params.size[0] = params.size[1] = 0;
    params.overlap = 0.95;
    assert_int_equal(stoke_predictor_open(&p, &params, &err), STOKE_E_INVALID);
    params.overlap = 0.5;
    params.batch = 1;
    OK(stoke_predictor_open(&p, &params, &err));
    stoke_image wrong = mask;
    wrong.height = 79;
    assert_int_equal(stoke_predictor_run(p, &picture, &wrong, NULL, NULL, NULL, &err), STOKE_E_SIZE);
    wrong = picture;
    wrong.channels = 1;
    assert_int_equal(stoke_predictor_run(p, &wrong, &mask, NULL, NULL, NULL, &err), STOKE_E_INVALID);
    uint64_t total = 0;
    assert_int_equal(stoke_predictor_run(p, &picture, &mask, NULL, stop_at_third, &total, &err),
                     STOKE_E_CANCELLED);
    assert_int_equal(total, 6);
    stoke_predictor_close(&p);
    free(picture.data), free(mask.data);
}

/* A few lines of a file can be millions of pixels wide: what windows over it would take is asked for, not
 * taken until the system kills us. */
static void too_wide_to_slide(void **state)
{
    enum { WIDE = 1 << 24 };
    const char *folder = write_network(state, "net", 150);
    stoke_predict_params params = settings(folder, STOKE_PREDICT_SLIDE);
    stoke_predictor *p;
    const stoke_image picture = { calloc(WIDE, 3), (size_t)WIDE * 3, WIDE, 1, 3, 1 };
    const stoke_image mask = { calloc(WIDE, 1), WIDE, WIDE, 1, 1, 1 };
    params.size[0] = 512; /* 330 GB */
    params.size[1] = 32;
    OK(stoke_predictor_open(&p, &params, &err));
    if (stoke_predictor_plan(p, WIDE, 1).bytes < stoke_machine_available()) {
        print_message("this machine has the memory: nothing is refused\n");
    } else {
        assert_int_equal(stoke_predictor_run(p, &picture, &mask, NULL, NULL, NULL, &err), STOKE_E_LIMIT);
        assert_non_null(strstr(err.message, "16777216 x 1"));
    }
    stoke_predictor_close(&p);
    free(picture.data), free(mask.data);
}

static void auto_slides_where_it_should(void **state)
{
    static const struct {
        const char *augment;
        uint32_t width, height;
        int mode;
    } cases[] = {
        { NULL, 400, 400, STOKE_PREDICT_RESIZE },     { "standard", 400, 400, STOKE_PREDICT_RESIZE },
        { "strong", 400, 400, STOKE_PREDICT_RESIZE }, /* random_resized_crop */
        { "crop", 400, 400, STOKE_PREDICT_SLIDE },    { "crop", 96, 96, STOKE_PREDICT_RESIZE },
        { "crop", 97, 40, STOKE_PREDICT_SLIDE },      { "medical", 40, 97, STOKE_PREDICT_SLIDE },
    };
    const char *folder = write_network(state, "net", CLASSES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_predict_params params = settings(folder, STOKE_PREDICT_AUTO);
        stoke_predictor *p;
        params.augment = cases[i].augment;
        OK(stoke_predictor_open(&p, &params, &err));
        assert_int_equal(stoke_predictor_plan(p, cases[i].width, cases[i].height).mode, cases[i].mode);
        stoke_predictor_close(&p);
    }
}

/* What stands beside the weights: sizes and normalisation, or nonsense. */
static void presets(void **state)
{
    static const struct {
        const char *text;
        uint32_t height, width;
        double deviation;
        int status;
    } cases[] = {
        { "{\"size\": {\"height\": 96, \"width\": 128}, \"image_mean\": [0.5, 0.5, 0.5], "
          "\"image_std\": [0.5, 0.25, 0.5]}",
          96, 128, 0.5, STOKE_OK },
        { "{\"size\": 512}", 512, 512, 0, STOKE_OK },
        { "{\"size\": {\"shortest_edge\": 512}}", 0, 0, 0, STOKE_OK },
        { "{}", 0, 0, 0, STOKE_OK },
        { "{\"image_mean\": null, \"image_std\": null}", 0, 0, 0, STOKE_OK },
        { "{\"size\": 4}", 4, 4, 0, STOKE_OK }, /* a network at full resolution takes any */
        { "{\"size\": 0}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"size\": 1e9}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"size\": {\"height\": 96, \"width\": \"wide\"}}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"image_mean\": [0.5, 0.5], \"image_std\": [1, 1, 1]}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"image_mean\": [0, 0, 0], \"image_std\": [1, 0, 1]}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"image_mean\": 3, \"image_std\": [1, 1, 1]}", 0, 0, 0, STOKE_E_FORMAT },
        { "{", 0, 0, 0, STOKE_E_FORMAT },
    };
    stk_predict_preset preset;
    OK(stk_preset_read(unit_folder(state), &preset, &err));
    assert_int_equal(preset.height, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unit_write(unit_path(state, "preprocessor_config.json"), cases[i].text, strlen(cases[i].text));
        assert_int_equal_or_say(stk_preset_read(unit_folder(state), &preset, &err), cases[i].status,
                                cases[i].text);
        if (cases[i].status) {
            assert_non_null(strstr(err.message, "preprocessor_config.json"));
            continue;
        }
        assert_int_equal(preset.height, cases[i].height);
        assert_int_equal(preset.width, cases[i].width);
        assert_true(preset.deviation[0] == cases[i].deviation);
    }
}

UNIT_GROUP(predict)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(own_size_is_the_networks_answer),
        unit_test_with_folder(resized_pictures),
        unit_test_with_folder(mirror_images),
        unit_test_with_folder(one_class),
        unit_test_with_folder(windows_over_pictures),
        unit_test_with_folder(other_networks),
        unit_test_with_folder(batches_do_not_show),
        unit_test_with_folder(what_is_refused),
        unit_test_with_folder(too_wide_to_slide),
        unit_test_with_folder(auto_slides_where_it_should),
        unit_test_with_folder(presets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
