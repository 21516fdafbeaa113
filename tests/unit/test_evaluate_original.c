/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass at the pictures' own size: with windows as large as the pictures it is the pass at the network's
 * size; of larger pictures it depends neither on batches nor on threads. And when a set is looked at like
 * that.
 */
#include "tests/unit/fixture_pairs.h"

#include <math.h>
#include <stoke/tools/metrics.h>

#include "src/source/reader.h"
#include "src/train/evaluate.h"

enum { SIZE = 32 };

typedef struct scratch {
    stoke_net *net;
    stoke_dataset *dataset;
    stoke_confusion *confusion;
    stoke_labels *labels;
    stk_original original;
} scratch;

static stoke_data_params settings(void **state)
{
    stoke_data_params data = pairs_params(state);
    data.normalize = STOKE_NORMALIZE_IMAGENET;
    data.order = STOKE_ORDER_SEQUENTIAL;
    data.dtype = STOKE_IMAGE_DTYPE_F32;
    return data;
}

static stoke_net_params net_params(uint32_t batch, uint32_t threads)
{
    stoke_net_params params = stoke_net_defaults();
    params.model = "b0";
    params.classes = PAIRS_CLASSES;
    params.batch = batch;
    params.height = params.width = SIZE;
    params.training = 0;
    params.precision = STOKE_PRECISION_FP32;
    params.threads = threads;
    params.seed = 5;
    params.loss.ignore_index = 255;
    return params;
}

static void open_bench(scratch *b, const stoke_data_params *data, uint32_t batch, uint32_t threads)
{
    stoke_error err = { 0 };
    const stoke_net_params params = net_params(batch, threads);
    *b = (scratch){ 0 };
    int r = stoke_net_open(&b->net, &params, &err);
    if (!r) r = stoke_dataset_open(&b->dataset, data, &err);
    if (!r) r = stk_labels_of(&b->labels, data, &err);
    if (!r) r = stoke_confusion_create(&b->confusion, PAIRS_CLASSES, 255, &err);
    if (!r) r = stk_predictor_borrow(&b->original.predictor, b->net, "random_crop", &err);
    if (!r) r = stk_quarantine_open(&b->original.quarantine, NULL, &err);
    if (r) fail_msg("%s", err.message);
    b->original.dataset = b->dataset;
    b->original.labels = b->labels;
    b->original.data = data;
}

static void close_bench(scratch *b)
{
    stk_quarantine_close(&b->original.quarantine);
    stoke_predictor_close(&b->original.predictor);
    stoke_labels_destroy(&b->labels);
    stoke_dataset_close(&b->dataset);
    stoke_confusion_destroy(&b->confusion);
    stoke_net_close(&b->net);
}

static stk_evaluate_result evaluated(scratch *b)
{
    stk_evaluate_result e;
    stoke_error err = { 0 };
    if (stk_evaluate_original(&b->original, b->confusion, &e, NULL, NULL, &err)) fail_msg("%s", err.message);
    return e;
}

static void expect_same_counts(const stoke_confusion *a, const stoke_confusion *b)
{
    for (uint32_t t = 0; t < PAIRS_CLASSES; t++)
        for (uint32_t p = 0; p < PAIRS_CLASSES; p++)
            assert_int_equal(stoke_confusion_count(a, t, p), stoke_confusion_count(b, t, p));
}

