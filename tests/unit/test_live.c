/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a job: whole copies while it is written, files that are none, jobs that are gone.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <stoke/tools/diagnose.h>
#include <stoke/tools/upload.h>

#include "src/base/mem.h"
#include "src/loader/live_page.h"
#include "tests/unit/fixture_upload.h"

/* Every word of the page follows from one number. */
static stoke_live_data made_of(uint64_t number)
{
    stoke_live_data data;
    uint64_t words[sizeof data / 8];
    for (size_t i = 0; i < sizeof data / 8; i++) words[i] = number * 2654435761u + i;
    memcpy(&data, words, sizeof data);
    data.samples = number;
    data.peak_rss = 0; /* the page's own */
    return data;
}

/* Of the fields that the writer takes from its caller. */
static int is_whole(const stoke_live_data *data)
{
    stoke_live_data wanted = made_of(data->samples);
    wanted.peak_rss = data->peak_rss;
    const size_t from = offsetof(stoke_live_data, step);
    return data->phase == wanted.phase &&
           !memcmp((const char *)data + from, (const char *)&wanted + from, sizeof wanted - from);
}

static stoke_live *create(const char *path)
{
    stoke_live *live = NULL;
    stoke_error err = { 0 };
    if (stoke_live_create(&live, path, "test", &err)) fail_msg("%s", err.message);
    return live;
}

static stoke_live_reader *look_at(const char *path)
{
    stoke_live_reader *onlooker = NULL;
    stoke_error err = { 0 };
    if (stoke_live_reader_open(&onlooker, path, &err)) fail_msg("%s", err.message);
    return onlooker;
}

/* ---- one writer, one reader ---- */

static void what_is_written_is_read(void **state)
{
    const char *path = unit_path(state, "live");
    stoke_live *live = create(path);
    stoke_live_reader *onlooker = look_at(unit_folder(state)); /* a folder stands for the page in it */
    stoke_live_data data;
    int alive = 7;
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0);
    assert_int_equal(alive, 1);
    assert_int_equal(data.pid, getpid());
    assert_int_equal(data.phase, STOKE_LIVE_STARTING);
    assert_string_equal(data.what, "test");
    assert_true(data.step == STOKE_LIVE_NA && data.bytes_read == STOKE_LIVE_NA && isnan(data.loss));
    const uint64_t start = data.start_ns;
    const stoke_live_data written = made_of(42);
    stoke_live_write(live, &written);
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0);
    assert_true(is_whole(&data));
    assert_int_equal(data.samples, 42);
    /* What is the page's own is not the caller's. */
    assert_int_equal(data.pid, getpid());
    assert_string_equal(data.what, "test");
    assert_true(data.start_ns == start && data.now_ns >= start);
    assert_true(data.peak_rss > 1 << 20 && data.peak_rss != STOKE_LIVE_NA);
    stoke_live_close(&live);
    assert_null(live);
    stoke_live_close(&live);
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0);
    assert_int_equal(data.phase, STOKE_LIVE_ENDED);
    assert_int_equal(data.samples, 42);
    stoke_live_reader_close(&onlooker);
    stoke_live_reader_close(&onlooker);
}

static void a_new_page_takes_the_place_of_the_old(void **state)
{
    const char *path = unit_path(state, "live");
    stoke_live *first = create(path);
    stoke_live_close(&first);
    stoke_live_reader *old = look_at(path);
    stoke_live *second = create(path);
    stoke_live_reader *new = look_at(path);
    stoke_live_data data;
    int alive;
    assert_int_equal(stoke_live_reader_read(old, &data, &alive, NULL), 0);
    assert_int_equal(data.phase, STOKE_LIVE_ENDED);
    assert_int_equal(stoke_live_reader_read(new, &data, &alive, NULL), 0);
    assert_int_equal(data.phase, STOKE_LIVE_STARTING);
    stoke_live_close(&second);
    stoke_live_reader_close(&old);
    stoke_live_reader_close(&new);
}

/* ---- many of them at once ---- */

typedef struct crowd {
    const char *path;
    atomic_int stop, torn, failed;
} crowd;

