/* SPDX-License-Identifier: Apache-2.0
 *
 * loss against a second opinion in double: logits in full resolution, one pixel at a time, definitions as
 * they are written down. Gradients are compared with finite differences of that.
 */
#include "tests/unit/fixture_run.h"

#include "src/base/cpu.h"
#include "src/net/segformer/segformer_head.h"
#include "src/net/ops/ops.h"

/* --- a case --- */

typedef struct trial {
    stk_loss_shape shape;
    stoke_loss settings;
    float *logits; /* stride stk_logits_stride, NaN beyond the classes */
    size_t floats, pixels;
    int64_t *masks, *masks_b;
    float *lambda;
    float weights[160];
} trial;

enum { WEIGHTS = 1, SMOOTHING = 2, IGNORE = 4, MIXED = 8 };

/* -1 .. 1 */
static double noise(uint64_t seed, uint64_t i)
{
    return (double)(stk_mix64(i + (seed << 40)) >> 11) * 0x1p-52 - 1;
}

static stk_loss_shape shape_of(uint32_t batch, uint32_t classes, uint32_t in_height, uint32_t in_width,
                               uint32_t height, uint32_t width)
{
    return (stk_loss_shape){ batch, classes, in_height, in_width, height, width };
}

static int64_t *make_masks(const trial *t, int options, uint64_t seed)
{
    int64_t *masks = malloc(t->pixels * sizeof *masks);
    const uint64_t labels = t->shape.classes == 1 ? 2 : t->shape.classes;
    for (size_t i = 0; i < t->pixels; i++) {
        const uint64_t draw = stk_mix64(i + (seed << 40));
        masks[i] = (int64_t)(draw % labels);
        if (labels > 3 && masks[i] == 2) masks[i] = 1; /* one class is absent */
        if ((options & IGNORE) && (draw >> 32) % 5 == 0) masks[i] = t->settings.ignore_index;
    }
    return masks;
}

static trial trial_of(stk_loss_shape shape, stoke_loss_kind kind, int options, double spread)
{
    trial t = { .shape = shape };
    const size_t stride = stk_logits_stride(shape.classes);
    t.settings = (stoke_loss){ .kind = kind,
                               .ce_weight = 0.7,
                               .dice_weight = 1.3,
                               .focal_gamma = 1.5,
                               .label_smoothing = options & SMOOTHING ? 0.15 : 0,
                               .dice_smooth = options & SMOOTHING ? 0.4 : 0,
                               .ignore_index = 255 };
    t.floats = (size_t)shape.batch * shape.in_height * shape.in_width * stride;
    t.pixels = (size_t)shape.batch * shape.height * shape.width;
    t.logits = malloc(t.floats * sizeof *t.logits);
    for (size_t i = 0; i < t.floats; i++)
        t.logits[i] = i % stride < shape.classes ? (float)(spread * noise(1, i)) : NAN;
    t.masks = make_masks(&t, options, 2);
    if (options & MIXED) {
        t.masks_b = make_masks(&t, options, 3);
        t.lambda = malloc(shape.batch * sizeof *t.lambda);
        for (uint32_t n = 0; n < shape.batch; n++) t.lambda[n] = n % 3 == 1 ? 1.0f : 0.3f + 0.15f * (float)n;
    }
    return t;
}

static void use_weights(trial *t, int options)
{
    for (uint32_t c = 0; c < t->shape.classes; c++) t->weights[c] = 0.4f + 0.3f * (float)(c % 4);
    if (options & WEIGHTS) t->settings.class_weights = t->weights;
}

static void trial_close(trial *t)
{
    free(t->logits);
    free(t->masks);
    free(t->masks_b);
    free(t->lambda);
}

/* --- the second opinion --- */

