/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of steps: moments in the order they must have, sums that are those of the book, and nothing about
 * batches that were discarded or never stepped on.
 */
#include "tests/unit/fixture_upload.h"

#include <pthread.h>
#include <stoke/tools/record.h>
#include <stoke/tools/loader.h>
#include <stoke/tools/diagnose.h>
#include <stoke/tools/upload.h>

#include "src/base/mem.h"
#include "src/observe/observer.h"

static const double step_ms = 0.2;

/* ---- what holds for every record ---- */

#define ordered(a, b)                                                                                        \
    if ((a) > (b)) fail_msg("record %zu: %s is %llu ns after %s", i, #a, (unsigned long long)((a) - (b)), #b)

static void check_making(const stoke_step_record *r, size_t i, int64_t workers)
{
    uint64_t wall = 0;
    for (int m = 0; m < STOKE_WORK_KINDS; m++) {
        const stoke_work_time *time = &r->making[m];
        assert_int_equal(time->wall_ns > 0, m != STOKE_WORK_COLLATE);
        assert_true(time->cpu_ns <= time->wall_ns);
        assert_true(time->queued_ns <= time->wall_ns - time->cpu_ns);
        wall += time->wall_ns;
    }
    ordered(r->began, r->ready);
    assert_true(r->began && wall <= (uint64_t)(workers ? workers : 1) * (r->ready - r->began));
    assert_true(!r->pin_start && !r->pin_end);
    if (!workers) assert_int_equal(r->window_ns, 0);
}

/* On a simulated GPU and on the host, one clock stamps everything. */
static void check_moments(const stoke_step_record *r, size_t i, int kernels, int transfer)
{
    ordered(r->ready, r->sent);
    if (transfer != STOKE_TRANSFER_STREAM) { /* the caller sends */
        ordered(r->asked, r->sent);
        ordered(r->sent, r->got);
    }
    if (transfer == STOKE_TRANSFER_PAGEABLE) ordered(r->copy_end, r->got);
    ordered(r->sent, r->copy_start);
    ordered(r->copy_start, r->copy_end);
    if (kernels) {
        ordered(r->copy_end, r->augment_start);
        ordered(r->augment_start, r->augment_end);
        ordered(r->augment_end, r->start);
    } else {
        assert_true(!r->augment_start && !r->augment_end);
    }
    ordered(r->copy_end, r->start);
    ordered(r->asked, r->got);
    ordered(r->got, r->launched);
    ordered(r->launched, r->start);
    ordered(r->start, r->end);
    assert_true(r->asked && r->copy_bytes && r->busy_ns);
    assert_int_equal(r->busy_ns, r->end - r->start);
}

/* `of`: which of the loader's batches they are records of; NULL: one after the other from `at` on. */
static void check_records(const feeding *f, const stoke_upload *upload, const stoke_step_record *records,
                          size_t n, size_t at, const size_t *of)
{
    const int kernels = upload->placement == STOKE_PLACEMENT_DEVICE;
    for (size_t i = 0; i < n; i++) {
        const stoke_step_record *r = &records[i];
        const pairs_digest *batch = &f->expected[of ? of[i] : at + i];
        assert_int_equal(r->number, i);
        assert_int_equal(r->epoch, batch->epoch);
        assert_int_equal(r->samples, batch->count);
        check_making(r, i, f->data.workers);
        check_moments(r, i, kernels, upload->transfer);
        if (!i) continue;
        ordered(records[i - 1].end, r->start);
        ordered(records[i - 1].got, r->asked);
    }
}

/* ---- runs ---- */

static void one_batch(stoke_upload *upload, int steps)
{
    const stoke_device_batch *batch;
    const int r = stoke_upload_next(upload, &batch);
    if (r) fail_msg("%d: %s", r, stoke_upload_error(upload));
    for (int i = 0; i < steps; i++) assert_int_equal(stoke_fake_step(upload, step_ms, NULL), 0);
    stoke_upload_release(upload, &batch);
}

/* Batches from .. to - 1 of the loader's, a step each, with the ends of epochs between them. */
static void run(stoke_upload *upload, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (i && i % BATCHES == 0) assert_int_equal(stoke_upload_set_epoch(upload, i / BATCHES), 0);
        one_batch(upload, 1);
    }
}

