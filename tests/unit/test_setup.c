/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run settles from its data, and what it says about it: samples, size, batch, length, rates, name.
 */
#include <stoke/tools/data.h>
#include "tests/unit/fixture_resolve.h"

#include "src/augment/pipeline.h"
#include "src/train/resolve.h"

/* ---- sets ---- */

static void keeps_a_part_for_validation(void **state)
{
    stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 30, 40, 40);
    stk_setup setup = settling_make(&data, &params);
    const uint64_t train = stoke_dataset_count(setup.train_set), val = stoke_dataset_count(setup.val_set);
    assert_int_equal(train + val, 30);
    assert_in_range(val, 3, 15);
    assert_true(setup.train.val_split >= 0.2 && setup.train.val_split == setup.val.val_split);
    settling_said("The set has no val part of its own: `val_split` 0.2 puts about that share");
    settling_said(" samples to train on and ");
    for (uint64_t i = 0; i < train; i++)
        for (uint64_t j = 0; j < val; j++)
            assert_string_not_equal(stoke_dataset_sample(setup.train_set, i).name,
                                    stoke_dataset_sample(setup.val_set, j).name);
    stk_setup_free(&setup);
    data.val_split = 0.5;
    setup = settling_make(&data, &params);
    assert_true(setup.val.val_split == 0.5);
    settling_not_said("no val part");
    stk_setup_free(&setup);
}

/* Whatever the names are, the hash leaves something on both sides. */
static void small_sets_have_both_parts(void **state)
{
    stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    unsigned without = 0, half = 0;
    for (int64_t seed = 0; seed < 40; seed++) {
        data.split_seed = seed;
        stk_setup setup = settling_make(&data, &params);
        const uint64_t val = setup.val_set ? stoke_dataset_count(setup.val_set) : 0;
        assert_in_range(val, 0, 3);
        without += !val;
        half += val == 3;
        stk_setup_free(&setup);
    }
    assert_in_range(without, 0, 4);
    assert_in_range(half, 0, 4); /* a fifth is meant */
}

static void too_few_to_validate(void **state)
{
    const stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 4, 32, 32);
    stk_setup setup = settling_make(&data, &params);
    assert_null(setup.val_set);
    assert_int_equal(stoke_dataset_count(setup.train_set), 4);
    assert_int_equal(setup.params.eval_every, 0);
    assert_int_equal(setup.train.batch, 4); /* not more than there are */
    settling_said("All of the set (4 samples) is trained on and nothing validates");
    stk_setup_free(&setup);
}

static void own_parts_are_used(void **state)
{
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 7, 32, 32);
    char command[512];
    snprintf(command, sizeof command,
             "cd %s && mkdir train trainannot val valannot && mv images/s[0-4].* train && mv images/* val && "
             "mv masks/s[0-4].* trainannot && mv masks/* valannot && rmdir images masks",
             unit_folder(state));
    assert_int_equal(system(command), 0);
    stk_setup setup = settling_make(&data, &params);
    assert_int_equal(stoke_dataset_count(setup.train_set), 5);
    assert_int_equal(stoke_dataset_count(setup.val_set), 2);
    assert_true(setup.train.val_split == 0);
    settling_said("5 samples to train on and 2 to validate on, as the set is divided.");
    stk_setup_free(&setup);
    /* without evaluation `split` means what it says */
    params.eval_every = 0;
    setup = settling_make(&data, &params);
    assert_null(setup.val_set);
    assert_int_equal(stoke_dataset_count(setup.train_set), 7);
    stk_setup_free(&setup);
    data.split = STOKE_SPLIT_TRAIN;
    setup = settling_make(&data, &params);
    assert_int_equal(stoke_dataset_count(setup.train_set), 5);
    stk_setup_free(&setup);
}

static void no_masks_no_training(void **state)
{
    stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    data.data = NULL;
    data.images = unit_path(state, "images");
    settling_refused(&data, &params, STOKE_E_INVALID, "images and no masks");
    data.images = unit_path(state, "nowhere");
    settling_refused(&data, &params, STOKE_E_NOTFOUND, "nowhere");
}