static double interpolated(const trial *t, const double *logits, uint32_t n, uint32_t y, uint32_t x,
                           uint32_t c)
{
    const stk_loss_shape *s = &t->shape;
    const size_t stride = stk_logits_stride(s->classes);
    double sy = (y + 0.5) * s->in_height / s->height - 0.5, sx = (x + 0.5) * s->in_width / s->width - 0.5;
    if (sy < 0) sy = 0;
    if (sx < 0) sx = 0;
    const uint32_t y0 = (uint32_t)sy, x0 = (uint32_t)sx;
    const uint32_t y1 = y0 + 1 < s->in_height ? y0 + 1 : y0, x1 = x0 + 1 < s->in_width ? x0 + 1 : x0;
    const double *map = logits + (size_t)n * s->in_height * s->in_width * stride + c;
    const double fy = sy - y0, fx = sx - x0;
    return (1 - fy) * ((1 - fx) * map[((size_t)y0 * s->in_width + x0) * stride] +
                       fx * map[((size_t)y0 * s->in_width + x1) * stride]) +
           fy * ((1 - fx) * map[((size_t)y1 * s->in_width + x0) * stride] +
                 fx * map[((size_t)y1 * s->in_width + x1) * stride]);
}

/* Log-probabilities of all classes; one class: of 0 and 1. Returns how many. */
static uint32_t log_softmax(const trial *t, const double *logits, size_t pixel, double *out)
{
    const stk_loss_shape *s = &t->shape;
    const uint32_t x = (uint32_t)(pixel % s->width), y = (uint32_t)(pixel / s->width % s->height);
    const uint32_t n = (uint32_t)(pixel / s->width / s->height);
    if (s->classes == 1) {
        const double z = interpolated(t, logits, n, y, x, 0), soft = log1p(exp(-fabs(z)));
        out[0] = -soft - (z > 0 ? z : 0);
        out[1] = -soft - (z > 0 ? 0 : -z);
        return 2;
    }
    double most = -INFINITY, sum = 0;
    for (uint32_t c = 0; c < s->classes; c++) {
        out[c] = interpolated(t, logits, n, y, x, c);
        if (out[c] > most) most = out[c];
    }
    for (uint32_t c = 0; c < s->classes; c++) sum += exp(out[c] - most);
    for (uint32_t c = 0; c < s->classes; c++) out[c] -= most + log(sum);
    return s->classes;
}

static double weight_of(const trial *t, uint32_t c)
{
    if (!t->settings.class_weights) return 1;
    return t->shape.classes > 1 ? t->weights[c] : c ? t->weights[0] : 1;
}

static double share_of(const trial *t, size_t pixel, int second)
{
    if (!t->masks_b) return 1;
    const double lambda = t->lambda[pixel / ((size_t)t->shape.height * t->shape.width)];
    return second ? 1 - lambda : lambda;
}

/* Cross-entropy or focal loss of one mask array. */
static double oracle_points(const trial *t, const double *log_p, const int64_t *masks, int second)
{
    const uint32_t classes = t->shape.classes == 1 ? 2 : t->shape.classes;
    const int focal = t->settings.kind == STOKE_LOSS_FOCAL;
    double above = 0, below = 0;
    for (size_t i = 0; i < t->pixels; i++) {
        if (masks[i] == t->settings.ignore_index) continue;
        const uint32_t k = (uint32_t)masks[i];
        const double *row = log_p + i * classes, w = weight_of(t, k), s = t->settings.label_smoothing;
        double term = -w * row[k];
        if (focal) {
            term *= pow(1 - exp(row[k]), t->settings.focal_gamma);
        } else {
            term *= 1 - s;
            for (uint32_t c = 0; c < classes; c++) term -= s / classes * weight_of(t, c) * row[c];
        }
        above += share_of(t, i, second) * term;
        below += focal ? 1 : w;
    }
    if (t->shape.classes == 1 && !focal) below = (double)t->pixels;
    return below > 0 ? above / below : 0;
}

