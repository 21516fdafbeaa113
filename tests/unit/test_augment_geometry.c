/* SPDX-License-Identifier: Apache-2.0
 *
 * Geometry: maps compose as matrices do, boxes hold every pixel that is looked at, and nothing is resampled
 * that need not be.
 */
#include "tests/unit/fixture_augment.h"

#include "src/augment/pipeline.h"
#include "src/base/rng.h"

static const double ONE = 4294967296.0;

static void source_of(const stoke_augment_plan *plan, double column, double row, double *x, double *y)
{
    const int64_t *m = plan->matrix;
    *x = (m[0] * column + m[1] * row + m[2]) / ONE + plan->box.x;
    *y = (m[3] * column + m[4] * row + m[5]) / ONE + plan->box.y;
}

/* libm's view of one op about the centre: source = c + L (result - c - t). */
typedef struct map {
    double a, b, c, d, tx, ty;
} map;

static void through(const map *op, double cx, double cy, double *x, double *y)
{
    const double dx = *x - cx - op->tx, dy = *y - cy - op->ty;
    *x = cx + op->a * dx + op->b * dy;
    *y = cy + op->c * dx + op->d * dy;
}

/* Fixed settings, so that what is drawn is known: hflip, then rotate by 17, then scale by 1.3. Seen from the
 * output the last op comes first. */
static void ops_compose_in_order(void **state)
{
    stoke_pipeline *pipeline =
        make("random_crop,hflip(p=1),rotate(p=1,degrees=17..17),scale(p=1,factor=1.3)");
    const double turn = 17 * 3.14159265358979323846 / 180, cx = 63.5, cy = 47.5;
    const map scale = { 1 / 1.3, 0, 0, 1 / 1.3, 0, 0 }, flip = { -1, 0, 0, 1, 0, 0 },
              rotate = { cos(turn), -sin(turn), sin(turn), cos(turn), 0, 0 };
    for (uint64_t i = 0; i < 50; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 1000, 900, 128, 96);
        stoke_pipeline *crop = make("random_crop");
        const stoke_augment_plan window = plan_of(crop, i, 1000, 900, 128, 96);
        stoke_pipeline_destroy(&crop);
        assert_int_equal(plan.warp, 1);
        assert_true(plan.width == plan.box.width && plan.height == plan.box.height);
        for (int corner = 0; corner < 4; corner++) {
            const double column = corner & 1 ? 127 : 0, row = corner & 2 ? 95 : 0;
            double x = column, y = row, gx, gy;
            through(&scale, cx, cy, &x, &y);
            through(&rotate, cx, cy, &x, &y);
            through(&flip, cx, cy, &x, &y);
            source_of(&plan, column, row, &gx, &gy);
            /* Six numbers rounded to 2^-33, times at most 128. */
            assert_true(fabs(gx - (x + window.box.x)) < 1e-7 && fabs(gy - (y + window.box.y)) < 1e-7);
        }
    }
    stoke_pipeline_destroy(&pipeline);
}

/* torchvision's formula for its inverse matrix, with the angle the other way round. */
static void affine_is_torchvisions(void **state)
{
    stoke_pipeline *pipeline = make("affine(p=1,degrees=25..25,scale=1.2,translate_x=0.1..0.1,"
                                    "translate_y=-0.05..-0.05,shear=12..12,shear_y=-7..-7)");
    const double degree = 3.14159265358979323846 / 180, rot = -25 * degree, sx = 12 * degree,
                 sy = -7 * degree;
    const double a = cos(rot - sy) / cos(sy), b = -cos(rot - sy) * tan(sx) / cos(sy) - sin(rot),
                 c = sin(rot - sy) / cos(sy), d = -sin(rot - sy) * tan(sx) / cos(sy) + cos(rot);
    const map inverse = { d / 1.2, -b / 1.2, -c / 1.2, a / 1.2, 12.8, -0.05 * 96 };
    const stoke_augment_plan plan = plan_of(pipeline, 1, 640, 480, 128, 96);
    for (int corner = 0; corner < 4; corner++) {
        const double column = corner & 1 ? 127 : 0, row = corner & 2 ? 95 : 0;
        double x = column, y = row, gx, gy;
        through(&inverse, 63.5, 47.5, &x, &y);
        source_of(&plan, column, row, &gx, &gy);
        assert_true(fabs(gx - x) < 1e-7 && fabs(gy - y) < 1e-7);
    }
    assert_true(plan.box.width == 640 && plan.width == 128); /* fitted first: the fit is the canvas */
    stoke_pipeline_destroy(&pipeline);
}