/* Said once for workers and threads, and not where both were given. */
static void shared_cores_are_told(void **state)
{
    static const struct {
        int64_t workers, threads;
        int told;
    } cases[] = { { -1, 0, 1 }, { 1, 0, 1 }, { -1, 1, 1 }, { 1, 1, 0 } };
    static const char *const names[] = { "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE" };
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data.workers = cases[i].workers;
        params.threads = cases[i].threads;
        for (int k = 0; k < 4; k++) setenv(names[k], k < 2 ? "1" : "2", 1);
        stk_setup setup = settling_make(&data, &params);
        stk_setup_free(&setup);
        for (int k = 0; k < 4; k++) unsetenv(names[k]);
        const char *told = strstr(settling_ears.text, "2 processes share this host's ");
        assert_int_equal(told != NULL, cases[i].told);
        assert_null(told ? strstr(told + strlen("2 processes"), "processes share") : NULL);
        setup = settling_make(&data, &params);
        settling_not_said("processes share");
        stk_setup_free(&setup);
    }
}

/* ---- size, batch, length, rates ---- */

static void size_from_pictures(void **state)
{
    static const struct {
        uint32_t width, height, size[2];
        const char *sentence;
    } cases[] = {
        { 56, 40, { 32, 64 }, "brought to 32x64 (height x width): they are 40x56" },
        { 64, 64, { 64, 64 }, "taken at 64x64 (height x width), as they are" },
        { 20, 20, { 32, 32 }, "they are 20x20" },
        { 1024, 700, { 352, 512 }, "they are 700x1024" },
    };
    stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pairs_write(state, 5, cases[i].width, cases[i].height);
        stk_setup setup = settling_make(&data, &params);
        assert_memory_equal(setup.train.size, cases[i].size, sizeof cases[i].size);
        assert_memory_equal(setup.val.size, cases[i].size, sizeof cases[i].size);
        assert_int_equal(setup.net.height, cases[i].size[0]);
        assert_int_equal(setup.net.width, cases[i].size[1]);
        settling_said(cases[i].sentence);
        stk_setup_free(&setup);
    }
    pairs_write_one(state, 0, "png", 96, 96);
    unlink(unit_path(state, "images/s0.jpg"));
    stk_setup setup = settling_make(&data, &params);
    settling_said("the one in the middle is 700x1024");
    stk_setup_free(&setup);
    data.size[0] = 40;
    data.size[1] = 50;
    setup = settling_make(&data, &params);
    assert_int_equal(setup.net.width, 50);
    settling_not_said("brought to");
    stk_setup_free(&setup);
}

static void batch_from_memory(void **state)
{
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 12, 32, 32);
    stk_setup setup = settling_make(&data, &params);
    /* 32 x 32 fit 8 times wherever this test runs */
    assert_int_equal(setup.train.batch, 8);
    assert_int_equal(setup.net.batch, 8);
    settling_said("Batches of 8, a usual number, take ");
    stk_setup_free(&setup);
    data.batch = 3;
    setup = settling_make(&data, &params);
    assert_int_equal(setup.net.batch, 3);
    assert_int_equal(setup.val.batch, 3);
    settling_not_said("Batches of");
    stk_setup_free(&setup);
    /* the largest network on the largest pictures: hardly a machine has room for 8, none for a batch of 0 */
    params.model = "b5";
    data.batch = -1;
    data.size[0] = data.size[1] = 8192;
    setup = settling_make(&data, &params);
    assert_in_range(setup.train.batch, 1, 8);
    stk_setup_free(&setup);
}

