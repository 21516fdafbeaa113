/* SPDX-License-Identifier: Apache-2.0
 *
 * The colour kernels, run as C, against stk_touch_write: chains of steps in every order, byte for byte. The
 * tables are filled here and not by src/feed/tables.c, which has its own test: who is wrong is then plain.
 */
#include "tests/unit/touching.h"

#include "kernels/tables.h"
#include "src/device/program.h"
#include "src/pix/clahe.h"
#include "src/pix/touch_steps.h"

enum { ROWS = 3, STEPS = ROWS * STOKE_PLAN_TOUCHES };

static const char *const kinds[STOKE_TOUCH_KINDS] = { "brightness", "contrast", "saturation", "hue",  "gamma",
                                                      "blur",       "noise",    "clahe",      "erase" };

/* Rows of one size, each with its own depth and chain. */
typedef struct batch {
    stoke_image picture[ROWS];
    stoke_touch touch[ROWS][STOKE_PLAN_TOUCHES];
    uint32_t n[ROWS], count;
    stk_writer writer;
    k_shape shape;
    k_sample samples[ROWS];
    k_step steps[STEPS];
    uint32_t n_steps, rounds, keys, sums, tiles; /* so many of each: words, words, tiles */
} batch;

/* ---- tables ---- */

static int starts_segment(uint32_t kind)
{
    return kind == STOKE_TOUCH_CONTRAST || kind == STOKE_TOUCH_BLUR || kind == STOKE_TOUCH_CLAHE;
}

static void add_clahe(batch *b, k_step *step, const stoke_touch *t)
{
    const stk_clahe_cut cut = stk_clahe_cut_make(b->shape.width, b->shape.height, t->a, t->n);
    step->tiles = t->n;
    step->tile_width = cut.tile_width;
    step->tile_height = cut.tile_height;
    step->inverse_width = cut.inverse_width;
    step->inverse_height = cut.inverse_height;
    step->limit = cut.limit;
    step->scale = cut.scale;
    step->tables = b->tiles;
    b->tiles += t->n * t->n;
}

static void add_erase(const batch *b, k_step *step, const stoke_touch *t)
{
    const uint32_t right = b->shape.width - t->box.x, below_it = b->shape.height - t->box.y;
    step->x = t->box.x;
    step->y = t->box.y;
    step->width = t->box.width < right ? t->box.width : right;
    step->height = t->box.height < below_it ? t->box.height : below_it;
    for (int c = 0; c < 3; c++) step->fill[c] = t->fill[c];
}

static void add_step(batch *b, k_sample *sample, const stoke_touch *t)
{
    const stk_touch_step s = stk_touch_step_make(t);
    if (!stk_touch_step_changes(&s, b->shape.width, b->shape.height)) return;
    if (starts_segment(t->kind)) sample->segments++;
    k_step *step = b->steps + b->n_steps++;
    *step = (k_step){ .kind = t->kind, .segment = sample->segments - 1, .a = s.a, .c = s.c };
    sample->n_steps++;
    memcpy(step->turn, s.turn, sizeof step->turn);
    memcpy(step->weight, s.weight, sizeof step->weight);
    step->radius = s.radius;
    if (t->kind == STOKE_TOUCH_CONTRAST) {
        step->sums = b->sums;
        b->sums += 2;
    } else if (t->kind == STOKE_TOUCH_NOISE) {
        step->gray = t->n;
        step->key[0] = (uint32_t)t->key;
        step->key[1] = (uint32_t)(t->key >> 32);
        step->keys = b->keys;
        b->keys += b->shape.height * 6;
    } else if (t->kind == STOKE_TOUCH_CLAHE) {
        add_clahe(b, step, t);
    } else if (t->kind == STOKE_TOUCH_ERASE) {
        add_erase(b, step, t);
    }
}

static void fill_tables(batch *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const stoke_image *picture = b->picture + i;
        const size_t bytes = samples(picture) * picture->depth;
        k_sample *sample = b->samples + i;
        *sample = (k_sample){ .width = picture->width,
                              .height = picture->height,
                              .depth = picture->depth,
                              .segments = 1,
                              .first_step = b->n_steps };
        if (i) sample->image = b->samples[i - 1].image + samples(picture) * 2;
        assert_true(bytes <= samples(picture) * 2);
        for (uint32_t k = 0; k < b->n[i]; k++) add_step(b, sample, b->touch[i] + k);
        if (sample->segments > b->rounds) b->rounds = sample->segments;
    }
}

/* ---- running ---- */

