/* SPDX-License-Identifier: Apache-2.0
 *
 * Curves of which the right learning rate is known: an S that falls fastest at 1e-3, with noise, with single
 * batches far off; curves that tell nothing, of which nothing may be told; and two of real sweeps.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/mem.h"
#include <stoke/tools/findlr.h>

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
    /* The S is nine tenths down at 3.6 times the rate where it falls fastest, and lowest before it explodes.
     */
    between("half", r->half, lr * 0.4, lr * 2);
    between("floor", r->floor, lr * 1.5, lr * 8);
    between("lowest", r->lowest, lr * 2, lr * 40);
    assert_true(r->suggested == sqrt(r->floor * r->lowest));
    assert_true(r->confidence != STOKE_LR_LOW);
    assert_string_equal(r->why, "");
    stoke_lr_report_free(r);
}

/* Over log(lr), wherever the S lies. */
static void the_place_is_found(void **state)
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
            between("floor", r.floor, 2e-3, 6e-3);
            stoke_lr_report_free(&r);
        }
    }
}

/* Clipped gradients hold an explosion down, and the loss falls again, for longer than the first time: seen on
 * photographs of streets. */
static void a_second_fall_does_not_count(void **state)
{
    (void)state;
    stoke_lr_report r;
    curve c = plain;
    c.divergent = 1e9;
    draw(&r, &c);
    for (size_t i = 0; i < r.count; i++)
        if (r.points[i].lr > 0.01) r.points[i].loss = r.points[i].lr < 0.02 ? 5 : 1.9;
    judge(&r);
    between("lowest", r.lowest, 3e-3, 1.1e-2);
    assert_true(r.suggested == sqrt(r.floor * r.lowest));
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
    assert_true(isnan(r.suggested) && isnan(r.half) && isnan(r.floor) && isnan(r.lowest));
    assert_non_null(strstr(r.why, "came no further than"));
    assert_non_null(strstr(r.why, "start it lower"));
    stoke_lr_report_free(&r);
    r.end_lr = 1e-6; /* of no step at all */
    r.end = STOKE_LR_END_NOT_FINITE;
    assert_int_equal(stoke_lr_judge(&r, NULL), STOKE_OK);
    assert_true(isnan(r.suggested));
    assert_non_null(strstr(r.why, "no further than 0 steps"));
}

/* One fall at once, then a long and shallow one to the lowest loss: a number, and little trust in it. */
static void readings_far_apart_are_hardly_believed(void **state)
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
    assert_true(r.lowest / r.half > 30);
    assert_int_equal(r.confidence, STOKE_LR_LOW);
    assert_true(r.suggested == sqrt(r.floor * r.lowest));
    assert_non_null(strstr(r.why, "differ by a factor of"));
    stoke_lr_report_free(&r);
}

/* The same S under more and more noise: the number stays, the confidence goes. */
static void confidence_goes_with_noise(void **state)
{
    (void)state;
    int last = STOKE_LR_HIGH;
    for (double noise = 0; noise < 3; noise += 0.5) {
        stoke_lr_report r;
        curve c = plain;
        c.noise = noise;
        c.seed = 7;
        draw(&r, &c);
        judge(&r);
        assert_true(isfinite(r.suggested) && (int)r.confidence <= last);
        if (noise == 0) assert_int_equal(r.confidence, STOKE_LR_HIGH);
        assert_int_equal(*r.why != 0, r.confidence == STOKE_LR_LOW);
        last = (int)r.confidence;
        stoke_lr_report_free(&r);
    }
    assert_int_equal(last, STOKE_LR_LOW);
}

/* ---- real sweeps, 1e-6 to 1 ---- */

/* b0 from scratch with AdamW: CamVid at 96x128, batches of 8, and windows of 128 out of membranes, batches
 * of 4. Runs of 120 steps were best at 1e-3 of 1e-4, 1e-3 and 1e-2, on both. */
