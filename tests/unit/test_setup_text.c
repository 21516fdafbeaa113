/* SPDX-License-Identifier: Apache-2.0
 *
 * A settled run as YAML that repeats it, and as an identity that tells two runs apart.
 */
#include <stoke/tools/data.h>
#include <stoke/tools/train.h>
#include "tests/unit/fixture_resolve.h"

/* ---- as text ---- */

static char *yaml_of(const stk_setup *setup)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(stk_setup_write_yaml(setup, out), 0);
    fclose(out);
    return text;
}

/* What a run writes is read back to the same run. */
static void yaml_repeats_the_run(void **state)
{
    /* Those of two classes first: masks of more would be no classes of theirs. */
    static const int variants[] = { 1, 3, 0, 2 };
    for (int v = 0; v < 4; v++) {
        const int variant = variants[v];
        static const uint16_t binary[] = { 0, 255 };
        stoke_data_params data = settling_plain(state);
        stoke_train_params params = stoke_train_defaults();
        if (variant & 1)
            settling_write(state, 7, binary, 2);
        else
            pairs_write(state, 9, 40, 56);
        data.augment = "standard";
        data.cache_ram = 777;
        params.class_weights = variant & 1 ? "balanced" : "none";
        params.eval_every = variant == 2 ? 0 : -1;
        params.name = "first";
        params.stop_after = 3;
        data.classes = variant == 3;
        if (variant == 3) params.class_weights = "none";
        stk_setup setup = settling_make(&data, &params);
        char *yaml = yaml_of(&setup), *identity = stk_setup_identity(&setup);
        unit_write(unit_path(state, "config.yaml"), yaml, strlen(yaml));
        stoke_data_params again = stoke_data_defaults();
        stoke_train_params again_params = stoke_train_defaults();
        const stoke_option_group groups[] = { stoke_data_options(&again),
                                              stoke_train_options(&again_params) };
        stoke_option_storage *storage;
        stoke_error err;
        if (stoke_settings_load_yaml(groups, 2, &again, unit_path(state, "config.yaml"), &storage, &err))
            fail_msg("%s", err.message);
        assert_null(again_params.name);
        assert_int_equal(again_params.stop_after, 0);
        assert_int_equal(again.cache_ram, 777);
        stk_setup second = settling_make(&again, &again_params);
        char *second_yaml = yaml_of(&second), *second_identity = stk_setup_identity(&second);
        assert_string_equal(yaml, second_yaml);
        assert_string_equal(identity, second_identity);
        assert_int_equal(setup.classes, second.classes);
        if (stk_setup_same(identity, second_identity, &err)) fail_msg("%s", err.message);
        stk_setup_free(&setup);
        stk_setup_free(&second);
        stoke_options_free_storage(&storage);
        free(yaml);
        free(second_yaml);
        stk_free(identity);
        stk_free(second_identity);
    }
}

static char *identity_with(void **state, const char *name, const char *value)
{
    stoke_data_params data = settling_plain(state);
    stoke_train_params params = stoke_train_defaults();
    const stoke_option_group groups[] = { stoke_data_options(&data), stoke_train_options(&params) };
    stoke_error err;
    data.size[0] = data.size[1] = 32;
    data.batch = 2;
    if (name && stoke_options_set(groups, 2, name, value, &err)) fail_msg("%s", err.message);
    stk_setup setup = settling_make(&data, &params);
    char *identity = stk_setup_identity(&setup);
    assert_non_null(identity);
    stk_setup_free(&setup);
    return identity;
}

