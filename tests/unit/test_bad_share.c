/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad samples as processes count them: each once, whoever met it; the run ends in the step in which that of
 * one process does; and one list has them all.
 */
#include "tests/unit/fixture_pairs.h"

#include "src/train/bad_share.h"
#include "tests/unit/fixture_ranks.h"

enum { COUNT = 40, BAD = 13, LANES = 4, STEPS = 8 /* of 4 batches of 4: three epochs and a bit */ };

typedef struct trial {
    stoke_data_params data;
    const char *list; /* of rank 0 */
    /* by rank */
    int code[MOST_RANKS];
    uint64_t steps[MOST_RANKS], known[MOST_RANKS];
    char text[MOST_RANKS][STOKE_ERROR_TEXT];
} trial;

/* Lanes of a rank; the k-th batch of a run. */
typedef struct way {
    uint32_t first, own;
} way;

static uint64_t way_at(const void *context, uint64_t k)
{
    const way *w = context;
    return k / w->own * LANES + w->first + k % w->own;
}

/* A step of one rank: its batches, and what all have met with them. */
static int take_step(stk_bad_share *share, stoke_loader *loader, uint32_t own, stoke_error *err)
{
    const stoke_batch *batch;
    int r = STOKE_OK, all[MOST_RANKS], any = 0;
    for (uint32_t k = 0; !r && k < own; k++) {
        r = stoke_loader_next(loader, &batch);
        if (!r) stoke_batch_release(loader, &batch);
    }
    if (!share->all) return r ? stk_fail_again(err, r, stoke_loader_error(loader)) : r;
    RANK_CHECK(!r || r == STOKE_E_TOO_BAD);
    const int news = stk_bad_share_news(share, loader);
    RANK_CHECK(!stk_comm_all(share->comm, &news, sizeof news, all, err));
    for (uint32_t q = 0; q < stk_comm_world(share->comm); q++) any |= all[q];
    if (any) RANK_CHECK(!stk_bad_share_tell(share, loader, err));
    return stk_bad_share_check(share, err);
}

static void train(stk_comm *comm, void *context)
{
    trial *t = context;
    const uint32_t rank = stk_comm_rank(comm), world = stk_comm_world(comm);
    way w = { .first = stk_tree_first(LANES, rank, world) };
    w.own = stk_tree_first(LANES, rank + 1, world) - w.first;
    const stk_loader_route route = { way_at, &w };
    stoke_error err = { 0 };
    stoke_dataset *dataset = NULL;
    stoke_loader *loader = NULL;
    stk_bad_share share;
    RANK_CHECK(!stoke_dataset_open(&dataset, &t->data, &err));
    RANK_CHECK(!stk_bad_share_open(&share, world > 1 ? comm : NULL, dataset, t->data.max_bad,
                                   rank ? NULL : t->list, &err));
    RANK_CHECK(!stoke_loader_create(&loader, dataset, &t->data, NULL, &err));
    stk_loader_follow(loader, &route);
    for (uint64_t step = 0; step < STEPS && !t->code[rank]; step++) {
        t->code[rank] = take_step(&share, loader, w.own, &err);
        t->steps[rank] = step;
    }
    snprintf(t->text[rank], sizeof t->text[rank], "%s", err.message);
    t->known[rank] = share.all ? stk_quarantine_count(share.all) : 0;
    stoke_loader_destroy(&loader);
    stk_bad_share_close(&share);
    stoke_dataset_close(&dataset);
}

static stoke_data_params damaged(void **state, const char *max_bad)
{
    char name[32];
    stoke_data_params data = pairs_params(state);
    data.max_bad = max_bad;
    pairs_write(state, COUNT, 32, 32);
    for (int i = 1; i < COUNT; i += 3) {
        snprintf(name, sizeof name, "images/s%d.png", i);
        assert_int_equal(truncate(unit_path(state, name), 0), 0);
    }
    return data;
}

static void the_step_of_one_process(void **state)
{
    static const char *const limits[] = { "0", "5", "9", "12" };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        trial alone = { .data = damaged(state, limits[i]) };
        assert_int_equal(run_ranks(1, 60, train, &alone), 0);
        assert_int_equal(alone.code[0], STOKE_E_TOO_BAD);
        for (uint32_t world = 2; world <= LANES; world++) {
            trial t = { .data = alone.data };
            assert_int_equal(run_ranks(world, 60, train, &t), 0);
            for (uint32_t q = 0; q < world; q++) {
                assert_int_equal(t.code[q], STOKE_E_TOO_BAD);
                assert_int_equal(t.steps[q], alone.steps[0]);
                assert_string_equal(t.text[q], t.text[0]);
            }
            assert_non_null(strstr(t.text[0], " of 40 samples are bad, more than max_bad allows ("));
            assert_non_null(strstr(t.text[0], ".png: empty file"));
        }
    }
}

/* Each epoch gives them to other ranks again. */
static void each_counts_once(void **state)
{
    for (uint32_t world = 2; world <= LANES; world++) {
        char list[200], line[1000];
        trial t = { .data = damaged(state, "13"), .list = list };
        snprintf(list, sizeof list, "%s", unit_path(state, "list.jsonl"));
        unlink(list);
        assert_int_equal(run_ranks(world, 60, train, &t), 0);
        for (uint32_t q = 0; q < world; q++) {
            assert_int_equal(t.code[q], 0);
            assert_int_equal(t.known[q], BAD);
        }
        int lines = 0;
        FILE *in = fopen(list, "r");
        assert_non_null(in);
        while (fgets(line, sizeof line, in)) lines += strstr(line, "empty file") != NULL;
        fclose(in);
        assert_int_equal(lines, BAD);
    }
}

UNIT_GROUP(bad_share)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(the_step_of_one_process),
        unit_test_with_folder(each_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
