/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise (b): a bad file never kills or silently alters a run. Each kind of damage, each policy.
 */
#include "tests/unit/fixture_pairs.h"

enum { MOST = 64, COUNT = 40 };

typedef struct run_result {
    pairs_digest digest[MOST];
    size_t batches;
    int status;
    stoke_loader_stats_data stats;
    char message[STOKE_ERROR_TEXT];
    char reason[8][STOKE_ERROR_TEXT];
} run_result;

static run_result run(const stoke_data_params *params)
{
    run_result result = { 0 };
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err = { 0 };
    if (stoke_dataset_open(&dataset, params, &err)) fail_msg("%s", err.message);
    if (stoke_loader_create(&loader, dataset, params, NULL, &err)) fail_msg("%s", err.message);
    result.batches = pairs_take(loader, result.digest, MOST, &result.status);
    snprintf(result.message, sizeof result.message, "%s", stoke_loader_error(loader));
    stoke_loader_stats(loader, &result.stats);
    for (size_t i = 0; i < result.stats.bad_samples && i < 8; i++) {
        stoke_bad_file bad;
        assert_int_equal(stoke_loader_bad(loader, i, &bad), 0);
        snprintf(result.reason[i], sizeof result.reason[i], "%s", bad.reason);
    }
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    return result;
}

/* ---- kinds of damage; each makes sample 7 bad ---- */

static void truncate_image(void **state)
{
    assert_int_equal(truncate(unit_path(state, "images/s7.png"), 60), 0);
}
static void empty_image(void **state)
{
    assert_int_equal(truncate(unit_path(state, "images/s7.png"), 0), 0);
}
static void vanish(void **state)
{
    assert_int_equal(unlink(unit_path(state, "images/s7.png")), 0);
}
static void vanish_mask(void **state)
{
    assert_int_equal(unlink(unit_path(state, "masks/s7.png")), 0);
}

static void wrong_type(void **state)
{
    unit_write(unit_path(state, "images/s7.png"), "just some text, no picture\n", 27);
}

static void folder_instead(void **state)
{
    vanish(state);
    assert_int_equal(mkdir(unit_path(state, "images/s7.png"), 0777), 0);
}

static void write_mask(void **state, uint32_t w, uint32_t h, uint8_t value)
{
    uint8_t *ids = malloc((size_t)w * h);
    memset(ids, 0, (size_t)w * h);
    ids[w + 3] = value;
    const stoke_image mask = { ids, w, w, h, 1, 1 };
    assert_int_equal(stoke_image_write_png(unit_path(state, "masks/s7.png"), &mask, NULL), 0);
    free(ids);
}

static void mask_of_another_size(void **state)
{
    write_mask(state, 31, 32, 0);
}
static void unknown_label(void **state)
{
    write_mask(state, 32, 32, 77);
}

/* A header that promises 60000 x 60000 pixels; the CRC is right. */
static void bomb(void **state)
{
    static const unsigned char png[] = { 0x89, 'P',  'N', 'G', 13,  10, 26, 10,   0,    0,    0,
                                         13,   'I',  'H', 'D', 'R', 0,  0,  0xea, 0x60, 0,    0,
                                         0xea, 0x60, 8,   2,   0,   0,  0,  0x0f, 0xb0, 0xe2, 0x15 };
    unit_write(unit_path(state, "images/s7.png"), png, sizeof png);
}

static const struct damage {
    const char *name;
    void (*make)(void **state);
    const char *file, *reason;
    int while_running; /* after the loader has seen the folder */
} damages[] = {
    { "truncated", truncate_image, "images/s7.png", NULL, 0 },
    { "zero bytes", empty_image, "images/s7.png", "empty file", 0 },
    { "wrong type", wrong_type, "images/s7.png", NULL, 0 },
    { "decompression bomb", bomb, "images/s7.png", NULL, 0 },
    { "vanished image", vanish, "images/s7.png", "No such file", 1 },
    { "vanished mask", vanish_mask, "masks/s7.png", "No such file", 1 },
    { "folder in its place", folder_instead, "images/s7.png", "not a regular file", 1 },
    { "mask of another size", mask_of_another_size, "masks/s7.png",
      "the mask is 32x31 (height x width), its image", 0 },
    { "unknown label", unknown_label, "masks/s7.png", "value 77 at (x 3, y 1)", 0 },
};

