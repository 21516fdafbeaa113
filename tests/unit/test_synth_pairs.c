/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic pairs to be restored: the same bytes everywhere, a clean picture, and one that lacks what it
 * says.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include <stoke/tools/dataset.h>
#include <stoke/tools/synth.h>
#include <stoke/tools/tools.h>
#include <xxhash.h>

#include "src/base/mem.h"

enum { GAP = 5, GAP_BYTE = 0xa5 };

/* Rows have a gap, so that writing past a row is noticed. */
typedef struct pair {
    stoke_image image, target;
} pair;

static stoke_image room(uint32_t width, uint32_t height)
{
    const stoke_image image = {
        malloc(((size_t)width * 3 + GAP) * height), (size_t)width * 3 + GAP, width, height, 3, 1
    };
    memset(image.data, GAP_BYTE, image.stride * height);
    return image;
}

static pair draw(const stoke_synth_params *p, uint64_t index)
{
    pair d = { room(p->width / p->scale, p->height / p->scale), room(p->width, p->height) };
    stoke_error err = { 0 };
    if (stoke_synth_draw_pair(p, index, &d.image, &d.target, &err)) fail_msg("%s", err.message);
    const stoke_image *const both[] = { &d.image, &d.target };
    for (int k = 0; k < 2; k++)
        for (uint32_t y = 0; y < both[k]->height; y++)
            for (int i = 1; i <= GAP; i++)
                assert_int_equal(((uint8_t *)both[k]->data)[(y + 1) * both[k]->stride - i], GAP_BYTE);
    return d;
}

static void release(pair *d)
{
    free(d->image.data);
    free(d->target.data);
}

static uint64_t digest(const stoke_image *image)
{
    uint64_t hash = 0;
    for (uint32_t y = 0; y < image->height; y++)
        hash = XXH3_64bits_withSeed((const uint8_t *)image->data + y * image->stride,
                                    (size_t)image->width * 3, hash);
    return hash;
}

static stoke_synth_params restoring(int degrade, uint32_t scale)
{
    stoke_synth_params p = stoke_synth_defaults();
    p.restore = 1;
    p.degrade = degrade;
    p.scale = scale;
    p.height = 144;
    p.width = 192;
    return p;
}

/* The same bytes on every machine, compiler and optimisation. */
static void golden_pairs(void **state)
{
    static const struct {
        int degrade;
        uint32_t scale;
        uint64_t index, image, target;
    } golden[] = {
        { STOKE_DEGRADE_NOISE, 1, 0, 0xa7ff256079e19c42, 0x0341207cb6408584 },
        { STOKE_DEGRADE_BLUR, 1, 1, 0x29079be33a243d3f, 0x48ff94c3c6f03d89 },
        { STOKE_DEGRADE_DARK, 2, 2, 0xfc560ed5820267b0, 0xec6e5c2b805f71f7 },
        { STOKE_DEGRADE_MIX, 3, 3, 0x930b9914792d1e16, 0xc8dcfef2333ece6b },
        { STOKE_DEGRADE_MIX, 1, 4, 0xe8aa20d166624831, 0xb17076ba9f105128 },
        { STOKE_DEGRADE_NONE, 4, 5, 0xa7bbb80786f11165, 0xfe1a049a3911341f },
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        const stoke_synth_params p = restoring(golden[i].degrade, golden[i].scale);
        pair d = draw(&p, golden[i].index);
        if (digest(&d.image) != golden[i].image || digest(&d.target) != golden[i].target) {
            print_message("pair %zu: 0x%016llx, 0x%016llx\n", i, (unsigned long long)digest(&d.image),
                          (unsigned long long)digest(&d.target));
            wrong++;
        }
        release(&d);
    }
    assert_int_equal(wrong, 0);
}

/* Mean of scale x scale pixels of the target. */
static double under(const pair *d, uint32_t scale, uint32_t x, uint32_t y, uint32_t c)
{
    double sum = 0;
    for (uint32_t k = 0; k < scale * scale; k++)
        sum += ((const uint8_t *)d->target
                    .data)[(y * scale + k / scale) * d->target.stride + (x * scale + k % scale) * 3 + c];
    return sum / (scale * scale);
}

