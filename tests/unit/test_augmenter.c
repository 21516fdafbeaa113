/* SPDX-License-Identifier: Apache-2.0
 *
 * THE test of augmentation on a device: raw batches carried out by kernels are what an ordinary loader makes,
 * byte for byte, for every preset, step, type and layout. Here by the host's kernels, in C; with
 * STOKE_TEST_DEVICE=opencl:0 (or another) by that device's.
 */
#include "tests/unit/fixture_raw_batches.h"

#include "src/device/device.h"
#include "src/upload/augmenter.h"

enum { TURNS = 2, OFFSET = 192, UNTOUCHED = 0x5a };

static const char *device_name(void)
{
    const char *name = getenv("STOKE_TEST_DEVICE");
    return name ? name : "host";
}

/* One stream for all tests: a device waits for its streams when it closes, also for those of a test that
 * failed. */
static stoke_device *the_device;
static stk_device_stream *the_stream;
static void *the_folder; /* compiled programs: a hundred augmenters take one compilation */

static int start(void **state)
{
    (void)state;
    if (unit_folder_setup(&the_folder)) return -1;
    stoke_error err = { 0 };
    stoke_device_params params = stoke_device_defaults();
    params.contents = 1;
    params.cache = unit_folder(&the_folder);
    if (!stoke_device_open(&the_device, device_name(), &params, &err) &&
        !stk_stream_create(&the_stream, the_device, &err))
        return 0;
    fprintf(stderr, "%s\n", err.message);
    return -1;
}

static int is_there(const char *name)
{
    stoke_device *device = NULL;
    const int there = !stoke_device_open(&device, name, NULL, NULL);
    stoke_device_close(&device);
    return there;
}

static int stop(void **state)
{
    (void)state;
    stk_stream_destroy(&the_stream);
    stoke_device_close(&the_device);
    return unit_folder_teardown(&the_folder);
}

/* ---- a batch through the device ---- */

typedef struct path {
    const stk_loader_config *config;
    stk_augmenter *augmenter;
    stk_device_block raw, images, masks, masks_b; /* device */
    stk_device_block down;                        /* host: all three of a finished batch */
    uint32_t turn;
} path;

static void need(int status, const stoke_error *err)
{
    if (status) fail_msg("%s", err->message);
}

static path path_start(const raw_run *run)
{
    path p = { .config = run->config };
    stoke_error err = { 0 };
    unsigned extras;
    const stoke_batch batch = stk_batch_shape(p.config, RAW_BATCH);
    const stoke_batch raw = stk_slot_shape(p.config, RAW_BATCH, &extras);
    const size_t images = batch.image_row_bytes * RAW_BATCH, masks = batch.mask_row_bytes * RAW_BATCH;
    need(stk_augmenter_create(&p.augmenter, the_device, p.config, RAW_BATCH, TURNS, &err), &err);
    need(stk_block_create(&p.raw, the_device, STK_MEMORY_DEVICE,
                          OFFSET + (raw.image_row_bytes + raw.mask_row_bytes) * RAW_BATCH, &err),
         &err);
    need(stk_block_create(&p.images, the_device, STK_MEMORY_DEVICE, images, &err), &err);
    need(stk_block_create(&p.masks, the_device, STK_MEMORY_DEVICE, masks, &err), &err);
    need(stk_block_create(&p.masks_b, the_device, STK_MEMORY_DEVICE, masks, &err), &err);
    need(stk_block_create(&p.down, the_device, STK_MEMORY_PINNED, images + 2 * masks, &err), &err);
    return p;
}

static void path_stop(path *p)
{
    stk_augmenter_destroy(&p->augmenter);
    stk_block_destroy(&p->raw);
    stk_block_destroy(&p->images);
    stk_block_destroy(&p->masks);
    stk_block_destroy(&p->masks_b);
    stk_block_destroy(&p->down);
}

/* Host memory of someone else, as a block. */
static stk_device_block lent(void *memory, size_t bytes)
{
    return (stk_device_block){
        .device = the_device, .kind = STK_MEMORY_PAGEABLE, .bytes = bytes, .host = memory
    };
}

static void up(const stk_device_block *to, size_t at, const void *memory, size_t bytes)
{
    stoke_error err = { 0 };
    const stk_device_block from = lent((void *)memory, bytes);
    need(stk_stream_copy(the_stream, to, at, &from, 0, bytes, &err), &err);
}

