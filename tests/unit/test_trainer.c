/* SPDX-License-Identifier: Apache-2.0
 *
 * A run is one run however it is cut: bits after stopping and going on equal those of one go, and depend on
 * nothing but data, settings and seed. What must not happen to a run is refused with words.
 */
#include "tests/unit/fixture_pairs.h"

#include <dirent.h>
#include <math.h>
#include <stoke/tools/net.h>

#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/train/trainer.h"

enum {
    PICTURES = 13,                 /* about 11 to train on: an epoch is 6 batches of 2, the last one short */
    STEPS = UNIT_SANITIZED ? 5 : 7 /* so that both parts of a run end in the middle of an epoch */
};

/* What a test sees of a run, and where it asks it to stop. */
typedef struct watcher {
    uint64_t stop_at;               /* step; 0: never */
    stoke_train_event_kind stop_on; /* or at an event of this kind; REMARK: never */
    uint64_t steps, epochs, evaluations, saves, best;
    int ready, done;
    char remarks[4096], done_text[256];
} watcher;

static int watch(void *context, const stoke_train_event *e)
{
    watcher *w = context;
    switch (e->kind) {
    case STOKE_TRAIN_REMARK:
        strncat(w->remarks, e->text, sizeof w->remarks - strlen(w->remarks) - 1);
        strncat(w->remarks, "\n", sizeof w->remarks - strlen(w->remarks) - 1);
        break;
    case STOKE_TRAIN_READY:
        assert_non_null(e->outlook);
        assert_true(e->outlook->train_samples > 0);
        assert_non_null(strstr(e->text, "parameters"));
        w->ready++;
        break;
    case STOKE_TRAIN_STEP:
        w->steps++;
        assert_true(e->step_in_epoch >= 1 && e->step_in_epoch <= e->steps_per_epoch);
        assert_true(e->data_wait >= 0 && e->data_wait <= 1);
        break;
    case STOKE_TRAIN_EPOCH: w->epochs++; break;
    case STOKE_TRAIN_EVALUATED:
        w->evaluations++;
        w->best += (uint64_t)e->best;
        assert_non_null(e->scores);
        break;
    case STOKE_TRAIN_SAVED: w->saves++; break;
    case STOKE_TRAIN_DONE:
        w->done++;
        snprintf(w->done_text, sizeof w->done_text, "%s", e->text);
        break;
    case STOKE_TRAIN_SETTLING:
    case STOKE_TRAIN_EVALUATING: break;
    }
    if (w->stop_on != STOKE_TRAIN_REMARK && e->kind == w->stop_on) return 1;
    return w->stop_at && e->kind == STOKE_TRAIN_STEP && e->step >= w->stop_at;
}

static stoke_data_params small_data(void **state)
{
    stoke_data_params data = pairs_params(state);
    data.batch = 2;
    data.val_split = 0.2;
    data.normalize = STOKE_NORMALIZE_IMAGENET;
    data.augment = "hflip";
    return data;
}

static stoke_train_params small_run(void **state, const char *name)
{
    stoke_train_params p = stoke_train_defaults();
    p.model = "b0";
    p.precision = STOKE_PRECISION_FP32;
    p.threads = 2;
    p.steps = STEPS;
    p.lr = 1e-3;
    p.eval_every = 5;
    p.log_every = 3;
    p.pictures = p.tensorboard = 0;
    p.runs = unit_folder(state);
    p.name = name;
    return p;
}

static int a_pair_set(void **state)
{
    if (unit_folder_setup(state)) return -1;
    pairs_write(state, PICTURES, 48, 40);
    return 0;
}
#define test_with_pairs(f) cmocka_unit_test_setup_teardown(f, a_pair_set, unit_folder_teardown)

/* ---- the bits of a run ---- */

static void mix(uint64_t *hash, const void *bytes, size_t size)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; b && i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, b + i, 8);
        *hash = (*hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        *hash ^= *hash >> 29;
    }
}

/* Weights, moments, average, counters. (Tensors have an even number of floats, or one that is padded by
 * nothing: the last float of an odd one is taken by itself.) */
