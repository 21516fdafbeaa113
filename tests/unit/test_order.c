/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include <stoke/tools/order.h>

static stoke_order shuffled(uint64_t count, uint64_t seed, uint64_t epoch)
{
    return (stoke_order){ .count = count, .seed = seed, .epoch = epoch, .kind = STOKE_ORDER_SHUFFLE };
}

/* Chi-square of observed counts against equal expectation, as standard deviations from its mean. With fixed
 * seeds the result is fixed too; a limit of 5 is what one run in millions would pass by chance. */
static double deviation(const unsigned *observed, size_t cells, double expected)
{
    double chi = 0;
    for (size_t i = 0; i < cells; i++) chi += (observed[i] - expected) * (observed[i] - expected) / expected;
    double freedom = (double)cells - 1;
    return (chi - freedom) / sqrt(2 * freedom);
}

static void every_count_is_a_bijection(void **state)
{
    static const uint64_t counts[] = { 1,  2,  3,  4,   5,   6,    7,    8,    9,
                                       63, 64, 65, 100, 127, 1000, 1023, 4096, 65537 };
    static uint8_t seen[65537];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            stoke_order order = shuffled(counts[c], 42 + c, epoch);
            memset(seen, 0, sizeof seen);
            for (uint64_t p = 0; p < counts[c]; p++) {
                uint64_t id = stoke_order_at(&order, p);
                assert_true(id < counts[c]);
                assert_int_equal(seen[id]++, 0);
            }
        }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void huge_counts_do_not_repeat(void **state)
{
    static const uint64_t counts[] = { UINT64_C(1000000000), UINT64_C(1000000000000000), UINT64_C(1) << 63 };
    static uint64_t ids[100000];
    const size_t n = sizeof ids / sizeof *ids;
    for (size_t c = 0; c < 3; c++) {
        stoke_order order = shuffled(counts[c], 7, 1);
        double mean = 0;
        for (size_t i = 0; i < n; i++) {
            /* half of them neighbours, half spread over the line */
            uint64_t position = i % 2 ? i : counts[c] / n * i;
            ids[i] = stoke_order_at(&order, position);
            assert_true(ids[i] < counts[c]);
            mean += (double)ids[i] / (double)counts[c] / (double)n;
        }
        /* the mean of n uniform draws: sd 0.2887 / sqrt(n) = 0.0009 */
        assert_true(fabs(mean - 0.5) < 0.005);
        qsort(ids, n, sizeof *ids, by_value);
        for (size_t i = 1; i < n; i++) assert_true(ids[i] != ids[i - 1]);
    }
}

static void all_orders_of_four_are_equally_likely(void **state)
{
    enum { DRAWS = 240000 };
    unsigned by_seed[24] = { 0 }, by_epoch[24] = { 0 };
    for (unsigned d = 0; d < DRAWS; d++)
        for (int mode = 0; mode < 2; mode++) {
            stoke_order order = mode ? shuffled(4, 1, d) : shuffled(4, d, 0);
            unsigned left[4] = { 0, 1, 2, 3 }, index = 0;
            for (unsigned p = 0; p < 4; p++) {
                unsigned id = (unsigned)stoke_order_at(&order, p), rank = 0;
                while (left[rank] != id) rank++;
                for (unsigned i = rank; i + 1 < 4 - p; i++) left[i] = left[i + 1];
                index = index * (4 - p) + rank;
            }
            (mode ? by_epoch : by_seed)[index]++;
        }
    print_message("# orders of 4: deviation %.2f by seed, %.2f by epoch\n",
                  deviation(by_seed, 24, DRAWS / 24.0), deviation(by_epoch, 24, DRAWS / 24.0));
    assert_true(fabs(deviation(by_seed, 24, DRAWS / 24.0)) < 5);
    assert_true(fabs(deviation(by_epoch, 24, DRAWS / 24.0)) < 5);
}

static void every_value_stands_everywhere(void **state)
{
    static const unsigned counts[] = { 2, 3, 5, 7, 10, 16, 33 };
    static unsigned cells[33 * 33];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        unsigned n = counts[c], draws = 40000;
        memset(cells, 0, sizeof cells);
        for (unsigned d = 0; d < draws; d++) {
            stoke_order order = shuffled(n, 99, d);
            for (unsigned p = 0; p < n; p++) cells[p * n + stoke_order_at(&order, p)]++;
        }
        /* Rows and columns are fixed sums, so a plain chi-square stays below its nominal mean; too even is
         * fine. */
        double z = deviation(cells, (size_t)n * n, (double)draws / n);
        print_message("# place and value of %u: deviation %.2f\n", n, z);
        assert_true(z < 5);
    }
}