static void length_and_cadences(void **state)
{
    static const struct {
        int64_t epochs, steps, accumulate, batch, eval_every, log_every;
        uint64_t all, all_epochs, evaluate, log;
    } cases[] = {
        /* 10 samples train: 5 batches of 2 */
        { 50, 0, 1, 2, -1, -1, 250, 50, 50, 2 },
        { 4, 0, 1, 2, -1, -1, 20, 4, 20, 1 },
        { 4, 0, 2, 2, -1, -1, 10, 4, 10, 1 },
        { 1, 0, 9, 2, -1, -1, 1, 1, 1, 1 },
        { 50, 7, 1, 2, 3, 5, 7, 2, 3, 5 },
        { 50, 7, 3, 2, -1, -1, 7, 5, 7, 1 },
        { 1000, 0, 1, 1, -1, -1, 10000, 1000, 50, 20 },
    };
    stoke_data_params data = settling_plain(state);
    pairs_write(state, 10, 32, 32);
    static const char list[] = "images/s0.jpg,masks/s0.png\nimages/s1.png,masks/s1.png\n";
    unit_write(unit_path(state, "list.csv"), list, strlen(list));
    data.split = STOKE_SPLIT_ALL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_train_params params = stoke_train_defaults();
        params.epochs = cases[i].epochs;
        params.steps = cases[i].steps;
        params.accumulate = cases[i].accumulate;
        params.log_every = cases[i].log_every;
        data.batch = cases[i].batch;
        /* all ten train: another set validates in other tests */
        params.eval_every = 0;
        stk_setup setup = settling_make(&data, &params);
        assert_int_equal(setup.batches_per_epoch, cases[i].batch == 1 ? 10 : 5);
        assert_int_equal(setup.steps, cases[i].all);
        assert_int_equal(setup.epochs, cases[i].all_epochs);
        assert_int_equal(setup.params.log_every, cases[i].log);
        assert_int_equal(setup.params.save_every, -1); /* by the clock: the loop's */
        stk_setup_free(&setup);
        /* with validation the set is smaller, and only the cadence is looked at */
        params.eval_every = cases[i].eval_every;
        setup = settling_make(&data, &params);
        assert_non_null(setup.val_set);
        const uint64_t evaluate =
            cases[i].evaluate < setup.steps || cases[i].eval_every > 0 ? cases[i].evaluate : setup.steps;
        assert_int_equal(setup.params.eval_every, evaluate);
        stk_setup_free(&setup);
    }
    stoke_train_params params = stoke_train_defaults();
    params.epochs = 1000000000;
    settling_refused(&data, &params, STOKE_E_LIMIT, "at most 1000000000 will do");
    data.batch = 16;
    data.drop_last = 1;
    settling_refused(&data, &params, STOKE_E_INVALID, "cannot fill a batch of 16");
}

static void rates(void **state)
{
    const stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    stk_setup setup = settling_make(&data, &params);
    assert_true(setup.params.lr == 1e-3 && setup.params.head_lr == 1);
    assert_string_equal(setup.params.model, "b0");
    settling_said("Learning rate 0.001, times 1 for the head: usual for untrained weights.");
    stk_setup_free(&setup);
    params.optimizer = STOKE_OPTIMIZER_SGD;
    params.head_lr = 3;
    setup = settling_make(&data, &params);
    assert_true(setup.params.lr == 0.01 && setup.params.head_lr == 3);
    settling_said("times 3 for the head as set");
    stk_setup_free(&setup);
    params.lr = 0.5;
    setup = settling_make(&data, &params);
    assert_true(setup.params.lr == 0.5);
    settling_not_said("Learning rate");
    stk_setup_free(&setup);
}

/* Weights on disk say which network they are, and are gone on with gently. */
static void pretrained_weights(void **state)
{
    const stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    stoke_net_params small = stoke_net_defaults();
    stoke_net *net;
    stoke_error err;
    small.model = "b1";
    small.classes = PAIRS_CLASSES;
    small.height = small.width = 32;
    if (stoke_net_open(&net, &small, &err)) fail_msg("%s", err.message);
    assert_int_equal(stoke_net_save(net, unit_path(state, "weights"), 0, &err), 0);
    stoke_net_close(&net);
    params.pretrained = unit_path(state, "weights");
    stk_setup setup = settling_make(&data, &params);
    assert_string_equal(setup.params.model, "b1");
    assert_string_equal(setup.net.weights, params.pretrained);
    assert_true(setup.params.lr == 6e-5 && setup.params.head_lr == 10);
    settling_said("usual for pretrained weights");
    stk_setup_free(&setup);
    params.model = "b9";
    settling_refused(&data, &params, STOKE_E_NOTFOUND, "no model is called");
    params.model = NULL;
    params.pretrained = unit_path(state, "nothing");
    settling_refused(&data, &params, STOKE_E_NOTFOUND, "nothing");
}

/* ---- the rest ---- */