static void *watch(void *argument)
{
    crowd *all = argument;
    stoke_live_reader *onlooker = NULL;
    uint64_t last = 0;
    if (stoke_live_reader_open(&onlooker, all->path, NULL)) {
        all->failed = 1;
        return NULL;
    }
    while (!all->stop) {
        stoke_live_data data;
        int alive;
        if (stoke_live_reader_read(onlooker, &data, &alive, NULL) || !alive) all->failed = 1;
        if (data.samples == STOKE_LIVE_NA) continue; /* not yet */
        if (!is_whole(&data) || data.samples < last) all->torn = 1;
        last = data.samples;
    }
    stoke_live_reader_close(&onlooker);
    return NULL;
}

static void no_copy_is_torn(void **state)
{
    enum { READERS = 2, WRITES = 20000 };
    crowd all = { .path = unit_path(state, "live") };
    stoke_live *live = create(all.path);
    pthread_t reader[READERS];
    for (int i = 0; i < READERS; i++) assert_int_equal(pthread_create(&reader[i], NULL, watch, &all), 0);
    for (uint64_t i = 1; i <= WRITES; i++) {
        const stoke_live_data data = made_of(i);
        stoke_live_write(live, &data);
    }
    all.stop = 1;
    for (int i = 0; i < READERS; i++) pthread_join(reader[i], NULL);
    stoke_live_close(&live);
    assert_false(all.torn);
    assert_false(all.failed);
}

/* ---- files that are anything ---- */

typedef struct bad_page {
    stk_live_page page;
    size_t bytes;
} bad_page;

static void refused(void **state, const bad_page *bad, int code, const char *told)
{
    const char *path = unit_path(state, "bad");
    stoke_live_reader *onlooker = (stoke_live_reader *)1;
    stoke_error err = { 0 };
    unit_write(path, bad->page.room, bad->bytes);
    assert_int_equal(stoke_live_reader_open(&onlooker, path, &err), code);
    assert_null(onlooker);
    if (!strstr(err.message, told) || !strstr(err.message, path)) fail_msg("said: %s", err.message);
}

static bad_page good_page(void **state)
{
    bad_page page = { .bytes = STK_LIVE_PAGE };
    const char *path = unit_path(state, "good");
    stoke_live *live = create(path);
    FILE *file = fopen(path, "rb");
    assert_int_equal(fread(&page.page, 1, STK_LIVE_PAGE, file), STK_LIVE_PAGE);
    fclose(file);
    stoke_live_close(&live);
    return page;
}

static void seal(bad_page *bad)
{
    bad->page.content.checksum = stk_live_checksum(&bad->page);
}

static void hostile_files(void **state)
{
    const bad_page good = good_page(state);
    bad_page bad = good;
    refused(state, &(bad_page){ .bytes = 0 }, STOKE_E_FORMAT, "not a page");
    for (bad.bytes = 1; bad.bytes < offsetof(stk_live_content, data); bad.bytes += 7)
        refused(state, &bad, STOKE_E_FORMAT, "not a page");
    bad.bytes = offsetof(stk_live_content, data) + 8; /* cut off in its figures */
    refused(state, &bad, STOKE_E_FORMAT, "damaged");
    bad = good;
    bad.page.content.magic ^= 1;
    refused(state, &bad, STOKE_E_FORMAT, "not a page");
    bad = good;
    bad.page.content.version = STOKE_LIVE_VERSION + 1;
    seal(&bad);
    refused(state, &bad, STOKE_E_UNSUPPORTED, "watch it with the stoke that runs the job");
    static const uint64_t sizes[] = { UINT64_MAX, UINT64_MAX - 7, sizeof(stoke_live_data) + 8, 4097, 12 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bad = good;
        bad.page.content.bytes = sizes[i];
        refused(state, &bad, STOKE_E_FORMAT, "damaged");
    }
    bad = good;
    bad.page.content.data.step ^= 1; /* written by half */
    refused(state, &bad, STOKE_E_STATE, "died while writing");
}

