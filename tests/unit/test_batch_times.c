/* SPDX-License-Identifier: Apache-2.0
 *
 * What it took to make a batch, as the loader keeps it: time in line for a core, waits for a slot, and which
 * batch was the first.
 */
#include "tests/unit/fixture_pairs.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "src/base/clock.h"
#include "src/loader/loader.h"
#include "src/loader/loader_internal.h"

enum { MS = 1000000 };

static void time_in_line_goes_to_stages_that_stood(void **state)
{
    /* Reading stood for 60, decoding the mask for 20; fitting ran for longer than it took, by a clock's
     * grain. */
    static const stoke_stage_time times[] = { [STOKE_STAGE_READ] = { .wall_ns = 100, .cpu_ns = 40 },
                                              [STOKE_STAGE_DECODE_IMAGE] = { .wall_ns = 50, .cpu_ns = 50 },
                                              [STOKE_STAGE_DECODE_MASK] = { .wall_ns = 30, .cpu_ns = 10 },
                                              [STOKE_STAGE_FIT] = { .wall_ns = 10, .cpu_ns = 15 },
                                              [STOKE_STAGE_WRITE] = { .wall_ns = 70, .cpu_ns = 70 } };
    static const uint64_t queued[] = { 0, 40, 1000 }; /* the last: more than it stood */
    static const stoke_work_time wanted[][STOKE_WORK_KINDS] = {
        { { 100, 40, 0 }, { 80, 60, 0 }, { 10, 10, 0 }, { 70, 70, 0 } },
        { { 100, 40, 30 }, { 80, 60, 10 }, { 10, 10, 0 }, { 70, 70, 0 } },
        { { 100, 40, 60 }, { 80, 60, 20 }, { 10, 10, 0 }, { 70, 70, 0 } },
    };
    for (size_t i = 0; i < 3; i++) {
        stk_batch_times making = { 0 };
        stk_batch_times_row(&making, times, queued[i]);
        assert_memory_equal(making.time, wanted[i], sizeof wanted[i]);
        stk_batch_times_row(&making, times, 0); /* rows add up */
        assert_int_equal(making.time[STOKE_WORK_READ].wall_ns, 200);
        assert_int_equal(making.time[STOKE_WORK_READ].queued_ns, wanted[i][STOKE_WORK_READ].queued_ns);
        stk_batch_times_whole(&making, 8, 5, queued[i]);
        assert_int_equal(making.time[STOKE_WORK_AUGMENT].wall_ns, 148);
        assert_int_equal(making.time[STOKE_WORK_AUGMENT].cpu_ns, 145);
        assert_int_equal(making.time[STOKE_WORK_AUGMENT].queued_ns, i ? 3 : 0);
    }
}

/* ---- the run queue ---- */

/* A kernel that does not count says 0 0 0; one that does, too, until the thread met its first tick. */
static int kernel_counts(void)
{
    unsigned long long ran = 0;
    const uint64_t begin = stk_now_ns();
    while (!ran && stk_now_ns() - begin < 500 * MS) {
        FILE *file = fopen("/proc/thread-self/schedstat", "r");
        if (!file) return 0;
        if (fscanf(file, "%llu", &ran) != 1) ran = 0;
        fclose(file);
    }
    return ran > 0;
}

static atomic_int spinning;

static void *spin(void *argument)
{
    while (atomic_load(&spinning))
        ;
    return argument;
}

/* Two threads that want one core: each of them stands in line. */
static void standing_in_line_is_seen(void **state)
{
    const uint64_t most = 30000 * (uint64_t)MS; /* it takes 10 ms */
    stk_batch_run_queue queue = { 0 }, watch = { 0 };
    cpu_set_t all, one;
    pthread_t other;
    uint64_t seen = 0;
    int core = 0;
    if (!kernel_counts()) {
        stk_run_queue_begin(&queue);
        assert_int_equal(stk_run_queue_since(&queue), 0);
        stk_run_queue_close(&queue);
        unit_skip("the kernel does not count the time in its run queue");
    }
    assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof all, &all), 0);
    while (!CPU_ISSET(core, &all)) core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
    atomic_store(&spinning, 1);
    assert_int_equal(pthread_create(&other, NULL, spin, NULL), 0);
    const uint64_t begin = stk_now_ns();
    stk_run_queue_begin(&queue);
    stk_run_queue_begin(&watch);
    while (!seen && stk_now_ns() - begin < most) seen = stk_run_queue_since(&watch);
    assert_in_range(seen, 1, stk_now_ns() - begin);
    assert_true(stk_run_queue_since(&queue) >= seen);
    /* What happens between leaving and beginning again is not counted. */
    stk_run_queue_leave(&queue);
    for (seen = 0; !seen && stk_now_ns() - begin < most;) seen = stk_run_queue_since(&watch);
    stk_run_queue_begin(&queue);
    assert_true(queue.total_ns >= watch.total_ns);
    atomic_store(&spinning, 0);
    pthread_join(other, NULL);
    stk_run_queue_close(&watch);
    stk_run_queue_close(&queue);
    assert_false(queue.is_open);
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof all, &all), 0);
}

static void *begin_elsewhere(void *argument)
{
    stk_batch_run_queue *queue = argument;
    stk_run_queue_begin(queue);
    return (void *)(uintptr_t)(queue->file + 1);
}

