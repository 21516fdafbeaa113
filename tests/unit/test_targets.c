/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs of picture and picture in the loader: a target goes exactly where its image goes, and keeps all the
 * promises that masks keep.
 */
#include "tests/unit/fixture_pairs.h"

#include <math.h>
#include <stoke/tools/data.h>
#include <stoke/tools/rows.h>

#include "src/base/rng.h"

enum { MOST = 64, SEED = 20 };

/* ---- sets ---- */

static void write_picture(void **state, const char *name, const void *pixels, uint32_t w, uint32_t h,
                          uint8_t depth)
{
    const stoke_image image = { (void *)pixels, (size_t)w * 3 * depth, w, h, 3, depth };
    stoke_error err;
    if (stoke_image_write_png(unit_path(state, name), &image, &err)) fail_msg("%s", err.message);
}

static void make_folders(void **state)
{
    mkdir(unit_path(state, "input"), 0777);
    mkdir(unit_path(state, "target"), 0777);
}

/* Sizes that are smaller, larger and as large as the output of 32 x 32. */
static void size_of(uint32_t i, uint32_t size[2])
{
    static const uint32_t sizes[][2] = { { 32, 32 }, { 57, 41 }, { 20, 70 }, { 64, 64 }, { 33, 90 } };
    size[0] = sizes[i % 5][0];
    size[1] = sizes[i % 5][1];
}

/* input/sN.png of noise and target/sN.png, in which every pixel stands scale x scale times. Every third pair
 * has two bytes per value. */
static void write_repeated(void **state, uint32_t n, uint32_t scale)
{
    make_folders(state);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s[2];
        size_of(i, s);
        const uint8_t depth = i % 3 == 2 ? 2 : 1;
        const size_t pixel = 3u * depth, line = s[0] * pixel;
        uint8_t *small = malloc(line * s[1]), *large = malloc(line * s[1] * scale * scale);
        for (size_t k = 0; k < line * s[1]; k++) small[k] = (uint8_t)stk_philox(SEED, k, i, 0, 0).word[0];
        for (uint32_t y = 0; y < s[1] * scale; y++)
            for (uint32_t x = 0; x < s[0] * scale; x++)
                memcpy(large + y * line * scale + x * pixel, small + y / scale * line + x / scale * pixel,
                       pixel);
        char name[64];
        snprintf(name, sizeof name, "input/s%u.png", i);
        write_picture(state, name, small, s[0], s[1], depth);
        snprintf(name, sizeof name, "target/s%u.png", i);
        write_picture(state, name, large, s[0] * scale, s[1] * scale, depth);
        free(small);
        free(large);
    }
}

static stoke_data_params restoring(void **state, uint32_t scale)
{
    stoke_data_params params = pairs_params(state);
    params.classes = 0;
    params.scale = scale;
    return params;
}

/* ---- opened, and one batch after another ---- */

typedef struct opened {
    stoke_dataset *dataset;
    stoke_loader *loader;
} opened;

static opened open_loader(const stoke_data_params *params)
{
    opened o;
    stoke_error err = { 0 };
    if (stoke_dataset_open(&o.dataset, params, &err)) fail_msg("%s", err.message);
    if (stoke_loader_create(&o.loader, o.dataset, params, NULL, &err)) fail_msg("%s", err.message);
    return o;
}

static void close_loader(opened *o)
{
    stoke_loader_destroy(&o->loader);
    stoke_dataset_close(&o->dataset);
}

static const uint8_t *target_row(const stoke_batch *batch, uint32_t row)
{
    return (const uint8_t *)batch->targets + row * batch->target_row_bytes;
}

static const uint8_t *image_row(const stoke_batch *batch, uint32_t row)
{
    return (const uint8_t *)batch->images + row * batch->image_row_bytes;
}

static void check_shape(const stoke_batch *batch, uint32_t scale)
{
    assert_non_null(batch->targets);
    assert_null(batch->masks);
    assert_null(batch->masks_b);
    assert_null(batch->lambda);
    assert_int_equal(batch->mask_row_bytes, 0);
    assert_int_equal(batch->target_width, scale * batch->width);
    assert_int_equal(batch->target_height, scale * batch->height);
    assert_int_equal(batch->target_row_bytes, scale * scale * batch->image_row_bytes);
    assert_int_equal((uintptr_t)batch->targets % 64, 0);
}

