/* SPDX-License-Identifier: Apache-2.0
 *
 * A network's weights as others use them: saved and opened again, in part, by their average, with names of
 * classes; and what is computed with them without gradients.
 */
#include "tests/unit/fixture_small_net.h"

#include <math.h>
#include <stoke/tools/net.h>

static void saved_weights_open_again(void **state)
{
    sample_batch *b = make_batch(4);
    stoke_net_params p = small_params();
    stoke_error err = { 0 };
    p.average = 1;
    stoke_net *a = open_net(&p), *c;
    train(a, b, BATCH);
    const char *folder = unit_path(state, "out"), *averaged = unit_path(state, "average");
    if (stoke_net_save(a, folder, 0, &err)) fail_msg("%s", err.message);
    if (stoke_net_save(a, averaged, 1, &err)) fail_msg("%s", err.message);
    p.model = NULL;
    p.classes = 0;
    p.weights = folder;
    c = open_net(&p);
    assert_null(stoke_net_remark(c, 0));
    assert_true(hash_of(a) == hash_of(c));
    assert_string_equal(c->labels[4], "LABEL_4"); /* what config.json calls it */
    const stoke_net_batch batch = view(b, BATCH);
    double loss_a, loss_c;
    assert_int_equal(stoke_net_evaluate(a, &batch, &loss_a, NULL, NULL), 0);
    assert_int_equal(stoke_net_evaluate(c, &batch, &loss_c, NULL, NULL), 0);
    assert_true(loss_a == loss_c);
    stoke_net_close(&c);
    p.weights = averaged;
    c = open_net(&p);
    const char *name = "decode_head.classifier.weight";
    const stoke_net_tensor mine = tensor_of(a, name), saved = tensor_of(c, name);
    assert_memory_equal(mine.average, saved.values, mine.count * sizeof(float));
    assert_memory_not_equal(mine.values, saved.values, mine.count * sizeof(float));
    stoke_net_close(&c);
    p.weights = folder;
    p.classes = 2; /* another number of classes: the classifier is made again, and that is said */
    c = open_net(&p);
    assert_null(c->labels);
    assert_non_null(stoke_net_remark(c, 0));
    assert_int_equal(stoke_net_save(c, averaged, 1, NULL), STOKE_OK);
    stoke_net_close(&c);
    p.average = 0;
    c = open_net(&p);
    assert_int_equal(stoke_net_save(c, averaged, 1, &err), STOKE_E_STATE); /* there is none */
    stoke_net_close(&c);
    p.model = "b1";
    assert_int_equal(stoke_net_open(&c, &p, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "b0"));
    stoke_net_close(&a);
    free(b);
}

/* One pass gives what two do, and neither depends on what the other asked for. */
static void evaluation_gives_classes_too(void **state)
{
    (void)state;
    sample_batch *b = make_batch(21);
    const stoke_net_params p = small_params();
    stoke_net *net = open_net(&p);
    train(net, b, BATCH);
    static uint16_t together[BATCH * HEIGHT * WIDTH], alone[BATCH * HEIGHT * WIDTH];
    for (uint32_t count = 1; count <= BATCH; count++) {
        const stoke_net_batch batch = view(b, count);
        double loss, same;
        memset(together, 0xff, sizeof together);
        memset(alone, 0xff, sizeof alone);
        assert_int_equal(stoke_net_evaluate(net, &batch, &loss, together, NULL), 0);
        assert_int_equal(stoke_net_evaluate(net, &batch, &same, NULL, NULL), 0);
        assert_int_equal(stoke_net_predict(net, &batch, alone, NULL), 0);
        assert_true(loss == same && isfinite(loss));
        assert_memory_equal(together, alone, sizeof alone); /* with the rows nobody asked for */
        assert_true(together[0] < CLASSES);
    }
    stoke_net_close(&net);
    free(b);
}

/* Swapped, it computes what a network saved from the average does; swapped back, nothing has happened. */
static void the_average_takes_the_weights_place(void **state)
{
    sample_batch *b = make_batch(22);
    stoke_net_params p = small_params();
    stoke_error err = { 0 };
    stoke_net *plain = open_net(&p);
    assert_int_equal(stoke_net_swap_average(plain, &err), STOKE_E_STATE);
    assert_non_null(strstr(err.message, "average 1"));
    stoke_net_close(&plain);
    p.average = 1;
    stoke_net *net = open_net(&p), *twin = open_net(&p);
    for (int i = 0; i < 3; i++) {
        train(net, b, BATCH);
        train(twin, b, BATCH);
    }
    const char *folder = unit_path(state, "average");
    if (stoke_net_save(net, folder, 1, &err)) fail_msg("%s", err.message);
    const uint64_t before = hash_of(net);
    const stoke_net_batch batch = view(b, BATCH);
    double own, averaged, again, saved;
    assert_int_equal(stoke_net_evaluate(net, &batch, &own, NULL, NULL), 0);
    assert_int_equal(stoke_net_swap_average(net, NULL), 0);
    assert_true(hash_of(net) != before);
    assert_int_equal(stoke_net_evaluate(net, &batch, &averaged, NULL, NULL), 0);
    assert_int_equal(stoke_net_swap_average(net, NULL), 0);
    assert_true(hash_of(net) == before);
    assert_int_equal(stoke_net_evaluate(net, &batch, &again, NULL, NULL), 0);
    assert_true(own == again && own != averaged);
    stoke_net_params q = small_params();
    q.weights = folder;
    stoke_net *other = open_net(&q);
    assert_int_equal(stoke_net_evaluate(other, &batch, &saved, NULL, NULL), 0);
    assert_true(saved == averaged);
    train(net, b, BATCH);
    train(twin, b, BATCH);
    assert_true(hash_of(net) == hash_of(twin));
    const stoke_net_tensor mine = tensor_of(net, "decode_head.classifier.weight"),
                           its = tensor_of(twin, "decode_head.classifier.weight");
    assert_memory_equal(mine.average, its.average, mine.count * sizeof(float));
    stoke_net_close(&other);
    stoke_net_close(&net);
    stoke_net_close(&twin);
    free(b);
}

