/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels read as C, against what the host does with the same numbers, byte for byte: geometry, masks,
 * mixing, elements, and what they rest on (Philox, 16-bit floats). Devices are held to the host by the
 * selftest.
 */
#include "tests/unit/fixture_color.h"

#include "kernels/half.h"
#include "kernels/philox.h"
#include "src/device/device.h"
#include "src/upload/augmenter.h"
#include "src/loader/slots.h"
#include "src/pix/warp.h"

enum { ROWS = 3, STEPS = 4, UNTOUCHED = 0xa5 };

static uint16_t swapped[65536]; /* the mirror image of an id */

static const stoke_dtype image_types[] = { STOKE_DTYPE_U8, STOKE_DTYPE_F32, STOKE_DTYPE_F16,
                                           STOKE_DTYPE_BF16 };
static const stoke_dtype mask_types[] = { STOKE_DTYPE_U8, STOKE_DTYPE_U16, STOKE_DTYPE_I32, STOKE_DTYPE_I64 };

/* ---- a batch on its way ---- */

typedef struct batch {
    stk_loader_config config; /* as far as tables.c looks at it */
    stk_raw_row row[ROWS];
    k_shape shape;
    k_sample sample[ROWS];
    k_step step[ROWS * STEPS];
    float *deep; /* [3][65536]; NULL for samples of one byte */
    uint8_t *raw;
    float *points, *planes;
    uint8_t *images, *masks; /* a row more than the shape counts, which nobody may touch */
    size_t image_bytes, mask_bytes;
} batch;

static void *room(size_t bytes)
{
    void *p = stk_alloc_aligned(bytes ? bytes : 1, 64);
    assert_non_null(p);
    memset(p, UNTOUCHED, bytes);
    return p;
}

static size_t whole_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void run(enum stk_program_kernel kernel, void *const *arguments, uint32_t x, uint32_t y, uint32_t z)
{
    /* In two parts, as two threads would, and beyond the edge, as devices do. */
    const uint32_t cut = y / 2;
    stk_augment_program.host[kernel](arguments, (const uint32_t[]){ 0, 0, 0 },
                                     (const uint32_t[]){ x + 3, cut, z + 1 });
    stk_augment_program.host[kernel](arguments, (const uint32_t[]){ 0, cut, 0 },
                                     (const uint32_t[]){ x + 3, y + 2, z + 1 });
}

static void batch_begin(batch *b, const uint32_t size[2], stoke_dtype dtype, stoke_layout layout,
                        stoke_dtype mask_dtype)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < 65536; i++) swapped[i] = (uint16_t)(i ^ 5);
    b->config = (stk_loader_config){
        .width = size[0], .height = size[1], .mask_dtype = mask_dtype, .mask_fill = 255, .swap = swapped
    };
    stk_writer_init(&b->config.writer, dtype, layout, (stoke_normalize)below(3));
}

static void batch_end(batch *b)
{
    stk_free(b->images);
    stk_free(b->masks);
    stk_free(b->planes);
    stk_free(b->deep);
    stk_free(b->raw);
    stk_free(b->points);
}

static int64_t fixed(double value)
{
    return (int64_t)llrint(value * 4294967296.0);
}

/* Turned and scaled about something near the middle, or anything at all. */
static void draw_warp(stoke_augment_plan *plan, uint32_t width, uint32_t height)
{
    const double angle = uniform(0, 6.3), scale = uniform(0.3, 2), c = cos(angle) * scale,
                 s = sin(angle) * scale;
    const int64_t turned[6] = {
        fixed(c), fixed(-s), fixed(uniform(0, plan->width) - c * width / 2 + s * height / 2),
        fixed(s), fixed(c),  fixed(uniform(0, plan->height) - s * width / 2 - c * height / 2)
    };
    plan->warp = 1;
    for (int i = 0; i < 6; i++)
        plan->matrix[i] = below(8) ? turned[i] : (int64_t)stk_mix64(below(UINT32_MAX)) >> below(64);
    if (below(2)) return;
    plan->elastic_alpha = (float)uniform(0.01, 40);
    plan->elastic_step = (float)uniform(4, 60);
    plan->elastic_key = stk_mix64(below(UINT32_MAX));
}