static void record(stoke_upload *upload, size_t steps)
{
    stoke_error err = { 0 };
    if (stoke_upload_record(upload, steps, &err)) fail_msg("%s", err.message);
}

static size_t finish(stoke_upload *upload, const stoke_step_record **records)
{
    assert_int_equal(stoke_upload_finish(upload, NULL), 0);
    return stoke_upload_records(upload, records);
}

static void check_sums(stoke_upload *upload, const stoke_step_record *records, size_t n)
{
    stoke_upload_stats stats;
    uint64_t busy = 0;
    for (size_t i = 1; i < n; i++) busy += records[i].busy_ns; /* the book opens when the first step ends */
    assert_int_equal(stoke_upload_measure(upload, &stats, NULL), 0);
    assert_int_equal(stats.steps, n - 1);
    assert_int_equal(stats.step_ns, busy);
    assert_int_equal(stats.elapsed_ns, records[n - 1].end - records[0].end);
}

static void check_way(const feeding *f, stoke_device *device, int placement, int transfer)
{
    const stoke_step_record *records;
    stoke_upload *upload = feeding_open(f, device, feeding_params(placement, transfer, 2));
    assert_int_equal(stoke_upload_records(upload, &records), 0);
    record(upload, MOST + 1);
    stoke_upload_mark(upload);
    run(upload, 0, MOST);
    assert_int_equal(finish(upload, &records), MOST);
    check_records(f, upload, records, MOST, 0, NULL);
    check_sums(upload, records, MOST);
    for (size_t i = 0; i < MOST; i++) assert_int_equal(records[i].first_of_epoch, i == 0);
    stoke_upload_destroy(&upload);
}

static void moments_are_in_order(void **state)
{
    static const char *const devices[] = { "host", "sim:rtx3090" };
    feeding f = feeding_begin(state);
    for (size_t d = 0; d < 2; d++) {
        stoke_device *device = feeding_device(devices[d]);
        for (int way = 0; way < 6; way++)
            for (f.data.workers = 0; f.data.workers <= 2; f.data.workers++)
                check_way(&f, device, way % 2, way / 2);
        stoke_device_close(&device);
    }
    feeding_end(&f);
}

/* ---- which batches have a record ---- */

static void on_simulated(void **state, const stoke_upload_params *ways, size_t n,
                         void (*check)(const feeding *, stoke_upload *))
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("sim:rtx3090");
    for (size_t i = 0; i < n; i++) {
        stoke_upload *upload = feeding_open(&f, device, ways[i]);
        check(&f, upload);
        stoke_upload_destroy(&upload);
    }
    stoke_device_close(&device);
    feeding_end(&f);
}

static void with_a_thread_and_without(void **state, void (*check)(const feeding *, stoke_upload *))
{
    const stoke_upload_params ways[] = {
        feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_STREAM, 2),
        feeding_params(STOKE_PLACEMENT_DEVICE, STOKE_TRANSFER_PINNED, 2),
    };
    on_simulated(state, ways, 2, check);
}

static void check_without_steps(const feeding *f, stoke_upload *upload)
{
    static const int steps[MOST] = { 0, 1, 1, 0, 0, 1, 0, 1, 0 };
    const stoke_step_record *records;
    assert_int_equal(stoke_fake_step(upload, step_ms, NULL), 0); /* of no batch */
    record(upload, MOST);
    for (size_t i = 0; i < MOST; i++) {
        if (i && i % BATCHES == 0) assert_int_equal(stoke_upload_set_epoch(upload, i / BATCHES), 0);
        one_batch(upload, steps[i]);
    }
    assert_int_equal(finish(upload, &records), 4);
    check_records(f, upload, records, 4, 0, (const size_t[]){ 1, 2, 5, 7 });
}

