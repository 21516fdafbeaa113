/* SPDX-License-Identifier: Apache-2.0
 *
 * Attribution: every cut of the chains by hand, what is missing, and that all of it sums to the nanosecond
 * whatever records say.
 */
#include <stoke/tools/diagnose.h>

#include "src/base/mem.h"
#include "unit.h"

enum { MOST = 16 };

typedef struct run {
    stoke_step_record record[MOST];
    size_t n;
    stoke_setup setup;
    stoke_attribution out;
    uint64_t row[MOST][STOKE_IDLES];
} run;

/* Steps that follow each other from 1000 to 1000 + 100 n, each busy from 1040 + 100 i on: 40 ns idle before
 * each. Everything was there long before. */
static void begin(run *r, size_t n)
{
    memset(r, 0, sizeof *r);
    r->n = n;
    r->setup = stoke_setup_defaults();
    r->setup.workers = 2;
    for (size_t i = 0; i < n; i++) {
        stoke_step_record *x = &r->record[i];
        const uint64_t at = 900 + 100 * i;
        x->number = i;
        x->samples = 8;
        x->start = at + 40;
        x->end = at + 100;
        x->busy_ns = 60;
        x->ready = 500 + i;
        x->asked = x->got = x->sent = x->launched = 600 + i;
        x->copy_start = 700 + 2 * i;
        x->copy_end = 702 + 2 * i;
        x->copy_bytes = 1;
        x->making[STOKE_WORK_DECODE] = (stoke_work_time){ 10, 10, 0 };
    }
}

static void check_sums(const run *r, size_t from)
{
    uint64_t sum = 0, inputs = 0, by_step[STOKE_IDLES] = { 0 };
    for (int k = 0; k < STOKE_IDLES; k++) {
        sum += r->out.idle[k];
        if (k < STOKE_IDLE_INPUTS) inputs += r->out.idle[k];
        for (size_t i = 0; i < r->n - from; i++) by_step[k] += r->row[i][k];
        assert_true(by_step[k] == r->out.idle[k]);
    }
    assert_true(sum == r->out.idle_ns);
    assert_true(inputs == r->out.input_ns);
    assert_true(r->out.busy_ns + r->out.idle_ns == r->out.elapsed_ns);
    assert_true(r->out.busy_ns <= r->out.elapsed_ns);
    assert_true(r->out.elapsed_ns == r->record[r->n - 1].end - r->record[from - 1].end);
    assert_true(r->out.steps == r->n - from);
    assert_true(r->out.overlapped_copy_ns <= r->out.copy_ns);
    assert_true((r->out.unknown_after >= 0) == (r->out.idle[STOKE_IDLE_UNKNOWN] > 0));
}

static void attribute(run *r)
{
    stoke_error err = { 0 };
    if (stoke_attribute(r->record, r->n, 1, &r->setup, &r->out, r->row, &err)) fail_msg("%s", err.message);
    check_sums(r, 1);
}

/* The idle time of the last step, by pairs of cause and ns, -1 at the end; nothing else. */
static void expect(const run *r, const int *pairs)
{
    uint64_t row[STOKE_IDLES] = { 0 };
    for (; *pairs >= 0; pairs += 2) row[pairs[0]] = (uint64_t)pairs[1];
    for (int k = 0; k < STOKE_IDLES; k++)
        if (r->row[r->n - 2][k] != row[k])
            fail_msg("%s is %llu ns, not %llu", stoke_idle_name(k), (unsigned long long)r->row[r->n - 2][k],
                     (unsigned long long)row[k]);
}
#define EXPECT(r, ...) expect(r, (const int[]){ __VA_ARGS__, -1 })

/* The last of three: its gap is from 1100 to 1140. */
static stoke_step_record *last(run *r)
{
    return &r->record[r->n - 1];
}

/* ---- chains ---- */

static void test_what_was_there_waits_for_its_launch(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_LAUNCH, 40);
    assert_true(r.out.elapsed_ns == 200 && r.out.busy_ns == 120 && r.out.idle_ns == 80);
    assert_int_equal(r.out.unknown_after, -1);
}

