/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over lanes: the same bits for any number of ranks, and those of the tree in one process.
 */
#include "tests/unit/unit.h"

#include "src/base/mem.h"
#include "tests/unit/fixture_ranks.h"

typedef struct sum_case {
    uint32_t lanes;
    size_t count, chunk;
    const float *tree;
} sum_case;

static void sum_on_rank(stk_comm *comm, void *context)
{
    const sum_case *c = context;
    float *result = malloc(c->count * sizeof *result + 1);
    for (int apart = 0; apart < 2; apart++) {
        memset(result, 0xff, c->count * sizeof *result);
        sum_lanes(comm, c->lanes, c->count, c->chunk, apart, result);
        RANK_CHECK(!memcmp(result, c->tree, c->count * sizeof *result));
    }
    free(result);
}

static void hold_sums(size_t count, size_t chunk)
{
    float *tree = malloc(count * sizeof *tree + 1);
    for (uint32_t lanes = 1; lanes <= MOST_LANES; lanes++) {
        sum_case c = { lanes, count, chunk, tree };
        for (size_t i = 0; i < count; i++) tree[i] = node_value(0, lanes, i);
        for (uint32_t world = 1; world <= MOST_RANKS; world++)
            if (run_ranks(world, 60, sum_on_rank, &c)) fail_msg("%u lanes, %u ranks", lanes, world);
    }
    free(tree);
}

static void sums_have_the_bits_of_the_tree(void **state)
{
    hold_sums(1000, 64);
}

/* More ranks than chunks: some own nothing. */
static void sums_of_few_chunks(void **state)
{
    hold_sums(100, 64);
}

/* The numbers of the fixture must tell orders apart, or the tests above say nothing. */
static void another_order_would_show(void **state)
{
    int other = 0;
    for (size_t i = 0; i < 1000; i++) {
        float line = 0;
        for (uint32_t lane = 0; lane < 8; lane++) line += lane_value(lane, i);
        other += line != node_value(0, 8, i);
    }
    assert_in_range(other, 100, 1000);
}

static void one_rank_needs_no_comm(void **state)
{
    float tree[100], result[100];
    for (size_t i = 0; i < 100; i++) tree[i] = node_value(0, 5, i);
    sum_lanes(NULL, 5, 100, 16, 0, result);
    assert_memory_equal(result, tree, sizeof tree);
    sum_lanes(NULL, 5, 100, 16, 1, result);
    assert_memory_equal(result, tree, sizeof tree);
    assert_int_equal(atomic_load(&faults), 0);
}

/* Each bucket in one piece per rank, in order and without gaps; no rank owns a chunk more than another and
 * one. */
static void pieces_are_balanced_on_rank(stk_comm *comm, void *context)
{
    const size_t *count = context;
    const uint32_t world = stk_comm_world(comm);
    size_t owned[MOST_RANKS] = { 0 }, least = SIZE_MAX, most = 0;
    stk_reduce reduce;
    RANK_CHECK(stk_reduce_open(&reduce, comm, &(stk_reduce_shape){ 4, *count, 16, 0 }, NULL) == STOKE_OK);
    RANK_CHECK(reduce.at[0] == 0 && reduce.at[reduce.buckets * world] == *count);
    for (uint32_t i = 0; i < reduce.buckets * world; i++) {
        RANK_CHECK(reduce.at[i] <= reduce.at[i + 1]);
        RANK_CHECK(reduce.at[i] % 16 == 0 || reduce.at[i] == *count);
        owned[i % world] += (reduce.at[i + 1] - reduce.at[i] + 15) / 16;
    }
    for (uint32_t q = 0; q < world; q++) {
        if (owned[q] < least) least = owned[q];
        if (owned[q] > most) most = owned[q];
    }
    RANK_CHECK(most - least <= 1);
    stk_reduce_close(&reduce);
}

static void pieces_are_balanced(void **state)
{
    for (uint32_t world = 1; world <= MOST_RANKS; world++)
        for (size_t count = 0; count < 400; count += 37)
            assert_int_equal(run_ranks(world, 60, pieces_are_balanced_on_rank, &count), 0);
}