static void names(void **state)
{
    const stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 4, 32, 32);
    params.runs = unit_path(state, "runs");
    mkdir(params.runs, 0777);
    stk_setup setup = settling_make(&data, &params);
    assert_int_equal(strlen(setup.params.name), strlen("b0-20261116-094312"));
    assert_memory_equal(setup.params.name, "b0-2", 4);
    stk_setup_free(&setup);
    /* whatever second it is, the folder is new */
    for (int i = 0; i < 3; i++) {
        char path[4400];
        setup = settling_make(&data, &params);
        snprintf(path, sizeof path, "%s/%s", params.runs, setup.params.name);
        assert_int_equal(mkdir(path, 0777), 0);
        stk_setup_free(&setup);
    }
    params.name = "mine";
    setup = settling_make(&data, &params);
    assert_string_equal(setup.params.name, "mine");
    stk_setup_free(&setup);
    static const char *const wrong[] = { "a/b", "", ".", ".." };
    for (size_t i = 0; i < 4; i++) {
        params.name = wrong[i];
        settling_refused(&data, &params, STOKE_E_INVALID, "is not the name of a folder");
    }
}

static void settings_of_the_network(void **state)
{
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 8, 32, 32);
    data.dtype = STOKE_IMAGE_DTYPE_F16;
    data.layout = STOKE_LAYOUT_HWC;
    data.augment = "light";
    data.seed = 11;
    data.ignore_index = 250;
    data.cache_ram = 1001;
    params.average = 0.99;
    params.label_smoothing = 0.1;
    params.loss = STOKE_LOSS_FOCAL;
    params.threads = 2;
    stk_setup setup = settling_make(&data, &params);
    settling_said("as f32 in chw layout");
    for (int i = 0; i < 2; i++) {
        const stoke_data_params *p = i ? &setup.val : &setup.train;
        assert_int_equal(stoke_data_image_dtype(p), STOKE_DTYPE_F32);
        assert_int_equal(p->layout, STOKE_LAYOUT_CHW);
        assert_int_equal(p->normalize, STOKE_NORMALIZE_IMAGENET);
        assert_int_equal(p->split, i ? STOKE_SPLIT_VAL : STOKE_SPLIT_TRAIN);
        assert_int_equal(p->order, i ? STOKE_ORDER_SEQUENTIAL : STOKE_ORDER_SHUFFLE);
        assert_string_equal(p->augment, i ? "none" : "light");
    }
    assert_int_equal(setup.train.cache_ram + setup.val.cache_ram, 1001);
    assert_true(setup.train.cache_ram > setup.val.cache_ram);
    assert_int_equal(setup.net.seed, 11);
    assert_int_equal(setup.net.average, 1);
    assert_int_equal(setup.net.threads, 2);
    assert_int_equal(setup.net.training, 1);
    assert_int_equal(setup.net.loss.kind, STOKE_LOSS_FOCAL);
    assert_int_equal(setup.net.loss.ignore_index, 250);
    assert_true(setup.net.loss.label_smoothing == 0.1);
    assert_int_not_equal(setup.params.precision, STOKE_PRECISION_AUTO);
    stk_setup_free(&setup);
}

/* Nothing is drawn in validation, but values are those the network learns from. */
static void validation_keeps_the_normalisation(void **state)
{
    pairs_write(state, 9, 40, 56);
    stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    stk_setup setup = settling_make(&data, &params);
    assert_string_equal(setup.val.augment, "none");
    stk_setup_free(&setup);
    data.augment = "hflip,gamma,normalize(mean=0.1,0.333333333333,0.7,std=0.3,0.123456789,1)";
    setup = settling_make(&data, &params);
    double mean[2][3], deviation[2][3];
    const char *const texts[] = { setup.train.augment, setup.val.augment };
    for (int i = 0; i < 2; i++) {
        stoke_pipeline *pipeline;
        assert_int_equal(stoke_pipeline_create(&pipeline, texts[i], NULL), 0);
        assert_true(stk_pipeline_normalize(pipeline, mean[i], deviation[i]));
        assert_true(pipeline->n_steps == (i ? 1 : 3));
        stoke_pipeline_destroy(&pipeline);
    }
    assert_memory_equal(mean[0], mean[1], sizeof mean[0]);
    assert_memory_equal(deviation[0], deviation[1], sizeof deviation[0]);
    stk_setup_free(&setup);
}