static void a_batch_without_a_step_has_none(void **state)
{
    with_a_thread_and_without(state, check_without_steps);
}

static void check_discarded(const feeding *f, stoke_upload *upload)
{
    static const size_t of[] = { 0, 1, 6, 7, 3, 4, 0, 5, 6 };
    static const uint32_t first[] = { 1, 0, 1, 0, 1, 0, 1, 1, 0 };
    const size_t n = sizeof of / sizeof *of;
    const stoke_step_record *records;
    char saved[512];
    record(upload, MOST);
    run(upload, 0, 2);
    for (uint64_t epoch = 2; epoch >= 1; epoch--) { /* in the middle of others */
        assert_int_equal(stoke_upload_set_epoch(upload, epoch), 0);
        one_batch(upload, 1);
        one_batch(upload, 1);
    }
    assert_in_range(stoke_upload_state(upload, saved, sizeof saved), 1, sizeof saved - 1);
    assert_int_equal(stoke_upload_set_epoch(upload, 0), 0);
    one_batch(upload, 1);
    assert_int_equal(stoke_upload_restore(upload, saved, NULL), 0); /* before the last batch of epoch 1 */
    one_batch(upload, 1);
    assert_int_equal(stoke_upload_set_epoch(upload, 2), 0); /* which the workers are on already */
    one_batch(upload, 1);
    assert_int_equal(finish(upload, &records), n);
    check_records(f, upload, records, n, 0, of);
    for (size_t i = 0; i < n; i++) assert_int_equal(records[i].first_of_epoch, first[i]);
}

static void discarded_batches_have_none(void **state)
{
    with_a_thread_and_without(state, check_discarded);
}

static void check_room(const feeding *f, stoke_upload *upload)
{
    const stoke_step_record *records;
    const stoke_device_batch *batch;
    record(upload, 2);
    run(upload, 0, 4);
    assert_int_equal(finish(upload, &records), 2);
    check_records(f, upload, records, 2, 0, NULL);
    /* Again, from the next batch on: not of the one that came last. */
    record(upload, 2);
    assert_int_equal(stoke_upload_records(upload, &records), 0);
    assert_int_equal(stoke_fake_step(upload, step_ms, NULL), 0);
    one_batch(upload, 1);
    assert_int_equal(finish(upload, &records), 1);
    check_records(f, upload, records, 1, 4, NULL);
    /* No more: those that are there stay, the batch that is out gets none. */
    assert_int_equal(stoke_upload_next(upload, &batch), 0);
    record(upload, 0);
    assert_int_equal(stoke_fake_step(upload, step_ms, NULL), 0);
    stoke_upload_release(upload, &batch);
    run(upload, 6, MOST);
    assert_int_equal(finish(upload, &records), 1);
    check_records(f, upload, records, 1, 4, NULL);
}

static void what_has_no_room_is_dropped(void **state)
{
    with_a_thread_and_without(state, check_room);
}

/* All is known of batches that were made and sent before anybody wanted to know. */
static void check_late(const feeding *f, stoke_upload *upload)
{
    const stoke_step_record *records;
    run(upload, 0, 2);
    assert_int_equal(stoke_upload_finish(upload, NULL), 0);
    record(upload, MOST);
    run(upload, 2, MOST);
    assert_int_equal(finish(upload, &records), MOST - 2);
    check_records(f, upload, records, MOST - 2, 2, NULL);
}

static void a_diary_begun_late_has_a_past(void **state)
{
    with_a_thread_and_without(state, check_late);
}

static uint32_t pages_in_use(const stoke_upload *upload)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < upload->observer.step_log.pages; i++)
        n += upload->observer.step_log.page[i].state != STK_PAGE_FREE;
    return n;
}

