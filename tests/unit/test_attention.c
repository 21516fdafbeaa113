/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention against a double-precision oracle (its gradients by central differences), table against table,
 * and one thread against several.
 */
#include "tests/unit/fixture_run.h"

#include "src/net/ops/ops.h"

static size_t width_of(const stk_attention *s)
{
    return (size_t)s->heads * s->head_size;
}
static size_t queries_of(const stk_attention *s)
{
    return (size_t)s->batch * s->queries;
}
static size_t keys_of(const stk_attention *s)
{
    return (size_t)s->batch * s->keys;
}
static size_t sums_of(const stk_attention *s)
{
    return queries_of(s) * s->heads;
}

/* All matrices of one pass, of the run's type. */
typedef struct matrices {
    void *q, *kv, *d_context; /* given */
    void *context, *dq, *dkv; /* computed */
    float *log_sum;
} matrices;

static matrices make(const stk_attention *s, stk_float type, double size)
{
    const size_t bytes = stk_float_bytes(type);
    return (matrices){ .q = running_numbers(queries_of(s) * width_of(s), type, size, 1),
                       .kv = running_numbers(keys_of(s) * 2 * width_of(s), type, size, 2),
                       .d_context = running_numbers(queries_of(s) * width_of(s), type, 1, 3),
                       .context = stk_alloc(queries_of(s) * width_of(s) * bytes),
                       .dq = stk_alloc(queries_of(s) * width_of(s) * bytes),
                       .dkv = stk_alloc(keys_of(s) * 2 * width_of(s) * bytes),
                       .log_sum = stk_alloc(sums_of(s) * sizeof(float)) };
}

static void drop(matrices *m)
{
    void *all[] = { m->q, m->kv, m->d_context, m->context, m->dq, m->dkv, m->log_sum };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) stk_free(all[i]);
}

static void compute(const stk_attention *s, matrices *m, stk_cpu_level level, uint32_t threads,
                    stk_float type)
{
    running r;
    running_start(&r, level, threads, type);
    running_room(&r, stk_attention_need(&r.run, s));
    stk_attention_forward(&r.run, s, m->q, m->kv, m->context, m->log_sum);
    stk_attention_backward(&r.run, s, m->q, m->kv, m->context, m->log_sum, m->d_context, m->dq, m->dkv);
    running_stop(&r);
}

/* One query's context (head_size numbers) and the logarithm of its sum, in double. */
static double oracle(const stk_attention *s, const double *q, const double *kv, size_t sample, size_t head,
                     size_t query, double *context)
{
    const size_t width = width_of(s), size = s->head_size;
    const double *row = q + (sample * s->queries + query) * width + head * size;
    double sum = 0, most = -1e300;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t c = 0; pass && c < size; c++) context[c] = 0;
        for (size_t key = 0; key < s->keys; key++) {
            const double *k = kv + (sample * s->keys + key) * 2 * width + head * size;
            double score = 0;
            for (size_t c = 0; c < size; c++) score += row[c] * k[c];
            score /= sqrt((double)size);
            if (!pass) {
                most = fmax(most, score);
                continue;
            }
            const double weight = exp(score - most);
            sum += weight;
            for (size_t c = 0; c < size; c++) context[c] += weight * k[width + c];
        }
    }
    for (size_t c = 0; c < size; c++) context[c] /= sum;
    return most + log(sum);
}

/* What the gradients are of: the sum of context times d_context, over queries first .. end of a head. */
static double scalar(const stk_attention *s, const double *q, const double *kv, const double *d,
                     size_t sample, size_t head, size_t first, size_t end)
{
    double total = 0, context[64];
    for (size_t query = first; query < end; query++) {
        oracle(s, q, kv, sample, head, query, context);
        const double *row = d + (sample * s->queries + query) * width_of(s) + head * s->head_size;
        for (size_t c = 0; c < s->head_size; c++) total += context[c] * row[c];
    }
    return total;
}

static double *doubles(const void *numbers, size_t count, stk_float type)
{
    double *out = stk_alloc(count * sizeof *out);
    for (size_t i = 0; i < count; i++) out[i] = stk_get(numbers, i, type);
    return out;
}

/* Writes of an f32 result: a few roundings of sums of up to a few hundred terms of size 1; of a 16-bit one:
 * its own rounding, and that of the stored context behind the gradients. */
static double tolerance(stk_float type)
{
    return type == STK_F32 ? 4e-6 : 4 * running_rounding(type);
}