static const float camvid[STEPS] = {
    2.466f, 2.468f,  2.471f, 2.478f, 2.471f, 2.469f, 2.475f, 2.47f,  2.464f, 2.472f, 2.462f, 2.442f, 2.46f,
    2.461f, 2.457f,  2.425f, 2.444f, 2.428f, 2.421f, 2.401f, 2.4f,   2.394f, 2.42f,  2.392f, 2.397f, 2.389f,
    2.346f, 2.366f,  2.331f, 2.302f, 2.308f, 2.27f,  2.304f, 2.307f, 2.255f, 2.26f,  2.254f, 2.205f, 2.172f,
    2.204f, 2.148f,  2.166f, 2.1f,   2.134f, 2.038f, 2.08f,  2.091f, 1.98f,  2.059f, 1.956f, 2.056f, 1.962f,
    2.0f,   2.083f,  1.919f, 1.831f, 1.886f, 1.86f,  1.858f, 1.786f, 1.759f, 1.836f, 1.791f, 1.714f, 1.726f,
    1.751f, 1.712f,  1.67f,  1.53f,  1.61f,  1.551f, 1.639f, 1.497f, 1.474f, 1.417f, 1.44f,  1.494f, 1.426f,
    1.449f, 1.356f,  1.479f, 1.346f, 1.309f, 1.508f, 1.344f, 1.261f, 1.206f, 1.246f, 1.269f, 1.215f, 1.278f,
    1.26f,  1.233f,  1.187f, 1.097f, 1.223f, 1.077f, 1.119f, 1.041f, 1.255f, 1.101f, 1.106f, 1.21f,  0.9545f,
    1.044f, 0.9117f, 1.091f, 1.047f, 1.229f, 1.101f, 1.07f,  1.238f, 1.35f,  1.332f, 1.236f, 1.119f, 1.006f,
    1.135f, 2.334f,  1.288f, 1.107f, 1.138f, 1.273f, 1.154f, 1.091f, 1.199f, 1.842f, 1.282f, 1.218f, 1.455f,
    1.212f, 1.101f,  1.118f, 1.334f, 1.218f, 1.412f, 2.011f, 1.246f, 1.045f, 1.427f, 2.059f, 1.683f, 1.288f,
    1.572f, 1.264f,  1.195f, 1.441f, 1.532f, 1.221f, 1.285f, 1.258f, 1.255f, 1.37f,  1.504f, 1.176f, 1.503f,
    1.133f, 1.191f,  1.262f, 1.304f, 1.155f, 1.221f, 1.461f, 1.59f,  1.464f, 1.417f, 1.449f, 1.538f, 1.229f,
    1.4f,   1.456f,  1.486f, 1.433f, 1.301f, 1.425f, 1.169f, 1.291f, 1.727f, 1.4f,   1.819f, 1.22f,  1.111f,
    2.219f, 1.432f,  1.572f, 1.364f, 1.532f, 1.7f,   1.663f, 1.485f, 1.557f, 1.534f, 2.244f, 1.366f, 1.645f,
    1.561f, 1.715f,  1.473f, 2.078f, 2.445f,
};