static void test_cuts_the_chain_of_the_loop(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    r.setup.transfer = STOKE_TRANSFER_PINNED;
    *last(&r) = (stoke_step_record){ .number = 2,
                                     .ready = 1105,
                                     .making[STOKE_WORK_DECODE] = { 10, 10, 0 },
                                     .pin_start = 1105,
                                     .pin_end = 1107,
                                     .asked = 1000,
                                     .got = 1110,
                                     .sent = 1112,
                                     .copy_start = 1114,
                                     .copy_end = 1125,
                                     .launched = 1131,
                                     .start = 1140,
                                     .end = 1200,
                                     .busy_ns = 53 };
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_DECODE, 5, STOKE_IDLE_PIN, 2, STOKE_IDLE_HOST, 3 + 6, STOKE_IDLE_COPY_QUEUE, 4,
           STOKE_IDLE_COPY, 11, STOKE_IDLE_LAUNCH, 9, STOKE_IDLE_INSIDE, 7);
    assert_true(r.out.fetch_ns == 110);
}

static void test_cuts_the_chain_of_a_stream(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    last(&r)->ready = 1105;
    last(&r)->got = 1138; /* of no matter here: the copy did not wait for the loop */
    last(&r)->copy_start = 1114;
    last(&r)->copy_end = 1125;
    last(&r)->launched = 1131;
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_DECODE, 5, STOKE_IDLE_COPY_QUEUE, 9, STOKE_IDLE_COPY, 11, STOKE_IDLE_HOST, 6,
           STOKE_IDLE_LAUNCH, 9);
}

static void test_without_workers_the_loop_makes_its_batches(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    r.setup.workers = 0;
    r.setup.transfer = STOKE_TRANSFER_PAGEABLE;
    last(&r)->asked = 1103;
    last(&r)->ready = 1120;
    last(&r)->got = 1135; /* after the copy it waited for: the copy counts */
    last(&r)->copy_start = 1121;
    last(&r)->copy_end = 1133;
    last(&r)->launched = 1136;
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_HOST, 3 + 1 + 3, STOKE_IDLE_DECODE, 17, STOKE_IDLE_COPY, 12, STOKE_IDLE_LAUNCH, 4);
    r.setup.transfer = STOKE_TRANSFER_STREAM; /* the upload's thread makes them, whenever the loop asks */
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_DECODE, 20, STOKE_IDLE_COPY_QUEUE, 1, STOKE_IDLE_COPY, 12, STOKE_IDLE_HOST, 3,
           STOKE_IDLE_LAUNCH, 4);
    r.setup.by_batch = 1; /* in PyTorch the loop does, with or without a stream for copies */
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_HOST, 3 + 3, STOKE_IDLE_DECODE, 17, STOKE_IDLE_COPY_QUEUE, 1, STOKE_IDLE_COPY, 12,
           STOKE_IDLE_LAUNCH, 4);
}

static void test_early_launches_are_not_late(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    r.setup.transfer = STOKE_TRANSFER_PINNED;
    last(&r)->copy_start = 1100;
    last(&r)->copy_end = 1130;
    last(&r)->launched = 1001; /* asynchronous: before the step before has ended */
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_COPY, 30, STOKE_IDLE_LAUNCH, 10);
}

static void test_kernels_of_any_batch_are_work(void **state)
{
    run r;
    (void)state;
    begin(&r, 4);
    for (int i = 0; i < 4; i++) r.record[i].augment_start = r.record[i].augment_end = 800;
    r.record[3].augment_start = 1205; /* its own, in its gap from 1200 to 1240 */
    r.record[3].augment_end = 1215;
    r.record[2].augment_start = 1010; /* of a later batch, in the gap of record 1 and into its step */
    r.record[2].augment_end = 1060;
    attribute(&r);
    assert_true(r.row[0][STOKE_IDLE_LAUNCH] == 10);
    assert_true(r.row[1][STOKE_IDLE_LAUNCH] == 40);
    assert_true(r.row[2][STOKE_IDLE_LAUNCH] == 30);
    assert_true(r.out.busy_ns == 3 * 60 + 30 + 10);
    assert_true(r.out.augment_ns == 60);
}

static void test_copies_beside_work_are_overlapped(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    r.record[1].copy_start = 980; /* half of it before the window */
    r.record[1].copy_end = 1020;
    last(&r)->copy_start = 1080;
    last(&r)->copy_end = 1130;
    attribute(&r);
    assert_true(r.out.copy_ns == 20 + 50);
    assert_true(r.out.overlapped_copy_ns == 20);
    assert_true(r.out.idle[STOKE_IDLE_COPY] == 20 + 30);
}