static double oracle_dice(const trial *t, const double *log_p, const int64_t *masks, int second)
{
    const uint32_t classes = t->shape.classes == 1 ? 2 : t->shape.classes;
    double mean = 0, loss = 0;
    for (size_t i = 0; i < t->pixels; i++) mean += share_of(t, i, second) / (double)t->pixels;
    if (mean == 0) return 0;
    for (uint32_t c = t->shape.classes == 1; c < classes; c++) {
        double inside = 0, p_sum = 0, t_sum = 0;
        for (size_t i = 0; i < t->pixels; i++) {
            if (masks[i] == t->settings.ignore_index) continue;
            const double part = share_of(t, i, second) / mean, p = exp(log_p[i * classes + c]);
            p_sum += part * p;
            inside += masks[i] == c ? part * p : 0;
            t_sum += masks[i] == c ? part : 0;
        }
        const double s = t->settings.dice_smooth;
        if (t_sum > 0) loss += 1 - (inside + s) / (0.5 * (p_sum + t_sum) + s);
    }
    return mean * loss / t->shape.classes;
}

static double oracle(const trial *t, const double *logits)
{
    const uint32_t classes = t->shape.classes == 1 ? 2 : t->shape.classes;
    double *log_p = malloc(t->pixels * classes * sizeof *log_p), loss = 0;
    for (size_t i = 0; i < t->pixels; i++) log_softmax(t, logits, i, log_p + i * classes);
    const stoke_loss_kind kind = t->settings.kind;
    const double ce = kind == STOKE_LOSS_CE_DICE ? t->settings.ce_weight : kind != STOKE_LOSS_DICE;
    const double dice = kind == STOKE_LOSS_CE_DICE ? t->settings.dice_weight : kind == STOKE_LOSS_DICE;
    for (int second = 0; second < (t->masks_b ? 2 : 1); second++) {
        const int64_t *masks = second ? t->masks_b : t->masks;
        if (ce != 0) loss += ce * oracle_points(t, log_p, masks, second);
        if (dice != 0) loss += dice * oracle_dice(t, log_p, masks, second);
    }
    free(log_p);
    return loss;
}

/* --- the product --- */

static double product(running *b, const trial *t, float factor, float *d_logits)
{
    void *room = malloc(stk_loss_room(&t->shape));
    stk_loss_bind(&t->shape, room);
    running_room(b, stk_loss_need(&b->run, &t->shape));
    const stk_loss_truth truth = { .masks = t->masks,
                                   .masks_b = t->masks_b,
                                   .lambda = t->lambda,
                                   .dtype = STOKE_DTYPE_I64,
                                   .row_bytes = t->pixels / t->shape.batch * sizeof(int64_t) };
    double loss = -1;
    stoke_error err;
    if (d_logits) memset(d_logits, 0xff, t->floats * sizeof *d_logits);
    assert_int_equal(
        stk_loss(&b->run, &t->settings, &t->shape, room, t->logits, &truth, factor, &loss, d_logits, &err),
        STOKE_OK);
    free(room);
    return loss;
}

/* d_logits against central differences of the oracle along `directions` random directions; or, with 0, along
 * every axis. Tolerances: the loss 2e-6 of its size, a gradient 2e-5 of the norm of all. */
static void check(running *b, const trial *t, unsigned directions)
{
    const size_t stride = stk_logits_stride(t->shape.classes);
    const float factor = 2.5f;
    float *d = malloc(t->floats * sizeof *d);
    double *z = malloc(t->floats * sizeof *z), norm = 0, step = 1e-5;
    for (size_t i = 0; i < t->floats; i++) z[i] = t->logits[i];
    const double expected = oracle(t, z), loss = product(b, t, factor, d);
    if (fabs(loss - expected) > 2e-6 * (1e-3 + fabs(expected)))
        fail_msg("loss %.9g, expected %.9g (kind %d)", loss, expected, (int)t->settings.kind);
    assert_true(loss == product(b, t, factor, NULL));
    for (size_t i = 0; i < t->floats; i++) {
        if (i % stride >= t->shape.classes) assert_true(d[i] == 0);
        norm += (double)d[i] * d[i];
    }
    norm = sqrt(norm) / factor;
    assert_true(norm > 0 || expected == 0);
    for (size_t k = 0; k < (directions ? directions : t->floats); k++) {
        if (!directions && k % stride >= t->shape.classes) continue;
        double ours = 0, size = 0, side[2];
        for (int s = 0; s < 2; s++) {
            for (size_t i = 0; i < t->floats; i++) {
                const double v = directions ? noise(10 + k, i) : i == k;
                z[i] = t->logits[i] + (s ? -step : step) * v;
                if (s || i % stride >= t->shape.classes) continue;
                ours += d[i] / factor * v;
                size += v * v;
            }
            side[s] = oracle(t, z);
        }
        const double theirs = (side[0] - side[1]) / (2 * step);
        if (fabs(ours - theirs) > 2e-5 * norm + 1e-9 * sqrt(size))
            fail_msg("derivative %zu is %.8g, expected %.8g, norm %.3g (kind %d, table %d)", k, ours, theirs,
                     norm, (int)t->settings.kind, (int)b->table.level);
    }
    free(d);
    free(z);
}

