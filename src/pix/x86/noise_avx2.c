/* SPDX-License-Identifier: Apache-2.0
 *
 * Gaussian noise with AVX2: sixteen words at a time make the normals of 32 columns.
 */
#include "src/pix/pix_table.h"
#include "src/pix/touch_math.h"
#include "src/pix/x86/floats_avx2.h"

/* ---- words ---- */

/* Words `first` .. `first` + 15 of a row: stk_noise_word. */
INLINE void words_16(uint32_t first, const stk_noise *noise, __m256i word[2])
{
    const uint32_t step = STK_NOISE_STEP;
    const __m256i lanes =
        _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int)step));
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t start = (first + 8 * i) * step + noise->key[0];
        __m256i x = _mm256_add_epi32(lanes, _mm256_set1_epi32((int)start));
        x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
        x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)STK_NOISE_STIR0));
        x = _mm256_xor_si256(x, _mm256_set1_epi32((int)noise->key[1]));
        x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
        x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)STK_NOISE_STIR1));
        word[i] = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
    }
}

/* ---- Box and Muller ---- */

/* a times the radius, negative in the second half of the circle. */
INLINE pair radius_of(const __m256i word[2], pair a)
{
    pair u, e, radius;
    for (int i = 0; i < 2; i++) {
        const __m256i odd = _mm256_or_si256(_mm256_srli_epi32(word[i], 15), _mm256_set1_epi32(1));
        u.v[i] = _mm256_cvtepi32_ps(odd);
    }
    const pair f = pair_split(pair_mul(u, pair_of(1.0f / 131072.0f)), &e), f2 = pair_mul(f, f);
    const pair p01 = pair_line(STK_RADIUS_1, f, STK_RADIUS_0), p23 = pair_line(STK_RADIUS_3, f, STK_RADIUS_2);
    const pair p = pair_mul_add(pair_mul_add(pair_of(STK_RADIUS_4), f2, p23), f2, p01);
    const pair square = pair_mul_add(p, f, pair_mul(e, pair_of(STK_RADIUS_E)));
    for (int i = 0; i < 2; i++) {
        const __m256i half = _mm256_and_si256(_mm256_slli_epi32(word[i], 16), _mm256_set1_epi32(INT32_MIN));
        radius.v[i] =
            _mm256_xor_ps(_mm256_mul_ps(a.v[i], _mm256_sqrt_ps(square.v[i])), _mm256_castsi256_ps(half));
    }
    return radius;
}

/* The first normals of both words' lanes and the second ones. */
INLINE void two_normals(const __m256i word[2], pair a, pair *first, pair *second)
{
    const pair radius = radius_of(word, a);
    pair t;
    for (int i = 0; i < 2; i++) {
        const __m256i place = _mm256_or_si256(_mm256_slli_epi32(word[i], 17), _mm256_set1_epi32(0x10000));
        t.v[i] = _mm256_cvtepi32_ps(place);
    }
    t = pair_mul(t, pair_of(1.0f / 2147483648.0f));
    const pair t2 = pair_mul(t, t);
    pair sine = pair_line(STK_SIN_3, t2, STK_SIN_2), cosine = pair_line(STK_COS_3, t2, STK_COS_2);
    sine = pair_mul_add(sine, t2, pair_of(STK_SIN_1));
    cosine = pair_mul_add(cosine, t2, pair_of(STK_COS_1));
    sine = pair_mul_add(sine, t2, pair_of(STK_SIN_0));
    cosine = pair_mul_add(cosine, t2, pair_of(STK_COS_0));
    *first = pair_mul(radius, cosine);
    *second = pair_mul(pair_mul(radius, t), sine);
}

/* ---- rows ---- */

INLINE void add_8(float *p, size_t left, __m256 normal, __m256 b)
{
    set8(p, left, clamp8(_mm256_add_ps(get8(p, left), _mm256_add_ps(normal, b))));
}

/* 32 columns from x on, or the `left` there are. */
INLINE void add_32(float *plane, size_t x, size_t left, const stk_noise *noise, pair a, __m256 b)
{
    float *p = plane + x;
    __m256i word[2];
    pair first, second;
    words_16((uint32_t)(x / STK_NOISE_GROUP * STK_NOISE_LANES), noise, word);
    two_normals(word, a, &first, &second);
    add_8(p, left, first.v[0], b);
    if (left > 8) add_8(p + 8, left - 8, second.v[0], b);
    if (left > 16) add_8(p + 16, left - 16, first.v[1], b);
    if (left > 24) add_8(p + 24, left - 24, second.v[1], b);
}

AVX2 static void noise_row(float *plane, size_t n, const stk_noise *noise)
{
    const pair a = pair_of(noise->a);
    const __m256 b = _mm256_set1_ps(noise->b);
    size_t x = 0;
    for (; x + 32 <= n; x += 32) add_32(plane, x, 32, noise, a, b);
    if (x < n) add_32(plane, x, n - x, noise, a, b);
}

void stk_pix_fill_noise_avx2(stk_pix_table *table)
{
    table->noise = noise_row;
}
