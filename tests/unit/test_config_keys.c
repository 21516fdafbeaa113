/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings by their names in every dialect: where they stand, where a new one belongs, what is ambiguous. And
 * what stoke_optimize decides, without the command around it.
 */
#include <stoke/tools/advise.h>
#include <stoke/tools/optimize.h>

#include "src/base/mem.h"
#include "tests/unit/unit.h"

static const char FLAT[] = "batch_size: 16\nnum_workers: 0\nlr: 0.1\n";
static const char SECTIONS[] =
    "data:\n  batch_size: 16\ntraining:\n  lr: 0.1\n  use_amp: false\nval:\n  batch_size: 1\n";
static const char TRAIN_DS[] =
    "train_ds:\n  batch_size: 16\nvalidation_ds:\n  batch_size: 1\noptim:\n  lr: 0.1\n";
static const char LIGHTNING[] = "trainer:\n  max_epochs: 3\ndata:\n  batch_size: 4\n";
static const char HUGGING_FACE[] = "args:\n  per_device_train_batch_size: 4\nname: x\n";
static const char OWN[] = "batch: auto\nworkers: 0\nclip_norm: 0\nmax_bad: 1%\nlr: 0\n";
static const char NESTED[] = "TrainingConfig:\n  BATCH_SIZE: 16\n  steps:\n  - lr: 1\n";

static stoke_yaml *parsed(const char *text)
{
    stoke_yaml *yaml = NULL;
    stoke_error err = { 0 };
    if (stoke_yaml_parse(&yaml, text, strlen(text), "test.yaml", &err)) fail_msg("%s", err.message);
    return yaml;
}

static void places(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int dialect;
        const char *setting, *path; /* NULL: there is no such setting */
        int exists;
    } wanted[] = {
        { FLAT, STOKE_DIALECT_FLAT, "batch_size", "batch_size", 1 },
        { FLAT, STOKE_DIALECT_FLAT, "learning_rate", "lr", 1 },
        { FLAT, STOKE_DIALECT_FLAT, "mixed_precision", "use_mixed_precision", 0 },
        { FLAT, STOKE_DIALECT_FLAT, "pin_memory", "pin_memory", 0 },
        { SECTIONS, STOKE_DIALECT_SECTIONS, "batch_size", "data.batch_size", 1 },
        { SECTIONS, STOKE_DIALECT_SECTIONS, "num_workers", "data.num_workers", 0 },
        { SECTIONS, STOKE_DIALECT_SECTIONS, "mixed_precision", "training.use_amp", 1 },
        { SECTIONS, STOKE_DIALECT_SECTIONS, "gpu_augmentation", "training.use_gpu_augmentation", 0 },
        { SECTIONS, STOKE_DIALECT_SECTIONS, "base_channels", "base_channels", 0 },
        { SECTIONS, STOKE_DIALECT_SECTIONS, "non_blocking", "data.non_blocking", 0 },
        { SECTIONS, STOKE_DIALECT_SECTIONS, "log_every", "training.log_every", 0 },
        /* Neither DataLoader nor Trainer nor TrainingArguments have them. */
        { TRAIN_DS, STOKE_DIALECT_TRAIN_DS, "non_blocking", NULL, 0 },
        { TRAIN_DS, STOKE_DIALECT_TRAIN_DS, "device_prefetch", NULL, 0 },
        { LIGHTNING, STOKE_DIALECT_SECTIONS, "device_prefetch", NULL, 0 },
        { LIGHTNING, STOKE_DIALECT_SECTIONS, "compile", NULL, 0 },
        { LIGHTNING, STOKE_DIALECT_SECTIONS, "mixed_precision", "trainer.precision", 0 },
        { LIGHTNING, STOKE_DIALECT_SECTIONS, "benchmark", "trainer.benchmark", 0 },
        { LIGHTNING, STOKE_DIALECT_SECTIONS, "pin_memory", "data.pin_memory", 0 },
        { "trainer:\n  max_epochs: 3\n", STOKE_DIALECT_FLAT, "num_workers", NULL, 0 },
        { HUGGING_FACE, STOKE_DIALECT_FLAT, "non_blocking", NULL, 0 },
        { HUGGING_FACE, STOKE_DIALECT_FLAT, "mixed_precision", "args.fp16", 0 },
        { HUGGING_FACE, STOKE_DIALECT_FLAT, "num_workers", "args.dataloader_num_workers", 0 },
        { TRAIN_DS, STOKE_DIALECT_TRAIN_DS, "batch_size", "train_ds.batch_size", 1 },
        { TRAIN_DS, STOKE_DIALECT_TRAIN_DS, "prefetch_factor", "train_ds.prefetch_factor", 0 },
        { TRAIN_DS, STOKE_DIALECT_TRAIN_DS, "grad_clip", "grad_clip", 0 }, /* not into optim */
        { OWN, STOKE_DIALECT_OWN, "batch_size", "batch", 1 },
        { OWN, STOKE_DIALECT_OWN, "grad_clip", "clip_norm", 1 },
        { OWN, STOKE_DIALECT_OWN, "prefetch_factor", "prefetch", 0 },
        { OWN, STOKE_DIALECT_OWN, "pin_memory", NULL, 0 },
        { OWN, STOKE_DIALECT_OWN, "non_blocking", NULL, 0 },
        { OWN, STOKE_DIALECT_OWN, "device_prefetch", "transfer", 0 },
        { OWN, STOKE_DIALECT_OWN, "gpu_augmentation", "placement", 0 },
        { OWN, STOKE_DIALECT_OWN, "log_every", "log_every", 0 },
        /* A short file is ours when all of it is. */
        { "model: b0\nsize: 32\nbatch: 2\n", STOKE_DIALECT_OWN, "num_workers", "workers", 0 },
        { "model: b0\nimg: 32\nbatch: 2\n", STOKE_DIALECT_FLAT, "num_workers", "num_workers", 0 },
        { NESTED, STOKE_DIALECT_FLAT, "batch_size", "TrainingConfig.BATCH_SIZE", 1 },
        { NESTED, STOKE_DIALECT_FLAT, "num_workers", "TrainingConfig.NUM_WORKERS", 0 },
        { NESTED, STOKE_DIALECT_FLAT, "learning_rate", "LEARNING_RATE", 0 }, /* not the item of a list */
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        stoke_yaml *yaml = parsed(wanted[i].text);
        stoke_error err = { 0 };
        const char *path;
        int exists;
        assert_int_equal(stoke_config_dialect(yaml), wanted[i].dialect);
        const int r = stoke_config_find(yaml, wanted[i].setting, NULL, &path, &exists, &err);
        if (!wanted[i].path) {
            assert_int_equal(r, STOKE_E_UNSUPPORTED);
            assert_null(path);
        } else {
            if (r) fail_msg("%s: %s", wanted[i].setting, err.message);
            assert_string_equal(path, wanted[i].path);
            assert_int_equal(exists, wanted[i].exists);
        }
        stoke_yaml_close(&yaml);
    }
    assert_string_equal(stoke_dialect_name(STOKE_DIALECT_TRAIN_DS), "train_ds");
    assert_string_equal(stoke_dialect_name(9), "unknown");
}