static uint64_t bits_of(const stoke_trainer *t)
{
    uint64_t hash = 1;
    stoke_net_tensor tensor;
    stoke_net_state net;
    for (size_t i = 0; !stoke_net_tensor_at(t->net, i, &tensor); i++) {
        const float *arrays[] = { tensor.values, tensor.average, tensor.moments[0], tensor.moments[1] };
        for (int a = 0; a < 4; a++) {
            mix(&hash, arrays[a], tensor.count * sizeof(float));
            if (arrays[a] && tensor.count % 2) {
                const double last = arrays[a][tensor.count - 1];
                mix(&hash, &last, sizeof last);
            }
        }
    }
    stoke_net_state_get(t->net, &net);
    mix(&hash, &net.step, sizeof net.step);
    mix(&hash, &net.draws, sizeof net.draws);
    mix(&hash, &net.loss_scale, sizeof net.loss_scale);
    mix(&hash, &t->now.images, sizeof t->now.images);
    mix(&hash, &t->now.epoch_loss, sizeof t->now.epoch_loss);
    return hash;
}

static stoke_trainer *opened(const stoke_data_params *data, const stoke_train_params *params, watcher *w)
{
    stoke_trainer *t;
    stoke_error err = { 0 };
    if (stoke_trainer_open(&t, data, params, watch, w, &err)) fail_msg("%s", err.message);
    return t;
}

/* Opens, runs, closes. */
static uint64_t bits_after(const stoke_data_params *data, const stoke_train_params *params, int wanted)
{
    watcher w = { 0 };
    stoke_error err = { 0 };
    stoke_trainer *t = opened(data, params, &w);
    const int r = stoke_trainer_run(t, &err);
    if (r != wanted) fail_msg("%d: %s", r, err.message);
    assert_int_equal(w.done, 1);
    const uint64_t bits = bits_of(t);
    stoke_trainer_close(&t);
    return bits;
}

/* In one go, and in two with everything forgotten between them. */
static void expect_one_run(void **state, const stoke_data_params *data, const stoke_train_params *params)
{
    const int64_t first = params->steps * 9 / 20;
    stoke_train_params whole = *params, part = *params;
    whole.name = "whole";
    part.name = "part";
    part.stop_after = first;
    const uint64_t wanted = bits_after(data, &whole, STOKE_OK);
    const uint64_t half = bits_after(data, &part, STOKE_OK);
    assert_true(half != wanted);
    part.stop_after = 0;
    part.name = NULL;
    part.resume = unit_path(state, "part");
    const uint64_t got = bits_after(data, &part, STOKE_OK);
    assert_true(got == wanted);
}

static void resume_is_exact(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, NULL);
    if (!UNIT_SANITIZED) params.steps = 20;
    expect_one_run(state, &data, &params);
}

/* The state is then of the epoch that begins. */
static void resume_is_exact_between_epochs(void **state)
{
    stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "look");
    data.batch = 4; /* short epochs */
    watcher w = { 0 };
    stoke_trainer *t = opened(&data, &params, &w);
    const int64_t epoch = (int64_t)t->setup.batches_per_epoch;
    stoke_trainer_close(&t);
    params.steps = (20 * epoch + 8) / 9;
    assert_int_equal(params.steps * 9 / 20, epoch); /* where expect_one_run cuts */
    expect_one_run(state, &data, &params);
}

/* Steps of five batches in epochs of six: nearly all reach over the end of one, and the cut is in the middle
 * of one. */
static void resume_is_exact_with_accumulation(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, NULL);
    params.accumulate = UNIT_SANITIZED ? 2 : 5;
    params.optimizer = STOKE_OPTIMIZER_SGD;
    expect_one_run(state, &data, &params);
}

static void resume_is_exact_with_mixup_and_average(void **state)
{
    stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, NULL);
    data.augment = "hflip,mixup(p=1)";
    params.average = 0.9;
    params.loss = STOKE_LOSS_CE_DICE;
    expect_one_run(state, &data, &params);
}

static void resume_is_exact_in_fp16(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, NULL);
    params.precision = STOKE_PRECISION_FP16;
    params.freeze_encoder = 1;
    expect_one_run(state, &data, &params);
}