typedef struct figures {
    double light;           /* mean of the image by that of the target */
    double error;           /* root mean square, against the target made as dark */
    double edges, steepest; /* mean and largest step from pixel to pixel, image by target */
} figures;

static figures measure(const pair *d, uint32_t scale)
{
    figures f = { 0 };
    double image = 0, target = 0, square = 0, steps[2] = { 0 }, most[2] = { 0 };
    const uint32_t w = d->image.width, h = d->image.height;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t y = 0; y < h; y++)
            for (uint32_t x = 0; x < w; x++)
                for (uint32_t c = 0; c < 3; c++) {
                    const uint8_t *row = (const uint8_t *)d->image.data + y * d->image.stride;
                    const double is = row[3 * x + c], was = under(d, scale, x, y, c);
                    if (pass) {
                        square += (is - was * f.light) * (is - was * f.light);
                        continue;
                    }
                    image += is;
                    target += was;
                    if (x + 1 == w) continue;
                    const double step[2] = { fabs(row[3 * (x + 1) + c] - is),
                                             fabs(under(d, scale, x + 1, y, c) - was) };
                    for (int k = 0; k < 2; k++) {
                        steps[k] += step[k];
                        most[k] = fmax(most[k], step[k]);
                    }
                    f.light = image / target;
                }
    f.error = sqrt(square / ((double)w * h * 3));
    f.edges = steps[0] / steps[1];
    f.steepest = most[0] / most[1];
    return f;
}

/* What each of them takes away, and nothing else. */
static void pictures_lack_what_they_say(void **state)
{
    static const uint32_t scales[] = { 1, 2, 4 };
    for (uint64_t index = 0; index < 6; index++) {
        for (size_t i = 0; i < 3; i++) {
            const uint32_t scale = scales[i];
            stoke_synth_params p = restoring(STOKE_DEGRADE_NOISE, scale);
            pair d = draw(&p, index);
            figures f = measure(&d, scale);
            assert_true(f.light > 0.9 && f.light < 1.1 && f.error > 6 && f.error < 40 && f.edges > 1.5);
            const uint64_t clean = digest(&d.target);
            release(&d);
            p.degrade = STOKE_DEGRADE_BLUR;
            d = draw(&p, index);
            f = measure(&d, scale);
            assert_true(f.light > 0.98 && f.light < 1.02 && f.error < 25);
            assert_true(scale > 1 || f.steepest < 0.9);
            assert_int_equal(digest(&d.target), clean); /* one scene for all of them */
            release(&d);
            p.degrade = STOKE_DEGRADE_DARK;
            d = draw(&p, index);
            f = measure(&d, scale);
            assert_true(f.light > 0.12 && f.light < 0.42 && f.error < 8);
            release(&d);
            p.degrade = STOKE_DEGRADE_NONE;
            if (scale == 1) continue;
            d = draw(&p, index);
            f = measure(&d, scale);
            assert_true(f.error < 0.6); /* rounding */
            release(&d);
        }
    }
}

/* A mixed set has pictures of every kind. */
static void mixed_sets_are_mixed(void **state)
{
    const stoke_synth_params p = restoring(STOKE_DEGRADE_MIX, 1);
    int dark = 0, noisy = 0, plain = 0;
    for (uint64_t index = 0; index < 24; index++) {
        pair d = draw(&p, index);
        const figures f = measure(&d, 1);
        dark += f.light < 0.5;
        noisy += f.edges > 1.5 * f.light;
        plain += f.light > 0.9 && f.edges < 1;
        release(&d);
    }
    assert_true(dark > 4 && dark < 20);
    assert_true(noisy > 4);
    assert_true(plain > 0);
}