static const int options_of[] = {
    0, WEIGHTS, SMOOTHING, IGNORE, MIXED, WEIGHTS | SMOOTHING | IGNORE | MIXED
};

static void all_kinds(stk_loss_shape shape, unsigned directions)
{
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        running b;
        running_start(&b, (stk_cpu_level)level, 2, STK_F32);
        for (int kind = STOKE_LOSS_CE; kind <= STOKE_LOSS_FOCAL; kind++)
            for (size_t o = 0; o < sizeof options_of / sizeof *options_of; o++) {
                trial t = trial_of(shape, (stoke_loss_kind)kind, options_of[o], 3);
                use_weights(&t, options_of[o]);
                check(&b, &t, directions);
                trial_close(&t);
            }
        running_stop(&b);
    }
}

static void every_derivative_of_few_classes(void **state)
{
    (void)state;
    all_kinds(shape_of(3, 3, 3, 4, 7, 10), 0);
}

static void every_derivative_of_one_class(void **state)
{
    (void)state;
    all_kinds(shape_of(2, 1, 4, 5, 13, 17), 0);
}

static void directions_at_odd_ratios(void **state)
{
    (void)state;
    all_kinds(shape_of(2, 5, 13, 9, 50, 37), 2);
}

/* 11 pairs of lines: two strips; 12 classes: a whole vector and a part. */
static void directions_at_ratio_four(void **state)
{
    (void)state;
    all_kinds(shape_of(1, 12, 12, 8, 48, 32), 2);
}

static void directions_in_extreme_shapes(void **state)
{
    (void)state;
    all_kinds(shape_of(1, 3, 1, 1, 5, 3), 3);
    all_kinds(shape_of(1, 2, 1, 9, 4, 20), 3);
    all_kinds(shape_of(2, 4, 9, 1, 33, 1), 3);
    all_kinds(shape_of(1, 3, 21, 19, 8, 5), 3); /* the mask is smaller */
    all_kinds(shape_of(1, 7, 6, 6, 6, 6), 3);
}

static void many_classes(void **state)
{
    (void)state;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        running b;
        running_start(&b, (stk_cpu_level)level, 2, STK_F32);
        for (int kind = STOKE_LOSS_CE; kind <= STOKE_LOSS_FOCAL; kind++) {
            trial t = trial_of(shape_of(1, 150, 5, 6, 19, 24), (stoke_loss_kind)kind, IGNORE, 4);
            use_weights(&t, IGNORE | WEIGHTS);
            check(&b, &t, 2);
            trial_close(&t);
        }
        running_stop(&b);
    }
}

/* Logits of +-300: e^300 would be infinite, and a label may be 600 away from the largest. Of the first sample
 * all are far below 0, where a pixel that does not count has no logit of its own. */
static void large_logits(void **state)
{
    (void)state;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        running b;
        running_start(&b, (stk_cpu_level)level, 1, STK_F32);
        for (uint32_t classes = 1; classes < 6; classes += 4)
            for (int kind = STOKE_LOSS_CE; kind <= STOKE_LOSS_FOCAL; kind++) {
                trial t = trial_of(shape_of(2, classes, 4, 4, 16, 16), (stoke_loss_kind)kind, IGNORE, 300);
                use_weights(&t, 0);
                t.settings.focal_gamma = 2;
                for (size_t i = 0; i < t.floats / 2; i++) t.logits[i] = -700 + t.logits[i] / 300;
                check(&b, &t, 3);
                trial_close(&t);
            }
        running_stop(&b);
    }
}

