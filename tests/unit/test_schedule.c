/* SPDX-License-Identifier: Apache-2.0
 *
 * The learning rate over a run: against torch's schedulers (values recorded from torch 2.13), against the
 * formulae in libm, and at the edges.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "src/train/setup.h"

static stoke_train_params schedule(int kind, double lr, double warmup, double power, double end)
{
    stoke_train_params p = stoke_train_defaults();
    p.schedule = kind;
    p.lr = lr;
    p.warmup = warmup;
    p.power = power;
    p.lr_end = end;
    return p;
}

static void assert_near(double got, double wanted, double scale)
{
    if (!(fabs(got - wanted) <= 1e-14 * scale)) fail_msg("%.17g, not %.17g", got, wanted);
}

/* SequentialLR([LinearLR(start_factor=1/5, total_iters=4), X], milestones=[5]), AdamW(lr=0.002), float64,
 * 20 steps, X over the 15 that are left: PolynomialLR(15, power=0.9), CosineAnnealingLR(15, eta_min=2e-4). */
static void equals_torch(void **state)
{
    static const double poly[20] = {
        0.0004,
        0.0008,
        0.0012000000000000001,
        0.0016,
        0.002,
        0.002,
        0.0018795898651774445,
        0.0017583158038735984,
        0.001636104292101717,
        0.0015128688441390648,
        0.0013885063253232146,
        0.0012628917349787108,
        0.001135870579235847,
        0.0010072472689746773,
        0.0008767665811081741,
        0.0007440821160226032,
        0.0006086979718503544,
        0.0004698475772352076,
        0.00032619316646443654,
        0.0001748025897386333,
    };
    static const double cosine[20] = {
        0.0004,
        0.0008,
        0.0012000000000000001,
        0.0016,
        0.002,
        0.002,
        0.001980332840660425,
        0.0019221909118783405,
        0.0018281152949374524,
        0.0017022175457229722,
        0.00155,
        0.0013781152949374528,
        0.0011940756169408883,
        0.001005924383059112,
        0.0008218847050625475,
        0.0006500000000000002,
        0.0004977824542770279,
        0.00037188470506254736,
        0.0002778090881216591,
        0.0002196671593395749,
    };
    const stoke_train_params p = schedule(STOKE_SCHEDULE_POLY, 0.002, 5, 0.9, 0);
    const stoke_train_params c = schedule(STOKE_SCHEDULE_COSINE, 0.002, 5, 1, 0.1);
    for (uint64_t i = 0; i < 20; i++) {
        assert_near(stk_train_lr(&p, i, 20), poly[i], 0.002 * 10); /* torch multiplies step by step */
        assert_near(stk_train_lr(&c, i, 20), cosine[i], 0.002 * 10);
    }
}

/* Every kind at every step of runs of several lengths, by libm. */
static void equals_the_formulae(void **state)
{
    static const uint64_t lengths[] = { 1, 2, 7, 100, 999 };
    static const double warmups[] = { 0, 0.05, 0.5, 1, 3, 5000 }, powers[] = { 0.5, 0.9, 1, 2 };
    for (size_t l = 0; l < 5; l++)
        for (size_t w = 0; w < 6; w++)
            for (size_t k = 0; k < 12; k++) {
                const uint64_t steps = lengths[l];
                const double end = k % 4 * 0.1;
                const stoke_train_params p = schedule((int)(k / 4), 6e-5, warmups[w], powers[k % 4], end);
                double rise = warmups[w] < 1 ? floor(warmups[w] * (double)steps + 0.5) : warmups[w];
                if (rise > (double)steps) rise = (double)steps;
                for (uint64_t i = 0; i < steps; i++) {
                    const double t = ((double)i - rise) / ((double)steps - rise);
                    const double fall = k / 4 == 0   ? pow(1 - t, powers[k % 4])
                                        : k / 4 == 1 ? (1 + cos(acos(-1) * t)) / 2
                                                     : 1;
                    const double wanted =
                        (double)i < rise ? 6e-5 * ((double)i + 1) / rise : 6e-5 * (end + (1 - end) * fall);
                    assert_near(stk_train_lr(&p, i, steps), wanted, 6e-5);
                }
            }
}

/* The first step of the warm-up moves already, its last has the full rate, and so has the one after it. */
static void warmup_ends_at_the_full_rate(void **state)
{
    const stoke_train_params p = schedule(STOKE_SCHEDULE_COSINE, 0.5, 0.1, 1, 0);
    assert_true(stk_train_lr(&p, 0, 1000) == 0.5 / 100);
    assert_true(stk_train_lr(&p, 98, 1000) < 0.5);
    assert_true(stk_train_lr(&p, 99, 1000) == 0.5);
    assert_true(stk_train_lr(&p, 100, 1000) == 0.5);
    assert_true(stk_train_lr(&p, 101, 1000) < 0.5);
}

/* Beyond the end, and in runs that are all warm-up. */
static void stays_within_its_bounds(void **state)
{
    for (int kind = 0; kind < 3; kind++) {
        const stoke_train_params p = schedule(kind, 1, 10, 0.9, 0.25);
        const double end = kind == STOKE_SCHEDULE_CONSTANT ? 1 : 0.25;
        assert_near(stk_train_lr(&p, 100, 100), end, 1);
        assert_near(stk_train_lr(&p, UINT64_MAX, 100), end, 1);
        assert_true(stk_train_lr(&p, 4, 5) == 1);
        assert_true(isfinite(stk_train_lr(&p, 0, 0)));
        for (uint64_t i = 10; i < 99; i++)
            assert_true(stk_train_lr(&p, i + 1, 100) <= stk_train_lr(&p, i, 100));
    }
}

UNIT_GROUP(schedule)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_torch),
        cmocka_unit_test(equals_the_formulae),
        cmocka_unit_test(warmup_ends_at_the_full_rate),
        cmocka_unit_test(stays_within_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
