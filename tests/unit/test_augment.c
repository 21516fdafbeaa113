/* SPDX-License-Identifier: Apache-2.0
 *
 * What ops draw: how often, from where, and independently of each other.
 */
#include "tests/unit/fixture_augment.h"

#include "src/augment/pipeline.h"

enum { N = 20000 };

static void none_stretches_the_whole(void **state)
{
    stoke_pipeline *pipeline = make(NULL);
    const stoke_augment_plan plan = plan_of(pipeline, 3, 640, 480, 256, 128);
    stoke_augment_plan expected;
    memset(&expected, 0, sizeof expected);
    expected.box = (stoke_box){ 0, 0, 640, 480 };
    expected.width = 256;
    expected.height = 128;
    assert_memory_equal(&plan, &expected, sizeof plan);
    assert_string_equal(stoke_pipeline_text(pipeline), "none");
    stoke_pipeline_destroy(&pipeline);
    assert_null(pipeline);
}

/* Every offset occurs, none outside; the share of flips is 1/2. */
static void crop_and_flip_are_uniform(void **state)
{
    enum { ROOM = 10 };
    stoke_pipeline *pipeline = make("crop");
    unsigned xs[ROOM + 1] = { 0 }, flips = 0;
    for (uint64_t i = 0; i < N; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 64 + ROOM, 64, 64, 64);
        assert_in_range(plan.box.x, 0, ROOM);
        assert_int_equal(plan.box.y, 0);
        assert_int_equal(plan.box.width, 64);
        assert_int_equal(plan.width, 64);
        xs[plan.box.x]++;
        flips += plan.hflip;
    }
    for (int x = 0; x <= ROOM; x++) assert_share(xs[x], N, 1.0 / (ROOM + 1));
    assert_share(flips, N, 0.5);
    stoke_pipeline_destroy(&pipeline);
}

static void small_sources_are_placed_not_stretched(void **state)
{
    static const char *const crops[] = { "crop", "foreground_crop(p=0)", "center_crop" };
    for (int c = 0; c < 3; c++) {
        stoke_pipeline *pipeline = make(crops[c]);
        int moved = 0;
        for (uint64_t i = 0; i < 200; i++) {
            const stoke_augment_plan plan = plan_of(pipeline, i, 20, 100, 64, 64);
            assert_int_equal(plan.box.width, 20);
            assert_int_equal(plan.width, 20);
            assert_in_range(plan.place_x, 0, 44);
            assert_int_equal(plan.box.height, 64);
            assert_int_equal(plan.place_y, 0);
            moved |= plan.place_x != 22;
        }
        assert_int_equal(moved, c < 2);
        stoke_pipeline_destroy(&pipeline);
    }
}

static void draws_depend_on_every_key(void **state)
{
    stoke_pipeline *pipeline = make("crop");
    stoke_augment_plan a, b;
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 1, 1, 5000, 5000, 64, 64, NULL, 0 }, &a);
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 1, 1, 5000, 5000, 64, 64, NULL, 0 }, &b);
    assert_memory_equal(&a, &b, sizeof a);
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 2, 1, 1, 5000, 5000, 64, 64, NULL, 0 }, &b);
    assert_memory_not_equal(&a.box, &b.box, sizeof a.box);
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 2, 1, 5000, 5000, 64, 64, NULL, 0 }, &b);
    assert_memory_not_equal(&a.box, &b.box, sizeof a.box);
    stoke_pipeline_draw(pipeline, &(stoke_draw){ 1, 1, UINT64_C(1) << 40 | 1, 5000, 5000, 64, 64, NULL, 0 },
                        &b);
    assert_memory_not_equal(&a.box, &b.box, sizeof a.box);
    stoke_pipeline_destroy(&pipeline);
}

/* How one op shows in a plan, for the test of rates: all that act on their own. */
static int acted(const stoke_augment_plan *plan)
{
    return plan->hflip || plan->vflip || plan->warp || plan->n_color_steps || plan->mix || plan->wants_focus;
}

