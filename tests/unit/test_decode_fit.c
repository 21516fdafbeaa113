/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a sample, taken apart: the two ways to the fitted picture give the same pixels, and laying it
 * out line by line gives what whole pictures in between would give.
 */
#include "tests/unit/fixture_pairs.h"

#include "src/loader/sample.h"
#include "src/pix/color.h"

static const char *const LISTS[] = {
    "none",
    "light",
    "vflip(p=1)",
    "crop",
    "center_crop,vflip",
    "standard",
    "strong",
    "random_resized_crop(scale=0.1..1),hflip",
    "random_crop,rotate(p=1,degrees=180),color_jitter(p=1)",
    "rotate(p=1,degrees=40),contrast(p=1),gaussian_blur(p=1),contrast(p=1)",
    "elastic(p=1),clahe(p=1),erasing(p=1)",
    "hflip(p=1),vflip(p=1),brightness(p=1),gaussian_noise(p=1)",
    "random_crop,hflip(p=1),vflip(p=1),clahe(p=1),contrast(p=1)",
};

typedef struct fixture {
    stoke_dataset *dataset;
    stk_loader_config config;
    stk_scratch scratch[2];
    void *image_row, *mask_row;
    stoke_error err;
} fixture;

static void open_fixture(fixture *f, const stoke_data_params *params)
{
    *f = (fixture){ 0 };
    if (stoke_dataset_open(&f->dataset, params, &f->err)) fail_msg("%s", f->err.message);
    if (stk_loader_config_create(&f->config, f->dataset, params, &f->err)) fail_msg("%s", f->err.message);
    for (int i = 0; i < 2; i++) assert_int_equal(stk_scratch_create(&f->scratch[i], &f->err), 0);
    const stoke_batch shape = stk_batch_shape(&f->config, 1);
    f->image_row = aligned_alloc(64, (shape.image_row_bytes + 63) / 64 * 64);
    f->mask_row = aligned_alloc(64, (shape.mask_row_bytes + 63) / 64 * 64);
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < 2; i++) stk_scratch_destroy(&f->scratch[i]);
    stk_loader_config_destroy(&f->config);
    stoke_dataset_close(&f->dataset);
    free(f->image_row);
    free(f->mask_row);
}

static stk_sample_ctx start(fixture *f, int scratch, uint64_t id)
{
    stk_sample_ctx ctx = { .scratch = &f->scratch[scratch],
                           .config = &f->config,
                           .sample = stoke_dataset_sample(f->dataset, id),
                           .image_row = f->image_row,
                           .mask_row = f->mask_row,
                           .last = stk_stamp_now(),
                           .err = &f->err };
    if (stk_fetch(&ctx, NULL)) fail_msg("%s", f->err.message);
    return ctx;
}

static void draw(stk_sample_ctx *ctx, uint64_t position)
{
    const stoke_draw d = {
        3, 1, position, ctx->width, ctx->height, ctx->config->width, ctx->config->height, NULL, 0
    };
    stoke_pipeline_draw(ctx->config->pipeline, &d, &ctx->plan);
}

static const uint8_t *line_of(const stoke_image *image, uint32_t y)
{
    return (const uint8_t *)image->data + y * image->stride;
}

static void same_pixels(const stoke_image *a, const stoke_image *b)
{
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->depth, b->depth);
    for (uint32_t y = 0; y < a->height; y++)
        assert_memory_equal(line_of(a, y), line_of(b, y), (size_t)a->width * a->channels * a->depth);
}

/* Pairs of several sizes, the first of the output's own, every third one JPEG; one of 16 bits. */
static stoke_data_params several_sizes(void **state)
{
    static const uint32_t size[][2] = {
        { 40, 36 }, { 64, 48 }, { 48, 72 }, { 30, 20 }, { 40, 50 }, { 90, 36 }
    };
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    for (uint32_t i = 0; i < 6; i++)
        pairs_write_one(state, i, i % 3 == 1 ? "jpg" : "png", size[i][0], size[i][1]);
    static uint16_t deep[48 * 72 * 3];
    for (size_t i = 0; i < 48 * 72 * 3; i++) deep[i] = (uint16_t)(i * 401);
    const stoke_image image = { deep, 48 * 6, 48, 72, 3, 2 };
    assert_int_equal(stoke_image_write_png(unit_path(state, "images/s2.png"), &image, NULL), 0);
    stoke_data_params params = pairs_params(state);
    params.size[0] = 36;
    params.size[1] = 40;
    params.window = "p1:p99";
    return params;
}

static void region_and_whole_give_the_same_pixels(void **state)
{
    stoke_data_params params = several_sizes(state);
    for (size_t list = 0; list < sizeof LISTS / sizeof *LISTS; list++) {
        fixture f;
        params.augment = LISTS[list];
        open_fixture(&f, &params);
        for (uint64_t position = 0; position < 36; position++) {
            stk_sample_ctx region = start(&f, 0, position % 6), whole = start(&f, 1, position % 6);
            draw(&region, position);
            if (stk_decode_fit_region(&region)) fail_msg("%s", f.err.message);
            if (stk_decode_fit_whole(&whole)) fail_msg("%s", f.err.message);
            draw(&whole, position);
            if (stk_decode_fit_cut(&whole)) fail_msg("%s", f.err.message);
            assert_int_equal(region.image.width, region.plan.width);
            assert_int_equal(region.image.height, region.plan.height);
            same_pixels(&region.image, &whole.image);
            same_pixels(&region.ids, &whole.ids);
        }
        close_fixture(&f);
    }
}