/* Every element of the targets is that of the image under it. */
static void check_repeated(const stoke_data_params *params, uint32_t scale, const char *what)
{
    opened o = open_loader(params);
    const stoke_batch *b;
    uint32_t rows = 0;
    while (!stoke_loader_next(o.loader, &b)) {
        check_shape(b, scale);
        const size_t element = stoke_dtype_bytes(b->image_dtype);
        const int hwc = b->layout == STOKE_LAYOUT_HWC;
        const size_t pixel = hwc ? 3 * element : element;
        for (uint32_t row = 0; row < b->count; row++, rows++)
            for (uint32_t plane = 0; plane < (hwc ? 1u : 3u); plane++)
                for (uint32_t y = 0; y < b->target_height; y++)
                    for (uint32_t x = 0; x < b->target_width; x++) {
                        const size_t at = ((size_t)plane * b->target_height + y) * b->target_width + x;
                        const size_t under = ((size_t)plane * b->height + y / scale) * b->width + x / scale;
                        if (memcmp(target_row(b, row) + at * pixel, image_row(b, row) + under * pixel, pixel))
                            fail_msg("%s: row %u of batch %u differs at (%u, %u) of plane %u", what, row,
                                     (unsigned)b->index, x, y, plane);
                    }
        stoke_batch_release(o.loader, &b);
    }
    assert_int_equal(rows, stoke_dataset_count(o.dataset));
    close_loader(&o);
}

/* ---- where a target goes ---- */

/* What keeps every pixel whole: windows, mirrors, and what mixes rows. */
static void crops_correspond_to_the_pixel(void **state)
{
    static const char *const lists[] = { "random_crop",
                                         "center_crop",
                                         "random_crop,hflip,vflip",
                                         "crop",
                                         "random_crop,cutmix(p=0.8)",
                                         "center_crop,hflip,mixup(p=0.7)",
                                         "random_crop,mixup(p=0.5),cutmix(p=0.5,share=0.2..0.7)" };
    static const int dtypes[] = { STOKE_IMAGE_DTYPE_U8, STOKE_IMAGE_DTYPE_F32, STOKE_IMAGE_DTYPE_BF16 };
    for (uint32_t scale = 1; scale <= 4; scale++) {
        write_repeated(state, 11, scale);
        stoke_data_params params = restoring(state, scale);
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            params.augment = lists[i];
            params.epoch = (int64_t)i;
            params.layout = i % 2 ? STOKE_LAYOUT_HWC : STOKE_LAYOUT_CHW;
            params.dtype = dtypes[(i + scale) % 3];
            params.normalize = i % 3 ? STOKE_NORMALIZE_IMAGENET : STOKE_NORMALIZE_UNIT;
            check_repeated(&params, scale, lists[i]);
        }
    }
}

/* A list of ops, each or not, by the bits of a number. */
static const char *random_list(uint32_t bits, int colors, char *text, size_t size)
{
    static const char *const crops[] = { "", "random_crop,", "random_resized_crop(scale=0.1..1),",
                                         "center_crop," };
    static const char *const geometry[] = { "hflip(p=0.5),", "vflip(p=0.5),", "rotate(p=0.7,degrees=40),",
                                            "scale(p=0.6,factor=0.5..1.6),",
                                            "elastic(p=0.6,alpha=1..6,sigma=6..20)," };
    static const char *const color[] = {
        "color_jitter(p=0.8,brightness=0.3,contrast=0.3,saturation=0.3,hue=0.1),", "gaussian_blur(p=0.7),",
        "gaussian_noise(p=0.7),", "erasing(p=0.5),", "clahe(p=0.5),"
    };
    size_t n = (size_t)snprintf(text, size, "%s", crops[bits & 3]);
    for (uint32_t i = 0; i < 5; i++)
        if (bits >> (2 + i) & 1) n += (size_t)snprintf(text + n, size - n, "%s", geometry[i]);
    for (uint32_t i = 0; colors && i < 5; i++)
        if (bits >> (7 + i) & 1) n += (size_t)snprintf(text + n, size - n, "%s", color[i]);
    if (n) text[n - 1] = 0;
    return n ? text : "none";
}