static void no_file_at_all(void **state)
{
    stoke_live_reader *onlooker = NULL;
    stoke_error err = { 0 };
    assert_int_equal(stoke_live_reader_open(&onlooker, unit_folder(state), &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "/live: "));
    assert_non_null(strstr(err.message, "stoke train"));
    assert_int_equal(stoke_live_reader_open(&onlooker, unit_path(state, "no/where"), &err), STOKE_E_NOTFOUND);
    const char *pipe = unit_path(state, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(stoke_live_reader_open(&onlooker, pipe, &err), STOKE_E_FORMAT); /* and does not wait */
    stoke_live *live = (stoke_live *)1;
    assert_int_equal(stoke_live_create(&live, unit_path(state, "no/where"), "x", &err), STOKE_E_IO);
    assert_null(live);
    assert_int_equal(stoke_live_create(&live, pipe, "x", &err), STOKE_E_IO);
    unit_write(unit_path(state, "notes"), "mine, all mine", 14); /* a file that is no page stays */
    assert_int_equal(stoke_live_create(&live, unit_path(state, "notes"), "x", &err), STOKE_E_STATE);
    struct stat st;
    assert_int_equal(stat(unit_path(state, "notes"), &st), 0);
    assert_int_equal(st.st_size, 14);
}

static void an_older_page_lacks_what_is_new(void **state)
{
    bad_page old = good_page(state);
    stoke_live_data *data = &old.page.content.data;
    old.page.content.version = 0;
    old.page.content.bytes = offsetof(stoke_live_data, samples);
    memset(data->what, 0x1b, sizeof data->what); /* not even ended */
    data->step = 5;
    data->samples = 77; /* beyond its end */
    seal(&old);
    const char *path = unit_path(state, "old");
    unit_write(path, old.page.room, old.bytes);
    stoke_live_reader *onlooker = look_at(path);
    stoke_live_data got;
    int alive;
    assert_int_equal(stoke_live_reader_read(onlooker, &got, &alive, NULL), 0);
    assert_int_equal(got.step, 5);
    assert_true(got.samples == STOKE_LIVE_NA && isnan(got.loss));
    assert_int_equal(strlen(got.what), sizeof got.what - 1);
    stoke_live_reader_close(&onlooker);
}

/* Whatever becomes of the file, neither side is hurt. */
static void cut_short_while_open(void **state)
{
    const char *path = unit_path(state, "live");
    stoke_live *live = create(path);
    stoke_live_reader *onlooker = look_at(path);
    stoke_live_data data = made_of(3);
    int alive;
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), STOKE_E_FORMAT);
    stoke_live_write(live, &(stoke_live_data){ .samples = 3 });
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0); /* mended */
    assert_int_equal(data.samples, 3);
    assert_int_equal(truncate(path, 1ll << 40), 0); /* a terabyte of nothing */
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0);
    assert_int_equal(unlink(path), 0);
    stoke_live_write(live, &(stoke_live_data){ .samples = 4 });
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0);
    assert_int_equal(data.samples, 4);
    stoke_live_close(&live);
    stoke_live_reader_close(&onlooker);
}

static void a_disk_that_is_full(void **state)
{
    const char *path = unit_path(state, "live");
    stoke_live *live = create(path), *second = NULL;
    stoke_error err = { 0 };
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit small = { .rlim_cur = 100, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int r = stoke_live_create(&second, unit_path(state, "second"), "x", &err);
    assert_int_equal(truncate(path, 0), 0);
    stoke_live_write(live, &(stoke_live_data){ .samples = 3 });
    stoke_live_close(&live);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(r, STOKE_E_IO);
    assert_null(second);
    assert_int_equal(access(unit_path(state, "second"), F_OK), -1);
}

/* ---- whose it is ---- */

/* A child that makes a page and waits to be killed. */
static pid_t start_job(const char *path)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (!child) {
        stoke_live *live = NULL;
        if (stoke_live_create(&live, path, "child", NULL) || write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void a_job_that_is_killed(void **state)
{
    const char *path = unit_path(state, "live");
    const pid_t child = start_job(path);
    stoke_live_reader *onlooker = look_at(path);
    stoke_live_data data;
    int alive = 0;
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0);
    assert_int_equal(data.pid, child);
    assert_int_equal(alive, 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0); /* a zombie is no job */
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0);
    assert_int_equal(alive, 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0);
    assert_int_equal(alive, 0);
    assert_int_equal(data.phase, STOKE_LIVE_STARTING); /* it did not say so */
    stoke_live_reader_close(&onlooker);
}

static int alive_of(void **state, bad_page *page)
{
    const char *path = unit_path(state, "made");
    stoke_live_data data;
    int alive = 7;
    seal(page);
    unit_write(path, page->page.room, page->bytes);
    stoke_live_reader *onlooker = look_at(path);
    assert_int_equal(stoke_live_reader_read(onlooker, &data, &alive, NULL), 0);
    stoke_live_reader_close(&onlooker);
    return alive;
}

static void a_number_that_is_anothers(void **state)
{
    const bad_page good = good_page(state);
    bad_page page = good;
    assert_true(page.page.content.born > 0);
    assert_int_equal(alive_of(state, &page), 1);
    page.page.content.born++; /* our number, and a process that began at another time */
    assert_int_equal(alive_of(state, &page), 0);
    page = good;
    page.page.content.place ^= 1; /* of another boot or container */
    assert_int_equal(alive_of(state, &page), -1);
    static const uint64_t numbers[] = { 0, UINT64_MAX, 1ull << 31, (1ull << 32) + 1 };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) { /* groups and everybody, to kill() */
        page = good;
        page.page.content.data.pid = numbers[i];
        assert_int_equal(alive_of(state, &page), 0);
    }
}

