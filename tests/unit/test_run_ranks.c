/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of a run: who came last by what each waited, and what logs that are made up say of them.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <pthread.h>

#include <stoke/tools/train.h>

#include "src/base/mem.h"
#include "src/train/run_report.h"
#include "src/train/trainer.h"

/* ---- who came last ---- */

static void the_latest_waits_least(void **state)
{
    const stk_rank_step steps[] = { { .others = 30 }, { .others = 5 }, { .others = 12 }, { .others = 40 } };
    uint64_t margin;
    (void)state;
    assert_int_equal(stk_ranks_latest(&steps->others, sizeof *steps, 4, &margin), 1);
    assert_int_equal(margin, 7); /* until the second latest came */
    assert_int_equal(stk_ranks_latest(&steps->others, sizeof *steps, 1, &margin), 0);
    assert_int_equal(margin, 0);
    const stk_rank_step even[] = { { .others = 3 }, { .others = 3 } };
    assert_int_equal(stk_ranks_latest(&even->others, sizeof *even, 2, &margin), 0);
    assert_int_equal(margin, 0);
}

/* Three ranks of which this is the first, as they stand after opening. */
static void open_watch(stoke_trainer *t, stk_comm *comms[3])
{
    stoke_error err = { 0 };
    *t = (stoke_trainer){ 0 };
    if (stk_comm_open_loop(comms, 3, 10, &err)) fail_msg("%s", err.message);
    t->comm = comms[0];
    t->watch.steps = 2;
    t->watch.cards = stk_calloc(3, sizeof *t->watch.cards);
    t->watch.step = stk_calloc(3, sizeof *t->watch.step);
    t->watch.total = stk_calloc(3, sizeof *t->watch.total);
    t->watch.noted = stk_calloc(3, sizeof *t->watch.noted);
    t->watch.lately = stk_calloc(3, sizeof *t->watch.lately);
}

/* The last handle waits for the others: all are closed at once. */
static void *close_comm(void *comm)
{
    stk_comm_close((stk_comm **)comm);
    return NULL;
}

static void close_watch(stoke_trainer *t, stk_comm *comms[3])
{
    pthread_t threads[3];
    stk_rank_watch_close(t);
    for (int q = 0; q < 3; q++) assert_int_equal(pthread_create(&threads[q], NULL, close_comm, &comms[q]), 0);
    for (int q = 0; q < 3; q++) pthread_join(threads[q], NULL);
}

static uint64_t time_of(const stoke_live_rank *r)
{
    return r->data_ns + r->compute_ns + r->others_ns + r->exchange_ns + r->rest_ns;
}

/* Rank 2 waits 60 ms longer for data, then rank 1 computes 15 ms longer before the sums. */
static void steps_are_booked_to_the_nanosecond(void **state)
{
    static stoke_trainer t;
    stk_comm *comms[3];
    const uint64_t ms = 1000000;
    const stk_rank_step step[3] = {
        { .rest = 1, .data = 2, .ahead = 10 * ms, .others = 60 * ms, .after = 20 * ms, .exchange = 35 * ms },
        { .rest = 1, .data = 7, .ahead = 12 * ms, .others = 58 * ms, .after = 40 * ms, .exchange = 15 * ms },
        { .rest = 3, .data = 60 * ms, .ahead = 10 * ms, .others = 3, .after = 25 * ms, .exchange = 30 * ms },
    };
    (void)state;
    open_watch(&t, comms);
    t.watch.steps = 1; /* the first step waits for everything to start */
    for (uint32_t q = 0; q < 3; q++) stk_rank_watch_hear(&t, q, &step[q]);
    assert_int_equal(t.watch.booked, 0);
    t.watch.steps = 2;
    for (uint32_t q = 0; q < 3; q++) stk_rank_watch_hear(&t, q, &step[q]);
    const stoke_live_rank *total = t.watch.total;
    for (uint32_t q = 0; q < 3; q++) {
        const stk_rank_step *s = &step[q];
        assert_int_equal(time_of(&total[q]),
                         s->rest + s->data + s->ahead + s->others + s->after + s->exchange);
        assert_int_equal(total[q].exchange_ns, 15 * ms); /* what it took the last one */
    }
    assert_int_equal(total[0].others_ns, 80 * ms);
    /* It came 58 ms after rank 1, by its data alone. */
    assert_int_equal(total[2].cost_data_ns + total[2].cost_compute_ns + total[2].cost_rest_ns, 58 * ms - 3);
    assert_true(total[2].cost_data_ns > 57 * ms && total[2].cost_compute_ns == 0);
    assert_int_equal(total[1].cost_compute_ns, 15 * ms);
    assert_true(total[2].last == 1 && total[1].last == 0 && total[0].last == 0);
    close_watch(&t, comms);
}