/* Whatever is drawn: a target that is its image gives the same row, bit for bit, if colours are left alone or
 * changed in both. */
static void equal_pictures_give_equal_rows(void **state)
{
    write_repeated(state, 11, 1);
    stoke_data_params params = restoring(state, 1);
    const int rounds = unit_rounds(24, 400);
    for (int i = 0; i < rounds; i++) {
        char text[512];
        params.photometric = i % 2 ? STOKE_PHOTOMETRIC_BOTH : STOKE_PHOTOMETRIC_INPUT;
        params.augment =
            random_list(stk_philox(SEED, (uint64_t)i, 1, 0, 0).word[0], i % 2, text, sizeof text);
        params.dtype = i % 3 ? STOKE_IMAGE_DTYPE_F32 : STOKE_IMAGE_DTYPE_U8;
        params.layout = i % 5 ? STOKE_LAYOUT_CHW : STOKE_LAYOUT_HWC;
        params.size[0] = i % 7 ? 32 : 45;
        params.seed = i;
        check_repeated(&params, 1, params.augment);
    }
}

/* Colour ops on the image only: geometry of the target is that of a run without them. */
static void colours_are_the_images(void **state)
{
    static const char colors[] =
        "random_crop,hflip,brightness(p=1,factor=0.4..0.5),erasing(p=1),gaussian_noise(p=1)";
    write_repeated(state, 8, 2);
    stoke_data_params params = restoring(state, 2);
    params.augment = "random_crop,hflip";
    opened plain = open_loader(&params);
    params.augment = colors;
    opened touched = open_loader(&params);
    params.photometric = STOKE_PHOTOMETRIC_BOTH;
    opened both = open_loader(&params);
    const stoke_batch *a, *b, *c;
    while (!stoke_loader_next(plain.loader, &a)) {
        assert_int_equal(stoke_loader_next(touched.loader, &b), 0);
        assert_int_equal(stoke_loader_next(both.loader, &c), 0);
        for (uint32_t row = 0; row < a->count; row++) {
            assert_memory_equal(target_row(a, row), target_row(b, row), a->target_row_bytes);
            assert_memory_not_equal(image_row(a, row), image_row(b, row), a->image_row_bytes);
            assert_memory_equal(image_row(b, row), image_row(c, row), a->image_row_bytes);
            assert_memory_not_equal(target_row(b, row), target_row(c, row), a->target_row_bytes);
        }
        stoke_batch_release(plain.loader, &a);
        stoke_batch_release(touched.loader, &b);
        stoke_batch_release(both.loader, &c);
    }
    close_loader(&plain);
    close_loader(&touched);
    close_loader(&both);
}

/* A plane over a picture, two bytes per value: interpolation and antialiasing leave it a plane. (x, y): the
 * place in pixels of the image. */
enum { RAMP_LOW = 12000, RAMP_X = 150, RAMP_Y = 110, RAMP_W = 96, RAMP_H = 80 };

static void write_ramp(void **state, const char *name, uint32_t scale)
{
    const uint32_t w = RAMP_W * scale, h = RAMP_H * scale;
    uint16_t *pixels = malloc((size_t)w * h * 6);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++)
            for (uint32_t c = 0; c < 3; c++)
                pixels[((size_t)y * w + x) * 3 + c] =
                    (uint16_t)lrint(RAMP_LOW + 2000 * c + RAMP_X * ((x + 0.5) / scale - 0.5) +
                                    RAMP_Y * ((y + 0.5) / scale - 0.5));
    write_picture(state, name, pixels, w, h, 2);
    free(pixels);
}

/* Of 65535; NAN where it is filled or near what is. */
static double plain_value(const float *plane, uint32_t w, uint32_t h, uint32_t x, uint32_t y)
{
    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++) {
            const uint32_t nx = x + (uint32_t)dx, ny = y + (uint32_t)dy;
            if (nx < w && ny < h && plane[(size_t)ny * w + nx] * 65535 < RAMP_LOW - 3 * RAMP_X) return NAN;
        }
    return (double)plane[(size_t)y * w + x] * 65535;
}

