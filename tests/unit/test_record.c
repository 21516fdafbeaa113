/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of steps: moments in the order they must have, sums that are those of the book, and nothing about
 * batches that were discarded or never stepped on.
 */
#include "tests/unit/feeding.h"

#include <pthread.h>
#include <stoke/record.h>

#include "src/base/clock.h"
#include "src/base/mem.h"
#include "src/feed/diary.h"
#include "tests/unit/paper.h"

static const double step_ms = 0.2;

/* ---- what holds for every record ---- */

#define ordered(a, b)                                                                                        \
    if ((a) > (b)) fail_msg("record %zu: %s is %llu ns after %s", i, #a, (unsigned long long)((a) - (b)), #b)

static void check_making(const stoke_step_record *r, size_t i)
{
    uint64_t wall = 0;
    for (int m = 0; m < STOKE_MAKINGS; m++) {
        const stoke_making_time *time = &r->making[m];
        assert_true(time->cpu_ns <= time->wall_ns);
        assert_true(time->queued_ns <= time->wall_ns - time->cpu_ns);
        wall += time->wall_ns;
    }
    assert_true(r->making[STOKE_MAKING_READ].wall_ns && r->making[STOKE_MAKING_DECODE].wall_ns);
    assert_true(r->making[STOKE_MAKING_FIT].wall_ns && r->making[STOKE_MAKING_AUGMENT].wall_ns);
    assert_int_equal(r->making[STOKE_MAKING_COLLATE].wall_ns, 0);
    ordered(r->began, r->ready);
    assert_true(r->began && wall <= 2 * (r->ready - r->began)); /* two workers at most */
    assert_int_equal(r->pin_start, 0);
    assert_int_equal(r->pin_end, 0);
}

/* On paper and on the host, one clock stamps everything. */
static void check_moments(const stoke_step_record *r, size_t i, int kernels)
{
    ordered(r->ready, r->sent);
    ordered(r->sent, r->copy_start);
    ordered(r->copy_start, r->copy_end);
    if (kernels) {
        ordered(r->copy_end, r->augment_start);
        ordered(r->augment_start, r->augment_end);
        ordered(r->augment_end, r->start);
    } else {
        assert_int_equal(r->augment_start, 0);
        assert_int_equal(r->augment_end, 0);
    }
    ordered(r->copy_end, r->start);
    ordered(r->asked, r->got);
    ordered(r->got, r->launched);
    ordered(r->launched, r->start);
    ordered(r->start, r->end);
    assert_true(r->asked && r->copy_bytes && r->busy_ns);
    assert_int_equal(r->busy_ns, r->end - r->start);
}

/* `at`: which of the batches that a loader gives the first record is of. */
static void check_records(const feeding *f, const stoke_step_record *records, size_t n, size_t at,
                          int kernels)
{
    for (size_t i = 0; i < n; i++) {
        const stoke_step_record *r = &records[i];
        assert_int_equal(r->number, i);
        assert_int_equal(r->epoch, f->expected[at + i].epoch);
        assert_int_equal(r->samples, f->expected[at + i].count);
        check_making(r, i);
        check_moments(r, i, kernels);
        if (i) {
            ordered(records[i - 1].end, r->start);
            ordered(records[i - 1].got, r->asked);
        }
    }
}

/* ---- runs ---- */

static void one_step(stoke_feed *feed, int steps)
{
    const stoke_device_batch *batch;
    const int r = stoke_feed_next(feed, &batch);
    if (r) fail_msg("%d: %s", r, stoke_feed_error(feed));
    for (int i = 0; i < steps; i++) assert_int_equal(stoke_feed_step(feed, step_ms, NULL), 0);
    stoke_feed_release(feed, &batch);
}

/* `n` batches from where the feed stands, with the ends of epochs between them. */
static void some_steps(stoke_feed *feed, size_t n, size_t at)
{
    for (size_t i = at; i < at + n; i++) {
        if (i && i % BATCHES == 0) assert_int_equal(stoke_feed_set_epoch(feed, i / BATCHES), 0);
        one_step(feed, 1);
    }
}

static size_t all_records(stoke_feed *feed, const stoke_step_record **records)
{
    assert_int_equal(stoke_feed_finish(feed, NULL), 0);
    return stoke_feed_records(feed, records);
}

static void check_sums(stoke_feed *feed, const stoke_step_record *records, size_t n)
{
    stoke_feed_stats stats;
    uint64_t busy = 0;
    for (size_t i = 1; i < n; i++)
        busy += records[i].busy_ns; /* the window begins with the first step's end */
    assert_int_equal(stoke_feed_measure(feed, &stats, NULL), 0);
    assert_int_equal(stats.steps, n - 1);
    assert_int_equal(stats.step_ns, busy);
    assert_int_equal(stats.elapsed_ns, records[n - 1].end - records[0].end);
}

static void check_way(const feeding *f, stoke_device *device, int placement, int transfer)
{
    const stoke_step_record *records;
    stoke_feed *feed = feeding_open(f, device, feeding_params(placement, transfer, 2));
    assert_int_equal(stoke_feed_records(feed, &records), 0);
    assert_int_equal(stoke_feed_record(feed, MOST + 1, NULL), 0);
    stoke_feed_mark(feed);
    some_steps(feed, MOST, 0);
    assert_int_equal(all_records(feed, &records), MOST);
    check_records(f, records, MOST, 0, placement == STOKE_PLACEMENT_DEVICE);
    check_sums(feed, records, MOST);
    for (size_t i = 0; i < MOST; i++) assert_int_equal(records[i].first_of_epoch, i == 0);
    if (!f->data.workers)
        for (size_t i = 0; i < MOST; i++) assert_int_equal(records[i].window_ns, 0);
    stoke_feed_destroy(&feed);
}

static void moments_are_in_order(void **state)
{
    static const char *const devices[] = { "host", "virtual:rtx3090" };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(moments_are_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