static void what_training_cannot_do(void **state)
{
    static const struct {
        const char *name, *value, *message;
    } cases[] = {
        { "epoch", "3", "`epochs` says how many" },
        { "world", "2", "training finds these out by itself" },
        { "split", "val", "training takes the train part" },
        { "weights", "w.csv", "has no effect without `order` weighted" },
        { "label_map", "0:x", "label_map" },
    };
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_data_params data = settling_plain(state);
        const stoke_option_group group = stoke_data_options(&data);
        assert_int_equal(stoke_options_set(&group, 1, cases[i].name, cases[i].value, NULL), 0);
        settling_refused(&data, &params, STOKE_E_INVALID, cases[i].message);
    }
    stoke_data_params data = settling_plain(state);
    stoke_train_params wrong = params;
    wrong.struct_size = 4;
    settling_refused(&data, &wrong, STOKE_E_INVALID, "stoke_train_defaults");
    wrong = params;
    wrong.epochs = 0;
    settling_refused(&data, &wrong, STOKE_E_INVALID, "epochs: '0' is out of range");
    wrong = params;
    wrong.loss_mean = STOKE_LOSS_MEAN_PIXELS;
    for (wrong.loss = STOKE_LOSS_DICE; wrong.loss <= STOKE_LOSS_CE_DICE; wrong.loss++)
        settling_refused(&data, &wrong, STOKE_E_INVALID, "take `loss` ce or focal");
}

static void progress_is_heard_and_may_stop(void **state)
{
    const stoke_data_params data = settling_plain(state);
    const stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 20, 40, 40);
    stk_setup setup = settling_make(&data, &params);
    assert_true(settling_ears.calls > 0);
    assert_int_equal(settling_ears.done, 20);
    assert_int_equal(settling_ears.total, 20);
    stk_setup_free(&setup);
    stoke_error err;
    settling_ears = (settling_heard){ .cancel = 1 };
    /* with so few masks it may be asked only at the end, when there is nothing left to stop */
    const int r =
        stk_setup_make(&setup, &data, &params, settling_say, settling_progress, &settling_ears, &err);
    assert_true(r == 0 || r == STOKE_E_CANCELLED);
    stk_setup_free(&setup);
    /* nobody listens */
    assert_int_equal(stk_setup_make(&setup, &data, &params, NULL, NULL, NULL, NULL), 0);
    stk_setup_free(&setup);
}

static void batch_norm_over_lanes(void **state)
{
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    params.batch_norm = STOKE_BATCH_NORM_SYNC;
    stk_setup setup = settling_make(&data, &params);
    assert_int_equal(setup.net.joint, 0);
    settling_said("with `replicas` 1 it is what local is");
    stk_setup_free(&setup);
    params.replicas = 5;
    setup = settling_make(&data, &params);
    assert_int_equal(setup.net.joint, 5);
    stk_setup_free(&setup);
    /* 5 lanes in 3 processes: 1, 2, 2 */
    for (uint32_t rank = 0; rank < 3; rank++) {
        const stk_setup shared = { .rank = rank, .world = 3 };
        assert_int_equal(stk_setup_make_part(&setup, &shared, &data, &params, NULL, NULL, NULL, NULL), 0);
        assert_int_equal(setup.net.joint, rank ? 2 : 1);
        stk_setup_free(&setup);
    }
    params.audit_every = 10;
    settling_refused(&data, &params, STOKE_E_INVALID, "with `batch_norm` sync no lane is computed by itself");
    params.audit_every = 0;
    params.model = "resnet";
    settling_refused(&data, &params, STOKE_E_INVALID, "`batch_norm` sync: model resnet has no batch norm");
}

/* Every allocation may fail; what was made is freed (the sanitizers look). */
static void memory_may_run_out(void **state)
{
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    pairs_write(state, 6, 32, 32);
    params.class_weights = "balanced";
    unsigned failures = 0;
    for (int64_t after = 0;; after += 1 + after / 16) {
        stk_setup setup;
        stoke_error err = { 0 };
        stk_mem_fail_after(after);
        const int r = stk_setup_make(&setup, &data, &params, NULL, NULL, NULL, &err);
        stk_mem_fail_after(-1);
        stk_setup_free(&setup);
        if (!r) break;
        failures++;
        assert_true(*err.message && after < 100000);
    }
    assert_true(failures > 20);
}

