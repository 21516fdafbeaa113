/* SPDX-License-Identifier: Apache-2.0
 *
 * The networks at full resolution, for masks and for pictures: the same bits for any number of threads and in
 * every memory mode, saved and read again, the tail alone; and what is refused.
 */
#include "tests/unit/fixture_small_net.h"

#include "src/base/mem.h"

enum { SIDE = 32, STEPS = 3 };

/* Half the batch's floats serve as targets: values do not matter. */
static float targets[BATCH * 3 * 4 * SIDE * SIDE];

typedef struct network {
    const char *model;
    int task;
    uint32_t scale;
} network;
static const network NETWORKS[] = { { "resnet", STOKE_TASK_SEGMENT, 0 },
                                    { "resnet", STOKE_TASK_RESTORE, 1 },
                                    { "resnet", STOKE_TASK_RESTORE, 2 },
                                    { "unet", STOKE_TASK_SEGMENT, 0 },
                                    { "unet", STOKE_TASK_RESTORE, 0 } };
enum { COUNT = sizeof NETWORKS / sizeof *NETWORKS };

static stoke_net_params params_of(const network *n)
{
    stoke_net_params p = small_params();
    p.model = n->model;
    p.task = n->task;
    p.scale = n->scale;
    p.height = p.width = SIDE;
    p.base_channels = 8;
    if (n->task == STOKE_TASK_RESTORE) p.loss.kind = STOKE_LOSS_CHARBONNIER;
    return p;
}

static stoke_net_batch batch_of(const sample_batch *b, const network *n)
{
    const size_t scale = n->scale ? n->scale : 1;
    stoke_net_batch batch = view(b, BATCH);
    if (n->task != STOKE_TASK_RESTORE) return batch;
    uint32_t seed = 5;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) targets[i] = 0.5f + 0.5f * noise(&seed);
    batch.masks = NULL;
    batch.targets = targets;
    batch.target_row_floats = 3 * scale * scale * SIDE * SIDE;
    return batch;
}

static uint64_t trained(const stoke_net_params *p, const network *n, const sample_batch *b, uint32_t parts)
{
    stoke_net *net = open_net(p);
    const stoke_net_batch batch = batch_of(b, n);
    const stoke_update update = stoke_update_defaults();
    stoke_error err = { 0 };
    for (int step = 0; step < STEPS; step++) {
        for (uint32_t part = 0; part < parts; part++)
            if (stoke_net_backward(net, &batch, parts, NULL, &err)) fail_msg("%s", err.message);
        if (stoke_net_step(net, &update, NULL, &err)) fail_msg("%s", err.message);
    }
    const uint64_t hash = hash_of(net);
    stoke_net_close(&net);
    return hash;
}

static void bits_do_not_depend_on_threads_or_memory(void **state)
{
    (void)state;
    sample_batch *b = make_batch(3);
    for (int i = 0; i < COUNT; i++) {
        stoke_net_params p = params_of(&NETWORKS[i]);
        for (p.precision = STOKE_PRECISION_FP32; p.precision <= STOKE_PRECISION_FP16; p.precision++) {
            p.threads = 1;
            p.memory = STOKE_MEMORY_PLAIN;
            const uint64_t wanted = trained(&p, &NETWORKS[i], b, 1);
            for (p.threads = 2; p.threads <= 3; p.threads++)
                assert_true(trained(&p, &NETWORKS[i], b, 1) == wanted);
            for (p.memory = STOKE_MEMORY_LEAN; p.memory <= STOKE_MEMORY_MIN; p.memory++)
                assert_true(trained(&p, &NETWORKS[i], b, 1) == wanted);
        }
    }
    free(b);
}

/* Two equal halves are the whole; in fp32 a half and a half add up without rounding. */
static void parts_of_a_batch_add_up(void **state)
{
    (void)state;
    sample_batch *b = make_batch(4);
    for (int i = 0; i < COUNT; i++) {
        const stoke_net_params p = params_of(&NETWORKS[i]);
        assert_true(trained(&p, &NETWORKS[i], b, 1) == trained(&p, &NETWORKS[i], b, 2));
    }
    free(b);
}

