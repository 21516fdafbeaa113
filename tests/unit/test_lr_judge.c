/* SPDX-License-Identifier: Apache-2.0
 *
 * Curves of which the right learning rate is known: an S that falls fastest at 1e-3, with noise, with single
 * batches far off; and curves that tell nothing, of which nothing may be told.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/mem.h"
#include <stoke/findlr.h>

enum { STEPS = 200 };

typedef struct curve {
    double centre;    /* where the S falls fastest */
    double depth;     /* of its 2.5, how much it falls */
    double divergent; /* from this rate on the loss grows with its square */
    double noise;
    uint32_t seed;
    size_t steps;
} curve;

static const curve plain = { .centre = 1e-3, .depth = 1.5, .divergent = 0.1, .steps = STEPS };

/* Uniform in -1 .. 1. */
static double noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 8388608.0 - 1;
}

/* From 1e-6 to 1. */
static void draw(stoke_lr_report *r, const curve *c)
{
    uint32_t state = c->seed;
    *r = (stoke_lr_report){ .points = stk_calloc(c->steps, sizeof *r->points), .count = c->steps };
    assert_non_null(r->points);
    for (size_t i = 0; i < c->steps; i++) {
        const double lr = pow(10, -6 + 6.0 * (double)i / (double)(c->steps - 1));
        const double x = log(lr / c->centre), wild = lr / c->divergent;
        r->points[i].lr = lr;
        r->points[i].loss =
            2.5 - c->depth / (1 + exp(-x * 1.7)) + 10 * wild * wild + c->noise * noise(&state);
    }
}

/* Ends as the sweep does: where the smoothed loss is 4 times its lowest. */
static void judge(stoke_lr_report *r)
{
    stoke_error err = { 0 };
    if (stoke_lr_judge(r, &err)) fail_msg("%s", err.message);
    double lowest = INFINITY;
    for (size_t i = 0; i < r->count; i++) {
        lowest = fmin(lowest, r->points[i].smooth);
        if (r->points[i].smooth <= 4 * lowest) continue;
        r->count = i + 1;
        r->end = STOKE_LR_END_ROSE;
        r->end_lr = r->points[i].lr;
        if (stoke_lr_judge(r, &err)) fail_msg("%s", err.message);
    }
}

static void between(const char *what, double value, double low, double high)
{
    if (!(value >= low && value <= high)) fail_msg("%s is %g, not in %g .. %g", what, value, low, high);
}

static void expect_about(stoke_lr_report *r, double lr)
{
    judge(r);
    /* The average looks back: it finds everything a little later, never much earlier. */
    between("steepest", r->steepest, lr * 0.99, lr * 8);
    between("tenth", r->tenth, lr * 0.99, lr * 8);
    between("valley", r->valley, lr * 0.99, lr * 8);
    assert_string_equal(r->why, "");
    assert_true(r->suggested == r->steepest);
    stoke_lr_report_free(r);
}

/* Over log(lr), wherever the S lies. Over lr itself the answer would be 7e-4 for the first, left of where it
 * falls fastest, and 5e-6 as soon as there is noise. */
static void the_steepest_place_is_found(void **state)
{
    (void)state;
    for (double centre = 1e-4; centre < 0.02; centre *= 10) {
        curve c = plain;
        c.centre = centre;
        c.divergent = centre * 100;
        stoke_lr_report r;
        draw(&r, &c);
        expect_about(&r, centre);
    }
    for (size_t steps = 100; steps <= 1000; steps *= 10) {
        curve c = plain;
        c.steps = steps;
        stoke_lr_report r;
        draw(&r, &c);
        expect_about(&r, c.centre);
    }
}

static void noise_does_not_move_it(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        curve c = plain;
        c.noise = 0.3;
        c.seed = seed;
        stoke_lr_report r;
        draw(&r, &c);
        expect_about(&r, c.centre);
    }
}

/* One batch of twice the loss of others, or half of it, at every tenth place before the fall. */
static void single_batches_do_not_move_it(void **state)
{
    (void)state;
    for (size_t at = 5; at < 90; at += 10) {
        for (int easy = 0; easy < 2; easy++) {
            stoke_lr_report r;
            draw(&r, &plain);
            r.points[at].loss += easy ? -1.2 : 2.5;
            judge(&r);
            between("steepest", r.steepest, 1e-3, 8e-3);
            stoke_lr_report_free(&r);
        }
    }
}

/* Clipped gradients hold an explosion down, and the loss falls again, for longer than the first time: seen on
 * photographs of streets. */
static void a_second_fall_is_no_valley(void **state)
{
    (void)state;
    stoke_lr_report r;
    curve c = plain;
    c.divergent = 1e9;
    draw(&r, &c);
    for (size_t i = 0; i < r.count; i++)
        if (r.points[i].lr > 0.01) r.points[i].loss = r.points[i].lr < 0.02 ? 5 : 1.9;
    judge(&r);
    between("valley", r.valley, 3e-4, 8e-3);
    assert_true(r.suggested == r.steepest);
    stoke_lr_report_free(&r);
}

