/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts against plain loops, scores against hand-made ones and against properties that hold for any pixels.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <stoke/tools/metrics.h>

#include "src/base/mem.h"
#include "src/base/rng.h"

/* ---- the oracle: one pixel at a time ---- */

typedef struct oracle {
    uint32_t classes;
    uint64_t *counts;
} oracle;

static void oracle_add(oracle *o, const uint16_t *predicted, const int64_t *truth, size_t n, int64_t ignore)
{
    for (size_t i = 0; i < n; i++)
        if (truth[i] != ignore) o->counts[(size_t)truth[i] * o->classes + predicted[i]]++;
}

static stoke_scores oracle_scores(const oracle *o)
{
    stoke_scores s = { 0 };
    uint64_t hits = 0;
    for (uint32_t id = 0; id < o->classes; id++) {
        uint64_t truth = 0, predicted = 0, hit = o->counts[(size_t)id * o->classes + id];
        for (uint32_t k = 0; k < o->classes; k++) {
            truth += o->counts[(size_t)id * o->classes + k];
            predicted += o->counts[(size_t)k * o->classes + id];
        }
        s.pixels += truth;
        hits += hit;
        if (truth + predicted == 0) continue;
        s.classes_counted++;
        s.miou += (double)hit / (double)(truth + predicted - hit);
        s.f1_macro += 2.0 * (double)hit / (double)(truth + predicted);
        s.precision += predicted ? (double)hit / (double)predicted : 0;
        s.recall += truth ? (double)hit / (double)truth : 0;
    }
    s.miou /= s.classes_counted;
    s.f1_macro /= s.classes_counted;
    s.precision /= s.classes_counted;
    s.recall /= s.classes_counted;
    s.f1_micro = s.pixel_accuracy = (double)hits / (double)s.pixels;
    return s;
}

/* ---- pixels ---- */

typedef struct scene {
    uint32_t classes;
    int64_t ignore;
    size_t n;
    uint16_t *predicted;
    int64_t *truth;
} scene;

static uint32_t draw(uint64_t seed, uint64_t i)
{
    return (uint32_t)(stk_mix64(seed << 40 ^ i) >> 32);
}

/* Runs of a class, as masks have; a prediction that is right two times of three. Every seventh run is
 * ignored, and the highest class occurs nowhere. */
static scene make_scene(uint32_t classes, int64_t ignore, size_t n, uint64_t seed)
{
    scene s = { classes, ignore, n, malloc(n * sizeof *s.predicted), malloc(n * sizeof *s.truth) };
    const uint32_t used = classes > 2 ? classes - 1 : classes;
    size_t i = 0;
    for (uint64_t run = 0; i < n; run++) {
        const uint32_t r = draw(seed, run), length = 1 + r % 50, of = draw(seed + 1, run) % used;
        for (uint32_t k = 0; k < length && i < n; k++, i++) {
            const uint32_t p = draw(seed + 2, i);
            s.truth[i] = ignore != -1 && run % 7 == 3 ? ignore : (int64_t)of;
            s.predicted[i] = (uint16_t)(p % 3 ? of : (p >> 8) % used);
        }
    }
    return s;
}

static void free_scene(scene *s)
{
    free(s->predicted);
    free(s->truth);
}

static void *as_dtype(const scene *s, stoke_dtype dtype)
{
    void *mask = malloc(s->n * stoke_dtype_bytes(dtype));
    for (size_t i = 0; i < s->n; i++) switch (dtype) {
        case STOKE_DTYPE_U8: ((uint8_t *)mask)[i] = (uint8_t)s->truth[i]; break;
        case STOKE_DTYPE_U16: ((uint16_t *)mask)[i] = (uint16_t)s->truth[i]; break;
        case STOKE_DTYPE_I32: ((int32_t *)mask)[i] = (int32_t)s->truth[i]; break;
        default: ((int64_t *)mask)[i] = s->truth[i]; break;
        }
    return mask;
}

