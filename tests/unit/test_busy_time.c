/* SPDX-License-Identifier: Apache-2.0
 *
 * Intervals added up: windows, overlaps, unions, and books that are full.
 */
#include <stoke/tools/upload.h>
#include "tests/unit/unit.h"

#include "src/observe/observer.h"

static stk_busy_time begin(int exclusive)
{
    stk_busy_time book;
    assert_int_equal(stk_busy_time_create(&book, exclusive, NULL), 0);
    stk_busy_time_open(&book, 0);
    return book;
}

static void add(stk_busy_time *book, stk_busy_work work, uint64_t start, uint64_t end)
{
    stk_busy_time_add(book, work, (stk_busy_interval){ start, end }, work == STK_WORK_COPY ? 1000 : 0);
}

static stoke_upload_stats sum(stk_busy_time *book)
{
    stoke_upload_stats stats;
    stk_busy_time_sum(book, &stats);
    return stats;
}

/*          10   20   30   40   50   60   70   80
 * steps    |====|    |====|         |====|          window 20 .. 70
 * copies   --     --------      --            ----
 * augment            ~~~~ ~~~                       */
static void window_runs_from_the_first_step_to_the_last(void **state)
{
    stk_busy_time book = begin(0);
    add(&book, STK_WORK_COPY, 8, 12); /* before the window */
    add(&book, STK_WORK_STEP, 10, 20);
    add(&book, STK_WORK_COPY, 25, 35); /* half of it hidden by the step */
    add(&book, STK_WORK_STEP, 30, 40);
    add(&book, STK_WORK_AUGMENT, 30, 34); /* at the same time as a step */
    add(&book, STK_WORK_AUGMENT, 44, 50);
    add(&book, STK_WORK_COPY, 48, 53); /* 2 of 5 hidden by kernels */
    add(&book, STK_WORK_STEP, 60, 70);
    add(&book, STK_WORK_COPY, 75, 79); /* after it */
    const stoke_upload_stats s = sum(&book);
    assert_int_equal(s.elapsed_ns, 50);
    assert_int_equal(s.batches, 2);
    assert_int_equal(s.bytes, 2000);
    assert_int_equal(s.copy_ns, 15);
    assert_int_equal(s.copy_hidden_ns, 5 + 2);
    assert_int_equal(s.augment_ns, 4 + 6);
    assert_int_equal(s.steps, 2);
    assert_int_equal(s.step_ns, 20);
    assert_int_equal(s.busy_ns, 10 + 6 + 10);
    stk_busy_time_destroy(&book);
}

static void sums_go_on_after_they_were_asked_for(void **state)
{
    stk_busy_time book = begin(0), other = begin(0);
    static const uint64_t steps[][2] = { { 10, 20 }, { 22, 30 }, { 31, 40 }, { 45, 50 } };
    for (size_t i = 0; i < 4; i++) {
        add(&book, STK_WORK_STEP, steps[i][0], steps[i][1]);
        add(&other, STK_WORK_STEP, steps[i][0], steps[i][1]);
        add(&book, STK_WORK_COPY, steps[i][1], steps[i][1] + 3);
        add(&other, STK_WORK_COPY, steps[i][1], steps[i][1] + 3);
        sum(&book);
    }
    const stoke_upload_stats a = sum(&book), b = sum(&other);
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(b.busy_ns, 8 + 9 + 5);
    assert_int_equal(b.batches, 3); /* the last copy ended after the last step */
    stk_busy_time_destroy(&book);
    stk_busy_time_destroy(&other);
}

static void one_engine_does_one_thing_at_a_time(void **state)
{
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        stk_busy_time book = begin(exclusive);
        add(&book, STK_WORK_STEP, 0, 10);
        add(&book, STK_WORK_STEP, 20, 30);
        add(&book, STK_WORK_AUGMENT, 15, 33); /* stood in line behind the step */
        add(&book, STK_WORK_STEP, 33, 40);
        assert_int_equal(sum(&book).augment_ns, exclusive ? 8 : 18);
        assert_int_equal(sum(&book).busy_ns, 25);
        stk_busy_time_destroy(&book);
    }
}

static void without_steps_everything_counts(void **state)
{
    stk_busy_time book = begin(0);
    add(&book, STK_WORK_COPY, 10, 20);
    add(&book, STK_WORK_COPY, 30, 45);
    const stoke_upload_stats s = sum(&book);
    assert_int_equal(s.batches, 2);
    assert_int_equal(s.copy_ns, 25);
    assert_int_equal(s.copy_hidden_ns, 0);
    assert_int_equal(s.elapsed_ns, 0);
    stk_busy_time_destroy(&book);
}

static void what_ended_before_the_mark_does_not_count(void **state)
{
    stk_busy_time book = begin(0);
    stk_busy_time_open(&book, 100);
    add(&book, STK_WORK_STEP, 80, 100);
    add(&book, STK_WORK_STEP, 100, 120); /* the first */
    add(&book, STK_WORK_STEP, 120, 140);
    assert_int_equal(sum(&book).step_ns, 20);
    assert_int_equal(sum(&book).elapsed_ns, 20);
    stk_busy_time_open(&book, 200);
    assert_int_equal(sum(&book).step_ns, 0);
    stk_busy_time_destroy(&book);
}

static void a_book_never_fills_up(void **state)
{
    stk_busy_time book = begin(0);
    enum { STEPS = 3 * STK_BUSY_TIME_ROOM + 7 };
    for (uint64_t i = 0; i < STEPS; i++) {
        add(&book, STK_WORK_COPY, 10 * i, 10 * i + 4); /* two of four hidden */
        add(&book, STK_WORK_STEP, 10 * i + 2, 10 * i + 9);
    }
    const stoke_upload_stats s = sum(&book);
    assert_int_equal(s.steps, STEPS - 1);
    assert_int_equal(s.step_ns, 7 * (STEPS - 1));
    assert_int_equal(s.busy_ns, s.step_ns);
    assert_int_equal(s.elapsed_ns, 10 * (STEPS - 1));
    assert_int_equal(s.batches, STEPS - 1);
    assert_int_equal(s.copy_hidden_ns, 2 * (STEPS - 1));
    stk_busy_time_destroy(&book);
    book = begin(0); /* nobody steps after the first: copies must not pile up */
    add(&book, STK_WORK_STEP, 0, 5);
    for (uint64_t i = 1; i < 3 * STK_BUSY_TIME_ROOM; i++) add(&book, STK_WORK_COPY, 10 * i, 10 * i + 4);
    assert_int_equal(sum(&book).batches, 0);
    stk_busy_time_destroy(&book);
}

UNIT_GROUP(busy_time)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_runs_from_the_first_step_to_the_last),
        cmocka_unit_test(sums_go_on_after_they_were_asked_for),
        cmocka_unit_test(one_engine_does_one_thing_at_a_time),
        cmocka_unit_test(without_steps_everything_counts),
        cmocka_unit_test(what_ended_before_the_mark_does_not_count),
        cmocka_unit_test(a_book_never_fills_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
