/* SPDX-License-Identifier: Apache-2.0
 *
 * The network as a whole: the same bits for any number of threads, run after run, and from a saved state;
 * gradients against finite differences; nothing allocated in a step; batches and settings that do not fit.
 * (Against PyTorch: tests/parity/net_live.py.)
 */
#include "tests/unit/fixture_small_net.h"

#include <math.h>
#include <stoke/tools/netbench.h>
#include <stoke/tools/net.h>

#include "src/base/mem.h"

/* Under a sanitizer the reference takes minutes, and what there is to find in it, tests of operations find.
 */
static int first_level(void)
{
    return UNIT_SANITIZED && stk_cpu_detected() >= STK_CPU_AVX2 ? STK_CPU_AVX2 : STK_CPU_C;
}

/* Dropout and drop path are on: they must not depend on who computes either. The last batch is smaller. */
static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    sample_batch *b = make_batch(1);
    stoke_net_params p = small_params();
    for (int level = first_level(); level <= (int)stk_cpu_detected(); level++) {
        stk_net_table table;
        stk_net_table_fill(&table, (stk_cpu_level)level);
        /* the reference is slow: one type and two teams will do */
        for (int precision = STOKE_PRECISION_FP32;
             precision <= (level && !UNIT_SANITIZED ? STOKE_PRECISION_FP16 : 0); precision++) {
            uint64_t first = 0;
            for (p.threads = 1; p.threads <= 3; p.threads += level && !UNIT_SANITIZED ? 1 : 2) {
                p.precision = precision;
                stoke_net *net = open_on(&p, &table);
                train(net, b, BATCH);
                if (level) train(net, b, BATCH);
                train(net, b, 2);
                const uint64_t hash = hash_of(net);
                if (p.threads == 1) first = hash;
                if (hash != first)
                    fail_msg("table %s, precision %d: %u threads give other weights than one",
                             stk_cpu_level_name((stk_cpu_level)level), precision, (unsigned)p.threads);
                stoke_net_close(&net);
            }
        }
    }
    free(b);
}

static void a_seed_is_a_run(void **state)
{
    (void)state;
    sample_batch *b = make_batch(2);
    stoke_net_params p = small_params();
    uint64_t hash[3];
    for (int i = 0; i < 3; i++) {
        p.seed = i == 2 ? 12 : 11;
        stoke_net *net = open_net(&p);
        train(net, b, BATCH);
        hash[i] = hash_of(net);
        stoke_net_close(&net);
    }
    assert_true(hash[0] == hash[1]);
    assert_true(hash[0] != hash[2]);
    free(b);
}

/* Weights, moments and counters carried over by hand, as a checkpoint does. */
static void a_saved_state_resumes_exactly(void **state)
{
    (void)state;
    sample_batch *b = make_batch(3);
    stoke_net_params p = small_params();
    stoke_net *a = open_net(&p), *c;
    train(a, b, BATCH);
    train(a, b, BATCH);
    p.seed = 11;
    c = open_net(&p);
    stoke_net_tensor from, to;
    for (size_t i = 0; !stoke_net_tensor_at(a, i, &from); i++) {
        assert_int_equal(stoke_net_tensor_at(c, i, &to), 0);
        memcpy(to.values, from.values, from.count * sizeof(float));
        for (int m = 0; m < 2 && from.moments[m]; m++)
            memcpy(to.moments[m], from.moments[m], from.count * sizeof(float));
    }
    stoke_net_touched(c);
    stoke_net_state counters;
    stoke_net_state_get(a, &counters);
    assert_int_equal(counters.step, 2);
    assert_int_equal(counters.draws, 2);
    stoke_net_state_set(c, &counters);
    train(a, b, BATCH);
    train(c, b, BATCH);
    assert_true(hash_of(a) == hash_of(c));
    stoke_net_close(&a);
    stoke_net_close(&c);
    free(b);
}

/* The loss with weights as they stand now, in training mode. */
static double loss_now(stoke_net *net, const stoke_net_batch *batch)
{
    double loss;
    stoke_net_touched(net);
    assert_int_equal(stoke_net_backward(net, batch, 1, &loss, NULL), 0);
    return loss;
}