/* Positive is counter-clockwise as displayed: the right end of the middle row comes from below it... */
static void positive_angles_turn_counter_clockwise(void **state)
{
    static const char *const specs[] = {
        "rotate(p=1,degrees=90..90)", "affine(p=1,degrees=90..90,scale=1,translate_x=0,translate_y=0,shear=0)"
    };
    for (int i = 0; i < 2; i++) {
        stoke_pipeline *pipeline = make(specs[i]);
        const stoke_augment_plan plan = plan_of(pipeline, 1, 65, 65, 65, 65);
        double x, y;
        source_of(&plan, 64, 32, &x, &y);
        /* ...so what was at the bottom is now right: a quarter turn against the clock. */
        assert_true(x == 32 && y == 64);
        stoke_pipeline_destroy(&pipeline);
    }
}

static void identities_are_not_resampled(void **state)
{
    static const char *const specs[] = {
        "rotate(p=1,degrees=0)",
        "scale(p=1,factor=1)",
        "rotate(p=1,degrees=360..360)",
        "affine(p=1,degrees=0,scale=1,translate_x=0,translate_y=0,shear=0)",
        "elastic(p=1,alpha=0)",
        "hflip(p=1),vflip(p=1),hflip(p=1),vflip(p=1)",
        "rotate(p=1,degrees=180..180),hflip(p=1),vflip(p=1)",
        "scale(p=1,factor=2),scale(p=1,factor=0.5)",
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int same = 0; same < 2; same++) {
            stoke_pipeline *pipeline = make(specs[i]), *none = make("none");
            const uint32_t width = same ? 64 : 90;
            const stoke_augment_plan got = plan_of(pipeline, 1, width, 48, 64, 48),
                                     wanted = plan_of(none, 1, width, 48, 64, 48);
            if (memcmp(&got, &wanted, sizeof got) != 0) fail_msg("%s is not the identity", specs[i]);
            stoke_pipeline_destroy(&pipeline);
            stoke_pipeline_destroy(&none);
        }
}

static void flips_and_whole_shifts_are_not_resampled(void **state)
{
    stoke_pipeline *half_turn = make("rotate(p=1,degrees=180..180)");
    stoke_augment_plan plan = plan_of(half_turn, 1, 90, 70, 64, 48);
    assert_true(!plan.warp && plan.hflip && plan.vflip && plan.width == 64);
    stoke_pipeline_destroy(&half_turn);

    /* 6.25 % of 64 are 4 pixels to the right: the window moves 4 to the left, over the edge of the source. */
    const char *const shift = "center_crop,affine(p=1,degrees=0,scale=1,translate_x=0.0625..0.0625,"
                              "translate_y=0,shear=0)";
    stoke_pipeline *shifted = make(shift);
    plan = plan_of(shifted, 1, 66, 60, 64, 48);
    const stoke_box box = { 0, 6, 61, 48 };
    assert_int_equal(plan.warp, 0);
    assert_memory_equal(&plan.box, &box, sizeof box);
    assert_true(plan.place_x == 3 && plan.place_y == 0 && plan.width == 61);
    stoke_pipeline_destroy(&shifted);

    /* A fitted picture cannot be laid half outside without a resample. */
    shifted = make(strchr(shift, ',') + 1);
    plan = plan_of(shifted, 1, 90, 60, 64, 48);
    assert_int_equal(plan.warp, 1);
    assert_true(plan.matrix[0] == INT64_C(1) << 32 && plan.matrix[2] == -(INT64_C(4) << 32));
    stoke_pipeline_destroy(&shifted);
}