static void every_op_acts_as_often_as_p_says(void **state)
{
    stoke_op_info op;
    for (size_t i = 0; stoke_op_at(i, &op); i++) {
        if (!op.n_options || strcmp(op.options[0].name, "p") != 0) continue;
        for (int k = 0; k <= 4; k++) {
            char spec[128];
            /* cutmix with its own alpha sometimes has nothing to paste; around alpha = 100 lambda is 1/2. */
            snprintf(spec, sizeof spec, "%s(p=%g%s)", op.name, k / 4.0,
                     strcmp(op.name, "cutmix") ? "" : ",alpha=100");
            stoke_pipeline *pipeline = make(spec);
            uint64_t hits = 0;
            for (uint64_t n = 0; n < 4000; n++) {
                const stoke_augment_plan plan = plan_of(pipeline, n, 300, 200, 128, 96);
                hits += acted(&plan) != 0;
            }
            assert_share(hits, 4000, k / 4.0);
            stoke_pipeline_destroy(&pipeline);
        }
    }
}

/* By what ops declare, pipelines are refused and devices get their tables. */
static void ops_add_the_colour_steps_they_declare(void **state)
{
    stoke_op_info op;
    for (size_t i = 0; stoke_op_at(i, &op); i++) {
        const unsigned declared = stk_op_find(op.name)->color_steps;
        unsigned seen = 0;
        char spec[64];
        snprintf(spec, sizeof spec, op.n_options && !strcmp(op.options[0].name, "p") ? "%s(p=1)" : "%s",
                 op.name);
        stoke_pipeline *pipeline = make(spec);
        for (uint64_t n = 0; n < 200; n++) {
            const stoke_augment_plan plan = plan_of(pipeline, n, 300, 200, 128, 96);
            for (uint32_t k = 0; k < plan.n_color_steps; k++) seen |= 1u << plan.color[k].kind;
        }
        if (seen & ~declared) fail_msg("%s adds colour steps that it does not declare", op.name);
        stoke_pipeline_destroy(&pipeline);
    }
}

/* The numbers an op draws, mapped to [0, 1] by the ends of its range, are uniform and stay inside. */
static void values_are_uniform_in_their_ranges(void **state)
{
    static const struct {
        const char *spec;
        double low, high;
    } cases[] = {
        { "brightness(p=1,factor=0.5..2)", 0.5, 2 },
        { "contrast(p=1,factor=0.7..1.3)", 0.7, 1.3 },
        { "saturation(p=1,factor=0..1)", 0, 1 },
        { "hue(p=1,shift=0.1)", -0.1, 0.1 },
        { "gamma(p=1,gamma=0.7..1.5)", 0.7, 1.5 },
        { "gaussian_blur(p=1,sigma=0.1..2)", 0.1, 2 },
        { "gaussian_noise(p=1,std=0.01..0.05)", 0.01, 0.05 },
        { "clahe(p=1,clip=1..4)", 1, 4 },
        { "color_jitter(p=1,brightness=0.3,contrast=0,saturation=0,hue=0)", 0.7, 1.3 },
        { "color_jitter(p=1,brightness=0,contrast=2,saturation=0,hue=0)", 0, 3 },
        { "color_jitter(p=1,brightness=0,contrast=0,saturation=0.2,hue=0)", 0.8, 1.2 },
        { "color_jitter(p=1,brightness=0,contrast=0,saturation=0,hue=0.1)", -0.1, 0.1 },
    };
    static double u[N];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        stoke_pipeline *pipeline = make(cases[c].spec);
        for (uint64_t i = 0; i < N; i++) {
            const stoke_augment_plan plan = plan_of(pipeline, i, 100, 100, 64, 64);
            assert_int_equal(plan.n_color_steps, 1);
            u[i] = (plan.color[0].a - cases[c].low) / (cases[c].high - cases[c].low);
            assert_true(u[i] > -1e-6 && u[i] < 1 + 1e-6);
        }
        assert_uniform(u, N);
        stoke_pipeline_destroy(&pipeline);
    }
}

static void constants_reach_the_touch(void **state)
{
    stoke_pipeline *pipeline = make(
        "gamma(p=1,gain=0.5),gaussian_blur(p=1,kernel=7),gaussian_noise(p=1,mean=-0.25,std=0.1,gray=true),"
        "clahe(p=1,grid=4),erasing(p=1,value=1,2,254.6,mask=ignore),erasing(p=1,value=9)");
    const stoke_augment_plan a = plan_of(pipeline, 1, 100, 100, 64, 64),
                             b = plan_of(pipeline, 2, 100, 100, 64, 64);
    assert_int_equal(a.n_color_steps, 6);
    assert_true(a.color[0].b == 0.5f);
    assert_int_equal(a.color[1].n, 7);
    assert_true(a.color[2].b == -0.25f);
    assert_int_equal(a.color[2].n, 1);
    assert_true(a.color[2].key != b.color[2].key);
    assert_int_equal(a.color[3].n, 4);
    assert_memory_equal(a.color[4].fill, ((const uint8_t[4]){ 1, 2, 255, 0 }), 4);
    assert_int_equal(a.color[4].n, 1);
    assert_memory_equal(a.color[5].fill, ((const uint8_t[4]){ 9, 9, 9, 0 }), 4);
    assert_int_equal(a.color[5].n, 0);
    stoke_pipeline_destroy(&pipeline);
}

