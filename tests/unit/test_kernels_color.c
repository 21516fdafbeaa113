/* SPDX-License-Identifier: Apache-2.0
 *
 * The colour kernels, run as C, against stk_color_write: chains of steps in every order, byte for byte.
 */
#include <stoke/tools/augment.h>

#include "tests/unit/fixture_color.h"

#include "src/device/device.h"
#include "src/upload/augmenter.h"

enum { ROWS = 3, STEPS = ROWS * STOKE_PLAN_COLOR_STEPS };

/* Rows of one size, each with its own depth and chain. */
typedef struct batch {
    stoke_image picture[ROWS];
    stk_raw_row rows[ROWS];
    stk_loader_config config; /* only what tables look at */
    k_sample samples[ROWS];
    k_step steps[STEPS];
    stk_tables tables;
    k_shape shape;
} batch;

static size_t raw_pitch(const batch *b)
{
    return samples(b->picture) * 2;
}

static void fill_tables(batch *b, stoke_dtype dtype, stoke_layout layout)
{
    const stk_tables_raw_layout raw = { .image_pitch = raw_pitch(b) };
    stoke_error err = { 0 };
    b->config = (stk_loader_config){ .width = b->picture[0].width, .height = b->picture[0].height };
    stk_writer_init(&b->config.writer, dtype, layout, STOKE_NORMALIZE_IMAGENET);
    b->tables = (stk_tables){ .samples = b->samples, .steps = b->steps, .steps_capacity = STEPS };
    if (stk_tables_fill(&b->tables, &b->config, b->rows, ROWS, &raw, &err)) fail_msg("%s", err.message);
    b->shape = stk_tables_shape(&b->config, ROWS);
}

/* ---- running ---- */

/* All work items and some beyond, as a device rounds its grid up, in two halves with the second one first. */
static void run(enum stk_program_kernel kernel, void *const *arguments, uint32_t x, uint32_t y, uint32_t z)
{
    const uint32_t wide = (x + 63) / 64 * 64, high = (y + 3) / 4 * 4, half_of = high / 2;
    stk_augment_program.host[kernel](arguments, (const uint32_t[]){ 0, half_of, 0 },
                                     (const uint32_t[]){ wide, high, z });
    stk_augment_program.host[kernel](arguments, (const uint32_t[]){ 0, 0, 0 },
                                     (const uint32_t[]){ wide, half_of, z });
}
#define RUN(kernel, x, y, z, ...) run(STK_KERNEL_##kernel, (void *const[]){ __VA_ARGS__, &shape }, x, y, z)

typedef struct blocks {
    uint8_t *raw, *images, *tables;
    float *planes, *spare, *deep;
    uint32_t *keys, *sums, *counts;
} blocks;

/* Exactly as large as it must be: the sanitizer sees whoever reaches past it. */
static void *block(size_t bytes)
{
    void *data = malloc(bytes + !bytes);
    assert_non_null(data);
    memset(data, 0xa5, bytes + !bytes);
    return data;
}

static blocks blocks_make(const batch *b)
{
    const size_t planes = ROWS * samples(b->picture) * sizeof(float);
    const size_t counts = (size_t)b->tables.tiles * K_LEVELS;
    const stk_pix_writer *writer = &b->config.writer;
    blocks m = { .raw = block(ROWS * raw_pitch(b)),
                 .images = block(ROWS * b->shape.image_pitch),
                 .tables = block(counts),
                 .planes = block(planes),
                 .spare = block(planes),
                 .deep = block(3 * 65536 * sizeof(float)),
                 .keys = block(b->tables.keys * 4),
                 .sums = block(b->tables.sums * 4),
                 .counts = block(counts * 4) };
    for (uint32_t i = 0; i < ROWS; i++)
        memcpy(m.raw + i * raw_pitch(b), b->picture[i].data, samples(b->picture + i) * b->picture[i].depth);
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 65536; v++)
            m.deep[c * 65536 + v] = (float)(v * (writer->scale[c] / 65535.0) + writer->bias[c]);
    memset(m.sums, 0, b->tables.sums * 4);
    memset(m.counts, 0, counts * 4);
    return m;
}

static void blocks_free(blocks *m)
{
    free(m->raw);
    free(m->images);
    free(m->tables);
    free(m->planes);
    free(m->spare);
    free(m->deep);
    free(m->keys);
    free(m->sums);
    free(m->counts);
}

