/* SPDX-License-Identifier: Apache-2.0
 *
 * Resize passes of u8 pixels with AVX2. Both are sums of products of u8 pixels and int16 weights in int32,
 * which VPMADDWD does for two taps at once; sums of integers do not depend on their order, so the bytes are
 * the reference's.
 */
#include "src/pix/pix_table.h"

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

static inline int32_t load_i32(const void *p)
{
    int32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline void store_i32(void *p, int32_t value)
{
    memcpy(p, &value, sizeof value);
}

/* ---- horizontal, three channels ---- */

/* One register holds two rows, one per half: a row's half has the sums of R, G, B and an unused fourth. The
 * pixels of two taps are brought together as 16-bit pairs (R0 R1, G0 G1, B0 B1, 0 0) by one byte shuffle,
 * which also widens. */
#define PAIR(a, b) a, -1, b, -1, a + 1, -1, b + 1, -1, a + 2, -1, b + 2, -1, -1, -1, -1, -1

AVX2 static inline __m256i two_rows(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
                                   _mm_loadu_si128((const __m128i *)high), 1);
}

AVX2 static inline __m256i two_rows_short(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)low)),
                                   _mm_loadl_epi64((const __m128i *)high), 1);
}

/* Shifts, clamps and stores one pixel of four rows. Four bytes are written for three: the next pixel, or the
 * caller's last one, overwrites the fourth. */
AVX2 static inline void store_pixel(uint8_t *const dst[4], size_t at, __m256i sum02, __m256i sum13,
                                    __m128i shift)
{
    const __m256i words = _mm256_packs_epi32(_mm256_sra_epi32(sum02, shift), _mm256_sra_epi32(sum13, shift));
    const __m256i bytes = _mm256_packus_epi16(words, words);
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    store_i32(dst[0] + at, _mm_cvtsi128_si32(low));
    store_i32(dst[1] + at, _mm_extract_epi32(low, 1));
    store_i32(dst[2] + at, _mm_cvtsi128_si32(high));
    store_i32(dst[3] + at, _mm_extract_epi32(high, 1));
}

/* The first `n` outputs of four rows, any number of taps, four at a time: weights past count are zero. */
AVX2 static void h_many(uint8_t *const dst[4], const uint8_t *const src[4], const stk_pix_resize_axis *axis,
                        uint32_t n)
{
    const __m256i first = _mm256_setr_epi8(PAIR(0, 3), PAIR(0, 3)),
                  second = _mm256_setr_epi8(PAIR(6, 9), PAIR(6, 9));
    const __m256i half = _mm256_set1_epi32(1 << (axis->precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int)axis->precision);
    for (uint32_t i = 0; i < n; i++) {
        const int16_t *weight = axis->weight + (size_t)i * axis->taps;
        size_t at = (size_t)axis->start[i] * 3;
        __m256i sum02 = half, sum13 = half;
        for (uint32_t k = 0; k < axis->count[i]; k += 4, at += 12) {
            const __m256i w01 = _mm256_set1_epi32(load_i32(weight + k)),
                          w23 = _mm256_set1_epi32(load_i32(weight + k + 2));
            const __m256i rows02 = two_rows(src[0] + at, src[2] + at),
                          rows13 = two_rows(src[1] + at, src[3] + at);
            sum02 = _mm256_add_epi32(sum02, _mm256_madd_epi16(_mm256_shuffle_epi8(rows02, first), w01));
            sum13 = _mm256_add_epi32(sum13, _mm256_madd_epi16(_mm256_shuffle_epi8(rows13, first), w01));
            sum02 = _mm256_add_epi32(sum02, _mm256_madd_epi16(_mm256_shuffle_epi8(rows02, second), w23));
            sum13 = _mm256_add_epi32(sum13, _mm256_madd_epi16(_mm256_shuffle_epi8(rows13, second), w23));
        }
        store_pixel(dst, (size_t)i * 3, sum02, sum13, shift);
    }
}

/* The same for at most two taps: every enlargement. */
AVX2 static void h_two(uint8_t *const dst[4], const uint8_t *const src[4], const stk_pix_resize_axis *axis,
                       uint32_t n)
{
    const __m256i pair = _mm256_setr_epi8(PAIR(0, 3), PAIR(0, 3));
    const __m256i half = _mm256_set1_epi32(1 << (axis->precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int)axis->precision);
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = (size_t)axis->start[i] * 3;
        const __m256i weight = _mm256_set1_epi32(load_i32(axis->weight + (size_t)i * axis->taps));
        const __m256i rows02 = two_rows_short(src[0] + at, src[2] + at);
        const __m256i rows13 = two_rows_short(src[1] + at, src[3] + at);
        store_pixel(dst, (size_t)i * 3,
                    _mm256_add_epi32(half, _mm256_madd_epi16(_mm256_shuffle_epi8(rows02, pair), weight)),
                    _mm256_add_epi32(half, _mm256_madd_epi16(_mm256_shuffle_epi8(rows13, pair), weight)),
                    shift);
    }
}
#undef PAIR

