/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader with a cache: what it does not read any more, what memory it takes, what it says.
 * (That the bytes are the same in every state of the cache is shown by tests/cli/test_cache.py, too.)
 */
#include "tests/unit/fixture_pairs.h"

#include <fcntl.h>
#include <glob.h>
#include <stoke/tools/loader.h>

#include "src/base/mem.h"
#include "src/cache/entry.h"

enum { MOST = 64, PAIRS = 13 };

typedef struct run {
    stoke_dataset *dataset;
    stoke_loader *loader;
} run;

static run start(const stoke_data_params *params)
{
    run r;
    stoke_error err = { 0 };
    if (stoke_dataset_open(&r.dataset, params, &err)) fail_msg("%s", err.message);
    if (stoke_loader_create(&r.loader, r.dataset, params, NULL, &err)) fail_msg("%s", err.message);
    return r;
}

static void stop(run *r)
{
    stoke_loader_destroy(&r->loader);
    stoke_dataset_close(&r->dataset);
}

static size_t take(run *r, uint64_t epoch, pairs_digest *out)
{
    int status;
    assert_int_equal(stoke_loader_set_epoch(r->loader, epoch), 0);
    const size_t n = pairs_take(r->loader, out, MOST, &status);
    if (status != STOKE_E_END) fail_msg("%s", stoke_loader_error(r->loader));
    return n;
}

static void assert_same(const pairs_digest *a, const pairs_digest *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(a[i].position, b[i].position);
        assert_int_equal(a[i].count, b[i].count);
        assert_memory_equal(a[i].digest, b[i].digest, sizeof a[i].digest);
    }
}

static stoke_loader_stats_data stats_of(const run *r)
{
    stoke_loader_stats_data stats;
    stoke_loader_stats(r->loader, &stats);
    return stats;
}

/* A hit costs two stat calls and the entry: the source files are not opened. */
static void warm_runs_read_no_source(void **state)
{
    pairs_digest plain[MOST], cold[MOST], warm[MOST];
    pairs_write(state, PAIRS, 48, 40);
    usleep(3100000); /* younger files are read every time */
    stoke_data_params params = pairs_params(state);
    params.workers = 0; /* reads nothing ahead: counts are exact */
    const size_t n = pairs_epoch(&params, plain, MOST);
    char cache[4096];
    snprintf(cache, sizeof cache, "%s", unit_path(state, "cache"));
    params.cache = cache;
    run r = start(&params);
    assert_int_equal(take(&r, 0, cold), n);
    stoke_loader_stats_data stats = stats_of(&r);
    assert_int_equal(stats.cache_misses, PAIRS);
    assert_int_equal(stats.cache_stored, PAIRS);
    assert_true(stats.bytes_read > 0 && stats.cache_disk_bytes > PAIRS * 32 * 32 * 3);
    assert_int_equal(take(&r, 0, warm), n);
    assert_int_equal(stats_of(&r).cache_hits_disk, PAIRS);
    assert_int_equal(stats_of(&r).bytes_read, stats.bytes_read);
    stop(&r);
    assert_same(plain, cold, n);
    assert_same(plain, warm, n);
    /* A new process knows the files from the memo. */
    r = start(&params);
    assert_int_equal(take(&r, 0, warm), n);
    assert_int_equal(stats_of(&r).bytes_read, 0);
    assert_int_equal(stats_of(&r).cache_misses, 0);
    assert_int_equal(stats_of(&r).stage[STOKE_STAGE_READ].count, PAIRS);
    assert_int_equal(stats_of(&r).stage[STOKE_STAGE_DECODE_IMAGE].count, 0);
    assert_same(plain, warm, n);
    assert_null(stoke_loader_warning(r.loader));
    stop(&r);
}

/* Under a crop of the source or none, in memory or on disk, nothing is allocated once all samples are known.
 */
