/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction against an oracle that takes the network's logits and does the rest its own way, in double:
 * every window over the whole picture, every pixel from its four neighbours, every probability from its
 * definition.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <pthread.h>

#include <stoke/stoke.h>

#include "src/base/mem.h"
#include "src/pix/pix.h"
#include "src/train/picture.h"
#include "src/train/predict.h"

enum { SIDE = 64, GRID = SIDE / 4, CLASSES = 5 };

static stoke_error err;

#define OK(call) assert_int_equal_or_say((call), STOKE_OK, #call)
static void assert_int_equal_or_say(int got, int wanted, const char *what)
{
    if (got != wanted) print_message("%s: %d, %s\n", what, got, err.message);
    assert_int_equal(got, wanted);
}

/* -1 to 1, of a number (splitmix64's finaliser). */
static double noise(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (double)((x ^ (x >> 31)) >> 11) / (1ull << 52) - 1;
}

/* A network whose masks are not all one class: first values are too small for that. */
static const char *write_network(void **state, const char *name, uint32_t classes)
{
    const char *folder = unit_path(state, name);
    stoke_net_params params = stoke_net_defaults();
    stoke_net *net;
    stoke_net_tensor t;
    params.model = "b0";
    params.classes = classes;
    params.height = params.width = SIDE;
    params.training = 0;
    params.threads = 2;
    params.precision = STOKE_PRECISION_FP32;
    OK(stoke_net_open(&net, &params, &err));
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++) {
        const float factor = t.dims == 1 ? 1 : t.dims == 4 && t.shape[1] == 1 ? 20 : 2.5f;
        for (size_t k = 0; k < t.count; k++)
            t.values[k] = factor * t.values[k] + (t.dims == 1 ? 0.2f * (float)noise(i * 65536 + k) : 0);
        if (strstr(t.name, "running_var"))
            for (size_t k = 0; k < t.count; k++) t.values[k] = 1 + fabsf(t.values[k]);
    }
    stoke_net_touched(net);
    OK(stoke_net_save(net, folder, 0, &err));
    stoke_net_close(&net);
    return folder;
}

/* Blobs and stripes, so that there is something to see at every scale. */
static stoke_image make_picture(uint32_t width, uint32_t height, uint8_t depth)
{
    stoke_image image = {
        malloc((size_t)width * height * 3 * depth), (size_t)width * 3 * depth, width, height, 3, depth
    };
    for (size_t i = 0; i < (size_t)width * height * 3; i++) {
        const double x = (double)(i / 3 % width), y = (double)(i / 3 / width), c = (double)(i % 3);
        const double v = 128 + 90 * sin(x / (5 + c)) * cos(y / 7 + c) + 30 * noise(i);
        if (depth == 1)
            ((uint8_t *)image.data)[i] = (uint8_t)v;
        else
            ((uint16_t *)image.data)[i] = (uint16_t)(v * 257);
    }
    return image;
}

static stoke_image make_mask(uint32_t width, uint32_t height, uint8_t depth)
{
    return (stoke_image){
        malloc((size_t)width * height * depth), (size_t)width * depth, width, height, 1, depth
    };
}

static stoke_predict_params settings(const char *folder, int mode)
{
    stoke_predict_params params = stoke_predict_defaults();
    params.weights = folder;
    params.mode = mode;
    params.batch = 3;
    params.threads = 2;
    params.precision = STOKE_PRECISION_FP32;
    params.confidence = 1;
    return params;
}

/* ---- the oracle ---- */

typedef struct oracle {
    stoke_net *net;
    uint32_t classes;
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
    o.classes = stoke_net_plan_used(o.net)->classes;
    return o;
}