/* ---- counters and rates ---- */

static void counters_of_a_loader(void **state)
{
    pairs_write(state, 8, 33, 17);
    stoke_data_params params = pairs_params(state);
    params.batch = 2;
    params.prefetch = 2;
    params.workers = 1;
    stoke_dataset *dataset = NULL;
    stoke_loader *loader = NULL;
    const stoke_batch *batch = NULL;
    stoke_error err = { 0 };
    if (stoke_dataset_open(&dataset, &params, &err)) fail_msg("%s", err.message);
    if (stoke_loader_create(&loader, dataset, &params, NULL, &err)) fail_msg("%s", err.message);
    stoke_live_data data = stoke_live_defaults();
    /* The worker fills the ring and rests: all slots are ready, in order. */
    do stoke_live_take(&data, loader);
    while (data.ready < data.slots);
    assert_int_equal(data.slots, 3);
    assert_int_equal(data.samples, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stoke_loader_next(loader, &batch), 0);
        stoke_live_take(&data, loader);
        assert_true(data.ready < data.slots); /* one is ours */
        stoke_batch_release(loader, &batch);
    }
    assert_int_equal(data.samples, 4);
    assert_int_equal(data.batches, 2);
    assert_int_equal(data.workers, 1);
    assert_true(data.bytes_read > 0 && data.stage_count[STOKE_STAGE_READ] >= 4);
    assert_true(data.stage_wall_ns[STOKE_STAGE_DECODE_IMAGE] > 0);
    assert_true(data.cache_hits == STOKE_LIVE_NA && data.cache_misses == STOKE_LIVE_NA); /* it has none */
    assert_true(data.step == STOKE_LIVE_NA && data.step_ns == STOKE_LIVE_NA && isnan(data.loss));
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

static void counters_of_a_feed(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("sim");
    stoke_upload *upload = NULL;
    const stoke_device_batch *batch = NULL;
    stoke_error err = { 0 };
    stoke_live_data data = stoke_live_defaults();
    if (stoke_upload_create(&upload, f.dataset, &f.data, device, NULL, &err)) fail_msg("%s", err.message);
    stoke_upload_mark(upload);
    stoke_live_take_upload(&data, upload);
    assert_true(isnan(data.device_busy)); /* no step yet */
    for (int i = 0; i < BATCHES; i++) {
        assert_int_equal(stoke_upload_next(upload, &batch), 0);
        assert_int_equal(stoke_fake_step(upload, 1, NULL), 0);
        stoke_upload_release(upload, &batch);
    }
    assert_int_equal(stoke_upload_finish(upload, NULL), 0);
    stoke_live_take_upload(&data, upload);
    assert_true(data.batches >= BATCHES && data.samples >= SAMPLES); /* some are on their way */
    assert_true(data.slots > stoke_upload_memory_plan(upload)->slots && data.ready <= data.slots);
    assert_true(data.device_busy > 0 && data.device_busy <= 1);
    assert_true(data.data_wait_ns == STOKE_LIVE_NA);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    feeding_end(&f);
}

#define assert_near(value, wanted) assert_true(fabs((value) - (wanted)) < 1e-9)