/* workers: 0: next() may be called by one thread now and by another later. */
static void a_descriptor_belongs_to_its_thread(void **state)
{
    stk_batch_run_queue queue = { 0 };
    pthread_t other;
    char path[64], target[128] = "", self[64];
    assert_int_equal(pthread_create(&other, NULL, begin_elsewhere, &queue), 0);
    pthread_join(other, NULL);
    if (queue.file < 0) unit_skip("the kernel does not count the time in its run queue");
    stk_run_queue_leave(&queue);
    stk_run_queue_begin(&queue); /* the thread it was opened by is gone */
    snprintf(path, sizeof path, "/proc/self/fd/%d", queue.file);
    assert_true(readlink(path, target, sizeof target - 1) > 0);
    snprintf(self, sizeof self, "/task/%d/schedstat",
             getpid()); /* the first thread has the process's number */
    assert_non_null(strstr(target, self));
    stk_run_queue_close(&queue);
}

/* ---- in a loader ---- */

static stoke_loader *open_loader(void **state, stoke_dataset **dataset, int64_t workers)
{
    stoke_data_params params = pairs_params(state);
    stoke_loader *loader = NULL;
    pairs_write(state, 11, 33, 17);
    params.workers = workers;
    params.augment = "standard,mixup(p=0.6)";
    assert_int_equal(stoke_dataset_open(dataset, &params, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, *dataset, &params, NULL, NULL), 0);
    return loader;
}

static void close_loader(stoke_loader *loader, stoke_dataset *dataset)
{
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
}

/* The next batch, with the ends of epochs passed over. */
static stk_batch_times next_making(stoke_loader *loader)
{
    const stoke_batch *batch;
    if (!stoke_loader_remaining(loader))
        assert_int_equal(stoke_loader_set_epoch(loader, loader->epoch + 1), 0);
    assert_int_equal(stoke_loader_next(loader, &batch), 0);
    const stk_batch_times making = *stk_batch_times_of(batch);
    stoke_batch_release(loader, &batch);
    return making;
}

static int line_is_open(stoke_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    const int is_open = loader->workers[0].line.is_open;
    pthread_mutex_unlock(&loader->lock);
    return is_open;
}

/* No slot is free and no row under way: a worker has begun to wait. */
static void wait_until_full(stoke_loader *loader)
{
    for (int full = 0; !full; usleep(100)) {
        pthread_mutex_lock(&loader->lock);
        full = !loader->in_flight && !loader->filling && loader->slots.queued == loader->slots.count;
        pthread_mutex_unlock(&loader->lock);
    }
}

/* Asking the kernel costs more than all else that is kept of a row. */
static void the_kernel_is_asked_only_for_records(void **state)
{
    for (int64_t workers = 0; workers <= 1; workers++) {
        stoke_dataset *dataset;
        stoke_loader *loader = open_loader(state, &dataset, workers);
        for (int i = 0; i < 4; i++) {
            const stk_batch_times making = next_making(loader);
            for (int s = 0; s < STOKE_WORK_KINDS; s++) assert_int_equal(making.time[s].queued_ns, 0);
        }
        assert_false(line_is_open(loader));
        stk_loader_record(loader, 1);
        for (uint32_t i = 0; i < loader->slots.count + 2; i++) next_making(loader);
        assert_true(line_is_open(loader));
        if (workers) { /* while it waits for a slot, nothing counts */
            wait_until_full(loader);
            assert_false(loader->workers[0].line.begun);
        }
        stk_loader_record(loader, 0);
        next_making(loader);
        close_loader(loader, dataset);
    }
}

static void waits_for_a_slot_belong_to_the_batch_that_ends_them(void **state)
{
    enum { WAIT = 3 * MS };
    stoke_dataset *dataset;
    stoke_loader *loader = open_loader(state, &dataset, 1);
    const uint32_t slots = loader->slots.count;
    wait_until_full(loader);
    stk_sleep_until(stk_now_ns() + WAIT);
    for (uint32_t i = 0; i <= slots;
         i++) { /* those that were ready, and the one that a slot was missing for */
        const stk_batch_times making = next_making(loader);
        assert_int_equal(making.first, i == 0);
        assert_true(i < slots ? making.window_ns == 0 : making.window_ns >= WAIT);
    }
    /* What was waited for before the schedule was set again is no batch's. */
    wait_until_full(loader);
    stk_sleep_until(stk_now_ns() + WAIT);
    const uint64_t restarted = stk_now_ns();
    assert_int_equal(stoke_loader_set_epoch(loader, 9), 0);
    const stk_batch_times making = next_making(loader);
    assert_int_equal(making.first, 1);
    assert_true(making.began >= restarted && making.window_ns <= making.began - restarted);
    close_loader(loader, dataset);
}

UNIT_GROUP(batch_times)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_in_line_goes_to_stages_that_stood),
        cmocka_unit_test(standing_in_line_is_seen),
        cmocka_unit_test(a_descriptor_belongs_to_its_thread),
        unit_test_with_folder(the_kernel_is_asked_only_for_records),
        unit_test_with_folder(waits_for_a_slot_belong_to_the_batch_that_ends_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
