/* SPDX-License-Identifier: Apache-2.0
 *
 * Training follows the same curve in every precision: 60 steps on synthetic scenes, 200 with
 * STOKE_TEST_ROUNDS. Under a sanitizer a few steps, without judging the curve. What a call leaves out is the
 * default, or refused.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <stoke/net.h>
#include <stoke/tools/synth.h>

enum { SCENES = 16, SIZE = 64, CLASSES = 4, BATCH = 4, PIXELS = SIZE * SIZE };

static float images[SCENES][3][PIXELS];
static uint8_t masks[SCENES][PIXELS];

/* Scenes are drawn at twice the size and thinned: shapes of a few pixels would be all edge. */
static int draw_scenes(void **state)
{
    (void)state;
    static uint8_t picture[4 * PIXELS * 3], mask[4 * PIXELS];
    stoke_synth_params params = stoke_synth_defaults();
    params.height = params.width = 2 * SIZE;
    params.classes = CLASSES;
    stoke_image image = { picture, 2 * SIZE * 3, 2 * SIZE, 2 * SIZE, 3, 1 };
    stoke_image labels = { mask, 2 * SIZE, 2 * SIZE, 2 * SIZE, 1, 1 };
    for (int i = 0; i < SCENES; i++) {
        if (stoke_synth_draw(&params, (uint64_t)i, &image, &labels, NULL)) return -1;
        for (int y = 0; y < SIZE; y++)
            for (int x = 0; x < SIZE; x++) {
                const int from = 2 * y * 2 * SIZE + 2 * x;
                masks[i][y * SIZE + x] = mask[from];
                for (int c = 0; c < 3; c++)
                    images[i][c][y * SIZE + x] = ((float)picture[from * 3 + c] - 120.0f) / 58.0f;
            }
    }
    return 0;
}

static stoke_net_params small_net(int precision)
{
    stoke_net_params params = stoke_net_defaults();
    params.model = "b0";
    params.classes = CLASSES;
    params.batch = BATCH;
    params.height = params.width = SIZE;
    params.training = 1;
    params.precision = precision;
    params.seed = 3;
    params.threads = 2;
    return params;
}

static stoke_net_batch scenes_from(int first)
{
    return (stoke_net_batch){ .count = BATCH,
                              .images = images[first % SCENES][0],
                              .layout = STOKE_LAYOUT_CHW,
                              .image_row_floats = 3 * PIXELS,
                              .masks = masks[first % SCENES],
                              .mask_dtype = STOKE_DTYPE_U8,
                              .mask_row_bytes = PIXELS };
}

/* Mean loss of the last steps. */
static double train(int precision, double *first)
{
    const int steps = UNIT_SANITIZED ? 4 : unit_rounds(60, 200);
    const int last = UNIT_SANITIZED ? 1 : 40; /* steps whose mean is compared */
    stoke_error err = { 0 };
    stoke_net *net;
    const stoke_net_params params = small_net(precision);
    if (stoke_net_open(&net, &params, &err)) fail_msg("%s", err.message);
    stoke_update update = stoke_update_defaults();
    double sum = 0;
    for (int step = 0; step < steps; step++) {
        const stoke_net_batch batch = scenes_from(BATCH * step);
        double loss;
        update.lr = 3e-4 * (step < 20 ? (step + 1) / 20.0 : 1);
        update.head_lr = 1;
        update.clip_norm = 1;
        if (stoke_net_backward(net, &batch, 1, &loss, &err)) fail_msg("%s", err.message);
        if (stoke_net_step(net, &update, NULL, &err)) fail_msg("%s", err.message);
        if (!step) *first = loss;
        if (step >= steps - last) sum += loss;
    }
    stoke_net_close(&net);
    return sum / last;
}

static void precisions_follow_one_curve(void **state)
{
    (void)state;
    double start, start_16;
    const double last = train(STOKE_PRECISION_FP32, &start);
    print_message("# fp32: %.4f -> %.4f\n", start, last);
    assert_true(UNIT_SANITIZED || last < 0.6 * start); /* it learns */
    const int others[] = { STOKE_PRECISION_BF16, STOKE_PRECISION_FP16 };
    for (int i = 0; i < 2; i++) {
        const double last_16 = train(others[i], &start_16);
        print_message("# %s: %.4f -> %.4f (%+.2f %%)\n", i ? "fp16" : "bf16", start_16, last_16,
                      100 * (last_16 / last - 1));
        assert_true(fabs(start_16 / start - 1) < 0.01);
        assert_true(fabs(last_16 / last - 1) < 0.02);
    }
}

static void expect_same_weights(const stoke_net *a, const stoke_net *b)
{
    stoke_net_tensor one, other;
    for (size_t i = 0; !stoke_net_tensor_at(a, i, &one); i++) {
        assert_int_equal(stoke_net_tensor_at(b, i, &other), STOKE_OK);
        assert_memory_equal(one.values, other.values, one.count * sizeof *one.values);
    }
}

static void null_is_a_default_or_refused(void **state)
{
    (void)state;
    const stoke_net_params params = small_net(STOKE_PRECISION_FP32);
    const stoke_net_batch batch = scenes_from(0);
    const stoke_update update = stoke_update_defaults();
    stoke_net *net, *other;
    stoke_logits logits;
    stoke_net_plan plan;
    uint16_t classes[1];
    double loss;
    assert_int_equal(stoke_net_open(&net, NULL, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_net_plan_of(NULL, &plan, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_net_open(&net, &params, NULL), STOKE_OK);
    assert_int_equal(stoke_net_open(&other, &params, NULL), STOKE_OK);
    assert_int_equal(stoke_net_backward(net, NULL, 1, &loss, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_net_forward(net, NULL, &logits, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_net_forward(net, &batch, NULL, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_net_predict(net, NULL, classes, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_net_predict(net, &batch, NULL, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_net_evaluate(net, NULL, &loss, NULL, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_net_evaluate(net, &batch, NULL, NULL, NULL), STOKE_E_INVALID);
    assert_int_equal(stoke_net_step(net, NULL, NULL, NULL), STOKE_E_STATE); /* no gradients yet */
    assert_int_equal(stoke_net_backward(net, &batch, 1, NULL, NULL), STOKE_OK);
    assert_int_equal(stoke_net_step(net, NULL, NULL, NULL), STOKE_OK);
    assert_int_equal(stoke_net_backward(other, &batch, 1, &loss, NULL), STOKE_OK);
    assert_int_equal(stoke_net_step(other, &update, NULL, NULL), STOKE_OK);
    expect_same_weights(net, other);
    stoke_net_close(&net);
    stoke_net_close(&other);
}

UNIT_GROUP(net_train)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_a_default_or_refused),
        cmocka_unit_test(precisions_follow_one_curve),
    };
    return cmocka_run_group_tests(tests, draw_scenes, NULL);
}
