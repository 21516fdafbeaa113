/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that processes share: the same bits for any number of them, those of a step added up by hand, and
 * those of one process without lanes.
 */
#include "tests/unit/unit.h"

#include "tests/unit/fixture_lanes.h"

static void same_bits_for_any_number_of_processes(void **state)
{
    (void)state;
    static const struct {
        run run;
        uint32_t worlds[WORLDS];
    } cases[] = {
        { { .model = "b0", .replicas = 2, .accumulate = 1, .threads = 1, .empty = -1 }, { 2 } },
        { { .model = "b0", .replicas = 3, .accumulate = 2, .threads = 1, .empty = 7 }, { 2, 3 } },
        { { .model = "b0", .replicas = 3, .accumulate = 2, .threads = 2, .empty = 10 },
          { 3 } }, /* a last one */
        { { .model = "b0", .replicas = 5, .accumulate = 1, .threads = 1, .empty = 6 },
          { 3, 5 } }, /* a lane */
        { { .model = "b0", .replicas = 7, .accumulate = 1, .threads = 1, .empty = -1 }, { 4, 6 } },
        { { .model = "resnet", .replicas = 4, .accumulate = 1, .threads = 2, .empty = -1 }, { 2, 3, 4 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_same_bits(&cases[i].run, cases[i].worlds);
}

/* Lanes are rounded before anything is added, by however many: bits of their own, the same for all. */
static void rounded_lanes_have_the_same_bits(void **state)
{
    (void)state;
    run r = { .model = "b0", .replicas = 3, .accumulate = 1, .threads = 1, .empty = -1 };
    assert_int_equal(run_ranks(1, 60, train, &r), 0);
    const uint64_t plain = r.digest[0];
    r.compress = STOKE_COMPRESS_BF16;
    assert_int_equal(run_ranks(1, 60, train, &r), 0);
    const uint64_t digest = r.digest[0];
    const double loss = r.loss[0];
    assert_true(digest != plain);
    assert_all_ranks(&r, 2, digest, loss); /* one rank has a node of one lane, one has two */
    assert_all_ranks(&r, 3, digest, loss);
}

/* The part that tests/cli/test_ranks_matrix.py leaves to threads: eight lanes. */
static void same_bits_for_eight_lanes(void **state)
{
    (void)state;
    static const char *const models[] = { "resnet", "b0" };
    static const uint32_t worlds[] = { 6, 8, 4, 3, 2 };
    for (int m = 0; m < unit_rounds(1, 2); m++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            run r = { .model = models[m], .replicas = 8, .accumulate = 1, .threads = threads, .empty = -1 };
            assert_int_equal(run_ranks(1, 60, train, &r), 0);
            const uint64_t digest = r.digest[0];
            const double loss = r.loss[0];
            for (int w = 0; w < unit_rounds(1, 5); w++) assert_all_ranks(&r, worlds[w], digest, loss);
        }
}

/* ((0 + 1) + 2), each lane by itself, its batches one after the other. */
static void a_step_is_what_hands_add_up(void **state)
{
    (void)state;
    run r = { .model = "b0", .replicas = 3, .accumulate = 2, .threads = 2, .empty = -1 };
    const uint32_t all = 6;
    stoke_error err = { 0 };
    pictures *room = malloc(sizeof *room);
    const stoke_net_params params = net_params_of(&r);
    stoke_net *net = open_params(&params);
    const stoke_net_arrays a = stoke_net_arrays_of(net);
    const size_t statistics = stoke_net_statistics(net), bytes = a.trained * sizeof(float);
    double *tracked = calloc(all * statistics, sizeof *tracked), loss;
    float *lane[3];
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t l = 0; l < 3; l++) {
            for (uint32_t b = 0; b < 2; b++) {
                const uint64_t place = b * 3 + l, number = step * all + place;
                const stoke_net_batch batch = batch_of(room, number, -1);
                assert_int_equal(stoke_net_leaf(net, &batch, all, number, b > 0, &loss,
                                                tracked + place * statistics, &err),
                                 0);
            }
            lane[l] = malloc(bytes);
            memcpy(lane[l], a.gradients, bytes);
        }
        for (size_t i = 0; i < a.trained; i++) a.gradients[i] = (lane[0][i] + lane[1][i]) + lane[2][i];
        for (uint32_t place = 0; place < all; place++) stoke_net_track(net, tracked + place * statistics);
        const stoke_update update = settings_of(step);
        assert_int_equal(stoke_net_step(net, &update, NULL, &err), 0);
        for (uint32_t l = 0; l < 3; l++) free(lane[l]);
    }
    const uint64_t digest = digest_of(net);
    stoke_net_close(&net);
    assert_int_equal(run_ranks(1, 60, train, &r), 0);
    assert_true(r.digest[0] == digest);
    free(tracked);
    free(room);
}

static void one_lane_is_a_plain_run(void **state)
{
    (void)state;
    run r = { .model = "b0", .replicas = 1, .accumulate = 2, .threads = 1, .empty = -1 };
    stoke_error err = { 0 };
    pictures *room = malloc(sizeof *room);
    const stoke_net_params params = net_params_of(&r);
    stoke_net *net = open_params(&params);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint64_t b = 0; b < 2; b++) {
            const stoke_net_batch batch = batch_of(room, 2 * step + b, -1);
            assert_int_equal(stoke_net_backward(net, &batch, 2, NULL, &err), 0);
        }
        const stoke_update update = settings_of(step);
        assert_int_equal(stoke_net_step(net, &update, NULL, &err), 0);
    }
    const uint64_t digest = digest_of(net);
    stoke_net_close(&net);
    assert_int_equal(run_ranks(1, 60, train, &r), 0);
    assert_true(r.digest[0] == digest);
    free(room);
}

