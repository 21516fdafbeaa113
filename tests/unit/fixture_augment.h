/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of augmentation share: pipelines from text, plans of many samples.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_AUGMENT_H
#define STOKE_TESTS_UNIT_FIXTURE_AUGMENT_H

#include "tests/unit/unit.h"

#include <math.h>
#include <stoke/augment.h>

static inline stoke_pipeline *make(const char *spec)
{
    stoke_pipeline *pipeline;
    stoke_error err = { 0 };
    if (stoke_pipeline_create(&pipeline, spec, &err)) fail_msg("%s", err.message);
    return pipeline;
}

/* Sample `position` of a source, laid out as out_width x out_height. */
static inline stoke_augment_plan plan_of(const stoke_pipeline *pipeline, uint64_t position,
                                         uint32_t source_width, uint32_t source_height, uint32_t out_width,
                                         uint32_t out_height)
{
    stoke_augment_plan plan;
    const stoke_draw draw = { 7, 1, position, source_width, source_height, out_width, out_height, NULL, 0 };
    stoke_pipeline_draw(pipeline, &draw, &plan);
    return plan;
}

/* A share of n is within four sigmas of p. */
static inline void assert_share(uint64_t hits, uint64_t n, double p)
{
    const double sigma = sqrt(n * p * (1 - p));
    if (fabs(hits - n * p) > 4 * sigma + 1e-9) fail_msg("%.4f, not %.4f", (double)hits / n, p);
}

/* Two series in [0, 1] know nothing of each other: their correlation is within four sigmas of 0. */
static inline void assert_unrelated(const double *u, const double *v, size_t n)
{
    double cross = 0;
    for (size_t i = 0; i < n; i++) cross += (u[i] - 0.5) * (v[i] - 0.5) * 12;
    if (fabs(cross / n) > 4 / sqrt(n)) fail_msg("correlation %.4f", cross / n);
}

/* Kolmogorov-Smirnov: u should be uniform in [0, 1]. 1.95 / sqrt(n) is exceeded once in a thousand; draws are
 * fixed, so a test that passes passes always. Sorts u. */
static inline int compare_reals(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static inline void assert_uniform(double *u, size_t n)
{
    qsort(u, n, sizeof *u, compare_reals);
    for (size_t i = 0; i < n; i++) {
        const double below = u[i] - (double)i / n, above = (double)(i + 1) / n - u[i];
        if (below > 1.95 / sqrt(n) || above > 1.95 / sqrt(n))
            fail_msg("value %zu of %zu is %.4f: not uniform", i, n, u[i]);
    }
}

#endif