/* A number that was made up is worse than none. */
static void curves_without_an_answer_get_none(void **state)
{
    (void)state;
    stoke_lr_report r;
    curve c = plain;
    c.depth = 0.05; /* 2 % */
    c.noise = 0.01;
    draw(&r, &c);
    judge(&r);
    assert_true(isnan(r.suggested));
    assert_true(r.drop < 0.05);
    assert_non_null(strstr(r.why, "before it had fallen"));
    stoke_lr_report_free(&r);

    c.divergent = 1e3;
    draw(&r, &c);
    judge(&r);
    assert_true(isnan(r.suggested));
    assert_non_null(strstr(r.why, "% only (5 % are needed"));
    stoke_lr_report_free(&r);

    c.depth = 0; /* flat to the last bit */
    c.noise = 0;
    c.divergent = 1e200;
    draw(&r, &c);
    judge(&r);
    assert_true(isnan(r.suggested));
    assert_true(r.drop >= 0 && r.drop < 1e-12);
    stoke_lr_report_free(&r);
}

/* The loss explodes with the first steps: not even 20 points. */
static void divergence_at_once_is_told(void **state)
{
    (void)state;
    stoke_lr_report r;
    draw(&r, &plain);
    for (size_t i = 0; i < r.count; i++) r.points[i].loss = 2.3 * exp((double)i / 5);
    judge(&r);
    assert_true(r.count < 20);
    assert_true(isnan(r.suggested) && isnan(r.steepest) && isnan(r.tenth) && isnan(r.valley));
    assert_non_null(strstr(r.why, "came no further than"));
    assert_non_null(strstr(r.why, "start it lower"));
    stoke_lr_report_free(&r);
    r.end_lr = 1e-6; /* of no step at all */
    r.end = STOKE_LR_END_NOT_FINITE;
    assert_int_equal(stoke_lr_judge(&r, NULL), STOKE_OK);
    assert_true(isnan(r.suggested));
    assert_non_null(strstr(r.why, "no further than 0 steps"));
}

/* Two falls far from each other: the steep one first, then a long and shallow one to the lowest loss. */
static void readings_far_apart_are_not_believed(void **state)
{
    (void)state;
    stoke_lr_report r;
    curve c = plain;
    c.divergent = 1e9;
    draw(&r, &c);
    for (size_t i = 0; i < r.count; i++) {
        const double x = log10(r.points[i].lr);
        r.points[i].loss = (x < -5 ? 3.0 : 2.0) - (x + 6) * 0.02;
    }
    judge(&r);
    assert_true(isnan(r.suggested));
    assert_true(isfinite(r.steepest) && isfinite(r.tenth) && isfinite(r.valley));
    assert_true(r.tenth / r.steepest > 10);
    assert_non_null(strstr(r.why, "differ by a factor of"));
    stoke_lr_report_free(&r);
}

static void smoothing_is_an_average_from_the_first(void **state)
{
    (void)state;
    stoke_lr_point points[3] = { { 1e-3, 4, 0 }, { 2e-3, 2, 0 }, { 3e-3, 1, 0 } };
    stoke_lr_report r = { .points = points, .count = 3 };
    assert_int_equal(stoke_lr_judge(&r, NULL), STOKE_OK);
    const double b = 0.98;
    assert_true(points[0].smooth == 4);
    assert_true(fabs(points[1].smooth - (b * 4 + 2) / (b + 1)) < 1e-12);
    assert_true(fabs(points[2].smooth - (b * b * 4 + b * 2 + 1) / (b * b + b + 1)) < 1e-12);
}

static void what_is_no_curve_is_refused(void **state)
{
    (void)state;
    static const stoke_lr_point bad[][2] = {
        { { 1e-3, 1, 0 }, { 1e-3, 1, 0 } }, { { 1e-3, 1, 0 }, { 1e-4, 1, 0 } },
        { { 0, 1, 0 }, { 1e-4, 1, 0 } },    { { 1e-3, NAN, 0 }, { 1e-2, 1, 0 } },
        { { 1e-3, 1, 0 }, { NAN, 1, 0 } },  { { 1e-3, 1, 0 }, { INFINITY, 1, 0 } },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stoke_lr_point points[2] = { bad[i][0], bad[i][1] };
        stoke_lr_report r = { .points = points, .count = 2 };
        stoke_error err = { 0 };
        assert_int_equal(stoke_lr_judge(&r, &err), STOKE_E_INVALID);
        assert_non_null(strstr(err.message, "point "));
    }
    stoke_lr_report none = { .count = 1 };
    assert_int_equal(stoke_lr_judge(&none, NULL), STOKE_E_INVALID);
}

static void lack_of_memory_is_told(void **state)
{
    (void)state;
    stoke_lr_report r;
    stoke_error err = { 0 };
    draw(&r, &plain);
    stk_mem_fail_after(0);
    const int status = stoke_lr_judge(&r, &err);
    stk_mem_fail_after(-1);
    assert_int_equal(status, STOKE_E_NOMEM);
    assert_non_null(strstr(err.message, "200 points"));
    stoke_lr_report_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_steepest_place_is_found),
        cmocka_unit_test(noise_does_not_move_it),
        cmocka_unit_test(single_batches_do_not_move_it),
        cmocka_unit_test(a_second_fall_is_no_valley),
        cmocka_unit_test(curves_without_an_answer_get_none),
        cmocka_unit_test(divergence_at_once_is_told),
        cmocka_unit_test(readings_far_apart_are_not_believed),
        cmocka_unit_test(smoothing_is_an_average_from_the_first),
        cmocka_unit_test(what_is_no_curve_is_refused),
        cmocka_unit_test(lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