/* All 24 orders, equally often; and four factors that know nothing of each other or of the order. */
static void jitter_has_every_order(void **state)
{
    stoke_pipeline *pipeline = make("color_jitter(p=1,brightness=0.3,contrast=0.2,saturation=0.1,hue=0.05)");
    static const double low[4] = { 0.7, 0.8, 0.9, -0.05 }, width[4] = { 0.6, 0.4, 0.2, 0.1 };
    static double u[5][N]; /* the factors by kind, and the place of brightness */
    unsigned seen[256] = { 0 };
    for (uint64_t i = 0; i < N; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 64, 64, 64, 64);
        assert_int_equal(plan.n_color_steps, 4);
        unsigned code = 0;
        for (int k = 0; k < 4; k++) {
            const uint32_t kind = plan.color[k].kind;
            code = code * 4 + kind;
            u[kind][i] = (plan.color[k].a - low[kind]) / width[kind];
            if (kind == STOKE_COLOR_BRIGHTNESS) u[4][i] = k / 3.0;
        }
        seen[code]++;
    }
    int orders = 0;
    for (int code = 0; code < 256; code++) {
        if (!seen[code]) continue;
        orders++;
        assert_share(seen[code], N, 1.0 / 24);
    }
    assert_int_equal(orders, 24);
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < a; b++) assert_unrelated(u[a], u[b], N);
    stoke_pipeline_destroy(&pipeline);
}

static void touches_keep_the_order_of_the_list(void **state)
{
    stoke_pipeline *pipeline = make("gaussian_noise(p=1),rotate(p=1),hue(p=1),gaussian_blur(p=1),mixup(p=1),"
                                    "erasing(p=1),brightness(p=1),clahe(p=1),gamma(p=1)");
    static const uint32_t order[] = { STOKE_COLOR_NOISE, STOKE_COLOR_HUE,        STOKE_COLOR_BLUR,
                                      STOKE_COLOR_ERASE, STOKE_COLOR_BRIGHTNESS, STOKE_COLOR_CLAHE,
                                      STOKE_COLOR_GAMMA };
    const stoke_augment_plan plan = plan_of(pipeline, 5, 64, 64, 64, 64);
    assert_int_equal(plan.n_color_steps, 7);
    for (int i = 0; i < 7; i++) assert_int_equal(plan.color[i].kind, order[i]);
    stoke_pipeline_destroy(&pipeline);
}

/* Switching an op off or fully on moves no number of another. */
static void p_moves_no_other_draw(void **state)
{
    static const char *const p[] = { "0", "0.5", "1" };
    stoke_augment_plan plans[3];
    for (uint64_t i = 0; i < 200; i++) {
        for (int k = 0; k < 3; k++) {
            char spec[256];
            snprintf(
                spec, sizeof spec,
                "random_crop,hflip(p=%s),color_jitter(p=%s),erasing(p=%s),gaussian_noise(p=1),cutmix(p=1)",
                p[k], p[k], p[k]);
            stoke_pipeline *pipeline = make(spec);
            plans[k] = plan_of(pipeline, i, 300, 300, 64, 64);
            stoke_pipeline_destroy(&pipeline);
        }
        for (int k = 1; k < 3; k++) {
            assert_memory_equal(&plans[k].box, &plans[0].box, sizeof plans[0].box);
            assert_memory_equal(&plans[k].color[plans[k].n_color_steps - 1],
                                &plans[0].color[plans[0].n_color_steps - 1], sizeof(stoke_color_step));
            assert_memory_equal(&plans[k].mix_box, &plans[0].mix_box, sizeof plans[0].mix_box);
        }
        if (plans[1].hflip) assert_int_equal(plans[2].hflip, 1);
    }
}

/* Area uniform, logarithm of the ratio uniform, as long as every try fits: half the area at most and a ratio
 * near 1 always do. A second case needs more tries and falls back sometimes; it must still stay inside. */