/* Damage before the run, or between opening the set and the first read. */
static run_result run_damaged(void **state, const stoke_data_params *params, const struct damage *damage)
{
    if (!damage->while_running) {
        damage->make(state);
        return run(params);
    }
    run_result result = { 0 };
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_bad_file bad;
    assert_int_equal(stoke_dataset_open(&dataset, params, NULL), 0);
    damage->make(state);
    assert_int_equal(stoke_loader_create(&loader, dataset, params, NULL, NULL), 0);
    result.batches = pairs_take(loader, result.digest, MOST, &result.status);
    stoke_loader_stats(loader, &result.stats);
    snprintf(result.message, sizeof result.message, "%s", stoke_loader_error(loader));
    if (stoke_loader_bad(loader, 0, &bad) == 0)
        snprintf(result.reason[0], sizeof result.reason[0], "%s", bad.reason);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    return result;
}

static void each_damage_is_replaced_and_named(void **state)
{
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        pairs_write(state, COUNT, 32, 32);
        stoke_data_params params = pairs_params(state);
        const run_result good = run(&params);
        assert_int_equal(good.batches, 10);
        const run_result bad = run_damaged(state, &params, &damages[i]);
        if (bad.status != STOKE_E_END) fail_msg("%s: %s", damages[i].name, bad.message);
        assert_int_equal(bad.batches, 10); /* unchanged */
        assert_int_equal(bad.stats.bad_samples, 1);
        assert_int_equal(bad.stats.replaced, 1);
        assert_int_equal(bad.stats.samples, COUNT);
        if (!strstr(bad.reason[0], damages[i].file) ||
            (damages[i].reason && !strstr(bad.reason[0], damages[i].reason)))
            fail_msg("%s: %s", damages[i].name, bad.reason[0]);
        size_t different = 0;
        for (size_t k = 0; k < 10; k++)
            different += memcmp(good.digest[k].digest, bad.digest[k].digest, 16) != 0;
        assert_int_equal(different, 1); /* only the batch of the bad sample */
        const char *path = unit_path(state, "images/s7.png");
        if (rmdir(path)) unlink(path);
    }
}

static void replacement_does_not_depend_on_threads(void **state)
{
    pairs_write(state, COUNT, 32, 32);
    truncate_image(state);
    unlink(unit_path(state, "masks/s11.png"));
    write_mask(state, 32, 32, 0);
    assert_int_equal(truncate(unit_path(state, "images/s13.png"), 0), 0);
    stoke_data_params params = pairs_params(state);
    params.max_bad = "5";
    params.workers = 0;
    const run_result reference = run(&params);
    for (int workers = 1; workers <= 7; workers += 3) {
        params.workers = workers;
        const run_result other = run(&params);
        assert_int_equal(other.batches, reference.batches);
        for (size_t i = 0; i < other.batches; i++)
            assert_memory_equal(other.digest[i].digest, reference.digest[i].digest, 16);
    }
}

static void skip_leaves_the_row_out(void **state)
{
    pairs_write(state, COUNT, 32, 32);
    truncate_image(state);
    stoke_data_params params = pairs_params(state);
    params.policy = STOKE_POLICY_SKIP;
    const run_result r = run(&params);
    assert_int_equal(r.status, STOKE_E_END);
    assert_int_equal(r.batches, 10);
    assert_int_equal(r.stats.skipped, 1);
    assert_int_equal(r.stats.samples, COUNT - 1);
    size_t rows = 0, shorter = 0;
    for (size_t i = 0; i < 10; i++) rows += r.digest[i].count, shorter += r.digest[i].count == 3;
    assert_int_equal(rows, COUNT - 1);
    assert_int_equal(shorter, 1);
    params.batch = 1; /* a batch of which nothing is left is passed over */
    const run_result single = run(&params);
    assert_int_equal(single.status, STOKE_E_END);
    assert_int_equal(single.batches, COUNT - 1);
}

static void stop_names_the_file(void **state)
{
    pairs_write(state, COUNT, 32, 32);
    truncate_image(state);
    stoke_data_params params = pairs_params(state);
    params.policy = STOKE_POLICY_STOP;
    params.order = STOKE_ORDER_SEQUENTIAL;
    const run_result r = run(&params);
    assert_int_equal(r.status, STOKE_E_FORMAT);
    assert_int_equal(r.batches, 1); /* samples 0..3; number 7 is in the second batch */
    assert_non_null(strstr(r.message, "images/s7.png: "));
}