static void test_device_in_host_memory_has_no_copies(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    r.setup.transfer = STOKE_TRANSFER_PINNED;
    last(&r)->copy_start = last(&r)->copy_end = last(&r)->copy_bytes = 0;
    last(&r)->got = 1110;
    last(&r)->launched = 1115;
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_HOST, 15, STOKE_IDLE_LAUNCH, 25);
}

/* ---- input ---- */

static void test_first_of_an_epoch_waits_for_its_start(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    last(&r)->ready = last(&r)->copy_start = last(&r)->copy_end = 1130;
    last(&r)->first_of_epoch = 1;
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_EPOCH_START, 30, STOKE_IDLE_LAUNCH, 10);
}

static void test_divides_input_by_state_and_not_by_overlap(void **state)
{
    run r;
    (void)state;
    begin(&r, 4);
    r.setup.prefetch = 2;
    last(&r)->ready = last(&r)->copy_start = last(&r)->copy_end = 1234; /* 34 of the gap from 1200 to 1240 */
    r.record[1].making[STOKE_WORK_FIT] = (stoke_work_time){ 999, 999, 0 }; /* out of the window of two */
    r.record[2].making[STOKE_WORK_DECODE] = (stoke_work_time){ 20, 12, 3 };
    r.record[2].making[STOKE_WORK_READ] = (stoke_work_time){ 12, 2, 0 };
    r.record[3].making[STOKE_WORK_DECODE] = (stoke_work_time){ 0 };
    r.record[3].making[STOKE_WORK_AUGMENT] = (stoke_work_time){ 20, 20, 0 };
    r.record[3].making[STOKE_WORK_COLLATE] = (stoke_work_time){ 6, 6, 0 };
    r.record[3].window_ns = 10;
    attribute(
        &r); /* decode 12, queued 3, files 5 + 10, read 2, augment 20, collate 6, window 10: 68 in all */
    EXPECT(&r, STOKE_IDLE_DECODE, 6, STOKE_IDLE_CONTENTION, 2, STOKE_IDLE_FILES, 7, STOKE_IDLE_READ, 1,
           STOKE_IDLE_AUGMENT, 10, STOKE_IDLE_COLLATE, 3, STOKE_IDLE_WINDOW, 5, STOKE_IDLE_LAUNCH, 6);
}

static void test_a_later_batch_that_is_ready_shows_order(void **state)
{
    run r;
    (void)state;
    begin(&r, 4);
    r.n = 4;
    r.record[2].ready = r.record[2].copy_start = r.record[2].copy_end = 1135;
    r.record[3].ready = 1110;
    attribute(&r);
    assert_true(r.row[1][STOKE_IDLE_DECODE] == 10 && r.row[1][STOKE_IDLE_ORDER] == 25);
    assert_true(r.row[2][STOKE_IDLE_ORDER] == 0);
    r.setup.workers = 1; /* nobody could have overtaken */
    attribute(&r);
    assert_true(r.row[1][STOKE_IDLE_DECODE] == 35 && r.row[1][STOKE_IDLE_ORDER] == 0);
}

static void test_batches_come_in_order(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    r.setup.workers = 1;
    r.record[1].ready = 1120; /* used at 1040, absurdly: then the next cannot have been there before 1120 */
    last(&r)->ready = 505;
    last(&r)->copy_start = last(&r)->copy_end = 1125;
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_DECODE, 20, STOKE_IDLE_COPY_QUEUE, 5, STOKE_IDLE_LAUNCH, 15);
}

/* ---- what is missing ---- */

