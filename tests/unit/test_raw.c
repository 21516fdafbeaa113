/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw batches: what a worker leaves to a device, carried out on the host, is what an ordinary loader makes,
 * byte for byte; and the promises of a loader hold for them too.
 */
#include "tests/unit/fixture_raw_batches.h"

/* ---- the reference: rows laid out and mixed on the host ---- */

typedef struct finisher {
    const stk_loader_config *config;
    stk_scratch scratch;
    stk_slots slots;
    stk_mem_buffer copy;
} finisher;

static finisher finisher_start(const stk_loader_config *config)
{
    finisher f = { .config = config };
    const stoke_batch shape = stk_batch_shape(config, RAW_BATCH);
    assert_int_equal(stk_scratch_create(&f.scratch, NULL), 0);
    assert_int_equal(
        stk_slots_create(&f.slots, 1, &shape, config->two_masks ? STK_SLOT_TWO_MASKS : 0, NULL, NULL), 0);
    return f;
}

static void finisher_stop(finisher *f)
{
    stk_scratch_destroy(&f->scratch);
    stk_slots_destroy(&f->slots);
    stk_buffer_free(&f->copy);
}

static const stoke_batch *finish(finisher *f, const stoke_batch *raw)
{
    stk_slots_discard(&f->slots);
    stk_slot *slot = stk_slots_open(&f->slots, raw->count);
    const stk_raw_row *rows = stk_batch_raw(raw);
    slot->batch.count = raw->count;
    memset(slot->batch.images, 0xa5, f->slots.bytes_per_slot);
    for (uint32_t i = 0; i < raw->count; i++) {
        stoke_error err = { 0 };
        const stoke_augment_plan *plan = &rows[i].plan;
        slot->mix[i] = (stk_slot_row_mix){ plan->mix, plan->lambda, plan->mix_box };
        if (stk_raw_render(&f->scratch, f->config, &rows[i], (char *)raw->images + i * raw->image_row_bytes,
                           (char *)raw->masks + i * raw->mask_row_bytes, stk_slot_image_row(slot, i),
                           stk_slot_mask_row(slot, i), &err))
            fail_msg("%s", err.message);
    }
    if (f->config->mixes) assert_int_equal(stk_slot_mix(slot, &f->copy, NULL), 0);
    return &slot->batch;
}

/* What a row says about itself. */
static void check_row(const stk_loader_config *config, const stoke_batch *raw, const stk_raw_row *row)
{
    const size_t pixels = (size_t)row->width * row->height;
    assert_true(row->depth == 1 || row->depth == 2);
    assert_int_equal(row->image_bytes, pixels * 3 * row->depth);
    assert_int_equal(row->mask_bytes, pixels * row->mask_depth);
    assert_true(row->image_bytes <= raw->image_row_bytes && row->mask_bytes <= raw->mask_row_bytes);
    if (row->laid) {
        const stoke_augment_plan *plan = &row->plan;
        assert_true(row->width == config->width && row->height == config->height && row->mask_depth);
        assert_true(!plan->warp && !plan->hflip && !plan->vflip && !plan->place_x && !plan->place_y);
        assert_true(!plan->swap_labels && plan->elastic_alpha == 0);
        /* only because it had to be */
        assert_true((size_t)plan->width * plan->height * 3 * row->depth > raw->image_row_bytes);
    } else {
        assert_true(row->width == row->plan.width && row->height == row->plan.height);
    }
}

typedef struct seen {
    uint32_t rows, laid, deep, warped;
} seen;

/* The rest of the epoch of both loaders. */
static seen compare_epoch(raw_run *run, const char *pipeline)
{
    const stoke_batch *plain, *raw;
    seen s = { 0 };
    finisher f = finisher_start(run->config);
    while (raw_next(run, &plain, &raw)) {
        raw_assert_same(pipeline, plain, finish(&f, raw));
        for (uint32_t i = 0; i < raw->count; i++) {
            const stk_raw_row *row = &stk_batch_raw(raw)[i];
            check_row(run->config, raw, row);
            s.rows++;
            s.laid += row->laid;
            s.deep += row->depth == 2;
            s.warped += row->plan.warp;
        }
        raw_release(run, &plain, &raw);
    }
    finisher_stop(&f);
    return s;
}

static seen compare(const stoke_data_params *params)
{
    raw_run run = raw_start(params);
    seen s = compare_epoch(&run, params->augment);
    raw_stop(&run);
    return s;
}

/* ---- the tests ---- */

