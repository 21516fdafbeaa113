/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight and sixteen floats of a row at a time, with AVX2.
 */
#ifndef STOKE_SRC_PIX_X86_FLOATS_AVX2_H
#define STOKE_SRC_PIX_X86_FLOATS_AVX2_H

#include <immintrin.h>
#include <stddef.h>

#include "kernels/color_math.h"

#define AVX2   __attribute__((target("avx2,f16c")))
#define INLINE AVX2 static inline __attribute__((always_inline))

/* The first `left` of eight lanes. */
INLINE __m256i first_lanes(size_t left)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Eight floats, or the `left` there are: nothing past them is touched. In loops `left` is the constant 8. */
INLINE __m256 get8(const float *p, size_t left)
{
    return left >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first_lanes(left));
}

INLINE void set8(float *p, size_t left, __m256 v)
{
    if (left >= 8)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, first_lanes(left), v);
}

/* Eight whole numbers of 0..255 as bytes. */
INLINE void set8_bytes(uint8_t *p, __m256i whole)
{
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

/* As bfloat16: the upper half, rounded to nearest even. */
INLINE void set8_bf16(uint16_t *p, __m256 v)
{
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i round = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i top = _mm256_srli_epi32(_mm256_add_epi32(bits, round), 16);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packus_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1)));
}

/* As k_clamp: minps and maxps give the second operand when neither is smaller. */
INLINE __m256 clamp8(__m256 v)
{
    return _mm256_min_ps(_mm256_max_ps(v, _mm256_setzero_ps()), _mm256_set1_ps(255.0f));
}

/* a * b + c, rounded twice. */
INLINE __m256 mul_add(__m256 a, __m256 b, __m256 c)
{
    return _mm256_add_ps(_mm256_mul_ps(a, b), c);
}

/* ---- sixteen floats ----
 *
 * Long chains of operations are written for two registers side by side: the processor looks only so far ahead
 * for work that need not wait for the last result. Gamma of 512 samples: 1640 ticks of the time stamp counter
 * one register at a time, 1200 in pairs. */
typedef struct pair {
    __m256 v[2];
} pair;

INLINE pair pair_of(float v)
{
    return (pair){ { _mm256_set1_ps(v), _mm256_set1_ps(v) } };
}

INLINE pair pair_add(pair a, pair b)
{
    return (pair){ { _mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1]) } };
}

INLINE pair pair_sub(pair a, pair b)
{
    return (pair){ { _mm256_sub_ps(a.v[0], b.v[0]), _mm256_sub_ps(a.v[1], b.v[1]) } };
}

INLINE pair pair_mul(pair a, pair b)
{
    return (pair){ { _mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1]) } };
}

INLINE pair pair_max(pair a, pair b)
{
    return (pair){ { _mm256_max_ps(a.v[0], b.v[0]), _mm256_max_ps(a.v[1], b.v[1]) } };
}

/* a * b + c, rounded twice. */
INLINE pair pair_mul_add(pair a, pair b, pair c)
{
    return pair_add(pair_mul(a, b), c);
}

/* a * v + b of constants. */
INLINE pair pair_line(float a, pair v, float b)
{
    return pair_mul_add(pair_of(a), v, pair_of(b));
}

/* x = m * 2^e with m in [sqrt(1/2), sqrt(2)): f = m - 1, and e as a float. Normal positive x. */
INLINE pair pair_split(pair x, pair *e)
{
    pair m;
    for (int i = 0; i < 2; i++) {
        const __m256i bits = _mm256_castps_si256(x.v[i]);
        const __m256i k = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(K_HALF_ROOT_BITS)), 23);
        m.v[i] = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(k, 23)));
        e->v[i] = _mm256_cvtepi32_ps(k);
    }
    return pair_sub(m, pair_of(1.0f));
}

/* Sixteen floats, or the `left` there are. */
INLINE pair get16(const float *p, size_t left)
{
    return (pair){ { get8(p, left), left > 8 ? get8(p + 8, left - 8) : _mm256_setzero_ps() } };
}

INLINE void set16(float *p, size_t left, pair v)
{
    set8(p, left, v.v[0]);
    if (left > 8) set8(p + 8, left - 8, v.v[1]);
}

INLINE pair clamp16(pair v)
{
    return (pair){ { clamp8(v.v[0]), clamp8(v.v[1]) } };
}

#endif
