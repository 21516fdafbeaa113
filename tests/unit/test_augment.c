/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>
#include <stoke/augment.h>

static stoke_pipeline *make(const char *spec)
{
    stoke_pipeline *pipeline;
    stoke_error err = { 0 };
    if (stoke_pipeline_create(&pipeline, spec, &err)) fail_msg("%s", err.message);
    return pipeline;
}

static void none_stretches_the_whole(void **state)
{
    stoke_pipeline *pipeline = make(NULL);
    stoke_plan plan;
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 2, 3, 640, 480, 256, 128, NULL }, &plan);
    const stoke_plan expected = { .box = { 0, 0, 640, 480 }, .width = 256, .height = 128 };
    assert_memory_equal(&plan.box, &expected.box, sizeof plan.box);
    assert_int_equal(plan.width, 256);
    assert_int_equal(plan.height, 128);
    assert_int_equal(plan.hflip, 0);
    assert_string_equal(stoke_pipeline_text(pipeline), "none");
    stoke_pipeline_destroy(&pipeline);
    assert_null(pipeline);
}

/* Every offset occurs, none outside; the share of flips is 1/2 within four sigma. */
static void crop_and_flip_are_uniform(void **state)
{
    enum { N = 20000, ROOM = 10 };
    stoke_pipeline *pipeline = make("crop");
    unsigned xs[ROOM + 1] = { 0 }, flips = 0;
    for (uint64_t i = 0; i < N; i++) {
        stoke_plan plan;
        stoke_pipeline_draw(pipeline, &(stoke_draw){ 7, 1, i, 64 + ROOM, 64, 64, 64, NULL }, &plan);
        assert_in_range(plan.box.x, 0, ROOM);
        assert_int_equal(plan.box.y, 0);
        assert_int_equal(plan.box.width, 64);
        assert_int_equal(plan.width, 64);
        xs[plan.box.x]++;
        flips += plan.hflip;
    }
    const double p = 1.0 / (ROOM + 1), sigma = sqrt(N * p * (1 - p));
    for (int x = 0; x <= ROOM; x++) assert_true(fabs(xs[x] - N * p) < 4.5 * sigma);
    assert_true(fabs(flips - N * 0.5) < 4 * sqrt(N * 0.25));
    stoke_pipeline_destroy(&pipeline);
}

static void small_sources_are_placed_not_stretched(void **state)
{
    stoke_pipeline *pipeline = make("crop");
    int moved = 0;
    for (uint64_t i = 0; i < 200; i++) {
        stoke_plan plan;
        stoke_pipeline_draw(pipeline, &(stoke_draw){ 7, 1, i, 20, 100, 64, 64, NULL }, &plan);
        assert_int_equal(plan.box.width, 20);
        assert_int_equal(plan.width, 20);
        assert_in_range(plan.place_x, 0, 44);
        assert_int_equal(plan.box.height, 64);
        assert_int_equal(plan.place_y, 0);
        moved |= plan.place_x != 22;
    }
    assert_true(moved);
    stoke_pipeline_destroy(&pipeline);
}

static void draws_depend_on_every_key(void **state)
{
    stoke_pipeline *pipeline = make("crop");
    stoke_plan a, b;
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 1, 1, 5000, 5000, 64, 64, NULL }, &a);
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 1, 1, 5000, 5000, 64, 64, NULL }, &b);
    assert_memory_equal(&a.box, &b.box, sizeof a.box);
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 2, 1, 1, 5000, 5000, 64, 64, NULL }, &b);
    assert_memory_not_equal(&a.box, &b.box, sizeof a.box);
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 2, 1, 5000, 5000, 64, 64, NULL }, &b);
    assert_memory_not_equal(&a.box, &b.box, sizeof a.box);
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 1, UINT64_C(1) << 40 | 1, 5000, 5000, 64, 64, NULL }, &b);
    assert_memory_not_equal(&a.box, &b.box, sizeof a.box);
    stoke_pipeline_destroy(&pipeline);
}

static void yaml_gives_order_and_settings(void **state)
{
    const char *text = "augment:\n  - center_crop\n  - hflip: {p: 1}\n";
    unit_write(unit_path(state, "p.yaml"), text, strlen(text));
    stoke_pipeline *pipeline = make(unit_path(state, "p.yaml"));
    assert_string_equal(stoke_pipeline_text(pipeline), "center_crop,hflip(p=1)");
    stoke_plan plan;
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 1, 1, 100, 100, 64, 64, NULL }, &plan);
    assert_int_equal(plan.hflip, 1);
    assert_int_equal(plan.box.x, 18);
    stoke_pipeline_destroy(&pipeline);
}

static void yaml_errors_have_lines(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        { "augment:\n  - hflip\n  - spin\n", "p.yaml:3: no op is called \"spin\"" },
        { "augment:\n  - hflip: {p: 2}\n", "p.yaml:2: " },
        { "augment:\n  - hflip: {q: 1}\n", "p.yaml:2: " },
        { "augment:\n  - hflip: 3\n", "p.yaml:2: expected the op's settings" },
        { "- hflip\n", "p.yaml:1: expected \"augment:\"" },
        { "colours:\n  - hflip\n", "p.yaml:1: the only key here" },
        { "augment: &a\n  - *a\n", "p.yaml:2: aliases" },
        { "augment: [hflip\n", "p.yaml:2: " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unit_write(unit_path(state, "p.yaml"), cases[i].text, strlen(cases[i].text));
        stoke_pipeline *pipeline;
        stoke_error err = { 0 };
        assert_int_not_equal(stoke_pipeline_create(&pipeline, unit_path(state, "p.yaml"), &err), 0);
        if (!strstr(err.message, cases[i].expected)) fail_msg("case %zu: %s", i, err.message);
        assert_null(pipeline);
    }
    stoke_pipeline *pipeline;
    stoke_error err;
    assert_int_equal(stoke_pipeline_create(&pipeline, "ligth", &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "none, light, crop"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_stretches_the_whole),
        cmocka_unit_test(crop_and_flip_are_uniform),
        cmocka_unit_test(small_sources_are_placed_not_stretched),
        cmocka_unit_test(draws_depend_on_every_key),
        unit_test_with_folder(yaml_gives_order_and_settings),
        unit_test_with_folder(yaml_errors_have_lines),
    };
    return cmocka_run_group_tests_name("augment", tests, NULL, NULL);
}