/* All work items and some beyond, as a device rounds its grid up, in two halves with the second one first. */
static void run(enum stk_kernel kernel, void *const *arguments, uint32_t x, uint32_t y, uint32_t z)
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
    const size_t planes = b->count * samples(b->picture) * sizeof(float),
                 counts = (size_t)b->tiles * K_LEVELS;
    blocks m = { .raw = block(b->count * samples(b->picture) * 2),
                 .images = block(b->count * b->shape.image_pitch),
                 .tables = block(counts),
                 .planes = block(planes),
                 .spare = block(planes),
                 .deep = block(3 * 65536 * sizeof(float)),
                 .keys = block(b->keys * 4),
                 .sums = block(b->sums * 4),
                 .counts = block(counts * 4) };
    for (uint32_t i = 0; i < b->count; i++)
        memcpy(m.raw + b->samples[i].image, b->picture[i].data,
               samples(b->picture + i) * b->picture[i].depth);
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 65536; v++)
            m.deep[c * 65536 + v] = (float)(v * (b->writer.scale[c] / 65535.0) + b->writer.bias[c]);
    memset(m.sums, 0, b->sums * 4);
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

static void run_all(const batch *b, blocks *m)
{
    k_shape shape = b->shape;
    void *sample = (void *)b->samples, *step = (void *)b->steps;
    const uint32_t width = shape.width, height = shape.height, n = b->count;
    shape.count = b->n_steps;
    if (b->n_steps) RUN(noise_keys, height, 3, b->n_steps, m->keys, step);
    shape.count = n;
    RUN(lay_image, width, height, n, m->images, m->planes, m->raw, sample, step, m->planes, m->keys, m->deep);
    for (shape.round = 1; shape.round < b->rounds; shape.round++) {
        RUN(gray_sum, width, (height + K_STRIP - 1) / K_STRIP, n, m->sums, m->planes, sample, step);
        RUN(blur_across, width, height, n, m->spare, m->planes, sample, step);
        RUN(blur_down, width, height, n, m->planes, m->spare, sample, step);
        RUN(clahe_count, width + STK_TOUCH_TILES_MAX, (height + STK_TOUCH_TILES_MAX + K_STRIP - 1) / K_STRIP,
            n, m->counts, m->planes, sample, step);
        RUN(clahe_table, STK_TOUCH_TILES_MAX, STK_TOUCH_TILES_MAX, n, m->tables, m->counts, sample, step);
        RUN(clahe_apply, width, height, n, m->planes, m->tables, sample, step);
        RUN(touch, width, height, n, m->images, m->planes, sample, step, m->keys, m->sums);
    }
}

/* ---- comparing ---- */

static void say_chain(const batch *b, uint32_t i)
{
    print_message("# %u x %u, depth %u, dtype %u, layout %u:", b->shape.width, b->shape.height,
                  b->picture[i].depth, b->shape.dtype, b->shape.layout);
    for (uint32_t k = 0; k < b->n[i]; k++)
        print_message(" %s(a=%g b=%g n=%u)", kinds[b->touch[i][k].kind], (double)b->touch[i][k].a,
                      (double)b->touch[i][k].b, b->touch[i][k].n);
    print_message("\n");
}

