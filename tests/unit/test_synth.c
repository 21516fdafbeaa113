/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include <stoke/tools/report.h>
#include <stoke/tools/synth.h>
#include <xxhash.h>

#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/synth/synth.h"

/* A scene with room for it. Rows have a gap, so that writing past a row is noticed. */
typedef struct picture {
    stoke_image image, mask;
} picture;

enum { GAP = 5, GAP_BYTE = 0xa5 };

static picture draw(const stoke_synth_params *p, uint64_t index)
{
    picture d = { { NULL, (size_t)p->width * 3 + GAP, p->width, p->height, 3, 1 },
                  { NULL, (size_t)p->width + GAP, p->width, p->height, 1, 1 } };
    d.image.data = malloc(d.image.stride * p->height);
    d.mask.data = malloc(d.mask.stride * p->height);
    memset(d.image.data, GAP_BYTE, d.image.stride * p->height);
    memset(d.mask.data, GAP_BYTE, d.mask.stride * p->height);
    stoke_error err = { 0 };
    if (stoke_synth_draw(p, index, &d.image, &d.mask, &err)) fail_msg("%s", err.message);
    for (uint32_t y = 0; y < p->height; y++)
        for (int i = 0; i < GAP; i++) {
            assert_int_equal(((uint8_t *)d.image.data)[(y + 1) * d.image.stride - 1 - i], GAP_BYTE);
            assert_int_equal(((uint8_t *)d.mask.data)[(y + 1) * d.mask.stride - 1 - i], GAP_BYTE);
        }
    return d;
}

static void release(picture *d)
{
    free(d->image.data);
    free(d->mask.data);
}