static void check_context(const stk_attention *s, const matrices *m, const double *q, const double *kv,
                          stk_float type)
{
    double context[64];
    for (size_t sample = 0; sample < s->batch; sample++) {
        for (size_t head = 0; head < s->heads; head++) {
            for (size_t query = 0; query < s->queries; query++) {
                const double sum = oracle(s, q, kv, sample, head, query, context);
                const size_t row = (sample * s->queries + query) * width_of(s) + head * s->head_size;
                for (size_t c = 0; c < s->head_size; c++)
                    assert_true(fabs(stk_get(m->context, row + c, type) - context[c]) < tolerance(type));
                const double saved = m->log_sum[(sample * s->heads + head) * s->queries + query];
                assert_true(fabs(saved - sum) < 4e-6 * (1 + fabs(sum)));
            }
        }
    }
}

/* (f(x + h) - f(x - h)) / 2h of one element, put back afterwards. */
static double slope(const stk_attention *s, const double *q, const double *kv, const double *d, double *x,
                    size_t sample, size_t head, size_t first, size_t end)
{
    const double h = 1e-5, old = *x;
    *x = old + h;
    const double above = scalar(s, q, kv, d, sample, head, first, end);
    *x = old - h;
    const double below = scalar(s, q, kv, d, sample, head, first, end);
    *x = old;
    return (above - below) / (2 * h);
}

/* Every `step`-th element of dq and dkv. */
static void check_gradients(const stk_attention *s, const matrices *m, double *q, double *kv, stk_float type,
                            size_t step)
{
    const size_t width = width_of(s);
    double *d = doubles(m->d_context, queries_of(s) * width, type);
    for (size_t i = 0; i < queries_of(s) * width; i += step) {
        const size_t row = i / width, head = i % width / s->head_size, query = row % s->queries;
        const double want = slope(s, q, kv, d, q + i, row / s->queries, head, query, query + 1);
        assert_true(fabs(stk_get(m->dq, i, type) - want) < tolerance(type));
    }
    for (size_t i = 0; i < keys_of(s) * 2 * width; i += step) {
        const size_t row = i / (2 * width), head = i % width / s->head_size;
        const double want = slope(s, q, kv, d, kv + i, row / s->keys, head, 0, s->queries);
        /* A sum over all queries, the larger part of which may cancel. */
        assert_true(fabs(stk_get(m->dkv, i, type) - want) <
                    tolerance(type) * (1 + fabs(want) + s->queries * 0.02));
    }
    stk_free(d);
}

/* Heads of 8 to 64 elements; fewer keys than lanes and more than a block of them; one query, one more than a
 * tile, several chunks; last tiles of every height. */
static const struct {
    stk_attention shape;
    size_t step;
} shapes[] = {
    { { 1, 1, 8, 1, 1 }, 1 },      { { 2, 3, 8, 7, 5 }, 1 },        { { 1, 2, 24, 50, 17 }, 13 },
    { { 2, 1, 32, 131, 64 }, 97 }, { { 1, 2, 64, 301, 33 }, 1201 }, { { 1, 1, 40, 9, 300 }, 601 },
    { { 1, 1, 16, 5, 515 }, 301 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void matches_the_oracle(void **state)
{
    (void)state;
    for (int level = 0; level <= (int)stk_cpu_detected(); level++) {
        for (int type = 0; type < STK_FLOATS; type++) {
            for (int i = 0; i < SHAPES; i++) {
                const stk_attention *s = &shapes[i].shape;
                matrices m = make(s, type, 1);
                compute(s, &m, level, 1, type);
                double *q = doubles(m.q, queries_of(s) * width_of(s), type);
                double *kv = doubles(m.kv, keys_of(s) * 2 * width_of(s), type);
                check_context(s, &m, q, kv, type);
                check_gradients(s, &m, q, kv, type, shapes[i].step);
                stk_free(q);
                stk_free(kv);
                drop(&m);
            }
        }
    }
}

static double furthest(const void *a, const void *b, size_t count, stk_float type)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        const double apart = fabs((double)stk_get(a, i, type) - stk_get(b, i, type));
        if (!(apart <= most)) most = apart; /* NaN stays */
    }
    return most;
}