static const float membrane[STEPS] = {
    0.6761f, 0.6747f, 0.6836f, 0.6905f, 0.6764f, 0.6811f, 0.6914f, 0.6828f, 0.6883f, 0.6944f, 0.6867f,
    0.6774f, 0.67f,   0.6755f, 0.7017f, 0.6714f, 0.6794f, 0.6834f, 0.6705f, 0.6667f, 0.6746f, 0.6729f,
    0.6629f, 0.6616f, 0.6638f, 0.6629f, 0.6652f, 0.6783f, 0.6646f, 0.6531f, 0.6583f, 0.6558f, 0.6578f,
    0.6463f, 0.6445f, 0.6312f, 0.6359f, 0.6366f, 0.6508f, 0.629f,  0.6415f, 0.6316f, 0.6186f, 0.6102f,
    0.6132f, 0.6029f, 0.6154f, 0.6287f, 0.5951f, 0.5802f, 0.5971f, 0.5902f, 0.5749f, 0.5951f, 0.5751f,
    0.569f,  0.556f,  0.5641f, 0.5327f, 0.5755f, 0.5389f, 0.52f,   0.5281f, 0.4965f, 0.516f,  0.5621f,
    0.5003f, 0.5259f, 0.5093f, 0.4567f, 0.4873f, 0.5124f, 0.4627f, 0.47f,   0.4348f, 0.4147f, 0.4309f,
    0.4276f, 0.427f,  0.4087f, 0.3917f, 0.4055f, 0.4399f, 0.3879f, 0.3483f, 0.3658f, 0.3404f, 0.3082f,
    0.4148f, 0.3582f, 0.29f,   0.3265f, 0.4023f, 0.3051f, 0.3922f, 0.3074f, 0.2992f, 0.3528f, 0.3272f,
    0.3069f, 0.2668f, 0.4083f, 0.2756f, 0.3425f, 0.3392f, 0.3359f, 0.4292f, 0.3976f, 0.3233f, 0.3106f,
    0.3934f, 0.2685f, 0.3142f, 0.3773f, 0.3534f, 0.4527f, 0.2944f, 0.3522f, 0.3282f, 0.3078f, 0.4207f,
    0.294f,  0.3828f, 0.2993f, 0.3754f, 0.2899f, 0.5112f, 0.2891f, 0.3551f, 0.4407f, 0.3748f, 0.2784f,
    0.4295f, 0.3402f, 0.5783f, 0.4487f, 0.3123f, 0.4153f, 0.3537f, 0.3976f, 0.3571f, 0.3955f, 0.4315f,
    0.4643f, 0.372f,  0.4285f, 0.4106f, 0.8018f, 0.6682f, 0.4785f, 0.5465f, 0.4385f, 0.5293f, 0.5202f,
    0.4579f, 0.5547f, 0.617f,  0.5232f, 0.4587f, 0.4315f, 0.4007f, 0.3951f, 1.065f,  0.5057f, 0.4703f,
    0.4081f, 0.4263f, 0.5434f, 0.3926f, 0.4004f, 0.4638f, 0.431f,  0.4692f, 0.3482f, 0.3612f, 0.4393f,
    0.3593f, 0.4331f, 0.3244f, 0.563f,  0.3819f, 0.4436f, 0.4303f, 0.4402f, 0.3845f, 0.5632f, 0.383f,
    0.3705f, 0.3667f, 0.4117f, 0.4335f, 0.3512f, 0.3376f, 0.5056f, 4.23f,   0.5929f, 1.032f,  0.6194f,
    0.6767f, 0.8805f,
};

static void real_sweeps_have_an_answer(void **state)
{
    (void)state;
    static const float *const curves[] = { camvid, membrane };
    for (size_t k = 0; k < 2; k++) {
        stoke_lr_report r;
        draw(&r, &plain);
        for (size_t i = 0; i < STEPS; i++) r.points[i].loss = curves[k][i];
        judge(&r);
        between("suggested", r.suggested, 4e-4, 3e-3);
        between("half", r.half, 3e-5, 4e-4);
        between("lowest", r.lowest, 5e-4,
                3e-3); /* the losses' own; an average of the past had it at 0.02 and 0.07 */
        assert_true(r.confidence >= STOKE_LR_MEDIUM);
        stoke_lr_report_free(&r);
    }
}

/* On a straight line there is nothing to smooth: neither at the ends nor anywhere is it moved. */
static void smoothing_does_not_lag(void **state)
{
    (void)state;
    stoke_lr_report r;
    draw(&r, &plain);
    for (size_t i = 0; i < r.count; i++) r.points[i].loss = 3 - 0.01 * (double)i;
    assert_int_equal(stoke_lr_judge(&r, NULL), STOKE_OK);
    for (size_t i = 2; i + 2 < r.count; i++) assert_true(fabs(r.points[i].smooth - r.points[i].loss) < 0.01);
    for (size_t i = 15; i + 15 < r.count; i++)
        assert_true(fabs(r.points[i].smooth - r.points[i].loss) < 1e-9);
    stoke_lr_report_free(&r);
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

UNIT_GROUP(lr_judge)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_place_is_found),
        cmocka_unit_test(noise_does_not_move_it),
        cmocka_unit_test(single_batches_do_not_move_it),
        cmocka_unit_test(a_second_fall_does_not_count),
        cmocka_unit_test(curves_without_an_answer_get_none),
        cmocka_unit_test(divergence_at_once_is_told),
        cmocka_unit_test(readings_far_apart_are_hardly_believed),
        cmocka_unit_test(confidence_goes_with_noise),
        cmocka_unit_test(real_sweeps_have_an_answer),
        cmocka_unit_test(smoothing_does_not_lag),
        cmocka_unit_test(what_is_no_curve_is_refused),
        cmocka_unit_test(lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