/* Each batch of three steps is taken once, by one rank, in steps' order; a lane's one after the other. */
static void routes_share_all_batches(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= 9; replicas++)
        for (uint32_t world = 1; world <= replicas; world++) {
            const uint32_t accumulate = 1 + world % 3, all = replicas * accumulate;
            uint8_t seen[3 * 27] = { 0 };
            for (uint32_t rank = 0; rank < world; rank++) {
                stk_lanes lanes = {
                    .shape = { .replicas = replicas, .accumulate = accumulate, .rank = rank, .world = world },
                    .first = stk_tree_first(replicas, rank, world),
                    .end = stk_tree_first(replicas, rank + 1, world)
                };
                const stk_loader_route route = stk_lanes_route(&lanes, 4);
                const uint32_t own = stk_lanes_own(&lanes);
                for (uint32_t k = 0; k < 3 * own; k++) {
                    const uint64_t number = route.at(route.context, k) - 4 * (uint64_t)all;
                    assert_int_equal(number / all, k / own);
                    assert_int_equal(seen[number]++, 0);
                    if (k % accumulate) /* within a lane */
                        assert_int_equal(number,
                                         route.at(route.context, k - 1) - 4 * (uint64_t)all + replicas);
                }
            }
            for (uint32_t i = 0; i < 3 * all; i++) assert_int_equal(seen[i], 1);
        }
}

static void plan_says_what_is_taken(void **state)
{
    (void)state;
    const stk_lanes_shape
        one = { .replicas = 1, .accumulate = 4, .world = 1, .trained = 1 << 20, .statistics = 512 },
        three = { .replicas = 3, .accumulate = 1, .world = 1, .trained = 1 << 20, .statistics = 512 },
        eight = { .replicas = 8, .accumulate = 1, .world = 1, .trained = 1 << 20, .statistics = 512 },
        half = { .replicas = 8, .accumulate = 1, .world = 8, .trained = 1 << 20, .statistics = 512 };
    const uint64_t array = 4 << 20;
    assert_in_range(stk_lanes_bytes(&one), 0, 100000);
    assert_in_range(stk_lanes_bytes(&three), array, array + 100000);
    assert_in_range(stk_lanes_bytes(&eight), 3 * array, 3 * array + 100000);
    assert_in_range(stk_lanes_bytes(&half), array / 8 * 7, array + 200000); /* what others send, no sums */
}

UNIT_GROUP(lanes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_for_any_number_of_processes),
        cmocka_unit_test(same_bits_for_eight_lanes),
        cmocka_unit_test(rounded_lanes_have_the_same_bits),
        cmocka_unit_test(a_step_is_what_hands_add_up),
        cmocka_unit_test(one_lane_is_a_plain_run),
        cmocka_unit_test(routes_share_all_batches),
        cmocka_unit_test(plan_says_what_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
