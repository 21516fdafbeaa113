/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise (c): memory has a ceiling, known before the first batch.
 */
#include <stoke/tools/loader.h>
#include "tests/unit/fixture_pairs.h"

#include "src/base/mem.h"
#include "tests/unit/fixture_pictures.h"

enum { MOST = 64 };

static void the_plan_adds_up(void **state)
{
    pairs_write(state, 8, 64, 48);
    stoke_data_params params = pairs_params(state);
    stoke_dataset *dataset;
    stoke_loader *loader;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    const stoke_memory_plan plan = stoke_loader_memory(loader);
    assert_int_equal(plan.slots, 3);
    assert_int_equal(plan.workers, 2);
    assert_in_range(plan.slot_bytes, 4 * 32 * 32 * 13, 4 * 32 * 32 * 13 + 8192); /* 12 bytes image, 1 mask */
    assert_int_equal(plan.largest_width, 64);
    assert_int_equal(plan.largest_height, 48);
    assert_int_equal(plan.images_probed, 8);
    assert_int_equal(plan.total_bytes,
                     plan.slots * plan.slot_bytes + plan.workers * plan.worker_bytes + plan.fixed_bytes);
    char text[256];
    stoke_memory_plan_text(&plan, text, sizeof text);
    assert_non_null(strstr(text, "ring 3 x 0.1 MiB + workers 2 x "));
    pairs_digest digest[MOST];
    int status;
    pairs_take(loader, digest, MOST, &status);
    stoke_loader_stats_data stats;
    stoke_loader_stats(loader, &stats);
    assert_true(stats.memory_bytes <= plan.total_bytes - plan.fixed_bytes);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* Reads epochs until eight in a row have allocated nothing, or `most` of them; never holds more than planned.
 */
static int settles(const stoke_data_params *params, int most)
{
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err = { 0 };
    pairs_digest digest[MOST];
    stoke_loader_stats_data stats;
    int status, quiet = 0;
    assert_int_equal(stoke_dataset_open(&dataset, params, NULL), 0);
    if (stoke_loader_create(&loader, dataset, params, NULL, &err)) fail_msg("%s", err.message);
    const stoke_memory_plan plan = stoke_loader_memory(loader);
    uint64_t allocations = 0;
    for (int epoch = 0; epoch < most && quiet < 8; epoch++) {
        stoke_loader_set_epoch(loader, (uint64_t)epoch);
        pairs_take(loader, digest, MOST, &status);
        assert_int_equal(status, STOKE_E_END);
        stoke_loader_stats(loader, &stats);
        if (stats.memory_bytes > plan.total_bytes - plan.fixed_bytes)
            fail_msg("%s: %llu bytes held, %llu planned", params->augment,
                     (unsigned long long)stats.memory_bytes,
                     (unsigned long long)(plan.total_bytes - plan.fixed_bytes));
        quiet = stats.heap_allocations == allocations ? quiet + 1 : 0;
        allocations = stats.heap_allocations;
    }
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    return quiet == 8;
}

/* Whatever the ops: a bench holds no more than planned, and soon allocates nothing. Sources are larger and
 * smaller than the output; then one has 16 bits, which libspng decodes with memory of its own each time. */
static void the_plan_covers_every_op(void **state)
{
    static const char *const lists[] = {
        "none",
        "crop",
        "standard",
        "strong",
        "face",
        "medical",
        "elastic(p=1,alpha=4..12,sigma=4..40),clahe(p=1),contrast(p=1),gaussian_blur(p=1,kernel=31)",
        "foreground_crop(p=1),hflip(p=1,swap=1-2),mixup(p=1)",
        "random_resized_crop(scale=0.01..1,ratio=0.2..5),contrast(p=1),cutmix(p=1)",
    };
    static const uint32_t size[][2] = { { 32, 32 }, { 90, 70 }, { 20, 100 }, { 12, 9 }, { 64, 64 } };
    static uint16_t samples[90 * 70 * 3];
    const stoke_image deep = { samples, 90 * 6, 90, 70, 3, 2 };
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    for (uint32_t i = 0; i < 5; i++) pairs_write_one(state, i, i % 3 ? "png" : "jpg", size[i][0], size[i][1]);
    stoke_data_params params = pairs_params(state);
    params.workers = 0;
    params.prefetch = 1;
    const size_t n = sizeof lists / sizeof *lists;
    for (size_t i = 0; i < 2 * n; i++) {
        params.augment = lists[i % n];
        params.classes = i % 2 ? 300 : 19;
        params.ignore_index = i % 2 ? 65535 : 255;
        if (i == n)
            assert_int_equal(stoke_image_write_png(unit_path(state, "images/s1.png"), &deep, NULL), 0);
        const int quiet = settles(&params, i < n ? 400 : 10);
        if (i < n && !quiet) fail_msg("%s: still allocates after 400 epochs", params.augment);
    }
}

/* One colour and one class: files of next to nothing, so that their bytes hide no pixels in the plan. */
static void write_plain(void **state, const char *name, uint32_t width, uint32_t height, uint8_t depth)
{
    char path[64];
    const size_t samples = (size_t)width * height * 3;
    void *zeros = calloc(samples, depth);
    const stoke_image image = { zeros, (size_t)width * 3 * depth, width, height, 3, depth };
    const stoke_image mask = { zeros, width, width, height, 1, 1 };
    snprintf(path, sizeof path, "images/%s.png", name);
    assert_int_equal(stoke_image_write_png(unit_path(state, path), &image, NULL), 0);
    snprintf(path, sizeof path, "masks/%s.png", name);
    assert_int_equal(stoke_image_write_png(unit_path(state, path), &mask, NULL), 0);
    free(zeros);
}

/* The largest image has 16 bits, the largest mask belongs to another one: buffers keep both. */
static void the_largest_parts_add_up(void **state)
{
    static const char *const lists[] = { "none", "standard", "hflip(swap=1-2)", "strong" };
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    write_plain(state, "deep", 700, 700, 2);
    write_plain(state, "wide", 1000, 700, 1);
    stoke_data_params params = pairs_params(state);
    params.prefetch = 1;
    for (int i = 0; i < 8; i++) {
        params.workers = i / 4;
        params.augment = lists[i % 4];
        settles(&params, 4);
    }
}

/* A black JPEG that lies on its side. */
static void write_turned(void **state, const char *name, uint32_t width, uint32_t height)
{
    uint8_t *zeros = calloc(width, (size_t)height * 3);
    bytes flat = make_jpeg(zeros, width, height, (jpeg_kind){ 3, 2, 2, 0, JCS_UNKNOWN, 0 });
    bytes turned = with_exif(flat, 6, 0);
    unit_write(unit_path(state, name), turned.data, turned.size);
    free(zeros);
    free(flat.data);
    free(turned.data);
}

/* A picture that is turned upright is there twice. */
static void turned_pictures_are_planned_twice(void **state)
{
    pairs_write(state, 1, 32, 32);
    write_plain(state, "s0", 900, 700, 1);
    assert_int_equal(unlink(unit_path(state, "images/s0.png")), 0);
    write_turned(state, "images/s0.jpg", 700, 900);
    stoke_data_params params = pairs_params(state);
    params.workers = 0;
    params.orientation = STOKE_ORIENTATION_APPLY;
    params.prefetch = 1;
    settles(&params, 4);
}

/* Second masks take their place in a slot only when there are any. */
static void a_slot_has_second_masks_with_mixup_only(void **state)
{
    pairs_write(state, 4, 32, 32);
    stoke_data_params params = pairs_params(state);
    uint64_t slot[3];
    static const char *const lists[] = { "none", "cutmix", "mixup" };
    for (int i = 0; i < 3; i++) {
        stoke_dataset *dataset;
        stoke_loader *loader;
        params.augment = lists[i];
        assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
        assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
        slot[i] = stoke_loader_memory(loader).slot_bytes;
        stoke_loader_destroy(&loader);
        stoke_dataset_close(&dataset);
    }
    assert_int_equal(slot[1], slot[0]);
    assert_int_equal(slot[2], slot[0] + 4 * (32 * 32 + sizeof(float)));
}

static void a_limit_shrinks_prefetch_then_refuses(void **state)
{
    pairs_write(state, 8, 32, 32);
    stoke_data_params params = pairs_params(state);
    params.size[0] = params.size[1] = 256;
    params.batch = 8; /* 8 x 256 x 256 x 13 = 6.8 MB a slot */
    params.prefetch = 8;
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err = { 0 };
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    const stoke_memory_plan free_plan = stoke_loader_memory(loader);
    assert_int_equal(free_plan.slots, 9);
    stoke_loader_destroy(&loader);

    params.memory_limit = free_plan.total_bytes - 3 * free_plan.slot_bytes;
    if (stoke_loader_create(&loader, dataset, &params, NULL, &err)) fail_msg("%s", err.message);
    stoke_memory_plan plan = stoke_loader_memory(loader);
    assert_true(plan.prefetch_reduced);
    assert_in_range(plan.slots, 2, 6);
    assert_true(plan.total_bytes <= params.memory_limit);
    pairs_digest digest[MOST];
    int status;
    assert_int_equal(pairs_take(loader, digest, MOST, &status), 1);
    stoke_loader_destroy(&loader);

    params.memory_limit = 4 << 20;
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, &err), STOKE_E_LIMIT);
    assert_non_null(strstr(err.message, "memory_limit is 4.0 MiB"));
    assert_non_null(strstr(err.message, "ring 2 x 6.5 MiB"));
    stoke_dataset_close(&dataset);
}