static void bits_depend_on_data_and_settings_alone(void **state)
{
    stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "plain");
    params.steps = UNIT_SANITIZED ? 3 : 5;
    params.eval_every = 0;
    params.average = 0.9;           /* an evaluation exchanges it with the weights and must put it back */
    data.split = STOKE_SPLIT_TRAIN; /* the same pictures as when some are kept for validation */
    const uint64_t wanted = bits_after(&data, &params, STOKE_OK);
    data.split = STOKE_SPLIT_ALL;
    params.name = "busy";
    params.eval_every = 2;
    params.save_every = 1;
    params.log_every = 1;
    params.pictures = params.tensorboard = 1;
    params.threads = 1;
    data.workers = 0;
    data.prefetch = 1;
    const uint64_t busy = bits_after(&data, &params, STOKE_OK);
    assert_true(busy == wanted);
    params.name = "seed";
    data.seed++;
    assert_true(bits_after(&data, &params, STOKE_OK) != busy);
}

/* ---- accumulation ---- */

static void copy_file(void **state, const char *from, const char *to)
{
    static char bytes[1 << 16];
    FILE *in = fopen(unit_path(state, from), "rb");
    assert_non_null(in);
    const size_t n = fread(bytes, 1, sizeof bytes, in);
    assert_true(n < sizeof bytes);
    fclose(in);
    unit_write(unit_path(state, to), bytes, n);
}

/* Two batches of two give the gradient of one of four. The head's batch norm sees what is in one batch, so
 * that this holds to rounding where both halves hold the same pictures, which s2 and s3 are: copies of s0
 * and s1. */
static void accumulation_equals_the_large_batch(void **state)
{
    mkdir(unit_path(state, "images"), 0777);
    mkdir(unit_path(state, "masks"), 0777);
    for (uint32_t i = 0; i < 2; i++) pairs_write_one(state, i, "png", 32, 32);
    copy_file(state, "images/s0.png", "images/s2.png");
    copy_file(state, "images/s1.png", "images/s3.png");
    copy_file(state, "masks/s0.png", "masks/s2.png");
    copy_file(state, "masks/s1.png", "masks/s3.png");
    stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "large");
    data.order = STOKE_ORDER_SEQUENTIAL;
    data.augment = "none";
    params.eval_every = 0;
    params.dropout = params.drop_path = 0;
    params.optimizer = STOKE_OPTIMIZER_SGD;
    params.lr = 0.05;
    params.warmup = 0;
    params.schedule = STOKE_SCHEDULE_CONSTANT;
    params.clip_norm = 0;
    params.steps = 1; /* later ones multiply the rounding of the first */
    data.batch = 4;
    watcher w = { 0 };
    stoke_error err = { 0 };
    stoke_trainer *large = opened(&data, &params, &w);
    data.batch = 2;
    params.accumulate = 2;
    params.name = "small";
    stoke_trainer *small = opened(&data, &params, &w);
    stoke_trainer *start = NULL;
    params.name = "start";
    start = opened(&data, &params, &w);
    assert_int_equal(stoke_trainer_run(large, &err), STOKE_OK);
    assert_int_equal(stoke_trainer_run(small, &err), STOKE_OK);
    double apart = 0, moved = 0;
    stoke_net_tensor a, b, c;
    for (size_t i = 0; !stoke_net_tensor_at(large->net, i, &a); i++) {
        assert_int_equal(stoke_net_tensor_at(small->net, i, &b), STOKE_OK);
        assert_int_equal(stoke_net_tensor_at(start->net, i, &c), STOKE_OK);
        for (uint64_t k = 0; a.trainable && k < a.count; k++) {
            apart += pow((double)a.values[k] - b.values[k], 2);
            moved += pow((double)a.values[k] - c.values[k], 2);
        }
    }
    print_message("# the step is %.3g long, the two differ by %.3g\n", sqrt(moved), sqrt(apart));
    assert_true(moved > 0);
    assert_true(sqrt(apart) < 1e-4 * sqrt(moved));
    assert_true(fabs(large->last_loss - small->last_loss) < 1e-5);
    stoke_trainer_close(&large);
    stoke_trainer_close(&small);
    stoke_trainer_close(&start);
}