/* gamma 0 is cross-entropy over the number of pixels; gamma below 1 has a steep end at p = 1. */
static void focal_gammas(void **state)
{
    (void)state;
    static const double gammas[] = { 0, 0.5, 1, 2, 5 };
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++) {
        running b;
        running_start(&b, (stk_cpu_level)level, 1, STK_F32);
        for (size_t g = 0; g < sizeof gammas / sizeof *gammas; g++) {
            trial t = trial_of(shape_of(1, 4, 5, 5, 18, 18), STOKE_LOSS_FOCAL, IGNORE, 6);
            use_weights(&t, WEIGHTS);
            t.settings.focal_gamma = gammas[g];
            check(&b, &t, 3);
            trial_close(&t);
        }
        running_stop(&b);
    }
}

/* --- what else loss says --- */

static void same_bits_for_any_team(void **state)
{
    (void)state;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++)
        for (int kind = STOKE_LOSS_CE; kind <= STOKE_LOSS_FOCAL; kind++) {
            trial t = trial_of(shape_of(3, 6, 33, 21, 131, 85), (stoke_loss_kind)kind, IGNORE | MIXED, 3);
            use_weights(&t, WEIGHTS);
            float *first = malloc(t.floats * sizeof *first), *other = malloc(t.floats * sizeof *other);
            double loss = 0;
            for (uint32_t threads = 1; threads <= 3; threads++) {
                running b;
                running_start(&b, (stk_cpu_level)level, threads, STK_F32);
                const double l = product(&b, &t, 1, threads == 1 ? first : other);
                if (threads == 1) loss = l;
                assert_memory_equal(&l, &loss, sizeof l);
                if (threads > 1) assert_memory_equal(first, other, t.floats * sizeof *first);
                running_stop(&b);
            }
            free(first);
            free(other);
            trial_close(&t);
        }
}

/* With one lambda for all samples, lambda * L(masks) + (1 - lambda) * L(masks_b), whatever each ignores. */
static void mixed_is_the_sum_of_two(void **state)
{
    (void)state;
    running b;
    running_start(&b, stk_cpu_detected(), 1, STK_F32);
    for (int kind = STOKE_LOSS_CE; kind <= STOKE_LOSS_FOCAL; kind++) {
        trial t =
            trial_of(shape_of(3, 4, 6, 7, 24, 28), (stoke_loss_kind)kind, IGNORE | MIXED | SMOOTHING, 3);
        use_weights(&t, WEIGHTS);
        for (int i = 0; i < 3; i++) t.lambda[i] = 0.3f;
        for (size_t i = 0; i < t.pixels / 2; i++) t.masks_b[i] = 255;
        const double both = product(&b, &t, 1, NULL);
        int64_t *second = t.masks_b, *first = t.masks;
        t.masks_b = NULL;
        const double a = product(&b, &t, 1, NULL);
        t.masks = second;
        const double c = product(&b, &t, 1, NULL);
        t.masks = first;
        t.masks_b = second;
        const double lambda = 0.3f;
        assert_true(fabs(both - (lambda * a + (1 - lambda) * c)) < 1e-6 * both);
        trial_close(&t);
    }
    running_stop(&b);
}

static void nothing_counts(void **state)
{
    (void)state;
    for (uint32_t classes = 1; classes <= 3; classes += 2)
        for (int kind = STOKE_LOSS_CE; kind <= STOKE_LOSS_FOCAL; kind++) {
            running b;
            running_start(&b, stk_cpu_detected(), 2, STK_F32);
            trial t = trial_of(shape_of(2, classes, 3, 3, 12, 12), (stoke_loss_kind)kind, SMOOTHING, 3);
            for (size_t i = 0; i < t.pixels; i++) t.masks[i] = 255;
            float *d = malloc(t.floats * sizeof *d);
            assert_true(product(&b, &t, 1, d) == 0);
            for (size_t i = 0; i < t.floats; i++) assert_true(d[i] == 0);
            free(d);
            trial_close(&t);
            running_stop(&b);
        }
}