static void what_is_saved_is_read_again(void **state)
{
    sample_batch *b = make_batch(5);
    for (int i = 0; i < COUNT; i++) {
        stoke_net_params p = params_of(&NETWORKS[i]);
        const stoke_net_batch batch = batch_of(b, &NETWORKS[i]);
        stoke_error err = { 0 };
        stoke_logits first, second;
        stoke_net *net = open_net(&p);
        if (stoke_net_save(net, unit_folder(state), 0, &err)) fail_msg("%s", err.message);
        const stoke_net_params read = { .struct_size = sizeof read,
                                        .weights = unit_folder(state),
                                        .batch = BATCH,
                                        .height = SIDE,
                                        .width = SIDE,
                                        .precision = STOKE_PRECISION_FP32,
                                        .threads = 1 };
        stoke_net *again;
        if (stoke_net_open(&again, &read, &err)) fail_msg("%s", err.message);
        const stoke_net_plan *plan = stoke_net_plan_used(again), *was = stoke_net_plan_used(net);
        assert_string_equal(plan->model, NETWORKS[i].model);
        assert_int_equal(plan->task, NETWORKS[i].task);
        assert_int_equal(plan->scale, was->scale);
        assert_int_equal(plan->base_channels, 8);
        assert_int_equal(plan->num_blocks, was->num_blocks);
        assert_int_equal(plan->classes, was->classes);
        assert_int_equal(stoke_net_forward(net, &batch, &first, &err), 0);
        assert_int_equal(stoke_net_forward(again, &batch, &second, &err), 0);
        assert_int_equal(first.height, SIDE * plan->scale);
        assert_int_equal(second.classes, plan->classes);
        for (size_t k = 0; k < (size_t)BATCH * first.height * first.width; k++)
            assert_memory_equal(first.data + k * first.stride, second.data + k * second.stride,
                                first.classes * sizeof(float));
        stoke_net_close(&net);
        stoke_net_close(&again);
    }
    free(b);
}

static void the_tail_learns_alone(void **state)
{
    (void)state;
    sample_batch *b = make_batch(6);
    for (int i = 0; i < COUNT; i++) {
        stoke_net_params p = params_of(&NETWORKS[i]);
        p.freeze_encoder = 1;
        stoke_net *net = open_net(&p), *start = open_net(&p);
        const stoke_net_batch batch = batch_of(b, &NETWORKS[i]);
        for (int step = 0; step < 2; step++) {
            assert_int_equal(stoke_net_backward(net, &batch, 1, NULL, NULL), 0);
            assert_int_equal(stoke_net_step(net, NULL, NULL, NULL), 0);
        }
        stoke_net_tensor now, was;
        for (size_t k = 0; !stoke_net_tensor_at(net, k, &now); k++) {
            stoke_net_tensor_at(start, k, &was);
            const int same = !memcmp(now.values, was.values, now.count * sizeof(float));
            assert_int_equal(same, strncmp(now.name, "tail.", 5) != 0);
        }
        /* the packed weights are those of the masters */
        stoke_logits out, expected;
        stoke_net_forward(net, &batch, &out, NULL);
        float *kept = malloc((size_t)BATCH * out.height * out.width * out.stride * sizeof *kept);
        assert_non_null(kept);
        memcpy(kept, out.data, (size_t)BATCH * out.height * out.width * out.stride * sizeof *kept);
        stoke_net_touched(net);
        stoke_net_forward(net, &batch, &expected, NULL);
        for (size_t k = 0; k < (size_t)BATCH * out.height * out.width; k++)
            assert_memory_equal(kept + k * out.stride, expected.data + k * out.stride,
                                out.classes * sizeof(float));
        free(kept);
        stoke_net_close(&net);
        stoke_net_close(&start);
    }
    free(b);
}

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *told;
        int task;
        uint32_t channels, blocks, scale, side;
        int loss;
    } cases[] = {
        { "b0", "labels pictures", STOKE_TASK_RESTORE, 0, 0, 0, 32, STOKE_LOSS_L1 },
        { "b0", "no base_channels", 0, 8, 0, 0, 32, STOKE_LOSS_CE },
        { "resnet", "up to 1024 channels", 0, 1025, 0, 0, 32, STOKE_LOSS_CE },
        { "resnet", "256 blocks", 0, 8, 257, 0, 32, STOKE_LOSS_CE },
        { "resnet", "scale is 5", STOKE_TASK_RESTORE, 8, 2, 5, 32, STOKE_LOSS_L1 },
        { "resnet", "scale is 2", STOKE_TASK_SEGMENT, 8, 2, 2, 32, STOKE_LOSS_CE },
        { "resnet", "is a loss of masks", STOKE_TASK_RESTORE, 8, 2, 1, 32, STOKE_LOSS_CE },
        { "resnet", "is a loss of pictures", STOKE_TASK_SEGMENT, 8, 2, 1, 32, STOKE_LOSS_MSE },
        { "unet", "multiples of 16", 0, 8, 0, 0, 40, STOKE_LOSS_CE },
        { "unet", "only a resnet has", 0, 8, 4, 0, 32, STOKE_LOSS_CE },
        { "unet", "a resnet enlarges", STOKE_TASK_RESTORE, 8, 0, 2, 32, STOKE_LOSS_L1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_net_params p = small_params();
        stoke_net_plan plan;
        stoke_error err = { 0 };
        p.model = cases[i].model;
        p.task = cases[i].task;
        p.base_channels = cases[i].channels;
        p.num_blocks = cases[i].blocks;
        p.scale = cases[i].scale;
        p.height = p.width = cases[i].side;
        p.loss.kind = (stoke_loss_kind)cases[i].loss;
        if (!stoke_net_plan_of(&p, &plan, &err) || !strstr(err.message, cases[i].told))
            fail_msg("case %zu: %s", i, err.message);
    }
}