/* The slope along the gradient of a tensor: moving it by -e g / |g| lowers the loss by e |g|. One direction
 * per tensor holds all of its elements, and is as large as a slope can be, so f32 rounding of the loss
 * matters least. */
static void gradients_are_slopes(void **state)
{
    (void)state;
    static const char *const names[] = {
        "segformer.encoder.patch_embeddings.0.proj.weight",
        "segformer.encoder.patch_embeddings.2.layer_norm.weight",
        "segformer.encoder.block.0.0.attention.self.sr.weight",
        "segformer.encoder.block.1.1.attention.self.layer_norm.bias",
        "segformer.encoder.block.2.0.attention.self.value.weight",
        "segformer.encoder.block.2.1.mlp.dwconv.dwconv.weight",
        "segformer.encoder.block.3.0.attention.output.dense.weight",
        "segformer.encoder.block.3.1.mlp.dense1.weight",
        "segformer.encoder.layer_norm.1.weight",
        "decode_head.linear_c.2.proj.weight",
        "decode_head.linear_fuse.weight",
        "decode_head.batch_norm.bias",
        "decode_head.classifier.weight",
    };
    sample_batch *b = make_batch(5);
    stoke_net_params p = small_params();
    p.dropout = p.drop_path = 0;
    p.threads = 2;
    stoke_net *net = open_net(&p);
    const stoke_net_batch batch = view(b, 2);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const stoke_net_tensor t = tensor_of(net, names[i]);
        double norm = 0, weight = 0, loss, moved[2];
        stoke_net_state_set(net, &(stoke_net_state){ .loss_scale = 1 }); /* gradients start again */
        assert_int_equal(stoke_net_backward(net, &batch, 1, &loss, NULL), 0);
        float *direction = malloc(t.count * sizeof(float)), *kept = malloc(t.count * sizeof(float));
        for (size_t k = 0; k < t.count; k++) {
            norm += (double)t.gradients[k] * t.gradients[k];
            weight += (double)t.values[k] * t.values[k];
        }
        norm = sqrt(norm);
        assert_true(norm > 0);
        memcpy(direction, t.gradients, t.count * sizeof(float));
        memcpy(kept, t.values, t.count * sizeof(float));
        /* small next to the weights, unless the loss would then move by less than its rounding, some 2e-8 */
        const double step = fmax(2e-3 * sqrt(weight) + 1e-3, fmin(0.05, 3e-5 / norm));
        for (int side = 0; side < 2; side++) {
            for (size_t k = 0; k < t.count; k++)
                t.values[k] = (float)(kept[k] + (side ? -step : step) * direction[k] / norm);
            moved[side] = loss_now(net, &batch);
        }
        memcpy(t.values, kept, t.count * sizeof(float));
        stoke_net_touched(net);
        const double slope = (moved[0] - moved[1]) / (2 * step);
        if (fabs(slope / norm - 1) > 0.02)
            fail_msg("%s: the loss rises by %g, its gradient says %g", names[i], slope, norm);
        free(direction);
        free(kept);
    }
    stoke_net_close(&net);
    free(b);
}

/* lean and min compute again what plain keeps; in f32 the same functions give nearly the same numbers. */
static void memory_modes_agree(void **state)
{
    (void)state;
    sample_batch *b = make_batch(6);
    stoke_net_params p = small_params();
    const stoke_net_batch batch = view(b, BATCH);
    float *first = NULL;
    uint64_t bytes[3];
    for (p.memory = STOKE_MEMORY_PLAIN; p.memory <= STOKE_MEMORY_MIN; p.memory++) {
        stoke_net *net = open_net(&p);
        double loss;
        assert_int_equal(stoke_net_backward(net, &batch, 1, &loss, NULL), 0);
        bytes[p.memory] = stoke_net_plan_used(net)->activations;
        const size_t count = net->parameters.trainable;
        if (!first) {
            first = malloc(count * sizeof(float));
            memcpy(first, net->gradients, count * sizeof(float));
        }
        double apart = 0, norm = 0;
        for (size_t i = 0; i < count; i++) {
            apart += pow((double)net->gradients[i] - first[i], 2);
            norm += pow(first[i], 2);
        }
        assert_true(sqrt(apart / norm) < 1e-5);
        stoke_net_close(&net);
    }
    assert_true(bytes[1] < bytes[0] * 3 / 4);
    assert_true(bytes[2] < bytes[1] * 3 / 4);
    free(first);
    free(b);
}

