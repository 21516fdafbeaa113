/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches that lie on a device, augmented there: the bytes of stoke_rows on the host, for every type and
 * layout that comes in, on every device that is here.
 */
#include "tests/unit/fixture_devices.h"

#include <stoke/tools/device_rows.h>
#include <stoke/tools/rows.h>
#include <stoke/tools/device.h>

enum { SIDE_H = 24, SIDE_W = 36, COUNT = 5, CLASSES = 7 };

typedef struct one_case {
    const char *augment;
    stoke_dtype image, mask;
    stoke_layout layout;
    uint32_t channels, size[2];
    int unlabeled;
    int mask_dtype; /* of the result: the option's number */
} one_case;

static const one_case cases[] = {
    { "standard", STOKE_DTYPE_F32, STOKE_DTYPE_I64, STOKE_LAYOUT_CHW, 3, { SIDE_H, SIDE_W }, 0, 4 },
    { "standard,mixup(p=0.6)",
      STOKE_DTYPE_U8,
      STOKE_DTYPE_U8,
      STOKE_LAYOUT_HWC,
      3,
      { SIDE_H, SIDE_W },
      0,
      1 },
    { "standard,cutmix(p=0.6,share=0.2..0.8)",
      STOKE_DTYPE_U16,
      STOKE_DTYPE_U16,
      STOKE_LAYOUT_HWC,
      3,
      { SIDE_H, SIDE_W },
      0,
      2 },
    { "hflip,elastic(p=1),clahe(p=1)",
      STOKE_DTYPE_F32,
      STOKE_DTYPE_I32,
      STOKE_LAYOUT_HWC,
      1,
      { SIDE_H, SIDE_W },
      0,
      3 },
    { "crop", STOKE_DTYPE_U8, STOKE_DTYPE_I64, STOKE_LAYOUT_CHW, 3, { 16, 20 }, 0, 4 },
    { "random_crop,rotate(p=1)", STOKE_DTYPE_F32, STOKE_DTYPE_I64, STOKE_LAYOUT_CHW, 3, { 40, 20 }, 0, 4 },
    { "face", STOKE_DTYPE_F32, STOKE_DTYPE_I64, STOKE_LAYOUT_CHW, 3, { SIDE_H, SIDE_W }, 1, 4 },
};

typedef struct pictures {
    stoke_data_params params;
    size_t image_bytes, mask_bytes; /* of one picture */
    unsigned char images[COUNT * SIDE_H * SIDE_W * 3 * 4], masks[COUNT * SIDE_H * SIDE_W * 8];
} pictures;