static void wrong_batches_are_refused(void **state)
{
    (void)state;
    sample_batch *b = make_batch(7);
    const stoke_net_params p = params_of(&NETWORKS[2]);
    stoke_net *net = open_net(&p);
    stoke_net_batch batch = batch_of(b, &NETWORKS[2]);
    stoke_error err;
    uint16_t classes[1];
    double loss;
    assert_int_equal(stoke_net_predict(net, &batch, classes, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "restores pictures"));
    batch.target_row_floats = 3 * SIDE * SIDE; /* not twice as large */
    assert_int_equal(stoke_net_evaluate(net, &batch, &loss, NULL, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "target_row_floats is 3072"));
    batch.targets = NULL;
    assert_int_equal(stoke_net_backward(net, &batch, 1, &loss, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "needs targets"));
    stoke_net_close(&net);
    /* Who only predicts need not name a loss, and has none to evaluate. */
    stoke_net_params predicts = p;
    predicts.training = 0;
    predicts.loss.kind = STOKE_LOSS_CE;
    net = open_net(&predicts);
    batch = batch_of(b, &NETWORKS[2]);
    assert_int_equal(stoke_net_evaluate(net, &batch, &loss, NULL, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "pictures are restored by l1, charbonnier, mse"));
    stoke_net_close(&net);
    free(b);
}

/* ---- another size ---- */

static void expect_same_outputs(stoke_net *a, stoke_net *b, const stoke_net_batch *batch)
{
    stoke_error err = { 0 };
    stoke_logits first, second;
    if (stoke_net_forward(a, batch, &first, &err)) fail_msg("%s", err.message);
    if (stoke_net_forward(b, batch, &second, &err)) fail_msg("%s", err.message);
    assert_int_equal(first.height, second.height);
    assert_int_equal(first.width, second.width);
    for (size_t k = 0; k < (size_t)batch->count * first.height * first.width; k++)
        assert_memory_equal(first.data + k * first.stride, second.data + k * second.stride,
                            first.classes * sizeof(float));
}

/* Smaller and larger ones, one after the other, as if each had been opened at its size. */
static void a_resized_network_is_one_of_that_size(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = { { 16, 32 }, { 32, 32 }, { 16, 16 }, { 32, 16 } };
    sample_batch *b = make_batch(8);
    for (int i = 0; i < COUNT; i++) {
        stoke_net_params p = params_of(&NETWORKS[i]);
        const stoke_net_batch batch = batch_of(b, &NETWORKS[i]);
        p.training = 0;
        p.height = p.width = 16;
        stoke_net *net = open_net(&p);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            p.height = sizes[k][0];
            p.width = sizes[k][1];
            stoke_net *own = open_net(&p);
            assert_int_equal(stoke_net_resize(net, p.height, p.width, NULL), STOKE_OK);
            expect_same_outputs(net, own, &batch);
            stoke_net_close(&own);
        }
        stoke_net_close(&net);
    }
    free(b);
}

