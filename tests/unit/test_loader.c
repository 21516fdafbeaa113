/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise (a): bytes depend on data, settings, seed, epoch, position; and what a consumer may rely on.
 */
#include "tests/unit/fixture_pairs.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <stoke/tools/data.h>
#include <stoke/tools/loader.h>

#include "src/base/clock.h"

enum { MOST = 64 };

static void same(const pairs_digest *a, const pairs_digest *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(a[i].index, b[i].index);
        assert_int_equal(a[i].count, b[i].count);
        assert_memory_equal(a[i].digest, b[i].digest, 16);
    }
}

static void bytes_do_not_depend_on_workers_or_prefetch(void **state)
{
    pairs_write(state, 23, 40, 48);
    stoke_data_params params = pairs_params(state);
    params.augment = "crop";
    pairs_digest reference[MOST], other[MOST];
    params.workers = 0;
    assert_int_equal(pairs_epoch(&params, reference, MOST), 6);
    assert_int_equal(reference[5].count, 3);
    static const struct {
        int workers, prefetch;
    } cases[] = { { 1, 1 }, { 2, 2 }, { 7, 1 }, { 7, 9 }, { 0, 5 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params.workers = cases[i].workers;
        params.prefetch = cases[i].prefetch;
        assert_int_equal(pairs_epoch(&params, other, MOST), 6);
        same(reference, other, 6);
    }
    params.seed = 1;
    pairs_epoch(&params, other, MOST);
    assert_memory_not_equal(reference[0].digest, other[0].digest, 16);
    params.seed = 0;
    params.epoch = 1;
    pairs_epoch(&params, other, MOST);
    assert_memory_not_equal(reference[0].digest, other[0].digest, 16);
}

static void union_of_ranks_is_the_whole(void **state)
{
    pairs_write(state, 22, 32, 32);
    stoke_data_params params = pairs_params(state);
    pairs_digest whole[MOST];
    const size_t n = pairs_epoch(&params, whole, MOST);
    for (int world = 2; world <= 4; world++) {
        uint32_t seen = 0;
        size_t batches = 0;
        for (int rank = 0; rank < world; rank++) {
            pairs_digest part[MOST];
            params.world = world;
            params.rank = rank;
            const size_t m = pairs_epoch(&params, part, MOST);
            assert_true(rank == 0 || m == batches); /* equal on every rank */
            batches = m;
            for (size_t i = 0; i < m; i++) {
                if (part[i].position >= 22) continue; /* padding */
                assert_memory_equal(part[i].digest, whole[part[i].index].digest, 16);
                seen |= 1u << part[i].index;
            }
        }
        assert_int_equal(seen, (1u << n) - 1);
    }
}

/* u8 HWC, size = source: the batch is the picture, byte for byte (PNG), mask included. */
static void rows_hold_the_pixels(void **state)
{
    pairs_write(state, 9, 32, 32);
    stoke_data_params params = pairs_params(state);
    params.order = STOKE_ORDER_SEQUENTIAL;
    params.dtype = STOKE_IMAGE_DTYPE_U8;
    params.layout = STOKE_LAYOUT_HWC;
    assert_int_equal(stoke_data_image_dtype(&params), STOKE_DTYPE_U8);
    stoke_dataset *dataset;
    stoke_loader *loader;
    const stoke_batch *batch;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    assert_int_equal(stoke_loader_batches(loader), 3);
    while (stoke_loader_next(loader, &batch) == 0) {
        for (uint32_t row = 0; row < batch->count; row++) {
            const uint32_t i = (uint32_t)batch->ids[row];
            char name[16];
            snprintf(name, sizeof name, "s%u", i);
            assert_string_equal(batch->names[row], name);
            const uint8_t *rgb = (uint8_t *)batch->images + row * batch->image_row_bytes;
            const uint8_t *ids = (uint8_t *)batch->masks + row * batch->mask_row_bytes;
            for (uint32_t p = 0; p < 32 * 32; p++) {
                assert_int_equal(ids[p], pairs_class(i, p % 32, p / 32));
                if (i % 3)
                    for (uint32_t c = 0; c < 3; c++)
                        assert_int_equal(rgb[p * 3 + c], pairs_value(i, p % 32, p / 32, c));
            }
        }
        stoke_batch_release(loader, &batch);
        assert_null(batch);
    }
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* Every output type says the same as the u8 row; CHW and HWC are transposes. */
static void types_and_layouts_agree(void **state)
{
    pairs_write(state, 4, 33, 31);
    stoke_data_params params = pairs_params(state);
    params.order = STOKE_ORDER_SEQUENTIAL;
    params.size[0] = 31;
    params.size[1] = 33;
    enum { PIXELS = 33 * 31 };
    static uint8_t reference[4 * PIXELS * 3];
    for (int dtype = 3; dtype >= 0; dtype--)
        for (int layout = 0; layout < 2; layout++) {
            params.dtype = dtype;
            params.layout = layout;
            params.mask_dtype = dtype + 1; /* u8, u16, i32, i64 */
            stoke_dataset *dataset;
            stoke_loader *loader;
            const stoke_batch *batch;
            assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
            assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
            assert_int_equal(stoke_loader_next(loader, &batch), 0);
            for (size_t row = 0; row < 4; row++)
                for (size_t p = 0; p < PIXELS; p++) {
                    const uint8_t *m = (uint8_t *)batch->masks + row * batch->mask_row_bytes;
                    const size_t width = stoke_dtype_bytes(batch->mask_dtype);
                    assert_int_equal(m[p * width], pairs_class((uint32_t)row, p % 33, (uint32_t)p / 33));
                    for (size_t b = 1; b < width; b++) assert_int_equal(m[p * width + b], 0);
                    for (size_t c = 0; c < 3; c++) {
                        const size_t at = layout ? p * 3 + c : c * PIXELS + p;
                        const void *base = (char *)batch->images + row * batch->image_row_bytes;
                        uint8_t *known = &reference[(row * PIXELS + p) * 3 + c];
                        if (dtype == 3) {
                            if (layout) assert_int_equal(*known, ((uint8_t *)base)[at]);
                            *known = ((uint8_t *)base)[at];
                        } else if (batch->image_dtype == STOKE_DTYPE_F32) {
                            assert_true(((float *)base)[at] == (float)*known / 255.0f);
                        } else if (batch->image_dtype == STOKE_DTYPE_BF16) {
                            const uint32_t bits = (uint32_t)((uint16_t *)base)[at] << 16;
                            float value;
                            memcpy(&value, &bits, 4);
                            assert_true(value - *known / 255.0f < 1 / 255.0f &&
                                        *known / 255.0f - value < 1 / 255.0f);
                        }
                    }
                }
            stoke_batch_release(loader, &batch);
            stoke_loader_destroy(&loader);
            stoke_dataset_close(&dataset);
        }
}

static void holding_every_slot_is_reported(void **state)
{
    pairs_write(state, 24, 32, 32);
    stoke_data_params params = pairs_params(state);
    for (int workers = 0; workers <= 2; workers += 2) {
        params.workers = workers;
        stoke_dataset *dataset;
        stoke_loader *loader;
        const stoke_batch *held[3], *more;
        assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
        assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
        uint8_t before[16], after[16];
        for (int i = 0; i < 3; i++) assert_int_equal(stoke_loader_next(loader, &held[i]), 0);
        stoke_batch_digest(held[0], before);
        assert_int_equal(stoke_loader_next(loader, &more), STOKE_E_STARVED);
        assert_non_null(strstr(stoke_loader_error(loader), "all 3 slots are held"));
        stoke_batch_release(loader, &held[1]); /* any order */
        assert_int_equal(stoke_loader_next(loader, &more), 0);
        assert_int_equal(more->index, 3);
        stoke_batch_digest(held[0], after);
        assert_memory_equal(before, after, 16); /* what is held is not overwritten */
        stoke_loader_destroy(&loader);          /* with batches still held */
        stoke_dataset_close(&dataset);
    }
}

/* Asked again and again, without waiting or for 20 us: the same batches, and one wait each in the statistics.
 */
static void a_deadline_loses_nothing(void **state)
{
    pairs_write(state, 22, 40, 48);
    stoke_data_params params = pairs_params(state);
    pairs_digest whole[MOST];
    const size_t n = pairs_epoch(&params, whole, MOST);
    for (int workers = 0; workers <= 2; workers++) {
        params.workers = workers;
        stoke_dataset *dataset;
        stoke_loader *loader;
        assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
        assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
        uint64_t asked = 0;
        for (size_t i = 0; i <= n; i++) {
            const stoke_batch *batch;
            int r;
            do {
                asked++;
                r = stoke_loader_next_until(loader, &batch, workers ? stk_now_ns() + i % 2 * 20000 : 0);
                if (r) assert_null(batch);
            } while (r == STOKE_E_TIMEOUT);
            assert_int_equal(r, i < n ? STOKE_OK : STOKE_E_END);
            if (r) break;
            uint8_t digest[16];
            stoke_batch_digest(batch, digest);
            assert_memory_equal(digest, whole[i].digest, 16);
            stoke_batch_release(loader, &batch);
        }
        stoke_loader_stats_data stats;
        stoke_loader_stats(loader, &stats);
        assert_int_equal(stats.stage[STOKE_STAGE_BATCH_WAIT].count, n);
        if (!workers) assert_int_equal(asked, 22 + 1); /* a sample a call, and the end */
        stoke_loader_destroy(&loader);
        stoke_dataset_close(&dataset);
    }
}

static void epochs_follow_without_restart(void **state)
{
    pairs_write(state, 16, 32, 32);
    stoke_data_params params = pairs_params(state);
    stoke_dataset *dataset;
    stoke_loader *loader;
    pairs_digest first[MOST], again[MOST], alone[MOST];
    int status;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    assert_int_equal(pairs_take(loader, first, MOST, &status), 4);
    for (uint64_t epoch = 1; epoch < 4; epoch++) {
        assert_int_equal(stoke_loader_set_epoch(loader, epoch), 0);
        assert_int_equal(pairs_take(loader, again, MOST, &status), 4);
        assert_int_equal(again[0].epoch, epoch);
        params.epoch = (int64_t)epoch;
        pairs_epoch(&params, alone, MOST);
        same(again, alone, 4);
    }
    stoke_loader_set_epoch(loader, 0); /* back: what was prefetched is thrown away */
    assert_int_equal(pairs_take(loader, again, 2, &status), 2);
    same(first, again, 2);
    stoke_loader_set_epoch(loader, 0); /* from the middle to the start */
    assert_int_equal(pairs_take(loader, again, MOST, &status), 4);
    same(first, again, 4);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* The ring holds batches of several epochs ahead: each epoch must still get its own. */
static void epochs_shorter_than_the_ring_follow_too(void **state)
{
    pairs_write(state, 3, 32, 32);
    stoke_data_params params = pairs_params(state);
    params.augment = "crop";
    for (params.workers = 0; params.workers < 3; params.workers++) {
        stoke_dataset *dataset;
        stoke_loader *loader;
        pairs_digest got[MOST], alone[MOST];
        int status;
        params.epoch = 0;
        params.prefetch = 4;
        assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
        assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
        for (uint64_t epoch = 0; epoch < 12; epoch++) {
            if (epoch) stoke_loader_set_epoch(loader, epoch);
            assert_int_equal(pairs_take(loader, got, MOST, &status), 1);
            assert_int_equal(got[0].epoch, epoch);
            params.epoch = (int64_t)epoch;
            pairs_epoch(&params, alone, MOST); /* gives the workers time to run ahead, too */
            same(got, alone, 1);
        }
        stoke_loader_destroy(&loader);
        stoke_dataset_close(&dataset);
    }
}

static size_t open_files(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) != -1;
    return n;
}

/* Once every worker has met the largest sample (which may take some epochs: rows go to whoever is free): no
 * allocation of ours over eight epochs, no file left open. */
static void steady_state_allocates_nothing(void **state)
{
    pairs_write(state, 24, 48, 40);
    stoke_data_params params = pairs_params(state);
    params.augment = "crop";
    stoke_dataset *dataset;
    stoke_loader *loader;
    pairs_digest digests[MOST];
    int status;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    stoke_loader_stats_data end;
    uint64_t epoch = 0, allocations = 0;
    size_t files = 0;
    for (int quiet = 0; quiet < 8; quiet++) {
        assert_true(epoch < 200);
        stoke_loader_set_epoch(loader, epoch++);
        pairs_take(loader, digests, MOST, &status);
        stoke_loader_stats(loader, &end);
        if (end.heap_allocations == allocations) continue;
        quiet = 0;
        allocations = end.heap_allocations;
        files = open_files();
    }
    assert_true(open_files() <= files + 2); /* workers may have one sample open at this moment */
    assert_int_equal(end.samples, epoch * 24);
    assert_int_equal(end.batches, epoch * 6);
    assert_true(end.stage[STOKE_STAGE_DECODE_IMAGE].wall_ns > 0);
    assert_true(end.stage[STOKE_STAGE_DECODE_IMAGE].count >= epoch * 24);
    assert_true(end.bytes_read > 0);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

typedef struct counting {
    atomic_int live, made;
} counting;

static void *counting_alloc(void *context, size_t bytes, size_t alignment)
{
    counting *c = context;
    if (c->made == 2) return NULL;
    c->made++;
    c->live++;
    return aligned_alloc(alignment, bytes);
}

static void counting_release(void *context, void *pointer, size_t bytes)
{
    ((counting *)context)->live--;
    free(pointer);
}

static void slots_come_from_the_hook(void **state)
{
    pairs_write(state, 8, 32, 32);
    stoke_data_params params = pairs_params(state);
    counting c = { 0 };
    const stoke_allocator hook = { counting_alloc, counting_release, &c };
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, &hook, &err), STOKE_E_NOMEM);
    assert_int_equal(c.live, 0);
    assert_null(loader);
    params.prefetch = 1;
    c.made = 0;
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, &hook, &err), 0);
    assert_int_equal(c.live, 2);
    stoke_loader_destroy(&loader);
    assert_int_equal(c.live, 0);
    stoke_dataset_close(&dataset);
}