/* A plan for a picture of `width` x `height` in the batch: placed (also beyond the edge) or warped. */
static void draw_plan(const batch *b, stoke_augment_plan *plan, int warp)
{
    const uint32_t width = b->config.width, height = b->config.height;
    *plan = (stoke_augment_plan){ .width = 1 + below(width + 4), .height = 1 + below(height + 4) };
    if (warp) {
        draw_warp(plan, width, height);
        return;
    }
    plan->place_x = below(width);
    plan->place_y = below(height);
    plan->hflip = (uint8_t)below(2);
    plan->vflip = (uint8_t)below(2);
}

static void plain_plan(const batch *b, stoke_augment_plan *plan)
{
    *plan = (stoke_augment_plan){ .width = b->config.width, .height = b->config.height };
}

/* Elements of samples of two bytes, by the words of stk_pix_writer. */
static float *deep_of(const stk_pix_writer *writer)
{
    float *deep = room(3 * 65536 * sizeof *deep);
    for (int c = 0; c < 3; c++) {
        const double scale = writer->scale[c] / 65535.0;
        for (int v = 0; v < 65536; v++) deep[c * 65536 + v] = (float)(v * scale + writer->bias[c]);
    }
    return deep;
}

/* Room for the batch, with gaps between its rows. */
static void take_room(batch *b, uint32_t count)
{
    const size_t pixels = (size_t)b->config.width * b->config.height;
    b->shape = stk_tables_shape(&b->config, count);
    b->shape.image_pitch = whole_lines(b->shape.image_pitch + 1);
    b->shape.mask_pitch = whole_lines(b->shape.mask_pitch + 1);
    b->image_bytes = b->shape.image_pitch * (ROWS + 1);
    b->mask_bytes = b->shape.mask_pitch * (ROWS + 1);
    b->images = room(b->image_bytes);
    b->masks = room(b->mask_bytes);
    b->planes = room(pixels * 3 * sizeof(float) * ROWS);
}

/* Random pictures and ids for the plans of the rows, and their tables. */
static void fill_rows(batch *b, uint8_t depth, uint8_t mask_depth, uint32_t count)
{
    size_t pixels = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        stk_raw_row *row = &b->row[i];
        row->width = row->plan.width;
        row->height = row->plan.height;
        row->depth = depth;
        row->mask_depth = mask_depth;
        if ((size_t)row->width * row->height > pixels) pixels = (size_t)row->width * row->height;
    }
    const stk_tables_raw_layout layout = { .image_pitch = whole_lines(pixels * 3 * depth),
                                           .mask_at = ROWS * whole_lines(pixels * 3 * depth),
                                           .mask_pitch = whole_lines(pixels * mask_depth) };
    const size_t bytes = layout.mask_at + ROWS * layout.mask_pitch;
    b->raw = room(bytes);
    for (size_t i = 0; i < bytes; i++) b->raw[i] = (uint8_t)below(256);
    stk_tables tables = { .samples = b->sample, .steps = b->step, .steps_capacity = ROWS * STEPS };
    stoke_error err = { 0 };
    if (stk_tables_fill(&tables, &b->config, b->row, count, &layout, &err)) fail_msg("%s", err.message);
    take_room(b, count);
    if (depth == 2) b->deep = deep_of(&b->config.writer);
    b->points = room(tables.points * 2 * sizeof(float));
    void *const arguments[] = { b->points, b->sample, &b->shape };
    run(STK_KERNEL_elastic_points, arguments, tables.columns, tables.rows, count);
}

static void lay_images(batch *b)
{
    uint32_t no_keys = 0;
    void *const arguments[] = { b->images, b->planes, b->raw,  b->sample, b->step,
                                b->points, &no_keys,  b->deep, &b->shape };
    run(STK_KERNEL_lay_image, arguments, b->shape.width, b->shape.height, ROWS);
}

static void lay_masks(batch *b)
{
    void *const arguments[] = { b->masks, b->raw, b->sample, b->step, b->points, swapped, &b->shape };
    run(STK_KERNEL_lay_mask, arguments, b->shape.width, b->shape.height, ROWS);
}