/* Two halves, each divided by two, against PyTorch's definition: the mean of both gradients. */
static void gradients_add_up_between_steps(void **state)
{
    (void)state;
    sample_batch *b = make_batch(7);
    stoke_net_params p = small_params();
    p.dropout = p.drop_path = 0;
    stoke_net *net = open_net(&p);
    const size_t count = net->parameters.trainable;
    float *alone = malloc(2 * count * sizeof(float));
    stoke_net_batch part[2] = { view(b, 1), view(b, 1) };
    part[1].images += part[1].image_row_floats;
    part[1].masks = b->masks + part[1].mask_row_bytes;
    const stoke_net_state start = { .loss_scale = 1 };
    double loss;
    for (int i = 0; i < 2; i++) {
        stoke_net_state_set(net, &start);
        assert_int_equal(stoke_net_backward(net, &part[i], 1, &loss, NULL), 0);
        memcpy(alone + (size_t)i * count, net->gradients, count * sizeof(float));
    }
    stoke_net_state_set(net, &start);
    for (int i = 0; i < 2; i++) assert_int_equal(stoke_net_backward(net, &part[i], 2, &loss, NULL), 0);
    double apart = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        const double mean = ((double)alone[i] + alone[count + i]) / 2;
        apart += pow(net->gradients[i] - mean, 2);
        norm += mean * mean;
    }
    assert_true(sqrt(apart / norm) < 1e-6);
    free(alone);
    stoke_net_close(&net);
    free(b);
}

static void a_frozen_encoder_stays(void **state)
{
    (void)state;
    sample_batch *b = make_batch(8);
    stoke_net_params p = small_params();
    p.freeze_encoder = 1;
    stoke_net *net = open_net(&p);
    const stoke_net_tensor encoder = tensor_of(net, "segformer.encoder.block.0.0.mlp.dense1.weight"),
                           head = tensor_of(net, "decode_head.linear_fuse.weight");
    assert_null(encoder.gradients);
    assert_int_equal(encoder.trainable, 0);
    const float first = encoder.values[5], second = head.values[5];
    train(net, b, BATCH);
    assert_true(encoder.values[5] == first);
    assert_true(head.values[5] != second);
    stoke_net_plan all, frozen = *stoke_net_plan_used(net);
    p.freeze_encoder = 0;
    assert_int_equal(stoke_net_plan_of(&p, &all, NULL), 0);
    assert_true(frozen.activations < all.activations / 4);
    assert_true(frozen.step_flops < all.step_flops * 2 / 3);
    assert_true(frozen.forward_flops == all.forward_flops);
    stoke_net_close(&net);
    free(b);
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    sample_batch *b = make_batch(9);
    stoke_net_params p = small_params();
    p.threads = 2;
    p.average = 1;
    stoke_net *net = open_net(&p);
    const stoke_net_batch batch = view(b, BATCH);
    const uint64_t before = stk_mem_count().calls;
    uint16_t *classes = malloc(BATCH * HEIGHT * WIDTH * sizeof *classes);
    stoke_logits logits;
    double loss;
    train(net, b, BATCH);
    train(net, b, 1);
    assert_int_equal(stoke_net_forward(net, &batch, &logits, NULL), 0);
    assert_int_equal(stoke_net_predict(net, &batch, classes, NULL), 0);
    assert_int_equal(stoke_net_evaluate(net, &batch, &loss, NULL, NULL), 0);
    assert_int_equal(stk_mem_count().calls, before);
    for (size_t i = 0; i < BATCH * HEIGHT * WIDTH; i++) assert_true(classes[i] < CLASSES);
    free(classes);
    stoke_net_close(&net);
    free(b);
}