enum { LARGE = 48 << 20 };

static void make_large(void **state, const char *name)
{
    assert_int_equal(truncate(unit_path(state, name), 0), 0);
    assert_int_equal(truncate(unit_path(state, name), LARGE), 0); /* no header: only zeros */
}

/* A large file is read whole before it turns out to be no picture. */
static void large_bad_files_are_planned(void **state)
{
    pairs_write(state, 6, 48, 32);
    make_large(state, "images/s1.png");
    stoke_data_params params = pairs_params(state);
    params.max_bad = "1";
    stoke_dataset *dataset;
    stoke_loader *loader;
    pairs_digest digest[MOST];
    stoke_loader_stats_data stats;
    int status;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    const stoke_memory_plan plan = stoke_loader_memory(loader);
    assert_int_equal(pairs_take(loader, digest, MOST, &status), 2);
    stoke_loader_stats(loader, &stats);
    assert_int_equal(stats.bad_samples, 1);
    assert_true(stats.memory_bytes >= LARGE);
    assert_true(stats.memory_bytes <= plan.total_bytes - plan.fixed_bytes);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* One that the plan could not know is refused before it is read, as a bad sample: the run goes on. */
static void large_files_do_not_pass_the_limit(void **state)
{
    pairs_write(state, 6, 48, 32);
    stoke_data_params params = pairs_params(state);
    params.workers = 0; /* nothing is read before next */
    params.max_bad = "1";
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err = { 0 };
    pairs_digest digest[MOST];
    stoke_loader_stats_data stats;
    stoke_bad_file bad;
    int status;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    params.memory_limit = stoke_loader_memory(loader).total_bytes + LARGE / 2;
    stoke_loader_destroy(&loader);
    if (stoke_loader_create(&loader, dataset, &params, NULL, &err)) fail_msg("%s", err.message);
    make_large(state, "images/s1.png");
    assert_int_equal(pairs_take(loader, digest, MOST, &status), 2);
    assert_int_equal(status, STOKE_E_END);
    assert_int_equal(stoke_loader_bad(loader, 0, &bad), 0);
    assert_int_equal(bad.code, STOKE_E_LIMIT);
    assert_non_null(strstr(bad.reason, "s1.png: needs 48."));
    stoke_loader_stats(loader, &stats);
    assert_true(stats.memory_bytes < LARGE);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* Less than the workers would need for a large picture each: they take turns with them, the sum of what all
 * hold stays below the limit, and the batches are the same. */
static void large_pictures_take_turns(void **state)
{
    enum { WORKERS = 4, SAMPLES = 12 };
    pairs_write(state, SAMPLES - 4, 48, 32);
    for (uint32_t i = 0; i < 4; i++) pairs_write_one(state, SAMPLES - 4 + i, "png", 1500, 1000);
    stoke_data_params params = pairs_params(state);
    params.workers = WORKERS;
    pairs_digest free_digest[MOST], digest[MOST];
    const size_t n = pairs_epoch(&params, free_digest, MOST);
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err = { 0 };
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    const stoke_memory_plan all = stoke_loader_memory(loader);
    assert_int_equal(all.large_bytes, 0); /* every header was read */
    stoke_loader_destroy(&loader);
    /* For two of four. What the process itself holds is measured again for each loader: where a sanitizer
     * gave memory back meanwhile, all four fit into that and the limit is lowered by as much; where it took
     * more, not even one may fit. */
    params.memory_limit = all.total_bytes - (WORKERS - 2) * all.worker_bytes;
    stoke_memory_plan plan = all;
    for (int tries = 0; tries < 8 && !plan.large_bytes; tries++) {
        stoke_loader_destroy(&loader);
        const int r = stoke_loader_create(&loader, dataset, &params, NULL, &err);
        if (r && !(UNIT_SANITIZED && r == STOKE_E_LIMIT)) fail_msg("%s", err.message);
        if (!r) plan = stoke_loader_memory(loader);
        if (r)
            params.memory_limit += all.worker_bytes / 2;
        else if (!plan.large_bytes)
            params.memory_limit = plan.total_bytes - (WORKERS - 2) * plan.worker_bytes;
    }
    assert_true(plan.large_bytes > 0 && plan.worker_bytes < all.worker_bytes);
    assert_true(plan.total_bytes <= params.memory_limit);
    stoke_loader_stats_data stats;
    int status;
    assert_int_equal(pairs_take(loader, digest, MOST, &status), n);
    assert_int_equal(status, STOKE_E_END);
    stoke_loader_stats(loader, &stats);
    assert_int_equal(stats.bad_samples, 0);
    assert_true(stats.memory_bytes <= plan.total_bytes - plan.fixed_bytes);
    for (size_t i = 0; i < n; i++)
        assert_memory_equal(digest[i].digest, free_digest[i].digest, sizeof digest[i].digest);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* A large one anywhere among many is found: all headers are read. */
static void one_large_picture_among_many_is_planned(void **state)
{
    enum { MANY = 5000 };
    char from[4096], to[4096], name[64];
    pairs_write(state, 1, 24, 16);
    for (uint32_t i = 1; i < MANY; i++) {
        if (i == 2713) continue; /* an even choice of 4096 among them passes over it */
        for (int side = 0; side < 2; side++) {
            snprintf(name, sizeof name, side ? "masks/s%u.png" : "images/s%u.jpg", i);
            snprintf(from, sizeof from, "%s", unit_path(state, side ? "masks/s0.png" : "images/s0.jpg"));
            snprintf(to, sizeof to, "%s", unit_path(state, name));
            assert_int_equal(link(from, to), 0);
        }
    }
    pairs_write_one(state, 2713, "png", 800, 600);
    stoke_data_params params = pairs_params(state);
    stoke_dataset *dataset;
    stoke_loader *loader;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_dataset_count(dataset), MANY);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    const stoke_memory_plan plan = stoke_loader_memory(loader);
    assert_int_equal(plan.images_probed, MANY);
    assert_int_equal(plan.largest_width, 800);
    assert_true(plan.worker_bytes >= 800 * 600 * 3);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* Opens, creates and reads an epoch; every status but success and NOMEM is a failure. 1 when all was read. */
static int reads_all(const stoke_data_params *params, int64_t after)
{
    stoke_dataset *dataset = NULL;
    stoke_loader *loader = NULL;
    stoke_error err = { 0 };
    pairs_digest digest[MOST];
    int status = 0;
    stk_mem_fail_after(after);
    int r = stoke_dataset_open(&dataset, params, &err);
    if (!r) r = stoke_loader_create(&loader, dataset, params, NULL, &err);
    if (!r) pairs_take(loader, digest, MOST, &status);
    stk_mem_fail_after(-1);
    if (r && r != STOKE_E_NOMEM) fail_msg("%s, after %d: %d %s", params->augment, (int)after, r, err.message);
    if (!r && status != STOKE_E_END && status != STOKE_E_NOMEM)
        fail_msg("%s, after %d: %d %s", params->augment, (int)after, status, stoke_loader_error(loader));
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    return !r && status == STOKE_E_END;
}

/* Allocation failing at every single point of creation and reading: an error each time, never a crash or
 * leak. The lists need every buffer of a bench between them. */
static void every_allocation_may_fail(void **state)
{
    char yaml[4096];
    static const char text[] = "augment:\n  - standard\n  - normalize: {mean: 0.5, std: 0.5}\n";
    snprintf(yaml, sizeof yaml, "%s", unit_path(state, "standard.yaml"));
    unit_write(yaml, text, sizeof text - 1);
    const char *const lists[] = {
        "strong,elastic(p=1),clahe(p=1),mixup(p=1)",
        "foreground_crop(p=1),hflip(p=1,swap=1-2),rotate(p=1),contrast(p=1),cutmix(p=1)", yaml
    };
    pairs_write(state, 5, 48, 32);
    write_plain(state, "deep", 40, 50, 2); /* 16 bits */
    stoke_data_params params = pairs_params(state);
    params.workers = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int64_t after = 0;
        params.augment = lists[i];
        params.classes = i == 1 ? 300 : PAIRS_CLASSES;
        params.ignore_index = i == 1 ? 65535 : 255;
        while (after < 2000 && !reads_all(&params, after)) after++;
        assert_in_range(after, 20, 1999);
    }
}

static void terms_have_units_of_their_own(void **state)
{
    stoke_memory_sum sum = { 0 };
    char text[256];
    (void)state;
    stoke_memory_add(&sum, "parameters", 1, UINT64_C(12) << 30);
    stoke_memory_add(&sum, "ring", 3, 17 << 20);
    stoke_memory_add(&sum, "masks", 3, 35 << 10);
    stoke_memory_text(&sum, text, sizeof text);
    assert_string_equal(text, "parameters 12.0 GiB + ring 3 x 17.0 MiB + masks 3 x 35.0 KiB = 12.0 GiB");
}

UNIT_GROUP(memory_plan)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(the_plan_adds_up),
        unit_test_with_folder(the_plan_covers_every_op),
        unit_test_with_folder(the_largest_parts_add_up),
        unit_test_with_folder(turned_pictures_are_planned_twice),
        unit_test_with_folder(a_slot_has_second_masks_with_mixup_only),
        unit_test_with_folder(a_limit_shrinks_prefetch_then_refuses),
        unit_test_with_folder(large_bad_files_are_planned),
        unit_test_with_folder(large_files_do_not_pass_the_limit),
        unit_test_with_folder(large_pictures_take_turns),
        unit_test_with_folder(one_large_picture_among_many_is_planned),
        unit_test_with_folder(every_allocation_may_fail),
        cmocka_unit_test(terms_have_units_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
