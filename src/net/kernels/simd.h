/* SPDX-License-Identifier: Apache-2.0
 *
 * One vector type for the kernels of the network: 8 lanes with AVX2 and FMA, 16 with AVX-512. A file *_simd.c
 * is written once against these names and compiled once per instruction set (meson.build); STK_SIMD(name)
 * gives its functions a suffix. Tests compile the 16-lane form a third time through SIMDe's emulation, so
 * that it is checked on processors that lack it.
 *
 * Reductions have a fixed tree. Conversions to 16 bits round to nearest even. Nothing here depends on
 * alignment.
 */
#ifndef STOKE_SRC_NET_KERNELS_SIMD_H
#define STOKE_SRC_NET_KERNELS_SIMD_H

#include "src/net/kernels/floats.h"

#if defined(STK_SIMD_EMULATED)
#include "src/net/kernels/simd_emulated.h"
#define STK_SIMD(name) name##_emulated
#elif defined(__AVX512F__)
#include <immintrin.h>
#define STK_SIMD(name) name##_avx512
#else
#include <immintrin.h>
#define STK_SIMD(name) name##_avx2
#endif

/* Inlined and unrolled everywhere, so that types and sizes are constants and sums stay in registers. Not
 * where every access becomes a call: with addresses checked, gemm_simd.c took 5 minutes to compile; emulated,
 * nearly so. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STK_SIMD_CHECKED
#endif
#endif
#if defined(STK_SIMD_EMULATED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STK_SIMD_CHECKED
#endif
#if defined(STK_SIMD_CHECKED)
#define STK_INLINE static inline __attribute__((unused))
#define STK_UNROLL(count)
#else
#define STK_INLINE        static inline __attribute__((always_inline, unused))
#define STK_PRAGMA(text)  _Pragma(#text)
#define STK_UNROLL(count) STK_PRAGMA(GCC unroll count)
#endif

/* CASE(h) for the height of a tile that is known only now, 1 to 14, with an h that the compiler knows. */
/* clang-format off */
#define STK_WITH_HEIGHT(height, CASE)                                                                        \
    switch (height) {                                                                                        \
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)                                              \
        CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)                                         \
    default: break;                                                                                          \
    }
/* clang-format on */

#if defined(__AVX512F__) || defined(STK_SIMD_EMULATED)
#include "src/net/kernels/simd16.h"
#else
#include "src/net/kernels/simd8.h"
#endif

STK_INLINE vf v_load(const float *p)
{
    return STK_MM(loadu_ps)(p);
}
STK_INLINE void v_store(float *p, vf a)
{
    STK_MM(storeu_ps)(p, a);
}
STK_INLINE vf v_set(float a)
{
    return STK_MM(set1_ps)(a);
}
STK_INLINE vf v_zero(void)
{
    return STK_MM(setzero_ps)();
}
STK_INLINE vf v_add(vf a, vf b)
{
    return STK_MM(add_ps)(a, b);
}
STK_INLINE vf v_sub(vf a, vf b)
{
    return STK_MM(sub_ps)(a, b);
}
STK_INLINE vf v_mul(vf a, vf b)
{
    return STK_MM(mul_ps)(a, b);
}
STK_INLINE vf v_div(vf a, vf b)
{
    return STK_MM(div_ps)(a, b);
}
STK_INLINE vf v_max(vf a, vf b)
{
    return STK_MM(max_ps)(a, b);
}
STK_INLINE vf v_min(vf a, vf b)
{
    return STK_MM(min_ps)(a, b);
}
/* a b + c */
STK_INLINE vf v_fma(vf a, vf b, vf c)
{
    return STK_MM(fmadd_ps)(a, b, c);
}
/* c - a b */
STK_INLINE vf v_fnma(vf a, vf b, vf c)
{
    return STK_MM(fnmadd_ps)(a, b, c);
}
STK_INLINE vf v_sqrt(vf a)
{
    return STK_MM(sqrt_ps)(a);
}
STK_INLINE vi vi_set(uint32_t a)
{
    return STK_MM(set1_epi32)((int)a);
}
STK_INLINE vi vi_add(vi a, vi b)
{
    return STK_MM(add_epi32)(a, b);
}
STK_INLINE vi vi_mul(vi a, vi b)
{
    return STK_MM(mullo_epi32)(a, b);
}
STK_INLINE vd vd_zero(void)
{
    return STK_MM(setzero_pd)();
}
STK_INLINE void vd_store(double *p, vd a)
{
    STK_MM(storeu_pd)(p, a);
}

/* a 2^n for whole n in -126..127. */
STK_INLINE vf v_scale2(vf a, vf n)
{
    return v_mul(a, v_of_bits(STK_MM(slli_epi32)(vi_add(STK_MM(cvtps_epi32)(n), vi_set(127)), 23)));
}

/* a > 0 as m 2^n with m in [0.707, 1.414]: returns m. */
STK_INLINE vf v_split2(vf a, vf *n)
{
    const vi power = STK_MM(srai_epi32)(STK_MM(sub_epi32)(v_bits(a), vi_set(0x3f3504f3)), 23);
    *n = STK_MM(cvtepi32_ps)(power);
    return v_of_bits(STK_MM(sub_epi32)(v_bits(a), STK_MM(slli_epi32)(power, 23)));
}