/* It keeps its size, and goes on. */
static void resizing_survives_every_lack_of_memory(void **state)
{
    (void)state;
    sample_batch *b = make_batch(9);
    for (int i = 0; i < COUNT; i++) {
        stoke_net_params p = params_of(&NETWORKS[i]);
        const stoke_net_batch batch = batch_of(b, &NETWORKS[i]);
        p.training = 0;
        stoke_net *small = open_net(&p), *net = open_net(&p);
        int status = STOKE_E_NOMEM;
        for (int after = 0; status; after++) {
            stoke_error err = { 0 };
            stk_mem_fail_after(after);
            status = stoke_net_resize(net, 2 * SIDE, SIDE, &err);
            stk_mem_fail_after(-1);
            assert_true(status == STOKE_OK || (status == STOKE_E_NOMEM && err.message[0] && after < 50));
            if (!status || !net->tape.op_count) continue;
            expect_same_outputs(net, small, &batch);
        }
        stoke_net_close(&net);
        stoke_net_close(&small);
    }
    free(b);
}

/* ---- what config.json says ---- */

static void config_json_is_held_against_the_tensors(void **state)
{
    static const struct {
        const char *json, *told;
    } cases[] = { { "\"num_channels\": 4", "\"num_channels\" is 4: only 3" },
                  { "\"base_channels\": 9", "\"base_channels\" is 9: only 8" },
                  { "\"base_channels\": \"8\"", "\"base_channels\" is 8: only 8" },
                  { "\"num_blocks\": -1", "\"num_blocks\" is -1: only 4" },
                  { "\"residual_scale\": 1", "\"residual_scale\" is 1: only 0.1" },
                  { "\"scale\": 0", "\"scale\" is not 1 to 4, or does not fit 12 outputs" },
                  { "\"scale\": 3", "\"scale\" is not 1 to 4, or does not fit 12 outputs" },
                  { "\"scale\": -2", "\"scale\" is not 1 to 4, or does not fit 12 outputs" },
                  { "\"scale\": 1e300", "\"scale\" is not 1 to 4, or does not fit 12 outputs" },
                  { "\"scale\": [2]", "\"scale\" is not 1 to 4, or does not fit 12 outputs" },
                  { "\"task\": \"restore\"", "\"task\" is restore, but tail.weight makes 12 values" },
                  { "\"task\": \"denoise\"", "\"task\" is denoise: segment or restore is" },
                  { "\"task\": 7", "\"task\" is 7: segment or restore is" } };
    const char *path = unit_path(state, "config.json");
    stoke_net_params p = params_of(&NETWORKS[2]), read = params_of(&NETWORKS[0]);
    stoke_net *net = open_net(&p);
    stoke_error err = { 0 };
    if (stoke_net_save(net, unit_folder(state), 0, &err)) fail_msg("%s", err.message);
    stoke_net_close(&net);
    read.model = NULL;
    read.weights = unit_folder(state);
    read.classes = read.base_channels = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[160];
        stoke_net_plan plan;
        const int length =
            snprintf(json, sizeof json, "{\"model_type\": \"stokehold-resnet\", %s}", cases[i].json);
        unit_write(path, json, (size_t)length);
        if (!stoke_net_plan_of(&read, &plan, &err) || !strstr(err.message, cases[i].told))
            fail_msg("%s: %s", cases[i].json, err.message);
    }
}

UNIT_GROUP(networks)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_threads_or_memory),
        cmocka_unit_test(parts_of_a_batch_add_up),
        unit_test_with_folder(what_is_saved_is_read_again),
        cmocka_unit_test(the_tail_learns_alone),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(wrong_batches_are_refused),
        cmocka_unit_test(a_resized_network_is_one_of_that_size),
        cmocka_unit_test(resizing_survives_every_lack_of_memory),
        unit_test_with_folder(config_json_is_held_against_the_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
