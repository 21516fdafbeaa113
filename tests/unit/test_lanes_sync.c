/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes with one batch norm: the same bits for any number of processes, and gradients and statistics of one
 * large batch.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "tests/unit/fixture_lanes.h"

static void same_bits_for_any_number_of_processes(void **state)
{
    (void)state;
    static const struct {
        run run;
        uint32_t worlds[WORLDS];
    } cases[] = {
        { { .model = "b0", .replicas = 4, .accumulate = 1, .threads = 1, .empty = -1, .sync = 1 },
          { 2, 3, 4 } },
        { { .model = "b0", .replicas = 4, .accumulate = 2, .threads = 2, .empty = 6, .sync = 1 },
          { 2, 3, 4 } },
        { { .model = "b0", .replicas = 2, .accumulate = 1, .threads = 1, .empty = 1, .sync = 1 }, { 2 } },
        { { .model = "b0", .replicas = 3, .accumulate = 3, .threads = 1, .empty = -1, .sync = 1 }, { 2 } },
        { { .model = "b0",
            .replicas = 3,
            .accumulate = 2,
            .threads = 1,
            .empty = -1,
            .sync = 1,
            .compress = STOKE_COMPRESS_BF16 },
          { 2, 3 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_same_bits(&cases[i].run, cases[i].worlds);
}

static void threads_leave_the_bits(void **state)
{
    (void)state;
    run r = { .model = "b0", .replicas = 4, .accumulate = 2, .threads = 1, .empty = 6, .sync = 1 };
    assert_int_equal(run_ranks(1, 60, train, &r), 0);
    const uint64_t digest = r.digest[0];
    r.threads = 2;
    assert_all_ranks(&r, 4, digest, r.loss[0]);
    r.sync = 0;
    assert_int_equal(run_ranks(1, 60, train, &r), 0);
    assert_true(r.digest[0] != digest);
}

/* ---- against one large batch ---- */

enum { LANES = 3 };

/* Nothing is drawn, so that the same pictures give the same in any batch. */
static stoke_net_params plain_params(const run *r)
{
    stoke_net_params params = net_params_of(r);
    params.dropout = params.drop_path = 0;
    return params;
}

/* How far a is from b, as a share of b. */
static double apart(const float *a, const float *b, size_t count)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        all += (double)b[i] * b[i];
    }
    return sqrt(off / all);
}

/* What a step of three lanes and one batch of all their pictures differ by. */
typedef struct difference {
    double gradients, statistics;
} difference;

static difference from_one_batch(int sync, uint32_t threads)
{
    run r = {
        .model = "b0", .replicas = LANES, .accumulate = 1, .threads = threads, .empty = -1, .sync = sync
    };
    stoke_net_params params = plain_params(&r);
    stoke_error err = { 0 };
    part p;
    open_part(&p, &r, NULL, &params);
    take_batches(&p, 0);
    stoke_net_batch one = batch_of(p.room[0], 0, -1);
    const size_t images = sizeof p.room[0]->images, masks = sizeof p.room[0]->masks;
    unsigned char *all_images = malloc(LANES * images), *all_masks = malloc(LANES * masks);
    for (uint32_t l = 0; l < LANES; l++) {
        batch_of(p.room[0], l, -1);
        memcpy(all_images + l * images, p.room[0]->images, images);
        memcpy(all_masks + l * masks, p.room[0]->masks, masks);
    }
    one.count = params.batch = LANES * BATCH;
    one.images = (const float *)(const void *)all_images;
    one.masks = all_masks;
    stoke_net *large = open_params(&params);
    assert_int_equal(stoke_net_backward(large, &one, 1, NULL, &err), 0);
    /* Local ones are followed with the step, which needs gradients no more. */
    const stoke_net_arrays own = stoke_net_arrays_of(p.net), whole = stoke_net_arrays_of(large);
    difference d = { .gradients = apart(own.gradients, whole.gradients, own.trained) };
    if (sync)
        d.statistics = apart(own.values + own.trained, whole.values + own.trained, own.floats - own.trained);
    stoke_net_close(&large);
    close_part(&p);
    free(all_images);
    free(all_masks);
    return d;
}

static void a_step_is_that_of_one_large_batch(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        const difference sync = from_one_batch(1, threads), local = from_one_batch(0, threads);
        print_message("# gradients: sync %.2g, local %.2g; statistics: sync %.2g\n", sync.gradients,
                      local.gradients, sync.statistics);
        assert_true(sync.gradients < 1e-5 && sync.statistics < 1e-6);
        assert_true(local.gradients > 0.1);
    }
}