static stoke_confusion *confusion_of(uint32_t classes, int64_t ignore)
{
    stoke_confusion *c;
    stoke_error err;
    if (stoke_confusion_create(&c, classes, ignore, &err)) fail_msg("%s", err.message);
    return c;
}

static void add(stoke_confusion *c, const scene *s)
{
    stoke_error err;
    if (stoke_confusion_add(c, s->predicted, s->truth, STOKE_DTYPE_I64, s->n, &err))
        fail_msg("%s", err.message);
}

static stoke_confusion *counted(const scene *s)
{
    stoke_confusion *c = confusion_of(s->classes, s->ignore);
    add(c, s);
    return c;
}

static void assert_same_counts(const stoke_confusion *a, const stoke_confusion *b)
{
    const uint32_t n = stoke_confusion_classes(a);
    assert_int_equal(n, stoke_confusion_classes(b));
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t p = 0; p < n; p++)
            if (stoke_confusion_count(a, t, p) != stoke_confusion_count(b, t, p))
                fail_msg("truth %u, prediction %u: %llu and %llu", t, p,
                         (unsigned long long)stoke_confusion_count(a, t, p),
                         (unsigned long long)stoke_confusion_count(b, t, p));
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12)) fail_msg("%.17g and %.17g", a, b);
}

static void assert_same_scores(stoke_scores a, stoke_scores b)
{
    assert_near(a.miou, b.miou);
    assert_near(a.f1_macro, b.f1_macro);
    assert_near(a.f1_micro, b.f1_micro);
    assert_near(a.precision, b.precision);
    assert_near(a.recall, b.recall);
    assert_near(a.pixel_accuracy, b.pixel_accuracy);
    assert_int_equal(a.classes_counted, b.classes_counted);
    assert_int_equal(a.pixels, b.pixels);
}

/* ---- tests ---- */

/* Both ways of counting (tables, and straight into the matrix), all types, all kinds of tails. */
static void counts_and_scores_are_those_of_plain_loops(void **state)
{
    (void)state;
    static const struct {
        uint32_t classes;
        int64_t ignore;
        size_t n;
    } cases[] = { { 2, -1, 1 },         { 2, 255, 3 },       { 3, 255, 4099 },    { 12, 11, 5001 },
                  { 19, 255, 100000 },  { 150, 255, 22499 }, { 150, 255, 22502 }, { 256, -1, 70001 },
                  { 300, 65535, 9001 }, { 1203, -1, 5000 } };
    static const stoke_dtype dtypes[] = { STOKE_DTYPE_U8, STOKE_DTYPE_U16, STOKE_DTYPE_I32, STOKE_DTYPE_I64 };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        scene s = make_scene(cases[k].classes, cases[k].ignore, cases[k].n, k + 1);
        oracle o = { s.classes, calloc((size_t)s.classes * s.classes, sizeof(uint64_t)) };
        oracle_add(&o, s.predicted, s.truth, s.n, s.ignore);
        for (size_t d = s.classes > 256 ? 1 : 0; d < 4; d++) {
            stoke_confusion *c = confusion_of(s.classes, s.ignore);
            void *mask = as_dtype(&s, dtypes[d]);
            assert_int_equal(stoke_confusion_add(c, s.predicted, mask, dtypes[d], s.n, NULL), STOKE_OK);
            for (uint32_t t = 0; t < s.classes; t++)
                for (uint32_t p = 0; p < s.classes; p++)
                    assert_int_equal(stoke_confusion_count(c, t, p), o.counts[(size_t)t * s.classes + p]);
            if (s.ignore >= s.classes || s.ignore < 0)
                assert_same_scores(stoke_confusion_scores(c), oracle_scores(&o));
            free(mask);
            stoke_confusion_destroy(&c);
        }
        free(o.counts);
        free_scene(&s);
    }
}