/* How many outputs can be made without loading past the end of a row: start never falls, so it is the first
 * ones. The last output is never among them, so it is there to overwrite store_pixel's fourth byte. */
static uint32_t outputs_inside(const stk_pix_resize_axis *axis)
{
    const size_t bytes = (size_t)axis->in * 3;
    const size_t last_load = axis->most <= 2 ? 8 : ((size_t)axis->most + 3) / 4 * 12 - 12 + 16;
    uint32_t n = axis->out - 1;
    while (n && (size_t)axis->start[n - 1] * 3 + last_load > bytes) n--;
    return n;
}

AVX2 static void resize_h_u8c3(void *dst, size_t dst_stride, const void *src, size_t src_stride,
                               uint32_t rows, const stk_pix_resize_axis *axis)
{
    const uint32_t inside = outputs_inside(axis);
    for (uint32_t y = 0; y < rows && inside; y += 4) {
        uint8_t *out[4];
        const uint8_t *in[4];
        for (uint32_t i = 0; i < 4; i++) { /* a short block does its last row more than once */
            const size_t row = y + i < rows ? y + i : rows - 1;
            out[i] = (uint8_t *)dst + row * dst_stride;
            in[i] = (const uint8_t *)src + row * src_stride;
        }
        if (axis->most <= 2)
            h_two(out, in, axis, inside);
        else
            h_many(out, in, axis, inside);
    }
    stk_pix_resize_axis rest = *axis;
    rest.out -= inside;
    rest.start += inside;
    rest.count += inside;
    rest.weight += (size_t)inside * axis->taps;
    stk_pix_c.resize_h_u8c3((uint8_t *)dst + (size_t)inside * 3, dst_stride, src, src_stride, rows, &rest);
}

/* ---- vertical ---- */

/* 32 samples: rows are taken in pairs, interleaved to 16-bit pairs by unpacking, which packing at the end
 * undoes. */
AVX2 static inline void v_32(uint8_t *dst, const void *const *rows, size_t at, const int16_t *weight,
                             uint32_t count, __m256i half, __m128i shift)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i sum[4] = { half, half, half, half };
    for (uint32_t k = 0; k < count; k += 2) {
        /* An odd last row is paired with itself: weight[count] is zero. */
        const uint8_t *a = rows[k], *b = rows[k + 1 < count ? k + 1 : k];
        const __m256i w = _mm256_set1_epi32(load_i32(weight + k));
        const __m256i va = _mm256_loadu_si256((const __m256i *)(a + at));
        const __m256i vb = _mm256_loadu_si256((const __m256i *)(b + at));
        const __m256i low = _mm256_unpacklo_epi8(va, vb), high = _mm256_unpackhi_epi8(va, vb);
        sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), w));
        sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), w));
        sum[2] = _mm256_add_epi32(sum[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), w));
        sum[3] = _mm256_add_epi32(sum[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), w));
    }
    for (int i = 0; i < 4; i++) sum[i] = _mm256_sra_epi32(sum[i], shift);
    const __m256i words0 = _mm256_packs_epi32(sum[0], sum[1]), words1 = _mm256_packs_epi32(sum[2], sum[3]);
    _mm256_storeu_si256((__m256i *)(dst + at), _mm256_packus_epi16(words0, words1));
}

AVX2 static void resize_v_u8(void *dst, const void *const *rows, size_t samples,
                             const stk_pix_resize_axis *axis, uint32_t y)
{
    if (samples < 32) {
        stk_pix_c.resize_v_u8(dst, rows, samples, axis, y);
        return;
    }
    const __m256i half = _mm256_set1_epi32(1 << (axis->precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int)axis->precision);
    const int16_t *weight = axis->weight + (size_t)y * axis->taps;
    const uint32_t count = axis->count[y];
    for (size_t at = 0; at + 32 <= samples; at += 32) v_32(dst, rows, at, weight, count, half, shift);
    if (samples % 32)
        v_32(dst, rows, samples - 32, weight, count, half, shift); /* once more over the overlap */
}

void stk_pix_fill_resize_avx2(stk_pix_table *table)
{
    table->resize_h_u8c3 = resize_h_u8c3;
    table->resize_v_u8 = resize_v_u8;
}