/* How far image and target are from one another at most: a pixel against the mean of those over it. */
static double farthest(const stoke_batch *b, uint32_t row, uint32_t margin, uint32_t *seen)
{
    const uint32_t s = b->target_width / b->width;
    const float *image = (const float *)image_row(b, row), *target = (const float *)target_row(b, row);
    double most = 0;
    for (uint32_t y = margin; y < b->height - margin; y++)
        for (uint32_t x = margin; x < b->width - margin; x++) {
            double mean = 0;
            for (uint32_t i = 0; i < s * s; i++)
                mean += plain_value(target, b->target_width, b->target_height, s * x + i % s, s * y + i / s) /
                        (s * s);
            const double off = fabs(mean - plain_value(image, b->width, b->height, x, y));
            if (isnan(off)) continue;
            if (off > most) most = off;
            ++*seen;
        }
    return most;
}

/* Half a pixel off would be 75. Positions are exact to 1/256 pixel, and an elastic map is no plane within a
 * pixel. Weights of a resize are those of a triangle at whole pixels, which moves a plane by up to a tenth of
 * one; and it bends it where the picture ends, which a warp brings anywhere. */
static void warps_correspond_below_a_pixel(void **state)
{
    static const struct {
        const char *list;
        uint32_t margin; /* where a resize sees the end of a picture */
        double most;
    } cases[] = {
        { "random_crop,rotate(p=1,degrees=30)", 0, 3 },
        { "random_crop,rotate(p=1,degrees=180),hflip", 0, 3 },
        { "center_crop,affine(p=1)", 0, 3 },
        { "random_crop,hflip,elastic(p=1,alpha=2..8,sigma=8..16)", 1, 4 },
        { "random_crop,elastic(p=1,alpha=4..8,sigma=8..16),rotate(p=1,degrees=20)", 1, 4 },
        { "random_resized_crop(scale=0.2..1)", 6, 30 },
        { "none", 6, 30 },
        { "rotate(p=1,degrees=30)", 3, 30 },
        { "random_resized_crop(scale=0.2..1),elastic(p=1,alpha=2..8,sigma=8..16)", 3, 30 },
    };
    make_folders(state);
    for (uint32_t scale = 2; scale <= 4; scale++) {
        write_ramp(state, "input/a.png", 1);
        write_ramp(state, "target/a.png", scale);
        stoke_data_params params = restoring(state, scale);
        params.size[0] = 48;
        params.size[1] = 56;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            params.augment = cases[i].list;
            opened o = open_loader(&params);
            uint32_t seen = 0;
            for (uint64_t epoch = 0; epoch < 6; epoch++) {
                const stoke_batch *b;
                assert_int_equal(stoke_loader_set_epoch(o.loader, epoch), 0);
                assert_int_equal(stoke_loader_next(o.loader, &b), 0);
                const double off = farthest(b, 0, cases[i].margin, &seen);
                if (off > cases[i].most) fail_msg("%s, scale %u: off by %.1f", cases[i].list, scale, off);
                stoke_batch_release(o.loader, &b);
            }
            assert_true(seen > 600);
            close_loader(&o);
        }
    }
}

/* ---- promises ---- */

static void same_digests(const pairs_digest *a, const stoke_data_params *params, size_t n)
{
    pairs_digest b[MOST];
    assert_int_equal(pairs_epoch(params, b, MOST), n);
    for (size_t i = 0; i < n; i++) assert_memory_equal(a[i].digest, b[i].digest, 16);
}

static void bytes_do_not_depend_on_workers_or_caches(void **state)
{
    static const char *const lists[] = { "none", "standard,mixup", "random_crop,elastic,cutmix", "strong" };
    write_repeated(state, 13, 2);
    stoke_data_params params = restoring(state, 2);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        pairs_digest whole[MOST];
        params.augment = lists[i];
        params.photometric = (int)(i % 2);
        params.decode = i == 2 ? STOKE_DECODE_FAST : STOKE_DECODE_EXACT;
        params.workers = 0;
        const size_t n = pairs_epoch(&params, whole, MOST);
        assert_int_equal(n, 4);
        params.workers = 3;
        params.prefetch = 1;
        same_digests(whole, &params, n);
        stoke_data_params cached = params;
        cached.cache_ram = i % 2 ? 1 << 24 : 60000; /* room for a few */
        same_digests(whole, &cached, n);
        cached.cache = unit_path(state, "cache");
        for (int pass = 0; pass < 2; pass++) same_digests(whole, &cached, n);
    }
}