/* Truth 0 0 0 1 1 2, prediction 0 0 1 1 0 3 of five classes: 2 is missed, 3 invented, 4 absent. */
static void scores_are_those_computed_by_hand(void **state)
{
    (void)state;
    static const uint8_t truth[] = { 0, 0, 0, 1, 1, 2, 255 };
    static const uint16_t predicted[] = { 0, 0, 1, 1, 0, 3, 60000 };
    stoke_confusion *c = confusion_of(5, 255);
    assert_int_equal(stoke_confusion_add(c, predicted, truth, STOKE_DTYPE_U8, 7, NULL), STOKE_OK);
    const stoke_class_score zero = stoke_confusion_class(c, 0), missed = stoke_confusion_class(c, 2),
                            invented = stoke_confusion_class(c, 3), absent = stoke_confusion_class(c, 4);
    assert_true(zero.truth == 3 && zero.predicted == 3 && zero.hit == 2);
    assert_near(zero.iou, 2.0 / 4);
    assert_near(zero.f1, 2.0 / 3);
    assert_true(missed.precision == 0 && missed.recall == 0 && missed.iou == 0 && missed.f1 == 0);
    assert_true(invented.precision == 0 && invented.recall == 0 && invented.iou == 0);
    assert_true(isnan(absent.iou) && isnan(absent.f1) && isnan(absent.precision) && isnan(absent.recall));
    const stoke_scores s = stoke_confusion_scores(c);
    assert_int_equal(s.classes_counted, 4);
    assert_int_equal(s.pixels, 6);
    assert_near(s.miou, (2.0 / 4 + 1.0 / 3) / 4);
    assert_near(s.f1_macro, (2.0 / 3 + 1.0 / 2) / 4);
    assert_near(s.precision, (2.0 / 3 + 1.0 / 2) / 4);
    assert_near(s.recall, (2.0 / 3 + 1.0 / 2) / 4);
    assert_near(s.pixel_accuracy, 3.0 / 6);
    assert_near(s.f1_micro, 3.0 / 6);
    assert_true(isnan(stoke_confusion_class(c, 5).iou)); /* beyond the classes */
    assert_int_equal(stoke_confusion_count(c, 0, 5), 0);
    stoke_confusion_destroy(&c);
}

static void one_class_is_foreground_against_background(void **state)
{
    (void)state;
    static const int32_t truth[] = { 1, 1, 1, 0, 0, 255, -5 };
    static const uint16_t predicted[] = { 1, 1, 0, 1, 0, 1, 1 };
    stoke_confusion *c = confusion_of(1, 255);
    assert_int_equal(stoke_confusion_classes(c), 2);
    assert_int_equal(stoke_confusion_add(c, predicted, truth, STOKE_DTYPE_I32, 7, NULL), STOKE_OK);
    assert_near(stoke_confusion_class(c, 1).iou, 2.0 / 4);
    assert_near(stoke_confusion_class(c, 0).iou, 1.0 / 3);
    assert_near(stoke_confusion_scores(c).miou, (2.0 / 4 + 1.0 / 3) / 2);
    assert_int_equal(stoke_confusion_scores(c).pixels, 5);
    stoke_confusion_destroy(&c);
}

/* torchmetrics leaves a class that is ignored out of the mean IoU, but not out of the mean F1. */
static void a_class_that_is_ignored_is_not_in_the_mean_iou(void **state)
{
    (void)state;
    static const uint8_t truth[] = { 0, 0, 1, 1, 2, 2 };
    static const uint16_t predicted[] = { 0, 2, 1, 1, 2, 0 };
    stoke_confusion *c = confusion_of(3, 2);
    assert_int_equal(stoke_confusion_add(c, predicted, truth, STOKE_DTYPE_U8, 6, NULL), STOKE_OK);
    const stoke_scores s = stoke_confusion_scores(c);
    assert_near(s.miou, (1.0 / 2 + 1) / 2);
    assert_near(s.f1_macro, (2.0 / 3 + 1 + 0) / 3);
    assert_near(s.pixel_accuracy, 3.0 / 4);
    stoke_confusion_destroy(&c);
}