/* ---- lanes of different sizes ---- */

static const uint32_t COUNTS[LANES] = { 2, 1, 0 };

/* A step's losses with short batches; where `gradients`, their sum is in the network. */
static double uneven_loss(part *p, int gradients)
{
    stoke_net_batch rows[LANES];
    double losses[LANES], sum = 0;
    stoke_error err = { 0 };
    for (uint32_t j = 0; j < LANES; j++) {
        rows[j] = batch_of(p->room[j], j, -1);
        rows[j].count = COUNTS[j];
    }
    assert_int_equal(stk_lanes_look_together(&p->lanes, 0, rows, STOKE_OK, losses, &err), 0);
    if (gradients) assert_int_equal(stk_lanes_learn_together(&p->lanes, 0, rows, STOKE_OK, &err), 0);
    for (uint32_t j = 0; j < LANES; j++) sum += losses[j] / LANES;
    return sum;
}

/* Along the gradient the loss of all lanes rises as the gradient says. */
static void uneven_lanes_have_the_gradients_of_their_loss(void **state)
{
    (void)state;
    run r = { .model = "b0", .replicas = LANES, .accumulate = 1, .threads = 2, .empty = -1, .sync = 1 };
    const stoke_net_params params = plain_params(&r);
    part p;
    open_part(&p, &r, NULL, &params);
    const stoke_net_arrays a = stoke_net_arrays_of(p.net);
    uneven_loss(&p, 1);
    float *values = malloc(a.trained * sizeof *values), *way = malloc(a.trained * sizeof *way);
    memcpy(values, a.values, a.trained * sizeof *values);
    memcpy(way, a.gradients, a.trained * sizeof *way);
    double norm = 0, loss[2];
    for (size_t i = 0; i < a.trained; i++) norm += (double)way[i] * way[i];
    norm = sqrt(norm);
    const double step = 2e-3;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < a.trained; i++)
            a.values[i] = (float)(values[i] + (side ? step : -step) * way[i] / norm);
        stoke_net_touched(p.net);
        loss[side] = uneven_loss(&p, 0);
    }
    const double slope = (loss[1] - loss[0]) / (2 * step);
    print_message("# the gradient's norm is %.6g, the slope along it %.6g\n", norm, slope);
    assert_true(fabs(slope / norm - 1) < 2e-3);
    free(values);
    free(way);
    close_part(&p);
}

/* ---- where nothing is left, or is no number ---- */

static void nothing_is_followed_of_nothing(void **state)
{
    (void)state;
    run r = { .model = "b0", .replicas = 2, .accumulate = 1, .threads = 1, .empty = -1, .sync = 1 };
    const stoke_net_params params = net_params_of(&r);
    stoke_net_batch rows[2];
    stoke_net_state now;
    double losses[2];
    stoke_error err = { 0 };
    part p;
    open_part(&p, &r, NULL, &params);
    for (uint32_t j = 0; j < 2; j++) {
        rows[j] = batch_of(p.room[j], j, -1);
        rows[j].count = 0;
    }
    const stoke_net_arrays a = stoke_net_arrays_of(p.net);
    assert_int_equal(stk_lanes_look_together(&p.lanes, 0, rows, STOKE_OK, losses, &err), 0);
    assert_int_equal(stk_lanes_learn_together(&p.lanes, 0, rows, STOKE_OK, &err), 0);
    stoke_net_state_get(p.net, &now);
    assert_int_equal(now.draws, 2);
    assert_int_equal(now.batches_tracked, 0);
    for (size_t i = 0; i < a.trained; i++) assert_true(a.gradients[i] == 0);
    /* The lane whose picture is no number is to blame, and the other is not. */
    for (uint32_t j = 0; j < 2; j++) rows[j] = batch_of(p.room[j], j, -1);
    p.room[1]->images[0][0][7] = NAN;
    assert_int_equal(stk_lanes_look_together(&p.lanes, 0, rows, STOKE_OK, losses, &err), 0);
    assert_false(isfinite(losses[0]) || isfinite(losses[1]));
    assert_false(stk_lanes_is_to_blame(&p.lanes, 0));
    assert_true(stk_lanes_is_to_blame(&p.lanes, 1));
    stoke_net_state_get(p.net, &now);
    assert_int_equal(now.batches_tracked, 0);
    close_part(&p);
}