static void steady_state_allocates_nothing(void **state)
{
    pairs_digest digest[MOST];
    char cache[4096];
    pairs_write(state, PAIRS, 48, 40);
    snprintf(cache, sizeof cache, "%s", unit_path(state, "cache"));
    for (int kind = 0; kind < 4; kind++) {
        stoke_data_params params = pairs_params(state);
        params.augment = kind & 1 ? "crop" : "none";
        params.cache = kind & 2 ? cache : "";
        params.cache_ram = kind & 2 ? 0 : 1 << 20;
        params.workers = 0;
        run r = start(&params);
        for (uint64_t epoch = 0; epoch < 3; epoch++) take(&r, epoch, digest);
        const uint64_t before = stats_of(&r).heap_allocations;
        take(&r, 3, digest);
        assert_int_equal(stats_of(&r).heap_allocations, before);
        assert_true(stats_of(&r).cache_hits_ram + stats_of(&r).cache_hits_disk >= 2 * PAIRS);
        stop(&r);
    }
}

static void memory_is_planned(void **state)
{
    pairs_digest digest[MOST];
    pairs_write(state, PAIRS, 48, 40);
    stoke_data_params params = pairs_params(state);
    params.augment = "crop";
    run r = start(&params);
    const stoke_memory_plan bare = stoke_loader_memory(r.loader);
    stop(&r);
    assert_int_equal(bare.cache_bytes, 0);
    params.cache_ram = 50000;
    r = start(&params);
    const stoke_memory_plan plan = stoke_loader_memory(r.loader);
    assert_true(plan.cache_bytes >= 50000 && plan.worker_bytes > bare.worker_bytes);
    assert_int_equal(plan.total_bytes, plan.slots * plan.slot_bytes + plan.workers * plan.worker_bytes +
                                           plan.cache_bytes + plan.fixed_bytes);
    char text[256];
    stoke_memory_plan_text(&plan, text, sizeof text);
    assert_non_null(strstr(text, "iB + cache 0.1 MiB + process "));
    for (uint64_t epoch = 0; epoch < 2; epoch++) take(&r, epoch, digest);
    assert_true(stats_of(&r).cache_ram_bytes <= 50000);
    assert_true(stats_of(&r).memory_bytes <= plan.total_bytes - plan.fixed_bytes);
    stop(&r);
    /* Counted against memory_limit like everything else. */
    stoke_error err = { 0 };
    params.cache_ram = UINT64_C(1) << 40;
    params.memory_limit = UINT64_C(1) << 30;
    assert_int_equal(stoke_dataset_open(&r.dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&r.loader, r.dataset, &params, NULL, &err), STOKE_E_LIMIT);
    assert_non_null(strstr(err.message, "cache_ram"));
    stoke_dataset_close(&r.dataset);
}

/* A picture that the plan did not see does not pass memory_limit by way of the cache either. */
static void a_limit_holds_for_entries(void **state)
{
    char cache[4096];
    pairs_digest digest[MOST], limited[MOST];
    snprintf(cache, sizeof cache, "%s", unit_path(state, "cache"));
    pairs_write(state, 3, 48, 40);
    pairs_write_one(state, 3, "png", 900, 700);
    stoke_data_params params = pairs_params(state);
    params.augment = "crop";
    params.cache = cache;
    const size_t n = pairs_epoch(&params, digest, MOST);
    run r = start(&params);
    params.memory_limit = stoke_loader_memory(r.loader).total_bytes + (16 << 20);
    stop(&r);
    r = start(&params);
    const stoke_memory_plan plan = stoke_loader_memory(r.loader);
    assert_int_equal(take(&r, 0, limited), n);
    assert_true(stats_of(&r).memory_bytes <= plan.total_bytes - plan.fixed_bytes);
    assert_same(digest, limited, n);
    stop(&r);
}

/* Entries of one size behind the keys of another, their checksums good: out of bounds if they were believed.
 */