/* Inference keeps nothing, and gives what the training network gives in inference. */
static void inference_is_the_same_function(void **state)
{
    (void)state;
    sample_batch *b = make_batch(10);
    stoke_net_params p = small_params();
    stoke_net *trains = open_net(&p);
    p.training = 0;
    stoke_net *infers = open_net(&p);
    assert_int_equal(stoke_net_plan_used(infers)->activations, 0);
    const stoke_net_batch batch = view(b, 2);
    stoke_logits x, y;
    assert_int_equal(stoke_net_forward(trains, &batch, &x, NULL), 0);
    assert_int_equal(stoke_net_forward(infers, &batch, &y, NULL), 0);
    assert_int_equal(x.height, 10);
    assert_int_equal(x.width, 12);
    for (size_t i = 0; i < (size_t)2 * x.height * x.width; i++)
        assert_memory_equal(x.data + i * x.stride, y.data + i * y.stride, CLASSES * sizeof(float));
    /* the other layout of the same pictures */
    float *hwc = malloc(sizeof b->images);
    for (size_t n = 0; n < 2; n++)
        for (size_t i = 0; i < HEIGHT * WIDTH; i++)
            for (size_t c = 0; c < 3; c++)
                hwc[(n * HEIGHT * WIDTH + i) * 3 + c] = b->images[(n * 3 + c) * HEIGHT * WIDTH + i];
    float *kept = malloc((size_t)2 * x.height * x.width * x.stride * sizeof(float));
    memcpy(kept, x.data, (size_t)2 * x.height * x.width * x.stride * sizeof(float));
    stoke_net_batch other = batch;
    other.images = hwc;
    other.layout = STOKE_LAYOUT_HWC;
    assert_int_equal(stoke_net_forward(infers, &other, &y, NULL), 0);
    for (size_t i = 0; i < (size_t)2 * x.height * x.width; i++)
        assert_memory_equal(kept + i * x.stride, y.data + i * y.stride, CLASSES * sizeof(float));
    double loss;
    stoke_error err;
    assert_int_equal(stoke_net_backward(infers, &batch, 1, &loss, &err), STOKE_E_STATE);
    const stoke_update update = stoke_update_defaults();
    assert_int_equal(stoke_net_step(infers, &update, NULL, &err), STOKE_E_STATE);
    free(hwc);
    free(kept);
    stoke_net_close(&infers);
    stoke_net_close(&trains);
    free(b);
}

/* fp16 starts with a scale that overflows on a large loss weight, backs off, and then trains. */
static void the_loss_scale_follows_overflow(void **state)
{
    (void)state;
    sample_batch *b = make_batch(11);
    stoke_net_params p = small_params();
    p.precision = STOKE_PRECISION_FP16;
    p.loss.kind = STOKE_LOSS_CE_DICE;
    p.loss.ce_weight = 3e4;
    stoke_net *net = open_net(&p);
    const stoke_net_batch batch = view(b, BATCH);
    const stoke_update update = stoke_update_defaults();
    stoke_step_report report = { 0 };
    double loss, last = 0;
    const uint64_t first = hash_of(net);
    int skipped = 0;
    do {
        const uint64_t before = hash_of(net);
        assert_int_equal(stoke_net_backward(net, &batch, 1, &loss, NULL), 0);
        assert_int_equal(stoke_net_step(net, &update, &report, NULL), 0);
        if (last) assert_true(report.loss_scale == last / 2);
        last = report.loss_scale;
        assert_true(hash_of(net) != before); /* running statistics move in either case */
        skipped += report.skipped;
    } while (report.skipped && skipped < 40);
    assert_in_range(skipped, 1, 39);
    assert_int_equal(report.step, 1);
    assert_true(hash_of(net) != first);
    /* and grows again after 2000 good ones: the counter is the state's */
    stoke_net_state s;
    stoke_net_state_get(net, &s);
    assert_int_equal(s.good_steps, 1);
    s.good_steps = 1999;
    s.loss_scale /= 16; /* far from the edge */
    stoke_net_state_set(net, &s);
    assert_int_equal(stoke_net_backward(net, &batch, 1, &loss, NULL), 0);
    assert_int_equal(stoke_net_step(net, &update, &report, NULL), 0);
    assert_int_equal(report.skipped, 0);
    const double was = s.loss_scale;
    stoke_net_state_get(net, &s);
    assert_true(s.loss_scale == 2 * was);
    assert_int_equal(s.good_steps, 0);
    stoke_net_close(&net);
    free(b);
}

