/* SPDX-License-Identifier: Apache-2.0
 *
 * One bit that flips in the memory of one rank: whoever computes the same lane has other bits, and all ranks
 * end with one sentence that names the two.
 */
#include "tests/unit/unit.h"

#include "tests/unit/fixture_lanes.h"

#include "src/base/error.h"

enum { NOBODY = 99 };

typedef struct fault {
    run run;
    uint32_t rank;       /* whose gradient flips a bit ... */
    uint32_t batch;      /* ... after that batch of its step */
    uint64_t step;       /* 0: the first */
    uint32_t of_weights; /* rank whose weights flip a bit after the step */
    /* by rank */
    int status[MOST_RANKS];
    char text[MOST_RANKS][STOKE_ERROR_TEXT];
    uint64_t ended[MOST_RANKS]; /* in which step */
} fault;

static void flip(float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    bits ^= 1 << 16; /* lower ones may be rounded away when the next batch is added */
    memcpy(value, &bits, sizeof bits);
}

static int take_step(const fault *f, part *p, uint64_t step, stoke_error *err)
{
    stk_lanes *lanes = &p->lanes;
    const uint32_t rank = lanes->shape.rank;
    const stoke_update update = settings_of(step);
    double loss;
    int r = STOKE_OK;
    stk_lanes_begin(lanes, step);
    for (uint32_t k = 0; !r && k < stk_lanes_own(lanes); k++) {
        const stoke_net_batch rows = next_of(p, p->room[0]);
        r = stk_lanes_look(lanes, k, &rows, &loss, err);
        if (!r) stk_lanes_learn(lanes, k, &rows);
        if (rank == f->rank && step == f->step && k == f->batch)
            flip(&stoke_net_arrays_of(p->net).gradients[1234]);
    }
    if (!r && lanes->audit.on) r = stk_lanes_compare(lanes, err);
    if (!r) r = stk_lanes_step(lanes, &update, NULL, &loss, err);
    if (!r) r = stk_lanes_settle(lanes, err); /* or what comes would take the place of what is flipped */
    if (!r && rank == f->of_weights) flip(&stoke_net_arrays_of(p->net).values[4321]);
    return r ? r : stk_lanes_compare_weights(lanes, step + 1, err);
}

static void train_with_fault(stk_comm *comm, void *context)
{
    fault *f = context;
    const uint32_t rank = stk_comm_rank(comm);
    const stoke_net_params params = net_params_of(&f->run);
    stoke_error err = { 0 };
    part p;
    open_part(&p, &f->run, comm, &params);
    for (uint64_t step = 0; step < STEPS && !f->status[rank]; step++) {
        f->status[rank] = take_step(f, &p, step, &err);
        f->ended[rank] = step + 1;
    }
    snprintf(f->text[rank], sizeof f->text[rank], "%s", err.message);
    close_part(&p);
}

static fault sound(void)
{
    return (fault){ .run = { .model = "resnet",
                             .replicas = 5,
                             .accumulate = 2,
                             .threads = 1,
                             .audit_every = 1,
                             .empty = -1 },
                    .rank = NOBODY,
                    .of_weights = NOBODY };
}

/* All ranks with one sentence, in that step. */
static void assert_ends(fault *f, uint32_t world, uint64_t step, const char *const *parts)
{
    assert_int_equal(run_ranks(world, 60, train_with_fault, f), 0);
    for (uint32_t q = 0; q < world; q++) {
        assert_int_equal(f->status[q], STOKE_E_STATE);
        assert_int_equal(f->ended[q], step);
        assert_string_equal(f->text[q], f->text[0]);
    }
    for (const char *const *one = parts; *one; one++)
        if (!strstr(f->text[0], *one)) fail_msg("not in it: %s\n%s", *one, f->text[0]);
}

#define PARTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Batches of a step: first the two of the other rank's lane, then the own ones. */
static void a_bit_of_a_gradient(void **state)
{
    (void)state;
    fault none = sound(), audits = sound(), owns = sound(), later = sound();
    assert_int_equal(run_ranks(2, 60, train_with_fault, &none), 0);
    assert_int_equal(none.status[0] | none.status[1], 0);
    audits.rank = 1;
    audits.batch = 0;
    assert_ends(&audits, 2, 1,
                PARTS("step 1: ", "rank 1 (", "rank 0 (", "in lane 0: one of the two", "memory of both"));
    owns.rank = 0;
    owns.batch = 2;
    assert_ends(&owns, 2, 1, PARTS("step 1: ", "rank 1 (", "rank 0 (", "in lane 0: "));
    later.step = 1;
    later.rank = 1;
    later.batch = 2 + 2; /* the second lane's turn: 2 of rank 1 are 2, 3, 4 */
    assert_ends(&later, 2, 2, PARTS("step 2: ", "in lane 3: "));
}

/* What nobody looks at is not seen, before it is its turn. */
static void another_lane(void **state)
{
    (void)state;
    fault f = sound();
    f.rank = 0;
    f.batch = 2 + 2;
    assert_int_equal(run_ranks(2, 60, train_with_fault, &f), 0);
    assert_int_equal(f.status[0] | f.status[1], 0);
}