/* ---- the same on the host ---- */

static stoke_image picture_of(const batch *b, uint32_t row, int mask)
{
    const k_sample *s = &b->sample[row];
    const uint8_t depth = (uint8_t)(mask ? s->mask_depth : s->depth), channels = mask ? 1 : 3;
    return (stoke_image){ b->raw + (mask ? s->mask : s->image),
                          (size_t)s->width * channels * depth,
                          s->width,
                          s->height,
                          channels,
                          depth };
}

static int mirror_of(const stoke_augment_plan *plan)
{
    return (plan->hflip ? STK_MIRROR_H : 0) | (plan->vflip ? STK_MIRROR_V : 0);
}

static void host_image(const batch *b, uint32_t row, void *out)
{
    static const uint8_t black[3];
    const stoke_image src = picture_of(b, row, 0);
    const stoke_augment_plan *plan = &b->row[row].plan;
    if (!plan->warp) {
        stk_write_image(&b->config.writer, &src, out, b->shape.width, b->shape.height, plan->place_x,
                        plan->place_y, mirror_of(plan));
        return;
    }
    stk_pix_warper warper = { 0 };
    void *line = room((size_t)b->shape.width * 3 * src.depth);
    assert_int_equal(stk_warp_begin(&warper, plan, b->shape.width, b->shape.height, NULL), 0);
    for (uint32_t y = 0; y < b->shape.height; y++) {
        stk_warp_image_row(&warper, &src, black, y, line);
        stk_write_image_line(&b->config.writer, line, src.depth, out, b->shape.width, b->shape.height, y);
    }
    stk_free(line);
    stk_warper_free(&warper);
}

static void host_mask(const batch *b, uint32_t row, const stoke_image *ids, void *out)
{
    const stoke_augment_plan *plan = &b->row[row].plan;
    const stoke_dtype dtype = (stoke_dtype)b->shape.mask_dtype;
    if (!plan->warp) {
        stk_write_mask(ids, dtype, out, b->shape.width, b->shape.height, plan->place_x, plan->place_y,
                       mirror_of(plan), b->shape.mask_fill);
        return;
    }
    stk_pix_warper warper = { 0 };
    void *line = room((size_t)b->shape.width * ids->depth);
    assert_int_equal(stk_warp_begin(&warper, plan, b->shape.width, b->shape.height, NULL), 0);
    for (uint32_t y = 0; y < b->shape.height; y++) {
        stk_warp_mask_row(&warper, ids, b->shape.mask_fill, y, line);
        stk_write_mask_line(line, ids->depth, dtype, out, b->shape.width, y);
    }
    stk_free(line);
    stk_warper_free(&warper);
}

/* All rows, and what lies between and after them. */
static void compare(const batch *b, const uint8_t *got, const uint8_t *expected, size_t bytes, size_t pitch)
{
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != expected[i])
            fail_msg("%u x %u, dtype %u, layout %u, mask dtype %u: row %zu (picture %u x %u of %u and %u "
                     "bytes, warp %u, elastic %u) byte %zu of %zu is %02x, not %02x",
                     b->shape.width, b->shape.height, b->shape.dtype, b->shape.layout, b->shape.mask_dtype,
                     i / pitch, b->sample[i / pitch % ROWS].width, b->sample[i / pitch % ROWS].height,
                     b->sample[i / pitch % ROWS].depth, b->sample[i / pitch % ROWS].mask_depth,
                     b->sample[i / pitch % ROWS].warp, b->sample[i / pitch % ROWS].columns, i % pitch, pitch,
                     got[i], expected[i]);
}

static void check_images(batch *b)
{
    uint8_t *expected = room(b->image_bytes);
    for (uint32_t i = 0; i < ROWS; i++) host_image(b, i, expected + i * b->shape.image_pitch);
    lay_images(b);
    compare(b, b->images, expected, b->image_bytes, b->shape.image_pitch);
    stk_free(expected);
}

/* ---- what kernels rest on ---- */