/* Correlation of two sequences of ids 0..n-1; sd 1 / sqrt(n). */
static double correlation(const stoke_order *a, uint64_t a_from, const stoke_order *b, uint64_t b_from,
                          uint64_t n)
{
    double mean = (double)(a->count - 1) / 2, sum = 0, square = 0;
    for (uint64_t p = 0; p < n; p++) {
        double x = (double)stoke_order_at(a, a_from + p) - mean,
               y = (double)stoke_order_at(b, b_from + p) - mean;
        sum += x * y;
        square += x * x;
    }
    return sum / square;
}

static void neighbours_epochs_and_seeds_are_unrelated(void **state)
{
    static const uint64_t counts[] = { 1000, 4096, 20011 };
    for (size_t c = 0; c < 3; c++) {
        uint64_t n = counts[c] - 1;
        double limit = 5 / sqrt((double)n), worst = 0;
        for (uint64_t e = 0; e < 8; e++) {
            stoke_order one = shuffled(counts[c], 5, e), next = shuffled(counts[c], 5, e + 1);
            stoke_order other = shuffled(counts[c], 6, e);
            const double found[] = { correlation(&one, 0, &one, 1, n), correlation(&one, 0, &next, 0, n),
                                     correlation(&one, 0, &other, 0, n), correlation(&one, 0, &next, 1, n) };
            for (int i = 0; i < 4; i++) worst = fmax(worst, fabs(found[i]));
        }
        print_message("# %llu ids: worst correlation %.4f, limit %.4f\n", (unsigned long long)counts[c],
                      worst, limit);
        assert_true(worst < limit);
    }
}

/* Ids that follow each other in the set must not follow each other in the line: expected once per epoch. */
static void steps_are_not_kept(void **state)
{
    unsigned steps = 0;
    for (uint64_t e = 0; e < 200; e++) {
        stoke_order order = shuffled(1000, 3, e);
        for (uint64_t p = 0; p + 1 < 1000; p++)
            steps += stoke_order_at(&order, p) + 1 == stoke_order_at(&order, p + 1);
    }
    /* Poisson with mean 199.8, sd 14 */
    assert_in_range(steps, 130, 270);
}

