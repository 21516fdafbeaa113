/* SPDX-License-Identifier: Apache-2.0
 *
 * What the writers with AVX2 and F16C share: eight samples to elements of a batch, interleaved pixels to
 * planes. Products and sums are rounded one by one, which is why no function may be compiled with FMA.
 */
#ifndef STOKE_SRC_PIX_X86_ELEMENTS_AVX2_H
#define STOKE_SRC_PIX_X86_ELEMENTS_AVX2_H

#include <immintrin.h>

#include "src/pix/pix_table.h"
#include "src/pix/x86/floats_avx2.h"

/* ---- eight elements ---- */

/* The constants of eight neighbouring elements. */
typedef struct norm {
    __m256 high, high_bias, low, low_bias;
} norm;

INLINE norm norm_of_channel(const stk_pix_writer *w, int c)
{
    return (norm){ _mm256_set1_ps(w->high[c]), _mm256_set1_ps(w->high_bias[c]), _mm256_set1_ps(w->low[c]),
                   _mm256_set1_ps(w->low_bias[c]) };
}

/* Interleaved elements from `first` (0, 8 or 16) on. */
INLINE norm norm_of_mix(const stk_pix_writer *w, int first)
{
    return (norm){ _mm256_loadu_ps(w->high + first), _mm256_loadu_ps(w->high_bias + first),
                   _mm256_loadu_ps(w->low + first), _mm256_loadu_ps(w->low_bias + first) };
}

/* Eight samples as elements i .. i + 7 of dst. U8 takes them rounded to nearest, as they are. dtype is a
 * constant at every call. */
INLINE void put8(void *dst, size_t i, __m256 v, norm n, stoke_dtype dtype)
{
    if (dtype == STOKE_DTYPE_U8) {
        const __m256i whole = _mm256_cvtps_epi32(v);
        const __m128i words =
            _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
        _mm_storel_epi64((__m128i *)((uint8_t *)dst + i), _mm_packus_epi16(words, words));
        return;
    }
    const __m256 high = _mm256_add_ps(_mm256_mul_ps(v, n.high), n.high_bias);
    const __m256 low = _mm256_add_ps(_mm256_mul_ps(v, n.low), n.low_bias);
    const __m256 x = _mm256_add_ps(high, low);
    if (dtype == STOKE_DTYPE_F32) {
        _mm256_storeu_ps((float *)dst + i, x);
    } else if (dtype == STOKE_DTYPE_F16) {
        _mm_storeu_si128((__m128i *)((uint16_t *)dst + i), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    } else { /* BF16: the upper half, rounded to nearest even */
        const __m256i bits = _mm256_castps_si256(x);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i round = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
        const __m256i top = _mm256_srli_epi32(_mm256_add_epi32(bits, round), 16);
        const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
        _mm_storeu_si128((__m128i *)((uint16_t *)dst + i), words);
    }
}

/* 16 bytes here, 16 bytes 48 further: the same third of two blocks of 16 pixels. */
INLINE __m256i load_thirds(const uint8_t *p)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
                                   _mm_loadu_si128((const __m128i *)(p + 48)), 1);
}

/* 32 pixels to three registers of 32 bytes. In every 48 bytes the 16 samples of a channel stand at 16
 * different positions modulo 16, so two blends collect them in one register and one shuffle puts them in
 * order. */
INLINE void planes_32(const uint8_t *src, __m256i plane[3])
{
    const __m256i a = load_thirds(src), b = load_thirds(src + 16), c = load_thirds(src + 32);
    const __m256i every0 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1)); /* positions 0, 3, 6, ... */
    const __m256i every1 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
    const __m256i every2 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));
    const __m256i order0 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13));
    const __m256i order1 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14));
    const __m256i order2 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(2, 5, 8, 11, 14, 1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15));
    /* R of the first 16 bytes stands at 0, 3, ...; of the second at 2, 5, ...; of the third at 1, 4, ...; and
     * so on. */
    const __m256i red = _mm256_blendv_epi8(_mm256_blendv_epi8(c, b, every2), a, every0);
    const __m256i green = _mm256_blendv_epi8(_mm256_blendv_epi8(c, b, every0), a, every1);
    const __m256i blue = _mm256_blendv_epi8(_mm256_blendv_epi8(c, b, every1), a, every2);
    plane[0] = _mm256_shuffle_epi8(red, order0);
    plane[1] = _mm256_shuffle_epi8(green, order1);
    plane[2] = _mm256_shuffle_epi8(blue, order2);
}

#endif