/* What the batch comes to, in p->down. */
static stoke_batch finish(path *p, const stoke_batch *raw, stk_augmenter_job *job)
{
    stoke_error err = { 0 };
    const size_t image_bytes = raw->image_row_bytes * raw->count,
                 mask_bytes = raw->mask_row_bytes * raw->count;
    *job = (stk_augmenter_job){ .rows = stk_batch_raw(raw),
                                .count = raw->count,
                                .raw = &p->raw,
                                .layout = { .image_at = OFFSET + raw->mask_row_bytes * RAW_BATCH,
                                            .image_pitch = raw->image_row_bytes,
                                            .mask_at = OFFSET,
                                            .mask_pitch = raw->mask_row_bytes },
                                .images = &p->images,
                                .masks = &p->masks,
                                .masks_b = p->config->two_masks ? &p->masks_b : NULL,
                                .turn = p->turn++ % TURNS };
    memset(p->down.host, UNTOUCHED, p->down.bytes);
    need(stk_stream_copy(the_stream, &p->images, 0, &p->down, 0, p->images.bytes, &err), &err);
    need(stk_stream_copy(the_stream, &p->masks, 0, &p->down, 0, p->masks.bytes, &err), &err);
    need(stk_stream_copy(the_stream, &p->masks_b, 0, &p->down, 0, p->masks_b.bytes, &err), &err);
    up(&p->raw, job->layout.image_at, raw->images, image_bytes);
    up(&p->raw, job->layout.mask_at, raw->masks, mask_bytes);
    need(stk_augmenter_run(p->augmenter, the_stream, job, &err), &err);
    stoke_batch batch = stk_batch_shape(p->config, RAW_BATCH);
    batch.count = raw->count;
    batch.images = p->down.host;
    batch.masks = (char *)batch.images + p->images.bytes;
    batch.masks_b = p->config->two_masks ? (char *)batch.masks + p->masks.bytes : NULL;
    need(stk_stream_copy(the_stream, &p->down, 0, &p->images, 0, p->images.bytes, &err), &err);
    need(stk_stream_copy(the_stream, &p->down, p->images.bytes, &p->masks, 0, p->masks.bytes, &err), &err);
    need(stk_stream_copy(the_stream, &p->down, p->images.bytes + p->masks.bytes, &p->masks_b, 0,
                         p->masks_b.bytes, &err),
         &err);
    need(stk_stream_finish(the_stream, &err), &err);
    return batch;
}

static void assert_untouched(const void *rows, size_t row_bytes, uint32_t from)
{
    for (size_t i = row_bytes * from; i < row_bytes * RAW_BATCH; i++)
        assert_int_equal(((const uint8_t *)rows)[i], UNTOUCHED);
}

typedef struct seen {
    uint32_t rows, laid, deep;
} seen;

static seen compare_epoch(raw_run *run, const char *pipeline)
{
    const stoke_batch *plain, *raw;
    seen s = { 0 };
    path p = path_start(run);
    while (raw_next(run, &plain, &raw)) {
        stk_augmenter_job job;
        const stoke_batch got = finish(&p, raw, &job);
        raw_assert_same(pipeline, plain, &got);
        assert_untouched(got.images, got.image_row_bytes, got.count);
        assert_untouched(got.masks, got.mask_row_bytes, got.count);
        for (uint32_t i = 0; i < raw->count; i++) {
            s.rows++;
            s.laid += job.rows[i].laid;
            s.deep += job.rows[i].depth == 2;
        }
        raw_release(run, &plain, &raw);
    }
    path_stop(&p);
    return s;
}

static seen compare(const stoke_data_params *params)
{
    raw_run run = raw_start(params);
    const seen s = compare_epoch(&run, params->augment);
    raw_stop(&run);
    return s;
}

/* ---- the tests ---- */

static void every_pipeline(void **state)
{
    seen all = { 0 };
    raw_write(state);
    for (size_t i = 0; raw_pipeline(i); i++)
        for (int64_t epoch = 0; epoch < (UNIT_SANITIZED ? 1 : 3); epoch++) {
            stoke_data_params params = raw_params(state, raw_pipeline(i));
            params.normalize = STOKE_NORMALIZE_IMAGENET;
            params.epoch = epoch;
            const seen s = compare(&params);
            assert_int_equal(s.rows, RAW_SAMPLES);
            all.laid += s.laid;
            all.deep += s.deep;
        }
    assert_true(all.laid > 10 && all.deep > 50);
}