static void refused(stoke_net_params p, int status, const char *word)
{
    stoke_error err = { 0 };
    stoke_net *net;
    stoke_net_plan plan;
    assert_int_equal(stoke_net_open(&net, &p, &err), status);
    assert_null(net);
    if (!strstr(err.message, word)) fail_msg("\"%s\" does not say %s", err.message, word);
    assert_int_equal(stoke_net_plan_of(&p, &plan, NULL), status);
}

static void settings_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const stoke_net_params good = small_params();
    stoke_net_params p = good;
#define REFUSED(change, status, word)                                                                        \
    p = good;                                                                                                \
    p.change;                                                                                                \
    refused(p, status, word)
    REFUSED(struct_size = 4, STOKE_E_INVALID, "stoke_net_defaults");
    REFUSED(model = NULL, STOKE_E_INVALID, "b0");
    REFUSED(model = "b6", STOKE_E_NOTFOUND, "b6");
    REFUSED(classes = 0, STOKE_E_INVALID, "classes");
    REFUSED(classes = 70000, STOKE_E_INVALID, "classes");
    REFUSED(batch = 0, STOKE_E_INVALID, "batch");
    REFUSED(batch = 65537, STOKE_E_INVALID, "batch");
    REFUSED(height = 28, STOKE_E_INVALID, "29 x 29 to 32768 x 32768");
    REFUSED(width = 1, STOKE_E_INVALID, "29 x 29");
    REFUSED(height = 1 << 20, STOKE_E_INVALID, "32768");
    REFUSED(precision = 9, STOKE_E_INVALID, "precision");
    REFUSED(memory = -1, STOKE_E_INVALID, "memory");
    REFUSED(optimizer = 5, STOKE_E_INVALID, "optimizer");
    REFUSED(dropout = 1, STOKE_E_INVALID, "dropout");
    REFUSED(drop_path = -0.5, STOKE_E_INVALID, "drop_path");
    REFUSED(loss.kind = 17, STOKE_E_INVALID, "loss");
    REFUSED(loss.label_smoothing = 2, STOKE_E_INVALID, "label_smoothing");
    REFUSED(loss.focal_gamma = -1, STOKE_E_INVALID, "focal_gamma");
    REFUSED(loss.focal_gamma = NAN, STOKE_E_INVALID, "focal_gamma");
    REFUSED(loss.ce_weight = INFINITY, STOKE_E_INVALID, "ce_weight");
    REFUSED(loss.dice_smooth = -1, STOKE_E_INVALID, "dice_smooth");
    REFUSED(threads = 5000, STOKE_E_INVALID, "threads");
    const float weights[CLASSES] = { 1, 1, 1, NAN, 1 };
    REFUSED(loss.class_weights = weights, STOKE_E_INVALID, "class 3");
#undef REFUSED
    p = good; /* numbers of tasks would not fit 32 bits; it took 18 s to plan */
    p.batch = 65536;
    p.height = p.width = 16384;
    refused(p, STOKE_E_LIMIT, "pixels");
    stoke_net_bench_params scratch =
        stoke_net_bench_defaults(); /* divided by 0 rows, 2^40 of them in 32 bits */
    scratch.batch = 65536;
    scratch.height = scratch.width = 16384;
    assert_int_equal(stoke_net_bench(&scratch, NULL, NULL, NULL), STOKE_E_LIMIT);
    p = good;
    p.height = p.width = 29; /* the smallest that leaves every stage a key */
    stoke_net *net = open_net(&p);
    stoke_net_close(&net);
}

static void batches_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    sample_batch *b = make_batch(12);
    stoke_net_params p = small_params();
    stoke_net *net = open_net(&p);
    const stoke_net_batch good = view(b, BATCH);
    stoke_net_batch bad;
    const stoke_update update = stoke_update_defaults();
    stoke_error err;
    double loss;
    const uint64_t before = hash_of(net);