static uint64_t digest(const stoke_image *image)
{
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset(state);
    for (uint32_t y = 0; y < image->height; y++)
        XXH3_64bits_update(state, (const uint8_t *)image->data + y * image->stride,
                           (size_t)image->width * image->channels);
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

/* The same bytes on every machine, compiler and optimisation. A change here changes everybody's synthetic
 * data. */
static void golden_scenes(void **state)
{
    static const struct {
        uint64_t seed, index;
        uint32_t height, width, classes;
        uint64_t image, mask;
    } golden[] = {
        { 0, 0, 512, 512, 6, 0xf8896e060518c0ca, 0xdc43c970188e93eb },
        { 0, 1, 256, 320, 6, 0xad74f64ab2d3c4ee, 0xaf5c4566229a8b85 },
        { 7, 123456789, 97, 61, 40, 0xeebe94a35bf64bc9, 0x5a39fdfc76db0281 },
        { 18446744073709551615u, 3, 16, 16, 255, 0x33c755f33a67a3b9, 0x90d3f567399caf9a },
        { 5, 2, 1100, 640, 2, 0x17e276ee0248c76d, 0x9dede7955861d875 },
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        stoke_synth_params p = stoke_synth_defaults();
        p.seed = golden[i].seed;
        p.height = golden[i].height;
        p.width = golden[i].width;
        p.classes = golden[i].classes;
        picture d = draw(&p, golden[i].index);
        uint64_t image = digest(&d.image), mask = digest(&d.mask);
        if (image != golden[i].image || mask != golden[i].mask) {
            print_message("scene %zu: { %llu, %llu, %u, %u, %u, 0x%016llx, 0x%016llx },\n", i,
                          (unsigned long long)p.seed, (unsigned long long)golden[i].index, p.height, p.width,
                          p.classes, (unsigned long long)image, (unsigned long long)mask);
            wrong++;
        }
        release(&d);
    }
    assert_int_equal(wrong, 0);
}

/* Point in polygon by exact fractions, written apart from the scan line filler. */
static int covers(const stk_synth_shape *s, int64_t x, int64_t y)
{
    int inside = 0;
    for (int part = 0; part < 2; part++) {
        int from = part ? s->split : 0, to = part ? s->points : s->split;
        for (int i = from; i < to; i++) {
            int next = i + 1 < to ? i + 1 : from;
            int64_t x0 = s->x[i], y0 = s->y[i], x1 = s->x[next], y1 = s->y[next];
            if ((y0 <= y) == (y1 <= y)) continue;
            int64_t left = (x - x0) * (y1 - y0), right = (y - y0) * (x1 - x0);
            inside ^= y1 > y0 ? left >= right : left <= right;
        }
    }
    return inside;
}

static void mask_is_the_topmost_shape(void **state)
{
    stk_synth_scene *scene = malloc(sizeof *scene);
    for (uint64_t index = 0; index < 12; index++) {
        stoke_synth_params p = stoke_synth_defaults();
        p.seed = 99;
        p.height = 131 + (uint32_t)index * 7;
        p.width = 170;
        p.classes = 2 + (uint32_t)index * 20;
        picture d = draw(&p, index);
        stk_scene_invent(scene, &p, index);
        for (uint32_t y = 0; y < p.height; y++)
            for (uint32_t x = 0; x < p.width; x++) {
                int top = scene->count - 1;
                while (top > 0 && !covers(&scene->shapes[top], x * 256 + 128, y * 256 + 128)) top--;
                uint8_t got = ((uint8_t *)d.mask.data)[y * d.mask.stride + x];
                if (got != scene->shapes[top].class_id)
                    fail_msg("scene %d (%u, %u): class %d, shape %d has %d", (int)index, x, y, got, top,
                             scene->shapes[top].class_id);
            }
        release(&d);
    }
    free(scene);
}

static void scenes_are_varied_and_in_range(void **state)
{
    stoke_synth_params p = stoke_synth_defaults();
    p.height = p.width = 128;
    uint64_t count[6] = { 0 }, last = 0;
    for (uint64_t index = 0; index < 60; index++) {
        picture d = draw(&p, index);
        uint64_t hash = digest(&d.image);
        assert_true(hash != last);
        last = hash;
        for (uint32_t y = 0; y < 128; y++)
            for (uint32_t x = 0; x < 128; x++) {
                uint8_t id = ((uint8_t *)d.mask.data)[y * d.mask.stride + x];
                assert_true(id < 6);
                count[id]++;
            }
        release(&d);
    }
    for (int i = 1; i < 6; i++) assert_true(count[i] > 60 * 128 * 128 / 100); /* every class: over 1 % */
    assert_true(count[0] > 60 * 128 * 128 / 3);
}

/* What is left of a colour without its grey, of length 1. */
static void hue_of(const double rgb[3], double hue[3])
{
    const double grey = (rgb[0] + rgb[1] + rgb[2]) / 3;
    double length = 0;
    for (int c = 0; c < 3; c++) length += (rgb[c] - grey) * (rgb[c] - grey);
    for (int c = 0; c < 3; c++) hue[c] = (rgb[c] - grey) / sqrt(length);
}

/* Who sees a blue square under a green overlay doubts the masks. */
static void classes_look_like_their_colours(void **state)
{
    enum { CLASSES = 6 };
    stoke_synth_params p = stoke_synth_defaults();
    double sum[CLASSES][3] = { { 0 } }, drawn[3], shown[3];
    (void)state;
    p.height = p.width = 128;
    for (uint64_t index = 0; index < 12; index++) {
        picture d = draw(&p, index);
        for (uint32_t i = 0; i < 128 * 128; i++)
            for (int c = 0; c < 3; c++)
                sum[((uint8_t *)d.mask.data)[i / 128 * d.mask.stride + i % 128]][c] +=
                    ((uint8_t *)d.image.data)[i / 128 * d.image.stride + i % 128 * 3 + (size_t)c];
        release(&d);
    }
    for (uint32_t id = 1; id < CLASSES; id++) {
        uint32_t nearest = 0;
        double best = -1;
        hue_of(sum[id], drawn);
        for (uint32_t k = 1; k < CLASSES; k++) {
            uint8_t color[3];
            stoke_class_color(k, color);
            hue_of((double[3]){ color[0], color[1], color[2] }, shown);
            const double near = drawn[0] * shown[0] + drawn[1] * shown[1] + drawn[2] * shown[2];
            if (near > best) best = near, nearest = k;
        }
        assert_int_equal(nearest, id);
    }
}

static void seed_index_and_size_matter(void **state)
{
    stoke_synth_params p = stoke_synth_defaults(), q;
    p.height = p.width = 64;
    picture a = draw(&p, 1), b = draw(&p, 1);
    assert_int_equal(digest(&a.image), digest(&b.image));
    release(&b);
    q = p;
    q.seed = 1;
    b = draw(&q, 1);
    assert_true(digest(&a.image) != digest(&b.image));
    release(&b);
    b = draw(&p, 1 + (UINT64_C(1) << 40));
    assert_true(digest(&a.image) != digest(&b.image));
    release(&b);
    release(&a);
    static const uint32_t sides[][2] = { { 16, 16 }, { 16, 400 }, { 333, 17 }, { 161, 163 } };
    for (size_t i = 0; i < 4; i++) {
        q.height = sides[i][0];
        q.width = sides[i][1];
        q.classes = 255;
        for (uint64_t index = 0; index < 8; index++) {
            b = draw(&q, index);
            release(&b);
        }
    }
}

static void wrong_params_are_refused(void **state)
{
    stoke_error err;
    uint8_t pixels[16 * 16 * 3];
    stoke_synth_params good = stoke_synth_defaults(), p;
    good.height = good.width = 16;
    stoke_image image = { pixels, 48, 16, 16, 3, 1 }, mask = { pixels, 16, 16, 16, 1, 1 }, none = mask;
    none.data = NULL;
#define REFUSED(change)                                                                                      \
    p = good;                                                                                                \
    p.change;                                                                                                \
    assert_int_equal(stoke_synth_draw(&p, 0, &image, &mask, &err), STOKE_E_INVALID);                         \
    assert_int_equal(stoke_synth_write(&p, unit_folder(state), 1, NULL, NULL, &err), STOKE_E_INVALID)
    REFUSED(struct_size = 0);
    REFUSED(width = 15);
    REFUSED(height = 16385);
    REFUSED(classes = 1);
    REFUSED(classes = 256);
    REFUSED(jpeg_quality = 0);
    REFUSED(jpeg_quality = 101);
    assert_int_equal(stoke_synth_draw(&good, 0, &image, &none, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_synth_draw(&good, 0, &mask, &image, &err), STOKE_E_INVALID);
    image.stride = 47;
    assert_int_equal(stoke_synth_draw(&good, 0, &image, &mask, &err), STOKE_E_INVALID);
}

static void out_of_memory_is_an_error(void **state)
{
    stoke_synth_params p = stoke_synth_defaults();
    p.height = p.width = 32;
    uint8_t pixels[32 * 32 * 3], classes[32 * 32];
    stoke_image image = { pixels, 96, 32, 32, 3, 1 }, mask = { classes, 32, 32, 32, 1, 1 };
    int status = STOKE_E_NOMEM;
    int64_t allowed = 0;
    for (; status && allowed < 50; allowed++) {
        stk_mem_fail_after(allowed);
        status = stoke_synth_draw(&p, 0, &image, &mask, NULL);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || status == STOKE_E_NOMEM);
    }
    assert_int_equal(status, STOKE_OK);
    assert_true(allowed > 3);
}

/* ---- files ---- */

static uint64_t folder_digest(void **state, const char *folder, uint64_t count)
{
    uint64_t all = 0;
    stk_mem_buffer buffer = { 0 };
    stoke_error err;
    for (uint64_t i = 0; i < 2 * count; i++) {
        char name[64];
        size_t size;
        snprintf(name, sizeof name, i % 2 ? "%s/masks/%06d.png" : "%s/images/%06d.jpg", folder, (int)(i / 2));
        if (stk_file_read(unit_path(state, name), 1 << 20, &buffer, &size, &err)) fail_msg("%s", err.message);
        all = all * 31 + XXH3_64bits(buffer.data, size);
    }
    stk_buffer_free(&buffer);
    return all;
}

static void files_do_not_depend_on_threads(void **state)
{
    stoke_synth_params p = stoke_synth_defaults();
    stoke_error err = { 0 };
    p.count = 9;
    p.height = 48;
    p.width = 64;
    if (stoke_synth_write(&p, unit_path(state, "deep/one"), 1, NULL, NULL, &err)) fail_msg("%s", err.message);
    if (stoke_synth_write(&p, unit_path(state, "five"), 5, NULL, NULL, &err)) fail_msg("%s", err.message);
    if (stoke_synth_write(&p, unit_path(state, "auto"), 0, NULL, NULL, &err)) fail_msg("%s", err.message);
    uint64_t one = folder_digest(state, "deep/one", 9);
    assert_int_equal(one, folder_digest(state, "five", 9));
    assert_int_equal(one, folder_digest(state, "auto", 9));
    assert_int_not_equal(access(unit_path(state, "five/images/000009.jpg"), F_OK), 0);
}

/* What is written reads back: the mask exactly, the image nearly. */
static void files_hold_the_scene(void **state)
{
    stoke_synth_params p = stoke_synth_defaults();
    stoke_error err = { 0 };
    stk_mem_buffer buffer = { 0 };
    stoke_decoder *decoder;
    stoke_image back;
    size_t size;
    p.count = 2;
    p.height = 96;
    p.width = 120;
    assert_int_equal(stoke_synth_write(&p, unit_folder(state), 2, NULL, NULL, &err), 0);
    assert_int_equal(stoke_decoder_create(&decoder, &err), 0);
    picture d = draw(&p, 1);
    stoke_decode_params how = stoke_decode_defaults();
    how.purpose = STOKE_PURPOSE_MASK;
    assert_int_equal(stk_file_read(unit_path(state, "masks/000001.png"), 1 << 20, &buffer, &size, &err), 0);
    assert_int_equal(stoke_decoder_decode(decoder, buffer.data, size, &how, &back, &err), 0);
    assert_int_equal(digest(&back), digest(&d.mask));
    how.purpose = STOKE_PURPOSE_IMAGE;
    assert_int_equal(stk_file_read(unit_path(state, "images/000001.jpg"), 1 << 20, &buffer, &size, &err), 0);
    assert_int_equal(stoke_decoder_decode(decoder, buffer.data, size, &how, &back, &err), 0);
    assert_int_equal(back.width, 120);
    assert_int_equal(back.height, 96);
    uint64_t error = 0;
    for (uint32_t y = 0; y < 96; y++)
        for (uint32_t i = 0; i < 360; i++)
            error += (uint64_t)abs(((uint8_t *)back.data)[y * back.stride + i] -
                                   ((uint8_t *)d.image.data)[y * d.image.stride + i]);
    assert_true(error / (96 * 360) < 8); /* 4:2:0 and quality 90 */
    release(&d);
    stoke_decoder_destroy(&decoder);
    stk_buffer_free(&buffer);
}

typedef struct watcher {
    uint64_t calls, last, stop_at;
} watcher;

static int watch(void *context, uint64_t done, uint64_t total)
{
    watcher *w = context;
    assert_true(done >= w->last);
    assert_int_equal(total, 30);
    w->calls++;
    w->last = done;
    return w->stop_at && done >= w->stop_at;
}

static void progress_is_told_and_can_stop(void **state)
{
    stoke_synth_params p = stoke_synth_defaults();
    stoke_error err = { 0 };
    watcher all = { 0 }, some = { .stop_at = 1 };
    p.count = 30;
    p.height = p.width = 16;
    assert_int_equal(stoke_synth_write(&p, unit_path(state, "a"), 2, watch, &all, &err), 0);
    assert_int_equal(all.last, 30);
    p.height = p.width = 512; /* long enough to be asked on the way */
    assert_int_equal(stoke_synth_write(&p, unit_path(state, "b"), 1, watch, &some, &err), STOKE_E_CANCELLED);
    assert_true(some.last < 30);
    assert_int_not_equal(access(unit_path(state, "b/masks/000029.png"), F_OK), 0);
}

static void write_failures_name_the_place(void **state)
{
    stoke_synth_params p = stoke_synth_defaults();
    stoke_error err = { 0 };
    p.count = 3;
    p.height = p.width = 16;
    unit_write(unit_path(state, "file"), "x", 1);
    assert_int_equal(stoke_synth_write(&p, unit_path(state, "file"), 1, NULL, NULL, &err), STOKE_E_IO);
    assert_non_null(strstr(err.message, "file"));
    assert_int_equal(mkdir(unit_path(state, "images"), 0777), 0);
    assert_int_equal(mkdir(unit_path(state, "images/000001.jpg"), 0777), 0); /* in the way of a file */
    assert_int_equal(stoke_synth_write(&p, unit_folder(state), 2, NULL, NULL, &err), STOKE_E_STATE);
    p.force = 1; /* the folder is not from here */
    assert_int_equal(stoke_synth_write(&p, unit_folder(state), 2, NULL, NULL, &err), STOKE_E_IO);
    assert_non_null(strstr(err.message, "000001.jpg"));
}

UNIT_GROUP(synth)
{
    const struct CMUnitTest tests[] = {
        UNIT_ONE_THREAD(golden_scenes),
        UNIT_ONE_THREAD(mask_is_the_topmost_shape),
        UNIT_ONE_THREAD(scenes_are_varied_and_in_range),
        cmocka_unit_test(classes_look_like_their_colours),
        cmocka_unit_test(seed_index_and_size_matter),
        unit_test_with_folder(wrong_params_are_refused),
        cmocka_unit_test(out_of_memory_is_an_error),
        unit_test_with_folder(files_do_not_depend_on_threads),
        unit_test_with_folder(files_hold_the_scene),
        unit_test_with_folder(progress_is_told_and_can_stop),
        unit_test_with_folder(write_failures_name_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