/* One pipeline that takes every way an element can be written. */
static void every_type_and_layout(void **state)
{
    static const char *const pipelines[] = {
        "hflip(p=0.5),vflip(p=0.3),contrast(p=0.4),gaussian_noise(p=0.3)",
        "random_crop,rotate(p=0.5),erasing(p=0.5,mask=ignore),mixup,cutmix"
    };
    raw_write(state);
    for (int i = 0; i < 2; i++)
        for (int dtype = 0; dtype < 4; dtype++)
            for (int layout = 0; layout < 2; layout++)
                for (int normalize = 0; normalize < 3; normalize++) {
                    stoke_data_params params = raw_params(state, pipelines[i]);
                    params.dtype = dtype;
                    params.layout = layout;
                    params.normalize = normalize;
                    params.mask_dtype = (dtype + layout + normalize) % 5;
                    compare(&params);
                }
}

static void ids_of_two_bytes_and_none(void **state)
{
    char list[4096];
    raw_write(state);
    snprintf(list, sizeof list, "%s", raw_list_without_masks(state));
    stoke_data_params params = raw_params(
        state, "random_crop,rotate(p=0.6,degrees=60),hflip(p=0.5,swap=0-299,3-4),erasing(mask=ignore)");
    params.classes = 300;
    params.ignore_index = 65535;
    for (params.mask_dtype = 2; params.mask_dtype < 5; params.mask_dtype++) {
        params.data = unit_folder(state);
        params.list = NULL;
        compare(&params);
        params.data = NULL;
        params.list = list;
        compare(&params);
    }
    params.augment = "random_crop,hflip(p=1,swap=0-3),scale(p=0.6,factor=0.2..2)";
    params.ignore_index = -1;
    params.classes = 0;
    params.mask_dtype = STOKE_MASK_DTYPE_AUTO;
    compare(&params);
    params.data = unit_folder(state);
    params.list = NULL;
    compare(&params);
}

/* Tiles that divide the output and tiles that do not, on both axes; strips that do not fill up. */
static void sizes(void **state)
{
    static const uint32_t size[][2] = { { 1, 1 }, { 1, 70 }, { 66, 2 }, { 24, 130 }, { 9, 64 } };
    raw_write(state);
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        stoke_data_params params = raw_params(
            state,
            "random_resized_crop,elastic(p=0.5,sigma=4..9),contrast(p=0.5),clahe(p=0.6,grid=4,clip=1..9),"
            "gaussian_blur(p=0.5,kernel=31,sigma=8),clahe(p=0.4,grid=32),contrast(p=0.5),mixup");
        params.size[0] = size[i][0];
        params.size[1] = size[i][1];
        params.dtype = (int)(i % 4);
        compare(&params);
    }
}

static void batches_of_every_length(void **state)
{
    raw_write(state);
    assert_int_equal(truncate(unit_path(state, "images/s5.png"), 100), 0);
    assert_int_equal(truncate(unit_path(state, "masks/s8.png"), 50), 0);
    for (int64_t batch = 1; batch <= RAW_BATCH; batch++) {
        stoke_data_params params = raw_params(state, "standard,mixup(p=1),cutmix(p=1)");
        params.batch = batch;
        params.policy = batch & 1 ? STOKE_POLICY_SKIP : STOKE_POLICY_REPLACE;
        params.max_bad = "5";
        compare(&params);
    }
}

/* ---- what is launched, and what is taken ---- */

static void nothing_is_launched_for_nothing(void **state)
{
    static const struct {
        const char *pipeline;
        uint32_t least, most;
        int64_t batch; /* 0 = RAW_BATCH */
    } cases[] = {
        { "none", 2, 2, 0 }, /* lay_image, lay_mask */
        { "brightness(p=1),hue(p=1),erasing(p=1)", 2, 2, 0 },
        { "gaussian_noise(p=1)", 3, 3, 0 },
        { "elastic(p=1,alpha=2..4)", 3, 3, 0 },
        { "contrast(p=1,factor=0.5)", 5, 5, 0 },   /* clear, gray_sum, color step */
        { "gaussian_blur(p=1,sigma=1)", 5, 5, 0 }, /* across, down, color step */
        { "clahe(p=1)", 7, 7, 0 },                 /* clear, count, table, apply, color step */
        { "mixup(p=1)", 3, 3, 0 },
        { "cutmix(p=0)", 2, 2, 0 },
        { "cutmix(p=1)", 2, 2, 1 }, /* there is no row before */
        { "contrast(p=1,factor=1),gaussian_blur(p=0)", 2, 2, 0 },
        { "standard,cutmix", 2, 13, 0 },
    };
    raw_write(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_data_params params = raw_params(state, cases[i].pipeline);
        if (cases[i].batch) params.batch = cases[i].batch;
        raw_run run = raw_start(&params);
        path p = path_start(&run);
        const stoke_batch *plain, *raw;
        assert_true(raw_next(&run, &plain, &raw));
        stk_augmenter_job job;
        finish(&p, raw, &job);
        const uint32_t launches = stk_augmenter_launches(p.augmenter);
        if (launches < cases[i].least || launches > cases[i].most)
            fail_msg("%s: %u launches, not %u to %u", cases[i].pipeline, launches, cases[i].least,
                     cases[i].most);
        /* every row is read and written at least once */
        assert_true(stk_augmenter_traffic(p.augmenter) >
                    raw->count * (uint64_t)(plain->image_row_bytes + plain->mask_row_bytes));
        assert_non_null(stk_augmenter_module(p.augmenter));
        raw_release(&run, &plain, &raw);
        path_stop(&p);
        raw_stop(&run);
    }
}