static void test_philox_is_the_host_s(void **state)
{
    seed_random(1);
    for (int i = 0; i < 1000; i++) {
        uint32_t counter[4], key[2];
        for (int k = 0; k < 4; k++) counter[k] = i ? below(UINT32_MAX) : UINT32_MAX;
        for (int k = 0; k < 2; k++) key[k] = i ? below(UINT32_MAX) : UINT32_MAX;
        const stk_rng expected = stk_philox_block(counter, key);
        const k_random got = k_philox_block(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
        assert_memory_equal(got.word, expected.word, sizeof got.word);
    }
}

static void test_16_bit_floats_are_what_their_bits_say(void **state)
{
    for (int bits = 0; bits < 65536; bits++) {
        const int exponent = bits >> 10 & 31, digits = bits & 1023;
        const float size =
            exponent ? ldexpf((float)(1024 + digits), exponent - 25) : ldexpf((float)digits, -24);
        const float wanted = bits >> 15 ? -size : size, found = k_from_f16((uint16_t)bits);
        if (exponent == 31) /* infinity and NaN, which no batch holds */
            assert_false(isfinite(found));
        else
            assert_int_equal(k_bits(found), k_bits(wanted));
        if (exponent < 31) assert_int_equal(k_f16(found), bits);
        assert_int_equal(k_bits(k_from_bf16((uint16_t)bits)), (uint32_t)bits << 16);
        assert_int_equal(k_bf16(k_float((uint32_t)bits << 16)), bits);
    }
}

static void test_the_program_has_every_kernel(void **state)
{
    const stk_program *p = &stk_augment_program;
    assert_int_equal(p->n_kernels, STK_KERNELS);
    assert_int_equal(p->text_bytes, strlen(p->text));
    assert_null(strstr(p->text, "#include \"")); /* a driver has no files */
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        char declared[64];
        snprintf(declared, sizeof declared, "K_KERNEL %s(", p->kernels[i]);
        const char *found = strstr(p->text, declared);
        if (!found) fail_msg("no %s", declared);
        uint32_t arguments = 1;
        for (const char *c = found; *c != ')'; c++) arguments += *c == ',';
        assert_int_equal(p->arguments[i], arguments);
        assert_non_null(p->host[i]);
    }
    assert_string_equal(p->kernels[STK_KERNEL_lay_mask], "lay_mask");
}

/* ---- images ---- */

static const uint32_t sizes[][2] = { { 1, 1 }, { 33, 17 }, { 64, 5 }, { 2, 31 } };
enum { SIZES = sizeof sizes / sizeof *sizes };

static void test_images_are_laid_out_as_on_the_host(void **state)
{
    seed_random(2);
    batch b;
    for (uint32_t trial = 0; trial < 240; trial++) {
        batch_begin(&b, sizes[trial % SIZES], image_types[trial / SIZES % 4], (stoke_layout)(trial / 16 & 1),
                    STOKE_DTYPE_U8);
        for (uint32_t i = 0; i < ROWS; i++) draw_plan(&b, &b.row[i].plan, (int)below(3));
        fill_rows(&b, trial / 32 & 1 ? 2 : 1, 1, ROWS);
        check_images(&b);
        batch_end(&b);
    }
}

/* A picture that has all samples there are, in all channels. */
static void test_every_sample_becomes_the_host_s_element(void **state)
{
    seed_random(3);
    batch b;
    for (uint32_t trial = 0; trial < 16; trial++) {
        const uint8_t depth = trial & 1 ? 2 : 1;
        batch_begin(&b, (const uint32_t[]){ 256, depth == 2 ? 256 : 1 }, image_types[trial / 2 % 4],
                    (stoke_layout)(trial / 8), STOKE_DTYPE_U8);
        for (uint32_t i = 0; i < ROWS; i++) plain_plan(&b, &b.row[i].plan);
        fill_rows(&b, depth, 1, ROWS);
        for (uint32_t i = 0; i < ROWS; i++) {
            const stoke_image picture = picture_of(&b, i, 0);
            for (uint32_t v = 0; v < b.shape.width * b.shape.height; v++)
                for (uint32_t c = 0; c < 3; c++) put(&picture, v * 3 + c, v + c * i);
        }
        check_images(&b);
        batch_end(&b);
    }
}

