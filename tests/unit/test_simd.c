/* SPDX-License-Identifier: Apache-2.0
 *
 * Every name of src/net/kernels/simd.h against scalar code: in the widths this processor has and in 16 lanes
 * by emulation. Results of single operations are exact, so they are compared as bits.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <sys/mman.h>

#include "src/base/cpu.h"
#include "tests/unit/simd_names.h"

/* ---- the widths ---- */

static const simd_names *width_at(int i, const char **name)
{
    static const char *const names[] = { "avx2", "avx512", "emulated avx512" };
    *name = names[i];
#if defined(__x86_64__)
    static const simd_names *const widths[] = { &simd_names_avx2, &simd_names_avx512, &simd_names_emulated };
    /* The emulation itself is compiled for AVX2. */
    static const stk_cpu_level needs[] = { STK_CPU_AVX2, STK_CPU_AVX512, STK_CPU_AVX2 };
    return stk_cpu_detected() >= needs[i] ? widths[i] : NULL;
#else
    return NULL;
#endif
}

#define EACH_WIDTH(w)                                                                                        \
    const simd_names *w;                                                                                     \
    const char *w##_name;                                                                                    \
    for (int w##_i = 0; w##_i < 3; w##_i++)                                                                  \
        if ((w = width_at(w##_i, &w##_name)))

/* ---- numbers ---- */

static uint32_t seed = 12345;

static uint32_t draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed ^ seed >> 15;
}

/* Of any size but finite and nobody's limit: products and sums of three stay finite. */
static float any(void)
{
    return (float)((int32_t)draw()) * ldexpf(1.0f, (int)(draw() % 60) - 60);
}

static const float odd_values[] = { 0.0f,  -0.0f,     1.0f,      -1.0f,   0.5f,       1.5f,    2.5f,
                                    -2.5f, 0x1p-126f, 0x1p-149f, 3.4e38f, -0x1p-140f, 0x1p23f, 0.499999f };

static float some(void)
{
    const size_t n = sizeof odd_values / sizeof *odd_values;
    return draw() % 4 ? any() : odd_values[draw() % n];
}

static uint32_t bits_of(float value)
{
    return k_bits(value);
}

static void expect_lanes(const char *width, const char *name, const float *got, const float *want, int lanes)
{
    for (int i = 0; i < lanes; i++) {
        if (bits_of(got[i]) == bits_of(want[i])) continue;
        fail_msg("%s of %s: lane %d is %a, not %a", name, width, i, (double)got[i], (double)want[i]);
    }
}

/* ---- arithmetic ---- */

typedef float scalar_fn(const simd_operands *o, int i);

#define SCALAR(name, value)                                                                                  \
    static float scalar_##name(const simd_operands *o, int i)                                                \
    {                                                                                                        \
        const float a = o->a[i], b = o->b[i], c = o->c[i], d = o->d[i];                                      \
        (void)a, (void)b, (void)c, (void)d;                                                                  \
        return value;                                                                                        \
    }
SCALAR(set, o->a[0])
SCALAR(zero, 0.0f)
SCALAR(add, a + b)
SCALAR(sub, a - b)
SCALAR(mul, a *b)
SCALAR(div, a / b)
SCALAR(fma, fmaf(a, b, c))
SCALAR(fnma, fmaf(-a, b, c))
SCALAR(max, a > b ? a : b) /* the second when they are equal or one is NaN */
SCALAR(min, a < b ? a : b)
SCALAR(sqrt, sqrtf(a))
SCALAR(round, rintf(a)) /* ties to even */
SCALAR(abs, fabsf(a))
SCALAR(greater, a > b ? c : d)
SCALAR(first, (size_t)i < o->count ? a : b)

static void arithmetic_is_the_scalar_one(void **state)
{
    EACH_WIDTH(w)
    {
        const struct {
            const char *name;
            void (*lanes)(const simd_operands *o, float *out);
            scalar_fn *scalar;
        } cases[] = {
            { "v_set", w->set, scalar_set },       { "v_zero", w->zero, scalar_zero },
            { "v_add", w->add, scalar_add },       { "v_sub", w->sub, scalar_sub },
            { "v_mul", w->mul, scalar_mul },       { "v_div", w->div, scalar_div },
            { "v_fma", w->fma, scalar_fma },       { "v_fnma", w->fnma, scalar_fnma },
            { "v_max", w->max, scalar_max },       { "v_min", w->min, scalar_min },
            { "v_sqrt", w->sqrt, scalar_sqrt },    { "v_round", w->round, scalar_round },
            { "v_abs", w->abs, scalar_abs },       { "v_greater", w->greater, scalar_greater },
            { "v_first", w->first, scalar_first },
        };
        for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
            for (int round = 0; round < 2000; round++) {
                simd_operands o = { .count = draw() % (unsigned)(w->lanes + 1) };
                float got[SIMD_LANES_MAX], want[SIMD_LANES_MAX];
                for (int i = 0; i < w->lanes; i++) {
                    o.a[i] = cases[n].scalar == scalar_sqrt ? fabsf(some()) : some();
                    o.b[i] = draw() % 8 ? some() : o.a[i];
                    if (cases[n].scalar == scalar_div && o.b[i] == 0) o.b[i] = 1;
                    o.c[i] = any();
                    o.d[i] = any();
                }
                for (int i = 0; i < w->lanes; i++) want[i] = cases[n].scalar(&o, i);
                cases[n].lanes(&o, got);
                expect_lanes(w_name, cases[n].name, got, want, w->lanes);
            }
        }
    }
}

/* A NaN loses every comparison: v_greater then takes the last operand, v_max and v_min their second, and
 * v_exp passes it on. */
static void nan_goes_where_it_is_said_to(void **state)
{
    EACH_WIDTH(w)
    {
        simd_operands o = { .count = 0 };
        float out[SIMD_LANES_MAX];
        for (int i = 0; i < w->lanes; i++) o.a[i] = NAN, o.b[i] = 1, o.c[i] = 2, o.d[i] = 3;
        w->greater(&o, out);
        for (int i = 0; i < w->lanes; i++) assert_true(out[i] == 3);
        w->max(&o, out);
        for (int i = 0; i < w->lanes; i++) assert_true(out[i] == 1);
        w->min(&o, out);
        for (int i = 0; i < w->lanes; i++) assert_true(out[i] == 1);
        w->exp(&o, out);
        for (int i = 0; i < w->lanes; i++) assert_true(isnan(out[i]));
        for (int i = 0; i < w->lanes; i++) o.a[i] = 1, o.b[i] = NAN;
        w->max(&o, out);
        for (int i = 0; i < w->lanes; i++) assert_true(isnan(out[i]));
    }
}

static void scale2_moves_the_exponent(void **state)
{
    EACH_WIDTH(w)
    {
        for (int n = -126; n <= 127; n++) {
            simd_operands o = { .count = 0 };
            float got[SIMD_LANES_MAX], want[SIMD_LANES_MAX];
            for (int i = 0; i < w->lanes; i++) {
                o.a[i] = 0.5f + (float)(draw() >> 9) * 0x1p-24f;
                o.b[i] = (float)n;
                want[i] = ldexpf(o.a[i], n);
            }
            w->scale2(&o, got);
            expect_lanes(w_name, "v_scale2", got, want, w->lanes);
        }
    }
}

/* Halves, quarters, ..., pairs: the tree that simd.h promises, to the bit. */
static void sums_have_their_tree(void **state)
{
    EACH_WIDTH(w)
    {
        for (int round = 0; round < 2000; round++) {
            simd_operands o = { .count = 0 };
            float got[SIMD_LANES_MAX], tree[SIMD_LANES_MAX], want[SIMD_LANES_MAX], most = -INFINITY;
            for (int i = 0; i < w->lanes; i++) {
                tree[i] = o.a[i] = any();
                most = o.a[i] > most ? o.a[i] : most;
            }
            for (int half = w->lanes / 2; half; half /= 2)
                for (int i = 0; i < half; i++) tree[i] += tree[i + half];
            for (int i = 0; i < w->lanes; i++) want[i] = tree[0];
            w->sum(&o, got);
            expect_lanes(w_name, "v_sum", got, want, w->lanes);
            for (int i = 0; i < w->lanes; i++) want[i] = most;
            w->largest(&o, got);
            expect_lanes(w_name, "v_largest", got, want, w->lanes);
        }
    }
}

/* 0x1.6a09e6p-1 is the float nearest to the root of 1/2: where the mantissa's range begins. */
static void powers_are_split_and_raised(void **state)
{
    EACH_WIDTH(w)
    {
        for (int round = 0; round < 5000; round++) {
            simd_operands o = { .count = 0 };
            float m[SIMD_LANES_MAX], n[SIMD_LANES_MAX], back[SIMD_LANES_MAX];
            for (int i = 0; i < w->lanes; i++) o.a[i] = k_float(0x00800000u + draw() % 0x7f000000u);
            w->split2(&o, m);
            w->split2_power(&o, n);
            for (int i = 0; i < w->lanes; i++) {
                assert_true(m[i] >= 0x1.6a09e6p-1f && m[i] < 0x1.6a09e6p0f && n[i] == rintf(n[i]));
                assert_true(ldexp((double)m[i], (int)n[i]) == (double)o.a[i]);
            }
            memcpy(o.a, m, sizeof m);
            for (int i = 0; i < w->lanes; i++) {
                o.b[i] = (float)((int)(draw() % 200) - 100);
                n[i] = ldexpf(m[i], (int)o.b[i]);
            }
            w->raise2(&o, back);
            expect_lanes(w_name, "v_raise2", back, n, w->lanes);
        }
    }
}

static void whole_numbers_decide(void **state)
{
    EACH_WIDTH(w)
    {
        for (int round = 0; round < 2000; round++) {
            simd_operands o = { .count = draw(), .threshold = draw() & 0xffff };
            float got[SIMD_LANES_MAX], want[SIMD_LANES_MAX];
            for (int i = 0; i < w->lanes; i++) {
                const uint32_t product = ((uint32_t)i + (uint32_t)o.count) * 0x9e3779b9u;
                o.a[i] = any();
                want[i] = ((product ^ product >> 15) >> 3 & 0xffff) >= o.threshold ? o.a[i] : 0;
            }
            w->where(&o, got);
            expect_lanes(w_name, "v_where", got, want, w->lanes);
        }
    }
}

static void lanes_change_places(void **state)
{
    EACH_WIDTH(w)
    {
        float m[SIMD_LANES_MAX * SIMD_LANES_MAX], three[3 * SIMD_LANES_MAX], want[3 * SIMD_LANES_MAX];
        const int lanes = w->lanes;
        for (int i = 0; i < lanes * lanes; i++) m[i] = (float)i;
        w->transpose(m);
        for (int i = 0; i < lanes * lanes; i++) assert_true(m[i] == (float)(i % lanes * lanes + i / lanes));
        for (int i = 0; i < 3 * lanes; i++) {
            three[i] = (float)i;
            want[i] = (float)(i % 3 * lanes + i / 3);
        }
        w->interleave3(three);
        expect_lanes(w_name, "v_interleave3", three, want, 3 * lanes);
    }
}

static void labels_pick(void **state)
{
    EACH_WIDTH(w)
    {
        enum { CLASSES = 7 };
        const int lanes = w->lanes;
        float base[CLASSES * SIMD_LANES_MAX], got[3 * SIMD_LANES_MAX], want[3 * SIMD_LANES_MAX];
        for (int i = 0; i < CLASSES * lanes; i++) base[i] = any();
        for (int round = 0; round < 500; round++) {
            int32_t labels[SIMD_LANES_MAX];
            int same = 1;
            for (int i = 0; i < lanes; i++) {
                labels[i] = round % 2 && i ? labels[0] : (int32_t)(draw() % (CLASSES + 1)) - 1;
                if (round % 4 == 3 && i == lanes - 1) labels[i] = (labels[0] + 2) % CLASSES;
                const int valid = labels[i] >= 0;
                want[i] = valid ? base[labels[i]] : 0;
                want[lanes + i] = valid ? base[labels[i] * lanes + i] : 0;
                want[2 * lanes + i] = valid ? 1.0f : 0.0f;
                same &= labels[i] == labels[0];
            }
            w->pick(base, labels, got);
            expect_lanes(w_name, "v_pick", got, want, 3 * lanes);
            assert_int_equal(w->pick_same(labels), same);
        }
    }
}

static void squares_are_summed_in_double(void **state)
{
    EACH_WIDTH(w)
    {
        for (int round = 0; round < 500; round++) {
            float a[SIMD_LANES_MAX];
            double want = 0;
            for (int i = 0; i < w->lanes; i++) {
                a[i] = any();
                want += (double)a[i] * a[i];
            }
            assert_true(fabs(w->squares(a) - want) <= 1e-14 * want);
        }
    }
}

/* ---- e^x and ln x ---- */

/* Every 251st normal float. */
static void log_is_accurate(void **state)
{
    EACH_WIDTH(w)
    {
        double worst = 0;
        for (uint32_t bits = 0x00800000u; bits < 0x7f000000u; bits += 251 * (uint32_t)w->lanes) {
            simd_operands o = { .count = 0 };
            float got[SIMD_LANES_MAX];
            for (int i = 0; i < w->lanes; i++) o.a[i] = k_float(bits + 251 * (uint32_t)i);
            w->log(&o, got);
            for (int i = 0; i < w->lanes; i++) {
                const double want = log((double)o.a[i]), size = fmax(fabs(want), 0.5);
                worst = fmax(worst, fabs((double)got[i] - want) / size);
            }
        }
        print_message("# v_log of %s: largest error %.3g of the value, or of 0.5\n", w_name, worst);
        assert_true(worst < 2e-7);
    }
}

/* Every 251st float of the range: relative error as stated. */
static void exp_is_accurate_over_its_range(void **state)
{
    EACH_WIDTH(w)
    {
        double worst = 0;
        for (int sign = 0; sign < 2; sign++) {
            const uint32_t end = bits_of(sign ? 87.0f : 88.0f);
            for (uint32_t bits = 0; bits <= end; bits += 251 * (uint32_t)w->lanes) {
                simd_operands o = { .count = 0 };
                float got[SIMD_LANES_MAX];
                for (int i = 0; i < w->lanes; i++) {
                    const uint32_t at = bits + 251 * (uint32_t)i;
                    o.a[i] = k_float((at > end ? end : at) | (uint32_t)sign << 31);
                }
                w->exp(&o, got);
                for (int i = 0; i < w->lanes; i++) {
                    const double want = exp((double)o.a[i]), error = fabs((double)got[i] / want - 1);
                    worst = error > worst ? error : worst;
                }
            }
        }
        print_message("# v_exp of %s: largest relative error %.3g\n", w_name, worst);
        assert_true(worst < 2e-7);
    }
}

static void exp_ends_where_it_is_said_to(void **state)
{
    static const float below[] = { -87.3f, -88.0f, -104.0f, -1e30f, -INFINITY };
    static const float above[] = { 88.0f, 88.8f, 1e30f, INFINITY };
    EACH_WIDTH(w)
    {
        simd_operands o = { .count = 0 };
        float out[SIMD_LANES_MAX];
        for (size_t n = 0; n < sizeof below / sizeof *below; n++) {
            for (int i = 0; i < w->lanes; i++) o.a[i] = below[n];
            w->exp(&o, out);
            for (int i = 0; i < w->lanes; i++) assert_true(out[i] > 0 && out[i] < 2e-38f);
        }
        for (size_t n = 0; n < sizeof above / sizeof *above; n++) {
            for (int i = 0; i < w->lanes; i++) o.a[i] = above[n];
            w->exp(&o, out);
            for (int i = 0; i < w->lanes; i++) assert_true(fabsf(out[i] / 1.6516363e38f - 1) < 1e-6f);
        }
    }
}

/* ---- storage ---- */

/* Round to nearest, ties to even, to `mantissa` stored bits with exponents from `least` on (below it the step
 * stays that of `least`): by arithmetic in double, unlike the code under test. */
static double rounded(double value, int mantissa, int least)
{
    if (value == 0) return value;
    int exponent;
    frexp(value, &exponent); /* value in [2^(exponent - 1), 2^exponent) */
    exponent = exponent - 1 < least ? least : exponent - 1;
    return ldexp(nearbyint(ldexp(value, mantissa - exponent)), exponent - mantissa);
}

static double stored(float value, stk_float type)
{
    if (type == STK_F32) return (double)value;
    const double near = type == STK_BF16 ? rounded((double)value, 7, -126) : rounded((double)value, 10, -14);
    const double limit = type == STK_BF16 ? 0x1.fep127 : 65504;
    return fabs(near) > limit ? copysign((double)INFINITY, near) : near;
}

/* Values around every kind of step: random bits, ties and their neighbours, subnormals, the end, infinity. */
static float hard(stk_float type)
{
    const uint32_t kind = draw() % 6, sign = draw() & 0x80000000u;
    if (kind == 0) return k_float(sign | draw() % 0x7f800000u);
    if (kind == 1) return k_float(sign | 0x7f800000u);
    const uint32_t dropped = type == STK_BF16 ? 16 : 13;
    const uint32_t low = (1u << (dropped - 1)) + draw() % 3 - 1; /* the tie and both neighbours */
    if (kind == 2) return k_float(sign | (draw() % 0x7f7fu << 16) | low);
    if (kind == 3) return k_float(sign | (0x38000000u + ((draw() % 0x0f800u) << 13)) | low);
    if (kind == 4) { /* subnormals of f16: multiples of half a step */
        return copysignf(ldexpf((float)(draw() % 2050), -25), sign ? -1.0f : 1.0f);
    }
    return copysignf(65504.0f + (float)(draw() % 40), sign ? -1.0f : 1.0f);
}

static void conversions_round_to_nearest_even(void **state)
{
    EACH_WIDTH(w)
    {
        for (int type = STK_F32; type < STK_FLOATS; type++) {
            for (int round = 0; round < 20000; round++) {
                float in[SIMD_LANES_MAX], back[SIMD_LANES_MAX], want[SIMD_LANES_MAX];
                unsigned char memory[SIMD_LANES_MAX * 4], scalar[SIMD_LANES_MAX * 4];
                for (int i = 0; i < w->lanes; i++) {
                    in[i] = hard((stk_float)type);
                    want[i] = (float)stored(in[i], (stk_float)type);
                    stk_put(scalar, (size_t)i, in[i], (stk_float)type);
                }
                w->put[type](memory, 0, in);
                assert_memory_equal(memory, scalar,
                                    (size_t)w->lanes * stk_float_bytes((stk_float)type)); /* floats.h */
                w->get[type](memory, 0, back);
                expect_lanes(w_name, "v_put and v_get", back, want, w->lanes);
                for (int i = 0; i < w->lanes; i++) back[i] = stk_get(memory, (size_t)i, (stk_float)type);
                expect_lanes(w_name, "stk_get", back, want, w->lanes);
            }
        }
    }
}

/* A NaN that arithmetic makes stays one in the vector forms of all types and in the scalar f32 and bf16; the
 * scalar f16 makes it infinity. Either stops a run; neither becomes a number. */
static void nan_is_stored_as_no_number(void **state)
{
    EACH_WIDTH(w)
    {
        for (int type = STK_F32; type < STK_FLOATS; type++) {
            float in[SIMD_LANES_MAX], back[SIMD_LANES_MAX];
            uint32_t memory[SIMD_LANES_MAX];
            for (int i = 0; i < w->lanes; i++) in[i] = k_float(i % 2 ? 0x7fc00000u : 0xffc00000u);
            w->put[type](memory, 0, in);
            w->get[type](memory, 0, back);
            for (int i = 0; i < w->lanes; i++) assert_true(isnan(back[i]));
            for (int i = 0; i < w->lanes; i++) stk_put(memory, (size_t)i, in[i], (stk_float)type);
            for (int i = 0; i < w->lanes; i++)
                assert_false(isfinite(stk_get(memory, (size_t)i, (stk_float)type)));
        }
    }
}

static void one_element_fills_all_lanes(void **state)
{
    EACH_WIDTH(w)
    {
        for (int type = STK_F32; type < STK_FLOATS; type++) {
            uint32_t memory[4];
            float got[SIMD_LANES_MAX], want[SIMD_LANES_MAX];
            for (size_t i = 0; i < 4; i++) stk_put(memory, i, any(), (stk_float)type);
            for (size_t i = 0; i < 4; i++) {
                for (int lane = 0; lane < w->lanes; lane++) want[lane] = stk_get(memory, i, (stk_float)type);
                w->spread[type](memory, i, got);
                expect_lanes(w_name, "v_spread", got, want, w->lanes);
            }
        }
    }
}

/* All 65536 values of a 16-bit type come back as they were, NaN aside. */
static void every_half_survives(void **state)
{
    EACH_WIDTH(w)
    {
        for (int type = STK_BF16; type < STK_FLOATS; type++) {
            for (uint32_t bits = 0; bits < 65536; bits += (uint32_t)w->lanes) {
                uint16_t in[SIMD_LANES_MAX], out[SIMD_LANES_MAX];
                float wide[SIMD_LANES_MAX];
                for (int i = 0; i < w->lanes; i++) in[i] = (uint16_t)(bits + (uint32_t)i);
                w->get[type](in, 0, wide);
                w->put[type](out, 0, wide);
                for (int i = 0; i < w->lanes; i++) {
                    const float scalar = stk_get(in, (size_t)i, (stk_float)type);
                    if (isnan(scalar)) {
                        assert_true(isnan(wide[i]));
                        continue;
                    }
                    assert_true(bits_of(scalar) == bits_of(wide[i]));
                    assert_int_equal(out[i], in[i]);
                }
            }
        }
    }
}

/* Parts end where the memory does: the pages before and after are forbidden. */
static void parts_keep_to_their_elements(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *base = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(base != MAP_FAILED);
    assert_int_equal(mprotect(base, page, PROT_NONE), 0);
    assert_int_equal(mprotect(base + 2 * page, page, PROT_NONE), 0);
    EACH_WIDTH(w)
    {
        for (int type = STK_F32; type < STK_FLOATS; type++) {
            const size_t bytes = stk_float_bytes((stk_float)type), all = page / bytes;
            for (size_t count = 0; count <= (size_t)w->lanes; count++) {
                for (int end = 0; end < 2; end++) {
                    const size_t at = end ? all - count : 0;
                    void *array = base + page;
                    float in[SIMD_LANES_MAX], out[SIMD_LANES_MAX], want[SIMD_LANES_MAX] = { 0 };
                    memset(array, 0x3c, page);
                    for (int i = 0; i < w->lanes; i++) in[i] = (float)(1 + i);
                    for (size_t i = 0; i < count; i++) want[i] = in[i];
                    w->put_part[type](array, at, count, in);
                    w->get_part[type](array, at, count, out);
                    expect_lanes(w_name, "v_get_part", out, want, w->lanes);
                    const size_t from = at * bytes, to = (at + count) * bytes;
                    for (size_t i = 0; i < page; i++)
                        assert_true((i >= from && i < to) || base[page + i] == 0x3c);
                }
            }
        }
    }
    munmap(base, 3 * page);
}

UNIT_GROUP(simd)
{
    for (int i = 0; i < 3; i++) {
        const char *name;
        print_message("# %s: ", width_at(i, &name) ? "checked" : "not on this machine");
        print_message("%s\n", name);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_is_the_scalar_one),
        cmocka_unit_test(nan_goes_where_it_is_said_to),
        cmocka_unit_test(scale2_moves_the_exponent),
        cmocka_unit_test(sums_have_their_tree),
        cmocka_unit_test(powers_are_split_and_raised),
        cmocka_unit_test(whole_numbers_decide),
        cmocka_unit_test(lanes_change_places),
        cmocka_unit_test(labels_pick),
        cmocka_unit_test(squares_are_summed_in_double),
        cmocka_unit_test(log_is_accurate),
        cmocka_unit_test(exp_is_accurate_over_its_range),
        cmocka_unit_test(exp_ends_where_it_is_said_to),
        cmocka_unit_test(conversions_round_to_nearest_even),
        cmocka_unit_test(nan_is_stored_as_no_number),
        cmocka_unit_test(one_element_fills_all_lanes),
        cmocka_unit_test(every_half_survives),
        cmocka_unit_test(parts_keep_to_their_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