static void flips_have_parity(void **state)
{
    stoke_pipeline *pipeline = make("crop,vflip(p=0.5),hflip(p=0.5,swap=2-3,4-5)");
    unsigned seen[2][2] = { { 0 } };
    for (uint64_t i = 0; i < 4000; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 100, 100, 64, 64);
        assert_int_equal(plan.swap_labels, plan.hflip ^ plan.vflip);
        assert_int_equal(plan.warp, 0);
        seen[plan.hflip][plan.vflip]++;
    }
    for (int i = 0; i < 4; i++) assert_share(seen[i & 1][i >> 1], 4000, 0.25);
    const uint32_t(*swap)[2] = pipeline->constants.swap;
    assert_int_equal(pipeline->constants.n_swap, 2);
    assert_true(swap[0][0] == 2 && swap[0][1] == 3 && swap[1][0] == 4 && swap[1][1] == 5);
    stoke_pipeline_destroy(&pipeline);

    /* The mirror stays one when it is folded into a matrix; without pairs nothing is swapped. */
    pipeline = make("hflip(p=1,swap=2-3),rotate(p=1,degrees=10..10)");
    stoke_augment_plan plan = plan_of(pipeline, 1, 64, 64, 64, 64);
    assert_true(plan.warp && plan.swap_labels && !plan.hflip && plan.matrix[0] < 0);
    stoke_pipeline_destroy(&pipeline);
    pipeline = make("hflip(p=1)");
    plan = plan_of(pipeline, 1, 64, 64, 64, 64);
    assert_true(plan.hflip && !plan.swap_labels);
    stoke_pipeline_destroy(&pipeline);
}

/* Pixel taps of the definition in warp.h, relative to the box, moved by an elastic displacement of one
 * extreme; every tap inside the source must be inside the box. Returns how many were inside. */
static unsigned check_taps(const stoke_augment_plan *plan, const stoke_draw *draw, int64_t shift_x,
                           int64_t shift_y)
{
    unsigned inside = 0;
    for (uint32_t i = 0; i < draw->out_height; i++)
        for (uint32_t j = 0; j < draw->out_width; j++) {
            const int64_t *m = plan->matrix, x = m[0] * j + m[1] * i + m[2] + shift_x,
                          y = m[3] * j + m[4] * i + m[5] + shift_y;
            const int64_t x0 = (x + (1 << 23)) >> 32, y0 = (y + (1 << 23)) >> 32;
            const int64_t nearest[2] = { (x + (INT64_C(1) << 31)) >> 32, (y + (INT64_C(1) << 31)) >> 32 };
            for (int tap = 0; tap < 5; tap++) {
                const int64_t tx = tap < 4 ? x0 + (tap & 1) : nearest[0],
                              ty = tap < 4 ? y0 + (tap >> 1) : nearest[1];
                const int64_t sx = tx + plan->box.x, sy = ty + plan->box.y;
                if (sx < 0 || sy < 0 || sx >= draw->source_width || sy >= draw->source_height) continue;
                if (tx < 0 || ty < 0 || tx >= plan->box.width || ty >= plan->box.height)
                    fail_msg("position %llu, pixel %u %u: tap %lld %lld is outside the box",
                             (unsigned long long)draw->position, j, i, (long long)tx, (long long)ty);
                inside++;
            }
        }
    return inside;
}

static void boxes_hold_every_tap(void **state)
{
    static const char *const specs[] = {
        "random_crop,rotate(p=1,degrees=180),scale(p=1,factor=0.3..3)",
        "affine(p=1,degrees=45,scale=0.5..2,translate_x=1,translate_y=1,shear=40,shear_y=40)",
        "foreground_crop,hflip,rotate(p=0.7,degrees=20),elastic(p=1,alpha=0..9)",
        "center_crop,vflip,scale(p=1,factor=0.1..10)",
    };
    unsigned seen = 0, shrunk = 0;
    for (uint64_t i = 0; i < 1200; i++) {
        stoke_pipeline *pipeline = make(specs[i % 4]);
        const stk_rng r = stk_philox(20261116, i, 0, 9, 0);
        stoke_draw draw = {
            7, 1, i, 1 + r.word[0] % 90, 1 + r.word[1] % 90, 1 + r.word[2] % 40, 1 + r.word[3] % 40, NULL, 0
        };
        if (i % 4 == 1) { /* no crop: only a source of the output's size is looked at in part */
            draw.source_width = draw.out_width;
            draw.source_height = draw.out_height;
        }
        stoke_augment_plan plan;
        stoke_pipeline_draw(pipeline, &draw, &plan);
        assert_true(plan.box.width && plan.box.height);
        assert_true(plan.box.x + plan.box.width <= draw.source_width &&
                    plan.box.y + plan.box.height <= draw.source_height);
        const int64_t reach = (int64_t)(plan.elastic_alpha * ONE);
        for (int k = 0; plan.warp && k < (reach ? 4 : 1); k++)
            seen += check_taps(&plan, &draw, k & 1 ? reach : -reach, k & 2 ? reach : -reach);
        shrunk += plan.box.width < draw.source_width;
        stoke_pipeline_destroy(&pipeline);
    }
    assert_true(seen > 100000);
    assert_true(shrunk > 200);
}