static void every_pipeline(void **state)
{
    seen all = { 0 };
    raw_write(state);
    for (size_t i = 0; raw_pipeline(i); i++) {
        stoke_data_params params = raw_params(state, raw_pipeline(i));
        params.dtype = (int)(i % 4);
        params.layout = (int)(i / 4 % 2);
        params.normalize = STOKE_NORMALIZE_IMAGENET;
        const seen s = compare(&params);
        assert_int_equal(s.rows, RAW_SAMPLES);
        all.rows += s.rows;
        all.laid += s.laid;
        all.deep += s.deep;
        all.warped += s.warped;
    }
    /* All kinds of rows were among them. */
    assert_true(all.laid > 10 && all.warped > 50 && all.deep > 50);
    assert_true(all.laid < all.rows / 2);
}

static void ids_of_two_bytes_and_none(void **state)
{
    static const char *const pipelines[] = { "none", "random_crop,rotate(p=1,degrees=60),hflip(swap=0-299)",
                                             "strong", "foreground_crop,scale(p=1,factor=0.3..0.6),cutmix" };
    char list[4096];
    raw_write(state);
    snprintf(list, sizeof list, "%s", raw_list_without_masks(state));
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        stoke_data_params params = raw_params(state, pipelines[i]);
        params.classes = 300;
        params.ignore_index = 65535;
        params.mask_dtype = 2 + (int)(i % 3);
        compare(&params);
        params.data = NULL;
        params.list = list;
        const seen s = compare(&params);
        assert_int_equal(s.laid > 0, i == 1 || i == 3);
        params.classes = 0;
        params.ignore_index = -1;
        params.mask_dtype = STOKE_MASK_DTYPE_AUTO;
        if (i == 0 || i == 3) compare(&params); /* the others need class 299 or an ignore_index */
    }
}

/* A fill of 0 stays 0 where class 0 and class 3 change places. */
static void fill_is_not_swapped(void **state)
{
    raw_write(state);
    stoke_data_params params =
        raw_params(state, "random_crop,hflip(p=1,swap=0-3),scale(p=1,factor=0.2..0.5)");
    params.ignore_index = -1;
    assert_true(compare(&params).laid > 0);
}

static void windows_and_fast_decoding(void **state)
{
    raw_write(state);
    for (int i = 0; i < 4; i++) {
        stoke_data_params params = raw_params(state, i & 1 ? "medical" : "standard");
        params.window = i & 2 ? "p2:p98" : "1000:50000";
        params.decode = STOKE_DECODE_FAST;
        compare(&params);
    }
}

static void workers_and_prefetch(void **state)
{
    static const int64_t workers[] = { 0, 1, 4 };
    raw_write(state);
    for (size_t i = 0; i < 3; i++) {
        stoke_data_params params = raw_params(state, "strong");
        params.workers = workers[i];
        params.prefetch = 1 + (int64_t)i * 2;
        compare(&params);
    }
}

static void caches(void **state)
{
    static const char *const pipelines[] = { "none", "standard", "medical",
                                             "elastic(p=1,alpha=2),rotate(p=0.5)" };
    raw_write(state);
    for (size_t i = 0; i < 4; i++) {
        char name[32], folder[4096];
        snprintf(name, sizeof name, "cache%zu", i);
        snprintf(folder, sizeof folder, "%s", unit_path(state, name));
        stoke_data_params params = raw_params(state, pipelines[i]);
        params.cache = folder;
        for (int warm = 0; warm < 3; warm++) { /* made, found on disk, found in memory */
            params.cache_ram = warm == 2 ? 1 << 20 : 0;
            raw_run run = raw_start(&params);
            compare_epoch(&run, pipelines[i]);
            if (warm == 2) {
                stoke_loader_set_epoch(run.plain, 1);
                stoke_loader_set_epoch(run.raw, 1);
                compare_epoch(&run, pipelines[i]);
                stoke_loader_stats_data stats;
                stoke_loader_stats(run.raw, &stats);
                assert_true(stats.cache_hits_ram > 0);
            }
            raw_stop(&run);
        }
    }
}

/* Policies: the same rows are missing or replaced, and rows that move in their batch take their plans along.
 */
