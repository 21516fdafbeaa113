/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise (c): memory has a ceiling, known before the first batch.
 */
#include "tests/unit/pairs.h"

#include "src/base/mem.h"

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
    assert_non_null(strstr(text, "ring 3 x 0.1 MB + workers 2 x "));
    pairs_digest digest[MOST];
    int status;
    pairs_take(loader, digest, MOST, &status);
    stoke_loader_stats_data stats;
    stoke_loader_stats(loader, &stats);
    assert_true(stats.memory_bytes <= plan.total_bytes - plan.fixed_bytes);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
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
    assert_non_null(strstr(err.message, "memory_limit is 4.2 MB"));
    assert_non_null(strstr(err.message, "ring 2 x 6.8 MB"));
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

/* One that the plan could not know is refused before it is read, and ends the run: see stk_bench_gate. */
static void large_files_do_not_pass_the_limit(void **state)
{
    pairs_write(state, 6, 48, 32);
    stoke_data_params params = pairs_params(state);
    params.workers = 0; /* nothing is read before next */
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err = { 0 };
    pairs_digest digest[MOST];
    stoke_loader_stats_data stats;
    int status;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    params.memory_limit = stoke_loader_memory(loader).total_bytes + LARGE / 2;
    stoke_loader_destroy(&loader);
    if (stoke_loader_create(&loader, dataset, &params, NULL, &err)) fail_msg("%s", err.message);
    make_large(state, "images/s1.png");
    pairs_take(loader, digest, MOST, &status);
    assert_int_equal(status, STOKE_E_NOMEM);
    assert_non_null(strstr(stoke_loader_error(loader), "s1.png: needs 50.3 MB of a worker"));
    stoke_loader_stats(loader, &stats);
    assert_true(stats.memory_bytes < LARGE);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* Allocation failing at every single point of creation and reading: an error each time, never a crash or
 * leak. */
static void every_allocation_may_fail(void **state)
{
    pairs_write(state, 5, 48, 32);
    stoke_data_params params = pairs_params(state);
    params.workers = 0;
    int finished = 0;
    for (int64_t after = 0; !finished && after < 2000; after++) {
        stoke_dataset *dataset = NULL;
        stoke_loader *loader = NULL;
        stoke_error err = { 0 };
        pairs_digest digest[MOST];
        int status = 0;
        stk_mem_fail_after(after);
        int r = stoke_dataset_open(&dataset, &params, &err);
        if (!r) r = stoke_loader_create(&loader, dataset, &params, NULL, &err);
        if (!r) pairs_take(loader, digest, MOST, &status);
        stk_mem_fail_after(-1);
        finished = !r && status == STOKE_E_END;
        if (!finished && r && r != STOKE_E_NOMEM) fail_msg("after %d: %d %s", (int)after, r, err.message);
        if (!finished && !r && status != STOKE_E_NOMEM)
            fail_msg("after %d: %d %s", (int)after, status, stoke_loader_error(loader));
        stoke_loader_destroy(&loader);
        stoke_dataset_close(&dataset);
    }
    assert_true(finished);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(the_plan_adds_up),
        unit_test_with_folder(a_limit_shrinks_prefetch_then_refuses),
        unit_test_with_folder(large_bad_files_are_planned),
        unit_test_with_folder(large_files_do_not_pass_the_limit),
        unit_test_with_folder(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("memory_plan", tests, NULL, NULL);
}