static uint64_t bytes_of(void **state, const char *pipeline, int dtype)
{
    stoke_data_params params = raw_params(state, pipeline);
    params.dtype = dtype;
    raw_run run = raw_start(&params);
    const uint64_t bytes = stk_augmenter_bytes(run.config, RAW_BATCH, TURNS);
    raw_stop(&run);
    return bytes;
}

/* Memory only where the pipeline may need it: on top of that of a pipeline that does nothing. */
static void memory_is_what_the_pipeline_may_need(void **state)
{
    const uint64_t step = TURNS * RAW_BATCH * sizeof(k_step),
                   planes = RAW_BATCH * 12 * RAW_WIDTH * RAW_HEIGHT;
    raw_write(state);
    const uint64_t none = bytes_of(state, "none", 0), first = none - TURNS * sizeof(k_step);
    assert_true(none > 3 * 65536 * 4 && bytes_of(state, "none", 3) < 4096);
    assert_int_equal(bytes_of(state, "hflip(swap=1-2)", 0), none + 65536 * 2);
    assert_int_equal(bytes_of(state, "brightness", 0), first + step);
    assert_int_equal(bytes_of(state, "gaussian_noise", 0), first + step + RAW_BATCH * RAW_HEIGHT * 24);
    assert_int_equal(bytes_of(state, "contrast", 0), first + step + planes + RAW_BATCH * 8);
    assert_int_equal(bytes_of(state, "gaussian_blur", 0), first + step + 2 * planes);
    assert_int_equal(bytes_of(state, "clahe(grid=3)", 0), first + step + planes + RAW_BATCH * 9 * 256 * 5);
    assert_int_equal(bytes_of(state, "cutmix", 0),
                     none + planes + RAW_BATCH * RAW_WIDTH * RAW_HEIGHT); /* f32 and u8 */
    assert_true(bytes_of(state, "elastic", 0) > none);
}

/* ---- faults ---- */

static void refusals(void **state)
{
    raw_write(state);
    const stoke_data_params params = raw_params(state, "gaussian_noise(p=1),mixup");
    const stoke_data_params other = raw_params(state, "none");
    raw_run run = raw_start(&params), plain_run = raw_start(&other);
    path p = path_start(&run), q = path_start(&plain_run);
    const stoke_batch *plain, *raw;
    assert_true(raw_next(&run, &plain, &raw));
    stk_augmenter_job job;
    stoke_error err = { 0 };
    finish(&p, raw, &job);
    stk_augmenter_job bad = job;
    bad.count = RAW_BATCH + 1;
    assert_int_equal(stk_augmenter_run(p.augmenter, the_stream, &bad, &err), STOKE_E_INVALID);
    bad = job;
    bad.turn = TURNS;
    assert_int_equal(stk_augmenter_run(p.augmenter, the_stream, &bad, &err), STOKE_E_INVALID);
    bad = job;
    bad.masks_b = NULL;
    assert_int_equal(stk_augmenter_run(p.augmenter, the_stream, &bad, &err), STOKE_E_INVALID);
    bad = job;
    bad.layout.mask_at += p.raw.bytes;
    assert_int_equal(stk_augmenter_run(p.augmenter, the_stream, &bad, &err), STOKE_E_INVALID);
    bad = job;
    bad.layout.image_at++;
    assert_int_equal(stk_augmenter_run(p.augmenter, the_stream, &bad, &err), STOKE_E_INVALID);
    bad = job;
    bad.images = &p.masks;
    assert_int_equal(stk_augmenter_run(p.augmenter, the_stream, &bad, &err), STOKE_E_INVALID);
    /* rows of a pipeline that draws more than was planned for */
    bad = job;
    bad.masks_b = NULL;
    bad.count = 3;
    assert_int_equal(stk_augmenter_run(q.augmenter, the_stream, &bad, &err), STOKE_E_INVALID);
    bad = job;
    bad.count = 0;
    assert_int_equal(stk_augmenter_run(p.augmenter, the_stream, &bad, &err), STOKE_OK);
    assert_int_equal(stk_augmenter_launches(p.augmenter), 0);
    stk_augmenter *none;
    assert_int_equal(stk_augmenter_create(&none, the_device, run.config, 1 << 20, 1, &err), STOKE_E_LIMIT);
    assert_non_null(strstr(err.message, "lower batch"));
    assert_null(none);
    raw_release(&run, &plain, &raw);
    path_stop(&p);
    path_stop(&q);
    raw_stop(&run);
    raw_stop(&plain_run);
}