/* A mask with one label changed, in the given type. */
static int with_label(running *b, uint32_t classes, stoke_dtype dtype, int64_t label, int64_t ignore,
                      double *loss, stoke_error *err)
{
    trial t = trial_of(shape_of(2, classes, 3, 5, 12, 20), STOKE_LOSS_CE, 0, 3);
    t.settings.ignore_index = ignore;
    t.masks[(12 + 7) * 20 + 11] = label; /* sample 1, line 7, column 11 */
    const size_t bytes = stoke_dtype_bytes(dtype),
                 row = 12 * 20 * bytes + 24; /* rows of samples with a gap */
    unsigned char *masks = malloc(2 * row);
    for (size_t i = 0; i < t.pixels; i++) /* little endian: the low bytes come first */
        memcpy(masks + i / 240 * row + i % 240 * bytes, &t.masks[i], bytes);
    void *room = malloc(stk_loss_room(&t.shape));
    stk_loss_bind(&t.shape, room);
    running_room(b, stk_loss_need(&b->run, &t.shape));
    const stk_loss_truth truth = { .masks = masks, .dtype = dtype, .row_bytes = row };
    const int status = stk_loss(&b->run, &t.settings, &t.shape, room, t.logits, &truth, 1, loss, NULL, err);
    free(room);
    free(masks);
    trial_close(&t);
    return status;
}

static void labels_of_all_types(void **state)
{
    (void)state;
    static const stoke_dtype types[] = { STOKE_DTYPE_U8, STOKE_DTYPE_U16, STOKE_DTYPE_I32, STOKE_DTYPE_I64 };
    running b;
    running_start(&b, stk_cpu_detected(), 1, STK_F32);
    for (uint32_t classes = 1; classes <= 4; classes += 3) {
        double expected = 0, loss = 0;
        stoke_error err;
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(with_label(&b, classes, types[i], 255, 255, &loss, &err), STOKE_OK);
            if (i == 0) expected = loss;
            assert_true(loss == expected);
        }
        /* ignore_index of types that can hold it */
        assert_int_equal(with_label(&b, classes, STOKE_DTYPE_U16, 65535, 65535, &loss, &err), STOKE_OK);
        assert_true(loss == expected);
        assert_int_equal(with_label(&b, classes, STOKE_DTYPE_I32, -100, -100, &loss, &err), STOKE_OK);
        assert_true(loss == expected);
        assert_int_equal(with_label(&b, classes, STOKE_DTYPE_I64, INT64_MIN, INT64_MIN, &loss, &err),
                         STOKE_OK);
        assert_true(loss == expected);
        /* an ignore_index the type cannot hold ignores nothing */
        assert_int_equal(with_label(&b, classes, STOKE_DTYPE_U8, 0, -100, &loss, &err), STOKE_OK);
        assert_true(loss != expected);
    }
    running_stop(&b);
}

static void bad_labels_are_named(void **state)
{
    (void)state;
    static const struct {
        uint32_t classes;
        stoke_dtype dtype;
        int64_t label;
        const char *text;
    } cases[] = {
        { 4, STOKE_DTYPE_U8, 4, "label 4 " },
        { 4, STOKE_DTYPE_U8, 254, "label 254 " },
        { 4, STOKE_DTYPE_U16, 65535, "label 65535 " },
        { 4, STOKE_DTYPE_I32, -1, "label -1 " },
        { 4, STOKE_DTYPE_I64, (int64_t)1 << 32, "label 4294967296 " },
        { 4, STOKE_DTYPE_I64, -3, "label -3 " },
        { 1, STOKE_DTYPE_U8, 2, "label 2 " },
    };
    running b;
    running_start(&b, stk_cpu_detected(), 3, STK_F32);
    double loss;
    stoke_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(with_label(&b, cases[i].classes, cases[i].dtype, cases[i].label, 255, &loss, &err),
                         STOKE_E_LABEL);
        assert_non_null(strstr(err.message, cases[i].text));
        assert_non_null(strstr(err.message, "mask 1 "));
        assert_non_null(strstr(err.message, "line 7, column 11"));
    }
    /* Hugging Face: negative labels of a binary mask do not count. */
    assert_int_equal(with_label(&b, 1, STOKE_DTYPE_I32, -1, 255, &loss, &err), STOKE_OK);
    running_stop(&b);
}