/* Logits of one picture of the network's size, [GRID][GRID][classes]. */
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
    for (int y = 0; y < GRID; y++)
        for (int x = 0; x < GRID; x++)
            for (uint32_t k = 0; k < o->classes; k++)
                out[(y * GRID + x) * o->classes + k] =
                    logits.data[((size_t)y * GRID + (mirrored ? GRID - 1 - x : x)) * logits.stride + k];
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
    double *other = malloc(GRID * GRID * o->classes * sizeof *other), both[CLASSES];
    view_logits(o, pixels, 1, other);
    for (size_t i = 0; i < GRID * GRID; i++) {
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
    uint32_t height = (image->height + 3) / 4 * 4, width = (image->width + 3) / 4 * 4;
    height = height < SIDE ? SIDE : height;
    width = width < SIDE ? SIDE : width;
    *gh = height / 4, *gw = width / 4, *windows = 0;
    double *sums = calloc((size_t)*gh * *gw * o->classes, sizeof *sums);
    double *counts = calloc((size_t)*gh * *gw, sizeof *counts);
    double *own = malloc(GRID * GRID * o->classes * sizeof *own);
    uint8_t *window = malloc(SIDE * SIDE * 3);
    const uint32_t step = (uint32_t)(SIDE * (1 - overlap)) / 4 * 4;
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
            for (uint32_t y = 0; y < GRID; y++)
                for (uint32_t x = 0; x < GRID; x++) {
                    const size_t at = (size_t)(y0 / 4 + y) * *gw + x0 / 4 + x;
                    counts[at]++;
                    for (uint32_t k = 0; k < o->classes; k++)
                        sums[at * o->classes + k] += own[(y * GRID + x) * o->classes + k];
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
    stk_writer writer;
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
    stk_resizer *resizer = stk_resizer_create();
    stoke_prediction about;
    double *grid = malloc(GRID * GRID * o->classes * sizeof *grid);
    OK(stk_resize(resizer, &picture, &fitted, &err));
    item_logits(o, &fitted, grid);
    OK(stoke_predictor_run(p, &picture, &mask, &about, NULL, NULL, &err));
    assert_mask(&mask, grid, GRID, GRID, o->classes, height, width);
    assert_true(fabs(about.confidence - mean_confidence(grid, GRID, GRID, GRID, o->classes)) < 1e-5);
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
    assert_mask(&mask, grid, gh, gw, o->classes, gh * 4, gw * 4);
    const double sure = mean_confidence(grid, gw, (height + 3) / 4, (width + 3) / 4, o->classes);
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
        { "{\"size\": 4}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"size\": 1e9}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"size\": {\"height\": 96, \"width\": \"wide\"}}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"image_mean\": [0.5, 0.5], \"image_std\": [1, 1, 1]}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"image_mean\": [0, 0, 0], \"image_std\": [1, 0, 1]}", 0, 0, 0, STOKE_E_FORMAT },
        { "{\"image_mean\": 3, \"image_std\": [1, 1, 1]}", 0, 0, 0, STOKE_E_FORMAT },
        { "{", 0, 0, 0, STOKE_E_FORMAT },
    };
    stk_preset preset;
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

/* ---- many files ---- */

enum { FILES = 7, BAD = 4 };

typedef struct results {
    pthread_mutex_t lock;
    uint32_t calls[FILES];
    stoke_image masks[FILES];
    int with_image, fail_at, stop_after;
    uint64_t done;
} results;

static int take_result(void *context, const stoke_predicted *predicted, stoke_error *error)
{
    results *r = context;
    pthread_mutex_lock(&r->lock);
    const uint64_t i = predicted->index;
    r->calls[i]++;
    r->done++;
    r->with_image += predicted->image != NULL;
    if (predicted->status) {
        assert_int_equal(i, BAD);
        assert_non_null(strstr(predicted->message, "4.png"));
        assert_null(predicted->mask);
    } else {
        const stoke_image *mask = predicted->mask;
        r->masks[i] = make_mask(mask->width, mask->height, mask->depth);
        memcpy(r->masks[i].data, mask->data, mask->stride * mask->height);
        if (predicted->image) assert_int_equal(predicted->image->width, mask->width);
    }
    const int failed = r->fail_at && r->done == (uint64_t)r->fail_at;
    pthread_mutex_unlock(&r->lock);
    if (!failed) return STOKE_OK;
    *error = (stoke_error){ STOKE_E_IO, "the disk is full" };
    return STOKE_E_IO;
}

static int count_result(void *context, const stoke_predicted *predicted, stoke_error *error)
{
    (void)context, (void)error;
    assert_true(predicted->status || predicted->mask->data);
    return STOKE_OK;
}

static int watch(void *context, uint64_t done, uint64_t total)
{
    const results *r = context;
    assert_int_equal(total, FILES);
    return r->stop_after && done >= (uint64_t)r->stop_after;
}

static void clear(results *r)
{
    for (int i = 0; i < FILES; i++) free(r->masks[i].data);
    pthread_mutex_destroy(&r->lock);
    *r = (results){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

/* Pictures of many sizes, one of 16 bits, one that is none. Pixels of the same file in *pictures. */
static void write_pictures(void **state, stoke_sample *files, stoke_image *pictures)
{
    static char names[FILES][16], paths[FILES][4096];
    for (uint32_t i = 0; i < FILES; i++) {
        snprintf(names[i], sizeof names[i], "%u", i);
        snprintf(paths[i], sizeof paths[i], "%s/%u.png", unit_folder(state), i);
        pictures[i] = make_picture(40 + 13 * i, 75 - 3 * i, i == 6 ? 2 : 1);
        OK(stoke_image_write_png(paths[i], &pictures[i], &err));
        if (i == BAD) unit_write(paths[i], "no picture", 10);
        files[i] = (stoke_sample){ .name = names[i],
                                   .image_path = paths[i],
                                   .image = { .path = paths[i], .size = UINT64_MAX } };
    }
}

/* Whatever the number of helpers and the memory: each file once, with the mask that it has alone. */
static void many_files(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    const stoke_data_params data = stoke_data_defaults();
    stoke_sample files[FILES];
    stoke_image pictures[FILES];
    results r = { .lock = PTHREAD_MUTEX_INITIALIZER };
    write_pictures(state, files, pictures);
    for (int round = 0; round < 3; round++) {
        stoke_predict_params params = settings(folder, round < 2 ? STOKE_PREDICT_AUTO : STOKE_PREDICT_RESIZE);
        stoke_predictor *p;
        stoke_predict_report report;
        stoke_predict_job job = stoke_predict_job_defaults();
        params.augment = "crop"; /* large ones are slid over, small ones resized */
        params.flip = round == 2;
        OK(stoke_predictor_open(&p, &params, &err));
        job.files = files;
        job.count = FILES;
        job.data = &data;
        job.images = round == 1;
        job.helpers = 1 + 2 * (uint32_t)round;
        job.memory = round == 1 ? 1 : job.memory;
        job.predicted = take_result;
        job.progress = watch;
        job.context = &r;
        OK(stoke_predict_files(p, &job, &report, &err));
        assert_int_equal(report.done, FILES - 1);
        assert_int_equal(report.bad, 1);
        assert_int_equal(report.resized + report.slid, FILES - 1);
        assert_true(round == 2 ? report.slid == 0 : report.slid > 0 && report.resized > 0);
        assert_int_equal(r.with_image, job.images ? FILES - 1 : 0);
        for (uint32_t i = 0; i < FILES; i++) {
            stoke_image mask = make_mask(pictures[i].width, pictures[i].height, 1);
            assert_int_equal(r.calls[i], 1);
            if (i != BAD) {
                OK(stoke_predictor_run(p, &pictures[i], &mask, NULL, NULL, NULL, &err));
                assert_memory_equal(mask.data, r.masks[i].data, mask.stride * mask.height);
            }
            free(mask.data);
        }
        stoke_predictor_close(&p);
        clear(&r);
    }
    for (int i = 0; i < FILES; i++) free(pictures[i].data);
}

/* A function that fails ends the work with its words; so does a request, without losing what was handed over.
 */
static void work_ends_early(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    const stoke_data_params data = stoke_data_defaults();
    const stoke_predict_params params = settings(folder, STOKE_PREDICT_RESIZE);
    stoke_sample files[FILES];
    stoke_image pictures[FILES];
    results r = { .lock = PTHREAD_MUTEX_INITIALIZER };
    stoke_predictor *p;
    stoke_predict_report report;
    stoke_predict_job job = stoke_predict_job_defaults();
    write_pictures(state, files, pictures);
    OK(stoke_predictor_open(&p, &params, &err));
    job.files = files;
    job.count = FILES;
    job.data = &data;
    job.predicted = take_result;
    job.progress = watch;
    job.context = &r;
    r.fail_at = 2;
    assert_int_equal(stoke_predict_files(p, &job, &report, &err), STOKE_E_IO);
    assert_string_equal(err.message, "the disk is full");
    clear(&r);
    r.stop_after = 1;
    assert_int_equal(stoke_predict_files(p, &job, &report, &err), STOKE_E_CANCELLED);
    assert_int_equal(report.done + report.bad, r.done);
    clear(&r);
    OK(stoke_predict_files(p, &job, &report, &err)); /* and again as if nothing had been */
    assert_int_equal(report.done, FILES - 1);
    clear(&r);
    stoke_predictor_close(&p);
    for (int i = 0; i < FILES; i++) free(pictures[i].data);
}

/* Memory that runs out anywhere is an error, or a file without a mask; nothing hangs and nothing is lost (the
 * sanitizer looks). */
static void memory_runs_out(void **state)
{
    const char *folder = write_network(state, "net", CLASSES);
    const stoke_data_params data = stoke_data_defaults();
    stoke_predict_params params = settings(folder, STOKE_PREDICT_AUTO);
    stoke_sample files[FILES];
    stoke_image pictures[FILES];
    results r = { .lock = PTHREAD_MUTEX_INITIALIZER };
    stoke_predictor *p;
    stoke_predict_job job = stoke_predict_job_defaults();
    params.augment = "crop";
    params.flip = 1;
    write_pictures(state, files, pictures);
    OK(stoke_predictor_open(&p, &params, &err));
    for (int which = 0; which < FILES; which += BAD + 1) { /* resized, slid over */
        stoke_image mask = make_mask(pictures[which].width, pictures[which].height, 1);
        int64_t after = 0;
        int status;
        do {
            stk_mem_fail_after(after++);
            status = stoke_predictor_run(p, &pictures[which], &mask, NULL, NULL, NULL, &err);
            stk_mem_fail_after(-1);
            assert_true(status == STOKE_OK || status == STOKE_E_NOMEM);
        } while (status && after < 100);
        OK(status);
        free(mask.data);
    }
    job.files = files + BAD - 1; /* resized, no picture, slid over */
    job.count = 3;
    job.data = &data;
    job.predicted = count_result;
    job.context = &r;
    stoke_predict_report report = { 0 };
    for (int64_t after = 0; report.done < 2; after += 1 + after / 4) {
        stk_mem_fail_after(after);
        const int status = stoke_predict_files(p, &job, &report, &err);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || status == STOKE_E_NOMEM);
        assert_true(status || report.done + report.bad == 3);
        assert_true(after < 1000);
    }
    stoke_predictor_close(&p);
    clear(&r);
    for (int i = 0; i < FILES; i++) free(pictures[i].data);
}

/* What the network is shown in prediction is what a loader shows it in validation: 16 bits through a window
 * of percentiles, orientation, fast decoding. */
static void pixels_are_the_loaders(void **state)
{
    stoke_data_params data = stoke_data_defaults();
    stoke_dataset *set;
    stoke_loader *loader;
    const stoke_batch *batch;
    stk_pictures *shared;
    stk_picture_reader *reader;
    stk_writer writer;
    float *row = stk_alloc_aligned(3 * SIDE * SIDE * sizeof *row, 64);
    const stoke_image deep = make_picture(300, 200, 2), flat = make_picture(900, 700, 1);
    mkdir(unit_path(state, "images"), 0777);
    OK(stoke_image_write_png(unit_path(state, "images/a.png"), &deep, &err));
    OK(stoke_image_write_jpeg(unit_path(state, "images/b.jpg"), &flat, 90, &err));
    data.images = unit_path(state, "images");
    data.size[0] = data.size[1] = SIDE;
    data.decode = STOKE_DECODE_FAST;
    data.window = "p2:p90";
    data.orientation = STOKE_ORIENTATION_APPLY;
    data.normalize = STOKE_NORMALIZE_IMAGENET;
    data.order = STOKE_ORDER_SEQUENTIAL;
    data.batch = 2;
    data.workers = 0;
    OK(stoke_dataset_open(&set, &data, &err));
    OK(stoke_loader_create(&loader, set, &data, NULL, &err));
    OK(stoke_loader_next(loader, &batch));
    OK(stk_pictures_open(&shared, &data, SIDE, SIDE, &err));
    OK(stk_picture_reader_create(&reader, shared, &err));
    stk_writer_init(&writer, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, STOKE_NORMALIZE_IMAGENET);
    for (uint32_t i = 0; i < 2; i++) {
        const stoke_sample sample = stoke_dataset_sample(set, batch->ids[i]);
        uint32_t width, height;
        stoke_image fitted;
        OK(stk_picture_read(reader, &sample, &width, &height, &err));
        assert_int_equal(width, i ? 900 : 300);
        OK(stk_picture_fitted(reader, &fitted, &err));
        stk_write_image(&writer, &fitted, row, SIDE, SIDE, 0, 0, 0);
        assert_memory_equal(row, (char *)batch->images + i * batch->image_row_bytes,
                            3 * SIDE * SIDE * sizeof *row);
    }
    stk_picture_reader_destroy(&reader);
    stk_pictures_close(&shared);
    stoke_batch_release(loader, &batch);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&set);
    stk_free(row), free(deep.data), free(flat.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(own_size_is_the_networks_answer),
        unit_test_with_folder(resized_pictures),
        unit_test_with_folder(mirror_images),
        unit_test_with_folder(one_class),
        unit_test_with_folder(windows_over_pictures),
        unit_test_with_folder(batches_do_not_show),
        unit_test_with_folder(what_is_refused),
        unit_test_with_folder(auto_slides_where_it_should),
        unit_test_with_folder(presets),
        unit_test_with_folder(many_files),
        unit_test_with_folder(work_ends_early),
        unit_test_with_folder(memory_runs_out),
        unit_test_with_folder(pixels_are_the_loaders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