/* The box is not larger than it must be: a rotation by 90 degrees of a square window is that window, plus the
 * second tap of weight 0 on one side. */
static void boxes_are_tight(void **state)
{
    stoke_pipeline *pipeline = make("center_crop,rotate(p=1,degrees=90..90)");
    const stoke_augment_plan plan = plan_of(pipeline, 1, 200, 200, 64, 64);
    assert_true(plan.box.x == 68 && plan.box.width == 65 && plan.box.y == 68 && plan.box.height == 65);
    assert_true(plan.matrix[0] == 0 && plan.matrix[1] == -(INT64_C(1) << 32) &&
                plan.matrix[2] == INT64_C(63) << 32);
    stoke_pipeline_destroy(&pipeline);
}

/* What a rotation brings in from outside the window is real picture after a crop, and fill after a fit. */
static void a_crop_keeps_the_source_as_canvas(void **state)
{
    stoke_pipeline *crop = make("center_crop,rotate(p=1,degrees=45..45)"),
                   *fit = make("rotate(p=1,degrees=45..45)"),
                   *part = make("random_resized_crop,rotate(p=1,degrees=45..45)");
    stoke_augment_plan plan = plan_of(crop, 1, 300, 300, 64, 64);
    assert_true(plan.box.width > 88 && plan.width == plan.box.width); /* 64 * sqrt 2 */
    plan = plan_of(fit, 1, 300, 300, 64, 64);
    assert_true(plan.box.width == 300 && plan.width == 64);
    plan = plan_of(part, 1, 300, 300, 64, 64);
    assert_true(plan.box.width <= 300 && plan.width == 64 && plan.height == 64);
    stoke_pipeline_destroy(&crop);
    stoke_pipeline_destroy(&fit);
    stoke_pipeline_destroy(&part);
}

/* A crop may stand anywhere in the list: it comes first. */
static void crops_come_before_other_geometry(void **state)
{
    stoke_pipeline *first = make("hflip(p=0),center_crop,rotate(p=1,degrees=30..30)"),
                   *last = make("hflip(p=0),rotate(p=1,degrees=30..30),center_crop");
    const stoke_augment_plan a = plan_of(first, 1, 300, 200, 64, 64), b = plan_of(last, 1, 300, 200, 64, 64);
    assert_memory_equal(&a, &b, sizeof a);
    stoke_pipeline_destroy(&first);
    stoke_pipeline_destroy(&last);
}

static void wild_maps_show_nothing(void **state)
{
    stoke_pipeline *pipeline = make("scale(p=1,factor=0.05),scale(p=1,factor=0.05),scale(p=1,factor=0.05),"
                                    "scale(p=1,factor=0.05),scale(p=1,factor=0.05),scale(p=1,factor=0.05)");
    stoke_draw draw = { 7, 1, 1, 64, 64, 64, 64, NULL, 0 };
    stoke_augment_plan plan;
    stoke_pipeline_draw(pipeline, &draw, &plan);
    assert_true(plan.warp && plan.box.width == 1 && plan.box.height == 1);
    assert_int_equal(check_taps(&plan, &draw, 0, 0), 0);
    stoke_pipeline_destroy(&pipeline);
}

