/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of a run: who came last by what each waited, and what logs that are made up say of them.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include <stoke/tools/train.h>

#include "src/train/rank_watch.h"
#include "src/train/run_report.h"

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
        cmocka_unit_test(the_latest_waits_least),        unit_test_with_folder(each_cause_is_named),
        unit_test_with_folder(nothing_unusual_is_said),  unit_test_with_folder(sessions_follow_each_other),
        unit_test_with_folder(one_process_has_no_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