static void forged_entries_are_made_again(void **state)
{
    char cache[4096], command[8300];
    pairs_digest wanted[MOST], got[MOST];
    pairs_write(state, PAIRS, 48, 40);
    snprintf(cache, sizeof cache, "%s", unit_path(state, "cache"));
    for (int crops = 0; crops < 2; crops++) {
        stoke_data_params params = pairs_params(state);
        params.augment = crops ? "crop" : "hflip";
        const size_t n = pairs_epoch(&params, wanted, MOST);
        params.cache = cache;
        pairs_epoch(&params, got, MOST);
        snprintf(command, sizeof command, "find '%s' -name '*.stk' > '%s.list'", cache, cache);
        assert_int_equal(system(command), 0);
        snprintf(command, sizeof command, "%s.list", cache);
        FILE *list = fopen(command, "r");
        for (char path[4096]; fgets(path, sizeof path, list);) {
            path[strcspn(path, "\n")] = 0;
            uint8_t bytes[sizeof(stk_entry_header) + 5 * 4 * 3] = { 0 };
            stk_entry_header header;
            FILE *f = fopen(path, "r+b");
            assert_int_equal(fread(&header, sizeof header, 1, f), 1);
            const stk_cache_hit small = { .image = { bytes, 15, 5, 4, 3, 1 },
                                          .source_width = 48,
                                          .source_height = 40 };
            header = stk_entry_describe((stk_cache_key){ { header.key[0], header.key[1] } }, &small,
                                        bytes + sizeof header, NULL, 0);
            memcpy(bytes, &header, sizeof header);
            fclose(f);
            unit_write(path, bytes, sizeof bytes);
        }
        fclose(list);
        params.workers = 0;
        run r = start(&params);
        assert_int_equal(take(&r, 0, got), n);
        assert_same(wanted, got, n);
        assert_int_equal(stats_of(&r).cache_damaged, PAIRS);
        assert_int_equal(take(&r, 0, got), n);
        assert_same(wanted, got, n);
        assert_int_equal(stats_of(&r).cache_damaged, PAIRS); /* healed */
        stop(&r);
    }
}

static void every_allocation_may_fail(void **state)
{
    char cache[4096];
    pairs_digest wanted[MOST], got[MOST];
    pairs_write(state, 4, 48, 40);
    snprintf(cache, sizeof cache, "%s", unit_path(state, "cache"));
    stoke_data_params params = pairs_params(state);
    params.workers = 0;
    const size_t n = pairs_epoch(&params, wanted, MOST);
    params.cache = cache;
    params.cache_ram = 1 << 20;
    stoke_dataset *dataset;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    int finished = 0;
    for (int64_t after = 0; after < 400 && !finished; after++) {
        stoke_loader *loader = NULL;
        int status = STOKE_E_NOMEM;
        stk_mem_fail_after(after);
        if (!stoke_loader_create(&loader, dataset, &params, NULL, NULL)) {
            const size_t taken = pairs_take(loader, got, MOST, &status);
            finished = status == STOKE_E_END;
            /* Want of memory in the cache is a miss, elsewhere it ends the run: never other bytes. */
            assert_same(got, wanted, taken);
            if (finished) assert_int_equal(taken, n);
        }
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_E_END || status == STOKE_E_NOMEM);
        stoke_loader_destroy(&loader);
    }
    assert_true(finished);
    stoke_dataset_close(&dataset);
}

/* ---- filling ahead ---- */

static int stop_at_three(void *context, uint64_t done, uint64_t total)
{
    return done >= 3;
}