/* a 2^n for t = n + 1.5 * 2^23, as a sum with that number leaves it: the low bits of t are n. */
STK_INLINE vf v_raise2(vf a, vf t)
{
    return v_of_bits(vi_add(v_bits(a), STK_MM(slli_epi32)(v_bits(t), 23)));
}

/* Element i and the lanes after it of an array of `type`, which must be a constant where this is inlined. */
STK_INLINE vf v_get(const void *array, size_t i, stk_float type)
{
    if (type == STK_F32) return v_load((const float *)array + i);
    return type == STK_BF16 ? v_load_bf16((const uint16_t *)array + i)
                            : v_load_f16((const uint16_t *)array + i);
}

/* Element i in all lanes. */
STK_INLINE vf v_spread(const void *array, size_t i, stk_float type)
{
    if (type == STK_F32) return v_set(((const float *)array)[i]);
    return type == STK_BF16 ? v_set_bf16(((const uint16_t *)array)[i])
                            : v_set_f16(((const uint16_t *)array)[i]);
}

STK_INLINE void v_put(void *array, size_t i, vf value, stk_float type)
{
    if (type == STK_F32)
        v_store((float *)array + i, value);
    else if (type == STK_BF16)
        v_store_bf16((uint16_t *)array + i, value);
    else
        v_store_f16((uint16_t *)array + i, value);
}

/* The same for the first `count` <= STK_LANES lanes: the others are 0 when read and left alone when written.
 */
STK_INLINE vf v_get_part(const void *array, size_t i, size_t count, stk_float type)
{
    if (count >= STK_LANES) return v_get(array, i, type);
    if (type == STK_F32) return v_load_part((const float *)array + i, count);
    uint16_t lanes[STK_LANES] = { 0 };
    for (size_t k = 0; k < count; k++) lanes[k] = ((const uint16_t *)array)[i + k];
    return v_get(lanes, 0, type);
}

STK_INLINE void v_put_part(void *array, size_t i, size_t count, vf value, stk_float type)
{
    if (count >= STK_LANES) {
        v_put(array, i, value, type);
    } else if (type == STK_F32) {
        v_store_part((float *)array + i, count, value);
    } else {
        uint16_t lanes[STK_LANES];
        v_put(lanes, 0, value, type);
        for (size_t k = 0; k < count; k++) ((uint16_t *)array)[i + k] = lanes[k];
    }
}

/* e^x, relative error below 2e-7 for -87 <= x <= 88; below that 0 < result < 2e-38, above it 1.65e38; NaN for
 * NaN (the bounds come first: of two operands the processor takes the second when one is NaN), so that a run
 * that went wrong shows. Cephes' reduction x = n ln 2 + r in two steps, then its polynomial of degree 5 on
 * |r| <= 0.35. */
STK_INLINE vf v_exp(vf x)
{
    x = v_min(v_set(88.0f), v_max(v_set(-87.3f), x));
    const vf n = v_round(v_mul(x, v_set(1.44269504088896341f)));
    vf r = v_fnma(n, v_set(0.693359375f), x);
    r = v_fnma(n, v_set(-2.12194440e-4f), r);
    vf p = v_set(1.9875691500e-4f);
    p = v_fma(p, r, v_set(1.3981999507e-3f));
    p = v_fma(p, r, v_set(8.3334519073e-3f));
    p = v_fma(p, r, v_set(4.1665795894e-2f));
    p = v_fma(p, r, v_set(1.6666665459e-1f));
    p = v_fma(p, r, v_set(5.0000001201e-1f));
    p = v_add(v_fma(p, v_mul(r, r), r), v_set(1.0f));
    return v_scale2(p, n);
}

/* ln x for normal x > 0, relative error below 2e-7 away from x = 1, absolute below 1e-7 near it. Cephes'
 * polynomial of degree 9 on x = m 2^n, m - 1 in -0.29 .. 0.41. */
STK_INLINE vf v_log(vf x)
{
    vf n;
    const vf r = v_sub(v_split2(x, &n), v_set(1.0f)), square = v_mul(r, r);
    vf p = v_set(7.0376836292e-2f);
    p = v_fma(p, r, v_set(-1.1514610310e-1f));
    p = v_fma(p, r, v_set(1.1676998740e-1f));
    p = v_fma(p, r, v_set(-1.2420140846e-1f));
    p = v_fma(p, r, v_set(1.4249322787e-1f));
    p = v_fma(p, r, v_set(-1.6668057665e-1f));
    p = v_fma(p, r, v_set(2.0000714765e-1f));
    p = v_fma(p, r, v_set(-2.4999993993e-1f));
    p = v_fma(p, r, v_set(3.3333331174e-1f));
    p = v_mul(p, v_mul(r, square));
    p = v_fma(n, v_set(-2.12194440e-4f), p);
    p = v_fnma(square, v_set(0.5f), p);
    return v_fma(n, v_set(0.693359375f), v_add(r, p));
}

#endif