static void run_all(batch *b, blocks *m)
{
    k_shape shape = b->shape;
    void *sample = b->samples, *step = b->steps;
    const uint32_t width = shape.width, height = shape.height, n = ROWS;
    shape.count = b->tables.n_steps;
    RUN(noise_keys, height, 3, b->tables.n_steps, m->keys, step);
    shape.count = n;
    RUN(lay_image, width, height, n, m->images, m->planes, m->raw, sample, step, m->planes, m->keys, m->deep);
    for (shape.round = 1; shape.round < b->tables.rounds; shape.round++) {
        RUN(gray_sum, width, (height + K_STRIP - 1) / K_STRIP, n, m->sums, m->planes, sample, step);
        RUN(blur_across, width, height, n, m->spare, m->planes, sample, step);
        RUN(blur_down, width, height, n, m->planes, m->spare, sample, step);
        RUN(clahe_count, width + STK_COLOR_TILES_MAX, (height + STK_COLOR_TILES_MAX + K_STRIP - 1) / K_STRIP,
            n, m->counts, m->planes, sample, step);
        RUN(clahe_table, STK_COLOR_TILES_MAX, STK_COLOR_TILES_MAX, n, m->tables, m->counts, sample, step);
        RUN(clahe_apply, width, height, n, m->planes, m->tables, sample, step);
        RUN(apply_color, width, height, n, m->images, m->planes, sample, step, m->keys, m->sums);
    }
}

/* ---- comparing ---- */

static void say_chain(const batch *b, uint32_t i)
{
    const stoke_augment_plan *plan = &b->rows[i].plan;
    print_message("# %u x %u, depth %u, dtype %u, layout %u:", b->shape.width, b->shape.height,
                  b->rows[i].depth, b->shape.dtype, b->shape.layout);
    for (uint32_t k = 0; k < plan->n_color_steps; k++)
        print_message(" kind %u (a=%g b=%g n=%u)", (unsigned)plan->color[k].kind, (double)plan->color[k].a,
                      (double)plan->color[k].b, plan->color[k].n);
    print_message("\n");
}

/* Runs the batch in a type and layout and holds every row to stk_color_write. */
static void hold(batch *b, stoke_dtype dtype, stoke_layout layout)
{
    const size_t bytes = samples(b->picture) * stk_element_bytes(dtype);
    fill_tables(b, dtype, layout);
    blocks m = blocks_make(b);
    run_all(b, &m);
    for (uint32_t i = 0; i < ROWS; i++) {
        const stoke_augment_plan *plan = &b->rows[i].plan;
        uint8_t *want = touched(b->picture + i, plan->color, plan->n_color_steps, dtype, layout,
                                STOKE_NORMALIZE_IMAGENET);
        const uint8_t *got = m.images + i * b->shape.image_pitch;
        size_t first = 0;
        while (first < bytes && want[first] == got[first]) first++;
        if (first < bytes) {
            say_chain(b, i);
            fail_msg("row %u: byte %zu of %zu is %u, not %u", i, first, bytes, got[first], want[first]);
        }
        stk_free(want);
    }
    blocks_free(&m);
}

static void hold_all_types(batch *b)
{
    static const stoke_dtype types[] = { STOKE_DTYPE_U8, STOKE_DTYPE_F32, STOKE_DTYPE_F16, STOKE_DTYPE_BF16 };
    for (int i = 0; i < 4; i++)
        for (int layout = STOKE_LAYOUT_CHW; layout <= STOKE_LAYOUT_HWC; layout++)
            hold(b, types[i], (stoke_layout)layout);
}

/* ---- chains ---- */

static const uint32_t sizes[][2] = { { 1, 1 }, { 1, 19 }, { 21, 1 }, { 2, 5 }, { 33, 17 }, { 67, 40 } };
enum { SIZES = sizeof sizes / sizeof *sizes };