static void filling(void **state)
{
    char cache[4096];
    stoke_dataset *dataset;
    stoke_cache_report report;
    stoke_error err = { 0 };
    pairs_write(state, PAIRS, 48, 40);
    unit_write(unit_path(state, "images/s4.png"), "no picture", 10);
    snprintf(cache, sizeof cache, "%s", unit_path(state, "cache"));
    stoke_data_params params = pairs_params(state);
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_cache_fill(dataset, &params, 2, NULL, NULL, &report, &err), STOKE_E_INVALID);
    params.cache = cache;
    assert_int_equal(stoke_cache_fill(dataset, &params, 2, NULL, NULL, &report, &err), 0);
    assert_int_equal(report.stored, PAIRS - 1);
    assert_int_equal(report.bad, 1);
    assert_int_equal(report.found + report.left_out, 0);
    assert_true(report.bytes > (PAIRS - 1) * 32 * 32 * 3 && report.seconds > 0 && !*report.warning);
    params.augment = "crop"; /* another thing to keep: and here a bad file is one too */
    assert_int_equal(stoke_cache_fill(dataset, &params, 2, NULL, NULL, &report, &err), 0);
    assert_int_equal(report.stored, PAIRS - 1);
    assert_int_equal(report.bad, 1);
    params.policy = STOKE_POLICY_STOP;
    assert_int_equal(stoke_cache_fill(dataset, &params, 2, NULL, NULL, &report, &err), STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "s4.png"));
    params.policy = STOKE_POLICY_SKIP;
    params.size[0] = 16;
    assert_int_equal(stoke_cache_fill(dataset, &params, 1, stop_at_three, NULL, &report, &err),
                     STOKE_E_CANCELLED);
    stoke_dataset_close(&dataset);
}

/* Removes every other entry; returns how many are left. */
static unsigned thin_out(const char *cache)
{
    glob_t found;
    char pattern[4200];
    snprintf(pattern, sizeof pattern, "%s/[0-9a-f]*/*.stk", cache);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i += 2) unlink(found.gl_pathv[i]);
    const unsigned left = (unsigned)(found.gl_pathc / 2);
    globfree(&found);
    return left;
}

/* A budget that is used up leaves out what is not there, and nothing else. */
static void filling_a_full_cache(void **state)
{
    char cache[4096];
    stoke_dataset *dataset;
    stoke_cache_report report;
    pairs_write(state, PAIRS, 48, 40);
    usleep(3100000); /* younger files are read every time */
    snprintf(cache, sizeof cache, "%s", unit_path(state, "cache"));
    stoke_data_params params = pairs_params(state);
    params.cache = cache;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_cache_fill(dataset, &params, 1, NULL, NULL, &report, NULL), 0);
    assert_int_equal(report.stored, PAIRS);
    const unsigned left = thin_out(cache);
    params.cache_disk = 1;
    assert_int_equal(stoke_cache_fill(dataset, &params, 1, NULL, NULL, &report, NULL), 0);
    assert_int_equal(report.found, left);
    assert_int_equal(report.left_out, PAIRS - left);
    stoke_dataset_close(&dataset);
}

/* With a crop, entries are as large as their sources: one that does not fit speaks for itself only. */
static void filling_with_sources_of_many_sizes(void **state)
{
    char cache[4096];
    stoke_dataset *dataset;
    stoke_cache_report report;
    pairs_write(state, PAIRS, 48, 40);
    pairs_write_one(state, 0, "jpg", 200, 200);
    snprintf(cache, sizeof cache, "%s", unit_path(state, "cache"));
    stoke_data_params params = pairs_params(state);
    params.cache = cache;
    params.augment = "crop";
    params.cache_disk = 100000; /* the large one alone has 120000 bytes, the others 48 * 40 * 4 at most */
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_cache_fill(dataset, &params, 1, NULL, NULL, &report, NULL), 0);
    assert_int_equal(report.left_out, 1);
    assert_int_equal(report.stored, PAIRS - 1);
    stoke_dataset_close(&dataset);
}

UNIT_GROUP(loader_cache)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(warm_runs_read_no_source),
        unit_test_with_folder(steady_state_allocates_nothing),
        unit_test_with_folder(memory_is_planned),
        unit_test_with_folder(a_limit_holds_for_entries),
        unit_test_with_folder(forged_entries_are_made_again),
        unit_test_with_folder(every_allocation_may_fail),
        unit_test_with_folder(filling),
        unit_test_with_folder(filling_a_full_cache),
        unit_test_with_folder(filling_with_sources_of_many_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