static void candidates_and_map(void **state)
{
    (void)state;
    stoke_yaml *yaml = parsed("data:\n  batch_size: 1\ntraining:\n  batch_size: 2\n  bs: 3\n");
    stoke_error err = { 0 };
    const char *path;
    int exists;
    assert_int_equal(stoke_config_find(yaml, "batch_size", NULL, &path, &exists, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "data.batch_size (line 2), training.batch_size (line 4)"));
    assert_non_null(strstr(err.message, "--map batch_size="));
    static const char *const map[] = { "num_workers=data.nw", "batch_size=training.bs", NULL };
    assert_int_equal(stoke_config_find(yaml, "batch_size", map, &path, &exists, &err), STOKE_OK);
    assert_string_equal(path, "training.bs");
    assert_true(exists);
    assert_int_equal(stoke_config_find(yaml, "num_workers", map, &path, &exists, &err), STOKE_OK);
    assert_string_equal(path, "data.nw");
    assert_false(exists);
    static const char *const unknown[] = { "bs=training.bs", NULL },
                             *const no_path[] = { "batch_size", NULL },
                             *const bad[] = { "batch_size=a[", NULL };
    assert_int_equal(stoke_config_find(yaml, "batch_size", unknown, &path, &exists, &err), STOKE_E_NOTFOUND);
    assert_int_equal(stoke_config_find(yaml, "batch_size", no_path, &path, &exists, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_config_find(yaml, "batch_size", bad, &path, &exists, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_config_find(yaml, "bach_size", NULL, &path, &exists, &err), STOKE_E_NOTFOUND);
    stoke_yaml_close(&yaml);
}

/* ---- stoke_optimize ---- */

static stoke_optimize_params asked(const char *config)
{
    stoke_optimize_params params = stoke_optimize_defaults();
    params.config = config;
    params.gpu = "RTX 3090";
    params.cores = 9;
    params.ranks = 1;
    return params;
}

static void check_target(void **state, const char *config, const char *target)
{
    const char *path = unit_path(state, config);
    stoke_optimization *plan = NULL;
    stoke_error err = { 0 };
    unit_write(path, FLAT, sizeof FLAT - 1);
    const stoke_optimize_params params = asked(path);
    if (stoke_optimize(&plan, &params, &err)) fail_msg("%s", err.message);
    assert_string_equal(stoke_optimization_target(plan), unit_path(state, target));
    stoke_optimization_destroy(&plan);
    stoke_optimization_destroy(&plan);
}

static void targets(void **state)
{
    check_target(state, "x_config.yaml", "x_gpu_optimized.yaml");
    check_target(state, "x.yml", "x_gpu_optimized.yml");
    check_target(state, "a.b/x_config", "a.b/x_gpu_optimized.yaml");
    check_target(state, "_config.yaml", "_config_gpu_optimized.yaml");
    check_target(state, ".hidden", ".hidden_gpu_optimized.yaml");
}

/* What a plan does to one setting; NULL: nothing. */
static const char *planned(const stoke_optimization *plan, const char *setting, stoke_change *change)
{
    for (size_t i = 0; stoke_optimization_change(plan, i, change); i++)
        if (!strcmp(change->setting, setting)) return change->to;
    return NULL;
}

static stoke_optimization *optimized(void **state, const char *text, const char *gpu)
{
    const char *path = unit_path(state, "plan.yaml");
    stoke_optimization *plan = NULL;
    stoke_error err = { 0 };
    unit_write(path, text, strlen(text));
    stoke_optimize_params params = asked(path);
    params.gpu = gpu;
    if (stoke_optimize(&plan, &params, &err)) fail_msg("%s", err.message);
    return plan;
}

/* Copies and the loop's waits, in every dialect; NULL: nothing is to change. */
static void copies_and_waits(void **state)
{
    static const char CARD[] = "RTX 3090";
    static const struct {
        const char *text, *gpu, *setting, *path, *to;
    } wanted[] = {
        { "num_workers: 4\nnon_blocking: false\n", CARD, "non_blocking", "non_blocking", "true" },
        { "num_workers: 4\nasync_copy: true\n", CARD, "non_blocking", NULL, NULL },
        { "num_workers: 4\n", CARD, "non_blocking", NULL, NULL }, /* a flat file: who would read it? */
        /* No card is seen, but one may be meant; where the file says cpu, none is. */
        { "data:\n  num_workers: 4\n", NULL, "non_blocking", "data.non_blocking", "true" },
        { "device: cpu\ndata:\n  num_workers: 4\n", NULL, "non_blocking", NULL, NULL },
        /* Pinned memory is not to be had, so neither is what needs it. */
        { "data:\n  num_workers: 4\n  pin_memory: maybe\n", CARD, "non_blocking", NULL, NULL },
        { "data:\n  num_workers: 4\n  pin_memory: maybe\n", CARD, "device_prefetch", NULL, NULL },
        { "data:\n  num_workers: 4\n", CARD, "non_blocking", "data.non_blocking", "true" },
        /* DataLoader takes neither. */
        { "train_ds:\n  num_workers: 4\n", CARD, "non_blocking", NULL, NULL },
        { "train_ds:\n  num_workers: 4\n", CARD, "device_prefetch", NULL, NULL },
        /* A separate stream is another thing than not waiting for a copy. */
        { "num_workers: 4\nuse_prefetcher: no\n", CARD, "device_prefetch", "use_prefetcher", "true" },
        { "num_workers: 4\nuse_prefetcher: no\n", CARD, "non_blocking", NULL, NULL },
        { "num_workers: 4\nprefetch_to_gpu: true\n", CARD, "device_prefetch", NULL, NULL },
        { "num_workers: 4\nnon_blocking: true\n", CARD, "device_prefetch", NULL, NULL },
        { "data:\n  num_workers: 4\n", CARD, "device_prefetch", "data.cuda_prefetch", "true" },
        { "batch: 4\nclip_norm: 1\ntransfer: pageable\n", CARD, "device_prefetch", "transfer", "stream" },
        { "batch: 4\nclip_norm: 1\ntransfer: stream\n", CARD, "device_prefetch", NULL, NULL },
        { "batch: 4\nclip_norm: 1\n", CARD, "device_prefetch", NULL, NULL }, /* the default is right */
        { "batch: 4\nclip_norm: 1\n", CARD, "non_blocking", NULL, NULL },
        { "batch: 4\nclip_norm: 1\nplacement: host\n", CARD, "gpu_augmentation", "placement", "auto" },
        { "batch: 4\nclip_norm: 1\nplacement: device\n", CARD, "gpu_augmentation", NULL, NULL },
        { "batch: 4\nclip_norm: 1\nlog_every: 1\n", CARD, "log_every", "log_every", "auto" },
        { "num_workers: 4\nlog_every: 1\n", CARD, "log_every", "log_every", "50" },
        { "num_workers: 4\nprint_freq: 9\n", CARD, "log_every", "print_freq", "50" },
        { "num_workers: 4\nprint_freq: 10\n", CARD, "log_every", NULL, NULL },
        { "num_workers: 4\nlog_interval: epoch\n", CARD, "log_every", NULL, NULL },
        { "num_workers: 4\nlog_interval: 0\n", CARD, "log_every", NULL, NULL }, /* 0 is often: never */
        { "num_workers: 4\n", CARD, "log_every", NULL, NULL },
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        stoke_change change = { 0 };
        stoke_optimization *plan = optimized(state, wanted[i].text, wanted[i].gpu);
        const char *to = planned(plan, wanted[i].setting, &change);
        if (!to != !wanted[i].to || (to && strcmp(to, wanted[i].to) != 0))
            fail_msg("case %zu: %s becomes %s", i, wanted[i].setting, to ? to : "(nothing)");
        if (to) {
            assert_string_equal(change.path, wanted[i].path);
            assert_true(*change.why && *change.effect && change.source == STOKE_SOURCE_TABLE);
        }
        stoke_optimization_destroy(&plan);
    }
}

static void own_file(void **state)
{
    const char *path = unit_path(state, "stoke.yaml");
    stoke_optimization *plan = NULL;
    stoke_change change;
    stoke_error err = { 0 };
    unit_write(path, OWN, sizeof OWN - 1);
    const stoke_optimize_params params = asked(path);
    if (stoke_optimize(&plan, &params, &err)) fail_msg("%s", err.message);
    assert_string_equal(planned(plan, "num_workers", &change), "auto");
    assert_string_equal(change.path, "workers");
    assert_string_equal(change.from, "0");
    assert_string_equal(planned(plan, "grad_clip", &change), "1.0");
    assert_null(planned(plan, "batch_size", &change));
    assert_null(planned(plan, "pin_memory", &change));
    assert_null(planned(plan, "compile", &change));
    assert_null(planned(plan, "learning_rate", &change));
    stoke_optimization_destroy(&plan);
}

static void bad_params(void **state)
{
    (void)state;
    stoke_optimization *plan = NULL;
    stoke_error err = { 0 };
    stoke_optimize_params params = stoke_optimize_defaults();
    assert_int_equal(stoke_optimize(&plan, &params, &err), STOKE_E_INVALID);
    params.config = "/nowhere/x.yaml";
    assert_int_equal(stoke_optimize(&plan, &params, &err), STOKE_E_NOTFOUND);
    params.struct_size = 3;
    assert_int_equal(stoke_optimize(&plan, &params, &err), STOKE_E_INVALID);
    assert_null(plan);
}

/* Every allocation fails once: no leak, no plan that claims less than it did. */
static void no_memory(void **state)
{
    const char *path = unit_path(state, "m.yaml");
    unit_write(path, SECTIONS, sizeof SECTIONS - 1);
    const stoke_optimize_params params = asked(path);
    int done = 0, failures = 0;
    for (int after = 0; !done && after < 2000; after++) {
        stoke_optimization *plan = NULL;
        stk_mem_fail_after(after);
        const int r = stoke_optimize(&plan, &params, NULL);
        stk_mem_fail_after(-1);
        assert_true(!r == !!plan);
        done = !r && stoke_optimization_remark(plan, 1) != NULL;
        failures += r != STOKE_OK;
        stoke_optimization_destroy(&plan);
    }
    assert_true(done && failures > 20);
}

UNIT_GROUP(config_keys)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),
        cmocka_unit_test(candidates_and_map),
        unit_test_with_folder(targets),
        unit_test_with_folder(own_file),
        unit_test_with_folder(copies_and_waits),
        cmocka_unit_test(bad_params),
        unit_test_with_folder(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