static void the_fuse_blows_with_a_list(void **state)
{
    pairs_write(state, COUNT, 32, 32);
    for (int i = 1; i < COUNT; i += 3) {
        char name[32];
        snprintf(name, sizeof name, "images/s%d.png", i);
        assert_int_equal(truncate(unit_path(state, name), 0), 0);
    }
    stoke_data_params params = pairs_params(state);
    params.workers = 0;
    const run_result r = run(&params);
    assert_int_equal(r.status, STOKE_E_TOO_BAD);
    assert_non_null(strstr(r.message, " of 40 samples are bad, more than max_bad allows (1):"));
    assert_non_null(strstr(r.message, ".png: empty file"));
    params.max_bad = "50%";
    assert_int_equal(run(&params).status, STOKE_E_END);
}

/* Sample 2 is bad, but it takes long to find out; number 5 is bad at once. With several workers number 5 is
 * met first: the run must still end at its batch, with the same words, not at number 2's. */
static void the_fuse_blows_at_the_same_batch_for_any_workers(void **state)
{
    enum { SIDE = 1500 };
    pairs_write(state, 12, 32, 32);
    pairs_write_one(state, 2, "png", SIDE, SIDE);
    uint8_t *ids = calloc(SIDE, SIDE);
    assert_non_null(ids);
    ids[SIDE * SIDE - 1] = PAIRS_CLASSES;
    const stoke_image mask = { ids, SIDE, SIDE, SIDE, 1, 1 };
    assert_int_equal(stoke_image_write_png(unit_path(state, "masks/s2.png"), &mask, NULL), 0);
    free(ids);
    assert_int_equal(truncate(unit_path(state, "images/s5.png"), 0), 0);
    stoke_data_params params = pairs_params(state);
    params.order = STOKE_ORDER_SEQUENTIAL;
    params.batch = 1;
    params.prefetch = 8;
    params.max_bad = "1";
    params.workers = 0;
    const run_result alone = run(&params);
    assert_int_equal(alone.status, STOKE_E_TOO_BAD);
    assert_int_equal(alone.batches, 5);
    for (params.workers = 1; params.workers < 5; params.workers++) {
        const run_result r = run(&params);
        assert_int_equal(r.status, STOKE_E_TOO_BAD);
        assert_int_equal(r.batches, 5);
        assert_string_equal(r.message, alone.message);
    }
}

static void a_failed_loader_works_again_after_set_epoch(void **state)
{
    pairs_write(state, COUNT, 32, 32);
    truncate_image(state);
    stoke_data_params params = pairs_params(state);
    params.policy = STOKE_POLICY_STOP;
    stoke_dataset *dataset;
    stoke_loader *loader;
    pairs_digest digest[MOST];
    int status;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    pairs_take(loader, digest, MOST, &status);
    assert_int_equal(status, STOKE_E_FORMAT);
    pairs_take(loader, digest, MOST, &status);
    assert_int_equal(status, STOKE_E_FORMAT); /* stays failed */
    pairs_write_one(state, 7, "png", 32, 32); /* mended */
    stoke_loader_set_epoch(loader, 0);
    assert_int_equal(pairs_take(loader, digest, MOST, &status), 10);
    assert_int_equal(status, STOKE_E_END);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

static void quarantine_has_one_line_per_sample(void **state)
{
    pairs_write(state, COUNT, 32, 32);
    truncate_image(state);
    stoke_data_params params = pairs_params(state);
    params.quarantine = unit_path(state, "quarantine.jsonl");
    stoke_dataset *dataset;
    stoke_loader *loader;
    pairs_digest digest[MOST];
    int status;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        stoke_loader_set_epoch(loader, epoch);
        pairs_take(loader, digest, MOST, &status);
    }
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    char line[4096];
    FILE *f = fopen(unit_path(state, "quarantine.jsonl"), "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_non_null(strstr(line, "images/s7.png"));
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
}

UNIT_GROUP(loader_faults)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(each_damage_is_replaced_and_named),
        unit_test_with_folder(replacement_does_not_depend_on_threads),
        unit_test_with_folder(skip_leaves_the_row_out),
        unit_test_with_folder(stop_names_the_file),
        unit_test_with_folder(the_fuse_blows_with_a_list),
        unit_test_with_folder(the_fuse_blows_at_the_same_batch_for_any_workers),
        unit_test_with_folder(a_failed_loader_works_again_after_set_epoch),
        unit_test_with_folder(quarantine_has_one_line_per_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
