/* SPDX-License-Identifier: Apache-2.0
 *
 * AVX-512 on a processor that has only AVX2, for tests: SIMDe's emulation, and what Debian 12's SIMDe (0.7)
 * lacks, or does otherwise (the absolute value of -0), of what simd16.h uses. Lanes that a mask leaves out
 * are not touched, as on the real thing.
 */
#ifndef STOKE_SRC_NET_KERNELS_SIMD_EMULATED_H
#define STOKE_SRC_NET_KERNELS_SIMD_EMULATED_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

typedef union stk_emulated {
    __m512 f;
    __m512i i;
    __m512d d;
    __m256 fh[2];
    __m256i ih[2];
    __m256d dh[2];
    __m128 fq[4];
    __m128i quarter[4];
    float lane[16];
    int32_t whole[16];
    uint16_t word[32];
} stk_emulated;

#define STK_EMULATED static inline __attribute__((unused))

STK_EMULATED __m512 stk_emulated_load(__mmask16 mask, const void *from)
{
    stk_emulated to = { .lane = { 0 } };
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy(&to.lane[i], (const float *)from + i, sizeof(float));
    return to.f;
}

STK_EMULATED void stk_emulated_store(void *to, __mmask16 mask, __m512 a)
{
    const stk_emulated from = { .f = a };
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy((float *)to + i, &from.lane[i], sizeof(float));
}

STK_EMULATED __m512i stk_emulated_cvtps_epi32(__m512 a)
{
    const stk_emulated from = { .f = a };
    return (stk_emulated){ .ih = { _mm256_cvtps_epi32(from.fh[0]), _mm256_cvtps_epi32(from.fh[1]) } }.i;
}

STK_EMULATED __m512 stk_emulated_cvtepi32_ps(__m512i a)
{
    const stk_emulated from = { .i = a };
    return (stk_emulated){ .fh = { _mm256_cvtepi32_ps(from.ih[0]), _mm256_cvtepi32_ps(from.ih[1]) } }.f;
}

STK_EMULATED __m512d stk_emulated_cvtps_pd(__m256 a)
{
    return (stk_emulated){
        .dh = { _mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)) }
    }.d;
}

STK_EMULATED __m512i stk_emulated_srai_epi32(__m512i a, unsigned count)
{
    const stk_emulated from = { .i = a };
    return (stk_emulated){
        .ih = { _mm256_srai_epi32(from.ih[0], (int)count), _mm256_srai_epi32(from.ih[1], (int)count) }
    }.i;
}

STK_EMULATED __m512 stk_emulated_shuffle_f32x4(__m512 a, __m512 b, int which)
{
    const stk_emulated x = { .f = a }, y = { .f = b };
    return (stk_emulated){
        .fq = { x.fq[which & 3], x.fq[which >> 2 & 3], y.fq[which >> 4 & 3], y.fq[which >> 6 & 3] }
    }.f;
}

STK_EMULATED __m512 stk_emulated_gather(__m512 otherwise, __mmask16 mask, __m512i at, const void *base)
{
    const stk_emulated from = { .i = at };
    stk_emulated to = { .f = otherwise };
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy(&to.lane[i], (const float *)base + from.whole[i], sizeof(float));
    return to.f;
}

STK_EMULATED __m512 stk_emulated_abs(__m512 a)
{
    stk_emulated x = { .f = a };
    for (int i = 0; i < 32; i += 2) x.word[i + 1] &= 0x7fff;
    return x.f;
}

STK_EMULATED __m256 stk_emulated_half(__m512 a, int which)
{
    return (stk_emulated){ .f = a }.fh[which];
}

STK_EMULATED __m512i stk_emulated_cvtepu16_epi32(__m256i a)
{
    return (stk_emulated){
        .ih = { _mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)),
                _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1)) }
    }.i;
}

STK_EMULATED __m256i stk_emulated_cvtepi32_epi16(__m512i a)
{
    const stk_emulated from = { .i = a };
    stk_emulated to = { .lane = { 0 } };
    for (int i = 0; i < 16; i++) to.word[i] = from.word[2 * i];
    return to.ih[0];
}

STK_EMULATED __m512 stk_emulated_cvtph_ps(__m256i a)
{
    return (stk_emulated){
        .fh = { _mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)) }
    }.f;
}

STK_EMULATED __m256i stk_emulated_cvtps_ph(__m512 a)
{
    const stk_emulated from = { .f = a };
    return (stk_emulated){
        .quarter = { _mm256_cvtps_ph(from.fh[0], _MM_FROUND_TO_NEAREST_INT),
                     _mm256_cvtps_ph(from.fh[1], _MM_FROUND_TO_NEAREST_INT) }
    }.ih[0];
}

#undef _mm512_extractf32x8_ps /* macros in clang */
#undef _mm512_cvtps_ph
#undef _mm512_abs_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_mask_i32gather_ps
#define _mm512_abs_ps          stk_emulated_abs
#define _mm512_maskz_loadu_ps  stk_emulated_load
#define _mm512_mask_storeu_ps  stk_emulated_store
#define _mm512_cvtps_epi32     stk_emulated_cvtps_epi32
#define _mm512_extractf32x8_ps stk_emulated_half
#define _mm512_cvtepu16_epi32  stk_emulated_cvtepu16_epi32
#define _mm512_cvtepi32_epi16  stk_emulated_cvtepi32_epi16
#define _mm512_cvtepi32_ps     stk_emulated_cvtepi32_ps
#define _mm512_cvtps_pd        stk_emulated_cvtps_pd
#define _mm512_srai_epi32      stk_emulated_srai_epi32
#define _mm512_shuffle_f32x4   stk_emulated_shuffle_f32x4
/* Of floats, four bytes each. */
#define _mm512_mask_i32gather_ps(otherwise, mask, at, base, scale)                                           \
    stk_emulated_gather(otherwise, mask, at, base)
#define _mm512_cvtph_ps stk_emulated_cvtph_ps
/* To nearest is all that is asked for. */
#define _mm512_cvtps_ph(a, rounding) stk_emulated_cvtps_ph(a)

#endif