static void ranks_and_resumption_leave_them_alone(void **state)
{
    write_repeated(state, 14, 2);
    stoke_data_params params = restoring(state, 2);
    pairs_digest whole[MOST], part[MOST];
    char text[512];
    int status;
    params.augment = "standard";
    const size_t n = pairs_epoch(&params, whole, MOST);
    for (int rank = 0; rank < 2; rank++) {
        stoke_data_params own = params;
        own.world = 2;
        own.rank = rank;
        const size_t m = pairs_epoch(&own, part, MOST);
        for (size_t i = 0; i < m; i++)
            if (part[i].position < 14) assert_memory_equal(part[i].digest, whole[part[i].index].digest, 16);
    }
    opened o = open_loader(&params);
    assert_int_equal(pairs_take(o.loader, part, 2, &status), 2);
    assert_true(stoke_loader_state(o.loader, text, sizeof text) < (int)sizeof text);
    close_loader(&o);
    o = open_loader(&params);
    assert_int_equal(stoke_loader_restore(o.loader, text, NULL), 0);
    assert_int_equal(pairs_take(o.loader, part, MOST, &status), n - 2);
    for (size_t i = 2; i < n; i++) assert_memory_equal(part[i - 2].digest, whole[i].digest, 16);
    close_loader(&o);
}

/* One entry serves both where they are the same file and size; a pair counts as one sample. */
static void a_pair_is_a_hit_when_both_are(void **state)
{
    write_repeated(state, 5, 1); /* the same bytes on both sides */
    stoke_data_params params = restoring(state, 1);
    pairs_digest a[MOST];
    stoke_loader_stats_data stats;
    int status;
    params.cache_ram = 1 << 24;
    params.workers = 0;
    opened o = open_loader(&params);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        stoke_loader_set_epoch(o.loader, epoch);
        pairs_take(o.loader, a, MOST, &status);
    }
    stoke_loader_stats(o.loader, &stats);
    assert_int_equal(stats.cache_hits_ram, 5);
    assert_int_equal(stats.cache_misses, 5);
    assert_int_equal(stats.cache_stored, 5);
    close_loader(&o);
}

/* ---- bad ones ---- */

static const char *failure_of(const stoke_data_params *params, char text[STOKE_ERROR_TEXT])
{
    opened o = open_loader(params);
    const stoke_batch *b;
    int r;
    while (!(r = stoke_loader_next(o.loader, &b))) stoke_batch_release(o.loader, &b);
    snprintf(text, STOKE_ERROR_TEXT, "%s", r == STOKE_E_END ? "" : stoke_loader_error(o.loader));
    close_loader(&o);
    return text;
}

static void a_bad_target_is_a_bad_sample(void **state)
{
    write_repeated(state, 8, 2);
    stoke_data_params params = restoring(state, 2);
    char text[STOKE_ERROR_TEXT];
    unit_write(unit_path(state, "target/s3.png"), "no picture", 10);
    params.max_bad = "1";
    assert_string_equal(failure_of(&params, text), "");
    params.policy = STOKE_POLICY_STOP;
    assert_non_null(strstr(failure_of(&params, text), "target/s3.png"));
    params.policy = STOKE_POLICY_SKIP;
    params.augment = "mixup,cutmix";
    opened o = open_loader(&params);
    const stoke_batch *b;
    uint32_t rows = 0;
    for (; !stoke_loader_next(o.loader, &b); stoke_batch_release(o.loader, &b)) rows += b->count;
    assert_int_equal(rows, 7);
    close_loader(&o);
    assert_int_equal(unlink(unit_path(state, "target/s3.png")), 0); /* gone after opening is bad, too */
}

