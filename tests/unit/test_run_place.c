/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of a run that was moved.
 */
#include "tests/unit/unit.h"

#include <limits.h>

#include "src/train/trainer.h"

static void expect(const char *path, const char *was, const char *now, const char *wanted)
{
    char moved[PATH_MAX] = "";
    const int found = stk_run_place_map(path, was, now, moved, sizeof moved);
    if (found != (wanted != NULL)) fail_msg("%s: %s", path, found ? moved : "not found");
    if (wanted) assert_string_equal(moved, wanted);
}

static void what_lay_around_a_run_moves_with_it(void **state)
{
    (void)state;
    expect("/a/proj/data", "/a/proj/runs/x", "/b/copy/runs/x", "/b/copy/data");
    expect("/a/proj/data", "/a/proj/runs/x", "/b/copy/runs/renamed", "/b/copy/data");
    expect("/a/proj/runs/x/colours.txt", "/a/proj/runs/x", "/b/proj/runs/x", "/b/proj/runs/x/colours.txt");
    expect("/a/proj/data", "/a/proj/runs/x", "/proj/runs/x", "/proj/data"); /* nearer to the root */
    /* The run alone: only what lay in the folder of runs can have come along. */
    expect("/a/proj/data", "/a/proj/runs/x", "/elsewhere/x", NULL);
    expect("/a/proj/runs/data", "/a/proj/runs/x", "/elsewhere/x", "/elsewhere/data");
    /* Not around it; a name that only begins alike is another. */
    expect("/sets/data", "/a/proj/runs/x", "/b/copy/runs/x", NULL);
    expect("/a/project/data", "/a/proj/runs/x", "/b/copy/runs/x", NULL);
    expect("data", "/a/proj/runs/x", "/b/copy/runs/x", NULL);
    expect("/data", "/x", "/y", NULL);
}

static void a_long_path_is_not_cut(void **state)
{
    (void)state;
    char moved[8] = "";
    assert_int_equal(stk_run_place_map("/a/p/data", "/a/p/runs/x", "/b/p/runs/x", moved, sizeof moved), 0);
}

static void settings_get_whole_paths(void **state)
{
    char here[PATH_MAX], wanted[PATH_MAX + 64];
    stoke_data_params data = stoke_data_defaults();
    stoke_train_params params = stoke_train_defaults();
    stk_string_arena whole = { 0 };
    assert_int_equal(chdir(unit_folder(state)), 0);
    assert_non_null(getcwd(here, sizeof here));
    unit_write("colours.txt", "x", 1);
    data.data = "./set";
    data.masks = "/whole";
    data.augment = "ops.yaml";
    data.label_map = "colours.txt";
    data.cache = "";
    stk_run_whole_paths(&whole, &data, &params);
    snprintf(wanted, sizeof wanted, "%s/set", here);
    assert_string_equal(data.data, wanted);
    assert_string_equal(data.masks, "/whole");
    snprintf(wanted, sizeof wanted, "%s/ops.yaml", here);
    assert_string_equal(data.augment, wanted);
    snprintf(wanted, sizeof wanted, "%s/colours.txt", here);
    assert_string_equal(data.label_map, wanted);
    assert_string_equal(data.cache, "");
    assert_string_equal(data.quarantine, "quarantine.jsonl"); /* in the folder of whatever run it is */
    stk_string_arena_free(&whole);
    data = stoke_data_defaults();
    data.augment = "standard";
    stk_run_whole_paths(&whole, &data, &params);
    assert_null(whole.last); /* words are no files */
    assert_int_equal(chdir("/"), 0);
}

UNIT_GROUP(run_place)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lay_around_a_run_moves_with_it),
        cmocka_unit_test(a_long_path_is_not_cut),
        unit_test_with_folder(settings_get_whole_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