static void a_window_as_large_as_the_picture(void **state)
{
    pairs_write(state, 7, SIZE, SIZE);
    stoke_data_params data = settings(state);
    stoke_error err = { 0 };
    stoke_loader *loader;
    stoke_confusion *resized;
    stk_evaluate_result usual;
    scratch b;
    open_bench(&b, &data, 4, 2);
    assert_int_equal(stoke_confusion_create(&resized, PAIRS_CLASSES, 255, NULL), 0);
    assert_int_equal(stoke_loader_create(&loader, b.dataset, &data, NULL, &err), 0);
    if (stk_evaluate(b.net, loader, NULL, resized, NULL, &usual, NULL, NULL, &err)) fail_msg("%s", err.message);
    const stk_evaluate_result own = evaluated(&b);
    expect_same_counts(resized, b.confusion);
    assert_int_equal(own.samples, 7);
    assert_int_equal(own.windows, 7);
    assert_int_equal(usual.windows, 0);
    assert_true(own.scores.miou == usual.scores.miou);
    assert_true(fabs(own.loss - usual.loss) < 1e-6 * usual.loss);
    assert_int_equal(own.n_worst, usual.n_worst);
    for (size_t i = 0; i < own.n_worst; i++) {
        assert_int_equal(own.worst[i].id, usual.worst[i].id);
        assert_true(own.worst[i].miou == usual.worst[i].miou);
    }
    stoke_loader_destroy(&loader);
    stoke_confusion_destroy(&resized);
    close_bench(&b);
}

/* Bits, not digits: which network is the best may hang on them. */
static void neither_batch_nor_threads_matter(void **state)
{
    pairs_write(state, 5, 70, 50);
    const stoke_data_params data = settings(state);
    scratch a, b;
    open_bench(&a, &data, 1, 1);
    open_bench(&b, &data, 7, 2);
    const stk_evaluate_result one = evaluated(&a), many = evaluated(&b);
    expect_same_counts(a.confusion, b.confusion);
    assert_true(one.loss == many.loss && isfinite(one.loss));
    assert_int_equal(one.scores.pixels, 5 * 70 * 50);
    assert_int_equal(one.windows, 5 * 4 * 3);
    assert_int_equal(many.windows, one.windows);
    const stk_evaluate_result again = evaluated(&b); /* counts begin again */
    assert_int_equal(again.scores.pixels, one.scores.pixels);
    assert_true(again.loss == one.loss);
    close_bench(&a);
    close_bench(&b);
}

static void a_bad_mask_is_counted_once(void **state)
{
    pairs_write(state, 5, 70, 50);
    stoke_data_params data = settings(state);
    data.max_bad = "1";
    assert_int_equal(truncate(unit_path(state, "masks/s2.png"), 40), 0);
    scratch b;
    open_bench(&b, &data, 4, 2);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(evaluated(&b).samples, 4);
        assert_int_equal(stk_quarantine_count(b.original.quarantine), 1);
        assert_non_null(strstr(stk_quarantine_get(b.original.quarantine, 0).reason, "s2.png"));
    }
    stk_evaluate_result e;
    stoke_error err = { 0 };
    data.max_bad = "0";
    assert_int_equal(stk_evaluate_original(&b.original, b.confusion, &e, NULL, NULL, &err), STOKE_E_TOO_BAD);
    assert_non_null(strstr(err.message, "max_bad"));
    close_bench(&b);
}

static int stop(void *context, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return ++*(int *)context > 1;
}

static void it_stops_when_asked(void **state)
{
    pairs_write(state, 5, 70, 50);
    const stoke_data_params data = settings(state);
    scratch b;
    stk_evaluate_result e;
    stoke_error err = { 0 };
    int asked = 0;
    open_bench(&b, &data, 4, 2);
    assert_int_equal(stk_evaluate_original(&b.original, b.confusion, &e, stop, &asked, &err),
                     STOKE_E_CANCELLED);
    close_bench(&b);
}

static stk_eval_plan plan_of(void **state, const char *augment, int wanted, uint32_t height, uint32_t width)
{
    stoke_data_params data = settings(state);
    stoke_dataset *set;
    stoke_error err = { 0 };
    stk_eval_plan plan;
    data.augment = augment;
    data.size[0] = height;
    data.size[1] = width;
    assert_int_equal(stoke_dataset_open(&set, &data, &err), 0);
    stk_pairs pairs;
    assert_int_equal(stk_pairs_look(&pairs, set, &data, NULL, NULL, &err), 0);
    const stoke_net_plan net = { .stride = 4, .side_multiple = 1 };
    if (stk_eval_plan_make(&plan, &pairs, stoke_dataset_count(set), &data, &net, wanted, &err))
        fail_msg("%s", err.message);
    stk_pairs_free(&pairs);
    stoke_dataset_close(&set);
    return plan;
}