static void check_pages(const feeding *f, stoke_upload *upload)
{
    const stoke_step_record *records;
    assert_int_equal(pages_in_use(upload), 0); /* batches were sent to choose a placement */
    run(upload, 0, 2);
    assert_int_equal(pages_in_use(upload), 0);
    record(upload, MOST);
    run(upload, 2, MOST);
    assert_int_equal(finish(upload, &records), MOST - 2);
    check_records(f, upload, records, MOST - 2, 2, NULL);
    assert_int_equal(pages_in_use(upload), 1); /* the batch that came last may have another step */
}

static void pages_are_given_back(void **state)
{
    const stoke_upload_params way = feeding_params(STOKE_PLACEMENT_AUTO, STOKE_TRANSFER_PINNED, 2);
    on_simulated(state, &way, 1, check_pages);
}

static void check_memory(const feeding *f, stoke_upload *upload)
{
    const stoke_step_record *records;
    stoke_error err = { 0 };
    record(upload, 3);
    run(upload, 0, 1);
    stk_mem_fail_after(0);
    const int r = stoke_upload_record(upload, 5, &err);
    stk_mem_fail_after(-1);
    assert_int_equal(r, STOKE_E_NOMEM);
    assert_non_null(strstr(err.message, "records"));
    run(upload, 1, 2); /* as if it had not been asked for */
    assert_int_equal(finish(upload, &records), 2);
    check_records(f, upload, records, 2, 0, NULL);
}

static void lack_of_memory_changes_nothing(void **state)
{
    feeding f = feeding_begin(state);
    stoke_device *device = feeding_device("host");
    f.data.workers = 0; /* nobody else may be out of memory meanwhile */
    stoke_upload *upload = feeding_open(&f, device, feeding_params(0, STOKE_TRANSFER_PINNED, 2));
    check_memory(&f, upload);
    stoke_upload_destroy(&upload);
    stoke_device_close(&device);
    feeding_end(&f);
}

/* ---- steps ---- */

static void check_several(const feeding *f, stoke_upload *upload)
{
    const uint64_t ns = (uint64_t)(step_ms * 1e6);
    const stoke_step_record *records;
    const stoke_device_batch *batch;
    record(upload, MOST);
    one_batch(upload, 3);
    assert_int_equal(stoke_upload_next(upload, &batch), 0);
    assert_int_equal(stoke_fake_step(upload, step_ms, NULL), 0);
    assert_int_equal(finish(upload, &records), 2);
    assert_int_equal(records[0].busy_ns, 3 * ns);
    assert_int_equal(records[1].busy_ns, ns);
    const stoke_step_record before = records[1];
    /* One more on the same batch, after a gap: its record is open again until that has ended too. */
    assert_int_equal(stoke_fake_step(upload, step_ms, NULL), 0);
    assert_int_equal(upload->observer.step_log.count, 1);
    assert_int_equal(finish(upload, &records), 2);
    assert_int_equal(records[1].busy_ns, 2 * ns);
    assert_int_equal(records[1].start, before.start);
    assert_int_equal(records[1].launched, before.launched);
    assert_true(records[1].end > before.end + ns);
    stoke_upload_release(upload, &batch);
    one_batch(upload, 1);
    assert_int_equal(finish(upload, &records), 3);
    for (size_t i = 0; i < 3; i++) assert_int_equal(records[i].number, i);
    assert_int_equal(records[2].samples, f->expected[2].count);
}

static void steps_of_a_batch_are_one_record(void **state)
{
    with_a_thread_and_without(state, check_several);
}

/* More steps under way than have events: their times are read in between, and none is lost. */
static void check_many(const feeding *f, stoke_upload *upload)
{
    enum { MANY = STK_STEPS + 10 };
    const stoke_step_record *records;
    record(upload, MANY);
    run(upload, 0, MANY);
    assert_int_equal(finish(upload, &records), MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(records[i].number, i);
        assert_int_equal(records[i].epoch, i / BATCHES);
        check_moments(&records[i], i, 0, upload->transfer);
    }
}

static void many_steps_are_under_way(void **state)
{
    const stoke_upload_params way = feeding_params(STOKE_PLACEMENT_HOST, STOKE_TRANSFER_STREAM, 2);
    on_simulated(state, &way, 1, check_many);
}