/* Every element, where the oracle's differences look at some. */
static void tables_agree(void **state)
{
    (void)state;
    for (int level = 1; level <= (int)stk_cpu_detected(); level++) {
        for (int type = 0; type < STK_FLOATS; type++) {
            for (int i = 0; i < SHAPES; i++) {
                const stk_attention *s = &shapes[i].shape;
                matrices c = make(s, type, 1), v = make(s, type, 1);
                compute(s, &c, STK_CPU_C, 1, type);
                compute(s, &v, level, 1, type);
                const size_t rows = queries_of(s) * width_of(s), twice = keys_of(s) * 2 * width_of(s);
                assert_true(furthest(c.context, v.context, rows, type) < tolerance(type));
                assert_true(furthest(c.dq, v.dq, rows, type) < tolerance(type));
                assert_true(furthest(c.dkv, v.dkv, twice, type) < tolerance(type) * (2 + s->queries * 0.02));
                assert_true(furthest(c.log_sum, v.log_sum, sums_of(s), STK_F32) < 4e-6);
                drop(&c);
                drop(&v);
            }
        }
    }
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    const stk_attention s = { 2, 1, 32, 300, 20 };
    for (int level = 0; level <= (int)stk_cpu_detected(); level++) {
        for (int type = 0; type < STK_FLOATS; type++) {
            matrices one = make(&s, type, 1);
            compute(&s, &one, level, 1, type);
            for (uint32_t threads = 2; threads <= 3; threads++) {
                matrices many = make(&s, type, 1);
                compute(&s, &many, level, threads, type);
                const size_t bytes = stk_float_bytes(type), rows = queries_of(&s) * width_of(&s) * bytes;
                assert_memory_equal(one.context, many.context, rows);
                assert_memory_equal(one.dq, many.dq, rows);
                assert_memory_equal(one.dkv, many.dkv, keys_of(&s) * 2 * width_of(&s) * bytes);
                assert_memory_equal(one.log_sum, many.log_sum, sums_of(&s) * sizeof(float));
                drop(&many);
            }
            drop(&one);
        }
    }
}

/* Scores of +-700, whose exponentials no float holds. */
static void large_scores_stay_exact(void **state)
{
    (void)state;
    const stk_attention s = { 1, 1, 16, 40, 50 };
    for (int level = 0; level <= (int)stk_cpu_detected(); level++) {
        matrices m = make(&s, STK_F32, 20);
        compute(&s, &m, level, 1, STK_F32);
        double *q = doubles(m.q, queries_of(&s) * width_of(&s), STK_F32), context[64];
        double *kv = doubles(m.kv, keys_of(&s) * 2 * width_of(&s), STK_F32), largest = 0;
        for (size_t query = 0; query < s.queries; query++) {
            const double sum = oracle(&s, q, kv, 0, 0, query, context);
            largest = fmax(largest, sum);
            assert_true(fabs(m.log_sum[query] - sum) < 2e-6 * fabs(sum));
            for (size_t c = 0; c < s.head_size; c++) /* a score of 700 is known to 4e-5 */
                assert_true(fabs(((float *)m.context)[query * s.head_size + c] - context[c]) < 20 * 2e-4);
        }
        assert_true(largest > 300);
        for (size_t i = 0; i < queries_of(&s) * width_of(&s); i++) assert_true(isfinite(((float *)m.dq)[i]));
        stk_free(q);
        stk_free(kv);
        drop(&m);
    }
}

/* Loss scaling and "the loss is NaN" rest on it: nothing may be clamped into a number. */
static void nan_and_infinity_come_through(void **state)
{
    (void)state;
    const stk_attention s = { 1, 1, 32, 20, 40 };
    for (int level = 0; level <= (int)stk_cpu_detected(); level++) {
        matrices m = make(&s, STK_F32, 1);
        ((float *)m.q)[3 * 32 + 5] = NAN;
        ((float *)m.d_context)[7 * 32 + 6] = INFINITY;
        compute(&s, &m, level, 1, STK_F32);
        for (size_t query = 0; query < s.queries; query++)
            for (size_t c = 0; c < 32; c++) {
                assert_int_equal(isnan(((float *)m.context)[query * 32 + c]), query == 3);
                assert_int_equal(isfinite(((float *)m.dq)[query * 32 + c]), query != 3 && query != 7);
            }
        for (size_t key = 0; key < s.keys; key++)
            for (size_t c = 0; c < 64; c++) assert_false(isfinite(((float *)m.dkv)[key * 64 + c]));
        drop(&m);
    }
}

/* Inference saves no sums. */
static void forward_without_sums(void **state)
{
    (void)state;
    const stk_attention s = { 2, 2, 8, 19, 13 };
    for (int level = 0; level <= (int)stk_cpu_detected(); level++) {
        matrices with = make(&s, STK_F32, 1), without = make(&s, STK_F32, 1);
        compute(&s, &with, level, 1, STK_F32);
        running r;
        running_start(&r, level, 1, STK_F32);
        running_room(&r, stk_attention_need(&r.run, &s));
        stk_attention_forward(&r.run, &s, without.q, without.kv, without.context, NULL);
        running_stop(&r);
        assert_memory_equal(with.context, without.context, queries_of(&s) * width_of(&s) * sizeof(float));
        drop(&with);
        drop(&without);
    }
}

UNIT_GROUP(attention)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_oracle),
        cmocka_unit_test(tables_agree),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(large_scores_stay_exact),
        cmocka_unit_test(nan_and_infinity_come_through),
        cmocka_unit_test(forward_without_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