static void parts_add_up_to_the_whole_in_any_order(void **state)
{
    (void)state;
    scene s = make_scene(21, 255, 60001, 7), part = s;
    stoke_confusion *whole = counted(&s), *sum = confusion_of(21, 255), *piece = confusion_of(21, 255);
    static const size_t ends[] = { 0, 1, 2048, 2049, 30000, 60001 };
    for (size_t i = 5; i-- > 0;) {
        part.n = ends[i + 1] - ends[i];
        part.truth = s.truth + ends[i];
        part.predicted = s.predicted + ends[i];
        stoke_confusion_reset(piece);
        add(piece, &part);
        assert_int_equal(stoke_confusion_merge(sum, piece, NULL), STOKE_OK);
    }
    assert_same_counts(whole, sum);
    stoke_confusion_reset(sum);
    assert_int_equal(stoke_confusion_scores(sum).pixels, 0);
    stoke_confusion_destroy(&whole);
    stoke_confusion_destroy(&sum);
    stoke_confusion_destroy(&piece);
    free_scene(&s);
}

/* Renaming the classes moves their scores and changes no mean; exchanging truth and prediction exchanges
 * precision and recall. */
static void scores_follow_renamed_classes_and_exchanged_sides(void **state)
{
    (void)state;
    scene s = make_scene(9, -1, 20000, 9), renamed = make_scene(9, -1, 20000, 9),
          turned = make_scene(9, -1, 20000, 9);
    for (size_t i = 0; i < s.n; i++) {
        renamed.truth[i] = (s.truth[i] * 4 + 2) % 9;
        renamed.predicted[i] = (uint16_t)((s.predicted[i] * 4 + 2) % 9);
        turned.truth[i] = s.predicted[i];
        turned.predicted[i] = (uint16_t)s.truth[i];
    }
    stoke_confusion *a = counted(&s), *b = counted(&renamed), *t = counted(&turned);
    assert_same_scores(stoke_confusion_scores(a), stoke_confusion_scores(b));
    for (uint32_t id = 0; id < 8; id++)
        assert_near(stoke_confusion_class(a, id).iou, stoke_confusion_class(b, (id * 4 + 2) % 9).iou);
    const stoke_scores x = stoke_confusion_scores(a), y = stoke_confusion_scores(t);
    assert_near(x.miou, y.miou);
    assert_near(x.precision, y.recall);
    assert_near(x.recall, y.precision);
    stoke_confusion_destroy(&a);
    stoke_confusion_destroy(&b);
    stoke_confusion_destroy(&t);
    free_scene(&s), free_scene(&renamed), free_scene(&turned);
}

/* What is ignored might as well not be there, whatever was predicted for it. */
static void ignored_pixels_leave_no_trace(void **state)
{
    (void)state;
    scene s = make_scene(6, 255, 30000, 11), kept = make_scene(6, 255, 30000, 11);
    kept.n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.truth[i] == 255) {
            s.predicted[i] = (uint16_t)i;
        } else {
            kept.truth[kept.n] = s.truth[i];
            kept.predicted[kept.n++] = s.predicted[i];
        }
    }
    assert_true(kept.n && kept.n < s.n);
    kept.ignore = -1;
    stoke_confusion *a = counted(&s), *b = counted(&kept);
    assert_same_counts(a, b);
    stoke_confusion_destroy(&a);
    stoke_confusion_destroy(&b);
    free_scene(&s), free_scene(&kept);
}

