/* SPDX-License-Identifier: Apache-2.0
 *
 * From a settings file of any dialect to the loop it describes.
 */
#include "tests/unit/unit.h"

#include <stoke/tools/diagnose.h>

static stoke_run_plan *plan_of(void **state, const char *text, const char *const *map)
{
    stoke_run_plan *plan = NULL;
    stoke_error err = { 0 };
    const char *path = unit_path(state, "x.yaml");
    unit_write(path, text, strlen(text));
    if (stoke_run_plan_read(&plan, path, NULL, map, &err)) fail_msg("%s", err.message);
    return plan;
}

static int remarks_on(const stoke_run_plan *plan, const char *part)
{
    int n = 0;
    for (size_t i = 0; stoke_run_plan_remark(plan, i); i++)
        n += strstr(stoke_run_plan_remark(plan, i), part) != NULL;
    return n;
}

/* What a file leaves out has PyTorch's default, and a remark. */
static void nothing_said(void **state)
{
    stoke_run_plan *plan = plan_of(state, "batch_size: 16\nlearning_rate: 0.1\n", NULL);
    const stoke_setup *s = &plan->setup;
    assert_string_equal(plan->dialect, "flat");
    assert_int_equal(s->batch, 16);
    assert_int_equal(s->workers, 0);
    assert_int_equal(s->prefetch, 1);
    assert_int_equal(s->transfer, STOKE_TRANSFER_PAGEABLE);
    assert_int_equal(s->placement, STOKE_PLACEMENT_HOST);
    assert_int_equal(s->sync, 0);
    assert_int_equal(s->persistent, 1); /* there is nobody to restart */
    assert_int_equal(s->by_batch, 0);
    assert_string_equal(plan->data.augment, "standard");
    static const char *const said[] = { "num_workers", "pin_memory", "augmented", "size", "logs", "stoke's" };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) assert_int_equal(remarks_on(plan, said[i]), 1);
    assert_int_equal(remarks_on(plan, "prefetch_factor"), 0);
    stoke_run_plan_free(&plan);
    assert_null(plan);
}

static void everything_said(void **state)
{
    stoke_run_plan *plan =
        plan_of(state,
                "data:\n  root: faces\n  batch_size: 4\n  num_workers: 3\n  prefetch_factor: 5\n"
                "  pin_memory: true\n  persistent_workers: false\n  image_size: [48, 64]\n"
                "  augmentation: light\n  drop_last: true\n"
                "training:\n  use_gpu_augmentation: true\n  log_every: 1\n"
                "model:\n  name: segformer-b2\n  num_classes: 7\n",
                NULL);
    const stoke_setup *s = &plan->setup;
    const stoke_data_params *d = &plan->data;
    assert_string_equal(plan->dialect, "sections");
    assert_string_equal(plan->model, "b2");
    assert_int_equal(s->workers, 3);
    assert_int_equal(s->prefetch, 15);
    assert_int_equal(s->transfer, STOKE_TRANSFER_PINNED);
    assert_int_equal(s->placement, STOKE_PLACEMENT_DEVICE);
    assert_int_equal(s->persistent, 0);
    assert_int_equal(s->sync, 1);
    assert_int_equal(d->batch, 4);
    assert_int_equal(d->workers, 3);
    assert_int_equal(d->size[0], 48);
    assert_int_equal(d->size[1], 64);
    assert_int_equal(d->classes, 7);
    assert_int_equal(d->drop_last, 1);
    assert_string_equal(d->augment, "light");
    assert_string_equal(d->data, "faces");
    stoke_run_plan_free(&plan);
}