static void who_waits_for_data_is_named(void **state)
{
    static stoke_trainer t;
    stk_comm *comms[3];
    uint32_t rank = 7;
    (void)state;
    assert_true(stk_rank_watch_worst(&t, &rank) == 0); /* one process */
    open_watch(&t, comms);
    t.lately.seconds = 10;
    memcpy(t.watch.lately, (const double[]){ 1, 1, 2 }, 3 * sizeof(double));
    assert_true(stk_rank_watch_worst(&t, &rank) == 0); /* twice, not more */
    t.watch.lately[2] = 2.5;
    assert_true(stk_rank_watch_worst(&t, &rank) == 0.25);
    assert_int_equal(rank, 2);
    memcpy(t.watch.lately, (const double[]){ 0, 0.4, 0 }, 3 * sizeof(double));
    assert_true(stk_rank_watch_worst(&t, &rank) == 0); /* 4 % of the time is not worth a word */
    close_watch(&t, comms);
}

/* ---- logs ---- */

/* A session of three ranks, of which 2 is on another host. */
#define WHO(cores, affinity, allowed, workers, machine)                                                      \
    "{\"kind\":\"ranks\",\"step\":0,\"t\":0,\"who\":["                                                       \
    "{\"host\":\"node-a\",\"pid\":810,\"cores\":4,\"affinity\":4,\"allowed\":8,\"workers\":4,\"threads\":4," \
    "\"machine\":\"P\"},"                                                                                    \
    "{\"host\":\"node-a\",\"pid\":811,\"cores\":4,\"affinity\":4,\"allowed\":8,\"workers\":4,\"threads\":4," \
    "\"machine\":\"P\"},"                                                                                    \
    "{\"host\":\"node-b\",\"pid\":812,\"cores\":" cores ",\"affinity\":" affinity ",\"allowed\":" allowed    \
    ",\"workers\":" workers ",\"threads\":" cores ",\"machine\":\"" machine "\"}]}\n"
/* Ten steps of 1 s each; rank 2 is last in eight of them. */
#define SUMS_OF(data, compute, others, ran, stood, cost_data, cost_compute, cost_rest)                       \
    "{\"kind\":\"ranks\",\"step\":10,\"t\":11,\"steps\":10,\"images\":[40,40,40],\"data\":[1000," data "],"  \
    "\"compute\":[5000000," compute "],\"others\":[3000000," others "],\"exchange\":[1000000,1000000,"       \
    "1000000],\"rest\":[999000,999000,999000],\"ran\":[9000000,9000000," ran "],\"stood\":[1000000,1000000," \
    "" stood "],\"last\":[1,1,8],\"cost_data\":[0,0," cost_data "],\"cost_compute\":[100000,100000,"         \
    "" cost_compute "],\"cost_rest\":[0,0," cost_rest "],\"resident\":[1000,2000,3000]}\n"

#define SUMS(...) SUMS_OF(__VA_ARGS__)

static stoke_run_ranks *read_log(void **state, const char *who, const char *sums, const char *more)
{
    char text[8192];
    stoke_run_ranks *ranks = NULL;
    stoke_error err = { 0 };
    snprintf(text, sizeof text, "{\"kind\":\"start\",\"step\":0,\"t\":0}\n%s%s%s", who, sums, more);
    unit_write(unit_path(state, "log.jsonl"), text, strlen(text));
    if (stoke_run_ranks_read(&ranks, unit_folder(state), &err)) fail_msg("%s", err.message);
    return ranks;
}

static void expect(void **state, const char *who, const char *sums, int cause, const char *why)
{
    stoke_run_ranks *ranks = read_log(state, who, sums, "");
    assert_int_equal(ranks->world, 3);
    assert_int_equal(ranks->steps, 10);
    for (uint32_t q = 0; q < 3; q++) {
        const stoke_run_rank *r = &ranks->rank[q];
        assert_true(fabs(r->data + r->compute + r->others + r->exchange + r->rest - r->seconds) < 1e-12);
        assert_true(fabs(r->cost_data + r->cost_compute + r->cost_rest - r->cost) < 1e-12);
        if (q < 2) assert_int_equal(r->cause, STOKE_RANK_EVEN);
    }
    if (ranks->rank[2].cause != cause || !strstr(ranks->rank[2].why, why))
        fail_msg("%s: %s", stoke_rank_cause_name(ranks->rank[2].cause), ranks->rank[2].why);
    assert_true(cause == STOKE_RANK_EVEN || *ranks->rank[2].what);
    stoke_run_ranks_free(&ranks);
}

#define LATE_COMPUTE "5000000,7000000", "3000000,1000000"
#define OF_COMPUTE   "0", "900000", "0"