static void classes_are_the_largest_logits(void **state)
{
    (void)state;
    static const stk_loss_shape shapes[] = { { 2, 5, 13, 9, 50, 37 },
                                             { 1, 1, 4, 4, 16, 16 },
                                             { 1, 150, 6, 5, 24, 20 },
                                             { 1, 3, 1, 1, 2, 3 },
                                             { 3, 19, 20, 16, 80, 64 } };
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            running b;
            running_start(&b, (stk_cpu_level)level, 2, STK_F32);
            trial t = trial_of(shapes[k], STOKE_LOSS_CE, 0, 3);
            uint16_t *labels = malloc(t.pixels * sizeof *labels);
            double *z = malloc(t.floats * sizeof *z), log_p[160];
            for (size_t i = 0; i < t.floats; i++) z[i] = t.logits[i];
            void *room = malloc(stk_loss_room(&t.shape));
            stk_loss_bind(&t.shape, room);
            running_room(&b, stk_loss_need(&b.run, &t.shape));
            stk_classes_of(&b.run, &t.shape, room, t.logits, labels);
            for (size_t i = 0; i < t.pixels; i++) {
                const uint32_t count = log_softmax(&t, z, i, log_p);
                assert_true(labels[i] < count);
                for (uint32_t c = 0; c < count; c++) /* but for ties within rounding */
                    assert_true(log_p[labels[i]] >= log_p[c] - 1e-5);
            }
            free(room);
            free(z);
            free(labels);
            trial_close(&t);
            running_stop(&b);
        }
}

static void the_lowest_class_wins_a_tie(void **state)
{
    (void)state;
    for (int level = STK_CPU_C; level <= (int)stk_cpu_detected(); level++)
        for (uint32_t classes = 1; classes <= 20; classes++) {
            running b;
            running_start(&b, (stk_cpu_level)level, 1, STK_F32);
            trial t = trial_of(shape_of(1, classes, 2, 2, 8, 8), STOKE_LOSS_CE, 0, 3);
            const size_t stride = stk_logits_stride(classes);
            for (size_t i = 0; i < t.floats; i++)
                t.logits[i] = i % stride < classes / 2 ? -1.0f : i % stride < classes ? 0.0f : NAN;
            uint16_t labels[64];
            void *room = malloc(stk_loss_room(&t.shape));
            stk_loss_bind(&t.shape, room);
            running_room(&b, stk_loss_need(&b.run, &t.shape));
            stk_classes_of(&b.run, &t.shape, room, t.logits, labels);
            for (size_t i = 0; i < 64; i++) assert_int_equal(labels[i], classes / 2);
            free(room);
            trial_close(&t);
            running_stop(&b);
        }
}

UNIT_GROUP(loss)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_derivative_of_few_classes),
        cmocka_unit_test(every_derivative_of_one_class),
        cmocka_unit_test(directions_at_odd_ratios),
        cmocka_unit_test(directions_at_ratio_four),
        cmocka_unit_test(directions_in_extreme_shapes),
        cmocka_unit_test(many_classes),
        cmocka_unit_test(large_logits),
        cmocka_unit_test(focal_gammas),
        cmocka_unit_test(same_bits_for_any_team),
        cmocka_unit_test(mixed_is_the_sum_of_two),
        cmocka_unit_test(nothing_counts),
        cmocka_unit_test(labels_of_all_types),
        cmocka_unit_test(bad_labels_are_named),
        cmocka_unit_test(classes_are_the_largest_logits),
        cmocka_unit_test(the_lowest_class_wins_a_tie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