/* ---- stopping and going on ---- */

static void a_request_to_stop_saves(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    watcher w = { .stop_at = 3 };
    stoke_error err = { 0 };
    stoke_trainer *t = opened(&data, &params, &w);
    assert_int_equal(stoke_trainer_run(t, &err), STOKE_E_CANCELLED);
    const stoke_train_summary summary = stoke_trainer_summary(t);
    assert_int_equal(summary.step, 3);
    assert_int_equal(w.steps, 3);
    assert_int_equal(w.saves, 1);
    assert_string_equal(stoke_trainer_folder(t), unit_path(state, "run"));
    stoke_trainer_close(&t);
    stk_checkpoint_progress saved;
    char *identity;
    assert_int_equal(
        stk_checkpoint_load(unit_path(state, "run/state.safetensors"), NULL, &saved, &identity, &err), 0);
    assert_int_equal(saved.step, 3);
    assert_int_equal(saved.batch, 3);
    stk_free(identity);
}

/* Ctrl-C in an evaluation: the evaluation comes when the run goes on. */
static void a_cut_evaluation_is_made_up_for(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    params.steps = params.eval_every = 2;
    watcher w = { .stop_on = STOKE_TRAIN_EVALUATING };
    stoke_error err = { 0 };
    stoke_trainer *t = opened(&data, &params, &w);
    assert_int_equal(stoke_trainer_run(t, &err), STOKE_E_CANCELLED);
    assert_int_equal(w.evaluations, 0);
    assert_int_equal(w.saves, 1);
    stoke_trainer_close(&t);
    params.resume = unit_path(state, "run");
    w = (watcher){ 0 };
    t = opened(&data, &params, &w);
    assert_int_equal(stoke_trainer_run(t, &err), STOKE_OK);
    assert_int_equal(w.steps, 0);
    assert_int_equal(w.evaluations, 1);
    assert_true(isfinite(stoke_trainer_summary(t).best));
    stoke_trainer_close(&t);
    w = (watcher){ 0 };
    t = opened(&data, &params, &w); /* complete: nothing is left to do */
    assert_int_equal(stoke_trainer_run(t, &err), STOKE_OK);
    assert_int_equal(w.steps + w.evaluations + w.saves, 0);
    stoke_trainer_close(&t);
}

static void patience_ends_a_run(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    params.lr = 1e-30; /* nothing is learnt */
    params.eval_every = 1;
    params.patience = 2;
    watcher w = { 0 };
    stoke_error err = { 0 };
    stoke_trainer *t = opened(&data, &params, &w);
    assert_int_equal(stoke_trainer_run(t, &err), STOKE_OK);
    assert_true(stoke_trainer_summary(t).stopped_early);
    assert_int_equal(stoke_trainer_summary(t).best_step, w.steps - 2);
    assert_true(w.steps < STEPS);
    stoke_trainer_close(&t);
}

/* As it was left by kill -9 before its first checkpoint. */
static void without_a_checkpoint_it_begins_again(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    params.steps = 2;
    const uint64_t wanted = bits_after(&data, &params, STOKE_OK);
    assert_int_equal(unlink(unit_path(state, "run/state.safetensors")), 0);
    assert_int_equal(unlink(unit_path(state, "run/last/model.safetensors")), 0);
    assert_int_equal(unlink(unit_path(state, "run/best/model.safetensors")), 0);
    assert_int_equal(truncate(unit_path(state, "run/log.jsonl"), 0), 0);
    params.resume = unit_path(state, "run");
    watcher w = { 0 };
    stoke_error err = { 0 };
    stoke_trainer *t = opened(&data, &params, &w);
    assert_non_null(strstr(w.remarks, "no checkpoint"));
    assert_int_equal(stoke_trainer_run(t, &err), STOKE_OK);
    assert_true(bits_of(t) == wanted);
    stoke_trainer_close(&t);
}