/* ---- laying out, with a picture after every step ---- */

static stoke_image blank(uint32_t width, uint32_t height, uint8_t channels, uint8_t depth)
{
    const size_t stride = (size_t)width * channels * depth;
    return (stoke_image){ calloc(height, stride), stride, width, height, channels, depth };
}

/* `from` placed and mirrored on a picture of the output's size that was `fill` before. */
static void place(const stoke_augment_plan *plan, const stoke_image *from, const stoke_image *to,
                  uint32_t fill)
{
    const size_t pixel = (size_t)from->channels * from->depth;
    for (uint32_t y = 0; y < to->height; y++)
        for (uint32_t x = 0; x < to->width; x++) {
            const uint32_t sx = (plan->hflip ? to->width - 1 - x : x) - plan->place_x,
                           sy = (plan->vflip ? to->height - 1 - y : y) - plan->place_y;
            uint8_t *out = (uint8_t *)to->data + y * to->stride + x * pixel;
            if (sx < from->width && sy < from->height)
                memcpy(out, line_of(from, sy) + sx * pixel, pixel);
            else
                memset(out, (int)fill, pixel);
        }
}

static const void *row_of(void *context, uint32_t y)
{
    return line_of(context, y);
}

static void reference_image(stk_sample_ctx *ctx, stk_pix_warper *warper, stk_color_pass *color_pass,
                            void *row)
{
    static const uint8_t black[3];
    const stk_loader_config *config = ctx->config;
    stoke_image laid = blank(config->width, config->height, 3, ctx->image.depth);
    if (ctx->plan.warp)
        for (uint32_t y = 0; y < laid.height; y++)
            stk_warp_image_row(warper, &ctx->image, black, y, (uint8_t *)laid.data + y * laid.stride);
    else
        place(&ctx->plan, &ctx->image, &laid, 0);
    const stk_color_rows rows = { row_of, &laid, laid.width, laid.height, laid.depth };
    if (ctx->plan.n_color_steps)
        assert_int_equal(stk_color_write(color_pass, ctx->plan.color, ctx->plan.n_color_steps, &rows,
                                         &config->writer, row, NULL),
                         0);
    else
        stk_write_image(&config->writer, &laid, row, laid.width, laid.height, 0, 0, 0);
    free(laid.data);
}

static void reference_mask(stk_sample_ctx *ctx, stk_pix_warper *warper, void *row)
{
    const stk_loader_config *config = ctx->config;
    stoke_image laid = blank(config->width, config->height, 1, ctx->ids.depth);
    if (ctx->plan.warp)
        for (uint32_t y = 0; y < laid.height; y++)
            stk_warp_mask_row(warper, &ctx->ids, config->mask_fill, y,
                              (uint8_t *)laid.data + y * laid.stride);
    else
        place(&ctx->plan, &ctx->ids, &laid, config->mask_fill);
    for (uint32_t i = 0; i < ctx->plan.n_color_steps; i++) {
        const stoke_color_step *step = &ctx->plan.color[i];
        if (step->kind != STOKE_COLOR_ERASE || step->n != 1) continue;
        for (uint32_t y = 0; y < step->box.height; y++)
            memset((uint8_t *)laid.data + (step->box.y + y) * laid.stride + step->box.x,
                   (int)config->mask_fill, step->box.width); /* ids of one byte here */
    }
    stk_write_mask(&laid, config->mask_dtype, row, laid.width, laid.height, 0, 0, 0, 0);
    free(laid.data);
}

static void lines_give_what_whole_pictures_give(void **state)
{
    stoke_data_params params = several_sizes(state);
    stk_color_pass *color_pass = stk_color_pass_create();
    assert_non_null(color_pass);
    for (size_t list = 0; list < sizeof LISTS / sizeof *LISTS; list++) {
        fixture f;
        params.augment = LISTS[list];
        params.dtype = (int)(list % 4);
        params.layout = (int)(list / 4 % 2);
        params.mask_dtype = (int)(list % 5);
        open_fixture(&f, &params);
        const stoke_batch shape = stk_batch_shape(&f.config, 1);
        void *image = aligned_alloc(64, (shape.image_row_bytes + 63) / 64 * 64),
             *mask = malloc(shape.mask_row_bytes);
        stk_pix_warper warper = { 0 };
        for (uint64_t position = 0; position < 36; position++) {
            stk_sample_ctx ctx = start(&f, 0, position % 6);
            draw(&ctx, position);
            assert_int_equal(stk_decode_fit_region(&ctx), 0);
            if (ctx.plan.warp) assert_int_equal(stk_warp_begin(&warper, &ctx.plan, 40, 36, NULL), 0);
            reference_image(&ctx, &warper, color_pass, image);
            reference_mask(&ctx, &warper, mask);
            assert_int_equal(stk_render(&ctx), 0);
            assert_memory_equal(f.image_row, image, shape.image_row_bytes);
            assert_memory_equal(f.mask_row, mask, shape.mask_row_bytes);
        }
        stk_warper_free(&warper);
        free(image);
        free(mask);
        close_fixture(&f);
    }
    stk_color_pass_destroy(&color_pass);
}

UNIT_GROUP(decode_fit)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(region_and_whole_give_the_same_pixels),
        unit_test_with_folder(lines_give_what_whole_pictures_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