static void resized_crops(void **state)
{
    static double area[N], ratio[N], x[N];
    stoke_pipeline *pipeline = make("random_resized_crop(scale=0.1..0.5,ratio=0.8..1.25)");
    for (uint64_t i = 0; i < N; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 4000, 3000, 64, 64);
        assert_int_equal(plan.width, 64);
        assert_int_equal(plan.warp, 0);
        assert_true(plan.box.x + plan.box.width <= 4000 && plan.box.y + plan.box.height <= 3000);
        area[i] = ((double)plan.box.width * plan.box.height / 12e6 - 0.1) / 0.4;
        ratio[i] = (log((double)plan.box.width / plan.box.height) - log(0.8)) / (log(1.25) - log(0.8));
        x[i] = plan.box.x / (4000.0 - plan.box.width);
    }
    assert_unrelated(area, ratio, N);
    assert_unrelated(area, x, N);
    assert_unrelated(ratio, x, N);
    assert_uniform(area, N);
    assert_uniform(ratio, N);
    assert_uniform(x, N);
    stoke_pipeline_destroy(&pipeline);

    pipeline = make("random_resized_crop(scale=0.9..1,ratio=3..4)");
    for (uint64_t i = 0; i < 500; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 400, 300, 64, 64);
        const stoke_box centre = { 0, 83, 400, 133 }; /* the ratio 3 is the nearest that is allowed */
        assert_memory_equal(&plan.box, &centre, sizeof centre);
    }
    const stoke_augment_plan tiny = plan_of(pipeline, 0, 1, 1, 64, 64);
    assert_true(tiny.box.width == 1 && tiny.box.height == 1);
    stoke_pipeline_destroy(&pipeline);
}

static void erased_boxes(void **state)
{
    static double area[N], ratio[N];
    stoke_pipeline *pipeline = make("erasing(p=1,scale=0.05..0.2,ratio=0.5..2)");
    for (uint64_t i = 0; i < N; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 100, 100, 2000, 1500);
        const stoke_box box = plan.color[0].box;
        assert_int_equal(plan.n_color_steps, 1);
        assert_true(box.x + box.width <= 2000 && box.y + box.height <= 1500);
        area[i] = ((double)box.width * box.height / 3e6 - 0.05) / 0.15;
        ratio[i] = (log((double)box.height / box.width) - log(0.5)) / (log(2) - log(0.5));
    }
    assert_uniform(area, N);
    assert_uniform(ratio, N);
    const stoke_augment_plan small = plan_of(pipeline, 0, 100, 100, 1, 1);
    assert_int_equal(small.n_color_steps, 0); /* nothing smaller than one pixel */
    stoke_pipeline_destroy(&pipeline);
}

/* Beta(a, a): mean 1/2, variance 1/(4(2a+1)), fourth central moment 3/(16(2a+1)(2a+3)). */
static void lambdas_are_beta(void **state)
{
    static const double alphas[] = { 0.01, 0.2, 0.4, 0.5, 0.6, 1, 2.5, 8, 100 };
    for (size_t k = 0; k < sizeof alphas / sizeof *alphas; k++) {
        const double a = alphas[k], variance = 1 / (4 * (2 * a + 1)),
                     fourth = 3 / (16 * (2 * a + 1) * (2 * a + 3));
        char spec[64];
        snprintf(spec, sizeof spec, "mixup(p=1,alpha=%g)", a);
        stoke_pipeline *pipeline = make(spec);
        double sum = 0, squares = 0;
        for (uint64_t i = 0; i < N; i++) {
            const stoke_augment_plan plan = plan_of(pipeline, i, 64, 64, 64, 64);
            assert_int_equal(plan.mix, STOKE_MIX_UP);
            assert_true(plan.lambda >= 0 && plan.lambda <= 1);
            const double d = plan.lambda - 0.5;
            sum += d;
            squares += d * d;
        }
        if (fabs(sum / N) > 4 * sqrt(variance / N)) fail_msg("alpha %g: mean off by %g", a, sum / N);
        if (fabs(squares / N - variance) > 4 * sqrt((fourth - variance * variance) / N) + 1e-7)
            fail_msg("alpha %g: variance %g, not %g", a, squares / N, variance);
        stoke_pipeline_destroy(&pipeline);
    }
    /* Beta(1, 1) is the uniform distribution. */
    static double u[N];
    stoke_pipeline *pipeline = make("mixup(p=1,alpha=1)");
    for (uint64_t i = 0; i < N; i++) u[i] = plan_of(pipeline, i, 64, 64, 64, 64).lambda;
    assert_uniform(u, N);
    stoke_pipeline_destroy(&pipeline);
}