/* Through one step, which makes of samples levels that are not whole; twice: into the batch, and into the
 * planes of a row that has another segment. */
static void test_steps_follow_the_layout(void **state)
{
    seed_random(4);
    batch b;
    for (uint32_t trial = 0; trial < 32; trial++) {
        batch_begin(&b, sizes[1], image_types[trial % 4], (stoke_layout)(trial / 4 % 2), STOKE_DTYPE_U8);
        for (uint32_t i = 0; i < ROWS; i++) {
            stoke_augment_plan *plan = &b.row[i].plan;
            plain_plan(&b, plan);
            plan->color[plan->n_color_steps++] =
                (stoke_color_step){ .kind = STOKE_COLOR_BRIGHTNESS, .a = (float)uniform(0.2, 1.8) };
        }
        fill_rows(&b, trial & 8 ? 2 : 1, 1, ROWS);
        uint8_t *expected = room(b.image_bytes);
        for (uint32_t i = 0; i < ROWS; i++) {
            stoke_image picture = picture_of(&b, i, 0);
            const stk_color_rows rows = rows_of(&picture);
            stk_color_pass *color_pass = stk_color_pass_create();
            assert_int_equal(stk_color_write(color_pass, b.row[i].plan.color, 1, &rows, &b.config.writer,
                                             expected + i * b.shape.image_pitch, NULL),
                             0);
            stk_color_pass_destroy(&color_pass);
        }
        lay_images(&b);
        compare(&b, b.images, expected, b.image_bytes, b.shape.image_pitch);

        memset(b.images, UNTOUCHED, b.image_bytes);
        for (uint32_t i = 0; i < ROWS; i++) b.sample[i].segments = 2;
        lay_images(&b);
        for (size_t i = 0; i < b.image_bytes; i++) assert_int_equal(b.images[i], UNTOUCHED);
        const size_t plane = (size_t)b.shape.width * b.shape.height;
        for (size_t i = 0; i < plane * 3 * ROWS; i++) {
            const stoke_image picture = picture_of(&b, (uint32_t)(i / (3 * plane)), 0);
            const uint32_t v = at(&picture, i % plane * 3 + i / plane % 3);
            const float level = picture.depth == 1 ? (float)v : (float)v * (1.0f / 257.0f);
            const float bright = level * b.row[i / (3 * plane)].plan.color[0].a;
            assert_true(b.planes[i] == (bright < 255 ? bright : 255));
        }
        stk_free(expected);
        batch_end(&b);
    }
}

/* ---- masks ---- */

/* The ids as the host would lay them out: swapped in a copy, or zeros where there is no mask. */
static stoke_image host_ids(const batch *b, uint32_t row)
{
    const k_sample *s = &b->sample[row];
    stoke_image ids = picture_of(b, row, 1);
    const size_t n = (size_t)s->width * s->height;
    ids.depth = s->mask_depth == 1 ? 1 : 2;
    ids.stride = (size_t)s->width * ids.depth;
    ids.data = room(n * ids.depth);
    memset(ids.data, 0, n * ids.depth);
    if (s->mask_depth) memcpy(ids.data, b->raw + s->mask, n * ids.depth);
    for (size_t i = 0; i < n && s->swap && s->mask_depth; i++) put(&ids, i, swapped[at(&ids, i)]);
    return ids;
}

static void check_masks(batch *b)
{
    uint8_t *expected = room(b->mask_bytes);
    for (uint32_t i = 0; i < ROWS; i++) {
        const stoke_image ids = host_ids(b, i);
        host_mask(b, i, &ids, expected + i * b->shape.mask_pitch);
        stk_free(ids.data);
        for (uint32_t k = 0; k < b->row[i].plan.n_color_steps; k++) {
            const stoke_color_step *step = &b->row[i].plan.color[k];
            if (step->kind == STOKE_COLOR_ERASE && step->n == 1)
                stk_fill_mask_box(b->config.mask_dtype, expected + i * b->shape.mask_pitch, b->shape.width,
                                  &step->box, b->shape.mask_fill);
        }
    }
    lay_masks(b);
    compare(b, b->masks, expected, b->mask_bytes, b->shape.mask_pitch);
    stk_free(expected);
}