/* A prefetcher has a separate stream; non_blocking alone has not. */
static void copies(void **state)
{
    static const struct {
        const char *text;
        int transfer;
    } all[] = {
        { "train_ds:\n  batch_size: 2\n  pin_memory: false\n", STOKE_TRANSFER_PAGEABLE },
        { "train_ds:\n  batch_size: 2\n  pin_memory: true\n", STOKE_TRANSFER_PINNED },
        { "train_ds:\n  batch_size: 2\n  pin_memory: true\n  non_blocking: true\n", STOKE_TRANSFER_PINNED },
        { "train_ds:\n  batch_size: 2\n  pin_memory: true\n  cuda_prefetch: true\n", STOKE_TRANSFER_STREAM },
        { "train_ds:\n  batch_size: 2\n  use_prefetcher: yes\n", STOKE_TRANSFER_STREAM },
        { "train_ds:\n  batch_size: 2\n  pin_memory: true\n  use_prefetcher: no\n", STOKE_TRANSFER_PINNED },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        stoke_run_plan *plan = plan_of(state, all[i].text, NULL);
        assert_int_equal(plan->setup.transfer, all[i].transfer);
        stoke_run_plan_free(&plan);
    }
}

static void our_own(void **state)
{
    stoke_run_plan *plan =
        plan_of(state,
                "batch: 3\nworkers: 2\nprefetch: 6\nsize: 40x56\nclip_norm: 1\nval_split: 0.1\n"
                "transfer: pinned\nplacement: device\ndepth: 3\n",
                NULL);
    const stoke_setup *s = &plan->setup;
    assert_string_equal(plan->dialect, "stoke.yaml");
    assert_string_equal(plan->model, "b0");
    assert_int_equal(s->batch, 3);
    assert_int_equal(s->workers, 2);
    assert_int_equal(s->prefetch, 6);
    assert_int_equal(s->depth, 3);
    assert_int_equal(s->transfer, STOKE_TRANSFER_PINNED);
    assert_int_equal(s->placement, STOKE_PLACEMENT_DEVICE);
    assert_int_equal(s->persistent, 1);
    assert_string_equal(plan->data.augment, "standard"); /* as `stoke train` does */
    stoke_run_plan_free(&plan);
    plan = plan_of(state, "augment: none\nclip_norm: 1\nval_split: 0.1\n", NULL);
    assert_string_equal(plan->data.augment, "none");
    assert_int_equal(plan->setup.transfer, STOKE_TRANSFER_STREAM);
    assert_int_equal(remarks_on(plan, "workers is auto"), 1);
    assert_int_equal(remarks_on(plan, "batch is auto"), 1);
    stoke_run_plan_free(&plan);
}

static void by_map_and_by_hand(void **state)
{
    const char *const map[] = { "num_workers=b.num_workers", NULL };
    stoke_run_plan *plan = plan_of(state, "a:\n  num_workers: 1\nb:\n  num_workers: 2\n", map);
    assert_int_equal(plan->setup.workers, 2);
    stoke_run_plan_free(&plan);
    const char *path = unit_path(state, "x.yaml");
    assert_int_equal(stoke_run_plan_read(&plan, path, "elsewhere", map, NULL), 0);
    assert_string_equal(plan->data.data, "elsewhere");
    stoke_run_plan_free(&plan);
}

static void refused(void **state)
{
    stoke_run_plan *plan;
    stoke_error err = { 0 };
    const char *path = unit_path(state, "x.yaml");
    assert_int_equal(stoke_run_plan_read(&plan, NULL, NULL, NULL, &err), STOKE_E_INVALID);
    assert_true(stoke_run_plan_read(&plan, path, NULL, NULL, &err) != 0);
    assert_non_null(strstr(err.message, "x.yaml"));
    static const char two[] = "a:\n  num_workers: 1\nb:\n  num_workers: 2\n";
    unit_write(path, two, sizeof two - 1);
    assert_int_equal(stoke_run_plan_read(&plan, path, NULL, NULL, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "--map"));
    assert_null(plan);
}

UNIT_GROUP(run_plan)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(nothing_said),
        unit_test_with_folder(everything_said),
        unit_test_with_folder(copies),
        unit_test_with_folder(our_own),
        unit_test_with_folder(by_map_and_by_hand),
        unit_test_with_folder(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