/* Of three ranks or more, one whose audit and whose lane are both wrong is named alone. */
typedef struct hashes {
    uint64_t found[MOST_RANKS], own[MOST_RANKS];
    char text[STOKE_ERROR_TEXT];
} hashes;

static void tell(stk_comm *comm, void *context)
{
    hashes *h = context;
    const uint32_t rank = stk_comm_rank(comm);
    stoke_error err = { 0 };
    stk_audit audit;
    RANK_CHECK(!stk_audit_open(&audit, comm, 10, 8, &err));
    stk_audit_begin(&audit, 19);
    audit.mine = (stk_audit_word){ h->found[rank], h->own[rank] };
    RANK_CHECK(stk_audit_compare(&audit, &err) == STOKE_E_STATE);
    if (!rank) snprintf(h->text, sizeof h->text, "%s", err.message);
    stk_audit_close(&audit);
}

static void whose_memory_it_is(void **state)
{
    (void)state;
    static const struct {
        hashes h;
        const char *says[3];
    } cases[] = {
        { { .found = { 1, 2, 3, 4 }, .own = { 4, 1, 22, 3 } },
          { "step 20: rank 1 (", "and rank 2 (", "in lane 5: one of the two" } },
        { { .found = { 1, 2, 3, 4 }, .own = { 4, 1, 22, 33 } },
          { "step 20: rank 2 (", "than rank 1 (", "its machine" } },
        { { .found = { 1, 2, 3, 44 }, .own = { 4, 11, 2, 3 } },
          { "step 20: rank 0 (", "than rank 3 (", "and than rank 1 (" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hashes h = cases[i].h;
        assert_int_equal(run_ranks(4, 60, tell, &h), 0);
        for (int k = 0; k < 3; k++)
            if (!strstr(h.text, cases[i].says[k])) fail_msg("not in it: %s\n%s", cases[i].says[k], h.text);
    }
}

static void a_bit_of_a_weight(void **state)
{
    (void)state;
    for (uint32_t world = 2; world <= 4; world++) {
        fault f = sound();
        f.run.audit_every = 0;
        f.of_weights = 1;
        if (world == 2)
            assert_ends(&f, world, 1, PARTS("step 1: ", "rank 0 (", "and rank 1 (", "have other weights"));
        else
            assert_ends(&f, world, 1, PARTS("step 1: rank 1 (", "has other weights than the other ranks"));
    }
}

/* Each step's own batches are there once, in an audit's after those of a lane of the next rank; and every
 * lane of it has its turn. From whatever step on: the route is the same. */
static void routes_have_the_audits(void **state)
{
    (void)state;
    enum { LANES = 7, ACCUMULATE = 3, ALL = LANES * ACCUMULATE, LONG = 40 };
    for (uint32_t world = 2; world <= 5; world++)
        for (uint64_t every = 1; every <= 4; every++)
            for (uint64_t from = 0; from < 6; from++) {
                uint8_t seen[LONG][ALL] = { 0 }, again[LANES] = { 0 };
                for (uint32_t rank = 0; rank < world; rank++) {
                    stk_lanes lanes = { .shape = { .replicas = LANES,
                                                   .accumulate = ACCUMULATE,
                                                   .rank = rank,
                                                   .world = world,
                                                   .audit_every = every },
                                        .first = stk_tree_first(LANES, rank, world),
                                        .end = stk_tree_first(LANES, rank + 1, world) };
                    const stk_loader_route route = stk_lanes_route(&lanes, from);
                    uint64_t k = 0;
                    for (uint64_t step = from; step < LONG; step++) {
                        if ((step + 1) % every == 0) {
                            const uint64_t lane = route.at(route.context, k) % ALL;
                            const uint32_t next = (rank + 1) % world;
                            assert_in_range(lane, stk_tree_first(LANES, next, world),
                                            stk_tree_first(LANES, next + 1, world) - 1);
                            again[lane] = 1;
                            for (uint32_t b = 0; b < ACCUMULATE; b++)
                                assert_int_equal(route.at(route.context, k++), step * ALL + b * LANES + lane);
                        }
                        for (uint32_t b = 0; b < (lanes.end - lanes.first) * ACCUMULATE; b++) {
                            const uint64_t number = route.at(route.context, k++);
                            assert_int_equal(number / ALL, step);
                            assert_int_equal(seen[step][number % ALL]++, 0);
                        }
                    }
                }
                for (uint64_t step = from; step < LONG; step++)
                    for (uint32_t i = 0; i < ALL; i++) assert_int_equal(seen[step][i], 1);
                for (uint32_t lane = 0; lane < LANES; lane++) assert_int_equal(again[lane], 1);
            }
}

UNIT_GROUP(audit)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bit_of_a_gradient),    cmocka_unit_test(another_lane),
        cmocka_unit_test(whose_memory_it_is),     cmocka_unit_test(a_bit_of_a_weight),
        cmocka_unit_test(routes_have_the_audits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