/* The order is part of saved states: a change of the function must be noticed. */
static void order_is_pinned(void **state)
{
    stoke_order order = shuffled(10, 1, 2);
    char text[64] = "";
    for (uint64_t p = 0; p < 10; p++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", (int)stoke_order_at(&order, p));
    assert_string_equal(text, "7 0 3 8 1 4 2 5 6 9 ");
    order = shuffled(UINT64_C(1000000000), 1, 2);
    assert_int_equal(stoke_order_at(&order, 123456789), 493326492);
    assert_int_equal(stoke_order_substitute(&order, 5, 1), 795509945);
}

static void positions_wrap(void **state)
{
    stoke_order order = shuffled(10, 1, 0);
    assert_int_equal(stoke_order_at(&order, 13), stoke_order_at(&order, 3));
    order.kind = STOKE_ORDER_SEQUENTIAL;
    assert_int_equal(stoke_order_at(&order, 9), 9);
    assert_int_equal(stoke_order_at(&order, 10), 0);
}

static void weighted_draws_follow_weights(void **state)
{
    /* weights 0 1 0 5 4 0 */
    static const double cumulative[] = { 0, 1, 1, 6, 10, 10 };
    enum { DRAWS = 100000 };
    unsigned seen[6] = { 0 };
    for (uint64_t epoch = 0; epoch < DRAWS / 6; epoch++) {
        stoke_order order = { 6, 11, epoch, STOKE_ORDER_WEIGHTED, cumulative };
        for (uint64_t p = 0; p < 6; p++) seen[stoke_order_at(&order, p)]++;
    }
    assert_int_equal(seen[0] + seen[2] + seen[5], 0);
    const double share[] = { 0, 0.1, 0, 0.5, 0.4, 0 };
    for (int i = 0; i < 6; i++) {
        double expected = DRAWS / 6 * 6 * share[i];
        assert_true(fabs(seen[i] - expected) <= 5 * sqrt(expected));
    }
}

static void weighted_never_leaves_the_range(void **state)
{
    /* a total whose product with the largest draw rounds up to itself */
    static const double cumulative[] = { 1.0, 1.0 + 0x1p-52, 1.0 + 0x1p-52 };
    for (uint64_t p = 0; p < 1000; p++) {
        stoke_order order = { 3, p, 0, STOKE_ORDER_WEIGHTED, cumulative };
        assert_true(stoke_order_at(&order, p) < 2);
    }
}

static void substitutes_are_uniform_and_keyed(void **state)
{
    enum { DRAWS = 70000 };
    unsigned seen[7] = { 0 };
    stoke_order order = shuffled(7, 3, 0);
    for (uint32_t d = 0; d < DRAWS; d++) {
        order.epoch = d / 7;
        uint64_t id = stoke_order_substitute(&order, d % 7, 1 + d % 5);
        assert_int_equal(id, stoke_order_substitute(&order, d % 7, 1 + d % 5));
        seen[id]++;
    }
    assert_true(fabs(deviation(seen, 7, DRAWS / 7.0)) < 5);
    order.count = 1000;
    order.epoch = 0;
    assert_int_not_equal(stoke_order_substitute(&order, 1, 1), stoke_order_substitute(&order, 1, 2));
    assert_int_not_equal(stoke_order_substitute(&order, 1, 1), stoke_order_substitute(&order, 2, 1));
}

/* ---- shards ---- */

/* All ranks together: how often is every position of the line delivered? */
static void check_shards(uint64_t count, uint64_t start, uint32_t batch, uint32_t world, int drop_last)
{
    static unsigned times[512];
    memset(times, 0, sizeof times);
    uint64_t left = start < count ? count - start : 0, batches = 0, padding_rows = 0;
    for (uint32_t rank = 0; rank < world; rank++) {
        stoke_rank shard = { count, start, batch, rank, world, drop_last };
        uint64_t mine = stoke_rank_batches(&shard);
        if (rank) assert_int_equal(mine, batches);
        batches = mine;
        for (uint64_t k = 0; k < mine; k++) {
            uint32_t rows;
            uint64_t first = stoke_rank_batch(&shard, k, &rows);
            assert_in_range(rows, 1, batch);
            if (first < count) assert_int_equal(first, start + (k * world + rank) * batch);
            if (drop_last) assert_int_equal(rows, batch);
            for (uint32_t i = 0; i < rows; i++) {
                if (first + i < count)
                    times[first + i]++;
                else
                    padding_rows++;
            }
            /* a batch is of the line or of the padding, never of both */
            assert_true(first + rows <= count || first >= count);
        }
    }
    uint64_t delivered = drop_last ? left / batch / world * world * batch : left;
    for (uint64_t p = 0; p < count; p++) assert_int_equal(times[p], p >= start && p < start + delivered);
    if (drop_last || world == 1) assert_int_equal(padding_rows, 0);
    assert_true(padding_rows < (uint64_t)world * batch);
}

static void ranks_share_the_line(void **state)
{
    for (uint64_t count = 1; count < 70; count += count < 10 ? 1 : 7)
        for (uint64_t start = 0; start <= count + 1; start += 1 + count / 5)
            for (uint32_t batch = 1; batch < 20; batch += batch < 5 ? 1 : 6)
                for (uint32_t world = 1; world < 9; world++)
                    for (int drop_last = 0; drop_last < 2; drop_last++)
                        check_shards(count, start, batch, world, drop_last);
}

static void padding_starts_the_line_again(void **state)
{
    /* 10 positions, batches of 4: 4 4 2; with 2 ranks the fourth batch is padding from position 10 = 0 */
    stoke_rank shard = { .count = 10, .batch = 4, .rank = 1, .world = 2 };
    uint32_t rows;
    assert_int_equal(stoke_rank_batches(&shard), 2);
    assert_int_equal(stoke_rank_batch(&shard, 1, &rows), 10);
    assert_int_equal(rows, 4);
    shard.rank = 0;
    assert_int_equal(stoke_rank_batch(&shard, 1, &rows), 8);
    assert_int_equal(rows, 2);
}

UNIT_GROUP(order)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_is_a_bijection),
        cmocka_unit_test(huge_counts_do_not_repeat),
        cmocka_unit_test(all_orders_of_four_are_equally_likely),
        cmocka_unit_test(every_value_stands_everywhere),
        cmocka_unit_test(neighbours_epochs_and_seeds_are_unrelated),
        cmocka_unit_test(steps_are_not_kept),
        cmocka_unit_test(order_is_pinned),
        cmocka_unit_test(positions_wrap),
        cmocka_unit_test(weighted_draws_follow_weights),
        cmocka_unit_test(weighted_never_leaves_the_range),
        cmocka_unit_test(substitutes_are_uniform_and_keyed),
        cmocka_unit_test(ranks_share_the_line),
        cmocka_unit_test(padding_starts_the_line_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