/* The state has all weights: those it began with may be gone. */
static void weights_it_began_with_may_be_gone(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "first");
    params.steps = 1;
    bits_after(&data, &params, STOKE_OK);
    params.name = "run";
    params.steps = 2;
    params.pretrained = unit_path(state, "first/last");
    params.stop_after = 1;
    bits_after(&data, &params, STOKE_OK);
    params.resume = unit_path(state, "run");
    assert_int_equal(rename(unit_path(state, "first"), unit_path(state, "gone")), 0);
    bits_after(&data, &params, STOKE_OK);
    assert_int_equal(unlink(unit_path(state, "run/state.safetensors")), 0);
    stoke_trainer *t;
    stoke_error err = { 0 };
    assert_int_not_equal(stoke_trainer_open(&t, &data, &params, NULL, NULL, &err), 0);
    assert_non_null(strstr(err.message, "first/last"));
}

/* ---- what is refused ---- */

static void expect_refused(const stoke_data_params *data, const stoke_train_params *params, int code,
                           const char *word)
{
    stoke_trainer *t;
    stoke_error err = { 0 };
    watcher w = { 0 };
    const int r = stoke_trainer_open(&t, data, params, watch, &w, &err);
    print_message("# %s\n", err.message);
    assert_int_equal(r, code);
    assert_null(t);
    if (!strstr(err.message, word)) fail_msg("no '%s' in: %s", word, err.message);
}

static void another_run_is_not_resumed(void **state)
{
    stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    params.stop_after = 1;
    bits_after(&data, &params, STOKE_OK);
    expect_refused(&data, &params, STOKE_E_INVALID, "resume");
    params.resume = unit_path(state, "run");
    params.lr *= 2;
    expect_refused(&data, &params, STOKE_E_STATE, "lr");
    params.lr /= 2;
    assert_int_equal(unlink(unit_path(state, "images/s3.jpg")), 0);
    expect_refused(&data, &params, STOKE_E_STATE, "");
    params.force = 1;
    bits_after(&data, &params, STOKE_OK);
    params.force = 0; /* now this is the run */
    bits_after(&data, &params, STOKE_OK);
    params.resume = unit_path(state, "nowhere");
    expect_refused(&data, &params, STOKE_E_NOTFOUND, "nowhere");
    params.resume = unit_path(state, "images");
    expect_refused(&data, &params, STOKE_E_NOTFOUND, "config.yaml");
}

static char *text_of(void **state, const char *name)
{
    stk_mem_buffer bytes = { 0 };
    size_t size;
    assert_int_equal(stk_file_read(unit_path(state, name), 1 << 20, &bytes, &size, NULL), 0);
    char *text = malloc(size + 1);
    memcpy(text, bytes.data, size);
    text[size] = 0;
    stk_buffer_free(&bytes);
    return text;
}