/* 48 wide and high: exactly 1.5 times 32 is not more than that. */
static void when_windows_are_taken(void **state)
{
    static const struct {
        const char *augment;
        int wanted;
        uint32_t height, width;
        int mode;
        double windows;
    } rows[] = {
        { "crop", STOKE_PREDICT_AUTO, 32, 32, STOKE_PREDICT_RESIZE, 1 },
        { "crop", STOKE_PREDICT_AUTO, 28, 48, STOKE_PREDICT_SLIDE, 3 },
        { "medical", STOKE_PREDICT_AUTO, 48, 28, STOKE_PREDICT_SLIDE, 3 },
        { "center_crop", STOKE_PREDICT_AUTO, 24, 24, STOKE_PREDICT_SLIDE, 9 },
        { "crop", STOKE_PREDICT_AUTO, 30, 30, STOKE_PREDICT_RESIZE, 1 }, /* no multiple of 4 */
        { "crop", STOKE_PREDICT_RESIZE, 24, 24, STOKE_PREDICT_RESIZE, 1 },
        { "none", STOKE_PREDICT_AUTO, 24, 24, STOKE_PREDICT_RESIZE, 1 },
        { "standard", STOKE_PREDICT_AUTO, 24, 24, STOKE_PREDICT_RESIZE, 1 },
        { "strong", STOKE_PREDICT_AUTO, 24, 24, STOKE_PREDICT_RESIZE, 1 },
        { "none", STOKE_PREDICT_SLIDE, 24, 24, STOKE_PREDICT_SLIDE, 9 },
    };
    pairs_write(state, 3, 48, 48);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const stk_eval_plan plan =
            plan_of(state, rows[i].augment, rows[i].wanted, rows[i].height, rows[i].width);
        if (plan.mode != rows[i].mode || plan.windows != rows[i].windows)
            fail_msg("row %zu: mode %d, %g windows", i, plan.mode, plan.windows);
    }
    assert_true(
        plan_of(state, "random_resized_crop(scale=0.1..0.4)", STOKE_PREDICT_AUTO, 32, 32).most_shown == 0.4);
    assert_true(plan_of(state, "crop", STOKE_PREDICT_AUTO, 32, 32).most_shown == 1);
}

/* Pictures of validation are bounded, however large they are: but for one that is larger than all of the
 * room. */
static void memory_is_planned(void **state)
{
    (void)state;
    const stoke_net_params net = net_params(4, 2);
    stk_eval_plan plan = {
        .mode = STOKE_PREDICT_RESIZE, .width = 1000, .pixels = 1000 * 1000, .raster = { 4, 4 }
    };
    assert_int_equal(stk_eval_plan_bytes(&plan, &net, 4), 0);
    plan.mode = STOKE_PREDICT_SLIDE;
    const uint64_t small = stk_eval_plan_bytes(&plan, &net, 0);
    assert_true(small > 1000 * 1000 * 8);
    assert_int_equal(stk_eval_plan_bytes(&plan, &net, 4) - small, 4 * 7 * STK_EVAL_SIDE * STK_EVAL_SIDE);
    plan.pixels = 4000 * 1000; /* 80 MB each: several would not fit */
    const uint64_t large = stk_eval_plan_bytes(&plan, &net, 0);
    plan.pixels = 5000 * 1000;
    assert_int_equal(stk_eval_plan_bytes(&plan, &net, 0), large);
    assert_true(large > STK_EVAL_MEMORY && large < 3ull * STK_EVAL_MEMORY);
}

UNIT_GROUP(evaluate_original)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(a_window_as_large_as_the_picture),
        unit_test_with_folder(neither_batch_nor_threads_matter),
        unit_test_with_folder(a_bad_mask_is_counted_once),
        unit_test_with_folder(it_stops_when_asked),
        unit_test_with_folder(when_windows_are_taken),
        cmocka_unit_test(memory_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