static void wrong_params_are_refused(void **state)
{
    stoke_error err;
    uint8_t pixels[32 * 32 * 3];
    stoke_synth_params good = restoring(STOKE_DEGRADE_NOISE, 2), p;
    good.height = good.width = 32;
    stoke_image target = { pixels, 96, 32, 32, 3, 1 }, image = { pixels, 48, 16, 16, 3, 1 };
#define REFUSED(change)                                                                                      \
    p = good;                                                                                                \
    p.change;                                                                                                \
    assert_int_equal(stoke_synth_draw_pair(&p, 0, &image, &target, &err), STOKE_E_INVALID);                  \
    assert_int_equal(stoke_synth_write(&p, unit_folder(state), 1, NULL, NULL, &err), STOKE_E_INVALID)
    REFUSED(degrade = 5);
    REFUSED(degrade = -1);
    REFUSED(scale = 0);
    REFUSED(scale = 5);
    REFUSED(width = 33);
    REFUSED(restore = 0);
    p = good;
    p.scale = 1;
    p.degrade = STOKE_DEGRADE_NONE;
    assert_int_equal(stoke_synth_write(&p, unit_folder(state), 1, NULL, NULL, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_synth_draw_pair(&good, 0, &target, &image, &err), STOKE_E_INVALID);
}

static void out_of_memory_is_an_error(void **state)
{
    stoke_synth_params p = restoring(STOKE_DEGRADE_MIX, 2);
    pair d = draw(&p, 0);
    int status = STOKE_E_NOMEM;
    int64_t allowed = 0;
    for (; status && allowed < 50; allowed++) {
        stk_mem_fail_after(allowed);
        status = stoke_synth_draw_pair(&p, 0, &d.image, &d.target, NULL);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || status == STOKE_E_NOMEM);
    }
    assert_int_equal(status, STOKE_OK);
    assert_true(allowed > 6);
    release(&d);
}

/* Pairs are found by themselves, read back exactly, do not depend on threads, and do not mix with masks. */
static void files_hold_the_pairs(void **state)
{
    stoke_synth_params p = restoring(STOKE_DEGRADE_MIX, 2);
    stoke_error err = { 0 };
    const char *folders[] = { "one", "three" };
    uint64_t all[2] = { 0 };
    p.count = 4;
    for (int k = 0; k < 2; k++) {
        stoke_data_params params = stoke_data_defaults();
        stoke_dataset *dataset;
        stoke_loader *loader;
        const stoke_batch *batch;
        params.data = unit_path(state, folders[k]);
        params.scale = 2;
        params.order = STOKE_ORDER_SEQUENTIAL;
        params.dtype = STOKE_IMAGE_DTYPE_U8;
        params.layout = STOKE_LAYOUT_HWC;
        params.quarantine = "";
        if (stoke_synth_write(&p, params.data, k ? 3 : 1, NULL, NULL, &err)) fail_msg("%s", err.message);
        if (stoke_dataset_open(&dataset, &params, &err)) fail_msg("%s", err.message);
        assert_true(stoke_dataset_has_targets(dataset));
        if (stoke_loader_create(&loader, dataset, &params, NULL, &err)) fail_msg("%s", err.message);
        assert_int_equal(stoke_loader_next(loader, &batch), 0);
        assert_int_equal(batch->count, 4);
        for (uint64_t i = 0; i < 4; i++) {
            pair d = draw(&p, i);
            const stoke_image image = { (uint8_t *)batch->images + i * batch->image_row_bytes,
                                        (size_t)batch->width * 3,
                                        batch->width,
                                        batch->height,
                                        3,
                                        1 };
            const stoke_image target = { (uint8_t *)batch->targets + i * batch->target_row_bytes,
                                         (size_t)batch->target_width * 3,
                                         batch->target_width,
                                         batch->target_height,
                                         3,
                                         1 };
            assert_int_equal(digest(&image), digest(&d.image));
            assert_int_equal(digest(&target), digest(&d.target));
            all[k] = all[k] * 31 + digest(&image);
            release(&d);
        }
        stoke_loader_destroy(&loader);
        stoke_dataset_close(&dataset);
    }
    assert_int_equal(all[0], all[1]);
    p.restore = 0;
    p.scale = 1;
    assert_int_equal(stoke_synth_write(&p, unit_path(state, "one"), 1, NULL, NULL, &err), STOKE_E_STATE);
    assert_non_null(strstr(err.message, "a set of the other task (targets)"));
}

UNIT_GROUP(synth_pairs)
{
    const struct CMUnitTest tests[] = {
        UNIT_ONE_THREAD(golden_pairs),
        UNIT_ONE_THREAD(pictures_lack_what_they_say),
        UNIT_ONE_THREAD(mixed_sets_are_mixed),
        unit_test_with_folder(wrong_params_are_refused),
        cmocka_unit_test(out_of_memory_is_an_error),
        unit_test_with_folder(files_hold_the_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