static uint32_t word(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill(pictures *p, const one_case *c)
{
    uint32_t state = 1;
    const size_t samples = (size_t)COUNT * SIDE_H * SIDE_W * c->channels,
                 pixels = (size_t)COUNT * SIDE_H * SIDE_W;
    for (size_t i = 0; i < samples; i++) {
        const uint32_t w = word(&state);
        const float real = (float)(w % 70001) / 69000.0f - 0.005f; /* some of them outside 0..1 */
        if (c->image == STOKE_DTYPE_F32) memcpy(p->images + 4 * i, &real, 4);
        if (c->image == STOKE_DTYPE_U16) memcpy(p->images + 2 * i, &(uint16_t){ (uint16_t)w }, 2);
        if (c->image == STOKE_DTYPE_U8) p->images[i] = (uint8_t)w;
    }
    for (size_t i = 0; i < pixels; i++) {
        const int64_t id = word(&state) % (CLASSES + 1) == CLASSES ? 255 : word(&state) % CLASSES;
        const size_t bytes = stoke_dtype_bytes(c->mask);
        memcpy(p->masks + i * bytes, &id, bytes); /* little end first */
    }
    p->image_bytes = samples / COUNT * stoke_dtype_bytes(c->image);
    p->mask_bytes = pixels / COUNT * stoke_dtype_bytes(c->mask);
    p->params = stoke_data_defaults();
    p->params.augment = c->augment;
    memcpy(p->params.size, c->size, sizeof c->size);
    p->params.seed = 11;
    p->params.classes = strcmp(c->augment, "face") ? CLASSES : 19;
    p->params.mask_dtype = c->mask_dtype;
    p->params.normalize = STOKE_NORMALIZE_IMAGENET;
}

/* What the host makes of it. */
static void make_here(const pictures *p, const one_case *c, stoke_rows **rows, stoke_batch **batch)
{
    const ptrdiff_t sample = (ptrdiff_t)stoke_dtype_bytes(c->image),
                    id = (ptrdiff_t)stoke_dtype_bytes(c->mask);
    const int first = c->layout == STOKE_LAYOUT_CHW;
    devices_ok(stoke_rows_create(rows, &p->params, NULL, err));
    devices_ok(stoke_rows_begin(*rows, COUNT, 3, 40, batch, err));
    for (uint32_t i = 0; i < COUNT; i++) {
        const ptrdiff_t column = first ? sample : sample * c->channels;
        const stoke_pixels image = { p->images + i * p->image_bytes,
                                     c->image,
                                     SIDE_W,
                                     SIDE_H,
                                     c->channels,
                                     column,
                                     column * SIDE_W,
                                     first ? sample * SIDE_W * SIDE_H : sample };
        const stoke_pixels mask = {
            p->masks + i * p->mask_bytes, c->mask, SIDE_W, SIDE_H, 1, id, id * SIDE_W, 0
        };
        devices_ok(stoke_rows_put(*rows, *batch, i, &image, c->unlabeled ? NULL : &mask, err));
    }
    devices_ok(stoke_rows_finish(*rows, *batch, err));
}

static stoke_device_buffer *there(on_device *on, const void *from, size_t bytes)
{
    stoke_device_buffer *buffer;
    devices_ok(stoke_device_buffer_create(&buffer, on->device, bytes, err));
    if (!from) return buffer;
    const uintptr_t address = (uintptr_t)stoke_device_buffer_address(buffer);
    const stk_device_block far = { .device = on->device,
                                   .kind = STK_MEMORY_DEVICE,
                                   .bytes = bytes,
                                   .handle = address,
                                   .host = on->device->fns == &stk_device_host ? (void *)address : NULL };
    const stk_device_block near = {
        .device = on->device, .kind = STK_MEMORY_PAGEABLE, .bytes = bytes, .host = (void *)from
    };
    devices_ok(stk_stream_copy(on->stream, &far, 0, &near, 0, bytes, err));
    devices_ok(stk_stream_finish(on->stream, err));
    return buffer;
}

static void compare(stoke_device_buffer *got, const void *wanted, size_t bytes, const one_case *c,
                    const char *what)
{
    unsigned char *copy = malloc(bytes);
    devices_ok(stoke_device_buffer_read(got, copy, bytes, err));
    if (memcmp(copy, wanted, bytes)) fail_msg("%s: %s differ", c->augment, what);
    free(copy);
}

static void run_case(on_device *on, const one_case *c)
{
    static pictures p;
    stoke_rows *rows;
    stoke_batch *wanted;
    stoke_device_rows *far;
    fill(&p, c);
    make_here(&p, c, &rows, &wanted);
    devices_ok(stoke_device_rows_create(&far, on->device, &p.params, COUNT + 2, SIDE_W, SIDE_H, err));
    const stoke_batch shape = stoke_device_rows_shape(far, COUNT);
    const size_t image = shape.image_row_bytes * COUNT, mask = shape.mask_row_bytes * COUNT;
    const int two = stoke_device_rows_two_masks(far);
    stoke_device_buffer *from[2] = { there(on, p.images, p.image_bytes * COUNT),
                                     there(on, p.masks, p.mask_bytes * COUNT) };
    stoke_device_buffer *to[3] = { there(on, NULL, image), there(on, NULL, mask),
                                   two ? there(on, NULL, mask) : NULL };
    float lambda[COUNT];
    const stoke_device_source source = { stoke_device_buffer_address(from[0]),
                                         c->unlabeled ? 0 : stoke_device_buffer_address(from[1]),
                                         c->image,
                                         c->mask,
                                         c->layout,
                                         c->channels,
                                         COUNT };
    const stoke_device_target target = { stoke_device_buffer_address(to[0]),
                                         stoke_device_buffer_address(to[1]),
                                         two ? stoke_device_buffer_address(to[2]) : 0, two ? lambda : NULL };
    for (int again = 0; again < 5; again++) { /* the turns come round */
        devices_ok(stoke_device_rows_run(far, 3, 40, &source, &target, 0, NULL, err));
        compare(to[0], wanted->images, image, c, "images");
        compare(to[1], wanted->masks, mask, c, "masks");
        if (two) compare(to[2], wanted->masks_b, mask, c, "second masks");
        if (two) assert_memory_equal(lambda, wanted->lambda, sizeof lambda);
    }
    for (int i = 0; i < 2; i++) stoke_device_buffer_destroy(&from[i]);
    for (int i = 0; i < 3; i++) stoke_device_buffer_destroy(&to[i]);
    stoke_device_rows_destroy(&far);
    stoke_rows_destroy(&rows);
}

static void bytes_are_those_of_the_host(on_device *on)
{
    const stoke_device_info *info = stoke_device_describe(on->device);
    if (!info->exact_math || info->emulated) unit_skip("no bytes to compare on this device");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(on, &cases[i]);
}

/* What a device does not do is told before anything runs, and a value that is no class is none. */
static void limits_are_told(on_device *on)
{
    stoke_device_rows *rows;
    stoke_error why = { 0 };
    stoke_data_params params = stoke_data_defaults();
    params.size[0] = params.size[1] = 16;
    if (stoke_device_describe(on->device)->emulated) {
        assert_int_equal(stoke_device_rows_create(&rows, on->device, &params, 2, 16, 16, &why),
                         STOKE_E_INVALID);
        return;
    }
    params.augment = "foreground_crop";
    assert_int_equal(stoke_device_rows_create(&rows, on->device, &params, 2, 16, 16, &why),
                     STOKE_E_UNSUPPORTED);
    params.augment = "hflip";
    assert_int_equal(stoke_device_rows_create(&rows, on->device, &params, 2, 32, 16, &why),
                     STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(why.message, "resized"));
    assert_int_equal(stoke_device_rows_create(&rows, on->device, &params, 0, 16, 16, &why), STOKE_E_INVALID);
    params.augment = "none";
    params.classes = 4;
    params.mask_dtype = STOKE_MASK_DTYPE_I64;
    devices_ok(stoke_device_rows_create(&rows, on->device, &params, 1, 16, 16, err));
    static float pixels[3 * 256];
    static int64_t ids[256] = { 3, 4, -1, 255, 70000 }, got[256];
    stoke_device_buffer *from[2] = { there(on, pixels, sizeof pixels), there(on, ids, sizeof ids) };
    stoke_device_buffer *to[2] = { there(on, NULL, sizeof pixels), there(on, NULL, sizeof ids) };
    stoke_device_source source = { stoke_device_buffer_address(from[0]),
                                   stoke_device_buffer_address(from[1]),
                                   STOKE_DTYPE_F32,
                                   STOKE_DTYPE_I64,
                                   STOKE_LAYOUT_CHW,
                                   3,
                                   1 };
    stoke_device_target target = { stoke_device_buffer_address(to[0]), stoke_device_buffer_address(to[1]), 0,
                                   NULL };
    devices_ok(stoke_device_rows_run(rows, 0, 0, &source, &target, 0, NULL, err));
    devices_ok(stoke_device_buffer_read(to[1], got, sizeof got, err));
    assert_true(got[0] == 3 && got[1] == 255 && got[2] == 255 && got[3] == 255 && got[4] == 255 &&
                got[5] == 0);
    source.count = 2;
    assert_int_equal(stoke_device_rows_run(rows, 0, 0, &source, &target, 0, NULL, &why), STOKE_E_INVALID);
    source.count = 1;
    source.image_dtype = STOKE_DTYPE_I64;
    assert_int_equal(stoke_device_rows_run(rows, 0, 0, &source, &target, 0, NULL, &why), STOKE_E_INVALID);
    source.image_dtype = STOKE_DTYPE_F32;
    target.images = source.images;
    assert_int_equal(stoke_device_rows_run(rows, 0, 0, &source, &target, 0, NULL, &why), STOKE_E_INVALID);
    for (int i = 0; i < 2; i++) stoke_device_buffer_destroy(&from[i]), stoke_device_buffer_destroy(&to[i]);
    stoke_device_rows_destroy(&rows);
}

UNIT_GROUP(device_rows)
{
    static const device_test tests[] = {
        { "bytes_are_those_of_the_host", bytes_are_those_of_the_host },
        { "limits_are_told", limits_are_told },
    };
    enum { TESTS = sizeof tests / sizeof *tests, KINDS = 4 };
    static struct CMUnitTest all[KINDS * TESTS];
    static device_run runs[KINDS * TESTS];
    devices_tests(tests, TESTS, all, runs);
    return cmocka_run_group_tests(all, NULL, NULL);
}