/* A run that cannot go on with these settings, forced or not, can still go on with its own. */
static void its_own_settings_stay(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    params.stop_after = 1;
    bits_after(&data, &params, STOKE_OK);
    char *before = text_of(state, "run/config.yaml");
    params.resume = unit_path(state, "run");
    params.optimizer = STOKE_OPTIMIZER_SGD;
    params.force = 1;
    expect_refused(&data, &params, STOKE_E_STATE, "config.yaml");
    char *after = text_of(state, "run/config.yaml");
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* A best by another measure is beaten by the first evaluation. */
static void a_best_by_another_metric_is_forgotten(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    params.steps = params.eval_every = 1;
    bits_after(&data, &params, STOKE_OK);
    params.resume = unit_path(state, "run");
    params.steps = 2;
    params.metric = STOKE_METRIC_LOSS;
    params.force = 1;
    watcher w = { 0 };
    stoke_error err = { 0 };
    stoke_trainer *t = opened(&data, &params, &w);
    assert_non_null(strstr(w.remarks, "measured otherwise"));
    assert_int_equal(stoke_trainer_run(t, &err), STOKE_OK);
    assert_int_equal(stoke_trainer_summary(t).best_step, 2);
    assert_true(stoke_trainer_summary(t).best > 1); /* of four classes hardly learnt, and no IoU */
    stoke_trainer_close(&t);
}

/* Those that are made before there is a folder too. */
static void remarks_are_in_the_log_and_the_report(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    params.steps = 1;
    bits_after(&data, &params, STOKE_OK);
    char *log = text_of(state, "run/log.jsonl"), *report = text_of(state, "run/report.html");
    char *line = strstr(log, "\"remark\"");
    assert_non_null(line);
    assert_true(line > strstr(log, "\"start\"") && line < strstr(log, "\"step\": 1,"));
    assert_non_null(strstr(line, "The head learns at 1 times"));
    assert_non_null(strstr(report, "<li>The head learns at 1 times"));
    free(log);
    free(report);
}

/* The pictures that would be drawn are bad files: the run goes on without. */
static void bad_pictures_are_not_drawn(void **state)
{
    stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    pairs_write(state, 60, 48, 40);
    data.max_bad = "50%";
    params.steps = params.eval_every = 1;
    params.pictures = 1;
    watcher w = { 0 };
    stoke_error err = { 0 };
    stoke_trainer *t = opened(&data, &params, &w); /* to see which validate */
    const uint64_t count = stoke_dataset_count(t->setup.val_set);
    assert_true(count > 4);
    for (int i = 0; i < 4; i++)
        unit_write(
            stoke_dataset_sample(t->setup.val_set, (uint64_t)((i + 0.5) * (double)count / 4)).image_path,
            "bad", 3);
    stoke_trainer_close(&t); /* its loader has read some already */
    params.name = "second";
    t = opened(&data, &params, &w);
    if (stoke_trainer_run(t, &err)) fail_msg("%s", err.message);
    assert_int_equal(w.evaluations, 1);
    assert_non_null(strstr(w.remarks, "validation: bad files at "));
    assert_int_not_equal(access(unit_path(state, "second/predictions/000001.png"), F_OK), 0);
    stoke_trainer_close(&t);
}

static void a_look_leaves_no_trace(void **state)
{
    const stoke_data_params data = small_data(state);
    const stoke_train_params params = small_run(state, "run");
    stoke_trainer *t;
    watcher w = { .stop_on = STOKE_TRAIN_READY };
    assert_int_equal(stoke_trainer_open(&t, &data, &params, watch, &w, NULL), STOKE_E_CANCELLED);
    assert_int_equal(w.ready, 1);
    assert_int_not_equal(access(unit_path(state, "run"), F_OK), 0);
}

static void one_process_trains_in_a_folder(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = small_run(state, "run");
    watcher w = { 0 };
    stoke_trainer *t = opened(&data, &params, &w);
    params.resume = unit_path(state, "run");
    expect_refused(&data, &params, STOKE_E_STATE, "another process");
    stoke_trainer_close(&t);
    t = opened(&data, &params, &w);
    stoke_trainer_close(&t);
}

/* ---- what is not finite ---- */

/* A rate that no network survives. */
static stoke_train_params exploding(void **state)
{
    stoke_train_params params = small_run(state, "run");
    params.optimizer = STOKE_OPTIMIZER_SGD;
    params.lr = 1000;
    params.head_lr = 1000;
    params.warmup = params.clip_norm = 0;
    params.save_every = 1;
    params.eval_every = 0;
    params.steps = 60;
    return params;
}

/* The run ends with step, pictures and advice, and the last state is the one before. */
static void a_loss_that_is_not_finite_ends_the_run(void **state)
{
    const stoke_data_params data = small_data(state);
    const stoke_train_params params = exploding(state);
    watcher w = { 0 };
    stoke_error err = { 0 };
    stoke_trainer *t = opened(&data, &params, &w);
    assert_int_equal(stoke_trainer_run(t, &err), STOKE_E_STATE);
    print_message("# %s\n", err.message);
    const uint64_t step = stoke_trainer_summary(t).step;
    char text[32];
    snprintf(text, sizeof text, "step %llu:", (unsigned long long)step + 1);
    assert_non_null(strstr(err.message, text));
    assert_non_null(strstr(err.message, "with s")); /* names of the batch */
    assert_non_null(strstr(err.message, "`lr`"));
    assert_int_equal(w.saves, step);
    stoke_trainer_close(&t);
    stk_checkpoint_progress saved;
    char *identity;
    assert_int_equal(
        stk_checkpoint_load(unit_path(state, "run/state.safetensors"), NULL, &saved, &identity, &err), 0);
    assert_int_equal(saved.step, step);
    stk_free(identity);
}

/* In fp16 single steps are skipped, which its loss scale is for; not any number of them. */
static void fp16_gives_up_after_skips_in_a_row(void **state)
{
    const stoke_data_params data = small_data(state);
    stoke_train_params params = exploding(state);
    params.precision = STOKE_PRECISION_FP16;
    params.save_every = 1000;
    watcher w = { 0 };
    stoke_error err = { 0 };
    stoke_trainer *t = opened(&data, &params, &w);
    assert_int_equal(stoke_trainer_run(t, &err), STOKE_E_STATE);
    print_message("# %s\n", err.message);
    assert_non_null(strstr(err.message, "20 steps in a row"));
    assert_true(w.steps >= STK_SKIPS && w.steps < 60);
    assert_int_equal(w.saves, 0);
    stoke_trainer_close(&t);
}

/* Memory ends when the first pictures are due, and is there again once the run has said that it goes on. */
static int watch_poorly(void *context, const stoke_train_event *e)
{
    const watcher *w = context;
    if (e->kind == STOKE_TRAIN_EVALUATING && e->done == e->total && !w->evaluations) stk_mem_fail_after(0);
    if (e->kind == STOKE_TRAIN_REMARK || e->kind == STOKE_TRAIN_EVALUATED) stk_mem_fail_after(-1);
    return watch(context, e);
}

static void no_memory_for_pictures_ends_no_run(void **state)
{
    stoke_data_params data = small_data(state);
    data.workers = 0; /* a worker reading ahead would want memory, too, and rightly end the run */
    stoke_train_params params = small_run(state, "poor");
    params.pictures = 1;
    params.eval_every = 2;
    params.steps = 4;
    watcher w = { 0 };
    stoke_error err = { 0 };
    stoke_trainer *t;
    if (stoke_trainer_open(&t, &data, &params, watch_poorly, &w, &err)) fail_msg("%s", err.message);
    const int r = stoke_trainer_run(t, &err);
    stk_mem_fail_after(-1);
    if (r) fail_msg("%s", err.message);
    assert_int_equal(w.evaluations, 2);
    assert_non_null(strstr(w.remarks, "goes on without pictures of predictions"));
    assert_non_null(strstr(w.remarks, "1 picture of predictions is missing: "));
    const uint64_t poor = bits_of(t);
    stoke_trainer_close(&t);
    params.name = "rich";
    assert_true(bits_after(&data, &params, STOKE_OK) == poor);
}

UNIT_GROUP(trainer)
{
    const struct CMUnitTest tests[] = {
        test_with_pairs(resume_is_exact),
        test_with_pairs(resume_is_exact_between_epochs),
        test_with_pairs(resume_is_exact_with_accumulation),
        test_with_pairs(resume_is_exact_with_mixup_and_average),
        test_with_pairs(resume_is_exact_in_fp16),
        test_with_pairs(bits_depend_on_data_and_settings_alone),
        unit_test_with_folder(accumulation_equals_the_large_batch),
        test_with_pairs(a_request_to_stop_saves),
        test_with_pairs(a_cut_evaluation_is_made_up_for),
        test_with_pairs(patience_ends_a_run),
        test_with_pairs(without_a_checkpoint_it_begins_again),
        test_with_pairs(weights_it_began_with_may_be_gone),
        test_with_pairs(another_run_is_not_resumed),
        test_with_pairs(its_own_settings_stay),
        test_with_pairs(a_best_by_another_metric_is_forgotten),
        test_with_pairs(remarks_are_in_the_log_and_the_report),
        test_with_pairs(bad_pictures_are_not_drawn),
        test_with_pairs(a_look_leaves_no_trace),
        test_with_pairs(one_process_trains_in_a_folder),
        test_with_pairs(a_loss_that_is_not_finite_ends_the_run),
        test_with_pairs(fp16_gives_up_after_skips_in_a_row),
        test_with_pairs(no_memory_for_pictures_ends_no_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