/* Numbers that no pipeline draws are refused before anything is launched. */
static void wild_plans(void **state)
{
    raw_write(state);
    const stoke_data_params params = raw_params(state, "gaussian_noise(p=1),elastic(p=1,alpha=3)");
    raw_run run = raw_start(&params);
    const stk_loader_config *config = run.config;
    k_sample samples[1];
    k_step steps[4];
    stk_tables t = { .samples = samples, .steps = steps, .steps_capacity = 1 };
    const stk_tables_raw_layout layout = { 0 };
    stoke_error err;
    stk_raw_row row = { .plan = { .n_color_steps = 1, .color = { { .kind = STOKE_COLOR_KINDS } } } };
    assert_int_equal(stk_tables_fill(&t, config, &row, 1, &layout, &err), STOKE_E_INVALID);
    row.plan.n_color_steps = STOKE_PLAN_COLOR_STEPS + 1;
    assert_int_equal(stk_tables_fill(&t, config, &row, 1, &layout, &err), STOKE_E_INVALID);
    row.plan.n_color_steps = 2;
    row.plan.color[0] = row.plan.color[1] = (stoke_color_step){ .kind = STOKE_COLOR_BRIGHTNESS, .a = 2 };
    assert_int_equal(stk_tables_fill(&t, config, &row, 1, &layout, &err), STOKE_E_INVALID);
    row.plan = (stoke_augment_plan){ .warp = 1, .elastic_alpha = 1, .elastic_step = 0.5f };
    assert_int_equal(stk_tables_fill(&t, config, &row, 1, &layout, &err), STOKE_E_INVALID);
    /* a box that hangs over is cut; a step that changes nothing is left out */
    row.plan = (stoke_augment_plan){ .n_color_steps = 2,
                                     .color = { { .kind = STOKE_COLOR_GAMMA, .a = 1, .b = 1 },
                                                { .kind = STOKE_COLOR_ERASE, .box = { 30, 10, 99, 2 } } } };
    assert_int_equal(stk_tables_fill(&t, config, &row, 1, &layout, &err), STOKE_OK);
    assert_true(t.n_steps == 1 && steps[0].kind == K_ERASE && steps[0].x == 30);
    assert_true(steps[0].width == RAW_WIDTH - 30 && steps[0].height == 2);
    raw_stop(&run);
}

static void no_memory_is_an_error(void **state)
{
    raw_write(state);
    const stoke_data_params params = raw_params(state, "strong,mixup");
    raw_run run = raw_start(&params);
    stk_augmenter *augmenter = NULL;
    stoke_error err;
    int r = STOKE_E_NOMEM;
    for (int64_t after = 0; r && after < 1000; after++) {
        stk_mem_fail_after(after);
        r = stk_augmenter_create(&augmenter, the_device, run.config, RAW_BATCH, TURNS, &err);
        stk_mem_fail_after(-1);
        if (r) assert_int_equal(r, STOKE_E_NOMEM);
        stk_augmenter_destroy(&augmenter);
    }
    assert_int_equal(r, STOKE_OK);
    raw_stop(&run);
}

UNIT_GROUP(augmenter)
{
    if (!is_there(device_name())) {
        printf("1..0 # SKIP no device %s\n", device_name());
        return 0;
    }
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(every_pipeline),
        unit_test_with_folder(every_type_and_layout),
        unit_test_with_folder(ids_of_two_bytes_and_none),
        unit_test_with_folder(sizes),
        unit_test_with_folder(batches_of_every_length),
        unit_test_with_folder(nothing_is_launched_for_nothing),
        unit_test_with_folder(memory_is_what_the_pipeline_may_need),
        unit_test_with_folder(refusals),
        unit_test_with_folder(wild_plans),
        unit_test_with_folder(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