static void a_value_without_a_class_adds_nothing(void **state)
{
    (void)state;
    scene s = make_scene(5, 255, 10000, 13);
    stoke_confusion *c = counted(&s), *before = counted(&s);
    stoke_error err = { 0 };
    const int64_t good = s.truth[9000];
    s.truth[9000] = 5;
    assert_int_equal(stoke_confusion_add(c, s.predicted, s.truth, STOKE_DTYPE_I64, s.n, &err), STOKE_E_LABEL);
    assert_non_null(
        strstr(err.message, "value 5 (pixel 9000): neither one of the 5 classes nor ignore_index 255"));
    s.truth[9000] = -1; /* "none" is no value */
    assert_int_equal(stoke_confusion_add(c, s.predicted, s.truth, STOKE_DTYPE_I64, s.n, NULL), STOKE_E_LABEL);
    s.truth[9000] = good == 255 ? 0 : good;
    s.predicted[9000] = 5;
    assert_int_equal(stoke_confusion_add(c, s.predicted, s.truth, STOKE_DTYPE_I64, s.n, &err), STOKE_E_LABEL);
    assert_non_null(strstr(err.message, "prediction"));
    assert_int_equal(stoke_confusion_add(c, s.predicted, s.truth, STOKE_DTYPE_F32, s.n, &err),
                     STOKE_E_INVALID);
    assert_same_counts(c, before);
    stoke_confusion_destroy(&c);
    stoke_confusion_destroy(&before);
    stoke_confusion *none = confusion_of(5, -1);
    static const int32_t minus[] = { -1 };
    static const uint16_t zero[] = { 0 };
    assert_int_equal(stoke_confusion_add(none, zero, minus, STOKE_DTYPE_I32, 1, &err), STOKE_E_LABEL);
    assert_non_null(strstr(err.message, "none of the 5 classes"));
    stoke_confusion_destroy(&none);
    free_scene(&s);
}

static void nothing_counted_has_no_score(void **state)
{
    (void)state;
    static const uint8_t truth[] = { 255, 255 };
    static const uint16_t predicted[] = { 0, 1 };
    stoke_confusion *c = confusion_of(3, 255);
    assert_int_equal(stoke_confusion_add(c, predicted, truth, STOKE_DTYPE_U8, 2, NULL), STOKE_OK);
    const stoke_scores s = stoke_confusion_scores(c);
    assert_true(isnan(s.miou) && isnan(s.f1_macro) && isnan(s.f1_micro) && isnan(s.precision) &&
                isnan(s.recall) && isnan(s.pixel_accuracy));
    assert_int_equal(s.pixels, 0);
    stoke_confusion_destroy(&c);
}

static void sizes_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    stoke_confusion *c, *other = confusion_of(4, -1);
    stoke_error err;
    assert_int_equal(stoke_confusion_create(&c, 0, 255, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_confusion_create(&c, 4097, 255, &err), STOKE_E_LIMIT);
    assert_null(c);
    c = confusion_of(5, -1);
    assert_int_equal(stoke_confusion_merge(c, other, &err), STOKE_E_INVALID);
    stoke_confusion_destroy(&c);
    for (int64_t after = 0; after < 3; after++) {
        stk_mem_fail_after(after);
        assert_int_equal(stoke_confusion_create(&c, 5, 255, &err), STOKE_E_NOMEM);
        stk_mem_fail_after(-1);
        assert_null(c);
    }
    stoke_confusion_destroy(&c); /* of nothing */
    stoke_confusion_destroy(&other);
    assert_non_null(strstr(stoke_scores_convention(), "torchmetrics"));
}

UNIT_GROUP(confusion)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_scores_are_those_of_plain_loops),
        cmocka_unit_test(scores_are_those_computed_by_hand),
        cmocka_unit_test(one_class_is_foreground_against_background),
        cmocka_unit_test(a_class_that_is_ignored_is_not_in_the_mean_iou),
        cmocka_unit_test(parts_add_up_to_the_whole_in_any_order),
        cmocka_unit_test(scores_follow_renamed_classes_and_exchanged_sides),
        cmocka_unit_test(ignored_pixels_leave_no_trace),
        cmocka_unit_test(a_value_without_a_class_adds_nothing),
        cmocka_unit_test(nothing_counted_has_no_score),
        cmocka_unit_test(sizes_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