static void identity_tells_runs_apart(void **state)
{
    pairs_write(state, 10, 32, 32);
    static const char ops[] = "augment:\n  - hflip: {p: 1}\n";
    unit_write(unit_path(state, "ops.yaml"), ops, strlen(ops));
    static const struct {
        const char *name, *value, *difference; /* NULL: the same run */
    } cases[] = {
        { "lr", "0.002", "lr was 0.001 and is 0.002" },
        { "seed", "3", "seed was 0 and is 3" },
        { "batch", "3", "batch was 2 and is 3" },
        { "epochs", "60", "steps was 250 and is 300" },
        { "classes", "7", "classes was 5 and is 7" },
        { "model", "b1", "model was b0 and is b1" },
        { "augment", "hflip", "augment was none and is hflip(p=0.5)" },
        { "label_map", "0:0,1:1,2:2,3:3,4:3", "label_map was " },
        { "val_split", "0.4", "train_set was " },
        { "memory", "min", "memory was plain and is min" },
        { "loss", "dice", "loss was ce and is dice" },
        { "loss_mean", "pixels", "loss_mean was not set and is pixels" },
        { "average", "0.9", "average was 0 and is 0.9" },
        { "compress", "bf16", "compress was not set and is bf16" },
        { "workers", "3", NULL },
        { "prefetch", "5", NULL },
        { "threads", "1", NULL },
        { "cache_ram", "1M", NULL },
        { "eval_every", "7", NULL },
        { "log_every", "7", NULL },
        { "save_every", "7", NULL },
        { "stop_after", "7", NULL },
        { "audit_every", "7", NULL },
        { "patience", "7", NULL },
        { "name", "other", NULL },
        { "runs", "elsewhere", NULL },
        { "pictures", "no", NULL },
        { "batch_norm", "sync", NULL }, /* there is one lane */
    };
    char *first = identity_with(state, NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_error err = { 0 };
        char *other = identity_with(state, cases[i].name, cases[i].value);
        const int r = stk_setup_same(first, other, &err);
        if (cases[i].difference ? r != STOKE_E_STATE || !strstr(err.message, cases[i].difference) : r)
            fail_msg("%s %s: %d %s", cases[i].name, cases[i].value, r, err.message);
        stk_free(other);
    }
    /* a file of ops counts by what is in it */
    char *listed = identity_with(state, "augment", "hflip(p=1)");
    char *filed = identity_with(state, "augment", unit_path(state, "ops.yaml"));
    assert_string_equal(listed, filed);
    stk_free(listed);
    stk_free(filed);
    stk_free(first);
}

static void differences_are_counted(void **state)
{
    stoke_error err;
    assert_int_equal(stk_setup_same("", "", &err), 0);
    assert_int_equal(stk_setup_same("a=1\nb=2\n", "b=2\na=1", &err), 0);
    assert_int_equal(stk_setup_same("a=1\n", "a=1\nc=3\n", &err), STOKE_E_STATE);
    assert_string_equal(err.message, "c was not set and is 3");
    assert_int_equal(stk_setup_same("a=1\nc=3\n", "a=1\n", &err), STOKE_E_STATE);
    assert_string_equal(err.message, "c was 3 and is not set");
    assert_int_equal(
        stk_setup_same("a=1\nb=1\nc=1\nd=1\ne=1\nf=1\ng=1", "a=2\nb=2\nc=2\nd=2\ne=2\nf=2\ng=2", &err),
        STOKE_E_STATE);
    assert_non_null(strstr(err.message, "e was 1 and is 2; and 2 more"));
    /* hostile: no '=', endless names and values */
    char *wild = malloc(100001);
    memset(wild, 'x', 100000);
    wild[100000] = 0;
    assert_int_equal(stk_setup_same(wild, "a=1", &err), STOKE_E_STATE);
    wild[10] = '=';
    assert_int_equal(stk_setup_same(wild, "a=1", &err), STOKE_E_STATE);
    assert_int_equal(stk_setup_same("\n\n=\n", "a", &err), STOKE_E_STATE);
    free(wild);
}

static void scores_that_can_be_compared(void **state)
{
    (void)state;
    assert_true(stk_setup_same_scores("lr=1\nmetric=miou\nval_set=a\n", "metric=miou\nval_set=a\nlr=2\n"));
    assert_false(stk_setup_same_scores("metric=miou\nval_set=a\n", "metric=loss\nval_set=a\n"));
    assert_false(stk_setup_same_scores("metric=miou\nval_set=a\n", "metric=miou\n"));
    assert_false(stk_setup_same_scores("classes=3\n", "classes=4\n"));
}

/* One of the two is from a file. */
static void a_terminal_is_safe(void **state)
{
    stoke_error err = { 0 };
    (void)state;
    assert_int_equal(stk_setup_same("l\033r=\033[2J\x7f\n", "l\033r=1\n", &err), STOKE_E_STATE);
    assert_non_null(strstr(err.message, "l\\x1br was \\x1b[2J\\x7f and is 1"));
}

UNIT_GROUP(setup_text)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(yaml_repeats_the_run), unit_test_with_folder(identity_tells_runs_apart),
        cmocka_unit_test(differences_are_counted),   cmocka_unit_test(scores_that_can_be_compared),
        cmocka_unit_test(a_terminal_is_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