/* About 8 MB each, six at least, and a chunk of each for every rank. */
static void buckets_have_their_size(void **state)
{
    static const struct {
        size_t count;
        uint32_t buckets;
    } cases[] = { { 0, 1 }, { 100, 2 }, { 5 * 64, 5 }, { 3719040, 6 }, { 27350000, 14 }, { 84600000, 41 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_reduce reduce;
        const size_t chunk = cases[i].count < 1000 ? 64 : 16384;
        assert_int_equal(
            stk_reduce_open(&reduce, NULL, &(stk_reduce_shape){ 1, cases[i].count, chunk, 0 }, NULL),
            STOKE_OK);
        assert_int_equal(reduce.buckets, cases[i].buckets);
        for (uint32_t b = 0; b < reduce.buckets; b++) {
            const stk_reduce_span bucket = stk_reduce_bucket(&reduce, b);
            assert_in_range((bucket.end - bucket.first) * sizeof(float), 0,
                            (8 << 20) + 16384 * sizeof(float));
        }
        stk_reduce_close(&reduce);
    }
}

/* Of each chunk the number that its owner has. */
static void chunks_are_gathered_on_rank(stk_comm *comm, void *context)
{
    enum { CHUNKS = 61, CHUNK = 16 };
    const uint32_t rank = stk_comm_rank(comm);
    double numbers[CHUNKS];
    stk_reduce reduce;
    RANK_CHECK(stk_reduce_open(&reduce, comm, &(stk_reduce_shape){ 4, CHUNKS * CHUNK - 3, CHUNK, 0 }, NULL) ==
               STOKE_OK);
    for (size_t i = 0; i < CHUNKS; i++) numbers[i] = -1 - (double)rank;
    for (uint32_t b = 0; b < reduce.buckets; b++) {
        const stk_reduce_span piece = stk_reduce_piece(&reduce, b);
        for (size_t i = piece.first; i < piece.end; i += CHUNK) numbers[i / CHUNK] = (double)(i / CHUNK);
    }
    RANK_CHECK(stk_reduce_gather_chunks(&reduce, numbers, NULL) == STOKE_OK);
    for (size_t i = 0; i < CHUNKS; i++) RANK_CHECK(numbers[i] == (double)i);
    stk_reduce_close(&reduce);
}

static void chunks_are_gathered(void **state)
{
    for (uint32_t world = 1; world <= MOST_RANKS; world++)
        assert_int_equal(run_ranks(world, 60, chunks_are_gathered_on_rank, NULL), 0);
}

/* Lanes of bf16 numbers: those that travel alone take half the bytes, and sums are the same. */
static void short_lanes_on_rank(stk_comm *comm, void *context)
{
    enum { LANES = 3, COUNT = 5000, CHUNK = 16 };
    const uint32_t rank = stk_comm_rank(comm), world = stk_comm_world(comm), other = (rank + 1) % world;
    const stk_reduce_shape shape = { LANES, COUNT, CHUNK, 1 };
    stk_tree_node nodes[STK_TREE_COVER];
    static const float value[LANES] = { 1.5f, -0.0078125f, 258 };
    float *own[2], sum = value[0] + value[1];
    sum += value[2];
    stk_reduce reduce;
    RANK_CHECK(stk_reduce_open(&reduce, comm, &shape, NULL) == STOKE_OK);
    const uint32_t n = stk_tree_cover(LANES, stk_tree_first(LANES, rank, world),
                                      stk_tree_first(LANES, rank + 1, world), nodes);
    for (uint32_t k = 0; k < n; k++) {
        const int alone = nodes[k].hi - nodes[k].lo == 1;
        own[k] = malloc(COUNT * sizeof **own);
        for (size_t i = 0; i < COUNT; i++) own[k][i] = alone ? value[nodes[k].lo] : value[0] + value[1];
    }
    RANK_CHECK(stk_reduce_start(&reduce, 0, own, NULL) == STOKE_OK);
    if (reduce.most == 1) { /* the parts of the last exchange are those of the only node */
        const size_t theirs = reduce.at[other + 1] - reduce.at[other], alone = nodes[0].hi - nodes[0].lo == 1;
        RANK_CHECK(reduce.parts[other].bytes == theirs * (alone ? 2 : 4));
    }
    for (uint32_t b = 1; b < reduce.buckets; b++) RANK_CHECK(!stk_reduce_start(&reduce, b, own, NULL));
    for (uint32_t b = 0; b < reduce.buckets; b++) {
        const stk_reduce_span piece = stk_reduce_piece(&reduce, b);
        RANK_CHECK(!stk_reduce_finish(&reduce, b, own, own[0], add_plain, NULL, NULL));
        for (size_t i = piece.first; i < piece.end; i++) RANK_CHECK(own[0][i] == sum);
    }
    for (uint32_t k = 0; k < n; k++) free(own[k]);
    stk_reduce_close(&reduce);
}

static void short_lanes_take_half(void **state)
{
    for (uint32_t world = 2; world <= 3; world++)
        assert_int_equal(run_ranks(world, 60, short_lanes_on_rank, NULL), 0);
}

/* What is promised for the plan of memory is what is taken, to the rounding of an allocation. */
static void bytes_are_told(void **state)
{
    /* Two lanes each of four: one node; rank 1 of 4 receives three others' quarter. */
    const size_t quarter = 256 * 16384;
    const size_t bytes = stk_reduce_bytes(1, 4, &(stk_reduce_shape){ 8, 1024 * 16384, 16384, 0 });
    assert_in_range(bytes, 3 * quarter * sizeof(float), 3 * quarter * sizeof(float) + 16384);
    assert_in_range(stk_reduce_bytes(0, 1, &(stk_reduce_shape){ 8, 1024 * 16384, 16384, 0 }), 0, 16384);
}

static void bad_numbers_are_refused(void **state)
{
    stk_reduce reduce;
    stoke_error err;
    assert_int_equal(stk_reduce_open(&reduce, NULL, &(stk_reduce_shape){ 0, 10, 16, 0 }, &err),
                     STOKE_E_INVALID);
    assert_int_equal(
        stk_reduce_open(&reduce, NULL, &(stk_reduce_shape){ STK_TREE_LANES + 1, 10, 16, 0 }, &err),
        STOKE_E_INVALID);
    stk_mem_fail_after(2);
    assert_int_equal(stk_reduce_open(&reduce, NULL, &(stk_reduce_shape){ 4, 10, 16, 0 }, &err),
                     STOKE_E_NOMEM);
    stk_mem_fail_after(-1);
    stk_reduce_close(&reduce);
}

UNIT_GROUP(comm_reduce)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_have_the_bits_of_the_tree),
        cmocka_unit_test(sums_of_few_chunks),
        cmocka_unit_test(another_order_would_show),
        cmocka_unit_test(one_rank_needs_no_comm),
        cmocka_unit_test(pieces_are_balanced),
        cmocka_unit_test(buckets_have_their_size),
        cmocka_unit_test(chunks_are_gathered),
        cmocka_unit_test(bytes_are_told),
        cmocka_unit_test(short_lanes_take_half),
        cmocka_unit_test(bad_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