/* A rank that has failed tells the others; nobody waits. */
static void fail_at_one(stk_comm *comm, void *context)
{
    run *r = context;
    const stoke_net_params params = net_params_of(r);
    stoke_net_batch rows[MOST_LANES];
    double losses[MOST_LANES];
    stoke_error err = { 0 };
    part p;
    open_part(&p, r, comm, &params);
    const int fails = stk_comm_rank(comm) == 1 ? STOKE_E_IO : STOKE_OK;
    for (uint32_t j = 0; j < stk_lanes_joint(&p.lanes); j++) rows[j] = next_of(&p, p.room[j]);
    RANK_CHECK(stk_lanes_look_together(&p.lanes, 0, rows, fails, losses, &err) == fails);
    RANK_CHECK(p.lanes.sync.halted);
    RANK_CHECK(!stk_lanes_look_together(&p.lanes, 0, rows, STOKE_OK, losses, &err));
    RANK_CHECK(!p.lanes.sync.halted);
    RANK_CHECK(stk_lanes_learn_together(&p.lanes, 0, rows, fails, &err) == fails);
    RANK_CHECK(p.lanes.sync.halted);
    close_part(&p);
}

static void a_failure_is_told(void **state)
{
    (void)state;
    run r = { .model = "b0", .replicas = 3, .accumulate = 2, .threads = 1, .empty = -1, .sync = 1 };
    assert_int_equal(run_ranks(2, 60, fail_at_one, &r), 0);
}

/* ---- memory ---- */

static void plan_says_what_is_taken(void **state)
{
    (void)state;
    const size_t trained = 1 << 20;
    const uint64_t array = 4 << 20, lists = 200000;
    const stk_lanes_shape
        once = { .replicas = 4, .accumulate = 1, .world = 1, .trained = trained, .joint = 512 },
        twice = { .replicas = 4, .accumulate = 2, .world = 1, .trained = trained, .joint = 512 },
        alone = { .replicas = 4, .accumulate = 2, .world = 4, .trained = trained, .joint = 512 };
    stk_lanes_shape local = alone;
    local.joint = 0;
    assert_in_range(stk_lanes_bytes(&once), 2 * array, 2 * array + lists);
    assert_in_range(stk_lanes_bytes(&twice), 4 * array, 4 * array + lists);
    assert_in_range(stk_lanes_bytes(&alone) - stk_lanes_bytes(&local), 0, lists);
    const run r = { .model = "b0", .threads = 1 };
    stoke_net_params params = net_params_of(&r);
    stoke_net_plan one, four;
    stoke_error err = { 0 };
    assert_int_equal(stoke_net_plan_of(&params, &one, &err), 0);
    params.joint = 4;
    assert_int_equal(stoke_net_plan_of(&params, &four, &err), 0);
    assert_int_equal(four.activations, 4 * one.activations);
    assert_true(four.workspace > one.workspace);
    assert_int_equal(four.parameters, one.parameters);
    params.model = "resnet";
    assert_int_equal(stoke_net_plan_of(&params, &four, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "no batch norm"));
}

UNIT_GROUP(lanes_sync)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_for_any_number_of_processes),
        cmocka_unit_test(threads_leave_the_bits),
        cmocka_unit_test(a_step_is_that_of_one_large_batch),
        cmocka_unit_test(uneven_lanes_have_the_gradients_of_their_loss),
        cmocka_unit_test(nothing_is_followed_of_nothing),
        cmocka_unit_test(a_failure_is_told),
        cmocka_unit_test(plan_says_what_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