/* Runs the batch in a type and layout and holds every row to stk_touch_write. */
static void hold(batch *b, stoke_dtype dtype, stoke_layout layout)
{
    const uint32_t width = b->picture[0].width, height = b->picture[0].height;
    const size_t bytes = samples(b->picture) * stk_element_bytes(dtype);
    stk_writer_init(&b->writer, dtype, layout, STOKE_NORMALIZE_IMAGENET);
    b->shape = (k_shape){ .count = b->count, .width = width, .height = height };
    b->shape.dtype = dtype;
    b->shape.layout = layout;
    b->shape.image_pitch = (bytes + 63) / 64 * 64;
    memcpy(b->shape.high, b->writer.high, sizeof b->shape.high);
    memcpy(b->shape.high_bias, b->writer.high_bias, sizeof b->shape.high_bias);
    memcpy(b->shape.low, b->writer.low, sizeof b->shape.low);
    memcpy(b->shape.low_bias, b->writer.low_bias, sizeof b->shape.low_bias);
    b->n_steps = b->rounds = b->keys = b->sums = b->tiles = 0;
    fill_tables(b);
    blocks m = blocks_make(b);
    run_all(b, &m);
    for (uint32_t i = 0; i < b->count; i++) {
        uint8_t *want =
            touched(b->picture + i, b->touch[i], b->n[i], dtype, layout, STOKE_NORMALIZE_IMAGENET);
        const uint8_t *got = m.images + i * b->shape.image_pitch;
        size_t at_byte = 0;
        while (at_byte < bytes && want[at_byte] == got[at_byte]) at_byte++;
        if (at_byte < bytes) {
            say_chain(b, i);
            fail_msg("row %u: byte %zu of %zu is %u, not %u", i, at_byte, bytes, got[at_byte], want[at_byte]);
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

static stoke_touch random_touch(uint32_t kind, uint32_t width, uint32_t height)
{
    stoke_touch t = { .kind = kind, .a = (float)uniform(0, 2) };
    switch ((stoke_touch_kind)kind) {
    case STOKE_TOUCH_HUE: t.a = (float)uniform(-0.5, 0.5); break;
    case STOKE_TOUCH_GAMMA:
        t.a = (float)uniform(0.3, 3);
        t.b = (float)uniform(0.5, 1.5);
        break;
    case STOKE_TOUCH_BLUR:
        t.a = (float)uniform(0.3, 6);
        t.n = below(8) ? 3 + 2 * below(4) : 31;
        break;
    case STOKE_TOUCH_NOISE:
        t.a = (float)uniform(0, 0.3);
        t.b = (float)uniform(-0.1, 0.1);
        t.n = below(2);
        t.key = (uint64_t)below(UINT32_MAX) << 32 | below(UINT32_MAX);
        break;
    case STOKE_TOUCH_CLAHE:
        t.a = below(4) ? (float)uniform(0.01, 5) : 0;
        t.n = 1 + below(below(2) ? 8 : STK_TOUCH_TILES_MAX);
        break;
    case STOKE_TOUCH_ERASE:
        t.box = (stoke_box){ below(width), below(height), 1 + below(width), 1 + below(height) };
        for (int c = 0; c < 3; c++) t.fill[c] = (uint8_t)below(256);
        break;
    default: break;
    }
    return t;
}

static void start(batch *b, const uint32_t size[2])
{
    *b = (batch){ .count = ROWS };
    for (uint32_t i = 0; i < ROWS; i++) b->picture[i] = random_picture(size[0], size[1], 1 + below(2));
}

static void finish(batch *b)
{
    for (uint32_t i = 0; i < b->count; i++) free(b->picture[i].data);
}

static void push(batch *b, uint32_t row, uint32_t kind)
{
    b->touch[row][b->n[row]++] = random_touch(kind, b->picture[row].width, b->picture[row].height);
}

/* Every kind alone. The other rows of the batch have no step, and one that changes nothing. */
static void test_each_step(void **state)
{
    batch b;
    seed_random(31);
    for (uint32_t kind = 0; kind < STOKE_TOUCH_KINDS; kind++)
        for (int i = 0; i < SIZES; i++) {
            start(&b, sizes[i]);
            push(&b, 0, kind);
            b.touch[2][b.n[2]++] = (stoke_touch){ .kind = STOKE_TOUCH_BRIGHTNESS, .a = 1 };
            hold_all_types(&b);
            finish(&b);
        }
}

/* All orders of the three that cut a chain, twice each among them, with a step in the gaps. */
static void test_barriers_in_every_order(void **state)
{
    static const uint32_t barrier[3] = { STOKE_TOUCH_CONTRAST, STOKE_TOUCH_BLUR, STOKE_TOUCH_CLAHE };
    batch b;
    seed_random(37);
    for (uint32_t order = 0; order < 27; order++) {
        start(&b, sizes[2 + order % 4]);
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t k = 0, rest = order; k < 3; k++, rest /= 3) {
                push(&b, row, barrier[rest % 3]);
                if (row) push(&b, row, below(STOKE_TOUCH_KINDS));
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
        start(&b, (const uint32_t[]){ 1 + below(70), 1 + below(40) });
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t k = below(8); k; k--) push(&b, row, below(STOKE_TOUCH_KINDS));
        hold(&b, (stoke_dtype)below(4), (stoke_layout)below(2));
        finish(&b);
    }
}

/* Sums of gray beyond 32 bits: 4112 white pixels make one. */
static void test_sums_carry(void **state)
{
    batch b;
    seed_random(43);
    start(&b, (const uint32_t[]){ 150, 100 });
    for (uint32_t i = 0; i < ROWS; i++) {
        memset(b.picture[i].data, 0xff, samples(b.picture + i) * b.picture[i].depth);
        b.touch[i][b.n[i]++] = (stoke_touch){ .kind = STOKE_TOUCH_CONTRAST, .a = 0.25f * (float)i };
    }
    hold(&b, STOKE_DTYPE_F32, STOKE_LAYOUT_HWC);
    finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_step),
        cmocka_unit_test(test_barriers_in_every_order),
        cmocka_unit_test(test_random_chains),
        cmocka_unit_test(test_sums_carry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