/* alpha = 100: lambda is near 1/2, so boxes that are not clipped have sides near sqrt(1/2). */
static void cut_boxes(void **state)
{
    stoke_pipeline *pipeline = make("cutmix(p=1,alpha=100)");
    int whole = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 64, 64, 200, 100);
        const stoke_box box = plan.mix_box;
        assert_int_equal(plan.mix, STOKE_MIX_CUT);
        assert_true(box.width && box.height && box.x + box.width <= 200 && box.y + box.height <= 100);
        if (!box.x || !box.y || box.x + box.width == 200 || box.y + box.height == 100) continue;
        assert_in_range(box.width, 118, 162); /* 141 +- 4 sigma of lambda (0.035), and whole halves */
        assert_in_range(box.height, 58, 82);
        assert_int_equal(box.width % 2, 0);
        whole++;
    }
    assert_true(whole > 100);
    stoke_pipeline_destroy(&pipeline);
}

/* share: stretched to by mixup; cut to by cutmix, whose box is then as large as it says. */
static void shares_stay_in_their_range(void **state)
{
    stoke_pipeline *up = make("mixup(p=1,alpha=1,share=0.6..0.9)"), *cut = make("cutmix(p=1,share=0.2..0.8)");
    static double u[N];
    for (uint64_t i = 0; i < N; i++) u[i] = (plan_of(up, i, 64, 64, 64, 64).lambda - 0.6) / 0.3;
    assert_uniform(u, N);
    for (uint64_t i = 0; i < 2000; i++) {
        const stoke_box box = plan_of(cut, i, 64, 64, 200, 100).mix_box;
        assert_true(box.x + box.width <= 200 && box.y + box.height <= 100);
        assert_in_range(box.width, 89, 178); /* sqrt(0.2) and sqrt(0.8) of 200 */
        assert_in_range(box.height, 44, 89);
    }
    stoke_pipeline_destroy(&up);
    stoke_pipeline_destroy(&cut);
}

static void the_first_mix_that_hits_wins(void **state)
{
    stoke_pipeline *pipeline = make("cutmix(p=0.5,alpha=100),mixup(p=0.5)");
    unsigned seen[3] = { 0 };
    for (uint64_t i = 0; i < N; i++) seen[plan_of(pipeline, i, 64, 64, 64, 64).mix]++;
    assert_share(seen[STOKE_MIX_CUT], N, 0.5);
    assert_share(seen[STOKE_MIX_UP], N, 0.25);
    assert_share(seen[STOKE_MIX_NONE], N, 0.25);
    stoke_pipeline_destroy(&pipeline);
}

static void foreground_crops_look_twice(void **state)
{
    stoke_pipeline *pipeline = make("foreground_crop(p=0.33,background=0,7),hflip,gaussian_noise(p=1)");
    uint64_t wanted = 0;
    for (uint64_t i = 0; i < N; i++) {
        const uint32_t focus[2] = { (uint32_t)(i * 7919 % 500), (uint32_t)(i * 104729 % 400) };
        stoke_draw draw = { 7, 1, i, 500, 400, 64, 64, NULL, 0 };
        stoke_augment_plan first, second;
        stoke_pipeline_draw(pipeline, &draw, &first);
        draw.focus = focus;
        stoke_pipeline_draw(pipeline, &draw, &second);
        assert_int_equal(second.wants_focus, 0);
        assert_int_equal(second.hflip, first.hflip);
        assert_memory_equal(second.color, first.color, sizeof first.color);
        if (!first.wants_focus) {
            assert_memory_equal(&second, &first, sizeof first);
            continue;
        }
        wanted++;
        const int64_t x = (int64_t)focus[0] - 32, y = (int64_t)focus[1] - 32;
        assert_int_equal(second.box.x, x < 0 ? 0 : x > 436 ? 436 : x);
        assert_int_equal(second.box.y, y < 0 ? 0 : y > 336 ? 336 : y);
        assert_int_equal(second.width, 64);
    }
    assert_share(wanted, N, 0.33);
    assert_true(pipeline->traits & STK_TRAIT_FOCUS);
    assert_int_equal(pipeline->constants.n_background, 2);
    assert_int_equal(pipeline->constants.background[1], 7);
    stoke_pipeline_destroy(&pipeline);
}