/* ---- the step_log alone ---- */

/* Trips and steps are read by two threads: either may be late. */
static void events_are_read_in_any_order(void **state)
{
    const stk_batch_times making = { .began = 1, .ready = 2, .first = 1, .window_ns = 3 };
    const stoke_batch batch = { .epoch = 7, .count = 4 };
    const stk_busy_interval kernels = { 30, 40 };
    stk_step_log step_log;
    assert_int_equal(stk_step_log_create(&step_log, 3, NULL), 0);
    assert_null(stk_step_log_begin(&step_log, stk_calloc(2, sizeof *step_log.records), 2));
    for (uint64_t trip = 0; trip < 3; trip++) stk_step_log_sent(&step_log, trip, &batch, &making, 10 + trip);
    stk_step_log_taken(&step_log, 0, 11, 12);
    assert_int_equal(stk_step_log_launched(&step_log, 0, 13), 0);
    stk_step_log_ended(&step_log, 0, (stk_busy_interval){ 50, 60 }); /* before its trip was read */
    assert_int_equal(step_log.count, 0);
    stk_step_log_taken(&step_log, 1, 14, 15);
    assert_int_equal(stk_step_log_launched(&step_log, 1, 16), 1); /* the last that has room */
    stk_step_log_arrived(&step_log, 0, (stk_busy_interval){ 20, 30 }, 99, &kernels);
    assert_int_equal(step_log.count, 1);
    stk_step_log_arrived(&step_log, 1, (stk_busy_interval){ 21, 31 }, 98, NULL);
    stk_step_log_taken(&step_log, 2, 17, 18);
    assert_int_equal(stk_step_log_launched(&step_log, 2, 19), 0);
    stk_step_log_ended(&step_log, 1, (stk_busy_interval){ 60, 65 });
    stk_step_log_ended(&step_log, 2, (stk_busy_interval){ 65, 70 });
    assert_int_equal(step_log.count, 2);
    const stoke_step_record wanted = {
        .epoch = 7,
        .samples = 4,
        .first_of_epoch = 1,
        .began = 1,
        .ready = 2,
        .asked = 11,
        .got = 12,
        .window_ns = 3,
        .sent = 10,
        .launched = 13,
        .end = 60,
        .copy_start = 20,
        .copy_end = 30,
        .copy_bytes = 99,
        .augment_start = 30,
        .busy_ns = 10,
        .start = 50,
        .number = 0,
        .augment_end = 40,
    };
    assert_memory_equal(&step_log.records[0], &wanted, sizeof wanted);
    assert_int_equal(step_log.records[1].number, 1);
    assert_int_equal(step_log.records[1].augment_end, 0);
    assert_int_equal(step_log.records[1].end, 65);
    for (uint32_t i = 0; i < step_log.pages; i++) assert_int_equal(step_log.page[i].state, STK_PAGE_FREE);
    stk_step_log_destroy(&step_log);
}

static void makings_have_names(void **state)
{
    static const char *const names[] = { "read", "decode", "fit", "augment", "collate", "unknown" };
    for (int i = 0; i <= STOKE_WORK_KINDS; i++) assert_string_equal(stoke_work_name(i), names[i]);
    assert_string_equal(stoke_work_name(-1), "unknown");
}

UNIT_GROUP(record)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(moments_are_in_order),
        unit_test_with_folder(a_batch_without_a_step_has_none),
        unit_test_with_folder(discarded_batches_have_none),
        unit_test_with_folder(what_has_no_room_is_dropped),
        unit_test_with_folder(a_diary_begun_late_has_a_past),
        unit_test_with_folder(pages_are_given_back),
        unit_test_with_folder(lack_of_memory_changes_nothing),
        unit_test_with_folder(steps_of_a_batch_are_one_record),
        unit_test_with_folder(many_steps_are_under_way),
        cmocka_unit_test(events_are_read_in_any_order),
        cmocka_unit_test(makings_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
