/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixing rows with AVX2 and F16C, eight elements at a time. What is left over goes to the reference.
 */
#include "src/pix/pix_table.h"

#include "src/pix/x86/floats_avx2.h"

INLINE __m256 blend8(__m256 own, __m256 other, float lambda)
{
    return _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(lambda), own),
                         _mm256_mul_ps(_mm256_set1_ps(1.0f - lambda), other));
}

AVX2 static void mix_f32(void *own, const void *other, size_t n, float lambda)
{
    float *a = own;
    const float *b = other;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(a + i, blend8(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), lambda));
    stk_mix_f32_c(a + i, b + i, n - i, lambda);
}

INLINE __m256 load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

AVX2 static void mix_u8(void *own, const void *other, size_t n, float lambda)
{
    uint8_t *a = own;
    const uint8_t *b = other;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 v = _mm256_add_ps(blend8(load_u8(a + i), load_u8(b + i), lambda), _mm256_set1_ps(0.5f));
        set8_bytes(a + i, _mm256_cvttps_epi32(v));
    }
    stk_mix_u8_c(a + i, b + i, n - i, lambda);
}

INLINE __m256 load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

AVX2 static void mix_f16(void *own, const void *other, size_t n, float lambda)
{
    uint16_t *a = own;
    const uint16_t *b = other;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 v = blend8(load_f16(a + i), load_f16(b + i), lambda);
        _mm_storeu_si128((__m128i *)(a + i), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    }
    stk_mix_f16_c(a + i, b + i, n - i, lambda);
}

INLINE __m256 load_bf16(const uint16_t *p)
{
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

AVX2 static void mix_bf16(void *own, const void *other, size_t n, float lambda)
{
    uint16_t *a = own;
    const uint16_t *b = other;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) set8_bf16(a + i, blend8(load_bf16(a + i), load_bf16(b + i), lambda));
    stk_mix_bf16_c(a + i, b + i, n - i, lambda);
}

void stk_pix_fill_mix_avx2(stk_pix_table *table)
{
    table->mix[STOKE_DTYPE_U8] = mix_u8;
    table->mix[STOKE_DTYPE_F32] = mix_f32;
    table->mix[STOKE_DTYPE_F16] = mix_f16;
    table->mix[STOKE_DTYPE_BF16] = mix_bf16;
}