/* ---- real sets ---- */

static void real_sets(void **state)
{
    const stoke_train_params params = stoke_train_defaults();
    stoke_data_params data = stoke_data_defaults();
    char root[4096];
    if (!unit_data("camvid") || !unit_data("membrane")) skip();
    data.batch = -1;
    snprintf(root, sizeof root, "%s", unit_data("camvid"));
    data.data = root;
    data.quarantine = "";
    stk_setup setup = settling_make(&data, &params);
    assert_int_equal(setup.classes, 12);
    assert_string_equal(setup.train.label_map, "identity");
    assert_int_equal(setup.train.size[0], 352);
    assert_int_equal(setup.train.size[1], 480);
    assert_non_null(setup.val_set);
    settling_said("12 classes, from the values 0 to 11");
    stk_setup_free(&setup);
    snprintf(root, sizeof root, "%s", unit_data("membrane"));
    setup = settling_make(&data, &params);
    assert_int_equal(setup.classes, 2);
    assert_string_equal(setup.train.label_map, "0:0,255:1");
    assert_int_equal(setup.train.size[0], 512);
    stk_setup_free(&setup);
}

/* What `metric` becomes in a run of such a task; -1: refused. */
static int settled_metric(int task, int metric, stoke_error *err)
{
    stk_setup setup = { .train.task = task, .params.metric = metric };
    stk_resolve_ctx s = { .setup = &setup, .err = err };
    return stk_resolve_metric(&s) == STOKE_OK ? setup.params.metric : -1;
}

static void the_metric_is_one_of_the_task(void **state)
{
    stoke_error err;
    assert_int_equal(settled_metric(STOKE_TASK_AUTO, STOKE_METRIC_F1, &err), STOKE_METRIC_F1);
    assert_int_equal(settled_metric(STOKE_TASK_SEGMENT, STOKE_METRIC_MIOU, &err), STOKE_METRIC_MIOU);
    assert_int_equal(settled_metric(STOKE_TASK_SEGMENT, STOKE_METRIC_LOSS, &err), STOKE_METRIC_LOSS);
    assert_int_equal(settled_metric(STOKE_TASK_RESTORE, STOKE_METRIC_MIOU, &err), STOKE_METRIC_PSNR);
    assert_int_equal(settled_metric(STOKE_TASK_RESTORE, STOKE_METRIC_SSIM, &err), STOKE_METRIC_SSIM);
    assert_int_equal(settled_metric(STOKE_TASK_RESTORE, STOKE_METRIC_LOSS, &err), STOKE_METRIC_LOSS);
    assert_int_equal(settled_metric(STOKE_TASK_SEGMENT, STOKE_METRIC_PSNR, &err), -1);
    assert_non_null(strstr(err.message, "metric psnr is of networks that restore pictures"));
    assert_int_equal(settled_metric(STOKE_TASK_RESTORE, STOKE_METRIC_F1, &err), -1);
    assert_non_null(strstr(err.message, "metric f1 is of networks that segment"));
}

UNIT_GROUP(setup)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_metric_is_one_of_the_task),
        unit_test_with_folder(keeps_a_part_for_validation),
        unit_test_with_folder(small_sets_have_both_parts),
        unit_test_with_folder(too_few_to_validate),
        unit_test_with_folder(own_parts_are_used),
        unit_test_with_folder(no_masks_no_training),
        unit_test_with_folder(shared_cores_are_told),
        unit_test_with_folder(size_from_pictures),
        unit_test_with_folder(batch_from_memory),
        unit_test_with_folder(length_and_cadences),
        unit_test_with_folder(rates),
        unit_test_with_folder(pretrained_weights),
        unit_test_with_folder(names),
        unit_test_with_folder(settings_of_the_network),
        unit_test_with_folder(validation_keeps_the_normalisation),
        unit_test_with_folder(what_training_cannot_do),
        unit_test_with_folder(progress_is_heard_and_may_stop),
        unit_test_with_folder(batch_norm_over_lanes),
        unit_test_with_folder(memory_may_run_out),
        cmocka_unit_test(real_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