static void turns_and_zooms_are_uniform(void **state)
{
    enum { N = 20000 };
    static double turn[N], zoom[N], alpha[N], step[N];
    stoke_pipeline *pipeline =
        make("rotate(p=1,degrees=20),scale(p=1,factor=0.8..1.2),elastic(p=1,alpha=2..4,sigma=5..9)");
    for (uint64_t i = 0; i < N; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 100, 100, 64, 64);
        const double c = plan.matrix[0] / ONE, s = plan.matrix[3] / ONE;
        turn[i] = (atan2(s, c) * 180 / 3.14159265358979323846 + 20) / 40;
        zoom[i] = (1 / sqrt(c * c + s * s) - 0.8) / 0.4;
        alpha[i] = (plan.elastic_alpha - 2) / 2;
        step[i] = (plan.elastic_step / sqrt(3) - 5) / 4;
    }
    assert_unrelated(turn, zoom, N);
    assert_unrelated(alpha, step, N);
    assert_uniform(turn, N);
    assert_uniform(zoom, N);
    assert_uniform(alpha, N);
    assert_uniform(step, N);
    stoke_pipeline_destroy(&pipeline);
}

/* The six numbers of an affine map, read back from its matrix: with no shear along y the linear part is
 * rotation * scale * shear, so its inverse's first column is the turn and zoom, the rest the shear. */
static void affine_draws_are_uniform_and_unrelated(void **state)
{
    enum { N = 20000 };
    static double u[5][N], shear_y[N];
    stoke_pipeline *pipeline = make("affine(p=1,degrees=30,scale=0.5..2,translate_x=0.2,translate_y=0.1,"
                                    "shear=20,shear_y=0)"),
                   *other =
                       make("affine(p=1,degrees=0,scale=1,translate_x=0,translate_y=0,shear=0,shear_y=20)");
    const double degree = 3.14159265358979323846 / 180;
    for (uint64_t i = 0; i < N; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 300, 300, 101, 51);
        const double a = plan.matrix[0] / ONE, b = plan.matrix[1] / ONE, c = plan.matrix[3] / ONE,
                     d = plan.matrix[4] / ONE, det = a * d - b * c;
        /* Forward: [d, -b; -c, a] / det = scale * [cos, sin; -sin, cos] * [1, -tan; 0, 1] */
        const double scale = 1 / sqrt(det), turn = atan2(c, d);
        const double shear = -(-b * d - c * a) / (det * scale * scale * det);
        u[0][i] = (turn / degree + 30) / 60;
        u[1][i] = (scale - 0.5) / 1.5;
        u[2][i] = (atan(shear) / degree + 20) / 40;
        /* The centre comes from itself less the shift: solve for the output pixel that shows the centre. */
        const double x = 50 - plan.matrix[2] / ONE, y = 25 - plan.matrix[5] / ONE;
        u[3][i] = (((d * x - b * y) / det - 50) / 101 + 0.2) / 0.4;
        u[4][i] = (((a * y - c * x) / det - 25) / 51 + 0.1) / 0.2;
        /* Shear along y alone: forward [1, 0; -tan, 1], so its inverse has +tan. */
        shear_y[i] = (atan(plan_of(other, i, 300, 300, 101, 51).matrix[3] / ONE) / degree + 20) / 40;
    }
    for (int k = 0; k < 5; k++) {
        for (int l = 0; l < k; l++) assert_unrelated(u[k], u[l], N);
        assert_unrelated(u[k], shear_y, N);
    }
    for (int k = 0; k < 5; k++) assert_uniform(u[k], N);
    assert_uniform(shear_y, N);
    stoke_pipeline_destroy(&pipeline);
    stoke_pipeline_destroy(&other);
}

UNIT_GROUP(augment_geometry)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_compose_in_order),
        cmocka_unit_test(affine_is_torchvisions),
        cmocka_unit_test(positive_angles_turn_counter_clockwise),
        cmocka_unit_test(identities_are_not_resampled),
        cmocka_unit_test(flips_and_whole_shifts_are_not_resampled),
        cmocka_unit_test(flips_have_parity),
        cmocka_unit_test(boxes_hold_every_tap),
        cmocka_unit_test(boxes_are_tight),
        cmocka_unit_test(a_crop_keeps_the_source_as_canvas),
        cmocka_unit_test(crops_come_before_other_geometry),
        cmocka_unit_test(wild_maps_show_nothing),
        cmocka_unit_test(turns_and_zooms_are_uniform),
        cmocka_unit_test(affine_draws_are_uniform_and_unrelated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