#define REFUSED(change, status)                                                                              \
    bad = good;                                                                                              \
    bad.change;                                                                                              \
    assert_int_equal(stoke_net_backward(net, &bad, 1, &loss, &err), status)
    REFUSED(count = 0, STOKE_E_INVALID);
    REFUSED(count = BATCH + 1, STOKE_E_INVALID);
    REFUSED(images = NULL, STOKE_E_INVALID);
    REFUSED(image_row_floats = 3 * HEIGHT * WIDTH - 1, STOKE_E_INVALID);
    REFUSED(layout = 7, STOKE_E_INVALID);
    REFUSED(masks = NULL, STOKE_E_INVALID);
    REFUSED(masks_b = b->masks, STOKE_E_INVALID);
    REFUSED(mask_dtype = STOKE_DTYPE_F32, STOKE_E_INVALID);
    REFUSED(mask_row_bytes = 1, STOKE_E_INVALID);
    bad = good;
    bad.mask_dtype = STOKE_DTYPE_U16;
    bad.mask_row_bytes = 2 * HEIGHT * WIDTH + 1; /* the second mask would not be aligned */
    assert_int_equal(stoke_net_backward(net, &bad, 1, &loss, &err), STOKE_E_INVALID);
#undef REFUSED
    assert_int_equal(stoke_net_backward(net, &good, 0, &loss, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_net_step(net, &update, NULL, &err), STOKE_E_STATE); /* no gradients yet */
    b->masks[100] = CLASSES;
    assert_int_equal(stoke_net_backward(net, &good, 1, &loss, &err), STOKE_E_LABEL);
    assert_non_null(strstr(err.message, "5"));
    assert_true(hash_of(net) == before); /* running statistics are as they were */
    assert_int_equal(stoke_net_step(net, &update, NULL, &err), STOKE_E_STATE);
    b->masks[100] = 0;
    stoke_update wild = update;
    wild.beta1 = 1;
    assert_int_equal(stoke_net_backward(net, &good, 1, &loss, &err), 0);
    assert_int_equal(stoke_net_step(net, &wild, NULL, &err), STOKE_E_INVALID);
#define REFUSED(change)                                                                                      \
    wild = update;                                                                                           \
    wild.change;                                                                                             \
    assert_int_equal(stoke_net_step(net, &wild, NULL, &err), STOKE_E_INVALID)
    REFUSED(lr = NAN);
    REFUSED(weight_decay = INFINITY);
    REFUSED(average_decay = NAN);
    REFUSED(eps = 0);
    REFUSED(eps = 1e-60); /* 0 in f32 */
#undef REFUSED
    assert_int_equal(stoke_net_step(net, &update, NULL, &err), 0);
    stoke_net_close(&net);
    free(b);
}

static void all_gradients_are(const stoke_net *net, int finite)
{
    int all_finite = 1;
    stoke_net_tensor t;
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++)
        for (size_t k = 0; t.gradients && k < t.count; k++) all_finite &= isfinite(t.gradients[k]) != 0;
    assert_int_equal(all_finite, finite);
}

/* One NaN among the pictures: the loss shows it, the step is skipped, and nothing of it stays. */
static void a_bad_picture_leaves_no_trace(void **state)
{
    (void)state;
    sample_batch *good = make_batch(13), *bad = make_batch(13);
    bad->images[3 * HEIGHT * WIDTH + 777] = NAN;
    stoke_net_params p = small_params();
    for (int level = first_level(); level <= (int)stk_cpu_detected(); level++) {
        stk_net_table table;
        stk_net_table_fill(&table, (stk_cpu_level)level);
        for (p.precision = STOKE_PRECISION_FP32; p.precision <= (level ? STOKE_PRECISION_FP16 : 0);
             p.precision++) {
            stoke_net *net = open_on(&p, &table);
            const stoke_net_batch batch = view(bad, 2);
            stoke_net_state s;
            stoke_step_report report;
            const stoke_update update = stoke_update_defaults();
            double loss = 0;
            const uint64_t before = hash_of(net);
            assert_int_equal(stoke_net_backward(net, &batch, 1, &loss, NULL), 0);
            assert_true(isnan(loss));
            all_gradients_are(net, 0);
            assert_int_equal(stoke_net_step(net, &update, &report, NULL), 0);
            assert_int_equal(report.skipped, 1);
            assert_true(hash_of(net) == before); /* running statistics too */
            stoke_net_state_get(net, &s);
            assert_int_equal(s.batches_tracked, 0);
            s.loss_scale = 1;
            stoke_net_state_set(net, &s);
            assert_true(isfinite(train(net, good, 2)));
            all_gradients_are(net, 1);
            assert_true(hash_of(net) != before);
            stoke_net_state_get(net, &s);
            assert_int_equal(s.step, 1);
            stoke_net_close(&net);
        }
    }
    free(good);
    free(bad);
}