static void rates_between_looks(void **state)
{
    (void)state;
    stoke_live_data a = stoke_live_defaults(), b;
    stoke_live_rates rates;
    a.start_ns = 1000000000, a.now_ns = 3000000000;
    a.step = 10, a.samples = 100, a.bytes_read = 5000;
    a.data_wait_ns = 100, a.step_ns = 300;
    a.cache_hits = 5, a.cache_misses = 5;
    a.stage_cpu_ns[STOKE_STAGE_FIT] = 200000000;
    b = a;
    b.now_ns += 500000000;
    b.step += 2, b.samples += 40, b.bytes_read += 1000;
    b.data_wait_ns += 10, b.step_ns += 30;
    b.cache_hits += 3, b.cache_misses += 1;
    b.stage_cpu_ns[STOKE_STAGE_FIT] += 80000000;
    stoke_live_between(&a, &b, &rates);
    assert_near(rates.seconds, 0.5);
    assert_near(rates.steps_s, 4);
    assert_near(rates.samples_s, 80);
    assert_near(rates.read_bytes_s, 2000);
    assert_near(rates.data_wait, 0.25);
    assert_near(rates.cache_hits, 0.75);
    assert_near(rates.stage_cpu_ms[STOKE_STAGE_FIT], 2);
    assert_true(isnan(rates.stage_wall_ms[STOKE_STAGE_FIT])); /* nobody said */
    stoke_live_between(NULL, &a, &rates);
    assert_near(rates.seconds, 2);
    assert_near(rates.samples_s, 50);
    assert_near(rates.data_wait, 0.25);
    assert_near(rates.cache_hits, 0.5);
    assert_true(isnan(rates.steps_s));  /* it may have gone on from a checkpoint */
    stoke_live_between(&a, &a, &rates); /* no time, no rate */
    assert_true(isnan(rates.samples_s) && isnan(rates.data_wait) && isnan(rates.cache_hits));
    stoke_live_between(&b, &a, &rates); /* another job */
    assert_true(isnan(rates.samples_s) && isnan(rates.steps_s));
}

static void names_of_phases(void **state)
{
    (void)state;
    assert_string_equal(stoke_live_phase_name(STOKE_LIVE_STARTING), "starting");
    assert_string_equal(stoke_live_phase_name(STOKE_LIVE_ENDED), "ended");
    assert_string_equal(stoke_live_phase_name(-1), "unknown");
    assert_string_equal(stoke_live_phase_name(STOKE_LIVE_ENDED + 1), "unknown");
}

static void no_memory(void **state)
{
    const char *path = unit_path(state, "live");
    stoke_live *live = create(path);
    for (int64_t i = 0; i < 4; i++) {
        stoke_live_reader *onlooker = NULL;
        stoke_live *other = NULL;
        stk_mem_fail_after(i);
        const int reads = stoke_live_reader_open(&onlooker, path, NULL);
        stk_mem_fail_after(i);
        const int writes = stoke_live_create(&other, unit_path(state, "other"), "x", NULL);
        stk_mem_fail_after(-1);
        assert_int_equal(reads, i < 2 ? STOKE_E_NOMEM : 0);
        if (i < 2) assert_true(writes < 0);
        stoke_live_reader_close(&onlooker);
        stoke_live_close(&other);
    }
    stoke_live_close(&live);
}

/* ---- ranks ---- */

static void ranks_are_read_as_written(void **state)
{
    const char *path = unit_path(state, "live.ranks");
    stoke_live_ranks *table = NULL;
    stoke_live_ranks_head head;
    stoke_live_rank ranks[3] = { { .host = "node-a", .pid = 7, .images = 4 },
                                 { .host = "node-a", .pid = 8, .data_ns = 5 },
                                 { .host = "node-b", .pid = 9, .cost_rest_ns = 6 } },
                    *read = NULL;
    assert_int_equal(stoke_live_ranks_create(&table, path, 3, NULL), 0);
    assert_int_equal(stoke_live_ranks_read(unit_folder(state), &head, &read, NULL), 0);
    assert_true(head.world == 3 && head.steps == 0 && head.phase == STOKE_LIVE_STARTING);
    stoke_live_ranks_free(&read);
    stoke_live_ranks_write(table, ranks, 11, 12);
    /* By the name of the page it lies beside. */
    assert_int_equal(stoke_live_ranks_read(unit_path(state, "live"), &head, &read, NULL), 0);
    assert_true(head.steps == 11 && head.step == 12 && head.pid == (uint64_t)getpid());
    assert_memory_equal(read, ranks, sizeof ranks);
    stoke_live_ranks_free(&read);
    stoke_live_ranks_close(&table);
    assert_int_equal(stoke_live_ranks_read(unit_folder(state), &head, &read, NULL), 0);
    assert_true(head.phase == STOKE_LIVE_ENDED && head.steps == 11);
    stoke_live_ranks_free(&read);
}