static void bad_files(void **state)
{
    raw_write(state);
    assert_int_equal(truncate(unit_path(state, "images/s5.png"), 100), 0);
    assert_int_equal(truncate(unit_path(state, "masks/s8.png"), 50), 0);
    for (int policy = STOKE_POLICY_REPLACE; policy <= STOKE_POLICY_SKIP; policy++) {
        stoke_data_params params =
            raw_params(state, "random_resized_crop,color_jitter(p=1),mixup(p=1),cutmix");
        params.policy = policy;
        params.max_bad = "5";
        params.workers = 3;
        for (params.epoch = 0; params.epoch < 3; params.epoch++)
            assert_int_equal(compare(&params).rows,
                             policy == STOKE_POLICY_SKIP ? RAW_SAMPLES - 2 : RAW_SAMPLES);
    }
    stoke_data_params params = raw_params(state, "none");
    params.policy = STOKE_POLICY_STOP;
    raw_run run = raw_start(&params);
    const stoke_batch *plain, *raw;
    int a, b;
    while (!(a = stoke_loader_next(run.plain, &plain))) stoke_batch_release(run.plain, &plain);
    while (!(b = stoke_loader_next(run.raw, &raw))) stoke_batch_release(run.raw, &raw);
    assert_int_equal(a, b);
    assert_string_equal(stoke_loader_error(run.plain), stoke_loader_error(run.raw));
    raw_stop(&run);
}

/* A state of either loader is one of the other. */
static void resume(void **state)
{
    raw_write(state);
    const stoke_data_params params = raw_params(state, "standard");
    for (int swapped = 0; swapped < 2; swapped++) {
        raw_run first = raw_start(&params), second = raw_start(&params);
        const stoke_batch *plain, *raw;
        char text[512];
        assert_true(raw_next(&first, &plain, &raw));
        raw_release(&first, &plain, &raw);
        stoke_loader_state(swapped ? first.plain : first.raw, text, sizeof text);
        assert_int_equal(stoke_loader_restore(second.raw, text, NULL), 0);
        assert_int_equal(stoke_loader_restore(second.plain, text, NULL), 0);
        assert_int_equal(compare_epoch(&second, params.augment).rows, RAW_SAMPLES - RAW_BATCH);
        raw_stop(&first);
        raw_stop(&second);
    }
}

/* Promise (c), and nothing is allocated once every kind of row has been seen. */
static void memory(void **state)
{
    raw_write(state);
    stoke_data_params params = raw_params(state, "strong");
    params.workers = 1;
    raw_run run = raw_start(&params);
    const stoke_memory_plan plan = stoke_loader_memory(run.raw), usual = stoke_loader_memory(run.plain);
    const uint64_t pixels = RAW_WIDTH * RAW_HEIGHT;
    assert_true(plan.slot_bytes >= RAW_BATCH * (pixels * 8 + sizeof(stoke_augment_plan)));
    assert_true(plan.slot_bytes <= RAW_BATCH * (pixels * 8 + sizeof(stk_raw_row) + 256) + sizeof(stk_slot));
    assert_true(plan.worker_bytes < usual.worker_bytes); /* no colour chain */
    stoke_loader_stats_data stats;
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        const stoke_batch *raw;
        stoke_loader_set_epoch(run.raw, epoch);
        while (!stoke_loader_next(run.raw, &raw)) {
            assert_true((uintptr_t)raw->images % 64 == 0 && raw->image_row_bytes % 64 == 0);
            assert_true((uintptr_t)raw->masks % 64 == 0 && raw->mask_row_bytes % 64 == 0);
            stoke_batch_release(run.raw, &raw);
        }
        stoke_loader_stats(run.raw, &stats);
        assert_true(stats.memory_bytes <= plan.total_bytes - plan.fixed_bytes);
    }
    assert_int_equal(stats.stage[STOKE_STAGE_WRITE].count >= 4 * RAW_SAMPLES, 1);
    raw_stop(&run);
}

static void no_memory_is_an_error(void **state)
{
    raw_write(state);
    const stoke_data_params params = raw_params(state, "standard");
    stoke_dataset *dataset;
    stoke_loader *loader = NULL;
    stoke_error err;
    int r = STOKE_E_NOMEM;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    for (int64_t after = 0; r; after++) {
        stk_mem_fail_after(after);
        r = stk_loader_create_raw(&loader, dataset, &params, NULL, NULL, &err);
        stk_mem_fail_after(-1);
        if (r) assert_int_equal(r, STOKE_E_NOMEM);
        stoke_loader_destroy(&loader);
    }
    stoke_dataset_close(&dataset);
}

UNIT_GROUP(raw)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(every_pipeline),
        unit_test_with_folder(ids_of_two_bytes_and_none),
        unit_test_with_folder(fill_is_not_swapped),
        unit_test_with_folder(windows_and_fast_decoding),
        unit_test_with_folder(workers_and_prefetch),
        unit_test_with_folder(caches),
        unit_test_with_folder(bad_files),
        unit_test_with_folder(resume),
        unit_test_with_folder(memory),
        unit_test_with_folder(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