static void expect_name(const stoke_net *net, const char *folder, const char *quoted)
{
    char path[4200], text[8192];
    stoke_error err = { 0 };
    if (stoke_net_save(net, folder, 0, &err)) fail_msg("%s", err.message);
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    text[fread(text, 1, sizeof text - 1, stream)] = 0;
    fclose(stream);
    if (!strstr(text, quoted)) fail_msg("no %s in %s", quoted, text);
}

/* Given names go before the file's, which stay when none are given. The caller's copies may go at once. */
static void classes_keep_their_names(void **state)
{
    char sky[] = "sky", road[] = "road";
    const char *names[CLASSES] = { sky, NULL, road, "tree", "car" };
    stoke_net_params p = small_params();
    p.training = 0;
    p.class_names = names;
    stoke_net *net = open_net(&p);
    memset(sky, 'x', 3);
    names[2] = "gone";
    const char *first = unit_path(state, "first"), *second = unit_path(state, "second");
    expect_name(net, first, "\"0\": \"sky\",\n    \"1\": \"LABEL_1\",\n    \"2\": \"road\"");
    stoke_net_close(&net);
    p = small_params();
    p.training = 0;
    p.weights = first;
    net = open_net(&p);
    expect_name(net, second, "\"2\": \"road\"");
    stoke_net_close(&net);
    p.class_names = names;
    net = open_net(&p);
    expect_name(net, second, "\"2\": \"gone\"");
    stoke_net_close(&net);
}

/* b0 and b2 share one tensor; it is the whole that must work: planned, opened, said, computed. */
static void weights_of_another_model_may_be_part(void **state)
{
    stoke_error err = { 0 };
    sample_batch *b = make_batch(23);
    stoke_net_params p = small_params();
    stoke_net *net = open_net(&p);
    train(net, b, BATCH);
    const char *folder = unit_path(state, "b0");
    if (stoke_net_save(net, folder, 0, &err)) fail_msg("%s", err.message);
    stoke_net_params q = small_params();
    q.model = "b2";
    q.weights = folder;
    q.training = 0;
    stoke_net_plan plan;
    assert_int_equal(stoke_net_plan_of(&q, &plan, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "holds a b0, not the b2"));
    q.partial = 1;
    assert_int_equal(stoke_net_plan_of(&q, &plan, &err), 0);
    assert_string_equal(plan.model, "b2");
    assert_int_equal(plan.tensors, 379);
    assert_int_equal(plan.carried, 1);
    stoke_net *larger = open_net(&q);
    const char *remark = stoke_net_remark(larger, 0);
    assert_non_null(remark);
    assert_non_null(strstr(remark, "1 of 379 tensors (0.0 of 27.4 million values) carried over from "));
    assert_null(stoke_net_remark(larger, 1));
    const stoke_net_tensor from = tensor_of(net, "decode_head.classifier.bias"),
                           to = tensor_of(larger, "decode_head.classifier.bias");
    assert_memory_equal(from.values, to.values, sizeof(float) * CLASSES);
    const stoke_net_batch batch = view(b, 1);
    double loss;
    assert_int_equal(stoke_net_evaluate(larger, &batch, &loss, NULL, NULL), 0);
    assert_true(isfinite(loss));
    stoke_net_close(&larger);
    q.model = NULL; /* then it is the file's: all of it */
    assert_int_equal(stoke_net_plan_of(&q, &plan, &err), 0);
    assert_string_equal(plan.model, "b0");
    assert_int_equal(plan.carried, plan.tensors);
    stoke_net_close(&net);
    free(b);
}

UNIT_GROUP(net_weights)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(saved_weights_open_again),
        cmocka_unit_test(evaluation_gives_classes_too),
        unit_test_with_folder(the_average_takes_the_weights_place),
        unit_test_with_folder(classes_keep_their_names),
        unit_test_with_folder(weights_of_another_model_may_be_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