/* A table as it lies in a file, of two ranks with records of `bytes`. */
static int take_table(uint64_t world, uint64_t bytes, uint64_t version, size_t size)
{
    static union {
        stk_live_ranks_content table;
        char room[4096];
    } made;
    stoke_live_ranks_head head;
    stoke_live_rank *read = NULL;
    memset(&made, 0x61, sizeof made);
    made.table.magic = STK_LIVE_RANKS_MAGIC;
    made.table.version = version;
    made.table.bytes = bytes;
    made.table.head.world = world;
    const size_t whole = sizeof made.table + (size_t)(world * bytes);
    made.table.checksum = stk_live_ranks_checksum(&made, whole < sizeof made ? whole : sizeof made);
    const int r = stk_live_ranks_take(&made, size, "table", &head, &read, NULL);
    if (!r) {
        assert_int_equal(head.world, world);
        assert_int_equal(read[0].host[63], 0); /* a name without an end */
        assert_true(bytes > 64 ? read[0].pid == 0x6161616161616161 : read[0].pid == STOKE_LIVE_NA);
        stoke_live_ranks_free(&read);
    }
    assert_null(read);
    return r;
}

static void hostile_tables(void **state)
{
    const uint64_t record = sizeof(stoke_live_rank), version = STOKE_LIVE_RANKS_VERSION;
    (void)state;
    assert_int_equal(take_table(2, record, version, 4096), 0);
    assert_int_equal(take_table(2, 64, version, 4096), 0); /* an older one */
    assert_int_equal(take_table(2, record, version + 1, 4096), STOKE_E_UNSUPPORTED);
    assert_int_equal(take_table(2, record, version, 100), STOKE_E_FORMAT);
    assert_int_equal(take_table(2, record, version, 10), STOKE_E_FORMAT);
    assert_int_equal(take_table(2, record + 8, version, 4096), STOKE_E_FORMAT);
    assert_int_equal(take_table(2, 63, version, 4096), STOKE_E_FORMAT);
    assert_int_equal(take_table(UINT64_C(1) << 60, 16, version, 4096), STOKE_E_FORMAT);
    assert_int_equal(take_table(STOKE_LIVE_RANKS_MOST + 1, 0, version, 4096), STOKE_E_FORMAT);
}

static void tables_that_are_none(void **state)
{
    stoke_live_ranks_head head;
    stoke_live_rank *read = NULL;
    stoke_live_ranks *table = NULL;
    assert_int_equal(stoke_live_ranks_read(unit_folder(state), &head, &read, NULL), STOKE_E_NOTFOUND);
    const char *path = unit_path(state, "live.ranks");
    unit_write(path, "somebody's", 10);
    assert_int_equal(stoke_live_ranks_read(unit_folder(state), &head, &read, NULL), STOKE_E_FORMAT);
    assert_int_equal(stoke_live_ranks_create(&table, path, 2, NULL), STOKE_E_STATE);
    assert_null(table);
    stoke_live_ranks_close(&table);
    stoke_live_ranks_remove(path);
    assert_int_equal(access(path, F_OK), 0); /* it stays */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(stoke_live_ranks_create(&table, path, 2, NULL), 0);
    stoke_live_ranks_close(&table);
    stoke_live_ranks_remove(path);
    assert_int_equal(access(path, F_OK), -1);
}

UNIT_GROUP(live)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(what_is_written_is_read),
        unit_test_with_folder(a_new_page_takes_the_place_of_the_old),
        unit_test_with_folder(no_copy_is_torn),
        unit_test_with_folder(hostile_files),
        unit_test_with_folder(no_file_at_all),
        unit_test_with_folder(an_older_page_lacks_what_is_new),
        unit_test_with_folder(cut_short_while_open),
        unit_test_with_folder(a_disk_that_is_full),
        unit_test_with_folder(a_job_that_is_killed),
        unit_test_with_folder(a_number_that_is_anothers),
        unit_test_with_folder(counters_of_a_loader),
        unit_test_with_folder(counters_of_a_feed),
        cmocka_unit_test(rates_between_looks),
        cmocka_unit_test(names_of_phases),
        unit_test_with_folder(ranks_are_read_as_written),
        cmocka_unit_test(hostile_tables),
        unit_test_with_folder(tables_that_are_none),
        unit_test_with_folder(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