static void test_masks_are_laid_out_as_on_the_host(void **state)
{
    static const uint32_t fills[] = { 255, 0, UINT32_MAX, 300 };
    seed_random(5);
    batch b;
    for (uint32_t trial = 0; trial < 288; trial++) {
        const uint32_t *size = sizes[trial % SIZES];
        batch_begin(&b, size, STOKE_DTYPE_U8, STOKE_LAYOUT_CHW, mask_types[trial / SIZES % 4]);
        b.config.mask_fill = fills[below(4)];
        for (uint32_t i = 0; i < ROWS; i++) {
            stoke_augment_plan *plan = &b.row[i].plan;
            draw_plan(&b, plan, (int)below(2));
            plan->swap_labels = (uint8_t)below(2);
            plan->n_color_steps = below(STEPS + 1);
            for (uint32_t k = 0; k < plan->n_color_steps; k++) {
                const uint32_t x = below(size[0]), y = below(size[1]);
                plan->color[k] =
                    (stoke_color_step){ .kind = below(3) ? STOKE_COLOR_ERASE : STOKE_COLOR_GAMMA,
                                        .n = below(2),
                                        .a = 2,
                                        .b = 1,
                                        .box = { x, y, 1 + below(size[0] - x), 1 + below(size[1] - y) } };
            }
        }
        fill_rows(&b, 1, (uint8_t)(trial / 16 % 3), ROWS);
        check_masks(&b);
        batch_end(&b);
    }
}

/* ---- mixing ---- */

static void fill_elements(stoke_dtype dtype, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = (float)uniform(-3, 3);
        if (dtype == STOKE_DTYPE_F32)
            ((float *)out)[i] = v;
        else if (dtype == STOKE_DTYPE_U8)
            ((uint8_t *)out)[i] = (uint8_t)below(256);
        else
            ((uint16_t *)out)[i] = dtype == STOKE_DTYPE_F16 ? k_f16(v) : k_bf16(v);
    }
}

/* The host mixes in place, in a slot made by hand. */
static void host_mix(const batch *b, uint8_t *images, uint8_t *masks, uint8_t *masks_b)
{
    float lambda[ROWS];
    stk_slot_row_mix mix[ROWS];
    stk_slot slot = { .batch = { .count = b->shape.count,
                                 .capacity = ROWS,
                                 .width = b->shape.width,
                                 .height = b->shape.height,
                                 .channels = 3,
                                 .layout = (stoke_layout)b->shape.layout,
                                 .image_dtype = (stoke_dtype)b->shape.dtype,
                                 .mask_dtype = (stoke_dtype)b->shape.mask_dtype,
                                 .image_row_bytes = b->shape.image_pitch,
                                 .mask_row_bytes = b->shape.mask_pitch,
                                 .images = images,
                                 .masks = masks,
                                 .masks_b = masks_b,
                                 .lambda = lambda },
                      .mix = mix,
                      .lambda = lambda };
    for (uint32_t i = 0; i < ROWS; i++) {
        const stoke_augment_plan *plan = &b->row[i].plan;
        mix[i] = (stk_slot_row_mix){ (stoke_mix_kind)plan->mix, plan->lambda, plan->mix_box };
    }
    stk_mem_buffer copy = { 0 };
    assert_int_equal(stk_slot_mix(&slot, &copy, NULL), 0);
    stk_buffer_free(&copy);
}