static void each_cause_is_named(void **state)
{
    static const char alike[] = WHO("4", "4", "8", "4", "P"), few[] = WHO("4", "4", "8", "2", "P");
    static const char late[] = "rank 2 (node-b, pid 812) was last in 80 % of steps and cost 9 % of the run: ";
    static const char data[] =
        SUMS("1000,2001000", "5000000,5000000", "3000000,1000000", "9000000", "1000000", "900000", "0", "0");
    expect(state, alike, data, STOKE_RANK_DATA, late);
    expect(state, alike, data, STOKE_RANK_DATA, "it waited for data");
    expect(state, few, data, STOKE_RANK_DATA, "it waited for data; 2 workers where others have 4");
    expect(
        state, alike,
        SUMS("1000,2001000", "5000000,5000000", "3000000,1000000", "4000000", "6000000", "900000", "0", "0"),
        STOKE_RANK_DATA, "got 40 % of the CPU time they wanted, the others' 90 %");
    expect(state, alike, SUMS("1000,1000", LATE_COMPUTE, "4000000", "6000000", OF_COMPUTE),
           STOKE_RANK_PROGRAMS, "another program wants its cores");
    expect(state, WHO("1", "1", "8", "4", "P"),
           SUMS("1000,1000", LATE_COMPUTE, "9000000", "1000000", OF_COMPUTE), STOKE_RANK_BOUND,
           "it is bound to 1 core of 8; 1 core where others have 4");
    expect(state, WHO("2", "2", "2", "4", "P"),
           SUMS("1000,1000", LATE_COMPUTE, "9000000", "1000000", OF_COMPUTE), STOKE_RANK_CORES,
           "2 cores where others have 4");
    expect(state, WHO("4", "4", "8", "4", "Old"),
           SUMS("1000,1000", LATE_COMPUTE, "9000000", "1000000", OF_COMPUTE), STOKE_RANK_PROCESSOR,
           "computes slower than others on as many cores (Old)");
    expect(state, alike, SUMS("1000,1000", LATE_COMPUTE, "9000000", "1000000", "0", "0", "900000"),
           STOKE_RANK_REST, "between steps");
}

static void nothing_unusual_is_said(void **state)
{
    expect(state, WHO("4", "4", "8", "4", "P"),
           SUMS("1000,1000", "5000000,5000000", "3000000,3000000", "9000000", "1000000", "0", "100000", "0"),
           STOKE_RANK_EVEN, "");
    stoke_run_ranks *ranks = read_log(
        state, WHO("4", "4", "8", "4", "P"),
        SUMS("1000,1000", "5000000,5000000", "3000000,3000000", "9000000", "1000000", "0", "100000", "0"),
        "");
    assert_non_null(strstr(ranks->verdict, "Nothing unusual"));
    stoke_run_ranks_free(&ranks);
}

/* A session that has no steps yet says nothing of the one before; one with steps is all that counts. */
static void sessions_follow_each_other(void **state)
{
    static const char sums[] = SUMS("1000,1000", LATE_COMPUTE, "9000000", "1000000", OF_COMPUTE);
    static const char two[] =
        "{\"kind\":\"ranks\",\"step\":10,\"t\":12,\"who\":[{\"host\":\"x\",\"pid\":1},{\"host\":"
        "\"y\",\"pid\":2}]}\n";
    static const char more[] = "{\"kind\":\"ranks\",\"step\":12,\"t\":13,\"steps\":2,\"data\":[1000000,1]}\n";
    stoke_run_ranks *ranks = read_log(state, WHO("4", "4", "8", "4", "P"), sums, two);
    assert_int_equal(ranks->world, 3);
    stoke_run_ranks_free(&ranks);
    char both[1024];
    snprintf(both, sizeof both, "%s%s", two, more);
    ranks = read_log(state, WHO("4", "4", "8", "4", "P"), sums, both);
    assert_int_equal(ranks->world, 2);
    assert_int_equal(ranks->steps, 2);
    assert_non_null(strstr(ranks->verdict, "Too few steps"));
    assert_true(ranks->rank[0].data == 1 && isnan(ranks->rank[0].cpu_share));
    stoke_run_ranks_free(&ranks);
}

static void one_process_has_no_ranks(void **state)
{
    stoke_run_ranks *ranks = read_log(state, "", "", "");
    assert_int_equal(ranks->world, 0);
    assert_non_null(strstr(ranks->verdict, "One process"));
    stoke_run_ranks_free(&ranks);
    stoke_error err = { 0 };
    assert_int_equal(stoke_run_ranks_read(&ranks, "/nonexistent", &err), STOKE_E_NOTFOUND);
    assert_null(ranks);
}

UNIT_GROUP(run_ranks)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_waits_least),        cmocka_unit_test(steps_are_booked_to_the_nanosecond),
        cmocka_unit_test(who_waits_for_data_is_named),   unit_test_with_folder(each_cause_is_named),
        unit_test_with_folder(nothing_unusual_is_said),  unit_test_with_folder(sessions_follow_each_other),
        unit_test_with_folder(one_process_has_no_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