static stoke_color_step random_touch(uint32_t kind, uint32_t width, uint32_t height)
{
    stoke_color_step t = { .kind = kind, .a = (float)uniform(0, 2) };
    switch ((stoke_color_kind)kind) {
    case STOKE_COLOR_HUE: t.a = (float)uniform(-0.5, 0.5); break;
    case STOKE_COLOR_GAMMA:
        t.a = (float)uniform(0.3, 3);
        t.b = (float)uniform(0.5, 1.5);
        break;
    case STOKE_COLOR_BLUR:
        t.a = (float)uniform(0.3, 6);
        t.n = below(8) ? 3 + 2 * below(4) : 31;
        break;
    case STOKE_COLOR_NOISE:
        t.a = (float)uniform(0, 0.3);
        t.b = (float)uniform(-0.1, 0.1);
        t.n = below(2);
        t.key = (uint64_t)below(UINT32_MAX) << 32 | below(UINT32_MAX);
        break;
    case STOKE_COLOR_CLAHE:
        t.a = below(4) ? (float)uniform(0.01, 5) : 0;
        t.n = 1 + below(below(2) ? 8 : STK_COLOR_TILES_MAX);
        break;
    case STOKE_COLOR_ERASE:
        t.box = (stoke_box){ below(width), below(height), 1 + below(width), 1 + below(height) };
        for (int c = 0; c < 3; c++) t.fill[c] = (uint8_t)below(256);
        break;
    default: break;
    }
    return t;
}

static void start(batch *b, uint32_t width, uint32_t height)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < ROWS; i++) {
        b->picture[i] = random_picture(width, height, 1 + below(2));
        b->rows[i].width = width;
        b->rows[i].height = height;
        b->rows[i].depth = b->picture[i].depth;
    }
}

static void finish(batch *b)
{
    for (uint32_t i = 0; i < ROWS; i++) free(b->picture[i].data);
}

static void push(batch *b, uint32_t row, stoke_color_step step)
{
    stoke_augment_plan *plan = &b->rows[row].plan;
    plan->color[plan->n_color_steps++] = step;
}

static void push_random(batch *b, uint32_t row, uint32_t kind)
{
    push(b, row, random_touch(kind, b->picture[row].width, b->picture[row].height));
}

/* Every kind alone. The other rows of the batch have no step, and one that changes nothing. */
static void test_each_step(void **state)
{
    batch b;
    seed_random(31);
    for (uint32_t kind = 0; kind < STOKE_COLOR_KINDS; kind++)
        for (int i = 0; i < SIZES; i++) {
            start(&b, sizes[i][0], sizes[i][1]);
            push_random(&b, 0, kind);
            push(&b, 2, (stoke_color_step){ .kind = STOKE_COLOR_BRIGHTNESS, .a = 1 });
            hold_all_types(&b);
            finish(&b);
        }
}

/* All triples of those that cut a chain, bare and with another step after each. */
static void test_barriers_in_every_order(void **state)
{
    static const uint32_t barrier[3] = { STOKE_COLOR_CONTRAST, STOKE_COLOR_BLUR, STOKE_COLOR_CLAHE };
    batch b;
    seed_random(37);
    for (uint32_t order = 0; order < 27; order++) {
        start(&b, sizes[2 + order % 4][0], sizes[2 + order % 4][1]);
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t k = 0, rest = order; k < 3; k++, rest /= 3) {
                push_random(&b, row, barrier[rest % 3]);
                if (row) push_random(&b, row, below(STOKE_COLOR_KINDS));
            }
        hold(&b, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW);
        finish(&b);
    }
}

static void test_random_chains(void **state)
{
    batch b;
    seed_random(41);
    for (int round = 0; round < 60; round++) {
        start(&b, 1 + below(70), 1 + below(40));
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t k = below(8); k; k--) push_random(&b, row, below(STOKE_COLOR_KINDS));
        hold(&b, (stoke_dtype)below(4), (stoke_layout)below(2));
        finish(&b);
    }
}

/* White is where sums of gray exceed 32 bits (from 4112 pixels on), and where this blur would round to
 * 255.00005.
 */
static void test_white(void **state)
{
    batch b;
    seed_random(43);
    start(&b, 150, 100);
    for (uint32_t i = 0; i < ROWS; i++) {
        memset(b.picture[i].data, 0xff, samples(b.picture + i) * b.picture[i].depth);
        push(&b, i,
             i ? (stoke_color_step){ .kind = STOKE_COLOR_CONTRAST, .a = 0.25f * (float)i }
               : (stoke_color_step){ .kind = STOKE_COLOR_BLUR, .a = 2, .n = 17 });
    }
    hold(&b, STOKE_DTYPE_F32, STOKE_LAYOUT_HWC);
    finish(&b);
}

UNIT_GROUP(kernels_color)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_step),
        cmocka_unit_test(test_barriers_in_every_order),
        cmocka_unit_test(test_random_chains),
        cmocka_unit_test(test_white),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