static void test_missing_moments_are_unknown_and_never_zero(void **state)
{
    static const struct {
        size_t moment;
        int after;
        uint64_t unknown;
    } cases[] = {
        { offsetof(stoke_step_record, ready), STOKE_IDLE_INSIDE, 10 },        /* up to got */
        { offsetof(stoke_step_record, got), STOKE_IDLE_COLLATE, 9 },          /* ready to copy_start */
        { offsetof(stoke_step_record, copy_start), STOKE_IDLE_HOST, 15 },     /* got to copy_end */
        { offsetof(stoke_step_record, copy_end), STOKE_IDLE_COPY_QUEUE, 17 }, /* copy_start to launched */
        { offsetof(stoke_step_record, launched), STOKE_IDLE_COPY, 15 },       /* copy_end to start */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r;
        begin(&r, 3);
        r.setup.transfer = STOKE_TRANSFER_PINNED;
        last(&r)->ready = 1105;
        last(&r)->got = 1110;
        last(&r)->copy_start = 1114;
        last(&r)->copy_end = 1125;
        last(&r)->launched = 1131;
        *(uint64_t *)((char *)last(&r) + cases[i].moment) = 0;
        attribute(&r);
        assert_true(r.row[1][STOKE_IDLE_UNKNOWN] == cases[i].unknown);
        assert_int_equal(r.out.unknown_after, cases[i].after);
    }
}

static void test_unknown_follows_the_longest(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    r.record[1].launched = 0; /* 40 after the copy */
    last(&r)->ready = 0;      /* nothing: its copy was done before */
    attribute(&r);
    assert_int_equal(r.out.unknown_after, STOKE_IDLE_COPY);
    last(&r)->copy_start = last(&r)->copy_end = 0;
    last(&r)->launched = 0; /* 40 after nothing at all: the step before */
    r.record[1].start -= 1;
    r.record[1].busy_ns = 61;
    attribute(&r);
    assert_int_equal(r.out.unknown_after, STOKE_IDLE_INSIDE);
}

static void test_input_without_making_is_unknown(void **state)
{
    run r;
    (void)state;
    begin(&r, 3);
    for (int i = 0; i < 3; i++) memset(r.record[i].making, 0, sizeof r.record[i].making);
    last(&r)->ready = last(&r)->copy_start = last(&r)->copy_end = 1130;
    attribute(&r);
    EXPECT(&r, STOKE_IDLE_UNKNOWN, 30, STOKE_IDLE_LAUNCH, 10);
}

/* ---- hostile records ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Honest mostly; else unknown, at the edges of what a clock can say, or anything. */
static uint64_t any_moment(uint64_t *seed, uint64_t near)
{
    switch (next_random(seed) % 16) {
    case 0:
    case 1: return 0;
    case 2: return UINT64_MAX - next_random(seed) % 3;
    case 3: return next_random(seed);
    case 4: return 1 + next_random(seed) % 3;
    default: return near + next_random(seed) % 300 - 150;
    }
}

static void any_run(run *r, uint64_t *seed)
{
    memset(r, 0, sizeof *r);
    r->n = 2 + next_random(seed) % (MOST - 2);
    r->setup = stoke_setup_defaults();
    r->setup.workers = (uint32_t)(next_random(seed) % 4);
    r->setup.prefetch = next_random(seed) % 8 ? (uint32_t)(next_random(seed) % 5) : UINT32_MAX;
    r->setup.transfer = (int)(next_random(seed) % 3);
    r->setup.by_batch = (int)(next_random(seed) % 2);
    const int wild = next_random(seed) % 8 == 0;
    uint64_t at = 1000;
    for (size_t i = 0; i < r->n; i++) {
        stoke_step_record *x = &r->record[i];
        at += wild ? next_random(seed) >> 5 : next_random(seed) % 300;
        uint64_t *moments[] = { &x->began,       &x->ready,    &x->pin_start,  &x->pin_end,
                                &x->asked,       &x->got,      &x->sent,       &x->launched,
                                &x->copy_start,  &x->copy_end, &x->copy_bytes, &x->augment_start,
                                &x->augment_end, &x->busy_ns,  &x->window_ns };
        for (size_t k = 0; k < sizeof moments / sizeof *moments; k++) *moments[k] = any_moment(seed, at);
        for (int k = 0; k < STOKE_WORK_KINDS; k++) {
            const unsigned shift = wild ? 0 : 54;
            x->making[k] = (stoke_work_time){ next_random(seed) >> shift, next_random(seed) >> shift,
                                              next_random(seed) >> shift };
        }
        x->first_of_epoch = next_random(seed) % 6 == 0;
        x->end = at;
        x->start = at - next_random(seed) % (next_random(seed) % 8 ? 100 : at);
        if (!x->start) x->start = 1;
    }
}

