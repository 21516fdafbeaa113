/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight floats of a row at a time, with AVX2: the end of a row, the clamp.
 */
#ifndef STOKE_SRC_PIX_X86_FLOATS_AVX2_H
#define STOKE_SRC_PIX_X86_FLOATS_AVX2_H

#include <immintrin.h>
#include <stddef.h>

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

/* As stk_clamp: minps and maxps give the second operand when neither is smaller. */
INLINE __m256 clamp8(__m256 v)
{
    return _mm256_min_ps(_mm256_max_ps(v, _mm256_setzero_ps()), _mm256_set1_ps(255.0f));
}

/* a * b + c, rounded twice. */
INLINE __m256 mul_add(__m256 a, __m256 b, __m256 c)
{
    return _mm256_add_ps(_mm256_mul_ps(a, b), c);
}

/* a * v + b of constants. */
INLINE __m256 line(float a, __m256 v, float b)
{
    return mul_add(_mm256_set1_ps(a), v, _mm256_set1_ps(b));
}

#endif
