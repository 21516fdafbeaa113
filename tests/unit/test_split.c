/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include <stoke/dataset.h>

#include "src/source/dataset.h"

static int is_val(const char *name, double part, int64_t seed)
{
    return stk_split_is_val(name, strlen(name), part, seed);
}

static void share_is_what_was_asked(void **state)
{
    static const double parts[] = { 0.01, 0.1, 0.25, 0.5, 0.9 };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        unsigned val = 0, n = 40000;
        for (unsigned k = 0; k < n; k++) {
            char name[32];
            snprintf(name, sizeof name, "img_%u", k);
            val += (unsigned)is_val(name, parts[i], 7);
        }
        double sd = sqrt(n * parts[i] * (1 - parts[i]));
        assert_true(fabs(val - n * parts[i]) < 5 * sd);
    }
    assert_int_equal(is_val("a", 0, 0), 0);
    assert_int_equal(is_val("a", 1, 0), 1);
}

/* A larger share keeps what a smaller one had in val. */
static void shares_nest(void **state)
{
    for (unsigned k = 0; k < 5000; k++) {
        char name[32];
        snprintf(name, sizeof name, "n%u", k);
        if (is_val(name, 0.1, 3)) assert_true(is_val(name, 0.2, 3));
    }
}

static void seeds_give_other_splits(void **state)
{
    unsigned both = 0, n = 10000;
    for (unsigned k = 0; k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "n%u", k);
        both += (unsigned)(is_val(name, 0.5, 1) && is_val(name, 0.5, 2));
    }
    assert_in_range(both, n / 4 - 250, n / 4 + 250);
}

/* Pinned: experiments are compared across versions by the same val set. */
static void split_is_pinned(void **state)
{
    char text[33] = "";
    for (unsigned k = 0; k < 32; k++) {
        char name[32];
        snprintf(name, sizeof name, "%u", k);
        text[k] = is_val(name, 0.3, 0) ? 'v' : '.';
    }
    assert_string_equal(text, "v......v.v.v..v..........v...vvv");
}

static void write_files(void **state, unsigned n)
{
    for (unsigned k = 0; k < n; k++) {
        char name[64];
        snprintf(name, sizeof name, "images/%u.png", k);
        unit_write(unit_path(state, name), "x", 1);
    }
}

static stoke_dataset *open_split(void **state, stoke_split split, double part)
{
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_folder(state);
    params.split = split;
    params.val_split = part;
    stoke_dataset *dataset = NULL;
    stoke_error err = { 0 };
    if (stoke_dataset_open(&dataset, &params, &err)) fail_msg("%s", err.message);
    return dataset;
}

/* What both sides are together is the whole, and adding files moves none. */
static void adding_files_moves_none(void **state)
{
    static char before[200], after[400];
    for (int round = 0; round < 2; round++) {
        char *side = round ? after : before;
        write_files(state, round ? 400 : 200);
        uint64_t total = 0;
        for (int split = STOKE_SPLIT_TRAIN; split <= STOKE_SPLIT_VAL; split++) {
            stoke_dataset *dataset = open_split(state, (stoke_split)split, 0.2);
            total += stoke_dataset_count(dataset);
            for (uint64_t i = 0; i < stoke_dataset_count(dataset); i++) {
                int k = atoi(stoke_dataset_sample(dataset, i).name);
                assert_int_equal(side[k], 0);
                side[k] = (char)split;
            }
            stoke_dataset_close(&dataset);
        }
        assert_int_equal(total, round ? 400 : 200);
    }
    assert_memory_equal(before, after, sizeof before);
}

static void empty_sides_are_errors(void **state)
{
    write_files(state, 3);
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_folder(state);
    params.split = STOKE_SPLIT_VAL;
    stoke_dataset *dataset;
    stoke_error err;
    assert_int_equal(stoke_dataset_open(&dataset, &params, &err), STOKE_E_NOTFOUND);
    assert_null(dataset);
    assert_non_null(strstr(err.message, "set `val_split`"));
    params.val_split = 1;
    params.split = STOKE_SPLIT_TRAIN;
    assert_int_equal(stoke_dataset_open(&dataset, &params, &err), STOKE_E_NOTFOUND);
    params.val_split = 1.5;
    assert_int_equal(stoke_dataset_open(&dataset, &params, &err), STOKE_E_INVALID);
    params.val_split = NAN;
    assert_int_equal(stoke_dataset_open(&dataset, &params, &err), STOKE_E_INVALID);
}

/* Of few samples a small share may take none: what would do is named, and does. */
static void an_empty_part_names_a_share(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    stoke_dataset *dataset;
    stoke_error err;
    double share = 0;
    write_files(state, 3);
    params.data = unit_folder(state);
    for (int split = STOKE_SPLIT_TRAIN; split <= STOKE_SPLIT_VAL; split++) {
        params.split = split;
        params.val_split = split == STOKE_SPLIT_VAL ? 0.001 : 0.999;
        assert_int_equal(stoke_dataset_open(&dataset, &params, &err), STOKE_E_NOTFOUND);
        const char *told = strstr(err.message, "names; ");
        assert_non_null(told);
        assert_int_equal(sscanf(told, "names; %lf would do", &share), 1);
        params.val_split = share;
        assert_int_equal(stoke_dataset_open(&dataset, &params, &err), STOKE_OK);
        stoke_dataset_close(&dataset);
    }
}

UNIT_GROUP(split)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_is_what_was_asked),          cmocka_unit_test(shares_nest),
        cmocka_unit_test(seeds_give_other_splits),          cmocka_unit_test(split_is_pinned),
        unit_test_with_folder(adding_files_moves_none),     unit_test_with_folder(empty_sides_are_errors),
        unit_test_with_folder(an_empty_part_names_a_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