static void small_sources_are_padded_with_ignore(void **state)
{
    pairs_write(state, 2, 20, 24);
    const char *yaml = "augment:\n  - center_crop\n";
    unit_write(unit_path(state, "c.yaml"), yaml, strlen(yaml));
    stoke_data_params params = pairs_params(state);
    params.augment = unit_path(state, "c.yaml");
    params.order = STOKE_ORDER_SEQUENTIAL;
    params.ignore_index = 255;
    params.batch = 2;
    stoke_dataset *dataset;
    stoke_loader *loader;
    const stoke_batch *batch;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    assert_int_equal(stoke_loader_next(loader, &batch), 0);
    const uint8_t *mask = batch->masks;
    for (uint32_t y = 0; y < 32; y++)
        for (uint32_t x = 0; x < 32; x++) {
            const int inside = x >= 6 && x < 26 && y >= 4 && y < 28;
            assert_int_equal(mask[y * 32 + x], inside ? pairs_class(0, x - 6, y - 4) : 255);
        }
    stoke_batch_release(loader, &batch);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

static void no_masks_are_zeros(void **state)
{
    pairs_write(state, 3, 32, 32);
    stoke_data_params params = pairs_params(state);
    params.data = NULL;
    params.images = unit_path(state, "images");
    stoke_dataset *dataset;
    stoke_loader *loader;
    const stoke_batch *batch;
    assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
    assert_int_equal(stoke_dataset_has_masks(dataset), 0);
    assert_int_equal(stoke_loader_create(&loader, dataset, &params, NULL, NULL), 0);
    assert_int_equal(stoke_loader_next(loader, &batch), 0);
    for (size_t i = 0; i < batch->count * batch->mask_row_bytes; i++)
        assert_int_equal(((uint8_t *)batch->masks)[i], 0);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* An epoch with no batches (drop_last and too few samples) ends at once and does not spin. */
static void an_empty_epoch_ends(void **state)
{
    pairs_write(state, 3, 32, 32);
    stoke_data_params params = pairs_params(state);
    params.drop_last = 1;
    pairs_digest digests[MOST];
    assert_int_equal(pairs_epoch(&params, digests, MOST), 0);
    params.workers = 0;
    assert_int_equal(pairs_epoch(&params, digests, MOST), 0);
}

/* A program fills the struct by hand: what the option table refuses as text is refused here too. */
static void settings_outside_the_table_are_refused(void **state)
{
    pairs_write(state, 3, 32, 32);
    const stoke_data_params good = pairs_params(state);
    stoke_data_params bad[10] = { good, good, good, good, good, good, good, good, good, good };
    bad[0].batch = INT64_C(1) << 32; /* 0 in 32 bits */
    bad[1].batch = 0;
    bad[2].prefetch = UINT32_MAX;
    bad[3].workers = INT64_C(1) << 40;
    bad[4].size[0] = bad[4].size[1] = UINT32_MAX; /* bytes of a slot overflow */
    bad[5].size[1] = 0;
    bad[6].order = 4;
    bad[7].dtype = -1;
    bad[8].rank = 1;
    bad[9].order = STOKE_ORDER_WEIGHTED; /* and no file of weights */
    static const char *const names[] = { "batch", "batch", "prefetch", "workers", "size",
                                         "size",  "order", "dtype",    "rank",    "weights" };
    stoke_dataset *dataset;
    assert_int_equal(stoke_dataset_open(&dataset, &good, NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stoke_loader *loader;
        stoke_error err = { 0 };
        assert_int_equal(stoke_loader_create(&loader, dataset, &bad[i], NULL, &err), STOKE_E_INVALID);
        assert_null(loader);
        assert_non_null(strstr(err.message, names[i]));
    }
    stoke_dataset_close(&dataset);
}

/* A nice value belongs to a thread and is inherited by those it starts, so this one stands for the consumer.
 */
static void *niced_consumer(void *argument)
{
    void **state = argument;
    stoke_data_params params = pairs_params(state);
    stoke_dataset *dataset = NULL;
    stoke_loader *loader = NULL;
    const stoke_batch *batch;
    intptr_t found = -1;
    params.workers = 1;
    params.nice = 3;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10);
    if (stoke_dataset_open(&dataset, &params, NULL) == 0 &&
        stoke_loader_create(&loader, dataset, &params, NULL, NULL) == 0 &&
        stoke_loader_next(loader, &batch) == 0) {
        DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
            char path[300], name[32] = "";
            snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
            FILE *f = fopen(path, "r");
            if (f && fgets(name, sizeof name, f) && strcmp(name, "stoke-0\n") == 0)
                found = getpriority(PRIO_PROCESS, (id_t)atoi(entry->d_name));
            if (f) fclose(f);
        }
        if (tasks) closedir(tasks);
    }
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    return (void *)found;
}

static void workers_are_nicer_than_a_nice_consumer(void **state)
{
    pairs_write(state, 4, 32, 32);
    pthread_t consumer;
    void *found;
    assert_int_equal(pthread_create(&consumer, NULL, niced_consumer, state), 0);
    assert_int_equal(pthread_join(consumer, &found), 0);
    assert_int_equal((intptr_t)found, 13);
}

UNIT_GROUP(loader)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(bytes_do_not_depend_on_workers_or_prefetch),
        unit_test_with_folder(union_of_ranks_is_the_whole),
        unit_test_with_folder(rows_hold_the_pixels),
        unit_test_with_folder(types_and_layouts_agree),
        unit_test_with_folder(holding_every_slot_is_reported),
        unit_test_with_folder(a_deadline_loses_nothing),
        unit_test_with_folder(epochs_follow_without_restart),
        unit_test_with_folder(epochs_shorter_than_the_ring_follow_too),
        unit_test_with_folder(steady_state_allocates_nothing),
        unit_test_with_folder(slots_come_from_the_hook),
        unit_test_with_folder(small_sources_are_padded_with_ignore),
        unit_test_with_folder(no_masks_are_zeros),
        unit_test_with_folder(an_empty_epoch_ends),
        unit_test_with_folder(settings_outside_the_table_are_refused),
        unit_test_with_folder(workers_are_nicer_than_a_nice_consumer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