static void sizes_that_do_not_fit_are_told(void **state)
{
    write_repeated(state, 1, 2);
    stoke_data_params params = restoring(state, 1);
    char text[STOKE_ERROR_TEXT];
    params.policy = STOKE_POLICY_STOP;
    failure_of(&params, text);
    assert_non_null(strstr(text, "target/s0.png: the target is 64x64 (height x width), its image "));
    assert_non_null(strstr(text, "input/s0.png is 32x32"));
    assert_non_null(strstr(text, "`scale` 2 would fit"));
    params.scale = 3;
    params.cache_ram = 1 << 20; /* entries know their sizes, too */
    failure_of(&params, text);
    assert_non_null(strstr(text, "with `scale` 3 it has to be 96x96, and `scale` 2 would fit"));
    write_ramp(state, "target/s0.png", 1);
    failure_of(&params, text);
    assert_non_null(strstr(text, "is 80x96"));
    assert_null(strstr(text, "would fit"));
}

/* ---- memory ---- */

/* Never more than planned, and not much less: the target is the larger picture here. */
static void the_plan_counts_targets(void **state)
{
    static const char *const lists[] = { "none", "random_crop", "strong",
                                         "standard,elastic(p=1),mixup(p=1)" };
    write_repeated(state, 5, 4);
    stoke_data_params params = restoring(state, 4);
    params.workers = 0;
    params.prefetch = 1;
    for (size_t i = 0; i < 2 * sizeof lists / sizeof *lists; i++) {
        pairs_digest digest[MOST];
        stoke_loader_stats_data stats;
        int status;
        params.augment = lists[i / 2];
        params.photometric = (int)(i % 2);
        opened o = open_loader(&params);
        const stoke_memory_plan plan = stoke_loader_memory(o.loader);
        const uint64_t planned = plan.total_bytes - plan.fixed_bytes;
        assert_true(plan.slot_bytes >= params.batch * 17 * 32 * 32 * 3 * sizeof(float));
        for (uint64_t epoch = 0; epoch < 60; epoch++) {
            stoke_loader_set_epoch(o.loader, epoch);
            pairs_take(o.loader, digest, MOST, &status);
            assert_int_equal(status, STOKE_E_END);
            stoke_loader_stats(o.loader, &stats);
            if (stats.memory_bytes > planned)
                fail_msg("%s: %llu bytes held, %llu planned", params.augment,
                         (unsigned long long)stats.memory_bytes, (unsigned long long)planned);
        }
        close_loader(&o);
    }
}

/* ---- what has no targets ---- */

static void pictures_in_memory_have_none(void **state)
{
    stoke_data_params params = restoring(state, 1);
    stoke_rows *rows;
    stoke_error err = { 0 };
    params.task = STOKE_TASK_RESTORE;
    assert_int_equal(stoke_rows_create(&rows, &params, NULL, &err), STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "`task` restore"));
    assert_null(rows);
}

static void devices_take_none(void **state)
{
    write_repeated(state, 4, 1);
    stoke_data_params params = restoring(state, 1);
    stoke_dataset *dataset;
    stoke_device *device;
    stoke_upload *upload;
    stoke_error err = { 0 };
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_device_open(&device, "host", NULL, NULL), 0);
    assert_int_equal(stoke_upload_create(&upload, dataset, &params, device, NULL, &err), STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "targets"));
    stoke_device_close(&device);
    stoke_dataset_close(&dataset);
}

UNIT_GROUP(targets)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(crops_correspond_to_the_pixel),
        unit_test_with_folder(equal_pictures_give_equal_rows),
        unit_test_with_folder(colours_are_the_images),
        unit_test_with_folder(warps_correspond_below_a_pixel),
        unit_test_with_folder(bytes_do_not_depend_on_workers_or_caches),
        unit_test_with_folder(ranks_and_resumption_leave_them_alone),
        unit_test_with_folder(a_pair_is_a_hit_when_both_are),
        unit_test_with_folder(a_bad_target_is_a_bad_sample),
        unit_test_with_folder(sizes_that_do_not_fit_are_told),
        unit_test_with_folder(the_plan_counts_targets),
        unit_test_with_folder(pictures_in_memory_have_none),
        unit_test_with_folder(devices_take_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