/* No pixel counts: a loss of 0, gradients of 0, in every loss. */
static void a_batch_of_ignored_pixels_teaches_nothing(void **state)
{
    (void)state;
    sample_batch *b = make_batch(14);
    memset(b->masks, 255, sizeof b->masks);
    const stoke_net_batch batch = view(b, BATCH);
    for (int kind = STOKE_LOSS_CE; kind <= STOKE_LOSS_FOCAL; kind++) {
        stoke_net_params p = small_params();
        p.loss.kind = (stoke_loss_kind)kind;
        p.loss.label_smoothing = 0.1;
        stoke_net *net = open_net(&p);
        double loss = 1;
        stoke_step_report report;
        stoke_update update = stoke_update_defaults();
        update.weight_decay = 0;
        update.clip_norm = 1;
        assert_int_equal(stoke_net_backward(net, &batch, 1, &loss, NULL), 0);
        assert_true(loss == 0);
        assert_int_equal(stoke_net_step(net, &update, &report, NULL), 0);
        assert_true(report.gradient_norm == 0);
        assert_int_equal(report.skipped, 0);
        stoke_net_close(&net);
    }
    free(b);
}

/* A checkpoint of fp16 opened in fp32, or one whose scale was lost. */
static void the_scale_of_another_precision_is_not_taken(void **state)
{
    (void)state;
    stoke_net_params p = small_params();
    stoke_net_state s = { .loss_scale = 4096 };
    stoke_net *net = open_net(&p);
    stoke_net_state_set(net, &s);
    stoke_net_state_get(net, &s);
    assert_true(s.loss_scale == 1);
    stoke_net_close(&net);
    p.precision = STOKE_PRECISION_FP16;
    net = open_net(&p);
    const double bad[] = { 0, -1, NAN, INFINITY };
    for (int i = 0; i < 4; i++) {
        s.loss_scale = bad[i];
        stoke_net_state_set(net, &s);
        stoke_net_state_get(net, &s);
        assert_true(s.loss_scale == 65536);
    }
    s.loss_scale = 4096;
    stoke_net_state_set(net, &s);
    stoke_net_state_get(net, &s);
    assert_true(s.loss_scale == 4096);
    stoke_net_close(&net);
}

static void opening_survives_every_lack_of_memory(void **state)
{
    (void)state;
    stoke_net_params p = small_params();
    const float weights[CLASSES] = { 1, 1, 2, 1, 1 };
    const char *const names[CLASSES] = { "a", NULL, "c", "d", "e" };
    p.loss.class_weights = weights;
    p.class_names = names;
    stoke_net *net = NULL;
    int status = STOKE_E_NOMEM, tries = 0;
    for (; status && tries < 100; tries++) {
        stoke_error err = { 0 };
        stk_mem_fail_after(tries);
        status = stoke_net_open(&net, &p, &err);
        stk_mem_fail_after(-1);
        if (!status) break;
        assert_int_equal(status, STOKE_E_NOMEM);
        assert_null(net);
        assert_true(err.message[0] != 0);
    }
    assert_in_range(tries, 5, 60);
    stoke_net_close(&net);
    stoke_net_close(&net);
}

UNIT_GROUP(net)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(a_seed_is_a_run),
        cmocka_unit_test(a_saved_state_resumes_exactly),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(memory_modes_agree),
        cmocka_unit_test(gradients_add_up_between_steps),
        cmocka_unit_test(a_frozen_encoder_stays),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(inference_is_the_same_function),
        cmocka_unit_test(the_loss_scale_follows_overflow),
        cmocka_unit_test(settings_that_make_no_sense_are_refused),
        cmocka_unit_test(batches_that_do_not_fit_are_refused),
        cmocka_unit_test(a_bad_picture_leaves_no_trace),
        cmocka_unit_test(a_batch_of_ignored_pixels_teaches_nothing),
        cmocka_unit_test(the_scale_of_another_precision_is_not_taken),
        cmocka_unit_test(opening_survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