static void focus_words_are_uniform(void **state)
{
    static double class[N], pixel[N];
    stoke_pipeline *pipeline = make("foreground_crop(p=1)");
    for (uint64_t i = 0; i < N; i++) {
        const stoke_augment_plan plan = plan_of(pipeline, i, 500, 400, 64, 64);
        class[i] = plan.focus_class / 4294967296.0;
        pixel[i] = plan.focus_pixel / 4294967296.0;
    }
    assert_unrelated(class, pixel, N); /* before they are sorted */
    assert_uniform(class, N);
    assert_uniform(pixel, N);
    stoke_pipeline_destroy(&pipeline);
}

static void pipelines_say_what_they_may_do(void **state)
{
    static const struct {
        const char *spec;
        int crops, focus, warp, elastic, step, mix, mixup;
    } cases[] = {
        { "none", 0, 0, 0, 0, 0, 0, 0 },
        { "light", 0, 0, 0, 0, 0, 0, 0 },
        { "crop", 1, 0, 0, 0, 0, 0, 0 },
        { "center_crop", 1, 0, 0, 0, 0, 0, 0 },
        { "random_resized_crop", 1, 0, 0, 0, 0, 0, 0 },
        { "standard", 0, 0, 1, 0, 1, 0, 0 },
        { "medical", 1, 1, 1, 1, 1, 0, 0 },
        { "mixup", 0, 0, 0, 0, 0, 1, 1 },
        { "cutmix", 0, 0, 0, 0, 0, 1, 0 },
        { "normalize", 0, 0, 0, 0, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_pipeline *p = make(cases[i].spec);
        assert_int_equal(!(p->traits & STK_TRAIT_CROP), !cases[i].crops);
        assert_int_equal(!(p->traits & STK_TRAIT_FOCUS), !cases[i].focus);
        assert_int_equal(!(p->traits & STK_TRAIT_WARP), !cases[i].warp);
        assert_int_equal(!(p->traits & STK_TRAIT_ELASTIC), !cases[i].elastic);
        assert_int_equal(stk_pipeline_color_steps(p) > 0, cases[i].step);
        assert_int_equal(!(p->traits & (STK_TRAIT_MIXUP | STK_TRAIT_CUTMIX)), !cases[i].mix);
        assert_int_equal(!(p->traits & STK_TRAIT_MIXUP), !cases[i].mixup);
        stoke_pipeline_destroy(&p);
    }
    double mean[3], std[3];
    stoke_pipeline *p = make("standard,normalize(mean=0.5,std=0.1,0.2,0.3),mixup");
    assert_int_equal(stk_pipeline_normalize(p, mean, std), 1);
    assert_true(mean[0] == 0.5 && mean[2] == 0.5 && std[0] == 0.1 && std[2] == 0.3);
    stoke_pipeline_destroy(&p);
    p = make("standard");
    assert_int_equal(stk_pipeline_normalize(p, mean, std), 0);
    stoke_pipeline_destroy(&p);
}

UNIT_GROUP(augment)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_stretches_the_whole),
        cmocka_unit_test(crop_and_flip_are_uniform),
        cmocka_unit_test(small_sources_are_placed_not_stretched),
        cmocka_unit_test(draws_depend_on_every_key),
        cmocka_unit_test(every_op_acts_as_often_as_p_says),
        cmocka_unit_test(ops_add_the_colour_steps_they_declare),
        cmocka_unit_test(values_are_uniform_in_their_ranges),
        cmocka_unit_test(constants_reach_the_touch),
        cmocka_unit_test(jitter_has_every_order),
        cmocka_unit_test(touches_keep_the_order_of_the_list),
        cmocka_unit_test(p_moves_no_other_draw),
        cmocka_unit_test(resized_crops),
        cmocka_unit_test(erased_boxes),
        cmocka_unit_test(lambdas_are_beta),
        cmocka_unit_test(cut_boxes),
        cmocka_unit_test(shares_stay_in_their_range),
        cmocka_unit_test(the_first_mix_that_hits_wins),
        cmocka_unit_test(foreground_crops_look_twice),
        cmocka_unit_test(focus_words_are_uniform),
        cmocka_unit_test(pipelines_say_what_they_may_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