static void check_mix(batch *b)
{
    const size_t pixels = (size_t)b->shape.width * b->shape.height;
    uint8_t *pure = room(b->image_bytes), *pure_masks = room(b->mask_bytes);
    uint8_t *expected = room(b->image_bytes), *expected_masks = room(b->mask_bytes);
    uint8_t *masks_b = room(b->mask_bytes), *expected_b = room(b->mask_bytes);
    for (uint32_t i = 0; i < b->shape.count; i++) {
        fill_elements((stoke_dtype)b->shape.dtype, pure + i * b->shape.image_pitch, pixels * 3);
        fill_elements(STOKE_DTYPE_U8, pure_masks + i * b->shape.mask_pitch,
                      pixels * stk_element_bytes((stoke_dtype)b->shape.mask_dtype));
    }
    memcpy(expected, pure, b->image_bytes);
    memcpy(expected_masks, pure_masks, b->mask_bytes);
    host_mix(b, expected, expected_masks, b->shape.two_masks ? expected_b : NULL);
    void *const arguments[] = { b->images, b->masks, masks_b, pure, pure_masks, b->sample, &b->shape };
    run(STK_KERNEL_mix_rows, arguments, b->shape.width, b->shape.height, ROWS);
    compare(b, b->images, expected, b->image_bytes, b->shape.image_pitch);
    compare(b, b->masks, expected_masks, b->mask_bytes, b->shape.mask_pitch);
    compare(b, masks_b, expected_b, b->mask_bytes, b->shape.mask_pitch);
    stk_free(pure);
    stk_free(pure_masks);
    stk_free(expected);
    stk_free(expected_masks);
    stk_free(masks_b);
    stk_free(expected_b);
}

static void test_rows_are_mixed_as_on_the_host(void **state)
{
    seed_random(6);
    batch b;
    for (uint32_t trial = 0; trial < 192; trial++) {
        const uint32_t *size = sizes[trial % SIZES];
        batch_begin(&b, size, image_types[trial / 4 % 4], (stoke_layout)(trial / 16 % 2),
                    mask_types[trial / 32 % 4]);
        b.config.two_masks = (int)below(2);
        for (uint32_t i = 0; i < ROWS; i++) {
            const uint32_t x = below(size[0]), y = below(size[1]);
            b.row[i].plan =
                (stoke_augment_plan){ .width = 1,
                                      .height = 1,
                                      .mix = below(3),
                                      .lambda = below(8) ? (float)uniform(0, 1) : 1,
                                      .mix_box = { x, y, 1 + below(size[0] - x), 1 + below(size[1] - y) } };
        }
        const uint32_t count = 1 + below(ROWS);
        fill_rows(&b, 1, 1, count);
        if (count == 1)
            b.sample[0].mix = b.row[0].plan.mix; /* tables.c knows better, and so does the kernel */
        check_mix(&b);
        batch_end(&b);
    }
}

/* ---- the small ones ---- */

static void test_clear_and_spin(void **state)
{
    enum { WORDS = 100 };
    uint32_t words[WORDS + 8], again[WORDS + 8];
    k_shape shape = { .width = WORDS, .round = 0 };
    void *const arguments[] = { words, &shape }, *const second[] = { again, &shape };
    memset(words, UNTOUCHED, sizeof words);
    run(STK_KERNEL_clear, arguments, WORDS, 1, 1);
    for (int i = 0; i < WORDS + 8; i++) assert_int_equal(words[i], i < WORDS ? 0 : 0xa5a5a5a5);
    /* The words tell how many turns were made. */
    static const uint32_t whole[3] = { 0 }, end[3] = { WORDS + 8, 1, 1 };
    memcpy(again, words, sizeof words);
    shape.round = 5;
    stk_augment_program.host[STK_KERNEL_spin](arguments, whole, end);
    shape.round = 4;
    stk_augment_program.host[STK_KERNEL_spin](second, whole, end);
    for (int i = 0; i < WORDS + 8; i++) assert_int_equal(words[i] == again[i], i >= WORDS);
}

UNIT_GROUP(kernels)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_is_the_host_s),
        cmocka_unit_test(test_16_bit_floats_are_what_their_bits_say),
        cmocka_unit_test(test_the_program_has_every_kernel),
        cmocka_unit_test(test_images_are_laid_out_as_on_the_host),
        cmocka_unit_test(test_every_sample_becomes_the_host_s_element),
        cmocka_unit_test(test_steps_follow_the_layout),
        cmocka_unit_test(test_masks_are_laid_out_as_on_the_host),
        cmocka_unit_test(test_rows_are_mixed_as_on_the_host),
        cmocka_unit_test(test_clear_and_spin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