static void test_sums_are_exact_whatever_records_say(void **state)
{
    (void)state;
    for (uint64_t k = 1; k <= 10000; k++) {
        uint64_t seed = k * 0x9E3779B97F4A7C15u;
        stoke_error err = { 0 };
        run r;
        any_run(&r, &seed);
        const size_t from = 1 + next_random(&seed) % (r.n - 1);
        if (stoke_attribute(r.record, r.n, from, &r.setup, &r.out, r.row, &err))
            fail_msg("list %llu: %s", (unsigned long long)k, err.message);
        check_sums(&r, from);
    }
}

static void test_refuses_what_has_no_order(void **state)
{
    stoke_error err = { 0 };
    run r;
    (void)state;
    begin(&r, 3);
    assert_int_equal(stoke_attribute(r.record, 3, 0, &r.setup, &r.out, NULL, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_attribute(r.record, 3, 3, &r.setup, &r.out, NULL, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_attribute(r.record, 0, 1, &r.setup, &r.out, NULL, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_attribute(r.record, 3, 2, &r.setup, &r.out, NULL, &err), STOKE_OK);
    assert_int_equal(r.out.steps, 1);
    r.record[2].start = r.record[2].end + 1;
    assert_int_equal(stoke_attribute(r.record, 3, 1, &r.setup, &r.out, NULL, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "record 2"));
    begin(&r, 3);
    r.record[2].end = 1050;
    r.record[2].start = 1040;
    assert_int_equal(stoke_attribute(r.record, 3, 1, &r.setup, &r.out, NULL, &err), STOKE_E_INVALID);
    begin(&r, 3);
    r.record[0].end = 0;
    assert_int_equal(stoke_attribute(r.record, 3, 1, &r.setup, &r.out, NULL, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "record 0"));
    begin(&r, 3);
    r.setup.struct_size--;
    assert_int_equal(stoke_attribute(r.record, 3, 1, &r.setup, &r.out, NULL, &err), STOKE_E_INVALID);
}

static void test_survives_want_of_memory(void **state)
{
    int status = STOKE_E_NOMEM;
    run r;
    (void)state;
    begin(&r, 3);
    for (int64_t i = 0; status; i++) {
        assert_true(i < 10);
        stk_mem_fail_after(i);
        status = stoke_attribute(r.record, r.n, 1, &r.setup, &r.out, NULL, NULL);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || status == STOKE_E_NOMEM);
    }
}

static void test_every_cause_has_words(void **state)
{
    (void)state;
    for (int k = 0; k < STOKE_IDLES; k++) {
        assert_true(strlen(stoke_idle_name(k)) > 2 && strlen(stoke_idle_meaning(k)) > 10);
        for (int other = 0; other < k; other++)
            assert_string_not_equal(stoke_idle_name(k), stoke_idle_name(other));
    }
    for (int k = 0; k < STOKE_CAUSES; k++) assert_true(strlen(stoke_cause_name(k)) > 10);
    assert_non_null(stoke_idle_name(-1));
    assert_non_null(stoke_idle_meaning(STOKE_IDLES));
    assert_non_null(stoke_cause_name(STOKE_CAUSES));
}

UNIT_GROUP(attribute)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_there_waits_for_its_launch),
        cmocka_unit_test(test_cuts_the_chain_of_the_loop),
        cmocka_unit_test(test_cuts_the_chain_of_a_stream),
        cmocka_unit_test(test_without_workers_the_loop_makes_its_batches),
        cmocka_unit_test(test_early_launches_are_not_late),
        cmocka_unit_test(test_kernels_of_any_batch_are_work),
        cmocka_unit_test(test_copies_beside_work_are_overlapped),
        cmocka_unit_test(test_device_in_host_memory_has_no_copies),
        cmocka_unit_test(test_first_of_an_epoch_waits_for_its_start),
        cmocka_unit_test(test_divides_input_by_state_and_not_by_overlap),
        cmocka_unit_test(test_a_later_batch_that_is_ready_shows_order),
        cmocka_unit_test(test_batches_come_in_order),
        cmocka_unit_test(test_missing_moments_are_unknown_and_never_zero),
        cmocka_unit_test(test_unknown_follows_the_longest),
        cmocka_unit_test(test_input_without_making_is_unknown),
        cmocka_unit_test(test_sums_are_exact_whatever_records_say),
        cmocka_unit_test(test_refuses_what_has_no_order),
        cmocka_unit_test(test_survives_want_of_memory),
        cmocka_unit_test(test_every_cause_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
